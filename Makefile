# gpuscan: a PGXS extension, and the targets for those who work on it.
#
#	make, make install, make installcheck, make clean	as in any PGXS extension
#	make check			everything that a clean checkout must pass, with a private PostgreSQL
#	make demo			six queries over 10 million rows, off and on (DEMO_ROWS, KEEP=1)
#	make units			the unit tests alone; make sanitize-units: under ASan + UBSan, and TSan
#	make fuzz			the differential fuzzer alone (FUZZ_SECONDS, FUZZ_SEED)
#	make mutations		do the tests notice when the cache's validation lacks a step? (a quarter of an hour)
#	make lint, make tidy, make format	house rules, clang-tidy, clang-format
#
# The targets of the second kind run scripts that install what they miss, so
# they work where there is no pg_config yet and do without PGXS, which has a
# `check` of its own that only refuses.

OWN_TARGETS = check demo units sanitize-units fuzz mutations lint tidy format

ifneq (,$(filter $(OWN_TARGETS),$(MAKECMDGOALS)))

.PHONY: $(MAKECMDGOALS)

check:
	@test/check
demo:
	@bench/demo
units:
	@test/check units
sanitize-units:
	@test/check asan tsan
fuzz:
	@test/check fuzz
mutations:
	@test/mutations
lint:
	@test/check lint
tidy:
	@test/check tidy
format:
	@test/lint/format --fix

# Other goals on the same command line are made by a make that has PGXS.
$(filter-out $(OWN_TARGETS),$(MAKECMDGOALS)):
	@$(MAKE) --no-print-directory $@

else

EXTENSION = gpuscan
MODULE_big = gpuscan
PGFILEDESC = "gpuscan - scans and aggregates of plain SQL on devices"
DATA = $(wildcard sql/gpuscan--*.sql)

# Every .c under src/ and cuda/ is part of the module; none needs CUDA to compile.
SRCS = $(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c cuda/*.c))
OBJS = $(SRCS:.c=.o)

# No bitcode for the JIT: .cu objects would need a rule of their own for it, and
# what is hot here runs in the devices.  (override: Makefile.global sets it too.)
override with_llvm = no

PG_CONFIG ?= pg_config

# PostgreSQL's headers are system headers, which silences their warnings and
# leaves ours to be errors.  (PGXS's -I of the same folder is then ignored.)
PG_CPPFLAGS = -Isrc -Icuda -isystem $(shell $(PG_CONFIG) --includedir-server) -MMD -MP

# Nothing is visible but what PostgreSQL calls.  Before PostgreSQL 16 its
# PGDLLEXPORT is empty; an SQL function still needs an `extern PGDLLEXPORT Datum`
# of its own ahead of PG_FUNCTION_INFO_V1.
PG_CPPFLAGS += '-DPGDLLEXPORT=__attribute__((visibility("default")))'
# No contraction into fma: float results are the same on every processor.
PG_CFLAGS = -std=gnu11 -fvisibility=hidden -ffp-contract=off -Wall -Wextra -Werror
SHLIB_LINK = -lpthread -lm

# In the order of their names; 00_setup makes what the others use.
REGRESS = $(filter-out gpuscan--%,$(sort $(patsubst sql/%.sql,%,$(wildcard sql/*.sql))))
REGRESS_OPTS = --encoding=UTF8 --no-locale
ISOLATION = $(sort $(patsubst specs/%.spec,%,$(wildcard specs/*.spec)))
ISOLATION_OPTS = $(REGRESS_OPTS)
TAP_TESTS = 1

EXTRA_CLEAN = $(OBJS:.o=.d) build $(shell readlink build/work build/mutations/build/work)

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# The device's loops are written for the vectorizer.
src/columns/%.o src/device/cpu/%.o src/heap/%.o: override CFLAGS += -O3

$(OBJS): Makefile

# has the text of the headers that kernels include
cuda/text.o: $(wildcard cuda/*.h) src/program/program.h src/program/heap_format.h src/columns/chunk.h

-include $(OBJS:.o=.d)

endif
