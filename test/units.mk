# Builds the unit tests into build/units/$(VARIANT)/bin/.  See test/run-units.

VARIANT ?= plain

FLAGS_plain = -O2
FLAGS_asan = -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAGS_tsan = -O2 -fsanitize=thread

CPPFLAGS = -D_GNU_SOURCE -Isrc -Icuda -Itest/unit -MMD -MP
# The flags that PostgreSQL's own build gives those files, as far as they change the code's meaning.
CFLAGS = -std=gnu11 -g -fno-strict-aliasing -fwrapv -fexcess-precision=standard -ffp-contract=off \
	-fvisibility=hidden -Wall -Wextra -Werror $(FLAGS_$(VARIANT))
LDLIBS = -lpthread -lm

out = build/units/$(VARIANT)

# What knows nothing of PostgreSQL.
library = $(filter src/columns/% src/device/% src/program/check.c src/program/print.c src/program/hash.c src/program/op.c, \
	$(wildcard src/*/*.c src/*/*/*.c)) $(wildcard cuda/*.c)
sources = $(wildcard test/unit/*.c)
is_program = '^(int )?main *[(]'
programs = $(shell grep -lE $(is_program) /dev/null $(sources))
helpers = $(filter-out $(programs),$(sources))
objects = $(patsubst %.c,$(out)/%.o,$(library) $(sources) bench/device/clicks.c)

# A driver and a compiler without a GPU; who has loaded one gets it by its soname again.
fakes = $(out)/fake/libcuda.so.1 $(out)/fake/libnvrtc.so.13

# The same with kernels that run, compiled by g++ for this processor
emulators = $(subst /fake/,/emulated/,$(fakes))
emulated = test/fake_cuda/cuda.c test/fake_cuda/stubs.c $(wildcard test/emulated_cuda/*.c)

.PHONY: all emulated
all: $(patsubst test/unit/%.c,$(out)/bin/%,$(programs)) $(fakes) $(out)/clicks
emulated: all $(emulators)

.PRECIOUS: $(out)/%.o

$(out)/bin/%: $(out)/test/unit/%.o $(patsubst %.c,$(out)/%.o,$(helpers)) $(out)/library.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

# for hosts with a GPU; here it has to compile
$(out)/clicks: $(out)/bench/device/clicks.o $(out)/library.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

$(out)/library.a: $(patsubst %.c,$(out)/%.o,$(library))
	rm -f $@
	$(AR) rcs $@ $^

$(fakes): $(wildcard test/fake_cuda/*) cuda/driver.h test/units.mk
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -g $(FLAGS_$(VARIANT)) -Icuda -shared -fPIC -Wl,-soname,$(@F) -o $@ $(wildcard test/fake_cuda/*.c)

$(emulators): $(wildcard test/fake_cuda/* test/emulated_cuda/*) cuda/driver.h test/units.mk
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -g -O2 -Icuda -Itest/fake_cuda -shared -fPIC -Wl,-soname,$(@F) -o $@ $(emulated) -lpthread -lm

$(out)/%.o: %.c test/units.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# has their text
$(out)/cuda/text.o: $(wildcard cuda/*.h) src/program/program.h src/program/heap_format.h src/columns/chunk.h

-include $(objects:.o=.d)
