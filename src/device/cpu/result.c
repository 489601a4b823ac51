/*-------------------------------------------------------------------------
 *
 * result.c
 *	  Handing out the rows of the final tables, a buffer at a time.
 *
 * A buffer holds whole rows from its start, as many as fit with their texts,
 * and the texts behind them.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu.h"

static const CpuBytes *
text_key(const char *row, const GpuScanKey *key)
{
	return (const CpuBytes *) (uintptr_t) * (const uint64_t *) (row + key->offset);
}

static size_t
texts_size(const GpuScanProgram *program, const char *row)
{
	const GpuScanKey *key = GPUSCAN_KEYS(program);
	size_t size = 0;

	for (int k = 0; k < program->nkeys; k++)
	{
		if (key[k].cls == GPUSCAN_TEXT && text_key(row, &key[k]) != NULL)
			size += text_key(row, &key[k])->len;
	}
	return size;
}

/* The row at the cursor, which moves on to the next chunk or table if need be; NULL at the end. */
static const char *
current_row(const GpuScanProgram *program, const CpuGroups *tables, uint32_t ntables,
			CpuCursor *cursor)
{
	while (cursor->chunk == NULL || cursor->row == cursor->chunk->nrows)
	{
		if (cursor->chunk != NULL)
			cursor->chunk = cursor->chunk->next;
		else if (cursor->table < ntables)
			cursor->chunk = tables[cursor->table++].first;
		else
			return NULL;
		cursor->row = 0;
	}
	return cursor->chunk->rows + (size_t) cursor->row * program->row_size;
}

/* Writes a row to dst and its texts to *texts bytes from `buf`, and moves *texts on. */
static void
write_row(const GpuScanProgram *program, const char *row, char *dst, char *buf, size_t *texts)
{
	const GpuScanKey *key = GPUSCAN_KEYS(program);

	memcpy(dst, row, program->row_size);
	*(uint64_t *) dst = CPU_ROW_NULLS(row);
	for (int k = 0; k < program->nkeys; k++)
	{
		const CpuBytes *bytes;
		uint32_t place[2] = {(uint32_t) *texts, 0};

		if (key[k].cls != GPUSCAN_TEXT)
			continue;
		bytes = text_key(row, &key[k]);
		if (bytes != NULL)
		{
			memcpy(buf + *texts, bytes->data, bytes->len);
			*texts += bytes->len;
			place[1] = bytes->len;
		}
		memcpy(dst + key[k].offset, place, sizeof(place));
	}
}

GpuScanCode
gpuscan_cpu_fetch(const GpuScanProgram *program, const CpuGroups *tables, uint32_t ntables,
				  CpuCursor *cursor, void *buf, size_t size, uint32_t *nrows)
{
	CpuCursor ahead = *cursor;
	const char *row;
	uint32_t n = 0;
	size_t used = 0;
	size_t texts;

	if (size > UINT32_MAX)
		size = UINT32_MAX;
	while ((row = current_row(program, tables, ntables, &ahead)) != NULL)
	{
		size_t need = program->row_size + texts_size(program, row);

		if (need > size - used)
			break;
		used += need;
		n++;
		ahead.row++;
	}
	*nrows = n;
	if (n == 0)
		return row == NULL ? GPUSCAN_OK : GPUSCAN_OUT_OF_MEMORY;

	texts = (size_t) n * program->row_size;
	for (uint32_t i = 0; i < n; i++)
	{
		row = current_row(program, tables, ntables, cursor);
		write_row(program, row, (char *) buf + (size_t) i * program->row_size, buf, &texts);
		cursor->row++;
	}
	return GPUSCAN_OK;
}
