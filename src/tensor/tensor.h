/* Typed, shaped memory at a place. */
#ifndef IOBIND_TENSOR_TENSOR_H
#define IOBIND_TENSOR_TENSOR_H

#include "memory/holder.h"
#include "memory/transfer.h"

/* Copies on a stream that have used a tensor's memory. */
typedef struct iobind__use {
  iobind_stream *stream;  /* a reference is held; NULL: none */
  iobind__ticket ticket;  /* of the last of them */
  iobind__ticket written; /* of the last that wrote it; 0: none */
} iobind__use;

typedef enum iobind__access { IOBIND__READ, IOBIND__WRITE } iobind__access;

struct iobind_tensor {
  iobind__ref ref;
  iobind__ref *owner;  /* kept alive: the runtime, or the session or imported memory whose memory this is */
  iobind_tensor *base; /* kept alive: the tensor whose memory this is a view of, which is no view */
  iobind__place *place;
  OrtValue *value;
  uint64_t serial; /* of the value: no other value of any tensor ever has the same number */
  void *data;      /* NULL: 0 bytes, or strings */
  size_t bytes;
  size_t allocated; /* bytes that iobind has allocated for it */
  iobind_holder holder;
  bool borrows;            /* the memory belongs to the caller, or to another tensor */
  bool lent;               /* so does `value`: the deleter gets it, and it is never released */
  bool read_only;          /* the memory must not be written */
  bool is_handle;          /* wrapped: `data` is a handle of the driver's, which takes it back */
  atomic_bool is_exported; /* other libraries may work on the memory, which iobind does not see */
  void *given;             /* what the deleter gets: `data`, or the resource */
  iobind_deleter deleter;
  void *deleter_context;
  iobind__use uses[2]; /* of the memory, like the next one; a view has its base's. Guarded by the runtime's mutex */
  iobind__holders holders;
  iobind_dtype dtype;
  size_t rank;
  int64_t dims[];
};

/* Bytes of a tensor. */
typedef struct iobind__part {
  iobind_tensor *tensor;
  size_t offset;
  size_t bytes;
} iobind__part;

/* What a copy of rows copies. */
typedef struct iobind__extent {
  size_t bytes; /* of a row */
  size_t rows;
} iobind__extent;

enum {
  IOBIND__SHAPE_TEXT = 128,
  /* Memory without addresses can only be reached from its start. WebGPU writes it in units of this many bytes: a write that
   * ends within a unit overwrites the rest of the unit. */
  IOBIND__UNIT = 4,
};

/* iobind_dtype_get_bytes with another name in its messages. */
iobind_status iobind__dtype_bytes(iobind_dtype dtype, const int64_t *dims, size_t rank, size_t *bytes, const char *what,
                                  iobind_error *error);

/* The number of elements; SHAPE if the dims are invalid. */
iobind_status iobind__dims_check(const int64_t *dims, size_t rank, uint64_t *elements, const char *what, iobind_error *error);

/* "float32[N,3,224,224]"; open dims (-1) by symbol or "?". */
void iobind__shape_text(int32_t dtype, const int64_t *dims, const char *const *symbols, size_t rank, char *out,
                        size_t capacity);

/* A number that nothing else ever has; never 0. */
uint64_t iobind__serial_next(void);

/* Does the memory live as long as ORT holds the value, even if the tensor is gone? Not if it is wrapped, or a view. */
static inline bool iobind__tensor_owns_memory(const iobind_tensor *tensor) {
  return !tensor->borrows;
}

/* iobind_tensor_release, inlined. */
static inline void iobind__tensor_drop(iobind_tensor *tensor) {
  iobind__ref_release(tensor == NULL ? NULL : &tensor->ref);
}

/* False at a glance: two tensors with memory of their own, the usual case, overlap only if they are the same. Either may be NULL. */
static inline bool iobind__tensor_may_overlap(const iobind_tensor *a, const iobind_tensor *b) {
  return a != NULL && b != NULL && (a == b || a->allocated == 0 || b->allocated == 0);
}

/* The tensor whose memory it is, a view's or its own. */
static inline iobind_tensor *iobind__tensor_memory(iobind_tensor *tensor) {
  return tensor->base != NULL ? tensor->base : tensor;
}

/* The caller gets the memory, for work that iobind does not see. */
static inline void iobind__tensor_export(const iobind_tensor *tensor) {
  if (!tensor->place->host) {
    iobind_tensor *memory = iobind__tensor_memory((iobind_tensor *)(uintptr_t)tensor);
    atomic_store_explicit(&memory->is_exported, true, memory_order_relaxed);
  }
}

/* Was the memory allocated for this tensor, or for the one that it is a view of? Then no tensor of other memory overlaps it. */
static inline bool iobind__tensor_is_allocated(const iobind_tensor *tensor) {
  while (tensor->base != NULL) {
    tensor = tensor->base;
  }
  return tensor->allocated > 0;
}

/* INVALID_ARGUMENT for a tensor that must not be written. */
iobind_status iobind__tensor_check_writable(const iobind_tensor *tensor, const char *what, iobind_error *error);

/* DEVICE for a stream of neither device. NULL is right. */
iobind_status iobind__tensor_check_stream(const iobind_stream *stream, const iobind_device *a, const iobind_device *b,
                                          const char *what, iobind_error *error);

