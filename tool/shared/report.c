#define _POSIX_C_SOURCE 200809L /* fileno, open_memstream */

#include "shared/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/fault.h"
#include "shared/wrap.h"

enum { COLUMN_LIMIT = 32 };

typedef struct cell {
  char *text;
  report_mark mark;
} cell;

typedef struct column {
  char *key;
  char *label; /* NULL: not shown */
  report_align align;
} column;

struct report_table {
  tool_report *report;
  json_t *rows;
  char *heading;
  column columns[COLUMN_LIMIT];
  size_t column_count;
  cell *cells; /* row by row, column_count in each */
  size_t cell_count;
  size_t cell_capacity;
  size_t next; /* column of the next cell */
};

/* An item of the report for a person, in order: exactly one of note, label and table is set. */
typedef struct item {
  char *note;
  char *label;
  cell value;
  report_table *table;
} item;

struct tool_report {
  json_t *root;
  item *items;
  size_t item_count;
  size_t item_capacity;
  bool field_hidden; /* the last field has no item */
  bool failed;
};

tool_report *report_create(void) {
  tool_report *report = calloc(1, sizeof *report);
  if (report == NULL) return NULL;
  report->root = json_object();
  if (report->root == NULL) {
    free(report);
    return NULL;
  }
  return report;
}

static void destroy_table(report_table *table) {
  if (table == NULL) return;
  for (size_t i = 0; i < table->column_count; i++) {
    free(table->columns[i].key);
    free(table->columns[i].label);
  }
  for (size_t i = 0; i < table->cell_count; i++) free(table->cells[i].text);
  free(table->cells);
  free(table->heading);
  free(table);
}

void report_destroy(tool_report *report) {
  if (report == NULL) return;
  for (size_t i = 0; i < report->item_count; i++) {
    free(report->items[i].note);
    free(report->items[i].label);
    free(report->items[i].value.text);
    destroy_table(report->items[i].table);
  }
  free(report->items);
  json_decref(report->root);
  free(report);
}

/* ---- texts ---- */

/* Length of the UTF-8 sequence at `text`, 0 if it is not UTF-8. jansson decides what is UTF-8. */
static size_t sequence_length(const unsigned char *text) {
  size_t length = text[0] < 0x80 ? 1 : text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : 2;
  if (length == 1) return 1;
  if (text[0] < 0xC2 || text[0] > 0xF4) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  json_t *whole = json_stringn((const char *)text, length);
  json_decref(whole);
  return whole == NULL ? 0 : length;
}

json_t *report_string(const char *text) {
  if (text == NULL) return json_null();
  json_t *string = json_string(text);
  if (string != NULL) return string;
  char *valid = malloc(strlen(text) * 3 + 1);
  if (valid == NULL) return NULL;
  size_t length = 0;
  for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
    size_t taken = sequence_length(at);
    memcpy(valid + length, taken == 0 ? "\xEF\xBF\xBD" : (const char *)at, taken == 0 ? 3 : taken);
    length += taken == 0 ? 3 : taken;
    at += taken == 0 ? 1 : taken;
  }
  string = json_stringn(valid, length);
  free(valid);
  return string;
}

__attribute__((format(printf, 1, 0))) static char *format_text(const char *format, va_list values) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  if (stream == NULL) return NULL;
  bool written = vfprintf(stream, format, values) >= 0;
  if (fclose(stream) != 0 || !written) {
    free(text);
    return NULL;
  }
  fault_make_line(text);
  return text;
}

__attribute__((format(printf, 1, 2))) static char *make_text(const char *format, ...) {
  va_list values;
  va_start(values, format);
  char *text = format_text(format, values);
  va_end(values);
  return text;
}

static char *value_text(const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_STRING: return make_text("%s", json_string_value(value));
    case JSON_INTEGER: return make_text("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_REAL: return make_text("%.6g", json_real_value(value));
    case JSON_TRUE: return make_text("yes");
    case JSON_FALSE: return make_text("no");
    case JSON_NULL: return make_text("-");
    default: break;
  }
  char *dumped = json_dumps(value, JSON_COMPACT);
  if (dumped == NULL) return NULL;
  char *text = make_text("%s", dumped);
  free(dumped);
  return text;
}

