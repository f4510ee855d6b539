/* cold MODE ORT: the memory of the process after its first session, of a model with 5,000 nodes on the CPU: bytes of the heap that are in use,
 * and kB that are resident. ORT is the library to load. Modes:
 *
 *      raw      ORT's own calls, without iobind
 *      iobind   the same by iobind, which looks for no EP libraries
 *
 * Without arguments it prints the path of the library that iobind finds. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "raw.h"

enum { NODES = 5000 };

static void *model;
static size_t model_bytes;

static void print_memory(void) {
  struct mallinfo2 heap = mallinfo2();
  printf("%zu %ld\n", heap.uordblks + heap.hblkhd, fixture_resident_bytes() / 1024);
}

static void measure_raw(const char *library) {
  raw r = {0};
  raw_open_library(&r, library);
  raw_check(&r, r.ort->CreateSessionFromArray(r.env, model, model_bytes, r.options, &r.session));
  r.ort->ReleaseSessionOptions(r.options);
  r.options = NULL;
  print_memory();
  raw_close(&r);
}

static void measure_iobind(const char *library) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  iobind_session_options session_options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime = NULL;
  iobind_session *session = NULL;
  options.ort_library = library;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  session_options.intra_op_threads = 1;
  fixture_check(iobind_runtime_create(&options, &runtime, &error), &error);
  fixture_check(iobind_session_create_from_memory(runtime, model, model_bytes, &session_options, &session, &error), &error);
  print_memory();
  iobind_session_destroy(session);
  iobind_runtime_destroy(runtime);
}

static void print_library(void) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime *runtime = NULL;
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  fixture_check(iobind_runtime_create(NULL, &runtime, &error), &error);
  fixture_check(iobind_runtime_get_info(runtime, &info, &error), &error);
  puts(info.ort_library);
  iobind_runtime_destroy(runtime);
}

int main(int argc, char **argv) {
  if (argc == 1) {
    print_library();
    return 0;
  }
  int is_raw = argc == 3 && strcmp(argv[1], "raw") == 0;
  if (!is_raw && (argc != 3 || strcmp(argv[1], "iobind") != 0)) {
    fputs("usage: cold [MODE ORT]; modes: raw iobind\n", stderr);
    return 2;
  }
  model = model_chain(NODES, &model_bytes);
  if (model == NULL) {
    fputs("the model could not be made\n", stderr);
    return 1;
  }
  if (is_raw) {
    measure_raw(argv[2]);
  } else {
    measure_iobind(argv[2]);
  }
  free(model);
  return 0;
}
