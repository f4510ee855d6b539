#define _POSIX_C_SOURCE 200809L /* strdup, strcasecmp */

#include "shared/outputs.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "formats/utf8.h"

/* File names end at 255 bytes; ".npy" and a number must fit after the stem. */
enum { STEM_LIMIT = 200, NAME_LIMIT = STEM_LIMIT + 32 };

/* The output's name, with '_' for characters that cannot be in a file name, or would control a terminal. */
static void make_stem(const char *name, char stem[STEM_LIMIT + 1]) {
  const unsigned char *from = (const unsigned char *)name;
  size_t left = strlen(name);
  size_t length = 0;
  while (left > 0) {
    uint32_t point = 0;
    size_t taken = utf8_decode(from, left, &point);
    bool kept = taken > 0 && utf8_is_plain(point) && (point >= 0x80 || strchr("/\\:*?\"<>|", (int)point) == NULL);
    if (length + (kept ? taken : 1) > STEM_LIMIT) break;
    if (kept) {
      memcpy(stem + length, from, taken);
      length += taken;
    } else {
      stem[length++] = '_';
    }
    taken = taken > 0 ? taken : 1;
    from += taken;
    left -= taken;
  }
  stem[length] = 0;
  if (length == 0) strcpy(stem, "_");
  /* A file that begins with a dot is hidden, and one that begins with '-' is an option to most programs. */
  if (stem[0] == '.' || stem[0] == '-') stem[0] = '_';
}

/* The names in use, by their hash without letter case. If several outputs have the same stem, its entry has the number to try
 * next, so that each is tried once. */
typedef struct taken_name {
  const char *file;   /* NULL: an empty entry */
  size_t next_number; /* of "STEM_N.npy", where `file` is "STEM.npy" */
} taken_name;

typedef struct taken_names {
  taken_name *places; /* the size is a power of two; less than half of it is used */
  size_t mask;
} taken_names;

static taken_name *place_of(const taken_names *names, const char *file) {
  uint64_t hash = 14695981039346656037u;
  for (const char *at = file; *at != 0; at++) hash = (hash ^ (uint64_t)tolower((unsigned char)*at)) * 1099511628211u;
  size_t at = (size_t)(hash ^ hash >> 32) & names->mask;
  while (names->places[at].file != NULL && strcasecmp(names->places[at].file, file) != 0) at = (at + 1) & names->mask;
  return &names->places[at];
}

static char *name_file(const taken_names *names, const char *output) {
  char stem[STEM_LIMIT + 1];
  char file[NAME_LIMIT];
  make_stem(output, stem);
  snprintf(file, sizeof file, "%s.npy", stem);
  taken_name *first = place_of(names, file);
  taken_name *place = first;
  while (place->file != NULL) {
    snprintf(file, sizeof file, "%s_%zu.npy", stem, first->next_number++);
    place = place_of(names, file);
  }
  char *made = strdup(file);
  *place = (taken_name){made, 2};
  return made;
}

bool outputs_name_files(const char *const *output_names, size_t count, char **files) {
  taken_names names = {NULL, 1};
  while (names.mask < 2 * count) names.mask = 2 * names.mask + 1;
  names.places = calloc(names.mask + 1, sizeof *names.places);
  bool made = names.places != NULL;
  for (size_t i = 0; i < count; i++) {
    files[i] = made ? name_file(&names, output_names[i]) : NULL;
    made = files[i] != NULL;
  }
  for (size_t i = 0; !made && i < count; i++) {
    free(files[i]);
    files[i] = NULL;
  }
  free(names.places);
  return made;
}
