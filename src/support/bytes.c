#include "support/bytes.h"

#include <stdlib.h>
#include <string.h>

void iobind__bytes_put(iobind__bytes *self, const void *data, size_t count) {
  if (!self->failed && count > self->room - self->length) {
    size_t room = 2 * (self->length + count);
    unsigned char *longer = realloc(self->data, room);
    self->failed = longer == NULL;
    self->data = longer == NULL ? self->data : longer;
    self->room = longer == NULL ? self->room : room;
  }
  if (!self->failed && count > 0) {
    memcpy(self->data + self->length, data, count);
    self->length += count;
  }
}
