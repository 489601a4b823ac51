/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  The hash of a Program's shape.
 *
 * Two Programs have one shape if the same compiled kernel serves both: all but
 * the parameters' values and NULL flags and what sets contain.  FNV-1a of 64
 * bits over the header's fields and the arrays; collisions are the cache's to
 * rule out where they would matter.
 *
 *-------------------------------------------------------------------------
 */
#include "program/program.h"

static uint64_t
add(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001B3;
	return hash;
}

uint64_t
gpuscan_program_hash(const GpuScanProgram *p)
{
	const uint32_t header[] = {p->version, p->aggregate, p->nregs,	p->ncolumns,
							   p->ninputs, p->nparams,	 p->nsets,	p->ninstrs,
							   p->nkeys,   p->naggs,	 p->filter, p->row_size};
	uint64_t hash = add(0xCBF29CE484222325, header, sizeof(header));

	hash = add(hash, GPUSCAN_REG_CLASSES(p), p->nregs);
	hash = add(hash, GPUSCAN_INPUTS(p), p->ninputs * sizeof(GpuScanInput));
	for (int i = 0; i < p->nparams; i++)
		hash = add(hash, &GPUSCAN_PARAMS(p)[i].reg, sizeof(uint16_t));
	for (int i = 0; i < p->nsets; i++)
		hash = add(hash, &GPUSCAN_SETS(p)[i].cls, sizeof(uint16_t));
	hash = add(hash, GPUSCAN_INSTRS(p), p->ninstrs * sizeof(GpuScanInstr));
	hash = add(hash, GPUSCAN_KEYS(p), p->nkeys * sizeof(GpuScanKey));
	return add(hash, GPUSCAN_AGGS(p), p->naggs * sizeof(GpuScanAgg));
}
