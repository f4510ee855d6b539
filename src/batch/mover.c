/* Moves rows of states. The host moves them in host memory. On a device a model does, which is generated for the states'
 * layouts, so that no row is copied to the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "support/onnx.h"
#include "support/system.h"

enum { NAME = 32, UNIT = 4 };

static const char what[] = "batch";

/* One call. */
typedef struct journey {
  iobind_batch *batch;
  const iobind__rows_of *from;
  const iobind__rows_of *to;
  const iobind__move *moves;
  size_t count;
} journey;

static bool is_on_host(const iobind_batch *batch, const iobind__column *column) {
  return batch->session->inputs[column->input].place->host;
}

/* ---- host memory ---- */

/* The pieces of a row that moves alone are in different pages, and none is in the processor's caches. Memory for the next piece
 * is looked up while this one is copied, and an x86-64 writes whole lines by this instruction without reading them first, which
 * memcpy does not at such sizes. Small pieces do not repay the start of the instruction. */
static void copy_far(char *to, const char *from, size_t bytes) {
#if defined(__x86_64__)
  enum { SMALL = 256 };
  if (bytes >= SMALL) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
#endif
  memcpy(to, from, bytes);
}

static void move_one(const journey *self, const iobind__layout *layout, const char *from, char *to) {
  const size_t from_pitch = self->from->width * layout->piece;
  const size_t to_pitch = self->to->width * layout->piece;
  from += self->moves->from * layout->piece;
  to += self->moves->to * layout->piece;
  for (size_t lead = 0; lead < layout->lead; lead++) {
    if (lead + 1 < layout->lead) {
      __builtin_prefetch(to + (lead + 1) * to_pitch, 1);
    }
    copy_far(to + lead * to_pitch, from + lead * from_pitch, layout->piece);
  }
}

static void move_many(const journey *self, const iobind__layout *layout, const char *from, char *to) {
  for (size_t lead = 0; lead < layout->lead; lead++) {
    for (size_t i = 0; i < self->count; i++) {
      memcpy(to + (lead * self->to->width + self->moves[i].to) * layout->piece,
             from + (lead * self->from->width + self->moves[i].from) * layout->piece, layout->piece);
    }
  }
}

/* The first piece of a row in the column that is copied after this one. */
static void look_up(const journey *self, size_t index) {
  const iobind__layout layout = self->batch->columns[index].layout;
  const char *from = self->from->tensors[index]->data;
  const char *to = self->to->tensors[index]->data;
  __builtin_prefetch(from + (self->from->offset * layout.lead + self->moves->from) * layout.piece, 0);
  __builtin_prefetch(to + (self->to->offset * layout.lead + self->moves->to) * layout.piece, 1);
}

static iobind_status move_on_host(const journey *self, size_t index, iobind_error *error) {
  const iobind__layout layout = self->batch->columns[index].layout;
  iobind_tensor *from = self->from->tensors[index];
  iobind_tensor *to = self->to->tensors[index];
  void *source;
  IOBIND__TRY(iobind_tensor_map(from, from->dtype, IOBIND_ACCESS_READ, &source, error));
  IOBIND__TRY(iobind__tensor_settle(to, IOBIND__WRITE, error));
  const char *first = (const char *)source + self->from->offset * layout.lead * layout.piece;
  char *target = (char *)to->data + self->to->offset * layout.lead * layout.piece;
  if (layout.piece > 0 && layout.lead > 0) {
    (self->count == 1 ? move_one : move_many)(self, &layout, first, target);
  }
  return IOBIND_OK;
}

/* ---- the model ---- */

/* The model sees the bytes of a piece as integers of a type that every EP supports. */
static int32_t unit_type(const iobind__column *column) {
  return column->layout.piece % UNIT == 0 ? IOBIND_DTYPE_INT32 : IOBIND_DTYPE_UINT8;
}

static int64_t units_of(const iobind__column *column) {
  return (int64_t)(column->layout.piece % UNIT == 0 ? column->layout.piece / UNIT : column->layout.piece);
}

/* Is this the first column with its number of pieces? Columns with the same number share one index. */
static bool is_first_of_lead(const iobind_batch *batch, size_t index) {
  size_t first = 0;
  while (is_on_host(batch, &batch->columns[first]) || batch->columns[first].layout.lead != batch->columns[index].layout.lead) {
    first++;
  }
  return first == index;
}

static bool has_pieces(const iobind_batch *batch) {
  bool any = false;
  for (size_t i = 0; i < batch->column_count; i++) {
    any = any || (!is_on_host(batch, &batch->columns[i]) && batch->columns[i].layout.lead > 1);
  }
  return any;
}

