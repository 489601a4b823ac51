/*-------------------------------------------------------------------------
 *
 * image.h
 *	  What a compiled kernel is on the emulated device.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_EMULATED_IMAGE_H
#define GPUSCAN_EMULATED_IMAGE_H

#include <stdint.h>

#define EMULATED_MAGIC "emulated"

/* Before the shared object */
typedef struct EmulatedImage
{
	char magic[8];
	uint64_t size;
} EmulatedImage;

#endif /* GPUSCAN_EMULATED_IMAGE_H */
