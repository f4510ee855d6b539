/* The internals of a binding. iobind's table records what is bound. Each change gives it a new generation, a number. Before the next run, a
 * plan is compiled from the table, and ORT's binding is brought in line with it, by a mirror of what it was given (side.h). If a run consists
 * only of ORT's call, the binding is armed: later runs repeat it without checks, until a change disarms it. */
#ifndef IOBIND_BINDING_TABLE_H
#define IOBIND_BINDING_TABLE_H

#include "binding/binding.h"
#include "binding/graph.h"
#include "binding/side.h"
#include "memory/holder.h"
#include "session/kind.h"

typedef struct iobind__dims {
  bool known;
  size_t rank;
  int64_t dims[IOBIND_MAX_RANK];
} iobind__dims;

/* What the caller says of an input. */
typedef struct iobind__length_name {
  iobind_length_role role;
  size_t axis; /* CACHE: of its rows */
} iobind__length_name;

/* What the next run reads as an input. */
typedef enum iobind__next {
  IOBIND__NEXT_BOUND,  /* the tensor that is bound */
  IOBIND__NEXT_RESULT, /* the output that is carried to it, of the last run */
  IOBIND__NEXT_TORN,   /* nothing: a failed run may have written in place; of a cache, only rows beyond its length */
  IOBIND__NEXT_LOST    /* nothing: all of the state is undefined */
} iobind__next;

typedef struct iobind__input {
  iobind_input_mode mode;
  iobind_tensor *bound;     /* what ORT reads; NULL: not set. A reference is held, as on the next two */
  iobind_tensor *source;    /* LIVE if the tensor is elsewhere: copied into `bound` before each run */
  iobind_event *event;      /* the producer's */
  iobind__next next;        /* what the next run reads */
  iobind__dims past;        /* the dims of the tensor that was released, for which REUSE outputs have memory */
  size_t carry;             /* its carry's index + 1; 0: not carried */
  iobind__length_name name; /* of its lengths, by the caller */
  iobind_length_role role;  /* which length iobind writes into it; UNNAMED: none */
  int64_t room;             /* with a role: the capacity for its lengths; INT64_MAX: not known */
  bool is_made;             /* iobind has bound it, for a length */
  bool is_left;             /* iobind has bound it: a state that a run has left or that was restored, perhaps a saved one */
} iobind__input;

typedef struct iobind__output {
  iobind__output_mode mode;
  iobind__place *place;    /* FRESH, REUSE: its memory location */
  iobind_tensor *target;   /* FIXED, IN_PLACE: the tensor that the next run writes; a reference is held */
  size_t carry;            /* as of an input */
  uint64_t memory;         /* REUSE: the serial number of its memory; a new number requests new memory */
  iobind_tensor *shown[2]; /* REUSE: by side, the tensor of that memory that the caller has got; references are held */
  /* found by a run */
  iobind__output_mode seen_mode;   /* the mode with which it was last found in the requested memory, */
  const iobind__place *seen_place; /* and its location, even if something else was bound in between; NULL: never */
  bool has_fixed_dims;             /* the model fixes the dims, and the value had them: they do not depend on the inputs */
  bool is_copied;                  /* iobind copies it after each run, as it does strings and some passed-through inputs */
  /* of the last run */
  OrtValue *value;       /* fetched from ORT, not yet in a tensor */
  iobind_tensor *result; /* the value as a tensor */
  bool is_taken;         /* the caller has taken it */
} iobind__output;

typedef enum iobind__results_state {
  IOBIND__RESULTS_NONE,  /* no run since the last change of an output */
  IOBIND__RESULTS_HELD,  /* ORT's binding holds them */
  IOBIND__RESULTS_READY, /* fetched: each is a value or a tensor in its slot */
  IOBIND__RESULTS_FAILED /* the run failed after its call had returned */
} iobind__results_state;

/* The results of the last run. */
typedef struct iobind__results {
  iobind__results_state state;
  iobind_error failure; /* FAILED: the reason. A copy, because a stream keeps only its last failures */
} iobind__results;