/* The text for a value: `format` and its arguments, or the value itself. */
__attribute__((format(printf, 3, 0))) static char *cell_text(tool_report *report, const json_t *value, const char *format,
                                                             va_list values) {
  char *text = format != NULL ? format_text(format, values) : value_text(value);
  if (text == NULL) report->failed = true;
  return text;
}

static char *copy(tool_report *report, const char *text) {
  char *copied = strdup(text);
  if (copied == NULL) report->failed = true;
  return copied;
}

/* ---- filling ---- */

static item *add_item(tool_report *report) {
  if (report->item_count == report->item_capacity) {
    size_t capacity = report->item_capacity == 0 ? 16 : report->item_capacity * 2;
    item *items = realloc(report->items, capacity * sizeof *items);
    if (items == NULL) {
      report->failed = true;
      return NULL;
    }
    report->items = items;
    report->item_capacity = capacity;
  }
  item *added = &report->items[report->item_count++];
  *added = (item){0};
  return added;
}

void report_field(tool_report *report, const char *key, const char *label, json_t *value, const char *format, ...) {
  if (value == NULL) value = json_null();
  if (report == NULL) {
    json_decref(value);
    return;
  }
  report->field_hidden = true;
  item *shown = label == NULL ? NULL : add_item(report);
  if (shown != NULL) {
    report->field_hidden = false;
    shown->label = copy(report, label);
    va_list values;
    va_start(values, format);
    shown->value.text = cell_text(report, value, format, values);
    va_end(values);
  }
  if (json_object_set_new(report->root, key, value) != 0) report->failed = true;
}

void report_field_mark(tool_report *report, report_mark mark) {
  if (report == NULL || report->field_hidden || report->item_count == 0) return;
  report->items[report->item_count - 1].value.mark = mark;
}

void report_note(tool_report *report, const char *format, ...) {
  if (report == NULL) return;
  item *shown = add_item(report);
  if (shown == NULL) return;
  va_list values;
  va_start(values, format);
  shown->note = format_text(format, values);
  va_end(values);
  if (shown->note == NULL) report->failed = true;
}

report_table *report_add_table(tool_report *report, const char *key, const char *heading) {
  if (report == NULL) return NULL;
  item *shown = add_item(report);
  if (shown == NULL) return NULL;
  report_table *table = calloc(1, sizeof *table);
  if (table == NULL) {
    report->item_count--;
    report->failed = true;
    return NULL;
  }
  shown->table = table;
  table->report = report;
  if (heading != NULL) table->heading = copy(report, heading);
  table->rows = json_array();
  if (json_object_set_new(report->root, key, table->rows) != 0) report->failed = true;
  return table;
}

void report_column(report_table *table, const char *key, const char *label, report_align align) {
  if (table == NULL) return;
  if (table->column_count == COLUMN_LIMIT || table->cell_count != 0) {
    table->report->failed = true;
    return;
  }
  column *added = &table->columns[table->column_count++];
  added->key = copy(table->report, key);
  added->label = label == NULL ? NULL : copy(table->report, label);
  added->align = align;
}

void report_row(report_table *table) {
  if (table == NULL) return;
  size_t wanted = table->cell_count + table->column_count;
  if (wanted > table->cell_capacity) {
    size_t capacity = wanted * 2;
    cell *cells = realloc(table->cells, capacity * sizeof *cells);
    if (cells == NULL) {
      table->report->failed = true;
      table->next = table->column_count;
      return;
    }
    table->cells = cells;
    table->cell_capacity = capacity;
  }
  for (size_t i = table->cell_count; i < wanted; i++) table->cells[i] = (cell){0};
  table->cell_count = wanted;
  table->next = 0;
  json_t *row = json_object();
  for (size_t i = 0; i < table->column_count; i++) {
    if (table->columns[i].key != NULL) json_object_set_new(row, table->columns[i].key, json_null());
  }
  if (json_array_append_new(table->rows, row) != 0) table->report->failed = true;
}

