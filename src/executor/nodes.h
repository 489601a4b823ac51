/*-------------------------------------------------------------------------
 *
 * nodes.h
 *	  The executor nodes, and what they share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_NODES_H
#define GPUSCAN_NODES_H

#include "gpuscan.h"

#include "commands/explain.h"
#include "executor/feed.h"
#include "heap/heap.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "program/compile.h"
#include "service/client.h"

extern const CustomScanMethods gpuscan_scan_methods;
extern const CustomScanMethods gpuscan_agg_methods;

/*
 * One execution of a node on a device, from its start or rescan to its end.
 * Everything of it lives in `context`; resetting that drops the request.
 */
typedef struct GpuScanRun
{
	MemoryContext context;
	GpuScanCompiled *compiled;
	GpuScanLayout **layouts; /* of each relation */
	GpuScanClient *client;
	GpuScanFeed feed;
	uint64 groups_expected;		  /* by the planner; 0: unknown */
	const char *device;			  /* it had better run there; NULL: anywhere */
	struct GpuScanResult *result; /* of an aggregation whose request has ended */
} GpuScanRun;

/* What EXPLAIN ANALYZE says, summed over all executions of the node. */
typedef struct GpuScanCounters
{
	GpuScanFeedCounters feed;
	uint64 rechecked; /* tuples whose conditions PostgreSQL evaluated */
	uint64 workers;	  /* launched to read the input */
	GpuScanRequestStats stats;
	uint64 evaluated;	/* values of columns, for which PostgreSQL evaluated expressions */
	uint32 passes;		/* of an aggregation over its input, at the most */
	const char *device; /* or NULL */
} GpuScanCounters;

/* The state of both nodes starts with this. */
typedef struct GpuScanNodeState
{
	CustomScanState css;
	GpuScanRun *run;			 /* while one is open */
	const char *replaced_reason; /* why the replaced plan ran last, or NULL */
	Relation parent;			 /* that expressions speak of, once it is started */
	List *scanned;				 /* relations */
	List *valued;				 /* attributes whose values may be asked for */
	List *column_values;		 /* column_values.c's, of the whole execution of the plan */
	GpuScanCounters counters;
	bool loads_first;	   /* what is missing of expressions, and has not yet */
	const char *loaded_on; /* the device that it has loaded it on, or NULL */
	bool started;
	bool finished; /* every row was returned; the run is closed */
	int eflags;
} GpuScanNodeState;

/* register.c */
extern void gpuscan_nodes_register(void);

/* run.c */
extern void gpuscan_run_open(GpuScanNodeState *node, const GpuScanCompileInput *input,
							 Relation parent, List *relations);
extern GpuScanRun *gpuscan_run_begin(GpuScanNodeState *node, const GpuScanCompileInput *input,
									 uint64 groups_expected, const char **reason);
extern bool gpuscan_run_feed(GpuScanNodeState *node, GpuScanRun *run);
extern bool gpuscan_run_aggregate(GpuScanNodeState *node, GpuScanRun *run);
extern const char *gpuscan_run_end(GpuScanRun *run, GpuScanFeedCounters *counters);
extern bool gpuscan_run_start_over(GpuScanNodeState *node, GpuScanPass pass, const char **reason);
extern void gpuscan_run_end_request(GpuScanNodeState *node);
extern void gpuscan_run_close(GpuScanNodeState *node);

/* parameter.c */
extern bool gpuscan_parameter_evaluate(void *node, Expr *expr, Datum *value, bool *isnull);
extern void
gpuscan_parameter_evaluate_each(void *node, Expr *expr, const GpuScanColumnValues *values,
								Datum *results, uint8 *flags);

/* column_values.c */
extern const GpuScanColumnValues *
gpuscan_column_values(void *node, const Var *column, const char **reason);

/* replaced_plan.c */
extern void gpuscan_replaced_start(GpuScanNodeState *node, const char *reason);
extern TupleTableSlot *gpuscan_replaced_next(GpuScanNodeState *node);
extern void gpuscan_node_force_projection(GpuScanNodeState *node, TupleDesc tupdesc);
extern void gpuscan_node_end(GpuScanNodeState *node);
extern void gpuscan_node_rescan(GpuScanNodeState *node);

/* explain.c */
extern void gpuscan_explain_install(void);
extern void gpuscan_explain_node(GpuScanNodeState *node, ExplainState *es);
extern void gpuscan_explain_expressions(const char *label, List *exprs, GpuScanNodeState *node,
										List *ancestors, ExplainState *es);
extern void gpuscan_explain_relations(List *relations, ExplainState *es);

#endif /* GPUSCAN_NODES_H */
