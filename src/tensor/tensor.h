/* Typed, shaped memory at a memory location. */
#ifndef IOBIND_TENSOR_TENSOR_H
#define IOBIND_TENSOR_TENSOR_H

#include "memory/allocator.h"
#include "memory/holder.h"
#include "memory/transfer.h"

/* Copies on one stream that have used a tensor's memory. */
typedef struct iobind__use {
  iobind_stream *stream;  /* a reference is held; NULL: none */
  iobind__ticket ticket;  /* of the last copy */
  iobind__ticket written; /* of the last copy that wrote it; 0: none */
} iobind__use;

typedef enum iobind__access { IOBIND__READ, IOBIND__WRITE } iobind__access;

/* The parts of a tensor that are its own. */
typedef enum iobind__owns {
  IOBIND__OWNS_MEMORY, /* the value and its memory */
  IOBIND__OWNS_VALUE,  /* the memory belongs to the caller, to another tensor, or to an import */
  IOBIND__OWNS_NOTHING /* the value belongs to the caller, too: it is passed to the deleter instead of released */
} iobind__owns;

struct iobind_tensor {
  iobind__ref ref;
  iobind__ref *owner;  /* a reference is held: the runtime; or the session or the imported memory that owns the memory */
  iobind_tensor *base; /* a reference is held: the tensor of which this is a view, itself not a view; NULL: it is not a view */
  iobind__place *place;
  OrtValue *value;
  uint64_t serial; /* identifies the value, and is never reused */
  void *data;      /* an address or a handle; NULL: 0 bytes, or strings */
  size_t bytes;
  size_t allocated; /* the bytes that iobind has allocated for it; 0: others own the memory */
  iobind_holder holder;
  iobind__owns owns;
  bool read_only;          /* the memory must not be written */
  bool is_handle;          /* `data` is a handle of the driver for wrapped memory, to be unwrapped */
  atomic_bool is_exported; /* the caller got the address: other libraries may use the memory without iobind's knowledge */
  void *given;             /* the deleter's argument: the address, or the resource */
  iobind_deleter deleter;
  void *deleter_context;
  iobind__use uses
      [2]; /* these two belong to the memory: for a view, those of its base are used. Protected by the runtime's `uses_mutex` */
  iobind__holders holders;
  iobind_dtype dtype;
  size_t rank;
  int64_t dims[];
};

/* A range of a tensor's bytes. */
typedef struct iobind__part {
  iobind_tensor *tensor;
  size_t offset;
  size_t bytes;
} iobind__part;

/* The extent of a copy of rows. */
typedef struct iobind__extent {
  size_t bytes; /* of a row */
  size_t rows;
} iobind__extent;

enum {
  IOBIND__SHAPE_TEXT = 128,
  /* Memory without addresses can only be copied from its start. WebGPU writes units of this many bytes: a write that ends
   * within a unit overwrites the rest of it. */
  IOBIND__UNIT = 4,
};

/* iobind_dtype_get_bytes with the name `what` in its messages. */
iobind_status iobind__form_bytes(iobind__form form, size_t *bytes, const char *what, iobind_error *error);

/* The number of elements; SHAPE if the dims are invalid. */
iobind_status iobind__dims_check(const int64_t *dims, size_t rank, uint64_t *elements, const char *what, iobind_error *error);

/* Format a shape: "float32[N,3,224,224]". A negative dim is shown by its symbol, or as "?". */
void iobind__shape_text(iobind__form form, const char *const *symbols, char *out, size_t capacity);

/* A number that is never returned again; never 0. */
uint64_t iobind__serial_next(void);

static inline iobind__form iobind__form_of(const iobind_tensor *tensor) {
  return (iobind__form){tensor->dtype, tensor->dims, tensor->rank};
}

/* Does the value own its memory? Not if it is wrapped, imported or a view. */
static inline bool iobind__tensor_owns_memory(const iobind_tensor *tensor) {
  return tensor->owns == IOBIND__OWNS_MEMORY;
}

