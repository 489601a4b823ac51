/*-------------------------------------------------------------------------
 *
 * mapping.c
 *	  The channels that the service has mapped.
 *
 * A channel stays mapped between the requests of its session, so that a
 * request costs no system call.  Its backend sets `discarded` and counts up
 * `discards` when it detaches; the sweep looks at all channels only when that
 * counter has moved.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/mapping.h"
#include "service/shmem.h"
#include "utils/hsearch.h"

static HTAB *mappings = NULL;
static uint32 swept_discards = 0;

void
gpuscan_mapping_setup(void)
{
	HASHCTL ctl = {
		.keysize = sizeof(dsm_handle),
		.entrysize = sizeof(GpuScanMapping),
	};

	mappings = hash_create("gpuscan channels", gpuscan_max_requests, &ctl, HASH_ELEM | HASH_BLOBS);
}

GpuScanMapping *
gpuscan_mapping_take(dsm_handle handle)
{
	GpuScanMapping *mapping = hash_search(mappings, &handle, HASH_FIND, NULL);

	if (mapping == NULL)
	{
		dsm_segment *seg = dsm_attach(handle);

		if (seg == NULL)
			return NULL;
		if (dsm_segment_map_length(seg) < sizeof(GpuScanChannel))
		{
			dsm_detach(seg);
			return NULL;
		}
		mapping = hash_search(mappings, &handle, HASH_ENTER, NULL);
		mapping->seg = seg;
		mapping->chan = dsm_segment_address(seg);
		mapping->busy = false;
	}
	if (mapping->busy)
		return NULL;
	mapping->busy = true;
	return mapping;
}

static void
unmap(GpuScanMapping *mapping)
{
	dsm_detach(mapping->seg);
	hash_search(mappings, &mapping->handle, HASH_REMOVE, NULL);
}

void
gpuscan_mapping_give(GpuScanMapping *mapping)
{
	mapping->busy = false;
	if (pg_atomic_read_u32(&mapping->chan->discarded) != 0)
		unmap(mapping);
}

void
gpuscan_mapping_sweep(void)
{
	uint32 discards = pg_atomic_read_u32(&gpuscan_shared->discards);
	HASH_SEQ_STATUS status;
	GpuScanMapping *mapping;

	if (discards == swept_discards)
		return;
	swept_discards = discards;

	hash_seq_init(&status, mappings);
	while ((mapping = hash_seq_search(&status)) != NULL)
	{
		if (!mapping->busy && pg_atomic_read_u32(&mapping->chan->discarded) != 0)
			unmap(mapping);
	}
}
