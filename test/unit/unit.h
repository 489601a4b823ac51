/*-------------------------------------------------------------------------
 *
 * unit.h
 *	  Checks of a unit test, reported in the Test Anything Protocol.
 *
 * A check is ok(condition, name, ...), the name being a printf format.  main
 * ends with `return done_testing()`, which is 1 if a check failed.  A test
 * that makes many checks of one kind counts failures and reports once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_UNIT_H
#define GPUSCAN_UNIT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static int unit_count;
static int unit_failed;

static inline bool __attribute__((format(printf, 4, 5)))
unit_ok(bool passed, const char *file, int line, const char *name, ...)
{
	va_list args;

	printf("%sok %d - ", passed ? "" : "not ", ++unit_count);
	va_start(args, name);
	vprintf(name, args);
	va_end(args);
	printf("\n");
	if (!passed)
	{
		printf("#   failed at %s:%d\n", file, line);
		unit_failed++;
	}
	fflush(stdout);
	return passed;
}

#define ok(condition, ...) unit_ok((condition), __FILE__, __LINE__, __VA_ARGS__)

/* Prints the plan; the exit status of main */
static inline int
done_testing(void)
{
	printf("1..%d\n", unit_count);
	return unit_failed != 0;
}

/* The same pseudo-random numbers on every run (splitmix64) */
static inline uint64_t
unit_random(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
	return z ^ (z >> 31);
}

#endif /* GPUSCAN_UNIT_H */
