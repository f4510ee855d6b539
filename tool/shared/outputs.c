#define _POSIX_C_SOURCE 200809L /* strcasecmp */

#include "shared/outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* File systems end at 255 bytes; ".npy" and a number must fit behind the stem. */
enum { STEM_LIMIT = 200, NAME_LIMIT = STEM_LIMIT + 32 };

static void make_stem(const char *name, char stem[STEM_LIMIT + 1]) {
  size_t length = strlen(name);
  if (length > STEM_LIMIT) {
    length = STEM_LIMIT;
    /* Not in the middle of a UTF-8 sequence. */
    while (length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80) length--;
  }
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)name[i];
    stem[i] = byte < 0x20 || byte == 0x7F || strchr("/\\:*?\"<>|", byte) != NULL ? '_' : name[i];
  }
  stem[length] = 0;
  if (stem[0] == 0) strcpy(stem, "_");
  /* A file that begins with a dot is hidden. */
  if (stem[0] == '.') stem[0] = '_';
}

static bool is_taken(char *const *files, size_t count, const char *file) {
  for (size_t i = 0; i < count; i++) {
    if (strcasecmp(files[i], file) == 0) return true;
  }
  return false;
}

bool outputs_name_files(const char *const *names, size_t count, char **files) {
  for (size_t i = 0; i < count; i++) {
    char stem[STEM_LIMIT + 1];
    char file[NAME_LIMIT];
    make_stem(names[i], stem);
    snprintf(file, sizeof file, "%s.npy", stem);
    for (size_t number = 2; is_taken(files, i, file); number++) snprintf(file, sizeof file, "%s_%zu.npy", stem, number);
    files[i] = strdup(file);
    if (files[i] != NULL) continue;
    for (size_t j = 0; j < count; j++) {
      if (j < i) free(files[j]);
      files[j] = NULL;
    }
    return false;
  }
  return true;
}
