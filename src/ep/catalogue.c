/* Look-ups of EPs, and of their options by key. */
#include "ep/ep.h"

#include <stdio.h>
#include <string.h>

#include "support/text.h"

static const iobind__ep *const catalogue[] = {
    &iobind__ep_cpu,      &iobind__ep_cuda, &iobind__ep_tensorrt, &iobind__ep_nvtensorrtrtx, &iobind__ep_webgpu,
    &iobind__ep_openvino, &iobind__ep_dml,  &iobind__ep_qnn,      &iobind__ep_migraphx,      &iobind__ep_vitisai,
    &iobind__ep_coreml,   &iobind__ep_ggml, &iobind__ep_vdev,
};
enum { CATALOGUE_SIZE = sizeof catalogue / sizeof catalogue[0] };

const iobind__ep *iobind__ep_at(size_t index) {
  return index < CATALOGUE_SIZE ? catalogue[index] : NULL;
}

const iobind__ep *iobind__ep_by_name(const char *name, size_t length) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (strlen(catalogue[i]->name) == length && memcmp(catalogue[i]->name, name, length) == 0) {
      return catalogue[i];
    }
  }
  return NULL;
}

const iobind__ep *iobind__ep_of_option(const char *option, const char **rest) {
  const char *dot = strchr(option, '.');
  const iobind__ep *named = dot == NULL ? NULL : iobind__ep_by_name(option, (size_t)(dot - option));
  *rest = named == NULL ? option : dot + 1;
  return named;
}

const iobind__ep *iobind__ep_by_ep_name(const char *ep_name) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (strcmp(catalogue[i]->ep_name, ep_name) == 0) {
      return catalogue[i];
    }
  }
  return NULL;
}

const iobind__ep *iobind__ep_meant(const char *text, size_t length) {
  char name[IOBIND__NAME_TEXT];
  if (length >= sizeof name) {
    return NULL;
  }
  memcpy(name, text, length);
  name[length] = '\0';
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (iobind__text_same_letters(catalogue[i]->name, name) || iobind__text_same_letters(catalogue[i]->ep_name, name)) {
      return catalogue[i];
    }
  }
  return NULL;
}

const iobind__ep *iobind__ep_by_pinned(const char *text, size_t length) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    const char *pinned = catalogue[i]->pinned;
    if (pinned != NULL && strlen(pinned) == length && memcmp(pinned, text, length) == 0) {
      return catalogue[i];
    }
  }
  return NULL;
}

const char *iobind__ep_native_name(int32_t kind) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (kind != 0 && catalogue[i]->native.kind == kind) {
      return catalogue[i]->native.name;
    }
  }
  return NULL;
}

bool iobind__ep_is_graph_option(const char *key) {
  const char *dot = strrchr(key, '.');
  const char *option = dot == NULL ? key : dot + 1;
  bool is = false;
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    const iobind__option_table *table = catalogue[i]->options;
    for (size_t o = 0; table != NULL && o < table->count; o++) {
      is = is || (table->options[o].captures && iobind__text_same_letters(table->options[o].key, option));
    }
  }
  return is;
}

const iobind__ep *iobind__ep_before(const iobind__ep *ep) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (catalogue[i]->before != NULL && strcmp(catalogue[i]->before, ep->name) == 0) {
      return catalogue[i];
    }
  }
  return NULL;
}

void iobind__ep_list_capturing(char out[IOBIND__EP_NAMES]) {
  size_t length = 0;
  out[0] = '\0';
  for (size_t i = 0; i < CATALOGUE_SIZE && length < IOBIND__EP_NAMES; i++) {
    if (catalogue[i]->graph_option != NULL) {
      int added = snprintf(out + length, IOBIND__EP_NAMES - length, "%s%s", length == 0 ? "" : ", ", catalogue[i]->name);
      length += added > 0 ? (size_t)added : 0;
    }
  }
}

/* "libSTEM.so", "libSTEM.dylib" or "STEM.dll" */
static bool is_file_of(const char *file_name, const char *stem) {
  const char *name = strncmp(file_name, "lib", 3) == 0 ? file_name + 3 : file_name;
  size_t length = strlen(stem);
  if (strncmp(name, stem, length) != 0) {
    return false;
  }
  const char *ending = name + length;
  return strcmp(ending, ".so") == 0 || strcmp(ending, ".dylib") == 0 || strcmp(ending, ".dll") == 0;
}

const iobind__ep *iobind__ep_by_file(const char *file_name) {
  for (size_t i = 0; i < CATALOGUE_SIZE; i++) {
    if (catalogue[i]->library != NULL && is_file_of(file_name, catalogue[i]->library)) {
      return catalogue[i];
    }
  }
  return NULL;
}

/* Edits (insert, delete, replace) that turn a key into a known one; FAR if there are more than in a typing error. */
enum { LONGEST_KEY = 64, SLIP = 2, FAR = SLIP + 1 };

static size_t distance(const char *key, const char *known) {
  size_t row[LONGEST_KEY + 1];
  size_t columns = strlen(known);
  size_t length = strlen(key);
  if (columns > LONGEST_KEY || length > columns + SLIP || columns > length + SLIP) {
    return FAR;
  }
  for (size_t j = 0; j <= columns; j++) {
    row[j] = j;
  }
  for (size_t i = 1; i <= length; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= columns; j++) {
      size_t replace = diagonal + (key[i - 1] != known[j - 1]);
      diagonal = row[j];
      size_t insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      row[j] = replace < insert ? replace : insert;
    }
  }
  return row[columns] < FAR ? row[columns] : FAR;
}

iobind_status iobind__ep_option_check(const iobind__ep *ep, const char *key, bool *known, const char **near,
                                      iobind_error *error) {
  const iobind__option_table *table = ep == NULL ? NULL : ep->options;
  *known = table == NULL || iobind__option_find(table, key) != NULL;
  *near = NULL;
  size_t best = FAR;
  for (size_t i = 0; !*known && i < table->count; i++) {
    const char *other = table->options[i].key;
    size_t edits = iobind__text_same_letters(other, key) ? 0 : distance(key, other);
    if (edits < best) {
      best = edits;
      *near = other;
    }
  }
  if (best > 0) {
    return IOBIND_OK;
  }
  return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                      "session_create: EP option '%.*s' of %s is unknown: did you mean '%s'?", LONGEST_KEY, key, ep->name,
                      *near);
}
