/* GroupQueryAttention except for the attention: the lengths of sequences, and the append of new keys and values to the cache. */
#include "kernel_attention.h"

#include <math.h>

/* ---- lengths ---- */

/* (lengths - 1, past's, lengths, padded, windowed past's, windowed lengths, evicted, batch, tokens, first, 3 of the window). Without
 * a window the three arrays for it are NULL. */
static void run_lengths(const vcuda_launch *launch) {
  int64_t batch = vcuda_integer(launch, 7), tokens = vcuda_integer(launch, 8);
  bool first = vcuda_integer(launch, 9) != 0;
  if (vcuda_address(launch, 4) != NULL) {
    vcuda_fail(719, "GetSequenceLengths of a cache that is a window (sliding_window_cache): not known here");
    return;
  }
  const void *last = vcuda_input(launch, 0, batch);
  void *past = vcuda_output(launch, 1, batch), *all = vcuda_output(launch, 2, batch), *padded = vcuda_output(launch, 3, batch);
  if (last == NULL || past == NULL || all == NULL || padded == NULL) return;
  for (int64_t i = 0; i < batch; i++) {
    int64_t length = vcuda_load(VCUDA_INT32, last, i).whole;
    length = (length > 0 ? length : 0) + 1;
    int64_t before = first || length < tokens ? 0 : length - tokens;
    vcuda_store(VCUDA_INT32, all, i, (vcuda_number){.whole = length});
    vcuda_store(VCUDA_INT32, past, i, (vcuda_number){.whole = before});
    vcuda_store(VCUDA_INT32, padded, i, (vcuda_number){.whole = first ? tokens : 0});
  }
}

/* ---- queries, keys and values: split, normalised, turned, appended ---- */

enum { PACKED, QUERY, KEY, VALUE, TURNED_QUERY, KEYS, VALUES };

typedef struct append {
  const vcuda_launch *launch;
  vcuda_type type;
  int64_t tokens, batch, heads, groups, size, packed; /* packed: elements of a token, if all three are in one tensor */
  int64_t capacity;                                   /* rows of the cache of one head */
  bool heads_first;                                   /* of the cache: heads before rows */
  const int32_t *past, *place;                        /* for each sequence: past tokens; first row in the cache */
  const int64_t *positions;                           /* NULL: derived from `past` */
  int64_t end;                                        /* exclusive limit of positions */
  vcuda_turn turn;
  const void *in[4], *query_norm, *key_norm;
  double epsilon;
  void *query, *cache[2]; /* keys, values */
} append;

/* Read an optional input. False: its memory is not accessible. */
static bool maybe(const append *a, int i, int64_t count, const void **data) {
  *data = NULL;
  if (vcuda_address(a->launch, i) == NULL || count == 0) return true;
  *data = vcuda_input(a->launch, i, count);
  return *data != NULL;
}

static bool read_inputs(append *a) {
  int64_t rows = a->batch * a->tokens;
  const void *past = NULL, *place = NULL, *positions = NULL;
  bool there =
      maybe(a, PACKED, rows * a->packed, &a->in[PACKED]) && maybe(a, QUERY, rows * a->heads * a->size, &a->in[QUERY]) &&
      maybe(a, KEY, rows * a->groups * a->size, &a->in[KEY]) && maybe(a, VALUE, rows * a->groups * a->size, &a->in[VALUE]) &&
      maybe(a, 16, a->batch, &past) && maybe(a, 17, a->batch, &place) && maybe(a, 21, rows, &positions) &&
      maybe(a, 25, a->size, &a->query_norm) && maybe(a, 26, a->size, &a->key_norm);
  a->past = past;
  a->place = place;
  a->positions = positions;
  return there;
}

static int64_t position_of(const append *a, int64_t b, int64_t token) {
  return a->positions == NULL ? a->past[b] + token : a->positions[b * a->tokens + token];
}

/* Read the rows of the caches up to the last position. */
static bool read_angles(append *a) {
  int64_t end = 0;
  if (a->turn.turned == 0) return true;
  for (int64_t i = 0; i < a->batch * a->tokens; i++) {
    int64_t position = position_of(a, i / a->tokens, i % a->tokens);
    if (position < 0 || position >= a->end) {
      vcuda_fail(719, "UnpackRoPEAppend: position %lld: expected less than %lld", (long long)position, (long long)a->end);
      return false;
    }
    end = position + 1 > end ? position + 1 : end;
  }
  a->turn.cosines = vcuda_input(a->launch, 18, end * (a->turn.turned / 2));
  a->turn.sines = vcuda_input(a->launch, 19, end * (a->turn.turned / 2));
  return a->turn.cosines != NULL && a->turn.sines != NULL;
}