/* iobind_tensor_release, inlined. */
static inline void iobind__tensor_drop(iobind_tensor *tensor) {
  iobind__ref_release(tensor == NULL ? NULL : &tensor->ref);
}

/* Release the references, and set them to NULL. The array may be NULL. */
void iobind__tensors_release(iobind_tensor **tensors, size_t count);

/* A quick test: two tensors with memory of their own, the usual case, overlap only if they are the same. Either may be NULL. */
static inline bool iobind__tensor_may_overlap(const iobind_tensor *a, const iobind_tensor *b) {
  return a != NULL && b != NULL && (a == b || a->allocated == 0 || b->allocated == 0);
}

/* The tensor whose memory it is: a view's base, or itself. */
static inline iobind_tensor *iobind__tensor_memory(iobind_tensor *tensor) {
  return tensor->base != NULL ? tensor->base : tensor;
}

/* The caller gets the address, and may use the memory without iobind's knowledge. */
static inline void iobind__tensor_export(const iobind_tensor *tensor) {
  if (!tensor->place->host) {
    iobind_tensor *memory = iobind__tensor_memory((iobind_tensor *)(uintptr_t)tensor);
    atomic_store_explicit(&memory->is_exported, true, memory_order_relaxed);
  }
}

/* Has iobind allocated the memory, for this tensor or for its base? Then no tensor with other memory overlaps it. */
static inline bool iobind__tensor_is_allocated(const iobind_tensor *tensor) {
  while (tensor->base != NULL) {
    tensor = tensor->base;
  }
  return tensor->allocated > 0;
}

/* INVALID_ARGUMENT if the tensor is read-only. */
iobind_status iobind__tensor_check_writable(const iobind_tensor *tensor, const char *what, iobind_error *error);

/* WRONG_DEVICE if the stream is of neither device. A NULL stream passes. */
iobind_status iobind__tensor_check_stream(const iobind_stream *stream, const iobind_device *a, const iobind_device *b,
                                          const char *what, iobind_error *error);

/* The memory location of a device, for the caller's argument `memory`. */
iobind_status iobind__tensor_find_place(iobind_device *device, iobind_memory memory, iobind__place **place, const char *what,
                                        iobind_error *error);

/* Create a tensor at any memory location, also a session's. */
iobind_status iobind__tensor_create_at(iobind__place *place, iobind__form form, iobind_tensor **out, iobind_error *error);

/* The same with the allocator of `source`, which lends memory of `place`. */
iobind_status iobind__tensor_create_from(iobind__place *source, iobind__place *place, iobind__form form, iobind_tensor **out,
                                         iobind_error *error);

/* Set the holder of the tensor's memory for iobind_device_get_memory. A new tensor's is the caller. NULL is a no-op. */
void iobind__tensor_hand_to(iobind_tensor *tensor, iobind_holder holder);

/* Make a tensor of a value that ORT has created. On success the tensor owns the value. `what` begins the messages. */
iobind_status iobind__tensor_from_value(OrtValue *value, iobind__place *place, iobind__ref *owner, iobind_tensor **out,
                                        const char *what, iobind_error *error);

/* Replace the value of a tensor that only the caller retains, and whose memory ORT has allocated; this allocates nothing.
 * *reshaped: the dims differed. False: it is not possible, and nothing has changed. */
bool iobind__tensor_replace_value(iobind_tensor *tensor, OrtValue *value, bool *reshaped);

static inline bool iobind__tensor_same_dims(const iobind_tensor *a, const iobind_tensor *b) {
  bool same = a->rank == b->rank;
  for (size_t i = 0; same && i < a->rank; i++) {
    same = a->dims[i] == b->dims[i];
  }
  return same;
}

/* Do two tensors have the same type, dims and memory location? */
static inline bool iobind__tensor_is_alike(const iobind_tensor *a, const iobind_tensor *b) {
  return a->place == b->place && a->dtype == b->dtype && iobind__tensor_same_dims(a, b);
}

/* The submitted work accesses the tensor: retain its memory until the work is complete, and order host access after it. No-op
 * without a stream, and for a worker's stream, whose tasks call iobind__tensor_use_at. */
