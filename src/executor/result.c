/*-------------------------------------------------------------------------
 *
 * result.c
 *	  The group rows of an aggregation, all of them, in the backend.
 *
 * They are fetched before the first row is returned: until then the replaced
 * plan can still run, whatever happens to the service, and afterwards nothing
 * is held there, however slowly a cursor reads.
 *
 * Chunks are kept as they came, in memory up to what a hash aggregation may
 * use, and behind that in a temporary file.  Memory comes in pieces that grow,
 * and the kernel is asked for huge pages: to fault small ones in took longer
 * than to copy into them.
 *
 *-------------------------------------------------------------------------
 */
#include "gpuscan.h"

#include <sys/mman.h>

#include "commands/tablespace.h"
#include "executor/result.h"
#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

/* The first piece of memory, and the largest */
#define MIN_PIECE ((Size) 8 * 1024)
#define MAX_PIECE ((Size) 32 * 1024 * 1024)

#define HUGE_PAGE (2 * 1024 * 1024)

typedef struct Chunk
{
	uint32 nrows;
	uint32 size;
} Chunk;

struct GpuScanResult
{
	const GpuScanProgram *program;
	Size used;		 /* bytes of chunks */
	Size last_piece; /* of memory: its size */
	char *free;		 /* in it */
	Size nfree;
	List *chunks;	/* of Chunk, its bytes behind it */
	int next_chunk; /* index into chunks */
	BufFile *file;	/* the chunks behind them, or NULL */
	char *buffer;	/* for one chunk of the file */
	size_t buffer_size;

	Chunk *current;
	uint32 next_row;
};

#define CHUNK_BYTES(chunk) ((char *) (chunk) + MAXALIGN(sizeof(Chunk)))

/* The bytes of a chunk: rows, and behind them their texts in the rows' order. */
static uint32
chunk_size(const GpuScanProgram *program, const char *rows, uint32 nrows)
{
	const GpuScanKey *keys = GPUSCAN_KEYS(program);
	const char *last = rows + (size_t) (nrows - 1) * program->row_size;
	uint32 size = nrows * program->row_size;

	for (int i = 0; i < program->nkeys; i++)
	{
		const uint32 *text = (const uint32 *) (last + keys[i].offset);

		if (keys[i].cls == GPUSCAN_TEXT)
			size = Max(size, text[0] + text[1]);
	}
	return size;
}

static void
add_piece(GpuScanResult *result, Size size)
{
	char *start;
	char *end;

	size = Max(size, Min(MAX_PIECE, Max(MIN_PIECE, result->last_piece * 4)));
	result->free = MemoryContextAllocHuge(CurrentMemoryContext, size);
	result->nfree = result->last_piece = size;
	start = (char *) TYPEALIGN(HUGE_PAGE, result->free);
	end = (char *) TYPEALIGN_DOWN(HUGE_PAGE, result->free + size);
	if (start < end)
		(void) madvise(start, end - start, MADV_HUGEPAGE);
}

static void
keep_in_memory(GpuScanResult *result, const Chunk *chunk, const char *rows)
{
	Size size = MAXALIGN(sizeof(Chunk)) + MAXALIGN(chunk->size);
	Chunk *copy;

	if (size > result->nfree)
		add_piece(result, size);
	copy = (Chunk *) result->free;
	result->free += size;
	result->nfree -= size;
	*copy = *chunk;
	memcpy(CHUNK_BYTES(copy), rows, chunk->size);
	result->chunks = lappend(result->chunks, copy);
}

static void
keep_in_file(GpuScanResult *result, const Chunk *chunk, const char *rows)
{
	if (result->file == NULL)
	{
		PrepareTempTablespaces();
		result->file = BufFileCreateTemp(false);
	}
	BufFileWrite(result->file, (void *) chunk, sizeof(Chunk));
	BufFileWrite(result->file, (void *) rows, chunk->size);
	result->buffer_size = Max(result->buffer_size, MAXALIGN(sizeof(Chunk)) + chunk->size);
}

GpuScanResult *
gpuscan_result_create(const GpuScanProgram *program)
{
	GpuScanResult *result = palloc0(sizeof(GpuScanResult));

	result->program = program;
	return result;
}

bool
gpuscan_result_collect(GpuScanResult *result, GpuScanClient *client)
{
	size_t limit = get_hash_memory_limit();
	const char *rows;
	Chunk chunk;

	while (gpuscan_client_fetch(client, &rows, &chunk.nrows))
	{
		CHECK_FOR_INTERRUPTS();
		if (chunk.nrows == 0)
			return true;
		chunk.size = chunk_size(result->program, rows, chunk.nrows);
		result->used += chunk.size;
		if (result->used <= limit)
			keep_in_memory(result, &chunk, rows);
		else
			keep_in_file(result, &chunk, rows);
	}
	return false;
}

void
gpuscan_result_rewind(GpuScanResult *result)
{
	if (result->file != NULL && BufFileSeek(result->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not rewind the temporary file of an aggregation")));
}

/* Reads from the file, which has as much: we wrote it. */
static void
read_file(GpuScanResult *result, void *to, size_t size)
{
	if (BufFileRead(result->file, to, size) != size)
		ereport(ERROR, (errcode_for_file_access(),
						errmsg("could not read the temporary file of an aggregation")));
}

/* Makes the next chunk the current one; false at the end. */
static bool
next_chunk(GpuScanResult *result)
{
	Chunk chunk;

	result->next_row = 0;
	if (result->next_chunk < list_length(result->chunks))
	{
		result->current = list_nth(result->chunks, result->next_chunk++);
		return true;
	}
	result->current = NULL;
	if (result->file == NULL || BufFileRead(result->file, &chunk, sizeof(chunk)) == 0)
		return false;
	if (result->buffer == NULL)
		result->buffer = MemoryContextAlloc(GetMemoryChunkContext(result), result->buffer_size);
	result->current = (Chunk *) result->buffer;
	*result->current = chunk;
	read_file(result, CHUNK_BYTES(result->current), chunk.size);
	return true;
}

const char *
gpuscan_result_next(GpuScanResult *result, const char **chunk)
{
	if ((result->current == NULL || result->next_row == result->current->nrows) &&
		!next_chunk(result))
		return NULL;
	*chunk = CHUNK_BYTES(result->current);
	return *chunk + (size_t) result->next_row++ * result->program->row_size;
}

void
gpuscan_result_free(GpuScanResult *result)
{
	if (result->file != NULL)
		BufFileClose(result->file);
	result->file = NULL;
}