void report_cell(report_table *table, json_t *value, const char *format, ...) {
  if (value == NULL) value = json_null();
  if (table == NULL || table->next >= table->column_count || table->cell_count == 0) {
    if (table != NULL) table->report->failed = true;
    json_decref(value);
    return;
  }
  size_t at = table->next++;
  va_list values;
  va_start(values, format);
  table->cells[table->cell_count - table->column_count + at].text = cell_text(table->report, value, format, values);
  va_end(values);
  json_t *row = json_array_get(table->rows, json_array_size(table->rows) - 1);
  if (table->columns[at].key == NULL || json_object_set(row, table->columns[at].key, value) != 0) table->report->failed = true;
  json_decref(value);
}

void report_cell_mark(report_table *table, report_mark mark) {
  if (table == NULL || table->next == 0 || table->cell_count == 0) return;
  table->cells[table->cell_count - table->column_count + table->next - 1].mark = mark;
}

/* ---- printing ---- */

typedef struct printer {
  FILE *stream;
  bool colour;
  size_t limit; /* columns of a line; 0: any number */
} printer;

static void print_marked(const printer *to, const char *text, size_t length, report_mark mark) {
  static const char *const codes[] = {"", "\033[32m", "\033[31m", "\033[2m"};
  bool coloured = to->colour && mark != REPORT_PLAIN && length != 0;
  fprintf(to->stream, "%s%.*s%s", coloured ? codes[mark] : "", (int)length, text, coloured ? "\033[0m" : "");
}

static void print_blanks(FILE *stream, size_t count) {
  while (count-- > 0) fputc(' ', stream);
}

static const char *text_of(const cell *of) {
  return of->text == NULL ? "" : of->text;
}

/* "LABEL: text", with the text from a column on, in as many lines as it takes. */
static void print_labelled(const printer *to, const char *label, size_t label_width, const cell *value) {
  const char *rest = text_of(value);
  fprintf(to->stream, "%s:", label);
  size_t owed = label_width - wrap_width_of(label) + 1;
  while (rest[0] != 0) {
    const char *start = rest;
    size_t left = to->limit > label_width + 2 ? to->limit - label_width - 2 : 1;
    size_t length = to->limit == 0 ? strlen(rest) : wrap_next(&rest, left);
    if (to->limit == 0) rest += length;
    print_blanks(to->stream, owed);
    print_marked(to, start, length, value->mark);
    owed = label_width + 2;
    if (rest[0] != 0) fputc('\n', to->stream);
  }
  fputc('\n', to->stream);
}

/* One row of a table, of as many lines as the column with the most takes. */
static void print_row(const printer *to, const report_table *table, const cell *cells, const size_t *widths) {
  const char *rests[COLUMN_LIMIT];
  for (size_t i = 0; i < table->column_count; i++) rests[i] = text_of(&cells[i]);
  bool more = true;
  while (more) {
    size_t owed = 0; /* spaces are printed late, so that no line ends in them */
    more = false;
    for (size_t i = 0; i < table->column_count; i++) {
      const column *shape = &table->columns[i];
      if (shape->label == NULL) continue;
      const char *start = rests[i];
      size_t length = wrap_next(&rests[i], widths[i]);
      size_t missing = widths[i] - wrap_width(start, length);
      if (shape->align == REPORT_RIGHT) owed += missing;
      if (length != 0) {
        print_blanks(to->stream, owed);
        owed = 0;
        print_marked(to, start, length, cells[i].mark);
      }
      if (shape->align == REPORT_LEFT) owed += missing;
      owed += 2;
      more = more || rests[i][0] != 0;
    }
    fputc('\n', to->stream);
  }
}

/* Of a column: how wide it is in lines of any length, and how narrow it can be before a word breaks. */
static void measure(const report_table *table, size_t at, size_t *width, size_t *least) {
  *width = wrap_width_of(table->columns[at].label);
  *least = wrap_longest_word(table->columns[at].label);
  for (size_t i = at; i < table->cell_count; i += table->column_count) {
    size_t wide = wrap_width_of(text_of(&table->cells[i]));
    size_t narrow = wrap_longest_word(text_of(&table->cells[i]));
    if (wide > *width) *width = wide;
    if (narrow > *least) *least = narrow;
  }
  if (table->columns[at].align == REPORT_RIGHT) *least = *width; /* figures stay together with their units */
}

