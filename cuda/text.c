/*-------------------------------------------------------------------------
 *
 * text.c
 *	  The headers that generated kernels include, as text in the binary.
 *
 * The assembler reads the files when this file is compiled, from the top of
 * the source tree.  NVRTC has the types of the standard headers by itself
 * (scalar.h names them), so those are empty.
 *
 *-------------------------------------------------------------------------
 */
#include "text.h"

#define TEXT(symbol, path)                                                                         \
	extern const char symbol[] __attribute__((visibility("hidden")));                              \
	__asm__(".pushsection .rodata\n"                                                               \
			".hidden " #symbol "\n"                                                                \
			".globl " #symbol "\n" #symbol ":\n"                                                   \
			".incbin \"" path "\"\n"                                                               \
			".byte 0\n"                                                                            \
			".popsection\n");

TEXT(gpuscan_cuda_text_scalar, "cuda/scalar.h")
TEXT(gpuscan_cuda_text_fsum, "cuda/fsum.h")
TEXT(gpuscan_cuda_text_aggregate, "cuda/aggregate.h")
TEXT(gpuscan_cuda_text_launch, "cuda/launch.h")
TEXT(gpuscan_cuda_text_kernel, "cuda/kernel.h")
TEXT(gpuscan_cuda_text_states, "cuda/states.h")
TEXT(gpuscan_cuda_text_cached, "cuda/cached.h")
TEXT(gpuscan_cuda_text_shared, "cuda/shared.h")
TEXT(gpuscan_cuda_text_seek, "cuda/seek.h")
TEXT(gpuscan_cuda_text_chunk, "src/columns/chunk.h")
TEXT(gpuscan_cuda_text_program, "src/program/program.h")
TEXT(gpuscan_cuda_text_heap_format, "src/program/heap_format.h")

const char *const gpuscan_cuda_text_names[CUDA_NUM_TEXTS] = {
	"scalar.h",	 "fsum.h",			"aggregate.h",		 "launch.h",
	"kernel.h",	 "states.h",		"cached.h",			 "shared.h",
	"seek.h",	 "columns/chunk.h", "program/program.h", "program/heap_format.h",
	"stdbool.h", "stddef.h",		"stdint.h"};

const char *const gpuscan_cuda_texts[CUDA_NUM_TEXTS] = {gpuscan_cuda_text_scalar,
														gpuscan_cuda_text_fsum,
														gpuscan_cuda_text_aggregate,
														gpuscan_cuda_text_launch,
														gpuscan_cuda_text_kernel,
														gpuscan_cuda_text_states,
														gpuscan_cuda_text_cached,
														gpuscan_cuda_text_shared,
														gpuscan_cuda_text_seek,
														gpuscan_cuda_text_chunk,
														gpuscan_cuda_text_program,
														gpuscan_cuda_text_heap_format,
														"",
														"",
														""};
