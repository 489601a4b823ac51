/*-------------------------------------------------------------------------
 *
 * test_cuda_faults.c
 *	  Every call of the CUDA driver fails once: a request ends with the right
 *	  code, the device with it if the context is lost, and nothing leaks.
 *
 * Skipped where there is no CUDA device.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_fixture.h"

#include "cuda_faults.h"

/* Tuples that one launch takes, and that several take; their groups */
#define FEW 30000
#define FEW_GROUPS 30000
#define MANY 400000
#define MANY_GROUPS 40000

static const GpuScanAttr attrs[] = {{4, 4, 0, 0}, {8, 8, 0, 1}, {-1, 4, 0, 2}};

static Table *
make_table(uint32_t n)
{
	Table *table = new_table(attrs);

	for (uint32_t i = 0; i < n; i++)
	{
		Value values[3] = {int4_value((int32_t) i), f64_value(i < n / 2 ? 1 : 1e30), {0}};
		char text[40];

		snprintf(text, sizeof(text), "text number %u of many", i);
		values[2] = text_value(V_SHORT, text);
		add_tuple(table, 3, values);
	}
	return table;
}

/* Groups whose rows, texts, sums and pairs all outgrow what they start with; or no keys */
static GpuScanProgram *
make_program(bool with_keys)
{
	Builder *b = new_builder(3, true);
	uint16_t number = add_input(b, 0, GPUSCAN_DECODE_INT4, 0);
	uint16_t f = add_input(b, 1, GPUSCAN_DECODE_FLOAT8, 0);
	uint16_t text = add_input(b, 2, GPUSCAN_DECODE_TEXT, 0);
	uint16_t n = add_instr(b, GPUSCAN_OP_INT4_MOD, number, add_param(b, GPUSCAN_I32, 20000), 0, 0);

	if (with_keys)
	{
		add_key(b, n);
		add_key(b, add_instr(b, GPUSCAN_OP_NULLIF_TEXT, text,
							 add_instr(b, GPUSCAN_OP_I32_GT, number, n, 0, 0), 0, 0));
	}
	add_agg(b, GPUSCAN_AGG_COUNT, NO_REG, NO_REG);
	add_agg(b, GPUSCAN_AGG_SUM_F64, f, NO_REG);
	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, text, NO_REG);
	add_agg(b, GPUSCAN_AGG_COUNT_DISTINCT, number, NO_REG);
	return build_program(b);
}

/* Fails the 1st, 2nd, ... call until the query passes. */
static void
test_faults(const char *name, int with_error, bool lasts, bool with_keys, Table *table,
			uint32_t ngroups)
{
	const GpuScanLayout *layout = new_layout(attrs, 3, 3, NULL);
	GpuScanProgram *program = make_program(with_keys);
	GpuScanCode expected =
		with_error == CUDA_ERROR_OUT_OF_MEMORY ? GPUSCAN_OUT_OF_MEMORY : GPUSCAN_DEVICE_FAILED;
	int wrong = 0;
	int leaks = 0;
	int n = 0;
	bool passed = false;

	for (fail_at = 1; !passed && fail_at < 5000; fail_at++, n++)
	{
		GpuScanDevice *device;
		GpuScanCode code;
		Run *run;

		error = 0;
		pieces = 0;
		device = open_device(0);
		error = with_error;
		persist = lasts;
		calls = 0;
		run = run_table(device, program, layout, table, 0);
		code = run->finish_code != GPUSCAN_OK ? run->finish_code : run->fetch_code;
		passed = calls < fail_at;
		/* a call after the last row may fail, and nobody notices */
		wrong += code == GPUSCAN_OK ? run->nrows != (with_keys ? ngroups : 1) : code != expected;
		wrong += passed && code != GPUSCAN_OK;
		release(run);
		error = 0;
		device_ops->close(device);
		leaks += pieces != 0;
	}
	ok(passed && wrong == 0 && leaks == 0, "%s: %d calls fail in turn (%d wrong, %d leak)", name,
	   n - 1, wrong, leaks);
}

int
main(void)
{
	GpuScanDevice *first;
	Table *table;
	Table *large;

	setenv("GPUSCAN_TEST_DEVICE", "cuda", 1);

	/* keeps the context, so that opening costs little */
	first = open_device(0);
	table = make_table(FEW);
	large = make_table(MANY);
	replace_functions();
	test_faults("no memory once, groups", CUDA_ERROR_OUT_OF_MEMORY, false, true, table, FEW_GROUPS);
	test_faults("no memory, groups", CUDA_ERROR_OUT_OF_MEMORY, true, true, table, FEW_GROUPS);
	test_faults("no memory, groups, several launches", CUDA_ERROR_OUT_OF_MEMORY, true, true, large,
				MANY_GROUPS);
	test_faults("no memory, no keys", CUDA_ERROR_OUT_OF_MEMORY, true, false, table, FEW_GROUPS);
	test_faults("context lost, groups", ERROR_LAUNCH_FAILED, true, true, table, FEW_GROUPS);
	test_faults("context lost, no keys", ERROR_LAUNCH_FAILED, true, false, table, FEW_GROUPS);
	gpuscan_cuda = real;
	device_ops->close(first);
	return done_testing();
}
