/* The objects that a sequence of calls uses, and the calls on them: sessions, tensors in numbered slots, streams and events. Each is
 * created when it is first used. There is a world for each of two devices; one of them is current. A world knows which memory a stream
 * still uses, and keeps a caller's rule: it touches memory only after the host, or the other stream, has waited. */
#ifndef FUZZ_BINDING_WORLD_H
#define FUZZ_BINDING_WORLD_H

#include "bytes.h"
#include "reach.h"
#include "oracle.h"

enum { OWN_TENSORS = 16, KEPT_TENSORS = 8, TENSORS = OWN_TENSORS + KEPT_TENSORS, BINDINGS = 5, EVENTS = 3, WORLDS = 2 };
enum { STATES = 3 };
enum { SESSIONS = MODELS + 1 }; /* two of the first model */

typedef enum place {
  PLACE_HOME, /* the device of the sessions */
  PLACE_HOST,
  PLACE_PINNED
} place;

/* A tensor of the pool: the caller's own, or a retained result of a binding. */
typedef struct slot {
  iobind_tensor *tensor; /* NULL: not created yet */
  view at;
  place where;
  bool is_plain; /* one dim of float32, as the models accept */
  bool is_lent;  /* still owned by a binding: must not be written */
} slot;

/* Runs on a stream whose completion the host does not know. */
typedef struct flight {
  int stream; /* -1: none */
  uint64_t stamp;
  size_t runs;    /* number of queued runs, and of updates between them */
  size_t made;    /* number of queued runs */
  bool must_fail; /* the last run must fail */
  uint64_t calls; /* number of calls when the last run was submitted */
} flight;

typedef struct bound {
  iobind_binding *handle; /* NULL: not created yet */
  iobind_session *session;
  shadow shadow;
  shadow before; /* the flight */
  flight flight;
  place where[MOST_PORTS]; /* FRESH and REUSE outputs */
  unsigned failures;       /* a set of statuses: the possible failures of the last run */
  uint64_t ran_at;         /* number of the call that was its last successful run without a stream; 0: none */
  unsigned repeats;        /* consecutive runs */
  unsigned replaced;       /* bits: an input or output was replaced since then */
  bool reshaped;           /* an input with other dims was bound since the last run */
  block lent;              /* represents all lent memory: the work of streams on it */
} bound;

/* A saved state. */
typedef struct saved {
  iobind_state *handle;    /* NULL: none */
  iobind_session *session; /* of its bindings */
  unsigned made_by;        /* the number of a binding */
  unsigned holds;          /* a bit for each input */
  size_t outputs[MOST_PORTS];
  view values[MOST_PORTS];
  int stream; /* of the work that writes it; -1: complete */
  uint64_t stamp;
  unsigned users; /* the bindings that continue from it before it is complete */
} saved;

typedef struct point {
  iobind_event *handle;
  int stream; /* -1: not recorded, or signaled */
  uint64_t stamps[STREAMS];
} point;

typedef struct lane {
  iobind_stream *handle;
  uint64_t submitted;
  uint64_t seen;           /* work up to this number is known to be complete */
  uint64_t waited;         /* the same, by waits for this stream */
  uint64_t after[STREAMS]; /* work of the other streams for which it waits */
} lane;

typedef struct world {
  int number;
  iobind_runtime *runtime; /* NULL: the device does not exist */
  iobind_device *home;
  iobind_device *host;
  bool is_virtual; /* vdev, where faults can be set */
  bool is_vcuda;   /* CUDA on vcuda, where faults can be set too */
  bool at_host;    /* home is the host */
  bool addressable;
  bool has_pinned;
  bool judges; /* a kernel fails if a value is BAD; CUDA's kernels read zeros then */
  iobind_session *sessions[SESSIONS];
  /* of one sequence */
  bound bindings[BINDINGS];
  slot slots[TENSORS];
  lane lanes[STREAMS];
  point points[EVENTS];
  saved states[STATES];
  unsigned numbers; /* of bindings so far */
  float next_value;
  char fault[48]; /* a setting of the virtual device for the next call; "": none */
  bool is_doomed; /* work fails after its call has returned: any call may return that the device is lost */
  bool is_lost;   /* a call has returned it: from now on no result of the device is valid */
  block *blocks;  /* this world's blocks, while the other world is current */
} world;

