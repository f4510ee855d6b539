/** @file fault.h
 *  One line with a cause and its remedy, written where something fails and printed where the command ends. */
#ifndef IOBIND_TOOL_FAULT_H
#define IOBIND_TOOL_FAULT_H

#include <stdbool.h>

typedef struct tool_fault {
  char text[1024]; /**< one line, UTF-8 */
} tool_fault;

/** Put a message into a fault (NULL is a no-op), with its control characters replaced.
 *  @return false, so that a failing function can end with `return fault_set(...)` */
__attribute__((format(printf, 2, 3))) bool fault_set(tool_fault *fault, const char *format, ...);

/** Make a text one safe line for a terminal: newlines become spaces; other control characters, characters that change the
 *  direction of text, and bytes that are not UTF-8 become '?'. */
void fault_make_line(char *text);

#endif
