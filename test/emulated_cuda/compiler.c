/*-------------------------------------------------------------------------
 *
 * compiler.c
 *	  NVRTC's calls for the emulated device: g++ compiles kernels to shared objects.
 *
 * The headers, with prelude.h before them and compiled ahead, are kept in a
 * folder beside this library that is named by what is in it.  Kernels are
 * compiled in EMULATED_CUDA_KEEP, where their texts stay, or in a folder that
 * goes away.  EMULATED_CUDA_FLAGS has more of g++'s options.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE 1
#include "driver.h"
#include "image.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLAGS                                                                                      \
	"-std=c++17 -O1 -g0 -w -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing "      \
	"-fwrapv -fno-exceptions -fno-rtti -fno-extern-tls-init -fno-threadsafe-statics -nostdinc "
#define NOT_COMPILED 6

extern const char emulated_prelude[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n"
		".hidden emulated_prelude\n"
		".globl emulated_prelude\n"
		"emulated_prelude:\n"
		".incbin \"test/emulated_cuda/prelude.h\"\n"
		".byte 0\n"
		".popsection\n");

struct _nvrtcProgram
{
	char *source;
	int nheaders;
	const char *const *headers; /* the caller's, as their names; both stay */
	const char *const *names;
	char *image;
	size_t size;
	char *log;
};

static uint64_t
hash_text(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t) *text) * 0x100000001B3;
	return hash * 0x100000001B3;
}

/* Reads a whole file, with `before` bytes of room before it; NULL: there is none. */
static char *
read_file(const char *path, size_t before, size_t *size)
{
	FILE *file = fopen(path, "r");
	char *text;

	if (file == NULL)
		return NULL;
	fseek(file, 0, SEEK_END);
	*size = before + (size_t) ftell(file);
	rewind(file);
	text = calloc(1, *size + 1);
	if (text == NULL || fread(text + before, 1, *size - before, file) != *size - before)
		abort();
	fclose(file);
	return text;
}

/* Writes a file under a folder, which is made if it is not there. */
static void
write_file(const char *folder, const char *name, const char *text, const char *more)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/'))
	{
		*slash = '\0';
		(void) mkdir(path, 0777);
		*slash = '/';
	}
	file = fopen(path, "w");
	if (file == NULL || fputs(text, file) < 0 || fputs(more, file) < 0 || fclose(file) != 0)
	{
		fprintf(stderr, "# emulated CUDA: %s: %s\n", path, strerror(errno));
		abort();
	}
}

static const char *
extra_flags(void)
{
	const char *flags = getenv("EMULATED_CUDA_FLAGS");

	return flags == NULL ? "" : flags;
}

