/*-------------------------------------------------------------------------
 *
 * fault.c
 *	  Faults that tests inject into the service.
 *
 * gpuscan.inject_fault is empty, or KIND:POINT, or KIND:POINT:N:
 *
 *	 service-exit:POINT	   the service exits when a request reaches the point:
 *						   begin, push, batch-done, finish, fetch or close
 *	 device-error:POINT	   what the device answers is taken for "out of memory":
 *						   begin, push, finish or fetch
 *	 device-lost:POINT	   it is taken for the device's failure: the same points
 *	 wait:load			   the backend waits for advisory lock 1 each time that it has
 *						   read the first page of a range that is loaded into the cache
 *	 wait:close			   the service waits 50 ms when it hears that the backend wants no more,
 *						   while the device goes on
 *
 * N counts how often one request passes the point, from 1, which is the
 * default.  The fault travels with each request of the session that has it
 * set, so that other sessions see nothing of it but its consequences.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "service/fault.h"

static const char *const point_names[] = {
	[GPUSCAN_AT_BEGIN] = "begin",
	[GPUSCAN_AT_PUSH] = "push",
	[GPUSCAN_AT_BATCH_DONE] = "batch-done",
	[GPUSCAN_AT_FINISH] = "finish",
	[GPUSCAN_AT_FETCH] = "fetch",
	[GPUSCAN_AT_CLOSE] = "close",
	[GPUSCAN_AT_LOAD] = "load",
};

/* If *rest starts with `word`, steps over it. */
static bool
skip_word(const char **rest, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*rest, word, len) != 0)
		return false;
	*rest += len;
	return true;
}

/* False if `name` is neither empty nor a fault. */
static bool
parse(const char *name, GpuScanFault *fault)
{
	const char *rest = name;
	char *end;
	long n;

	*fault = (GpuScanFault){.kind = GPUSCAN_FAULT_NONE, .remaining = 1};
	if (*rest == '\0')
		return true;

	if (skip_word(&rest, "service-exit:"))
		fault->kind = GPUSCAN_FAULT_SERVICE_EXIT;
	else if (skip_word(&rest, "device-error:"))
		fault->kind = GPUSCAN_FAULT_DEVICE_ERROR;
	else if (skip_word(&rest, "device-lost:"))
		fault->kind = GPUSCAN_FAULT_DEVICE_LOST;
	else if (skip_word(&rest, "wait:"))
		fault->kind = GPUSCAN_FAULT_WAIT;
	else
		return false;

	fault->point = 0;
	while (!skip_word(&rest, point_names[fault->point]))
	{
		if (++fault->point == lengthof(point_names))
			return false;
	}
	switch (fault->point)
	{
		case GPUSCAN_AT_LOAD:
			if (fault->kind != GPUSCAN_FAULT_WAIT)
				return false;
			break;
		case GPUSCAN_AT_CLOSE:
			if (fault->kind != GPUSCAN_FAULT_SERVICE_EXIT && fault->kind != GPUSCAN_FAULT_WAIT)
				return false;
			break;
		case GPUSCAN_AT_BATCH_DONE:
			if (fault->kind != GPUSCAN_FAULT_SERVICE_EXIT)
				return false;
			break;
		default:
			if (fault->kind == GPUSCAN_FAULT_WAIT)
				return false;
			break;
	}

	if (*rest == '\0')
		return true;
	if (rest[0] != ':' || rest[1] < '1' || rest[1] > '9')
		return false;
	n = strtol(rest + 1, &end, 10);
	if (*end != '\0' || n > 1000000)
		return false;
	fault->remaining = (int) n;
	return true;
}

bool
gpuscan_fault_is_valid(const char *name)
{
	GpuScanFault fault;

	return parse(name, &fault);
}

GpuScanFault
gpuscan_fault_parse(const char *name)
{
	GpuScanFault fault;

	if (name == NULL || !parse(name, &fault))
		fault.kind = GPUSCAN_FAULT_NONE;
	return fault;
}

GpuScanFaultKind
gpuscan_fault_at(GpuScanFault *fault, GpuScanFaultPoint point)
{
	if (fault->kind == GPUSCAN_FAULT_NONE || fault->point != point)
		return GPUSCAN_FAULT_NONE;
	return --fault->remaining == 0 ? fault->kind : GPUSCAN_FAULT_NONE;
}

const char *
gpuscan_fault_point_name(GpuScanFaultPoint point)
{
	return point_names[point];
}
