/*-------------------------------------------------------------------------
 *
 * devices.c
 *	  The service's devices: which ones, their failures, what the views show.
 *
 * gpuscan.device is "auto" or a list.  What of it does not open is left out,
 * with a line in the log; where nothing opens, the cpu device serves.  A request
 * goes to the device that has the fewest.
 *
 * A device has an entry in shared memory from the first time that it is opened
 * until the server stops, so that its failures are remembered when the service
 * exits because of them.  After gpuscan.max_device_failures without a request
 * that ended well in between, a CUDA device is not opened any more.  The cpu
 * device always is: there is nothing behind it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "service/channel.h"
#include "service/devices.h"
#include "service/service.h"
#include "storage/bufmgr.h"

#define CPU (-1)

/*
 * Processes that keep a device busy: 4 to 10 GB/s of pages come from each, the bus
 * takes about 50, and a thread of the cpu device one.  With twelve a scan of 3 GB
 * on an H200 took 81 ms, with eight 87, with four 110.
 */
#define CUDA_FEEDERS 12
#define CPU_THREADS_PER_FEEDER 4

/* In the data directory, where the service runs */
#define KERNEL_DIRECTORY "gpuscan_kernels"

static GpuScanOpenDevice devices[GPUSCAN_MAX_DEVICES]; /* in the order of the setting */
static int ndevices = 0;

static const char *const state_names[] = {
	[GPUSCAN_DEVICE_CLOSED] = "closed",
	[GPUSCAN_DEVICE_RUNNING] = "running",
	[GPUSCAN_DEVICE_LOST] = "failed",
	[GPUSCAN_DEVICE_LEFT_ALONE] = "left alone",
};

/* Steps over blanks and a word that ends there; false if it is another. */
static bool
skip_name(const char **rest, const char *name)
{
	const char *p = *rest + strspn(*rest, " \t");
	size_t len = strlen(name);

	if (pg_strncasecmp(p, name, len) != 0)
		return false;
	p += len;
	if (*p != '\0' && strchr(" \t,:", *p) == NULL)
		return false;
	*rest = p;
	return true;
}

static bool
parse_one(const char **rest, int *number)
{
	if (skip_name(rest, "cpu"))
		*number = CPU;
	else if (skip_name(rest, "cuda"))
	{
		size_t digits;

		*number = 0;
		if (**rest == ':')
		{
			digits = strspn(*rest + 1, "0123456789");
			if (digits == 0 || digits > 3)
				return false;
			*number = atoi(*rest + 1);
			*rest += 1 + digits;
		}
	}
	else
		return false;
	*rest += strspn(*rest, " \t");
	return **rest == '\0' || **rest == ',';
}

bool
gpuscan_devices_parse(const char *setting, GpuScanDeviceList *list, const char **error)
{
	const char *rest = setting;

	list->n = 0;
	if (skip_name(&rest, "auto") && rest[strspn(rest, " \t")] == '\0')
		return true;
	for (rest = setting;; rest++)
	{
		int number;

		if (!parse_one(&rest, &number))
		{
			*error = "A device is \"cpu\", \"cuda\" or \"cuda:N\", with N from 0 to 999.";
			return false;
		}
		for (int i = 0; i < list->n; i++)
		{
			if (list->numbers[i] == number)
			{
				*error = "A device is named twice.";
				return false;
			}
		}
		if (list->n == GPUSCAN_MAX_DEVICES)
		{
			*error = "More than 16 devices are named.";
			return false;
		}
		list->numbers[list->n++] = number;
		if (*rest == '\0')
			return true;
	}
}

static GpuScanDeviceEntry *
find_entry(const char *name)
{
	uint32 n = pg_atomic_read_u32(&gpuscan_shared->ndevices);

	for (uint32 i = 0; i < n; i++)
	{
		if (strcmp(gpuscan_shared->devices[i].name, name) == 0)
			return &gpuscan_shared->devices[i];
	}
	return NULL;
}

/* The device's entry, a new one if need be. */
static GpuScanDeviceEntry *
make_entry(const char *name, bool cuda, const GpuScanDeviceStatus *status)
{
	uint32 n = pg_atomic_read_u32(&gpuscan_shared->ndevices);
	GpuScanDeviceEntry *entry = find_entry(name);

	if (entry != NULL)
		return entry;
	Assert(n < GPUSCAN_MAX_DEVICE_ENTRIES);
	entry = &gpuscan_shared->devices[n];
	strlcpy(entry->name, name, sizeof(entry->name));
	strlcpy(entry->model, status->model, sizeof(entry->model));
	if (status->model[0] == '\0')
		strlcpy(entry->label, name, sizeof(entry->label));
	else
		snprintf(entry->label, sizeof(entry->label), "%s (%s)", name, status->model);
	entry->cuda = cuda;
	entry->memory_total = status->memory_total;
	pg_write_barrier();
	pg_atomic_write_u32(&gpuscan_shared->ndevices, n + 1);
	return entry;
}