/* index = (0 .. lead - 1) * width + to_rows: the positions of the rows' pieces in [lead * width, rest]. */
static void write_index(iobind__bytes *graph, size_t lead) {
  char range[NAME];
  char scaled[NAME];
  char index[NAME];
  snprintf(range, sizeof range, "lead%zu", lead);
  snprintf(scaled, sizeof scaled, "scaled%zu", lead);
  snprintf(index, sizeof index, "index%zu", lead);
  iobind__onnx_range(graph, range, lead);
  iobind__onnx_node(graph, &(iobind__onnx_op){"Mul", {range, "width"}, scaled, IOBIND__NO_AXIS});
  iobind__onnx_node(graph, &(iobind__onnx_op){"Add", {scaled, "to_rows"}, index, IOBIND__NO_AXIS});
}

static void write_column(iobind__bytes *graph, const iobind_batch *batch, size_t i) {
  const iobind__column *column = &batch->columns[i];
  const int32_t unit = unit_type(column);
  char from[NAME];
  char to[NAME];
  char taken[NAME];
  char out[NAME];
  char index[NAME] = "to_rows";
  snprintf(from, sizeof from, "from%zu", i);
  snprintf(to, sizeof to, "to%zu", i);
  snprintf(taken, sizeof taken, "taken%zu", i);
  snprintf(out, sizeof out, "out%zu", i);
  if (column->layout.lead > 1) {
    snprintf(index, sizeof index, "index%zu", column->layout.lead);
    if (is_first_of_lead(batch, i)) {
      write_index(graph, column->layout.lead);
    }
  }
  iobind__onnx_node(graph, &(iobind__onnx_op){"Gather", {from, "from_rows"}, taken, 1});
  iobind__onnx_node(graph, &(iobind__onnx_op){"ScatterND", {to, index, taken}, out, IOBIND__NO_AXIS});
  iobind__onnx_input(graph, &(iobind__onnx_value){from, unit, 3});
  iobind__onnx_input(graph, &(iobind__onnx_value){to, unit, 2});
  iobind__onnx_output(graph, &(iobind__onnx_value){out, unit, 2});
}

static void write_model(const iobind_batch *batch, iobind__bytes *model) {
  iobind__bytes graph = {0};
  for (size_t i = 0; i < batch->column_count; i++) {
    if (!is_on_host(batch, &batch->columns[i])) {
      write_column(&graph, batch, i);
    }
  }
  iobind__onnx_input(&graph, &(iobind__onnx_value){"from_rows", IOBIND_DTYPE_INT64, 1});
  iobind__onnx_input(&graph, &(iobind__onnx_value){"to_rows", IOBIND_DTYPE_INT64, 3});
  if (has_pieces(batch)) {
    iobind__onnx_input(&graph, &(iobind__onnx_value){"width", IOBIND_DTYPE_INT64, 1});
  }
  iobind__onnx_write(&graph, "iobind: rows of states move", model);
}

static iobind_status open_mover(iobind_batch *batch, iobind_device *device, iobind_error *error) {
  if (batch->moving != NULL) {
    return IOBIND_OK;
  }
  iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
  iobind__bytes model = {0};
  write_model(batch, &model);
  options.devices = &device;
  options.device_count = 1;
  iobind_status status = batch->mover != NULL ? IOBIND_OK
                         : model.failed       ? iobind__out_of_memory(error, what)
                                        : iobind_session_create_from_memory(device->runtime, model.data, model.length, &options,
                                                                            &batch->mover, error);
  free(model.data);
  return status != IOBIND_OK ? status : iobind_binding_create(batch->mover, &batch->moving, error);
}

/* ---- device memory ---- */

/* A column's memory as it is bound: [lead, width, units] to be read, [lead * width, units] to be written. */
typedef struct pieces {
  iobind_tensor *of;
  const iobind__column *column;
  const iobind__rows_of *rows;
} pieces;

/* Bind a view, which only the binding retains. */
static iobind_status bind_view(iobind_binding *binding, size_t index, const pieces *self, size_t rank, iobind_error *error) {
  iobind_tensor *view;
  const int64_t lead = (int64_t)self->column->layout.lead;
  const int64_t width = (int64_t)self->rows->width;
  const int64_t read[] = {lead, width, units_of(self->column)};
  const int64_t written[] = {lead * width, units_of(self->column)};
  const size_t begin = self->rows->offset * self->column->layout.lead * self->column->layout.piece;
  IOBIND__TRY(iobind_tensor_view(self->of, begin, (iobind_dtype)unit_type(self->column), rank == 2 ? written : read, rank,
                                 &view, error));
  iobind_status status = iobind_binding_set_input(binding, index, IOBIND_INPUT_RESIDENT, view, NULL, error);
  if (status == IOBIND_OK && rank == 2) {
    status = iobind_binding_set_output(binding, index / 2, view, IOBIND_OUTPUT_IN_PLACE, error);
  }
  iobind_tensor_release(view);
  return status;
}

