#include "pictures/mosaic.h"

#include <math.h>
#include <string.h>

#include "formats/half.h"

bool mosaic_read_layout(const char *text, mosaic_layout *layout) {
  static const char letters[] = "NCHW";
  *layout = (mosaic_layout){.place = {-1, -1, -1, -1}, .rank = strlen(text)};
  if (layout->rank > MOSAIC_AXES) return false;
  for (size_t i = 0; i < layout->rank; i++) {
    const char *letter = strchr(letters, text[i]);
    if (letter == NULL || layout->place[letter - letters] >= 0) return false;
    layout->letters[i] = text[i];
    layout->place[letter - letters] = (int)i;
  }
  return layout->place[MOSAIC_H] >= 0 && layout->place[MOSAIC_W] >= 0;
}

mosaic_view mosaic_look(void *data, mosaic_kind kind, const int64_t *dims, const mosaic_layout *layout) {
  mosaic_view view = {.data = data, .kind = kind};
  for (int axis = 0; axis < MOSAIC_AXES; axis++) {
    int place = layout->place[axis];
    view.dims[axis] = place < 0 ? 1 : dims[place];
    view.strides[axis] = place < 0 ? 0 : 1;
    for (int i = place + 1; place >= 0 && i < (int)layout->rank; i++) view.strides[axis] *= dims[i];
  }
  return view;
}

static int64_t row_of(const mosaic_view *view, int64_t index, int64_t channel, int64_t row) {
  return index * view->strides[MOSAIC_N] + channel * view->strides[MOSAIC_C] + row * view->strides[MOSAIC_H];
}

static float read_at(const mosaic_view *view, int64_t offset) {
  switch (view->kind) {
    case MOSAIC_BYTES: return (float)((const uint8_t *)view->data)[offset];
    case MOSAIC_HALVES: return half_read(((const uint16_t *)view->data)[offset]);
    case MOSAIC_FLOATS: break;
  }
  return ((const float *)view->data)[offset];
}

static uint8_t round_to_byte(float value) {
  if (!(value > 0)) return 0; /* NaN becomes 0 too */
  return value >= 255 ? 255 : (uint8_t)lrintf(value);
}

static void write_at(const mosaic_view *view, int64_t offset, float value) {
  switch (view->kind) {
    case MOSAIC_BYTES: ((uint8_t *)view->data)[offset] = round_to_byte(value); break;
    case MOSAIC_HALVES: ((uint16_t *)view->data)[offset] = half_write(value); break;
    case MOSAIC_FLOATS: ((float *)view->data)[offset] = value; break;
  }
}

static int64_t least(int64_t one, int64_t other) {
  return one < other ? one : other;
}

void mosaic_cut(const mosaic_view *pictures, mosaic_corner from, const mosaic_levels *levels, const mosaic_view *tiles,
                int64_t index) {
  int64_t channels = tiles->dims[MOSAIC_C];
  for (int64_t c = 0; c < channels; c++) {
    float mean = levels->mean[c], deviation = levels->deviation[c];
    for (int64_t y = 0; y < tiles->dims[MOSAIC_H]; y++) {
      int64_t from_row = least(from.row + y, pictures->dims[MOSAIC_H] - 1);
      int64_t source = row_of(pictures, from.picture, levels->reversed ? channels - 1 - c : c, from_row);
      int64_t target = row_of(tiles, index, c, y);
      for (int64_t x = 0; x < tiles->dims[MOSAIC_W]; x++) {
        int64_t from_column = least(from.column + x, pictures->dims[MOSAIC_W] - 1);
        float value = read_at(pictures, source + from_column * pictures->strides[MOSAIC_W]);
        write_at(tiles, target + x * tiles->strides[MOSAIC_W], (value - mean) / deviation);
      }
    }
  }
}

void mosaic_add(const mosaic_view *tiles, int64_t index, const float *row_weights, const float *column_weights,
                const mosaic_view *pictures, mosaic_corner to) {
  float *sums = pictures->data;
  int64_t height = least(tiles->dims[MOSAIC_H], pictures->dims[MOSAIC_H] - to.row);
  int64_t width = least(tiles->dims[MOSAIC_W], pictures->dims[MOSAIC_W] - to.column);
  for (int64_t c = 0; c < tiles->dims[MOSAIC_C]; c++) {
    for (int64_t y = 0; y < height; y++) {
      int64_t source = row_of(tiles, index, c, y);
      int64_t target = row_of(pictures, to.picture, c, to.row + y) + to.column * pictures->strides[MOSAIC_W];
      for (int64_t x = 0; x < width; x++) {
        float weight = row_weights[y] * column_weights[x];
        /* skip a weight of 0: a NaN there would stay NaN */
        if (weight > 0) {
          sums[target + x * pictures->strides[MOSAIC_W]] += weight * read_at(tiles, source + x * tiles->strides[MOSAIC_W]);
        }
      }
    }
  }
}

void mosaic_round(const mosaic_view *picture, float factor, bool reversed, const mosaic_view *bytes) {
  for (int64_t n = 0; n < picture->dims[MOSAIC_N]; n++) {
    for (int64_t c = 0; c < picture->dims[MOSAIC_C]; c++) {
      for (int64_t y = 0; y < picture->dims[MOSAIC_H]; y++) {
        int64_t from = row_of(picture, n, c, y);
        int64_t to = row_of(bytes, n, reversed ? picture->dims[MOSAIC_C] - 1 - c : c, y);
        for (int64_t x = 0; x < picture->dims[MOSAIC_W]; x++) {
          float value = read_at(picture, from + x * picture->strides[MOSAIC_W]) * factor;
          write_at(bytes, to + x * bytes->strides[MOSAIC_W], value);
        }
      }
    }
  }
}