/* An output that becomes an input. */
typedef struct iobind__carry {
  size_t output;
  size_t input;
  iobind_carry_mode mode;
  iobind_tensor *buffers[2]; /* SWAP: the buffers that the runs write in turn; references are held */
} iobind__carry;

enum { IOBIND__LENGTHS_LOST = -1 };

/* How many rows the carried caches of fixed capacity hold, as iobind counts them. Only the caller's thread uses it. */
typedef struct iobind__lengths {
  iobind__used now;     /* after all runs that were submitted */
  iobind__used settled; /* after all runs that are known to have succeeded; a failure returns to it */
  int64_t added;        /* the rows that the next run adds; 0: iobind has not written its lengths; LOST: no run may read them */
  int64_t capacity;     /* the smallest capacity; -1: this and the fields below are not yet known */
  int64_t rows;         /* the size of the batch */
  bool rows_differ;     /* the caches have batches of different sizes */
  bool is_sought;       /* they were looked for before a run; capacity >= 0: and found */
  size_t tokens;        /* the input with the new rows; SIZE_MAX: unknown */
  size_t tokens_axis;   /* the axis of its new rows */
  bool tokens_differ;   /* other caches have another input with new rows */
} iobind__lengths;

/* An output that is bound again before each run. */
typedef struct iobind__fresh {
  const iobind__value *value;
  const OrtMemoryInfo *memory; /* where ORT allocates it */
} iobind__fresh;

/* What is checked with a run, apart from the table. */
enum {
  IOBIND__CHECK_RESULTS = 1, /* it is compared with the CPU's */
  IOBIND__CHECK_LENGTHS = 2  /* lengths that the caller may have written are read before it */
};

/* The steps of a run with this table, compiled after a change (plan.c). They follow from the table and from the outcomes of runs. */
typedef struct iobind__plan {
  uint64_t generation;  /* of the table that it was compiled from */
  bool has_waits;       /* some input has an event, or is LIVE with a source */
  bool is_seen;         /* every bound output was found in the requested memory */
  bool repeats;         /* once it is seen, a run is ORT's call alone, after `fresh` */
  unsigned checks;      /* of the next run */
  size_t copied_count;  /* outputs that iobind copies */
  iobind__fresh *fresh; /* the outputs that are bound again before each run */
  size_t fresh_count;
  int64_t *symbol_values; /* for the check of symbolic dims */
  size_t *symbol_owners;
} iobind__plan;

typedef struct iobind__verified iobind__verified;

/* The holders of a binding: one for each input, one for each output, and two more for each output: for its buffers if it is
 * carried by SWAP, or for each side's memory if it is REUSE. */
static inline size_t iobind__holder_count(const iobind_session *session) {
  return session->input_count + 3 * session->output_count;
}

/* The memory that is bound. */
typedef struct iobind__held {
  iobind__holder *list;
  pthread_mutex_t mutex; /* a stream's thread may change the holders while the caller's thread reads them */
} iobind__held;

struct iobind_binding {
  iobind__ref ref;            /* of the caller, and of runs that wait in threads of iobind */
  iobind_session *session;    /* a reference is held */
  uint64_t generation;        /* of the table; see iobind__table_changed */
  iobind__plan plan;          /* the steps of a run; valid if it has that generation */
  iobind__side sides[2];      /* ORT's bindings; the second is open only if a state is carried by SWAP */
  iobind__arrays arrays;      /* or arrays of values, for the whole binding */
  size_t turn;                /* the side of the next run */
  iobind__graphs *graphs;     /* NULL: the session captures none */
  iobind__verified *verified; /* NULL: no run is verified */
  iobind__repeat repeat;      /* the call that an armed binding repeats */
  iobind__settings settings;  /* the run options: the caller's, and ORT's form of them */
  iobind__flight flight;      /* the run state, and the runs in flight */
  iobind__results results;    /* of the last run: who has them, or why it has failed */
  iobind__output *outputs;    /* the table's outputs, in the session's order */
  iobind__held held;          /* by which host access finds the runs in flight */
  iobind__carry *carries;     /* the table's states, in the order in which they were carried */
  size_t carry_count;         /* of those */
  iobind__lengths lengths;    /* of the caches among them */
  iobind__marks marks;        /* earlier states of the same carries */
  iobind__input inputs[];     /* the table's inputs, in the session's order */
};