/* The place of a device's memory, for a caller's tensor. */
iobind_status iobind__tensor_find_place(iobind_device *device, iobind_memory memory, iobind__place **place, const char *what,
                                        iobind_error *error);

/* Create a tensor at any place, also at one that a session lends. */
iobind_status iobind__tensor_create_at(iobind__place *place, iobind_dtype dtype, const int64_t *dims, size_t rank,
                                       iobind_tensor **out, iobind_error *error);

/* The same by the allocator of `source`, which lends memory of the place. */
iobind_status iobind__tensor_create_from(iobind__place *source, iobind__place *place, iobind_dtype dtype, const int64_t *dims,
                                         size_t rank, iobind_tensor **out, iobind_error *error);

/* Who holds the tensor's memory from now on, for the account of iobind_device_get_memory. It is the caller who holds a new one. NULL is a
 * no-op. */
void iobind__tensor_hand_to(iobind_tensor *tensor, iobind_holder holder);

/* Make a tensor of a value that ORT has made. On success the tensor owns the value. `what` begins the messages. */
iobind_status iobind__tensor_from_value(OrtValue *value, iobind__place *place, iobind__ref *owner, iobind_tensor **out,
                                        const char *what, iobind_error *error);

/* Replace the value in a tensor that only the caller holds and whose value ORT has made: nothing is allocated. *reshaped: its
 * dims differed. False if this is not possible; then nothing has changed. */
bool iobind__tensor_replace_value(iobind_tensor *tensor, OrtValue *value, bool *reshaped);

static inline bool iobind__tensor_same_dims(const iobind_tensor *a, const iobind_tensor *b) {
  bool same = a->rank == b->rank;
  for (size_t i = 0; same && i < a->rank; i++) {
    same = a->dims[i] == b->dims[i];
  }
  return same;
}

/* Of the same type, dims and place. */
static inline bool iobind__tensor_is_alike(const iobind_tensor *a, const iobind_tensor *b) {
  return a->place == b->place && a->dtype == b->dtype && iobind__tensor_same_dims(a, b);
}

/* What was just submitted to a stream accesses the tensor: the memory stays until the stream has passed it, and host access is ordered after
 * it. Does nothing without a stream, and for a worker's stream: its tasks say it themselves. */
void iobind__tensor_use(iobind_tensor *tensor, const iobind__submission *submission, iobind__access access);

/* The same for work that has its ticket. */
void iobind__tensor_use_at(iobind_tensor *tensor, iobind_stream *stream, iobind__ticket ticket, iobind__access access);

/* What a binding has bound; NULL: nothing more. */
static inline void iobind__tensor_hold(iobind_tensor *tensor, iobind__holder *holder) {
  iobind__holder_set(holder, tensor == NULL ? NULL : &iobind__tensor_memory(tensor)->holders);
}

/* Before the host accesses the memory: block until all of iobind's work in flight that writes it has completed, and for an access that writes
 * also what reads it. Returns the failure of what was to write the data that are read now. Not on a stream's own thread. */
iobind_status iobind__tensor_settle(const iobind_tensor *tensor, iobind__access access, iobind_error *error);

/* The same for a run that is being prepared: it waits for what is on streams. */
iobind_status iobind__tensor_settle_for(const iobind_tensor *tensor, iobind__access access, const iobind__flight *own,
                                        iobind_error *error);

/* The same for the memory that a binding holds. */
iobind_status iobind__tensor_settle_held(const iobind__holder *holder, iobind_error *error);

/* Do two tensors have a byte in common? */
bool iobind__tensor_overlaps(const iobind_tensor *a, const iobind_tensor *b);
bool iobind__memory_overlaps(const iobind__place *place_a, const void *a, size_t bytes_a, const iobind__place *place_b,
                             const void *b, size_t bytes_b);

/* Are two tensors the same strings in memory? If it cannot be told, they count as such. */
bool iobind__strings_meet(const iobind_tensor *a, const iobind_tensor *b);

/* Are two values of strings the same strings in memory? */
iobind_status iobind__strings_shared(const iobind_runtime *runtime, const OrtValue *a, const OrtValue *b, bool *shared,
                                     iobind_error *error);

/* Copy the elements of a tensor of strings into another of the same dims. */
iobind_status iobind__strings_copy(const iobind_tensor *source, iobind_tensor *target, iobind_error *error);

/* Copy whole tensors of the same type and dims. */
iobind_status iobind__tensor_copy_one(const iobind_tensor *source, iobind_tensor *target, iobind_stream *stream,
                                      iobind_error *error);

/* access.c, rows.c: the public functions of these names. `order` says whether an access without a stream comes after work in flight: a task of a
 * stream, which is such work, has its place in the order already. */
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

/* task.c: reading, writing and copying as a task of a worker's stream. The arguments are checked already; the host memory must
 * stay valid until the stream has passed. */
iobind_status iobind__submit_write(const iobind__part *part, const void *data, iobind_stream *stream, iobind_error *error);
iobind_status iobind__submit_read(const iobind__part *part, void *data, iobind_stream *stream, iobind_error *error);
iobind_status iobind__submit_copy(const iobind_tensor *const *sources, iobind_tensor *const *targets, size_t count,
                                  iobind_stream *stream, iobind_error *error);
iobind_status iobind__submit_rows(const struct iobind_rows *source, const struct iobind_rows *target,
                                  const iobind__extent *extent, iobind_stream *stream, iobind_error *error);

#endif
