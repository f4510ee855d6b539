#include "host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

static struct {
  char *data;
  size_t bytes;
} tensors[64];
static int tensor_count, error, logs, current_device;
static char message[256];

void *host_memory(size_t bytes) {
  if (tensor_count == 64) abort();
  char *data = malloc(bytes + 1);
  if (data == NULL) abort();
  memset(data, 0xA5, bytes);
  tensors[tensor_count].data = data;
  tensors[tensor_count++].bytes = bytes;
  return data;
}

void *host_copy(const void *data, size_t bytes) {
  return memcpy(host_memory(bytes), data, bytes);
}

int host_error(void) {
  return error;
}

void host_forget_error(void) {
  error = 0;
}

const char *host_message(void) {
  return message;
}

void host_set_device(int device) {
  current_device = device;
}

int vcuda_current_device(void) {
  return current_device;
}

int64_t vcuda_cudnn_version(void) {
  return 90200;
}

int host_logs(void) {
  return logs;
}

int host_reset(void **state) {
  (void)state;
  for (int i = 0; i < tensor_count; i++) free(tensors[i].data);
  tensor_count = error = logs = current_device = 0;
  message[0] = '\0';
  return 0;
}

void vcuda_open(vcuda_call *call, const char *name, void *stream) {
  *call = (vcuda_call){.name = name, .stream = stream};
}

int vcuda_close(const vcuda_call *call, int result) {
  (void)call;
  return result;
}

bool vcuda_fails(const char *call) {
  (void)call;
  return false;
}

int vcuda_refuses(const vcuda_call *call) {
  (void)call;
  return 0;
}

void vcuda_note(const char *call, void *stream) {
  (void)call, (void)stream;
}

/* Copy the arguments to memory of their exact size, so that a sanitizer finds an access after their end. */
int vcuda_submit(void *stream, const char *name, void (*run)(void *), const void *arguments, size_t bytes) {
  (void)stream, (void)name;
  void *copy = aligned_alloc(16, (bytes + 15) / 16 * 16);
  if (copy == NULL) return 2;
  memcpy(copy, arguments, bytes);
  run(copy);
  free(copy);
  return 0;
}

/* cuDNN's search calls it. All work is complete already. */
int cudaStreamSynchronize(void *stream);
int cudaStreamSynchronize(void *stream) {
  (void)stream;
  return 0;
}

void vcuda_fail(int number, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  error = number;
}

void vcuda_log(const char *format, ...) {
  (void)format;
  logs++;
}

static int is_inside(const void *address, size_t bytes) {
  for (int i = 0; i < tensor_count; i++) {
    const char *at = address;
    if (at >= tensors[i].data && at + bytes <= tensors[i].data + tensors[i].bytes) return 1;
  }
  snprintf(message, sizeof message, "%zu bytes at %p", bytes, address);
  error = 700;
  return 0;
}

const void *vcuda_reads(const void *address, size_t bytes) {
  return bytes == 0 ? "" : is_inside(address, bytes) ? address : NULL;
}

void *vcuda_writes(void *address, size_t bytes) {
  static char nothing;
  return bytes == 0 ? &nothing : is_inside(address, bytes) ? address : NULL;
}