static inline iobind__holder *iobind__side_holder(const iobind_binding *binding, size_t output, size_t side) {
  return &binding->held.list[binding->session->input_count + binding->session->output_count + 2 * output + side];
}

static inline iobind__side *iobind__side_of_turn(iobind_binding *binding) {
  return &binding->sides[binding->turn];
}

/* Is there only one binding of ORT, which has everything of the table? */
static inline bool iobind__binding_is_in_line(const iobind_binding *binding) {
  return binding->sides[0].generation == binding->generation && binding->sides[1].binding == NULL;
}

/* Is nothing carried or copied, and are there no graphs? */
static inline bool iobind__binding_is_plain(const iobind_binding *binding) {
  return (binding->carry_count | binding->plan.copied_count | (uintptr_t)binding->graphs) == 0;
}

/* Is the output bound again before each run? Otherwise ORT would write into the value that it still has: the last result, or a
 * passed-through input. */
static inline bool iobind__output_is_fresh(const iobind__output *output) {
  return output->mode == IOBIND__OUTPUT_FRESH || output->is_copied;
}

/* The memory location where the next run is to leave a bound output. */
static inline iobind__place *iobind__output_place(const iobind__output *output) {
  return output->target != NULL ? output->target->place : output->place;
}

/* Is the output known to be in the requested memory, or not bound? A passed-through input is where it was bound. Other outputs that iobind copies are
 * checked after each run. */
static inline bool iobind__output_is_seen(const iobind_binding *binding, size_t index) {
  const iobind__output *output = &binding->outputs[index];
  if (output->is_copied) {
    return binding->session->outputs[index].passthrough_input >= 0;
  }
  bool is_same = output->seen_mode == output->mode && output->seen_place == iobind__output_place(output);
  return output->mode == IOBIND__OUTPUT_NONE || is_same;
}

/* Inlined: part of the usual rebind, whose instructions are counted (bench/rebind). */
static inline iobind_status iobind__output_check_index(const iobind_binding *binding, size_t index, const char *what,
                                                       iobind_error *error) {
  if (binding == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: binding is NULL", what);
  }
  size_t count = binding->session->output_count;
  return index < count
             ? IOBIND_OK
             : iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "%s: expected an index below %zu, got %zu", what, count, index);
}

/* The tensor of a REUSE output's memory that the caller has got; NULL: none. An output that iobind copies has one memory for
 * both sides. */
static inline iobind_tensor **iobind__output_shown(iobind_binding *binding, size_t index) {
  iobind__output *output = &binding->outputs[index];
  return &output->shown[output->is_copied ? 0 : binding->turn];
}

static inline bool iobind__output_is_given(const iobind__output *output) {
  return output->mode == IOBIND__OUTPUT_FIXED || output->mode == IOBIND__OUTPUT_IN_PLACE || output->target != NULL;
}

/* ---- plan.c ---- */

static inline bool iobind__plan_is_valid(const iobind_binding *binding) {
  return binding->plan.generation == binding->generation;
}

iobind_status iobind__plan_open(iobind_binding *binding, iobind_error *error);
void iobind__plan_close(iobind_binding *binding);

/* Check the table, and compile the plan from it. */
iobind_status iobind__plan_compile(iobind_binding *binding, iobind_error *error);

/* Do the assumptions of an armed binding hold? For debug builds: finds a change that did not disarm the binding. */
bool iobind__plan_holds(const iobind_binding *binding);

/* ---- flight.c ---- */

/* Check whether the runs on a stream are complete. If so, they are no longer in flight. */
void iobind__flight_poll(iobind_binding *binding);

/* Wait for the runs that are in flight on a stream. */
iobind_status iobind__flight_wait(iobind_binding *binding, iobind_error *error);

/* The last run has failed after its call had returned: its results cannot be fetched or carried. The states that it reads may
 * still be defined: it may have been refused before it began. */
void iobind__binding_fail(iobind_binding *binding, const iobind_error *failure);

