#define _POSIX_C_SOURCE 200809L /* fdopen, strcasecmp */

#include "pictures/picture.h"

#include <string.h>
#include <strings.h>

bool picture_is_png(const char *path) {
  size_t length = strlen(path);
  return length > 4 && strcasecmp(path + length - 4, ".png") == 0;
}

#ifdef IOBIND_TOOL_PNG
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "formats/file.h"

static uint32_t format_of(int64_t channels) {
  return channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

static bool decode(png_image *image, int64_t channels, npy_array *picture, tool_fault *fault, const char *path) {
  const int64_t dims[] = {image->height, image->width, channels};
  const png_color white = {255, 255, 255};
  image->format = format_of(channels);
  image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  *picture = (npy_array){.kind = 'u', .item_bytes = 1};
  if (!npy_set_dims(picture, dims, 3) || (picture->data = malloc(picture->bytes)) == NULL) {
    return fault_set(fault, "%s: out of memory: %u x %u pixels", path, image->width, image->height);
  }
  if (png_image_finish_read(image, &white, picture->data, 0, NULL)) return true;
  npy_free(picture);
  return fault_set(fault, "%s: is not a PNG that can be read: %s", path, image->message);
}

bool picture_read(const char *path, int64_t channels, npy_array *picture, tool_fault *fault) {
  uint64_t size;
  int descriptor = file_open(path, &size, fault);
  if (descriptor < 0) return false;
  FILE *file = fdopen(descriptor, "rb");
  if (file == NULL) {
    close(descriptor);
    return fault_set(fault, "%s: out of memory", path);
  }
  png_image image = {.version = PNG_IMAGE_VERSION};
  bool begun = png_image_begin_read_from_stdio(&image, file) != 0;
  bool done = begun ? decode(&image, channels, picture, fault, path)
                    : fault_set(fault, "%s: is not a PNG that can be read: %s", path, image.message);
  png_image_free(&image);
  fclose(file);
  return done;
}

static bool fill(void *context, const char *temporary, const char *path, tool_fault *fault) {
  const npy_array *picture = context;
  png_image image = {.version = PNG_IMAGE_VERSION, .format = format_of(picture->dims[2])};
  image.height = (uint32_t)picture->dims[0];
  image.width = (uint32_t)picture->dims[1];
  if (png_image_write_to_file(&image, temporary, 0, picture->data, 0, NULL)) return true;
  return fault_set(fault, "%s: cannot be written: %s", path, image.message);
}

bool picture_write(const char *path, const npy_array *picture, tool_fault *fault) {
  npy_array copy = *picture;
  return file_produce(path, fill, &copy, fault);
}

#else
static bool fail(const char *path, tool_fault *fault) {
  return fault_set(fault, "%s: this tool was built without libpng; take a .npy file [NOT_SUPPORTED]", path);
}

bool picture_read(const char *path, int64_t channels, npy_array *picture, tool_fault *fault) {
  (void)channels;
  *picture = (npy_array){0};
  return fail(path, fault);
}

bool picture_write(const char *path, const npy_array *picture, tool_fault *fault) {
  (void)picture;
  return fail(path, fault);
}
#endif
