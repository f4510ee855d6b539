#define _POSIX_C_SOURCE 200809L

#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 5, LINE_BYTES = 16384, LISTS = 32 };
static const char header[] = "name\teach\tneeds\tmodel\tsteps";

/* A named list of values, for the column `each`. */
typedef struct value_list {
  char name[64];
  char values[LINE_BYTES];
} value_list;

typedef struct reader {
  case_list *list;
  value_list lists[LISTS];
  size_t list_count;
  size_t line;
} reader;

static int fail(reader *r, const char *text, const char *what) {
  snprintf(r->list->error, sizeof r->list->error, "line %zu: %s '%.120s'", r->line, text, what);
  return 0;
}

/* Puts the value in the place of each @, and its parts, parted by ':', in the places of @1, @2 and so on. */
static char *substitute(const char *text, const char *value) {
  size_t capacity = strlen(text) + 1, used = 0;
  for (const char *at = text; *at != '\0'; at++) capacity += *at == '@' ? strlen(value) : 0;
  char *result = malloc(capacity);
  if (result == NULL) return NULL;
  for (const char *at = text; *at != '\0'; at++) {
    if (*at != '@') {
      result[used++] = *at;
      continue;
    }
    const char *part = value;
    size_t length = strlen(value);
    if (at[1] >= '1' && at[1] <= '9') {
      for (int skip = *++at - '1'; skip > 0; skip--) {
        part += strcspn(part, ":");
        part += *part == ':';
      }
      length = strcspn(part, ":");
    }
    memcpy(result + used, part, length);
    used += length;
  }
  result[used] = '\0';
  return result;
}

static int add_row(reader *r, char *const columns[COLUMNS], const char *value) {
  case_list *list = r->list;
  case_row *rows = realloc(list->rows, (list->count + 1) * sizeof *rows);
  if (rows == NULL) return fail(r, "no memory for", columns[0]);
  list->rows = rows;
  case_row *row = &rows[list->count++];
  row->name = substitute(columns[0], value);
  row->needs = substitute(columns[2], value);
  row->model = substitute(columns[3], value);
  row->steps = substitute(columns[4], value);
  row->line = r->line;
  if (row->name == NULL || row->needs == NULL || row->model == NULL || row->steps == NULL)
    return fail(r, "no memory for", columns[0]);
  for (size_t i = 0; i + 1 < list->count; i++) {
    if (strcmp(list->rows[i].name, row->name) == 0) return fail(r, "a second row of the name", row->name);
  }
  return 1;
}

/* Adds a row for each value in `each`; "=NAME" stands for the values of a list. */
static int add_rows(reader *r, char *const columns[COLUMNS], const char *each) {
  char value[256];
  if (columns[1][0] == '\0') return add_row(r, columns, "");
  for (const char *at = each; *at != '\0'; at += strspn(at, " ")) {
    size_t length = strcspn(at, " ");
    snprintf(value, sizeof value, "%.*s", (int)length, at);
    at += length;
    if (value[0] != '=') {
      if (!add_row(r, columns, value)) return 0;
      continue;
    }
    const value_list *found = NULL;
    for (size_t i = 0; i < r->list_count; i++) {
      if (strcmp(r->lists[i].name, value + 1) == 0) found = &r->lists[i];
    }
    if (found == NULL) return fail(r, "no list of the name", value + 1);
    if (!add_rows(r, columns, found->values)) return 0;
  }
  return 1;
}

static int define_list(reader *r, char *line) {
  char *values = strchr(line, '\t');
  if (values == NULL || r->list_count == LISTS) return fail(r, "not a list, or one too many:", line);
  *values++ = '\0';
  value_list *list = &r->lists[r->list_count++];
  if (strlen(line + 1) >= sizeof list->name) return fail(r, "too long a name of a list:", line);
  memcpy(list->name, line + 1, strlen(line + 1) + 1);
  snprintf(list->values, sizeof list->values, "%s", values);
  return 1;
}

static int read_line(reader *r, char *line, int *header_seen) {
  char *columns[COLUMNS];
  size_t count = 0;
  line[strcspn(line, "\r\n")] = '\0';
  if (line[0] == '\0' || line[0] == '#') return 1;
  if (line[0] == '=') return define_list(r, line);
  if (!*header_seen) {
    *header_seen = 1;
    return strcmp(line, header) == 0 || fail(r, "not the header that is expected:", line);
  }
  for (char *at = line; at != NULL && count < COLUMNS; count++) {
    columns[count] = at;
    at = strchr(at, '\t');
    if (at != NULL) *at++ = '\0';
  }
  if (count != COLUMNS || columns[0][0] == '\0' || columns[4][0] == '\0')
    return fail(r, "not five columns with a name and steps:", line);
  return add_rows(r, columns, columns[1]);
}

int cases_read(const char *path, case_list *list) {
  static reader r; /* large: the lists are in it */
  static char line[LINE_BYTES];
  int good = 1, header_seen = 0;
  r.list = list;
  r.line = 0;
  r.list_count = 0;
  memset(list, 0, sizeof *list);
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    snprintf(list->error, sizeof list->error, "the file cannot be read");
    return 0;
  }
  while (good && fgets(line, sizeof line, file) != NULL) {
    r.line++;
    good = read_line(&r, line, &header_seen);
  }
  fclose(file);
  if (!good) cases_release(list);
  return good;
}

void cases_release(case_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    free(list->rows[i].name);
    free(list->rows[i].needs);
    free(list->rows[i].model);
    free(list->rows[i].steps);
  }
  free(list->rows);
  list->rows = NULL;
  list->count = 0;
}
