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
  PLACE_HOME, /* where the sessions compute */
  PLACE_HOST,
  PLACE_PINNED
} place;

/* A tensor of the pool: the caller's own, or one that came out of a binding and was kept. */
typedef struct slot {
  iobind_tensor *tensor; /* NULL: not made yet */
  view at;
  place where;
  bool is_plain; /* one dim of float32: what the models take */
  bool is_lent;  /* a binding's still: not to be written */
} slot;

/* A run on a stream that the host has not seen pass. */
typedef struct flight {
  int stream; /* -1: none */
  uint64_t stamp;
  size_t runs;    /* that are queued, and updates between them */
  size_t made;    /* only the runs */
  bool must_fail; /* the last of them */
  uint64_t calls; /* that had been made when it began */
} flight;

typedef struct bound {
  iobind_binding *handle; /* NULL: not made yet */
  iobind_session *session;
  shadow shadow;
  shadow before; /* the flight */
  flight flight;
  place where[MOST_PORTS]; /* FRESH and REUSE outputs */
  unsigned failures;       /* a set of statuses: what the last run may be said to have failed with */
  uint64_t ran_at;         /* the number of the call that was its last run without a stream, and went well; 0: none */
  unsigned repeats;        /* runs that came one after the other */
  unsigned replaced;       /* bits: since then an input, an output was replaced */
  bool reshaped;           /* an input of other dims was bound since the last run */
  block lent;              /* stands for all memory that was lent: what streams still do with it */
} bound;

/* A saved state. */
typedef struct saved {
  iobind_state *handle;    /* NULL: none */
  iobind_session *session; /* of its bindings */
  unsigned made_by;        /* the number of a binding */
  unsigned holds;          /* a bit for each input */
  size_t outputs[MOST_PORTS];
  view values[MOST_PORTS];
  int stream; /* on which it is made; -1: it is there */
  uint64_t stamp;
  unsigned users; /* the bindings that continue from it before it is complete */
} saved;

typedef struct point {
  iobind_event *handle;
  int stream; /* -1: it is not recorded, or is signaled */
  uint64_t stamps[STREAMS];
} point;

typedef struct lane {
  iobind_stream *handle;
  uint64_t submitted;
  uint64_t seen;           /* the host need not wait for it any more */
  uint64_t waited;         /* the host has waited for this very stream */
  uint64_t after[STREAMS]; /* what of the other streams it waits for */
} lane;

typedef struct world {
  int number;
  iobind_runtime *runtime; /* NULL: there is no such device */
  iobind_device *home;
  iobind_device *host;
  bool is_virtual; /* vdev, where faults can be set */
  bool is_vcuda;   /* CUDA without a GPU, where faults can be set, too */
  bool at_host;    /* home is the host */
  bool addressable;
  bool has_pinned;
  bool judges; /* a kernel fails where a value is BAD: CUDA's read zeros there */
  iobind_session *sessions[SESSIONS];
  /* of one sequence */
  bound bindings[BINDINGS];
  slot slots[TENSORS];
  lane lanes[STREAMS];
  point points[EVENTS];
  saved states[STATES];
  unsigned numbers; /* of bindings */
  float next_value;
  char fault[48]; /* a setting of the virtual device for the next call; "": none */
  bool is_doomed; /* work fails behind its call: any call may return that the device is lost */
  bool is_lost;   /* a call has, and from now on nothing of the device is seen any more */
  block *blocks;  /* while the other world is the current one */
} world;

extern world *the_world;                    /* the current one */
extern bool without_swap, without_in_place; /* left out, to see what else there is */
extern uint64_t call_count;
extern bool verbose;       /* every call is printed before it is made */
extern bool loses_devices; /* the process ends behind the sequence that has lost one */

/* ---- calls ---- */

/* A call: it is described, and then made between begin_call and end_call, with &the_error; end_call gives its status back. */
extern iobind_error the_error;
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void begin_call(const char *format, ...) __attribute__((format(printf, 1, 2)));
iobind_status end_call(iobind_status status);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the process if the status is none that was expected. True: it was OK. */
bool require(expectation expected, iobind_status status);
/* The same for a call that cannot fail but by the fault that was set. */
bool require_ok(iobind_status status);
bool fault_is_set(void);
/* Did the last call have a fault set for it? */
bool fault_was_set(void);

/* ---- a sequence ---- */

bool world_start(const char *spec); /* of the device, and of one more like it if there is one; false: it is not there */
bool world_has_other(void);
bool world_has_lost(void);    /* one of the devices */
bool world_other_works(void); /* it is there, and not lost */
void world_change(void);      /* the other one is the current one now */
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

/* The slot with its tensor made; NULL: it is a kept one, and empty, or has no place on this device. */
slot *world_tensor(size_t index);
/* An empty slot for what is kept; one is emptied if there is none. */
slot *world_kept_slot(size_t hint);
void world_release_tensor(size_t index);
bool world_fits(const slot *of, const port *to); /* count, type and rank */
bool world_may_fit(size_t index, const port *to, bool at_home);
bool world_is_home(const slot *of,
                   const port *to);      /* can be bound RESIDENT; NULL: to an input that is read where the sessions compute */
void world_check_tensor(const slot *of); /* holds what it must */
void world_check_all(void);
void world_new_values(float *values, size_t count);
void compare(const float *got, view expected, const char *what);
int world_index(const slot *of); /* those of the second world are counted from 100 */

/* ---- states.c ---- */

void state_drop(saved *of);
void states_check(void); /* they hold what they must */
void states_settle(const uint64_t *waited, const bool *failed);

/* ---- streams ---- */

iobind_stream *world_stream(size_t index);
point *world_point(size_t index);

/* Host memory for a call on a stream, until the end of the sequence. */
float *world_memory(size_t count);

/* The host, or work on a stream, is about to touch memory: what has to be waited for is waited for. `by_event`: between streams
 * by an event, not by the host. `granted`: what an event given to the call waits for; NULL: nothing. */
void world_host_uses(const block *memory, bool writes, const uint64_t *granted);
void world_stream_uses(size_t stream, block *memory, bool writes, const uint64_t *granted, bool by_event);
void world_stamp(size_t stream, block *memory, bool writes); /* the next work on the stream uses it */
uint64_t world_submit(size_t stream);
bool world_synchronize(size_t stream); /* false: it has returned a failure */
void world_seen(size_t stream, uint64_t stamp);
void world_waited(size_t stream, uint64_t stamp);
bool world_is_busy(const block *memory, bool writes);

/* A call without a stream has accessed the memory, whatever was in flight there: it has waited for that, and perhaps for nothing else of
 * the stream. */
void world_host_used(const block *memory, bool writes);
/* Bytes that a stream brings, looked at when the host has seen it. */
void world_expect_bytes(size_t stream, const float *there, view expected);
void world_forget_bytes(size_t stream);

/* The memory of a read that is to come. */
void world_unread(float *there, size_t count);
/* The device is lost: what it was to bring has come whole, or not at all; not at all from this number of the stream on. */
void world_check_undelivered(size_t stream, uint64_t failed);

#endif
