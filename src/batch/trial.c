/* Tests whether the model mixes rows: runs it with rows of different data, and with each of these rows alone, and compares. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "support/decimal.h"

enum { FEW = 8, DRAWS_OF_FEW = 4, SCALES = 5 };

static const char what[] = "batch_run";

/* The tensors of a run with several rows, and of a run with one of them. */
typedef struct trial {
  iobind_batch *batch;
  size_t width;
  uint64_t seed; /* of the draw */
  uint64_t random;
  bool cannot_run;         /* the model's run of this draw has failed */
  iobind_tensor **inputs;  /* of all rows */
  iobind_tensor **outputs; /* NULL: no run yet */
  iobind_tensor **alone;   /* inputs of one row */
  iobind_tensor **single;  /* outputs of one row */
} trial;

/* ---- data ---- */

static uint64_t next_random(trial *self) { /* xorshift64* */
  self->random ^= self->random >> 12;
  self->random ^= self->random << 25;
  self->random ^= self->random >> 27;
  return self->random * 2685821657736338717u;
}

/* The numbers of an input do not depend on those of other inputs, which may not be random. */
static void begin_input(trial *self, size_t input) {
  self->random = self->seed ^ ((uint64_t)input + 1) * 11400714819323198485u;
}

/* A number from -1 to 1, times the row's scale. */
static double next_real(trial *self, size_t row) {
  static const double scales[SCALES] = {0.25, 0.5, 1, 2, 4};
  return (double)(int64_t)next_random(self) / 9223372036854775808.0 * scales[row % SCALES];
}

/* The bits of a 16-bit float: a random sign and fraction, and an exponent that depends on the row. */
static uint16_t next_half(trial *self, size_t row, unsigned exponent_of_one, unsigned fraction_bits) {
  const uint64_t random = next_random(self);
  const uint64_t exponent = exponent_of_one - 3 + row % SCALES;
  return (uint16_t)((random >> 63) << 15 | exponent << fraction_bits | (random & ((1u << fraction_bits) - 1)));
}

/* Store a random number. False: the type is not a float type, and valid numbers are unknown. */
static bool put_random(trial *self, iobind_dtype dtype, size_t row, char *to) {
  const double real = next_real(self, row);
  const float single = (float)real;
  const uint16_t half = dtype == IOBIND_DTYPE_BFLOAT16 ? next_half(self, row, 127, 7) : next_half(self, row, 15, 10);
  switch ((int)dtype) {
    case IOBIND_DTYPE_FLOAT32: memcpy(to, &single, sizeof single); return true;
    case IOBIND_DTYPE_FLOAT64: memcpy(to, &real, sizeof real); return true;
    case IOBIND_DTYPE_FLOAT16:
    case IOBIND_DTYPE_BFLOAT16: memcpy(to, &half, sizeof half); return true;
    default: return false;
  }
}

static bool is_float(iobind_dtype dtype) {
  return dtype == IOBIND_DTYPE_FLOAT32 || dtype == IOBIND_DTYPE_FLOAT64 || dtype == IOBIND_DTYPE_FLOAT16 ||
         dtype == IOBIND_DTYPE_BFLOAT16;
}

/* Does the input get random numbers, or the data of the step's rows and of the first state? */
static bool is_drawn(const iobind_batch *batch, size_t input) {
  return is_float(batch->session->inputs[input].dtype) && batch->sources[input] == IOBIND__RANDOM;
}

/* Fill a row of an input with random numbers; or, if the input gets none, with the data of `like`. */
static void fill_row(trial *self, size_t input, const iobind__layout *layout, size_t row, const char *like) {
  const iobind_tensor *all = self->inputs[input];
  const bool drawn = is_drawn(self->batch, input);
  const size_t size = iobind_dtype_get_bits((int32_t)all->dtype) / 8;
  for (size_t lead = 0; lead < layout->lead; lead++) {
    char *piece = (char *)all->data + (lead * self->width + row) * layout->piece;
    for (size_t at = 0; at < layout->piece; at += size) {
      if (!drawn || !put_random(self, all->dtype, row, piece + at)) {
        memcpy(piece + at, like + lead * layout->piece + at, size);
      }
    }
  }
}

