#include "demo/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

bool stack_save(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  bool good = file != NULL && fputs(text, file) >= 0;
  if (file != NULL) good = fclose(file) == 0 && good;
  return good;
}

char *stack_load(const char *path) {
  FILE *file = fopen(path, "r");
  char *text = file == NULL ? NULL : calloc(MOST_BYTES, 1);
  bool good = text != NULL && fread(text, 1, MOST_BYTES - 1, file) > 0 && !ferror(file) && strncmp(text, "<svg ", 5) == 0;
  if (file != NULL) fclose(file);
  if (!good) free(text);
  return good ? text : NULL;
}

static long number_after(const char *text, const char *word) {
  const char *at = strstr(text, word);
  return at == NULL ? 0 : strtol(at + strlen(word), NULL, 10);
}

bool stack_pictures(const char *path, const char *above, const char *below) {
  long width = number_after(above, "width=\""), top = number_after(above, "height=\""),
       bottom = number_after(below, "height=\"");
  FILE *file = fopen(path, "w");
  bool good = file != NULL;
  if (good) {
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%ld\" height=\"%ld\" viewBox=\"0 0 %ld %ld\">\n", width,
            top + bottom, width, top + bottom);
    fprintf(file, "%s<svg y=\"%ld\" %s</svg>\n", above, top, below + 5);
    good = !ferror(file);
    good = fclose(file) == 0 && good;
  }
  return good;
}
