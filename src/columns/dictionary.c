/*-------------------------------------------------------------------------
 *
 * dictionary.c
 *	  The values of a column, numbered.
 *
 * The values lie in one mapping, large enough for the most that a dictionary
 * may hold, of which the system gives pages as they are first written.  So
 * nothing ever moves, and a reader needs no lock: a chunk gets its codes under
 * the mutex, after the values were written there, and whoever is handed the
 * chunk sees what was written before.  What is added later touches no word that
 * belongs to an earlier code.
 *
 * The mutex covers finding and adding, and all of the table of hashes.
 *
 * Neither a dictionary that is full nor a lack of memory is an error: values
 * have no codes then, and are kept as they are.
 *
 *-------------------------------------------------------------------------
 */
#include "columns/dictionary.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIN_SLOTS 64
#define UNKNOWN UINT32_MAX

struct GpuScanDictionary
{
	GpuScanClass cls;
	pthread_mutex_t mutex;
	_Atomic uint32_t count;
	_Atomic uint64_t size;
	uint32_t nslots;   /* a power of two, or 0 */
	uint32_t *slots;   /* code + 1; 0: empty; at most half are taken */
	char *values;	   /* the mapping: values, or texts */
	uint32_t *offsets; /* in it, for TEXT: of codes, and of the end of the last */
	uint32_t *hashes;  /* in it, of codes */
	size_t mapped;
};