void iobind__tensor_use(iobind_tensor *tensor, const iobind__submission *submission, iobind__access access);

/* The same for work that already has a ticket. */
void iobind__tensor_use_at(iobind_tensor *tensor, iobind_stream *stream, iobind__ticket ticket, iobind__access access);

/* Let a binding's holder hold the tensor's memory; NULL: hold nothing. */
static inline void iobind__tensor_hold(iobind_tensor *tensor, iobind__holder *holder) {
  iobind__holder_set(holder, tensor == NULL ? NULL : &iobind__tensor_memory(tensor)->holders);
}

/* Before the host accesses the memory: block until iobind's work in flight that writes it is complete; for an access that
 * writes, also work that reads it. A read returns the failure of work that was to write the data. Must not be called on a
 * stream's own thread. */
iobind_status iobind__tensor_settle(const iobind_tensor *tensor, iobind__access access, iobind_error *error);

/* The same for a run that is being prepared; it waits only for work on streams: see iobind__holders_await. */
iobind_status iobind__tensor_settle_for(const iobind_tensor *tensor, iobind__access access, const iobind__flight *own,
                                        iobind_error *error);

/* The same for the memory that a binding holds. */
iobind_status iobind__tensor_settle_held(const iobind__holder *holder, iobind_error *error);

/* Do two tensors overlap in memory? */
bool iobind__tensor_overlaps(const iobind_tensor *a, const iobind_tensor *b);
bool iobind__memory_overlaps(const iobind__place *place_a, const void *a, size_t bytes_a, const iobind__place *place_b,
                             const void *b, size_t bytes_b);

/* Are two tensors of strings the same C++ objects? True if it is unknown. */
bool iobind__strings_meet(const iobind_tensor *a, const iobind_tensor *b);

/* Are two values of strings the same C++ objects? */
iobind_status iobind__strings_shared(const iobind_runtime *runtime, const OrtValue *a, const OrtValue *b, bool *shared,
                                     iobind_error *error);

/* Copy the elements of a tensor of strings into another of the same dims. */
iobind_status iobind__strings_copy(const iobind_tensor *source, iobind_tensor *target, iobind_error *error);

/* Copy a tensor into another one of the same type and dims. */
iobind_status iobind__tensor_copy_one(const iobind_tensor *source, iobind_tensor *target, iobind_stream *stream,
                                      iobind_error *error);

/* access.c, rows.c: the public functions of these names. `order`: an access without a stream is ordered after work in flight
 * (SETTLED), or is made by a stream's task, which is itself such work (IN_FLIGHT). */
typedef enum iobind__order { IOBIND__SETTLED, IOBIND__IN_FLIGHT } iobind__order;
iobind_status iobind__tensor_write(const iobind__part *part, const void *data, iobind_stream *stream, iobind__order order,
                                   iobind_error *error);
iobind_status iobind__tensor_read(const iobind__part *part, void *data, iobind_stream *stream, iobind__order order,
                                  iobind_error *error);
iobind_status iobind__tensor_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                  iobind_stream *stream, iobind__order order, iobind_error *error);
struct iobind_rows;
iobind_status iobind__tensor_copy_rows(const struct iobind_rows *source, const struct iobind_rows *target,
                                       const iobind__extent *extent, iobind_stream *stream, iobind__order order,
                                       iobind_error *error);

/* task.c: reads, writes and copies as tasks of a worker's stream. The arguments have been checked. Host memory must remain
 * valid until the task is complete. */
iobind_status iobind__submit_write(const iobind__part *part, const void *data, iobind_stream *stream, iobind_error *error);
iobind_status iobind__submit_read(const iobind__part *part, void *data, iobind_stream *stream, iobind_error *error);
iobind_status iobind__submit_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                  iobind_stream *stream, iobind_error *error);
iobind_status iobind__submit_rows(const struct iobind_rows *source, const struct iobind_rows *target,
                                  const iobind__extent *extent, iobind_stream *stream, iobind_error *error);

#endif
