/*-------------------------------------------------------------------------
 *
 * gpuscan.h
 *	  What every PostgreSQL-side part of gpuscan shares: settings (guc.c) and
 *	  the calls of init.c.  Devices do not include this.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_H
#define GPUSCAN_H

#include "postgres.h"

/* guc.c, in the order of docs/settings.md */
extern bool gpuscan_enabled;			   /* gpuscan.enabled */
extern bool gpuscan_force;				   /* gpuscan.force */
extern bool gpuscan_explain_rejected;	   /* gpuscan.explain_rejected */
extern char *gpuscan_device;			   /* gpuscan.device; see service/devices.h */
extern int gpuscan_device_memory_limit;	   /* gpuscan.device_memory_limit, MB; 0: most of it */
extern int gpuscan_device_cache_size;	   /* gpuscan.device_cache_size, MB; -1: half of that */
extern int gpuscan_max_device_failures;	   /* gpuscan.max_device_failures */
extern int gpuscan_kernel_cache_size;	   /* gpuscan.kernel_cache_size, MB; 0: none */
extern int gpuscan_cpu_threads;			   /* gpuscan.cpu_threads; 0: every core */
extern int gpuscan_cpu_memory_limit;	   /* gpuscan.cpu_memory_limit, MB */
extern int gpuscan_cpu_cache_size;		   /* gpuscan.cpu_cache_size, MB */
extern int gpuscan_cache_refresh_interval; /* gpuscan.cache_refresh_interval, s; 0: never */
extern int gpuscan_query_memory_limit;	   /* gpuscan.query_memory_limit, MB */
extern int gpuscan_max_requests;		   /* gpuscan.max_requests */
extern double gpuscan_request_cost;		   /* gpuscan.request_cost */
extern double gpuscan_tuple_cost;		   /* gpuscan.tuple_cost */
extern double gpuscan_operator_cost;	   /* gpuscan.operator_cost */
extern char *gpuscan_inject_fault;		   /* gpuscan.inject_fault; see service/fault.c */

extern void gpuscan_define_settings(void);

#endif /* GPUSCAN_H */
