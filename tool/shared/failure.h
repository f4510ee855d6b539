/** @file failure.h
 *  Why a command failed, for the object that --json prints. The process has one command at a time. */
#ifndef IOBIND_TOOL_FAILURE_H
#define IOBIND_TOOL_FAILURE_H

#include <jansson.h>

/** Forget an earlier command's error. */
void failure_begin(void);

/** Keep an error as it is printed, without the command's name; only the first one is kept. */
void failure_keep(const char *message);

/** {"message": TEXT, "status": NAME}, or null if nothing is kept; NULL: out of memory. The status is the one in brackets in the message; null if
 *  no call of the library failed. */
json_t *failure_json(void);

/** A JSON object has been printed: there must not be another one. */
void failure_answered(void);

/** Print {"error": ...} on stdout, if an error is kept and no object has been printed. */
void failure_answer(void);

#endif