/* Opens a device; what cannot be opened goes into `left_out`, with the reason. */
static void
open_device(int number, uint32 threads, StringInfo left_out)
{
	const GpuScanDeviceOps *ops = number == CPU ? &gpuscan_cpu_device : &gpuscan_cuda_device;
	const char *error = "no reason given";
	GpuScanOpenDevice *open = &devices[ndevices];
	GpuScanDeviceEntry *entry;
	GpuScanDeviceStatus status;
	char name[sizeof(entry->name)];

	if (number == CPU)
		strlcpy(name, ops->name, sizeof(name));
	else
		snprintf(name, sizeof(name), "%s:%d", ops->name, number);
	entry = find_entry(name);
	if (entry != NULL && pg_atomic_read_u32(&entry->state) == GPUSCAN_DEVICE_LEFT_ALONE)
	{
		open->device = NULL;
		error = "it failed too often";
	}
	else
		open->device = ops->open(number, threads, &error);
	if (open->device == NULL)
	{
		appendStringInfo(left_out, "%s%s (%s)", left_out->len > 0 ? ", " : "", name, error);
		return;
	}

	open->ops = ops;
	ops->status(open->device, &status);
	open->entry = make_entry(name, number != CPU, &status);
	pg_atomic_write_u32(&open->entry->state, GPUSCAN_DEVICE_RUNNING);
	ndevices++;
	if (ops->keep_kernels != NULL && gpuscan_kernel_cache_size > 0)
		ops->keep_kernels(open->device, KERNEL_DIRECTORY,
						  (uint64) gpuscan_kernel_cache_size * 1024 * 1024);
	if (ops->register_memory != NULL &&
		ops->register_memory(open->device, BufferBlocks, (size_t) NBuffers * BLCKSZ) != GPUSCAN_OK)
		ereport(LOG, (errmsg("gpuscan copies pages to device \"%s\" because shared buffers cannot "
							 "be registered with it",
							 name)));
}

/*
 * What backends have to know before they know their device: batches that suit
 * all of them, feeders for the fastest.
 */
static void
set_client_sizes(uint32 threads)
{
	uint32 batch_blocks = GPUSCAN_BATCH_BLOCKS;
	uint32 feeders = 1;
	bool has_cache = true;
	bool on_gpus = true;

	for (int i = 0; i < ndevices; i++)
	{
		has_cache &= devices[i].ops->push_cached != NULL;
		batch_blocks = Min(batch_blocks, devices[i].ops->batch_blocks);
		on_gpus &= devices[i].entry->cuda;
		feeders =
			Max(feeders, devices[i].entry->cuda ? CUDA_FEEDERS : threads / CPU_THREADS_PER_FEEDER);
	}
	gpuscan_shared->batch_blocks = batch_blocks;
	gpuscan_shared->feeders = feeders;
	gpuscan_shared->has_cache = has_cache;
	gpuscan_shared->on_gpus = on_gpus;
}

