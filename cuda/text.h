/*-------------------------------------------------------------------------
 *
 * text.h
 *	  The headers that generated kernels include, as text in the binary.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_CUDA_TEXT_H
#define GPUSCAN_CUDA_TEXT_H

#define CUDA_NUM_TEXTS 15

/* Names as #include lines have them, and the contents beside */
extern const char *const gpuscan_cuda_text_names[CUDA_NUM_TEXTS];
extern const char *const gpuscan_cuda_texts[CUDA_NUM_TEXTS];

#endif /* GPUSCAN_CUDA_TEXT_H */