static void normalise(const append *a, const void *weights, double *values) {
  double square = 0;
  for (int64_t i = 0; i < a->size; i++) square += values[i] * values[i] / (double)a->size;
  for (int64_t i = 0; i < a->size; i++) values[i] *= vcuda_load_real(a->type, weights, i) / sqrt(square + a->epsilon);
}

/* Read head `head` of one token. Heads are numbered queries first, then keys, then values. */
static void read_head(const append *a, int64_t token, int64_t head, double *values) {
  int kind = head < a->heads ? QUERY : head < a->heads + a->groups ? KEY : VALUE;
  int64_t within = kind == QUERY ? head : kind == KEY ? head - a->heads : head - a->heads - a->groups;
  int64_t at = a->in[PACKED] != NULL ? token * a->packed + head * a->size
                                     : (token * (kind == QUERY ? a->heads : a->groups) + within) * a->size;
  const void *data = a->in[PACKED] != NULL ? a->in[PACKED] : a->in[kind];
  const void *weights = kind == QUERY ? a->query_norm : kind == KEY ? a->key_norm : NULL;
  for (int64_t i = 0; i < a->size; i++) values[i] = vcuda_load_real(a->type, data, at + i);
  if (weights != NULL) normalise(a, weights, values);
  if (kind != VALUE && a->turn.turned != 0) {
    vcuda_turn_row(&a->turn, position_of(a, token / a->tokens, token % a->tokens), values);
  }
}

static int64_t cache_row(const append *a, int64_t b, int64_t group, int64_t row) {
  return a->heads_first ? ((b * a->groups + group) * a->capacity + row) * a->size
                        : ((b * a->capacity + row) * a->groups + group) * a->size;
}

/* A row at or after the cache's end is not written, as on the device. */
static bool write_new(const append *a, int64_t token, int64_t group, int which, const double *values) {
  int64_t b = token / a->tokens, row = a->place[b] + token % a->tokens, at = cache_row(a, b, group, row);
  if (a->cache[which] == NULL || row >= a->capacity) return true;
  size_t width = vcuda_type_size(a->type);
  void *to = vcuda_writes((char *)a->cache[which] + (size_t)at * width, (size_t)a->size * width);
  for (int64_t i = 0; to != NULL && i < a->size; i++) vcuda_store_real(a->type, to, i, values[i]);
  return to != NULL;
}

static void append_all(append *a) {
  double values[VCUDA_MOST_ELEMENTS];
  int64_t rows = a->batch * a->tokens;
  if (vcuda_address(a->launch, TURNED_QUERY) != NULL) {
    a->query = vcuda_output(a->launch, TURNED_QUERY, rows * a->heads * a->size);
    if (a->query == NULL) return;
  }
  for (int64_t token = 0; token < rows; token++) {
    for (int64_t head = 0; head < a->heads + 2 * a->groups; head++) {
      int64_t group = head - a->heads;
      if (group < 0 && a->query == NULL) continue;
      read_head(a, token, head, values);
      for (int64_t i = 0; group < 0 && i < a->size; i++) {
        vcuda_store_real(a->type, a->query, (token * a->heads + head) * a->size + i, values[i]);
      }
      if (group >= 0 && !write_new(a, token, group % a->groups, group >= a->groups, values)) return;
    }
  }
}

/* (packed, query, key, value, turned query, cached keys, cached values, 3 scales, heads, groups, head's size, packed size, end of
 * positions, capacity, past's lengths, rows in the cache, cosines, sines, turned elements, positions, neighbours, heads first, scale
 * of each channel, norms of queries and of keys, epsilon); a block for each token, head and sequence. */
