/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  The hash of a Program's shape.
 *
 * Two Programs have one shape if the same compiled kernel serves both: all but
 * the parameters' values and NULL flags and what sets and lists contain.  FNV-1a of 64
 * bits over the header's fields and the arrays; collisions are the cache's to
 * rule out where they would matter.
 *
 *-------------------------------------------------------------------------
 */
#include "program/bytes.h"
#include "program/program.h"

uint64_t
gpuscan_program_hash(const GpuScanProgram *p)
{
	const uint32_t header[] = {p->version, p->aggregate, p->nregs,	 p->ncolumns, p->ninputs,
							   p->nparams, p->nsets,	 p->nlists,	 p->ninstrs,  p->nkeys,
							   p->naggs,   p->filter,	 p->row_size};
	uint64_t hash = bytes_fnv(BYTES_FNV_START, header, sizeof(header));

	hash = bytes_fnv(hash, GPUSCAN_REG_CLASSES(p), p->nregs);
	hash = bytes_fnv(hash, GPUSCAN_INPUTS(p), p->ninputs * sizeof(GpuScanInput));
	for (int i = 0; i < p->nparams; i++)
		hash = bytes_fnv(hash, &GPUSCAN_PARAMS(p)[i].reg, sizeof(uint16_t));
	for (int i = 0; i < p->nsets; i++)
		hash = bytes_fnv(hash, &GPUSCAN_SETS(p)[i].cls, sizeof(uint16_t));
	for (int i = 0; i < p->nlists; i++)
		hash = bytes_fnv(hash, &GPUSCAN_LISTS(p)[i].cls, sizeof(uint16_t));
	hash = bytes_fnv(hash, GPUSCAN_INSTRS(p), p->ninstrs * sizeof(GpuScanInstr));
	hash = bytes_fnv(hash, GPUSCAN_KEYS(p), p->nkeys * sizeof(GpuScanKey));
	return bytes_fnv(hash, GPUSCAN_AGGS(p), p->naggs * sizeof(GpuScanAgg));
}
