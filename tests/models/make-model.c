#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"

/* make-model NAME [key=value ...] FILE: writes a test model to a file, for tests that are not written in C. */

static int usage(void) {
  fputs("usage: make-model NAME [key=value ...] FILE\n       make-model --list\n", stderr);
  return 2;
}

static int list(void) {
  for (size_t i = 0; test_model_name(i) != NULL; i++) printf("%-12s %s\n", test_model_name(i), test_model_help(i));
  puts("each also:   [opset=21 ir=10 producer=iobind-tests domain= description= labels= version=0]");
  return 0;
}

static int save(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return 0;
  size_t written = fwrite(bytes, 1, size, file);
  return fclose(file) == 0 && written == size;
}

int main(int argc, char **argv) {
  char spec[4096] = "";
  char error[TEST_MODEL_TEXT];
  void *bytes;
  size_t size, used = 0;
  if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
  if (argc < 3 || argv[1][0] == '-') return usage();
  for (int i = 1; i < argc - 1; i++) {
    int length = snprintf(spec + used, sizeof spec - used, "%s%s", i == 1 ? "" : " ", argv[i]);
    if (length < 0 || (size_t)length >= sizeof spec - used) return usage();
    used += (size_t)length;
  }
  if (!test_model_create(spec, &bytes, &size, error)) {
    fprintf(stderr, "make-model: %s; make-model --list shows what there is\n", error);
    return 1;
  }
  int saved = save(argv[argc - 1], bytes, size);
  if (!saved) fprintf(stderr, "make-model: %s: the file could not be written\n", argv[argc - 1]);
  free(bytes);
  return saved ? 0 : 1;
}