/* The shape of one row of an input. */
typedef struct row_shape {
  size_t input;
  const int64_t *dims;
  size_t rank;
  int32_t axis;
} row_shape;

static iobind_status make_input(const iobind_batch *batch, const row_shape *row, size_t width, iobind_tensor **out,
                                iobind_error *error) {
  int64_t dims[IOBIND_MAX_RANK];
  memcpy(dims, row->dims, row->rank * sizeof dims[0]);
  dims[row->axis] = (int64_t)width;
  return iobind_tensor_create(batch->session->runtime->cpu, IOBIND_MEMORY_DEFAULT, batch->session->inputs[row->input].dtype,
                              dims, row->rank, out, error);
}

static iobind_status make_both(trial *self, const row_shape *row, iobind_error *error) {
  IOBIND__TRY(make_input(self->batch, row, self->width, &self->inputs[row->input], error));
  return make_input(self->batch, row, 1, &self->alone[row->input], error);
}

/* Fill a row like one that was set. Its data are read only if the input gets no random numbers. */
static iobind_status fill_like(trial *self, size_t index, size_t row, char *like, iobind_error *error) {
  const iobind_batch *batch = self->batch;
  const iobind__brought *taken = &batch->seats[batch->asked[row % batch->asked_count]].taken[index];
  const size_t input = batch->feeds[index].input;
  const iobind__layout layout =
      iobind__layout_of(self->inputs[input]->dtype, taken->dims, taken->rank, batch->feeds[index].axis);
  if (taken->held != NULL && !is_drawn(batch, input)) {
    IOBIND__TRY(iobind_tensor_read(taken->held, 0, like, taken->held->bytes, NULL, error));
  }
  fill_row(self, input, &layout, row, taken->held != NULL ? like : taken->data);
  return IOBIND_OK;
}

static iobind_status fill_feed(trial *self, size_t index, iobind_error *error) {
  const iobind_batch *batch = self->batch;
  const iobind__feed *feed = &batch->feeds[index];
  const iobind__brought *first = &batch->seats[batch->asked[0]].taken[index];
  IOBIND__TRY(make_both(self, &(row_shape){feed->input, first->dims, first->rank, feed->axis}, error));
  char *like = malloc(self->alone[feed->input]->bytes + 1);
  iobind_status status = like == NULL ? iobind__out_of_memory(error, what) : IOBIND_OK;
  begin_input(self, feed->input);
  for (size_t row = 0; status == IOBIND_OK && row < self->width; row++) {
    status = fill_like(self, index, row, like, error);
  }
  free(like);
  return status;
}

static iobind_status fill_column(trial *self, size_t index, iobind_error *error) {
  const iobind__column *column = &self->batch->columns[index];
  iobind_tensor *first = self->batch->first->kept[index].tensor;
  IOBIND__TRY(make_both(self, &(row_shape){column->input, column->dims, column->rank, column->layout.axis}, error));
  char *like = malloc(first->bytes + 1);
  if (like == NULL) {
    return iobind__out_of_memory(error, what);
  }
  iobind_status status = iobind_tensor_read(first, 0, like, first->bytes, NULL, error);
  begin_input(self, column->input);
  for (size_t row = 0; status == IOBIND_OK && row < self->width; row++) {
    fill_row(self, column->input, &column->layout, row, like);
  }
  free(like);
  return status;
}

static iobind_status fill(trial *self, iobind_error *error) {
  const iobind_batch *batch = self->batch;
  for (size_t i = 0; i < batch->session->input_count; i++) {
    self->inputs[i] = iobind_tensor_retain(batch->shared[i]);
    self->alone[i] = iobind_tensor_retain(batch->shared[i]);
  }
  for (size_t i = 0; i < batch->feed_count; i++) {
    IOBIND__TRY(fill_feed(self, i, error));
  }
  for (size_t i = 0; i < batch->column_count; i++) {
    IOBIND__TRY(fill_column(self, i, error));
  }
  return IOBIND_OK;
}

