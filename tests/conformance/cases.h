/** @file cases.h
 *  The rows of cases.tsv, read and multiplied out. README.md says what the file's columns mean. */
#ifndef TESTS_CONFORMANCE_CASES_H
#define TESTS_CONFORMANCE_CASES_H

#include <stddef.h>

/** One row: a script with a name. */
typedef struct case_row {
  char *name;
  char *needs; /**< words: what the device must have */
  char *model; /**< spec of the session that the script starts with; "" for none */
  char *steps;
  size_t line; /**< in the file */
} case_row;

typedef struct case_list {
  case_row *rows;
  size_t count;
  char error[256]; /**< why the list could not be read */
} case_list;

/** Read a file of cases.
 *  @return 1; 0 with list->error set */
int cases_read(const char *path, case_list *list);

void cases_release(case_list *list);

#endif
