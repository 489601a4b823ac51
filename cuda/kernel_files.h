/*-------------------------------------------------------------------------
 *
 * kernel_files.h
 *	  Compiled kernels kept in files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_KERNEL_FILES_H
#define GPUSCAN_CUDA_KERNEL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CudaKernelFiles
{
	char *directory; /* NULL: no files are kept */
	uint64_t limit;	 /* bytes of all files together */
} CudaKernelFiles;

/*
 * Sets the directory, which is made when the first file is written, and removes
 * what a crash has left half written there.
 */
extern void
gpuscan_kernel_files_open(CudaKernelFiles *files, const char *directory, uint64_t limit);
extern void gpuscan_kernel_files_close(CudaKernelFiles *files);

/*
 * The image that was kept under a key, all that the image depends on, as text;
 * malloc'd, or NULL.
 */
extern char *gpuscan_kernel_files_read(const CudaKernelFiles *files, const char *key);

/* Keeps an image.  That it could not is no error, and is not told. */
extern void gpuscan_kernel_files_write(const CudaKernelFiles *files, const char *key,
									   const char *image, size_t size);

#endif /* GPUSCAN_CUDA_KERNEL_FILES_H */
