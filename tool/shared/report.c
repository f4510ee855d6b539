#define _POSIX_C_SOURCE 200809L /* fileno, open_memstream */

#include "shared/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/fault.h"

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

/* The width on a terminal, nearly: one column for each code point. */
static size_t width_of(const char *text) {
  size_t width = 0;
  for (const char *at = text; *at != 0; at++) width += ((unsigned char)*at & 0xC0) != 0x80;
  return width;
}

static void print_marked(FILE *stream, const char *text, report_mark mark, bool colour) {
  static const char *const codes[] = {"", "\033[32m", "\033[31m", "\033[2m"};
  bool coloured = colour && mark != REPORT_PLAIN && text[0] != 0;
  fprintf(stream, "%s%s%s", coloured ? codes[mark] : "", text, coloured ? "\033[0m" : "");
}

static void print_blanks(FILE *stream, size_t count) {
  while (count-- > 0) fputc(' ', stream);
}

/* One line of a table; `cells` NULL prints the labels. */
static void print_row(FILE *stream, const report_table *table, const cell *cells, const size_t *widths, bool colour) {
  size_t owed = 0; /* spaces are printed late, so that no line ends in them */
  for (size_t i = 0; i < table->column_count; i++) {
    const column *shape = &table->columns[i];
    if (shape->label == NULL) continue;
    const char *text = cells == NULL ? shape->label : cells[i].text == NULL ? "" : cells[i].text;
    size_t missing = widths[i] - width_of(text);
    if (shape->align == REPORT_RIGHT) owed += missing;
    if (text[0] != 0) {
      print_blanks(stream, owed);
      owed = 0;
      print_marked(stream, text, cells == NULL ? REPORT_FAINT : cells[i].mark, colour);
    }
    if (shape->align == REPORT_LEFT) owed += missing;
    owed += 2;
  }
  fputc('\n', stream);
}

static void print_table(FILE *stream, const report_table *table, bool colour) {
  if (table->column_count == 0) return;
  size_t widths[COLUMN_LIMIT] = {0};
  for (size_t i = 0; i < table->column_count; i++) {
    if (table->columns[i].label != NULL) widths[i] = width_of(table->columns[i].label);
  }
  for (size_t i = 0; i < table->cell_count; i++) {
    size_t width = table->cells[i].text == NULL ? 0 : width_of(table->cells[i].text);
    if (width > widths[i % table->column_count]) widths[i % table->column_count] = width;
  }
  if (table->heading != NULL) fprintf(stream, "%s\n", table->heading);
  print_row(stream, table, NULL, widths, colour);
  for (size_t i = 0; i < table->cell_count; i += table->column_count) {
    print_row(stream, table, table->cells + i, widths, colour);
  }
}

/* Fields that follow each other are aligned with each other. */
static size_t label_width(const tool_report *report, size_t at) {
  size_t widest = 0;
  while (at > 0 && report->items[at - 1].label != NULL) at--;
  for (; at < report->item_count && report->items[at].label != NULL; at++) {
    size_t width = width_of(report->items[at].label);
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
  bool colour = isatty(fileno(stream)) && getenv("NO_COLOR") == NULL;
  for (size_t i = 0; i < report->item_count; i++) {
    const item *shown = &report->items[i];
    if (shown->table != NULL) {
      if (!is_shown(shown->table)) continue;
      if (i > 0) fputc('\n', stream);
      print_table(stream, shown->table, colour);
    } else if (shown->note != NULL) {
      fprintf(stream, "%s\n", shown->note);
    } else {
      fprintf(stream, "%s:", shown->label);
      if (shown->value.text[0] != 0) print_blanks(stream, label_width(report, i) - width_of(shown->label) + 1);
      print_marked(stream, shown->value.text, shown->value.mark, colour);
      fputc('\n', stream);
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
