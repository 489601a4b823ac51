/*-------------------------------------------------------------------------
 *
 * message.c
 *	  What the server's log is to hear of the device.
 *
 * Any thread says it, the service's main thread takes it.  A device that says
 * more than is taken loses the later messages: the first one tells the cause.
 *
 *-------------------------------------------------------------------------
 */
#include "cuda_device.h"

#include <stdio.h>

void
gpuscan_cuda_say(GpuScanDevice *device, const char *head, const char *text)
{
	CudaMessages *messages = &device->messages;

	pthread_mutex_lock(&messages->lock);
	if (messages->n < CUDA_MESSAGES)
		snprintf(messages->text[messages->n++], CUDA_MESSAGE_SIZE, "%s: %s", head,
				 text == NULL ? "no reason given" : text);
	pthread_mutex_unlock(&messages->lock);
}

bool
gpuscan_cuda_take_message(GpuScanDevice *device, char *text, size_t size)
{
	CudaMessages *messages = &device->messages;
	bool found;

	pthread_mutex_lock(&messages->lock);
	found = messages->n > 0;
	if (found)
	{
		snprintf(text, size, "%s", messages->text[0]);
		messages->n--;
		memmove(messages->text[0], messages->text[1], messages->n * sizeof(messages->text[0]));
	}
	pthread_mutex_unlock(&messages->lock);
	return found;
}