static size_t
whole_pages(size_t size)
{
	size_t page = (size_t) sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

GpuScanDictionary *
gpuscan_dictionary_create(GpuScanClass cls)
{
	GpuScanDictionary *dictionary = calloc(1, sizeof(*dictionary));
	bool text = cls == GPUSCAN_TEXT;
	size_t values_size =
		text ? GPUSCAN_DICTIONARY_TEXT
			 : whole_pages((size_t) GPUSCAN_DICTIONARY_CODES * gpuscan_columns_value_size[cls]);
	size_t offsets_size = text ? whole_pages((GPUSCAN_DICTIONARY_CODES + 1) * sizeof(uint32_t)) : 0;
	size_t hashes_size = whole_pages(GPUSCAN_DICTIONARY_CODES * sizeof(uint32_t));

	if (dictionary == NULL)
		return NULL;
	dictionary->cls = cls;
	dictionary->mapped = values_size + offsets_size + hashes_size;
	dictionary->values = mmap(NULL, dictionary->mapped, PROT_READ | PROT_WRITE,
							  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (dictionary->values == MAP_FAILED)
	{
		free(dictionary);
		return NULL;
	}
	dictionary->offsets = (uint32_t *) (dictionary->values + values_size);
	dictionary->hashes = (uint32_t *) (dictionary->values + values_size + offsets_size);
	atomic_init(&dictionary->size, sizeof(*dictionary));
	pthread_mutex_init(&dictionary->mutex, NULL);
	return dictionary;
}

void
gpuscan_dictionary_free(GpuScanDictionary *dictionary)
{
	if (dictionary == NULL)
		return;
	pthread_mutex_destroy(&dictionary->mutex);
	munmap(dictionary->values, dictionary->mapped);
	free(dictionary->slots);
	free(dictionary);
}

uint64_t
gpuscan_dictionary_size(const GpuScanDictionary *dictionary)
{
	return atomic_load_explicit(&dictionary->size, memory_order_relaxed);
}

uint32_t
gpuscan_dictionary_count(const GpuScanDictionary *dictionary)
{
	return atomic_load_explicit(&dictionary->count, memory_order_acquire);
}

GsValues
gpuscan_dictionary_values(const GpuScanDictionary *dictionary)
{
	return (GsValues){dictionary->values, dictionary->offsets};
}

/* The code of value i of an array, or UNKNOWN. */
static uint32_t
find(const GpuScanDictionary *dictionary, const void *values, uint32_t i, uint32_t hash)
{
	GsValues own = gpuscan_dictionary_values(dictionary);
	GpuScanClass cls = dictionary->cls;
	uint32_t mask = dictionary->nslots - 1;

	if (dictionary->nslots == 0)
		return UNKNOWN;
	for (uint32_t slot = hash & mask; dictionary->slots[slot] != 0; slot = (slot + 1) & mask)
	{
		uint32_t code = dictionary->slots[slot] - 1;

		if (dictionary->hashes[code] != hash)
			continue;
		if (cls == GPUSCAN_TEXT ? texts_equal(gs_text_at(&own, code), ((const GsText *) values)[i])
								: value_words(cls, own.data, code) == value_words(cls, values, i))
			return code;
	}
	return UNKNOWN;
}

static void
enter(GpuScanDictionary *dictionary, uint32_t code)
{
	uint32_t mask = dictionary->nslots - 1;
	uint32_t slot = dictionary->hashes[code] & mask;

	while (dictionary->slots[slot] != 0)
		slot = (slot + 1) & mask;
	dictionary->slots[slot] = code + 1;
}

/* Makes the slots enough for so many values; false: out of memory. */
static bool
reserve(GpuScanDictionary *dictionary, uint32_t count)
{
	uint32_t nslots = dictionary->nslots == 0 ? MIN_SLOTS : dictionary->nslots;
	uint32_t *slots;

	while (nslots < 2 * count)
		nslots *= 2;
	if (nslots == dictionary->nslots)
		return true;
	slots = calloc(nslots, sizeof(*slots));
	if (slots == NULL)
		return false;
	free(dictionary->slots);
	dictionary->slots = slots;
	dictionary->nslots = nslots;
	for (uint32_t code = 0; code < dictionary->count; code++)
		enter(dictionary, code);
	return true;
}

/* Adds value i of an array, for which there is room. */
static uint32_t
add(GpuScanDictionary *dictionary, const void *values, uint32_t i, uint32_t hash)
{
	size_t size = gpuscan_columns_value_size[dictionary->cls];
	uint32_t code = dictionary->count;

	if (dictionary->cls == GPUSCAN_TEXT)
	{
		GsText text = ((const GsText *) values)[i];
		uint32_t at = dictionary->offsets[code];

		if (text.len > 0)
			memcpy(dictionary->values + at, text.p, text.len);
		dictionary->offsets[code + 1] = at + text.len;
	}
	else
		memcpy(dictionary->values + code * size, (const char *) values + i * size, size);
	dictionary->hashes[code] = hash;
	enter(dictionary, code);
	atomic_store_explicit(&dictionary->count, code + 1, memory_order_release);
	return code;
}

static void
account(GpuScanDictionary *dictionary)
{
	uint32_t count = dictionary->count;
	bool text = dictionary->cls == GPUSCAN_TEXT;
	uint64_t values = text ? dictionary->offsets[count] + (count + 1) * sizeof(uint32_t)
						   : (uint64_t) count * gpuscan_columns_value_size[dictionary->cls];

	atomic_store_explicit(&dictionary->size,
						  sizeof(*dictionary) + dictionary->nslots * sizeof(uint32_t) + values +
							  count * sizeof(uint32_t),
						  memory_order_relaxed);
}

/* Finds what there is; true if the rest may and can be added. */
static bool
look_up(GpuScanDictionary *dictionary, const void *values, Distinct *distinct, uint32_t nrows,
		uint64_t max_size)
{
	bool text = dictionary->cls == GPUSCAN_TEXT;
	uint32_t count = dictionary->count;
	uint32_t min = count;
	uint32_t max = 0;
	uint32_t nnew = 0;
	uint64_t text_size = 0;
	uint64_t size;

	for (uint32_t d = 0; d < distinct->n; d++)
	{
		uint32_t code = find(dictionary, values, distinct->rows[d], distinct->hashes[d]);

		distinct->codes[d] = code;
		if (code == UNKNOWN)
		{
			max = count + nnew++;
			if (text)
				text_size += ((const GsText *) values)[distinct->rows[d]].len;
		}
		else
		{
			min = code < min ? code : min;
			max = code > max ? code : max;
		}
	}
	size = (uint64_t) nrows * bit_width(max - min) / 8 +
		   (text ? nnew * sizeof(uint32_t) + text_size
				 : (uint64_t) nnew * gpuscan_columns_value_size[dictionary->cls]);
	return size <= max_size && nnew <= GPUSCAN_DICTIONARY_CODES - count &&
		   (!text || text_size <= GPUSCAN_DICTIONARY_TEXT - dictionary->offsets[count]) &&
		   reserve(dictionary, count + nnew);
}

bool
gpuscan_dictionary_codes(GpuScanDictionary *dictionary, const void *values, Distinct *distinct,
						 uint32_t nrows, uint64_t max_size)
{
	bool ok;

	pthread_mutex_lock(&dictionary->mutex);
	ok = look_up(dictionary, values, distinct, nrows, max_size);
	for (uint32_t d = 0; ok && d < distinct->n; d++)
	{
		if (distinct->codes[d] == UNKNOWN)
			distinct->codes[d] = add(dictionary, values, distinct->rows[d], distinct->hashes[d]);
	}
	if (ok)
		account(dictionary);
	pthread_mutex_unlock(&dictionary->mutex);
	return ok;
}
