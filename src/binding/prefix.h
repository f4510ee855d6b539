/* The first rows of a cache of fixed capacity, copied by themselves. */
#ifndef IOBIND_BINDING_PREFIX_H
#define IOBIND_BINDING_PREFIX_H

#include "binding/table.h"

/* Find the part of a carry's state that is in use; `is_used` is false if iobind does not count its length. */
iobind_status iobind__prefix_find(iobind_binding *binding, const iobind__carry *carry, const iobind_tensor *state,
                                  iobind__prefix *out, iobind_error *error);

/* If memory has no addresses, rows would be copied through the host. In that case, and if elements share a byte, the whole tensor is copied. */
bool iobind__prefix_can_copy(const iobind_tensor *tensor);

/* Has the tensor the dims of the state, with room for the rows in use? */
bool iobind__prefix_fits(const iobind__prefix *self, const iobind_tensor *state, const iobind_tensor *into);

/* Copy the rows in use between two tensors that differ in their capacity alone. */
iobind_status iobind__prefix_copy(const iobind__prefix *self, iobind_tensor *from, iobind_tensor *to, iobind_stream *stream,
                                  iobind_error *error);

/* The same into a new tensor, whose capacity is these rows, */
iobind_status iobind__prefix_copy_new(const iobind__cache *from, iobind_stream *stream, iobind_tensor **out,
                                      iobind_error *error);

/* or the capacity of the prefix, with zeros after them. */
iobind_status iobind__prefix_widen(const iobind__cache *from, iobind_tensor **out, iobind_error *error);

#endif