static iobind_status bind_columns(const journey *self, size_t *bound, iobind_error *error) {
  iobind_binding *binding = self->batch->moving;
  for (size_t i = 0; i < self->batch->column_count; i++) {
    const iobind__column *column = &self->batch->columns[i];
    if (is_on_host(self->batch, column)) {
      continue;
    }
    IOBIND__TRY(bind_view(binding, *bound, &(pieces){self->from->tensors[i], column, self->from}, 3, error));
    IOBIND__TRY(bind_view(binding, *bound + 1, &(pieces){self->to->tensors[i], column, self->to}, 2, error));
    *bound += 2;
  }
  return IOBIND_OK;
}

static iobind_status bind_numbers(const journey *self, size_t index, int64_t *numbers, const int64_t *dims, size_t rank,
                                  iobind_error *error) {
  iobind_buffer buffer = IOBIND_BUFFER_INIT;
  buffer.dtype = IOBIND_DTYPE_INT64;
  buffer.dims = dims;
  buffer.rank = rank;
  buffer.data = numbers;
  buffer.bytes = (size_t)(rank == 1 ? dims[0] : dims[1]) * sizeof numbers[0];
  iobind_tensor *tensor;
  IOBIND__TRY(iobind_tensor_wrap(self->batch->session->runtime->cpu, &buffer, &tensor, error));
  iobind_status status = iobind_binding_set_input(self->batch->moving, index, IOBIND_INPUT_SNAPSHOT, tensor, NULL, error);
  iobind_tensor_release(tensor);
  return status;
}

static iobind_status bind_rows(const journey *self, size_t bound, iobind_error *error) {
  int64_t *rows = calloc(2 * self->count, sizeof rows[0]);
  if (rows == NULL) {
    return iobind__out_of_memory(error, what);
  }
  for (size_t i = 0; i < self->count; i++) {
    rows[i] = (int64_t)self->moves[i].from;
    rows[self->count + i] = (int64_t)self->moves[i].to;
  }
  const int64_t dims[] = {(int64_t)self->count};
  const int64_t to_dims[] = {1, (int64_t)self->count, 1};
  const int64_t one = 1;
  int64_t width = (int64_t)self->to->width;
  iobind_status status = bind_numbers(self, bound, rows, dims, 1, error);
  if (status == IOBIND_OK) {
    status = bind_numbers(self, bound + 1, rows + self->count, to_dims, 3, error);
  }
  if (status == IOBIND_OK && has_pieces(self->batch)) {
    status = bind_numbers(self, bound + 2, &width, &one, 1, error);
  }
  free(rows);
  return status;
}

static iobind_status move_on_device(const journey *self, iobind_device *device, iobind_error *error) {
  size_t bound = 0;
  IOBIND__TRY(open_mover(self->batch, device, error));
  IOBIND__TRY(iobind_binding_clear(self->batch->moving, error));
  IOBIND__TRY(bind_columns(self, &bound, error));
  IOBIND__TRY(bind_rows(self, bound, error));
  IOBIND__TRY(iobind_binding_run(self->batch->moving, NULL, error));
  return iobind_binding_clear(self->batch->moving, error);
}

static iobind_status move(const journey *self, iobind_error *error) {
  iobind_device *device = NULL;
  for (size_t i = 0; i < self->batch->column_count; i++) {
    const iobind__column *column = &self->batch->columns[i];
    if (is_on_host(self->batch, column)) {
      if (self->count == 1 && i + 1 < self->batch->column_count && is_on_host(self->batch, column + 1)) {
        look_up(self, i + 1);
      }
      IOBIND__TRY(move_on_host(self, i, error));
    } else if (column->layout.piece > 0 && column->layout.lead > 0) {
      device = self->batch->session->inputs[column->input].place->device;
    }
  }
  return device == NULL ? IOBIND_OK : move_on_device(self, device, error);
}

iobind_status iobind__rows_move(iobind_batch *batch, const iobind__rows_of *from, const iobind__rows_of *to,
                                const iobind__move *moves, size_t count, iobind_error *error) {
  if (count == 0) {
    return IOBIND_OK;
  }
  const journey self = {batch, from, to, moves, count};
  const uint64_t begin = iobind__clock_ns();
  IOBIND__TRY(move(&self, error));
  const uint64_t each = (iobind__clock_ns() - begin) / count;
  batch->costs.move = batch->costs.move == 0 || each < batch->costs.move ? each : batch->costs.move;
  pthread_mutex_lock(&batch->mutex);
  batch->moved += count;
  pthread_mutex_unlock(&batch->mutex);
  return IOBIND_OK;
}
