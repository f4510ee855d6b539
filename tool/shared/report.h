/** @file report.h
 *  A command's output, printed as aligned text for a person or as one JSON object for a program.
 *
 *  A report is a sequence of fields, tables and notes. A value is a jansson value for the program and a text for the person;
 *  the functions take ownership of the json_t reference. If memory runs out in any of them, report_print fails. */
#ifndef IOBIND_TOOL_REPORT_H
#define IOBIND_TOOL_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct tool_report tool_report;
typedef struct report_table report_table;

typedef enum report_align { REPORT_LEFT, REPORT_RIGHT } report_align;
typedef enum report_mark { REPORT_PLAIN, REPORT_GOOD, REPORT_BAD, REPORT_FAINT } report_mark;

/** NULL: no memory; every other function takes NULL as a no-op. */
tool_report *report_create(void);
void report_destroy(tool_report *report);

/** A JSON string; bytes that are not UTF-8 become U+FFFD, NULL becomes null. */
json_t *report_string(const char *text);

/** A field: `key` in the JSON object, "LABEL: text" for a person.
 *  @param label  NULL: not shown to a person
 *  @param value  NULL counts as JSON's null: json_real gives that for infinity and NaN
 *  @param format NULL: the value itself: a string as it is, a number in its shortest form */
__attribute__((format(printf, 5, 6))) void report_field(tool_report *report, const char *key, const char *label, json_t *value,
                                                        const char *format, ...);

/** Mark the last field. */
void report_field_mark(tool_report *report, report_mark mark);

/** A line that only a person sees. */
__attribute__((format(printf, 2, 3))) void report_note(tool_report *report, const char *format, ...);

/** A table: an array of objects under `key`, one for each row; an empty line comes before it. The report owns it.
 *  @param heading  a line above the table; NULL: none */
report_table *report_add_table(tool_report *report, const char *key, const char *heading);

/** A column, before the first row.
 *  @param label  NULL: only in JSON, not shown to a person */
void report_column(report_table *table, const char *key, const char *label, report_align align);

/** Begin the next row; its cells follow in the order of the columns. Omitted cells are null, and empty for a person. */
void report_row(report_table *table);

/** The next cell of the row; value and format as for report_field. */
__attribute__((format(printf, 3, 4))) void report_cell(report_table *table, json_t *value, const char *format, ...);

/** Mark the last cell. */
void report_cell_mark(report_table *table, report_mark mark);

/** Print everything and flush. Colour is used if `stream` is a terminal and NO_COLOR is not set.
 *  @return false: no memory, or the stream cannot be written */
bool report_print(const tool_report *report, FILE *stream, bool json);

#endif