/* ---- what a change of the table does ---- */

/* The next run must make its checks before it repeats the last one. */
static inline void iobind__binding_disarm(iobind_binding *binding) {
  if (atomic_load_explicit(&binding->flight.state, memory_order_relaxed) >= IOBIND__THREADS_APART) {
    iobind__flight_disarm(&binding->flight);
  }
}

/* Something in the table changed: the next run compiles the plan, and each side compares the table with its mirror. */
static inline void iobind__table_changed(iobind_binding *binding) {
  binding->generation++;
  iobind__binding_disarm(binding);
}

/* iobind__binding_check_idle, inlined for the usual case. */
static inline iobind_status iobind__binding_must_be_idle(iobind_binding *binding, const char *what, iobind_error *error) {
  bool idle = binding->flight.stream == NULL && !iobind__flight_runs(&binding->flight);
  return idle ? IOBIND_OK : iobind__binding_check_idle(binding, what, error);
}

/* ---- input.c ---- */

/* The last run's output is not the next state any more. */
static inline void iobind__input_drop_result(iobind__input *input) {
  if (input->next == IOBIND__NEXT_RESULT) {
    input->next = IOBIND__NEXT_BOUND;
  }
}

void iobind__input_clear(iobind__input *input);

/* Hold the memory that the caller has bound to an input, so that host access is ordered after the runs that use it. Must be
 * called after a change, and before the reference to the old tensor is released. */
void iobind__input_hold(iobind_binding *binding, size_t index);
void iobind__input_let_loose(iobind_binding *binding, size_t index);

/* The tensor that the host reads during the submission of a run to an EP's stream: an input that the session reads on the host,
 * or the pageable source of a LIVE input, which is copied into pinned memory. NULL: none. */
const iobind_tensor *iobind__input_read_at_once(const iobind_binding *binding, size_t index);

/* May values of the host be written into the input, on this stream? If it is not bound: into the memory that it will be bound to. `what`
 * names the call. */
iobind_status iobind__input_check_write(const iobind_binding *binding, size_t index, const iobind_stream *stream,
                                        const char *what, iobind_error *error);

/* Write values into a bound input that is not carried. On a stream `values` is retained until it has been read. */
iobind_status iobind__input_write_from(iobind_binding *binding, size_t index, iobind_tensor *values, iobind_stream *stream,
                                       iobind_error *error);

/* Later runs continue from this state. `event`: recorded after the work that writes it, or NULL. Takes ownership of the
 * reference to the tensor. */
void iobind__input_go_on(iobind_binding *binding, size_t index, iobind_tensor *state, iobind_event *event);

/* ---- roles.c ---- */

/* Has an input of this role a value for each row or position, along its last axis? */
static inline bool iobind__length_is_wide(iobind_length_role role) {
  return role == IOBIND_LENGTH_MASK || role == IOBIND_LENGTH_POSITIONS;
}

/* Find the carried caches, and the role of each input. */
iobind_status iobind__roles_find(iobind_binding *binding, iobind__lengths *found, iobind_error *error);

/* ---- overflow.c ---- */

/* Are the lengths that the caller writes checked before a run? The first call for a session reads the model's graph, if an input can
 * have a length. */
bool iobind__overflow_is_checked(iobind_binding *binding);

/* INVALID_ARGUMENT: in an input that the session reads on the host the caller has written a length below 0, or one for which the
 * caches have no room. All work that writes these inputs is complete.
 * `is_counted`: iobind has written the lengths for this run. */
iobind_status iobind__overflow_check(const iobind_binding *binding, bool is_counted, iobind_error *error);

/* ---- lengths.c ---- */

void iobind__lengths_open(iobind_binding *binding);
void iobind__lengths_close(iobind_binding *binding);

/* The states were replaced: their lengths are unknown. */
void iobind__lengths_forget(iobind_binding *binding);

/* The same, and the states do not continue from a saved state. */
static inline void iobind__states_forget(iobind_binding *binding) {
  iobind__lengths_forget(binding);
  iobind__marks_cut(&binding->marks, 0);
}