void
gpuscan_devices_open(uint32 threads)
{
	StringInfoData left_out;
	StringInfoData names;
	GpuScanDeviceList list;
	const char *error = NULL;

	initStringInfo(&left_out);
	initStringInfo(&names);
	if (!gpuscan_devices_parse(gpuscan_device, &list, &error))
		elog(ERROR, "the list of devices is not valid: %s", error);
	if (list.n == 0)
	{
		list.n = Min(gpuscan_cuda_device.count(&error), GPUSCAN_MAX_DEVICES);
		for (int i = 0; i < list.n; i++)
			list.numbers[i] = i;
		if (list.n == 0)
			appendStringInfo(&left_out, "%s (%s)", gpuscan_cuda_device.name, error);
	}
	for (int i = 0; i < list.n; i++)
		open_device(list.numbers[i], threads, &left_out);
	if (ndevices == 0)
		open_device(CPU, threads, &left_out);
	if (ndevices == 0)
		ereport(FATAL, (errcode(ERRCODE_SYSTEM_ERROR), errmsg("gpuscan could not open any device"),
						errdetail_internal("%s", left_out.data)));

	set_client_sizes(threads);
	for (int i = 0; i < ndevices; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", devices[i].entry->label);
	ereport(LOG, (errmsg("gpuscan runs on %s", names.data),
				  left_out.len > 0 ? errdetail("Left out: %s.", left_out.data) : 0));
	pfree(names.data);
	pfree(left_out.data);
}

/* In the order that register_memory asks for */
void
gpuscan_devices_close(void)
{
	while (ndevices > 0)
	{
		GpuScanOpenDevice *open = &devices[--ndevices];
		uint32 running = GPUSCAN_DEVICE_RUNNING;

		open->ops->close(open->device);
		pg_atomic_compare_exchange_u32(&open->entry->state, &running, GPUSCAN_DEVICE_CLOSED);
		pg_atomic_write_u32(&open->entry->running, 0);
		pg_atomic_write_u64(&open->entry->memory_used, 0);
		for (int i = 0; i <= GPUSCAN_TIER_HOST; i++)
			pg_atomic_write_u64(&open->entry->cached[i], 0);
	}
}

const GpuScanOpenDevice *
gpuscan_devices_take(const char *name)
{
	GpuScanOpenDevice *best = &devices[0];

	for (int i = 0; i < ndevices; i++)
	{
		if (strcmp(devices[i].entry->name, name) == 0)
		{
			best = &devices[i];
			break;
		}
		if (pg_atomic_read_u32(&devices[i].entry->running) <
			pg_atomic_read_u32(&best->entry->running))
			best = &devices[i];
	}
	pg_atomic_fetch_add_u32(&best->entry->running, 1);
	return best;
}

const GpuScanOpenDevice *
gpuscan_devices_get(int i)
{
	return i < ndevices ? &devices[i] : NULL;
}

void
gpuscan_devices_give(const GpuScanOpenDevice *open, bool well)
{
	pg_atomic_fetch_sub_u32(&open->entry->running, 1);
	if (well)
	{
		pg_atomic_fetch_add_u64(&open->entry->served, 1);
		pg_atomic_write_u32(&open->entry->failures_in_a_row, 0);
	}
}

uint64
gpuscan_devices_memory_limit(const GpuScanDeviceEntry *entry)
{
	uint64 mb = entry->cuda ? gpuscan_device_memory_limit : gpuscan_cpu_memory_limit;

	return mb > 0 ? mb * 1024 * 1024 : entry->memory_total / 10 * 8;
}

uint64
gpuscan_devices_cache_limit(const GpuScanDeviceEntry *entry)
{
	uint64 all = gpuscan_devices_memory_limit(entry);

	if (!entry->cuda)
		return 0;
	return gpuscan_device_cache_size < 0
			   ? all / 2
			   : Min((uint64) gpuscan_device_cache_size * 1024 * 1024, all);
}

static void
log_messages(const GpuScanOpenDevice *open)
{
	char text[1024];

	while (open->ops->take_message != NULL &&
		   open->ops->take_message(open->device, text, sizeof(text)))
		ereport(LOG, (errmsg("gpuscan device \"%s\": %s", open->entry->name, text)));
}

void
gpuscan_devices_look(void)
{
	for (int i = 0; i < ndevices; i++)
	{
		GpuScanDeviceStatus status;

		devices[i].ops->status(devices[i].device, &status);
		pg_atomic_write_u64(&devices[i].entry->memory_used, status.memory_used);
		log_messages(&devices[i]);
	}
}

void
gpuscan_devices_give_up(const GpuScanOpenDevice *open)
{
	GpuScanDeviceEntry *entry = open->entry;
	uint32 failures = pg_atomic_add_fetch_u32(&entry->failures_in_a_row, 1);

	pg_atomic_fetch_add_u32(&entry->failures, 1);
	pg_atomic_write_u32(&entry->state, GPUSCAN_DEVICE_LOST);
	log_messages(open);
	if (entry->cuda && failures >= (uint32) gpuscan_max_device_failures)
	{
		pg_atomic_write_u32(&entry->state, GPUSCAN_DEVICE_LEFT_ALONE);
		ereport(LOG, (errmsg("gpuscan leaves device \"%s\" alone after %u failures in a row",
							 entry->name, failures),
					  errhint("Restart the server to have it used again.")));
	}
	ereport(FATAL,
			(errcode(ERRCODE_SYSTEM_ERROR), errmsg("gpuscan device \"%s\" failed", entry->label),
			 errdetail("The service ends, and starts again with a new context. Queries that "
					   "it served run PostgreSQL's plan.")));
}

bool
gpuscan_service_device(uint32 number, GpuScanDeviceActivity *out)
{
	GpuScanDeviceEntry *entry;

	if (gpuscan_shared == NULL || number >= pg_atomic_read_u32(&gpuscan_shared->ndevices))
		return false;
	pg_read_barrier();
	entry = &gpuscan_shared->devices[number];
	*out = (GpuScanDeviceActivity){
		.device = entry->name,
		.model = entry->model,
		.state = state_names[pg_atomic_read_u32(&entry->state)],
		.memory_total = entry->memory_total,
		.memory_limit = gpuscan_devices_memory_limit(entry),
		.memory_used = pg_atomic_read_u64(&entry->memory_used),
		.cache_limit = gpuscan_devices_cache_limit(entry),
		.cache_used = pg_atomic_read_u64(&entry->cached[GPUSCAN_TIER_DEVICE]),
		.host_cache_used = pg_atomic_read_u64(&entry->cached[GPUSCAN_TIER_HOST]),
		.is_cuda = entry->cuda,
		.running = pg_atomic_read_u32(&entry->running),
		.served = pg_atomic_read_u64(&entry->served),
		.failures = pg_atomic_read_u32(&entry->failures),
	};
	return true;
}