/* Runs a command, whose output goes to a file; false if it fails. */
static bool __attribute__((format(printf, 1, 2))) run(const char *format, ...)
{
	char command[4 * PATH_MAX];
	va_list args;
	int status;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	status = system(command);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* What each kernel gets behind its text: all of its shared memory that a launch may ask for. */
#define EPILOGUE                                                                                   \
	"\n#ifdef GPUSCAN_CUDA_SHARED_H\n"                                                             \
	"__shared__ __align__(16) uint32_t slots[227 * 1024 / 4];\n"                                   \
	"#define EMULATED_DYNAMIC slots\n"                                                             \
	"#else\n"                                                                                      \
	"__shared__ char emulated_nothing[1];\n"                                                       \
	"#define EMULATED_DYNAMIC emulated_nothing\n"                                                  \
	"#endif\n"                                                                                     \
	"extern \"C\" __attribute__((visibility(\"default\"))) void *emulated_dynamic(size_t *size)\n" \
	"{\n\t*size = sizeof(EMULATED_DYNAMIC);\n\treturn &EMULATED_DYNAMIC;\n}\n"

/* Makes the folder of headers, unless it is there. */
static void
prepare_headers(nvrtcProgram program, char *folder)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t hash = hash_text(hash_text(hash_text(0, emulated_prelude), FLAGS), extra_flags());
	char temporary[PATH_MAX];
	Dl_info self;

	for (int i = 0; i < program->nheaders; i++)
		hash = hash_text(hash, program->headers[i]);
	if (dladdr(emulated_prelude, &self) == 0)
		abort();
	snprintf(folder, PATH_MAX, "%.*s/headers-%016llx",
			 (int) (strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname,
			 (unsigned long long) hash);
	pthread_mutex_lock(&lock);
	if (access(folder, F_OK) != 0)
	{
		snprintf(temporary, sizeof(temporary), "%.*s.%d", PATH_MAX - 20, folder, (int) getpid());
		for (int i = 0; i < program->nheaders; i++)
			write_file(temporary, program->names[i], program->headers[i], "");
		write_file(temporary, "prelude.h", emulated_prelude, "");
		write_file(temporary, "all.h", "#include \"prelude.h\"\n#include \"kernel.h\"\n", "");
		if (!run("cd '%s' && g++ " FLAGS "%s -I. -x c++-header all.h -o all.h.gch > log 2>&1",
				 temporary, extra_flags()))
			fprintf(stderr, "# emulated CUDA: the headers do not compile: %s/log\n", temporary);
		/* another process may have been faster */
		else if (rename(temporary, folder) != 0)
			(void) run("rm -r '%s'", temporary);
	}
	pthread_mutex_unlock(&lock);
}

/* For each kernel what a launch calls */
static char *
make_calls(const char *text)
{
	char *calls = NULL;
	size_t size;
	FILE *out = open_memstream(&calls, &size);

	fputs(EPILOGUE, out);
	while ((text = strstr(text, "__global__")) != NULL)
	{
		static const char bounds[] = "__launch_bounds__(";
		const char *end;
		const char *name;

		text = strstr(text, "void") + 4;
		if (strstr(text, bounds) == text + 1)
			text = strchr(text, ')') + 1;
		end = strchr(text, '(');
		for (name = end; strchr(" \n\t*", name[-1]) == NULL;)
			name--;
		fprintf(out, "EMULATED_KERNEL(%.*s)\n", (int) (end - name), name);
	}
	fclose(out);
	return calls;
}

int
nvrtcVersion(int *major, int *minor)
{
	*major = 13;
	*minor = 0;
	return 0;
}

int
nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int nheaders,
				   const char *const *headers, const char *const *names)
{
	*program = calloc(1, sizeof(**program));
	if (*program == NULL)
		abort();
	(*program)->source = strdup(source);
	(*program)->nheaders = nheaders;
	(*program)->headers = headers;
	(*program)->names = names;
	return 0;
}

int
nvrtcDestroyProgram(nvrtcProgram *program)
{
	free((*program)->source);
	free((*program)->image);
	free((*program)->log);
	free(*program);
	return 0;
}

int
nvrtcCompileProgram(nvrtcProgram program, int noptions, const char *const *options)
{
	static _Atomic unsigned number;
	const char *keep = getenv("EMULATED_CUDA_KEEP");
	char folder[PATH_MAX] = "/tmp/emulated-cuda-XXXXXX";
	char headers[PATH_MAX];
	char path[PATH_MAX];
	char *calls = make_calls(program->source);
	Dl_info self;
	bool done;

	(void) dladdr(emulated_prelude, &self);
	prepare_headers(program, headers);
	if (keep != NULL)
		snprintf(folder, sizeof(folder), "%s/%d-%u", keep, (int) getpid(), number++);
	else if (mkdtemp(folder) == NULL)
		abort();
	write_file(folder, "kernel.cu", program->source, calls);
	free(calls);
	done = run("cd '%s' && g++ " FLAGS "%s -I '%s' -include all.h -x c++ kernel.cu -shared "
			   "-nostdlib -o kernel.so -x none '%s/../libcuda.so.1' -lgcc > log 2>&1",
			   folder, extra_flags(), headers, headers);
	snprintf(path, sizeof(path), "%s/%s", folder, done ? "kernel.so" : "log");
	if (done)
	{
		EmulatedImage header = {.magic = EMULATED_MAGIC};

		program->image = read_file(path, sizeof(header), &program->size);
		header.size = program->size - sizeof(header);
		memcpy(program->image, &header, sizeof(header));
	}
	else
		program->log = read_file(path, 0, &(size_t){0});
	if (keep == NULL)
		(void) run("rm -r '%s'", folder);
	return done ? 0 : NOT_COMPILED;
}

int
nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
	*size = program->size;
	return 0;
}

int
nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
	memcpy(cubin, program->image, program->size);
	return 0;
}

int
nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
	*size = strlen(program->log) + 1;
	return 0;
}

int
nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
	strcpy(log, program->log);
	return 0;
}