/* ---- comparison ---- */

static double half_value(uint16_t bits, int exponent_of_one, int fraction_bits) {
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int is_normal = exponent > 0;
  const double size = exponent == 2 * exponent_of_one + 1 ? (fraction == 0 ? INFINITY : NAN)
                                                          : ldexp(fraction + (is_normal << fraction_bits),
                                                                  exponent + !is_normal - exponent_of_one - fraction_bits);
  return (bits & 0x8000) != 0 ? -size : size;
}

/* The value of an element of a floating-point type. */
static double number_at(iobind_dtype dtype, const char *data) {
  float single;
  double real;
  uint16_t half;
  switch ((int)dtype) {
    case IOBIND_DTYPE_FLOAT32: memcpy(&single, data, sizeof single); return (double)single;
    case IOBIND_DTYPE_FLOAT64: memcpy(&real, data, sizeof real); return real;
    default: memcpy(&half, data, sizeof half);
  }
  return dtype == IOBIND_DTYPE_BFLOAT16 ? half_value(half, 127, 7) : half_value(half, 15, 10);
}

/* The difference of the greatest and the least finite number. */
static double range_of(const iobind_tensor *tensor) {
  const size_t size = iobind_dtype_get_bits((int32_t)tensor->dtype) / 8;
  double least = INFINITY;
  double greatest = -INFINITY;
  for (size_t at = 0; at < tensor->bytes; at += size) {
    const double number = number_at(tensor->dtype, (const char *)tensor->data + at);
    least = isfinite(number) && number < least ? number : least;
    greatest = isfinite(number) && number > greatest ? number : greatest;
  }
  return greatest - least;
}

/* The difference of two numbers. If neither is one, 0: which bits a kernel gives to that differs. */
static double difference_of(double a, double b) {
  const double difference = a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b);
  return isnan(difference) ? INFINITY : difference;
}

/* The greatest difference of two pieces. For other types than floats: 0 if they are equal, or infinity. */
static double distance(iobind_dtype dtype, const char *a, const char *b, size_t bytes) {
  if (memcmp(a, b, bytes) == 0) {
    return 0;
  }
  if (!is_float(dtype)) {
    return INFINITY;
  }
  double greatest = 0;
  const size_t size = iobind_dtype_get_bits((int32_t)dtype) / 8;
  for (size_t at = 0; at < bytes; at += size) {
    const double difference = difference_of(number_at(dtype, a + at), number_at(dtype, b + at));
    greatest = difference > greatest ? difference : greatest;
  }
  return greatest;
}

static iobind_status refuse(const trial *self, size_t output, size_t row, double part, iobind_error *error) {
  char differs[IOBIND__DECIMAL_TEXT];
  char allowed[IOBIND__DECIMAL_TEXT];
  iobind__decimal_text(part, 3, differs);
  iobind__decimal_text(self->batch->tolerance, 3, allowed);
  return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                      "%s: the model mixes rows: in a test with %zu rows, row %zu of output '%s' differs from the row alone by "
                      "%s of the values' range, allowed is %s. If it is rounding, set `tolerance`",
                      what, self->width, row, self->batch->session->outputs[output].label, differs, allowed);
}

/* The greatest difference of a row of an output and the same row alone. */
static double row_distance(const trial *self, size_t output, int32_t axis, size_t row) {
  const iobind_tensor *all = self->outputs[output];
  const iobind_tensor *one = self->single[output];
  const iobind__layout layout = iobind__layout_of(one->dtype, one->dims, one->rank, axis);
  double greatest = 0;
  for (size_t lead = 0; layout.piece > 0 && lead < layout.lead; lead++) {
    const char *in_all = (const char *)all->data + (lead * self->width + row) * layout.piece;
    const double apart = distance(all->dtype, in_all, (const char *)one->data + lead * layout.piece, layout.piece);
    greatest = apart > greatest ? apart : greatest;
  }
  return greatest;
}

