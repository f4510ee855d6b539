/* make-lookup DIRECTORY: writes lookup.onnx, a look-up of one row in a table of 16 MiB that is an input, and index.npy, the row
 * to look up. The table crosses the link in each plain run and stays on the device with a binding: the most that a binding
 * can save. Also sum.onnx, y = a + b of any length, with rows.npy, float32[10,4], and row.npy, float32[8]: what a loop takes in. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { NPY_HEADER = 128, FED = 40, LINE = 8 };
enum { ROWS = 4096, COLUMNS = 1024, ROW = 1234 };

static int save(const char *folder, const char *name, const void *bytes, size_t size) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "wb") : NULL;
  int good = file != NULL && fwrite(bytes, 1, size, file) == size;
  if (file != NULL) good = fclose(file) == 0 && good;
  if (!good) fprintf(stderr, "make-lookup: %s/%s: the file cannot be written\n", folder, name);
  return good;
}

/* The header as numpy saves it: padded so that the data begin at byte 128. */
static void put_header(unsigned char file[NPY_HEADER], const char *dtype, const char *shape) {
  static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
  char header[NPY_HEADER];
  int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, shape);
  memset(file, ' ', NPY_HEADER);
  memcpy(file, magic, sizeof magic);
  memcpy(file + sizeof magic, header, (size_t)length);
  file[NPY_HEADER - 1] = '\n';
}

static int save_index(const char *folder) {
  unsigned char file[NPY_HEADER + 4];
  put_header(file, "<i4", "1,");
  for (int i = 0; i < 4; i++) file[NPY_HEADER + i] = (unsigned char)(ROW >> (8 * i) & 0xff);
  return save(folder, "index.npy", file, sizeof file);
}

/* 0, 1, 2 ... */
static int save_floats(const char *folder, const char *name, const char *shape, size_t count) {
  unsigned char file[NPY_HEADER + FED * sizeof(float)];
  put_header(file, "<f4", shape);
  for (size_t i = 0; i < count; i++) {
    float value = (float)i;
    memcpy(file + NPY_HEADER + i * sizeof value, &value, sizeof value);
  }
  return save(folder, name, file, NPY_HEADER + count * sizeof(float));
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: make-lookup FOLDER\n", stderr);
    return 2;
  }
  size_t bytes = 0;
  void *model = model_lookup(ROWS, COLUMNS, &bytes);
  int good = model != NULL && save(argv[1], "lookup.onnx", model, bytes);
  good = good && save_index(argv[1]);
  free(model);
  model = good ? model_add(&bytes) : NULL;
  good = model != NULL && save(argv[1], "sum.onnx", model, bytes);
  good = good && save_floats(argv[1], "rows.npy", "10,4", FED) && save_floats(argv[1], "row.npy", "8,", LINE);
  free(model);
  return good ? 0 : 1;
}
