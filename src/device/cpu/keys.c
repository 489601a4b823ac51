/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  The keys of a chunk, normalized and hashed column by column.
 *
 * Every key becomes words that are equal exactly where PostgreSQL calls the
 * keys equal: integers as int64_t, floats as the bits of a double with one NaN,
 * NULLs as zero with a bit beside.  The hash depends on nothing but the key,
 * so every thread gives a group the same one.  Tables use its upper half,
 * passes the lower one.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

#include <stdlib.h>

#define CANONICAL_NAN UINT64_C(0x7FF8000000000000)

bool
gpuscan_cpu_keys_create(CpuKeys *keys, const GpuScanProgram *program)
{
	memset(keys, 0, sizeof(*keys));
	keys->nulls = calloc(CPU_CHUNK, sizeof(uint32_t));
	keys->hashes = calloc(CPU_CHUNK, sizeof(uint32_t));
	keys->other_hashes = calloc(CPU_CHUNK, sizeof(uint32_t));
	keys->columns = calloc((size_t) program->nkeys + 1, sizeof(CpuKeyColumn));
	if (keys->nulls == NULL || keys->hashes == NULL || keys->other_hashes == NULL ||
		keys->columns == NULL)
		return false;
	for (int k = 0; k < program->nkeys; k++)
	{
		keys->columns[k].buffer = aligned_alloc(64, CPU_CHUNK * 16);
		keys->columns[k].values = keys->columns[k].buffer;
		if (keys->columns[k].buffer == NULL)
			return false;
	}
	return true;
}

void
gpuscan_cpu_keys_free(CpuKeys *keys, const GpuScanProgram *program)
{
	for (int k = 0; keys->columns != NULL && k < program->nkeys; k++)
		free(keys->columns[k].buffer);
	free(keys->columns);
	free(keys->other_hashes);
	free(keys->hashes);
	free(keys->nulls);
	memset(keys, 0, sizeof(*keys));
}

/* The words of a double; false for a negative zero. */
static inline bool
float_word(double value, uint64_t *word)
{
	memcpy(word, &value, sizeof(*word));
	if (value != value)
		*word = CANONICAL_NAN;
	return *word != UINT64_C(1) << 63;
}

#define WORDS(T, expression)                                                                       \
	do                                                                                             \
	{                                                                                              \
		const T *values = reg->values;                                                             \
                                                                                                   \
		for (uint32_t i = 0; i < n; i++)                                                           \
			words[i] = (expression);                                                               \
		column->values = words;                                                                    \
	} while (0)

/* Fills a column's values; false if one is a negative zero. */
static bool
load_column(CpuKeyColumn *column, unsigned cls, const CpuRegister *reg, uint32_t n)
{
	uint64_t *words = column->buffer;
	bool ok = true;

	switch ((GpuScanClass) cls)
	{
		case GPUSCAN_BOOL:
			WORDS(uint8_t, values[i] != 0);
			break;
		case GPUSCAN_I32:
			WORDS(int32_t, (uint64_t) (int64_t) values[i]);
			break;
		case GPUSCAN_F32:
			for (uint32_t i = 0; i < n; i++)
				ok &=
					float_word(((const float *) reg->values)[i], &words[i]) | (reg->flags[i] != 0);
			break;
		case GPUSCAN_F64:
			for (uint32_t i = 0; i < n; i++)
				ok &=
					float_word(((const double *) reg->values)[i], &words[i]) | (reg->flags[i] != 0);
			break;
		case GPUSCAN_I64:
			if (reg->clean)
				column->values = reg->values;
			else
				WORDS(int64_t, (uint64_t) values[i]);
			break;
		case GPUSCAN_I128:
		case GPUSCAN_TEXT:
			column->values = reg->values;
			if (!reg->clean)
			{
				memcpy(column->buffer, reg->values, (size_t) n * 16);
				column->values = column->buffer;
			}
			break;
	}
	return ok;
}

/* Makes NULLs zero and sets their bits; false if a key is an error. */
static bool
load_nulls(CpuKeys *keys, int k, unsigned cls, const CpuRegister *reg)
{
	size_t size = gpuscan_key_size(cls) == 16 || cls == GPUSCAN_TEXT ? 16 : 8;
	char *values = keys->columns[k].buffer;

	for (uint32_t i = 0; i < keys->n; i++)
	{
		if (reg->flags[i] == 0)
			continue;
		if (reg->flags[i] == GPUSCAN_ERROR)
			return false;
		keys->nulls[i] |= UINT32_C(1) << k;
		memset(values + i * size, 0, size);
	}
	return true;
}

static void
hash_column(const CpuKeyColumn *column, unsigned cls, uint64_t *hashes, uint32_t n)
{
	const uint64_t *words = column->values;

	if (cls == GPUSCAN_TEXT)
	{
		const GsText *texts = column->values;

		for (uint32_t i = 0; i < n; i++)
			hashes[i] = bytes_mix(hashes[i], bytes_hash(texts[i].p, texts[i].len));
	}
	else if (cls == GPUSCAN_I128)
	{
		for (uint32_t i = 0; i < n; i++)
			hashes[i] = bytes_mix(bytes_mix(hashes[i], words[2 * i]), words[2 * i + 1]);
	}
	else
	{
		for (uint32_t i = 0; i < n; i++)
			hashes[i] = bytes_mix(hashes[i], words[i]);
	}
}

bool
gpuscan_cpu_keys_load(CpuKeys *keys, const GpuScanProgram *program, const CpuRegister *registers,
					  uint32_t n)
{
	const GpuScanKey *key = GPUSCAN_KEYS(program);
	uint64_t hashes[CPU_CHUNK];

	keys->n = n;
	memset(keys->nulls, 0, n * sizeof(uint32_t));
	for (int k = 0; k < program->nkeys; k++)
	{
		const CpuRegister *reg = &registers[k];

		if (!load_column(&keys->columns[k], key[k].cls, reg, n) ||
			(!reg->clean && !load_nulls(keys, k, key[k].cls, reg)))
			return false;
	}

	for (uint32_t i = 0; i < n; i++)
		hashes[i] = keys->nulls[i];
	for (int k = 0; k < program->nkeys; k++)
		hash_column(&keys->columns[k], key[k].cls, hashes, n);
	for (uint32_t i = 0; i < n; i++)
	{
		keys->hashes[i] = (uint32_t) (hashes[i] >> 32);
		keys->other_hashes[i] = (uint32_t) hashes[i];
	}
	return true;
}

uint32_t
gpuscan_cpu_keys_select(const CpuKeys *keys, GpuScanPass pass, uint16_t *kept)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < keys->n; i++)
	{
		kept[n] = (uint16_t) i;
		n += (keys->other_hashes[i] & pass.mask) == pass.number;
	}
	return n;
}