/* A run begins. INVALID_STATE: the lengths that it reads are not those of this run. */
iobind_status iobind__lengths_begin(const iobind_binding *binding, iobind_error *error);

/* Has iobind written the lengths that the next run reads? */
static inline bool iobind__lengths_are_counted(const iobind_binding *binding) {
  return binding->lengths.added != 0;
}

/* A run was made or submitted. */
void iobind__lengths_note_run(iobind_binding *binding);

/* A run has failed at once, on the caller's thread. If it was not given to ORT, nothing changes. */
void iobind__lengths_note_failure(iobind_binding *binding);

/* The runs in flight have ended. */
void iobind__lengths_note_end(iobind_binding *binding, bool has_failed);

/* ---- overlap.c ---- */

/* Memory that a run reads and memory that it writes must not overlap, unless the caller chose IN_PLACE. */
iobind_status iobind__overlap_check_input(const iobind_binding *binding, size_t index, const iobind_tensor *tensor,
                                          const char *what, iobind_error *error);
/* The same for the state that is bound where an output is to be carried. */
iobind_status iobind__overlap_check_carry(const iobind_binding *binding, const iobind__carry *carry, const iobind_tensor *state,
                                          const char *what, iobind_error *error);
iobind_status iobind__overlap_check_output(const iobind_binding *binding, size_t index, iobind__output_mode mode,
                                           const iobind_tensor *tensor, iobind_error *error);

static inline bool iobind__outputs_reuse(const iobind_binding *binding) {
  bool found = false;
  for (size_t i = 0; !found && i < binding->session->output_count; i++) {
    found = binding->outputs[i].mode == IOBIND__OUTPUT_REUSE;
  }
  return found;
}

/* A tensor is bound: REUSE outputs that may be in its memory, and buffers of SWAP, get new memory in the next run. */
iobind_status iobind__overlap_renew(iobind_binding *binding, const iobind_tensor *tensor, iobind_error *error);
void iobind__overlap_leave_buffers(iobind_binding *binding, const iobind_tensor *tensor);
static inline iobind_status iobind__overlap_make_room(iobind_binding *binding, const iobind_tensor *tensor,
                                                      iobind_error *error) {
  if (binding->carry_count > 0) {
    iobind__overlap_leave_buffers(binding, tensor);
  }
  /* ORT allocates the memory of REUSE outputs; iobind does only with graphs, or if it copies the outputs */
  bool is_elsewhere = iobind__tensor_is_allocated(tensor) && binding->graphs == NULL && binding->plan.copied_count == 0;
  return is_elsewhere || !iobind__outputs_reuse(binding) ? IOBIND_OK : iobind__overlap_renew(binding, tensor, error);
}

/* ---- output.c ---- */

/* The memory location where ORT leaves an output that iobind copies. */
static inline iobind__place *iobind__output_home(const iobind_binding *binding, size_t index) {
  const iobind__value *value = &binding->session->outputs[index];
  return value->passthrough_input >= 0 ? binding->session->inputs[value->passthrough_input].place : value->place;
}

/* REUSE: the caller gets this tensor, whose memory later runs write, too. */
void iobind__output_show(iobind_binding *binding, size_t index, iobind_tensor *tensor);

/* Later runs write other memory: the last tensor's belongs to the caller alone. */
void iobind__output_hide(iobind_binding *binding, size_t index);

/* Bind the output to something else: drops the last run's results. If mode or memory location differ, the next run is verified
 * again. */
void iobind__output_set(iobind_binding *binding, size_t index, iobind__output_mode mode, iobind__place *place,
                        iobind_tensor *target);
void iobind__output_reset(iobind_binding *binding, size_t index);

/* The next run writes this tensor, which may be NULL. */
void iobind__output_aim(iobind_binding *binding, size_t index, iobind_tensor *target);

/* The dims of an input changed: REUSE outputs whose dims may follow get new memory. */
void iobind__outputs_reshape(iobind_binding *binding);

/* ---- results.c ---- */

/* Drop the results of the last run. `busy`: the EP's stream that may still write them, and retains their memory until its work is
 * complete; NULL: none. */
void iobind__results_drop(iobind_binding *binding, iobind_stream *busy);
iobind_status iobind__results_fetch(iobind_binding *binding, iobind_error *error);

