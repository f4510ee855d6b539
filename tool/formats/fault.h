/** @file fault.h
 *  One line of cause and fix, made where something fails and printed where the command ends. */
#ifndef IOBIND_TOOL_FAULT_H
#define IOBIND_TOOL_FAULT_H

#include <stdbool.h>

typedef struct tool_fault {
  char text[1024]; /**< one line, UTF-8 */
} tool_fault;

/** Put a message into a fault (NULL is a no-op). What cannot be printed in one line is replaced.
 *  @return false, so that a failing function can end with `return fault_set(...)` */
__attribute__((format(printf, 2, 3))) bool fault_set(tool_fault *fault, const char *format, ...);

/** Replace what cannot stand in one line of a terminal: newlines become blanks; each other control character, what would turn the
 *  direction of the text, and each byte that is not UTF-8 becomes '?'. */
void fault_make_line(char *text);

#endif
