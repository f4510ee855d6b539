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

/* The operation that binds all inputs that are not: most sequences begin with it. */
uint8_t operation_fill(void);

slot *take_writable(uint8_t chosen); /* memory that the caller may write: not what a binding only lends */
void look_at(slot *of);              /* the data themselves, which the host may read and write from then on */

void do_write(const step *from);
void do_read(const step *from);
void do_copy(const step *from);

/* Copy a tensor into another of its size; on a stream, or -1. */
void copy_tensor(slot *source, slot *to, int stream, bool by_event);

/* How a call on a stream is printed; "" without one. */
const char *on_stream(int stream);

/* ---- binds.c ---- */

void do_set_input(const step *from);
void do_set_output(const step *from);
void do_carry(const step *from);
void do_update_input(const step *from);
void do_fill(const step *from);
void do_clear(const step *from);
void do_check(const step *from);
void do_wrong(const step *from); /* arguments that are wrong in themselves */

/* The binding that the byte chooses, made if need be. */
bound *take_binding(const step *from);
int binding_index(const bound *of);

/* Mostly one that fits, sometimes any. */
slot *take_tensor(uint8_t chosen, const port *to, bool at_home);
slot *find_slot(view at);

void set_input(bound *one, size_t index, iobind_input_mode mode, slot *tensor, int event);
void set_carry(bound *one, size_t output, size_t input, iobind_carry_mode mode);
void update_input(bound *one, size_t index, int stream, const step *from, bool spoils); /* by a value that ends runs */

/* Bind an input of other dims; what was bound before, or NULL: nothing was done. */
slot *bind_other_dims(bound *one, size_t index);
void bind_again(bound *one, size_t index, slot *old);

/* Memory for the output that replace_one may replace. */
void give_one(bound *one, const step *from);
/* Another tensor of its kind for an input or output, between runs. */
void replace_one(bound *one, const step *from);

/* ---- runs.c ---- */

void do_run(const step *from);
void do_runs(const step *from);
void do_cancel(const step *from);
void run_on_stream(bound *one, int stream, const step *from); /* if it can run; -1: on none */

/* Nothing but this call came between two runs. */
enum { REPLACED_INPUT = 1, REPLACED_OUTPUT = 2 };
void note_replaced(bound *one, unsigned what);

bool is_in_flight(const bound *one);

/* A binding that has no run in flight as far as the host can know: may a call be refused for that, must it be? */
void expect_idle(const bound *one, expectation *expected, bool may_queue);
/* The call was not refused: the run is complete. */
void has_passed(bound *one);
/* Something on a stream has failed, or may have: wait for all streams and find out how each binding's run went. */
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