static bool has_rows_on(const trial *self, size_t output, int32_t axis) {
  const iobind_tensor *all = self->outputs[output];
  const iobind_tensor *one = self->single[output];
  return (size_t)axis < all->rank && all->dims[axis] == (int64_t)self->width && one->rank == all->rank &&
         one->dims[axis] == 1 && all->bytes == one->bytes * self->width;
}

/* An output whose batch axis was not given: every caller would read row 0. Data of a changing number may have as many elements,
 * but the last row alone does not give the last part of them. */
static iobind_status refuse_rows(const trial *self, size_t output, iobind_error *error) {
  for (int32_t axis = 0; (size_t)axis < self->outputs[output]->rank; axis++) {
    if (has_rows_on(self, output, axis) && self->single[output]->bytes > 0 &&
        row_distance(self, output, axis, self->width - 1) == 0) {
      return iobind__fail(
          error, IOBIND_ERROR_SHAPE,
          "%s: output '%s', which has no batch axis: expected the same for all rows, got a row for each on axis "
          "%d: give that axis",
          what, self->batch->session->outputs[output].label, (int)axis);
    }
  }
  return IOBIND_OK;
}

static iobind_status compare_output(const trial *self, size_t output, size_t row, iobind_error *error) {
  const iobind_batch *batch = self->batch;
  const int32_t axis = batch->output_axes[output];
  if (axis == IOBIND_BATCH_NO_AXIS) {
    return row == self->width - 1 ? refuse_rows(self, output, error) : IOBIND_OK;
  }
  if (!has_rows_on(self, output, axis)) {
    return iobind__fail(error, IOBIND_ERROR_SHAPE,
                        "%s: output '%s': expected %zu rows on axis %d, each as large as one alone: give the axes", what,
                        batch->session->outputs[output].label, self->width, (int)axis);
  }
  const double greatest = row_distance(self, output, axis, row);
  if (greatest == 0) {
    return IOBIND_OK;
  }
  const double range = isinf(greatest) ? 0 : range_of(self->outputs[output]);
  return greatest <= batch->tolerance * range ? IOBIND_OK : refuse(self, output, row, greatest / range, error);
}

static void take_row(const trial *self, size_t input, size_t row) {
  const iobind_tensor *all = self->inputs[input];
  iobind_tensor *one = self->alone[input];
  const iobind__layout layout = iobind__layout_of(one->dtype, one->dims, one->rank, self->batch->input_axes[input]);
  for (size_t lead = 0; layout.piece > 0 && lead < layout.lead; lead++) {
    memcpy((char *)one->data + lead * layout.piece, (const char *)all->data + (lead * self->width + row) * layout.piece,
           layout.piece);
  }
}

/* A run of the test. A failure says that it is the test's, whose data are not those of the caller. */
static iobind_status run(trial *self, iobind_tensor *const *inputs, iobind_tensor **outputs, iobind_error *error) {
  iobind_error failure = IOBIND_ERROR_INIT;
  iobind_status status = iobind__session_run(self->batch->session, inputs, outputs, &failure);
  self->cannot_run = status == IOBIND_ERROR_RUNTIME;
  if (status != IOBIND_OK) {
    iobind__error_set(error, status, failure.ort_code, "%s: in the test for mixed rows: %s", what,
                      iobind__error_text(&failure));
  }
  return status;
}

static iobind_status compare_row(trial *self, size_t row, iobind_error *error) {
  iobind_session *session = self->batch->session;
  for (size_t i = 0; i < session->input_count; i++) {
    if (self->batch->input_axes[i] != IOBIND_BATCH_NO_AXIS) {
      take_row(self, i, row);
    }
  }
  IOBIND__TRY(run(self, self->alone, self->single, error));
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < session->output_count; i++) {
    status = compare_output(self, i, row, error);
  }
  iobind__tensors_release(self->single, session->output_count);
  return status;
}

/* ---- test runs ---- */

static void release(const trial *self) {
  iobind__tensors_release(self->inputs, self->batch->session->input_count);
  iobind__tensors_release(self->alone, self->batch->session->input_count);
  iobind__tensors_release(self->outputs, self->batch->session->output_count);
}