static void run_append(const vcuda_launch *launch) {
  append a = {.launch = launch, .type = vcuda_type_of(launch, QUERY), .tokens = launch->grid[0], .batch = launch->grid[2]};
  a.heads = vcuda_integer(launch, 10);
  a.groups = vcuda_integer(launch, 11);
  a.size = vcuda_integer(launch, 12);
  a.packed = vcuda_integer(launch, 13);
  a.end = vcuda_integer(launch, 14);
  a.capacity = vcuda_integer(launch, 15);
  a.turn = (vcuda_turn){.type = a.type, .turned = vcuda_integer(launch, 20), .neighbours = vcuda_integer(launch, 22) != 0};
  a.heads_first = vcuda_integer(launch, 23) != 0;
  a.epsilon = vcuda_real(launch, 27);
  a.cache[0] = vcuda_address(launch, KEYS);
  a.cache[1] = vcuda_address(launch, VALUES);
  if (vcuda_address(launch, 9) != NULL || a.size > VCUDA_MOST_ELEMENTS) {
    vcuda_fail(719, "UnpackRoPEAppend with scaled queries or heads of more than %d elements: not known here",
               VCUDA_MOST_ELEMENTS);
  } else if (read_inputs(&a) && read_angles(&a)) {
    append_all(&a);
  }
}

/* A cache of another type is quantised, which is not supported. */
static bool keeps_type(vcuda_kernel *kernel) {
  return kernel->type_count > 1 && kernel->types[0].type == kernel->types[1].type;
}

/* (sinks, as floats, count) */
static void run_sinks(const vcuda_launch *launch) {
  int64_t count = vcuda_integer(launch, 2);
  const void *in = vcuda_input(launch, 0, count);
  void *out = vcuda_output(launch, 1, count);
  for (int64_t i = 0; in != NULL && out != NULL && i < count; i++) {
    vcuda_store_real(VCUDA_FLOAT32, out, i, vcuda_load_real(vcuda_type_of(launch, 0), in, i));
  }
}

/* ---- ungrouping: keys and values are repeated for each head, for kernels without groups ---- */

typedef struct ungroup {
  int64_t batch, rows, in_rows, heads, groups, size; /* `size` in pairs of floats */
  bool heads_first;
} ungroup;

static int64_t ungrouped(const ungroup *u, int64_t heads, int64_t rows, int64_t b, int64_t head, int64_t row) {
  return u->heads_first ? (b * heads + head) * rows + row : (b * rows + row) * heads + head;
}

static void run_ungrouping(const vcuda_launch *launch, const ungroup *u) {
  const char *in = vcuda_input(launch, 0, u->batch * u->in_rows * u->groups * u->size);
  char *out = vcuda_output(launch, 1, u->batch * u->rows * u->heads * u->size);
  size_t bytes = (size_t)u->size * vcuda_size_of(launch, 0);
  for (int64_t i = 0; in != NULL && out != NULL && i < u->batch * u->rows * u->heads; i++) {
    int64_t head = i % u->heads, row = i / u->heads % u->rows, b = i / u->heads / u->rows;
    int64_t from = ungrouped(u, u->groups, u->in_rows, b, head * u->groups / u->heads, row);
    const char *source = in + (size_t)from * bytes;
    char *target = out + (size_t)ungrouped(u, u->heads, u->rows, b, head, row) * bytes;
    for (size_t byte = 0; byte < bytes; byte++) target[byte] = source[byte];
  }
}

/* (in, out, in's rows, groups, heads last); a block for each row and sequence, a thread for each element and head. */
static void run_ungroup(const vcuda_launch *launch) {
  run_ungrouping(launch, &(ungroup){.batch = launch->grid[1],
                                    .rows = launch->grid[0],
                                    .in_rows = vcuda_integer(launch, 2),
                                    .heads = launch->block[1],
                                    .groups = vcuda_integer(launch, 3),
                                    .size = launch->block[0],
                                    .heads_first = vcuda_integer(launch, 4) == 0});
}

/* (in, out, size, in's rows, heads, groups, heads last); blocks for each row and sequence. */
static void run_ungroup_large(const vcuda_launch *launch) {
  run_ungrouping(launch, &(ungroup){.batch = launch->grid[2],
                                    .rows = launch->grid[1],
                                    .in_rows = vcuda_integer(launch, 3),
                                    .heads = vcuda_integer(launch, 4),
                                    .groups = vcuda_integer(launch, 5),
                                    .size = vcuda_integer(launch, 2),
                                    .heads_first = vcuda_integer(launch, 6) == 0});
}

const vcuda_form vcuda_gqa_forms[] = {
    {"GetSequenceLengths", "pppppppnnnnnn", run_lengths, NULL},
    {"UnpackRoPEAppend", "ppppppppppnnnnnnppppnpnnnppv", run_append, keeps_type},
    {"ConvertHeadSinkToFloatKernel", "ppn", run_sinks, NULL},
    {"Ungroup", "ppnnn", run_ungroup, NULL},
    {"UngroupLarge", "ppnnnnn", run_ungroup_large, NULL},
    {.name = NULL},
};
