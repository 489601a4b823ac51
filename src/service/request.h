/*-------------------------------------------------------------------------
 *
 * request.h
 *	  The service's side of requests; see request.c.  Main thread only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_REQUEST_H
#define GPUSCAN_REQUEST_H

#include "gpuscan.h"

/*
 * Prepares for requests of service `generation`, which may use `threads` threads
 * of a device.  `wake` is called by device threads after they have news: it makes
 * the main thread call gpuscan_request_serve_all, and may call nothing of
 * PostgreSQL's.
 */
extern void gpuscan_request_setup(uint32 threads, uint32 generation, void (*wake)(void));

/* True if a backend or a device thread has news.  Never false by mistake. */
extern bool gpuscan_request_is_pending(void);

/* Serves each request that has news. */
extern void gpuscan_request_serve_all(void);

#endif /* GPUSCAN_REQUEST_H */
