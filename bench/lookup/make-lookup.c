/* make-lookup FOLDER: writes lookup.onnx, a look-up of one row in a table of 16 MiB that is an input, and index.npy, the row
 * to look up. The table crosses the link in each plain run and stays on the device with a binding: the most that a binding
 * can save. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

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

/* An int32[1] as numpy saves it: its header is padded so that the data begin at byte 128. */
static size_t index_file(unsigned char file[132]) {
  static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
  static const char header[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }";
  memset(file, ' ', 128);
  memcpy(file, magic, sizeof magic);
  memcpy(file + sizeof magic, header, sizeof header - 1);
  file[127] = '\n';
  for (int i = 0; i < 4; i++) file[128 + i] = (unsigned char)(ROW >> (8 * i) & 0xff);
  return 132;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: make-lookup FOLDER\n", stderr);
    return 2;
  }
  unsigned char index[132];
  size_t bytes = 0;
  void *model = model_lookup(ROWS, COLUMNS, &bytes);
  int good = model != NULL && save(argv[1], "lookup.onnx", model, bytes);
  good = good && save(argv[1], "index.npy", index, index_file(index));
  free(model);
  return good ? 0 : 1;
}
