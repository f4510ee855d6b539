#include "formats/utf8.h"

size_t utf8_put(uint32_t point, unsigned char bytes[4]) {
  if (point < 0x80) {
    bytes[0] = (unsigned char)point;
    return 1;
  }
  size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--) {
    bytes[i] = (unsigned char)(0x80 | (point & 0x3F));
    point >>= 6;
  }
  static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  bytes[0] = (unsigned char)(leads[length] | point);
  return length;
}

size_t utf8_decode(const unsigned char *bytes, size_t left, uint32_t *point) {
  static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (bytes[0] < 0x80) {
    *point = bytes[0];
    return 1;
  }
  size_t length = bytes[0] >= 0xF0 ? 4 : bytes[0] >= 0xE0 ? 3 : 2;
  if (bytes[0] < 0xC2 || bytes[0] > 0xF4 || length > left) return 0;
  uint32_t value = bytes[0] & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xC0) != 0x80) return 0;
    value = value << 6 | (bytes[i] & 0x3F);
  }
  if (value < lowest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
  *point = value;
  return length;
}

bool utf8_is_plain(uint32_t point) {
  static const struct {
    uint32_t first, last;
  } others[] = {{0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},  {0x200E, 0x200F},
                {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFFF9, 0xFFFB}};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    if (point >= others[i].first && point <= others[i].last) return false;
  }
  return true;
}
