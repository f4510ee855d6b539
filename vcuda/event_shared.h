/* The part of an event that several processes share. */
#ifndef VCUDA_EVENT_SHARED_H
#define VCUDA_EVENT_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"

typedef struct vcuda_event_shared vcuda_event_shared;

vcuda_event_shared *vcuda_event_shared_make(void); /* NULL: no memory */
void vcuda_event_shared_describe(const vcuda_event_shared *event, cuda_ipc_handle *handle);
int vcuda_event_shared_open(const cuda_ipc_handle *handle, vcuda_event_shared **event); /* an error of CUDA's */
void vcuda_event_shared_close(vcuda_event_shared *event);

/* Numbers of records start at 1. 0 stands for no record, which counts as complete. */
uint64_t vcuda_event_shared_record(vcuda_event_shared *event); /* the number of the new record */
uint64_t vcuda_event_shared_last(const vcuda_event_shared *event);
void vcuda_event_shared_finish(vcuda_event_shared *event, uint64_t number);
bool vcuda_event_shared_is_done(const vcuda_event_shared *event, uint64_t number);
void vcuda_event_shared_await(vcuda_event_shared *event, uint64_t number);

#endif
