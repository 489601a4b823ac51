/*
 * Every call of cuda/driver.h that no other file has: one of the driver works
 * or fails with the device, one of the compiler works.
 */
#include "fake.h"

#define STUB(name, args, result)                                                                   \
	__attribute__((weak)) int name args                                                            \
	{                                                                                              \
		return result;                                                                             \
	}
#define DRIVER(member, name, args) STUB(name, args, fake_result())
#define NVRTC(member, name, args) STUB(name, args, 0)

CUDA_DRIVER_FUNCTIONS(DRIVER)
CUDA_NVRTC_FUNCTIONS(NVRTC)