/* The widths of the columns with which a line fits: the widest are narrowed. False: it cannot fit. */
static bool fit(const printer *to, const report_table *table, size_t *widths) {
  size_t leasts[COLUMN_LIMIT] = {0};
  size_t total = 0;
  for (size_t i = 0; i < table->column_count; i++) {
    if (table->columns[i].label == NULL) continue;
    measure(table, i, &widths[i], &leasts[i]);
    total += widths[i] + (total == 0 ? 0 : 2);
  }
  while (to->limit != 0 && total > to->limit) {
    size_t widest = COLUMN_LIMIT;
    for (size_t i = 0; i < table->column_count; i++) {
      if (widths[i] > leasts[i] && (widest == COLUMN_LIMIT || widths[i] > widths[widest])) widest = i;
    }
    if (widest == COLUMN_LIMIT) return false;
    widths[widest]--;
    total--;
  }
  return true;
}

/* A table that is wider than a line: each row as fields, with an empty line between rows. */
static void print_records(const printer *to, const report_table *table) {
  size_t label_width = 0;
  for (size_t i = 0; i < table->column_count; i++) {
    size_t width = table->columns[i].label == NULL ? 0 : wrap_width_of(table->columns[i].label);
    if (width > label_width) label_width = width;
  }
  for (size_t i = 0; i < table->cell_count; i++) {
    const column *shape = &table->columns[i % table->column_count];
    if (i > 0 && i % table->column_count == 0) fputc('\n', to->stream);
    if (shape->label == NULL || text_of(&table->cells[i])[0] == 0) continue;
    print_labelled(to, shape->label, label_width, &table->cells[i]);
  }
}

static void print_table(const printer *to, const report_table *table) {
  if (table->column_count == 0) return;
  size_t widths[COLUMN_LIMIT] = {0};
  if (table->heading != NULL) fprintf(to->stream, "%s\n", table->heading);
  if (!fit(to, table, widths) && table->cell_count > 0) {
    print_records(to, table);
    return;
  }
  cell labels[COLUMN_LIMIT];
  for (size_t i = 0; i < table->column_count; i++) labels[i] = (cell){table->columns[i].label, REPORT_FAINT};
  print_row(to, table, labels, widths);
  for (size_t i = 0; i < table->cell_count; i += table->column_count) print_row(to, table, table->cells + i, widths);
}

/* Consecutive fields are aligned. */
static size_t label_width(const tool_report *report, size_t at) {
  size_t widest = 0;
  while (at > 0 && report->items[at - 1].label != NULL) at--;
  for (; at < report->item_count && report->items[at].label != NULL; at++) {
    size_t width = wrap_width_of(report->items[at].label);
    if (width > widest) widest = width;
  }
  return widest;
}

/* A table without labels is for a program alone. */
static bool is_shown(const report_table *table) {
  for (size_t i = 0; i < table->column_count; i++) {
    if (table->columns[i].label != NULL) return true;
  }
  return false;
}

static void print_text(const tool_report *report, FILE *stream) {
  const printer to = {stream, isatty(fileno(stream)) && getenv("NO_COLOR") == NULL, wrap_limit(stream)};
  for (size_t i = 0; i < report->item_count; i++) {
    const item *shown = &report->items[i];
    if (shown->table != NULL) {
      if (!is_shown(shown->table)) continue;
      if (i > 0) fputc('\n', stream);
      print_table(&to, shown->table);
    } else if (shown->note == NULL) {
      print_labelled(&to, shown->label, label_width(report, i), &shown->value);
    } else if (to.limit != 0 && shown->note[0] != 0) {
      wrap_print(stream, shown->note, to.limit);
    } else {
      fprintf(stream, "%s\n", shown->note);
    }
  }
}

bool report_print(const tool_report *report, FILE *stream, bool json) {
  if (report == NULL || report->failed) return false;
  if (json) {
    /* Names may contain characters that control a terminal: everything outside ASCII is escaped. */
    if (json_dumpf(report->root, stream, JSON_INDENT(2) | JSON_ENSURE_ASCII) != 0) return false;
    fputc('\n', stream);
  } else {
    print_text(report, stream);
  }
  return fflush(stream) == 0 && !ferror(stream);
}
