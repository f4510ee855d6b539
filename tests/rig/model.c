#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct model {
  struct model *next;
  void *bytes;
  size_t size;
  char spec[];
} model;

static model *models;

const void *test_model(const char *spec, size_t *bytes, char text[TEST_MODEL_TEXT]) {
  model *found = models;
  while (found != NULL && strcmp(found->spec, spec) != 0) {
    found = found->next;
  }
  if (found == NULL) {
    size_t length = strlen(spec) + 1;
    found = malloc(sizeof *found + length);
    if (found == NULL || !test_model_create(spec, &found->bytes, &found->size, text)) {
      if (found == NULL) {
        snprintf(text, TEST_MODEL_TEXT, "out of memory");
      }
      free(found);
      return NULL;
    }
    memcpy(found->spec, spec, length);
    found->next = models;
    models = found;
  }
  *bytes = found->size;
  return found->bytes;
}
