/* Memory and semaphores of other libraries and processes: what holds on each device that imports them. */
#ifndef TESTS_RIG_EXTERNAL_H
#define TESTS_RIG_EXTERNAL_H

#include "iobind/interop.h"
#include "stage.h"

enum { COUNT = 1024, LATER = 8192, BYTES = LATER + COUNT * sizeof(float) };

/* The device that is tested, and the library that makes its semaphores. */
typedef struct external_product {
  int64_t (*get)(int device, const char *counter);
  int (*semaphore_create)(uint64_t value);
  int (*semaphore_signal)(int file, uint64_t value);
  bool (*semaphore_has)(int file, uint64_t value); /* or more */
  bool owns_files;                                 /* that it has imported: it gets duplicates */
  bool counts_memory;                              /* that it has imported, as its own */
} external_product;
extern const external_product product;

/* ---- objects ---- */

int make_file(void);
iobind_external external_of(int32_t kind, int file, size_t bytes);
iobind_external_memory *import_memory(int file);
iobind_semaphore *import_semaphore(int file);
iobind_tensor *view(iobind_external_memory *memory, size_t offset); /* COUNT float32 */
iobind_stream *make_stream(void);
const float *ramp(void); /* 0, 1, 2, ... */

/* ---- tests ---- */

/* The second process of the next test is this program with the argument "the_peer", which runs that test alone. */
void the_peer(void **state);
void two_processes_share_memory(void **state);

void wait_before_the_signal(void **state);
void tensors_keep_the_memory(void **state);

#endif
