#include <stdio.h>

#include "everything.h"

/* write-everything FILE: the model that check_models.py reads back field by field. */
int main(int argc, char **argv) {
  onnx_writer writer = ONNX_WRITER_INIT;
  const void *bytes;
  size_t size;
  int saved = 0;
  if (argc != 2) return 2;
  everything_write(&writer);
  if (onnx_writer_finish(&writer, &bytes, &size) == ONNX_OK) {
    FILE *file = fopen(argv[1], "wb");
    if (file != NULL) {
      saved = fwrite(bytes, 1, size, file) == size;
      saved = fclose(file) == 0 && saved;
    }
  }
  onnx_writer_release(&writer);
  return saved ? 0 : 1;
}