/* Copy the outputs that iobind copies to the bound memory. */
iobind_status iobind__results_copy(iobind_binding *binding, iobind_stream *stream, iobind_error *error);

/* Create a tensor from the last run's value of an output, unless there is one. */
iobind_status iobind__result_make(iobind_binding *binding, size_t index, iobind_error *error);

iobind_status iobind__result_overlaps(const iobind_binding *binding, size_t index, const iobind_tensor *tensor, bool *overlaps,
                                      iobind_error *error);

/* Is each output in the requested memory? An output of 0 bytes does not show it. */
iobind_status iobind__results_verify(iobind_binding *binding, iobind_error *error);

/* ---- shadow.c: runs that are verified ---- */

iobind_status iobind__verified_open(iobind_binding *binding, iobind_error *error);
void iobind__verified_close(iobind_binding *binding);

/* The binding exists for one request: it is counted together with all requests of the session. */
void iobind__verified_serve_request(iobind_binding *binding);

/* Must this request be verified? If not, it may need no binding. */
bool iobind__verified_wants_request(iobind_session *session, iobind_tensor *const *inputs);

/* Must the next run be verified? All inputs are bound. */
bool iobind__verified_has_due(iobind_binding *binding);
static inline bool iobind__verified_is_due(iobind_binding *binding) {
  return binding->verified != NULL && iobind__verified_has_due(binding);
}

/* ---- carry.c ---- */

/* The states that the last run wrote become inputs. */
iobind_status iobind__carry_advance(iobind_binding *binding, iobind_stream *busy, iobind_error *error);

/* Allocate memory for the states that the next run writes. */
iobind_status iobind__carry_prepare(iobind_binding *binding, iobind_error *error);
void iobind__carry_note_run(iobind_binding *binding);
void iobind__carry_note_failure(iobind_binding *binding);

/* The same after a failure of runs in flight. `is_chain`: a run has read what another one has left, and which one failed is unknown. */
void iobind__carry_note_flight(iobind_binding *binding, bool is_chain);

/* The state is TORN or LOST, if it is not worse already. */
void iobind__carry_spoil(iobind_binding *binding, size_t input, iobind__next next);

/* A verified run's results are wrong: the states that it has written in place are lost. */
void iobind__carry_note_wrong(iobind_binding *binding);

/* The caller now owns a buffer of SWAP: its side gets a new one at its turn. */
void iobind__carry_leave_buffer(iobind_binding *binding, iobind__carry *carry, size_t side);
void iobind__carry_take(iobind_binding *binding, iobind__carry *carry); /* the caller owns the memory of the output now */
void iobind__carry_remove(iobind_binding *binding, iobind__carry *carry);

/* For graphs: let the run read a SWAP state from one of the carry's two buffers, also the first state. Without the session. */
iobind_status iobind__carry_stage(iobind_binding *binding, iobind_error *error);

/* Is the tensor one of the carry's two buffers? */
static inline bool iobind__carry_has_buffer(const iobind__carry *carry, const iobind_tensor *tensor) {
  return tensor == carry->buffers[0] || tensor == carry->buffers[1];
}

/* Is the last run's output the next state? */
static inline bool iobind__carry_is_due(const iobind_binding *binding, const iobind__carry *carry) {
  return binding->inputs[carry->input].next == IOBIND__NEXT_RESULT;
}

/* The carry of an input or output; NULL: none. */
static inline iobind__carry *iobind__carry_of_input(const iobind_binding *binding, size_t input) {
  size_t place = binding->inputs[input].carry;
  return place == 0 ? NULL : &binding->carries[place - 1];
}

static inline iobind__carry *iobind__carry_of_output(const iobind_binding *binding, size_t output) {
  size_t place = binding->outputs[output].carry;
  return place == 0 ? NULL : &binding->carries[place - 1];
}

static inline void iobind__carry_end(iobind_binding *binding, size_t output) {
  if (binding->outputs[output].carry != 0) {
    iobind__carry_remove(binding, iobind__carry_of_output(binding, output));
  }
}

#endif