static iobind_status run_all(trial *self, iobind_error *error) {
  self->cannot_run = false;
  IOBIND__TRY(fill(self, error));
  return run(self, self->inputs, self->outputs, error);
}

static iobind_status compare(trial *self, iobind_error *error) {
  iobind_status status = run_all(self, error);
  for (size_t row = 0; status == IOBIND_OK && row < self->width; row++) {
    status = compare_row(self, row, error);
  }
  release(self);
  return status;
}

/* Can the model run with the inputs from these sources? Other failures than those of its run are returned. */
static iobind_status try_sources(trial *self, bool *can, iobind_error *error) {
  iobind_status status = run_all(self, error);
  release(self);
  *can = status == IOBIND_OK;
  return self->cannot_run ? IOBIND_OK : status;
}

/* At first all inputs are as they were given; then each one gets random numbers, if the model can run with them. */
static iobind_status sort_sources(trial *self, size_t *given, iobind_error *error) {
  iobind_batch *batch = self->batch;
  bool can;
  for (size_t i = 0; i < batch->session->input_count; i++) {
    batch->sources[i] = is_drawn(batch, i) ? IOBIND__PERHAPS_GIVEN : batch->sources[i];
  }
  IOBIND__TRY(try_sources(self, &can, error));
  for (size_t i = 0; can && i < batch->session->input_count; i++) {
    if (batch->sources[i] == IOBIND__PERHAPS_GIVEN) {
      bool can_be_random;
      batch->sources[i] = IOBIND__RANDOM;
      IOBIND__TRY(try_sources(self, &can_be_random, error));
      batch->sources[i] = can_be_random ? IOBIND__RANDOM : IOBIND__GIVEN;
      *given += !can_be_random;
    }
  }
  return IOBIND_OK;
}

/* The run has failed: the model may use a number as an index, for which random ones are wrong. Find the inputs that must be as
 * they were given. *given: their number; 0: the failure has another reason. */
static iobind_status find_given(trial *self, size_t *given, iobind_error *error) {
  iobind_batch *batch = self->batch;
  *given = 0;
  iobind_status status = sort_sources(self, given, error);
  for (size_t i = 0; i < batch->session->input_count; i++) {
    batch->sources[i] = batch->sources[i] == IOBIND__PERHAPS_GIVEN ? IOBIND__RANDOM : batch->sources[i];
  }
  return status;
}

static iobind_status draw(trial *self, iobind_error *error) {
  iobind_error failure = IOBIND_ERROR_INIT;
  iobind_status status = compare(self, &failure);
  size_t given = 1;
  while (self->cannot_run && given > 0) {
    IOBIND__TRY(find_given(self, &given, error));
    status = given == 0 ? status : compare(self, &failure);
  }
  return status == IOBIND_OK ? IOBIND_OK : iobind__error_copy(error, &failure);
}

static iobind_status try_width(iobind_batch *batch, size_t width, iobind_error *error) {
  const size_t inputs = batch->session->input_count;
  const size_t outputs = batch->session->output_count;
  trial self = {.batch = batch, .width = width};
  if (width == 1 || batch->tried[width]) {
    return IOBIND_OK;
  }
  iobind_tensor **tensors = calloc(2 * (inputs + outputs), sizeof(iobind_tensor *));
  if (tensors == NULL) {
    return iobind__out_of_memory(error, what);
  }
  self.inputs = tensors;
  self.alone = self.inputs + inputs;
  self.outputs = self.alone + inputs;
  self.single = self.outputs + outputs;
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; status == IOBIND_OK && i < (width <= FEW ? DRAWS_OF_FEW : 1); i++) {
    self.seed = 88172645463325252u + width + (i << 32);
    status = draw(&self, error);
  }
  free(tensors);
  batch->tried[width] = status == IOBIND_OK;
  return status;
}

iobind_status iobind__batch_try(iobind_batch *batch, size_t width, iobind_error *error) {
  static const size_t first[] = {2, 3, 5, FEW};
  for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
    if (first[i] <= batch->most) {
      IOBIND__TRY(try_width(batch, first[i], error));
    }
  }
  return try_width(batch, width, error);
}
