/** @file list.h
 *  The kernels that `doctor --compute` tries: lines of kernel.h, with shapes for which kernels are often wrong. */
#ifndef IOBIND_TOOL_KERNEL_LIST_H
#define IOBIND_TOOL_KERNEL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A position in the list; all zero at the beginning. */
typedef struct kernel_cursor {
  size_t set;
  size_t type;
  size_t value; /**< where the next one begins in the set's values */
} kernel_cursor;

/** The next line, and its element type.
 *  @param text  room for KERNEL_TEXT bytes
 *  @return false: there is none */
bool kernel_list_next(kernel_cursor *cursor, char *text, int32_t *dtype);

#endif
