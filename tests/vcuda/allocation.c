#include "allocation.h"

int until_failure;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  return until_failure > 0 && --until_failure == 0 ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
  return until_failure > 0 && --until_failure == 0 ? NULL : __real_calloc(count, bytes);
}
