/* A step of a sequence: one call. A few bytes determine its arguments. Each step knows the expected result, and what the call changes. */
#ifndef FUZZ_BINDING_OPERATIONS_H
#define FUZZ_BINDING_OPERATIONS_H

#include "world.h"

/* All steps have one size, so that a step can be removed without a change of the others. */
typedef struct step {
  uint8_t operation;
  uint8_t x[7];
} step;

void step_do(const step *from);

/* ---- operations.c ---- */

/* The operation that binds all unbound inputs. Most sequences begin with it. */
uint8_t operation_fill(void);

slot *take_writable(uint8_t chosen); /* memory that the caller may write, not lent by a binding */
void look_at(slot *of);              /* map the data, which the host may read and write from then on */

void do_write(const step *from);
void do_read(const step *from);
void do_copy(const step *from);

/* Copy a tensor into another one of the same size, on a stream; -1: none. */
void copy_tensor(slot *source, slot *to, int stream, bool by_event);

/* The text of a stream in a printed call; "" without one. */
const char *on_stream(int stream);

/* ---- binds.c ---- */

void do_set_input(const step *from);
void do_set_output(const step *from);
void do_carry(const step *from);
void do_update_input(const step *from);
void do_fill(const step *from);
void do_clear(const step *from);
void do_check(const step *from);
void do_wrong(const step *from); /* invalid arguments */

/* The binding that the step chooses, created if needed. */
bound *take_binding(const step *from);
int binding_index(const bound *of);

/* Usually a tensor that fits, sometimes any. */
slot *take_tensor(uint8_t chosen, const port *to, bool at_home);
slot *find_slot(view at);

void set_input(bound *one, size_t index, iobind_input_mode mode, slot *tensor, int event);
void set_carry(bound *one, size_t output, size_t input, iobind_carry_mode mode);
void update_input(bound *one, size_t index, int stream, const step *from, bool spoils); /* by a value that fails runs */

/* Bind a tensor with other dims, between a run and a use of its results; bind_again binds the old one again. Returns the old tensor;
 * NULL: no change. */
slot *bind_other_dims(bound *one, size_t index);
void bind_again(bound *one, size_t index, slot *old);

/* Memory for the output that replace_one may replace. */
void give_one(bound *one, const step *from);
/* Replace an input or output by a similar tensor, between runs. */
void replace_one(bound *one, const step *from);

/* ---- runs.c ---- */

void do_run(const step *from);
void do_runs(const step *from);
void do_cancel(const step *from);
void run_on_stream(bound *one, int stream, const step *from); /* if it can run; -1: on none */

/* This was the only call between two runs. */
enum { REPLACED_INPUT = 1, REPLACED_OUTPUT = 2 };
void note_replaced(bound *one, unsigned what);

bool is_in_flight(const bound *one);

/* Add the statuses of a call that needs a binding without a run in flight, according to what the host can know. */
void expect_idle(const bound *one, expectation *expected, bool may_queue);
/* A call was not refused, so the run is complete. */
void has_passed(bound *one);
/* Work on a stream has failed or may have failed: wait for all streams, and find the outcome of each binding's run. */
void settle(size_t stream);

/* ---- results.c ---- */

void do_result(const step *from);
void fetch_result(bound *one, size_t output, bool takes, const step *from);
void expect_result(const bound *one, size_t output, expectation *expected);
void check_result(bound *one, size_t output, iobind_tensor *tensor);
void keep(bound *one, size_t output, iobind_tensor *tensor, bool taken, uint8_t hint);
void find_memory(bound *one, size_t output, const char *address);
place place_of(const iobind_tensor_info *info);

/* ---- events.c ---- */

void do_event(const step *from);
void record_point(point *at, size_t stream);
void point_passed(const point *at);

/* ---- losses.c ---- */

void do_lose(const step *from);

/* ---- devices.c ---- */

void do_visit(const step *from);
void do_cross(const step *from);

/* ---- states.c ---- */

void do_state(const step *from);

/* ---- others.c ---- */

void do_lend(const step *from);
void do_dlpack(const step *from);
void do_request(const step *from);
void do_strings(const step *from);

#endif
