#include "picture.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIXELS = 16 * 1024 * 1024 };

static const char *fail(const char *path, const char *reason) {
  static char text[512];
  snprintf(text, sizeof text, "%s: %s", path, reason);
  return text;
}

const char *picture_read(const char *path, int64_t multiple, picture *p) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  memset(p, 0, sizeof *p);
  if (!png_image_begin_read_from_file(&png, path)) return fail(path, png.message);
  png.format = PNG_FORMAT_BGR;
  int64_t height = ((int64_t)png.height + multiple - 1) / multiple * multiple;
  int64_t width = ((int64_t)png.width + multiple - 1) / multiple * multiple;
  png_bytep pixels = height * width <= MOST_PIXELS ? malloc(PNG_IMAGE_SIZE(png)) : NULL;
  float *values = pixels == NULL ? NULL : calloc((size_t)(3 * height * width), sizeof *values);
  const png_color white = {255, 255, 255}; /* what shows through where the picture is transparent */
  const char *problem = NULL;
  if (values == NULL) {
    problem = fail(path, "the picture is too large");
  } else if (!png_image_finish_read(&png, &white, pixels, 0, NULL)) {
    problem = fail(path, png.message);
  } else {
    for (int64_t channel = 0; channel < 3; channel++) {
      for (int64_t y = 0; y < (int64_t)png.height; y++) {
        for (int64_t x = 0; x < (int64_t)png.width; x++) {
          float value = (float)pixels[(y * (int64_t)png.width + x) * 3 + channel];
          values[(channel * height + y) * width + x] = value / 127.5f - 1;
        }
      }
    }
    *p = (picture){values, height, width};
  }
  if (problem != NULL) free(values);
  free(pixels);
  png_image_free(&png);
  return problem;
}
