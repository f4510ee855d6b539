#include "binding/marks.h"

#include <stdlib.h>

static bool is_gone(iobind__weak *state) {
  iobind__ref *target = iobind__weak_get(state);
  iobind__ref_release(target);
  return target == NULL;
}

static void drop_gone(iobind__marks *self) {
  size_t kept = 0;
  for (size_t i = 0; i < self->count; i++) {
    if (is_gone(self->list[i])) {
      iobind__ref_release(&self->list[i]->ref);
    } else {
      self->list[kept++] = self->list[i];
    }
  }
  self->count = kept;
}

iobind_status iobind__marks_reserve(iobind__marks *self, const char *what, iobind_error *error) {
  if (self->count < self->room) {
    return IOBIND_OK;
  }
  drop_gone(self);
  if (2 * self->count < self->room) {
    return IOBIND_OK;
  }
  size_t room = 2 * self->count + 8;
  iobind__weak **list = realloc(self->list, room * sizeof(iobind__weak *));
  if (list == NULL) {
    return iobind__out_of_memory(error, what);
  }
  self->list = list;
  self->room = room;
  return IOBIND_OK;
}

void iobind__marks_add(iobind__marks *self, iobind__weak *state) {
  iobind__ref_retain(&state->ref);
  self->list[self->count++] = state;
}

size_t iobind__marks_find(const iobind__marks *self, const iobind__weak *state) {
  size_t found = 0;
  for (size_t i = 0; i < self->count; i++) {
    found = self->list[i] == state ? i + 1 : found;
  }
  return found;
}

void iobind__marks_cut(iobind__marks *self, size_t count) {
  while (self->count > count) {
    iobind__ref_release(&self->list[--self->count]->ref);
  }
}

void iobind__marks_free(iobind__marks *self) {
  iobind__marks_cut(self, 0);
  free(self->list);
  *self = (iobind__marks){0};
}
