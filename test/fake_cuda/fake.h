/*
 * What the files of the fake share; cuda.c and stubs.c are emulated_cuda/'s too.
 */
#ifndef GPUSCAN_FAKE_CUDA_H
#define GPUSCAN_FAKE_CUDA_H

#include "driver.h"

/* Whether GPUSCAN_FAKE_CUDA has a file of this name */
extern int fake_exists(const char *name);

/* What a call of the driver returns: it fails if the current device is broken. */
extern int fake_result(void);

#endif /* GPUSCAN_FAKE_CUDA_H */