extern world *the_world;                    /* the current one */
extern bool without_swap, without_in_place; /* not used, to find other failures */
extern uint64_t call_count;
extern bool verbose;       /* every call is printed before it is made */
extern bool loses_devices; /* the process ends after the sequence that has lost a device */

/* ---- calls ---- */

/* A call: begin_call prints it, then it is made with &the_error; end_call returns its status. */
extern iobind_error the_error;
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void begin_call(const char *format, ...) __attribute__((format(printf, 1, 2)));
iobind_status end_call(iobind_status status);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* End the process if the status is not an expected one. True: it is OK. */
bool require(expectation expected, iobind_status status);
/* The same for a call that can fail only by the fault that was set. */
bool require_ok(iobind_status status);
bool fault_is_set(void);
/* Was a fault set for the last call? */
bool fault_was_set(void);

/* ---- a sequence ---- */

bool world_start(const char *spec); /* the device, and another one of its kind if there is one; false: it does not exist */
bool world_has_other(void);
bool world_has_lost(void);    /* has one of the devices been lost? */
bool world_other_works(void); /* it exists and is not lost */
void world_change(void);      /* make the other world current */
bool world_is_working(void);
void world_stop(void);
void world_begin(void);
void world_end(void);

iobind_session *world_session(size_t which);
const model *world_model(size_t session);
bound *world_binding(size_t index);
void world_destroy_binding(size_t index);
void world_destroy_session(size_t which);

/* ---- tensors ---- */

/* The slot, with its tensor created. NULL: the slot is for retained results and empty, or this device has no such memory. */
slot *world_tensor(size_t index);
/* An empty slot for a retained tensor. If there is none, one is emptied. */
slot *world_kept_slot(size_t hint);
void world_release_tensor(size_t index);
bool world_fits(const slot *of, const port *to); /* count, type and rank */
bool world_may_fit(size_t index, const port *to, bool at_home);
bool world_is_home(const slot *of,
                   const port *to);      /* can it be bound RESIDENT? `to` NULL: to an input that the sessions' device reads */
void world_check_tensor(const slot *of); /* check its values */
void world_check_all(void);
void world_new_values(float *values, size_t count);
void compare(const float *got, view expected, const char *what);
int world_index(const slot *of); /* indices of the second world begin at 100 */

/* ---- states.c ---- */

void state_drop(saved *of);
void states_check(void); /* check their values */
void states_settle(const uint64_t *waited, const bool *failed);

/* ---- streams ---- */

iobind_stream *world_stream(size_t index);
point *world_point(size_t index);

/* Host memory for a call on a stream, until the end of the sequence. */
float *world_memory(size_t count);

/* Wait for the work that must be complete before the host, or work on a stream, accesses memory. `by_event`: streams wait by an event
 * instead of the host. `granted`: the work for which an event passed to the call waits; NULL: none. */
void world_host_uses(const block *memory, bool writes, const uint64_t *granted);
void world_stream_uses(size_t stream, block *memory, bool writes, const uint64_t *granted, bool by_event);
void world_stamp(size_t stream, block *memory, bool writes); /* the next work on the stream uses it */
uint64_t world_submit(size_t stream);
bool world_synchronize(size_t stream); /* false: it has returned a failure */
void world_seen(size_t stream, uint64_t stamp);
void world_waited(size_t stream, uint64_t stamp);
bool world_is_busy(const block *memory, bool writes);

/* A call without a stream has accessed the memory. It has waited for all work in flight on that memory, but perhaps not for other work
 * of the streams. */
void world_host_used(const block *memory, bool writes);
/* Expected bytes of a read on a stream. They are checked when the host knows that the read is complete. */
void world_expect_bytes(size_t stream, const float *there, view expected);
void world_forget_bytes(size_t stream);

/* Prepare the memory of a read. */
void world_unread(float *there, size_t count);
/* The device is lost: each read in flight is complete or has written nothing. Reads from this number on have written nothing. */
void world_check_undelivered(size_t stream, uint64_t failed);

#endif
