/** @file picture.h
 *  PNG files as arrays. */
#ifndef IOBIND_TOOL_PICTURE_H
#define IOBIND_TOOL_PICTURE_H

#include <stdbool.h>

#include "formats/fault.h"
#include "formats/npy.h"

/** Whether a file's name is that of a PNG. */
bool picture_is_png(const char *path);

/** Read a PNG as bytes [height,width,channels], which npy_free frees. Of 16 bits a channel the upper 8 are taken. Unless 4
 *  channels are wanted, transparent pixels are drawn on white.
 *  @param channels  1 grey, 3 red, green and blue, or 4 with opacity */
bool picture_read(const char *path, int64_t channels, npy_array *picture, tool_fault *fault);

/** Write bytes [height,width,channels] of 1, 3 or 4 channels, whole or not at all. */
bool picture_write(const char *path, const npy_array *picture, tool_fault *fault);

#endif
