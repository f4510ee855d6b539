/* cold MODE ORT MODEL: what a process has used when its first session on the CPU is there: bytes of the heap that are in use, kB that are
 * resident, and microseconds of processor time. ORT is the library to load, MODEL a file. Modes:
 *
 *      raw      ORT's own calls, without iobind
 *      iobind   the same by iobind, which looks for no EP libraries
 *
 * cold --write nodes|weights MODEL writes a model of 5,000 nodes, or one of 400 MB. Without arguments it prints the path of the library that
 * iobind finds. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "model.h"
#include "raw.h"

enum { NODES = 5000, SIDE = 10000 };

static long microseconds(const struct timeval *time) {
  return (long)time->tv_sec * 1000000 + (long)time->tv_usec;
}

static void print_use(void) {
  struct mallinfo2 heap = mallinfo2();
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  printf("%zu %ld %ld\n", heap.uordblks + heap.hblkhd, fixture_resident_bytes() / 1024,
         microseconds(&use.ru_utime) + microseconds(&use.ru_stime));
}

static void measure_raw(const char *library, const char *model) {
  raw r = {0};
  raw_open_library(&r, library);
  raw_check(&r, r.ort->CreateSession(r.env, model, r.options, &r.session));
  r.ort->ReleaseSessionOptions(r.options);
  r.options = NULL;
  print_use();
  raw_close(&r);
}

static void measure_iobind(const char *library, const char *model) {
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  iobind_session_options session_options = IOBIND_SESSION_OPTIONS_INIT;
  iobind_runtime *runtime = NULL;
  iobind_session *session = NULL;
  options.ort_library = library;
  options.flags = IOBIND_RUNTIME_NO_EP_SEARCH;
  session_options.intra_op_threads = 1;
  fixture_check(iobind_runtime_create(&options, &runtime, &error), &error);
  fixture_check(iobind_session_create(runtime, model, &session_options, &session, &error), &error);
  print_use();
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

static int write_model(const char *kind, const char *path) {
  size_t bytes = 0;
  void *model = strcmp(kind, "weights") == 0 ? model_weights(SIDE, &bytes) : model_chain(NODES, &bytes);
  FILE *file = model != NULL ? fopen(path, "wb") : NULL;
  int is_written = file != NULL && fwrite(model, 1, bytes, file) == bytes;
  if (file != NULL && fclose(file) != 0) is_written = 0;
  free(model);
  if (!is_written) perror(path);
  return is_written ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 1) {
    print_library();
  } else if (argc == 4 && strcmp(argv[1], "--write") == 0) {
    return write_model(argv[2], argv[3]);
  } else if (argc == 4 && strcmp(argv[1], "raw") == 0) {
    measure_raw(argv[2], argv[3]);
  } else if (argc == 4 && strcmp(argv[1], "iobind") == 0) {
    measure_iobind(argv[2], argv[3]);
  } else {
    fputs("usage: cold [raw|iobind ORT MODEL | --write nodes|weights MODEL]\n", stderr);
    return 2;
  }
  return 0;
}
