#define _POSIX_C_SOURCE 200809L /* close */

#include "formats/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/file.h"
#include "formats/utf8.h"

/* numpy pads its headers to multiples of 64; the largest without a record is far below this. */
enum { HEADER_LIMIT = 64 << 10, ALIGNMENT = 64, TEXT_LIMIT = 1 << 20 };

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static const char native = '>';
#else
static const char native = '<';
#endif

/* ---- the header: a Python dict of three entries ---- */

typedef struct header_text {
  const char *at; /* the header ends in NUL */
  const npy_source *source;
  const char *name; /* the name of the source */
  tool_fault *fault;
} header_text;

static bool refuse(const header_text *parser, const char *what) {
  return fault_set(parser->fault, "%s: not a numpy array: %s", parser->name, what);
}

static void skip_blanks(header_text *parser) {
  parser->at += strspn(parser->at, " \t\r\n");
}

static bool take(header_text *parser, char wanted) {
  skip_blanks(parser);
  if (*parser->at != wanted) return false;
  parser->at++;
  return true;
}

static bool take_word(header_text *parser, const char *word) {
  skip_blanks(parser);
  size_t length = strlen(word);
  if (strncmp(parser->at, word, length) != 0) return false;
  parser->at += length;
  return true;
}

/* A quoted string without escapes: numpy writes no other for plain types. */
static bool take_string(header_text *parser, char *text, size_t capacity) {
  skip_blanks(parser);
  char quote = *parser->at;
  if (quote != '\'' && quote != '"') return false;
  const char *start = parser->at + 1;
  const char *end = strchr(start, quote);
  if (end == NULL || (size_t)(end - start) >= capacity || memchr(start, '\\', (size_t)(end - start)) != NULL) return false;
  memcpy(text, start, (size_t)(end - start));
  text[end - start] = 0;
  parser->at = end + 1;
  return true;
}

static bool take_dim(header_text *parser, int64_t *dim) {
  skip_blanks(parser);
  if (*parser->at == '-') return refuse(parser, "its shape has a negative dim");
  if (*parser->at < '0' || *parser->at > '9') return refuse(parser, "its shape is not a tuple of numbers");
  int64_t value = 0;
  for (; *parser->at >= '0' && *parser->at <= '9'; parser->at++) {
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *parser->at - '0', &value)) {
      return refuse(parser, "its shape has a dim beyond 64 bits");
    }
  }
  if (*parser->at == 'L') parser->at++; /* Python 2 wrote its long integers with an L */
  *dim = value;
  return true;
}

static bool take_shape(header_text *parser, int64_t *dims, size_t *rank) {
  if (!take(parser, '(')) return refuse(parser, "its shape is not a tuple");
  *rank = 0;
  while (!take(parser, ')')) {
    if (*rank == NPY_MAX_RANK) return refuse(parser, "it has more than 32 dims");
    if (!take_dim(parser, &dims[(*rank)++])) return false;
    if (take(parser, ',')) continue;
    if (take(parser, ')')) break;
    return refuse(parser, "its shape is not a tuple of numbers");
  }
  return true;
}

static bool take_type(header_text *parser, npy_array *array, char *order) {
  char text[32];
  skip_blanks(parser);
  if (*parser->at == '[' || *parser->at == '(') {
    return fault_set(parser->fault, "%s: holds records; save each field as an array of its own", parser->name);
  }
  if (!take_string(parser, text, sizeof text)) return refuse(parser, "its type is not a string");
  *order = native;
  const char *type = text;
  if (strchr("<>=|", *type) != NULL && *type != 0) {
    if (*type == '<' || *type == '>') *order = *type;
    type++;
  }
  array->kind = *type;
  if (*type == 'O') {
    return fault_set(parser->fault,
                     "%s: holds Python objects (a pickle), which are not read; save it with a numeric or text dtype",
                     parser->name);
  }
  uint64_t number = 0;
  const char *digits = type + (*type != 0);
  size_t length = strspn(digits, "0123456789");
  if (length == 0 || length > 9 || digits[length] != 0) {
    return fault_set(parser->fault, "%s: has the type '%s', which is not supported", parser->name, text);
  }
  for (size_t i = 0; i < length; i++) number = number * 10 + (uint64_t)(digits[i] - '0');
  array->item_bytes = (size_t)number * (array->kind == 'U' ? 4 : 1);
  bool fits = false;
  switch (array->kind) {
    case 'b': fits = number == 1; break;
    case 'i':
    case 'u': fits = number == 1 || number == 2 || number == 4 || number == 8; break;
    case 'f': fits = number == 1 || number == 2 || number == 4 || number == 8; break;
    case 'c': fits = number == 8 || number == 16; break;
    case 'V': fits = number == 1 || number == 2; break;
    case 'U':
    case 'S': fits = number >= 1 && number <= TEXT_LIMIT; break;
    default: break;
  }
  if (fits) return true;
  return fault_set(parser->fault, "%s: has the type '%s', which is not supported", parser->name, text);
}

static bool parse_header(header_text *parser, npy_array *array, char *order, bool *fortran) {
  enum { DESCR = 1, FORTRAN = 2, SHAPE = 4 };
  unsigned seen = 0;
  int64_t dims[NPY_MAX_RANK];
  size_t rank = 0;
  if (!take(parser, '{')) return refuse(parser, "its header is not a dict");
  while (!take(parser, '}')) {
    char key[32];
    if (!take_string(parser, key, sizeof key) || !take(parser, ':')) return refuse(parser, "its header is not a dict");
    unsigned entry = 0;
    if (strcmp(key, "descr") == 0) {
      entry = DESCR;
      if (!take_type(parser, array, order)) return false;
    } else if (strcmp(key, "fortran_order") == 0) {
      entry = FORTRAN;
      *fortran = take_word(parser, "True");
      if (!*fortran && !take_word(parser, "False")) return refuse(parser, "its fortran_order is neither True nor False");
    } else if (strcmp(key, "shape") == 0) {
      entry = SHAPE;
      if (!take_shape(parser, dims, &rank)) return false;
    }
    if (entry == 0 || (seen & entry) != 0) return refuse(parser, "its header has one entry too many");
    seen |= entry;
    if (take(parser, ',')) continue;
    if (take(parser, '}')) break;
    return refuse(parser, "its header is not a dict");
  }
  skip_blanks(parser);
  if (*parser->at != 0) return refuse(parser, "something follows its header's dict");
  if (seen != (DESCR | FORTRAN | SHAPE)) return refuse(parser, "its header lacks descr, fortran_order or shape");
  if (!npy_set_dims(array, dims, rank)) return refuse(parser, "its shape has more bytes than can be counted");
  return true;
}

/* ---- the data ---- */

static void swap_bytes(unsigned char *data, size_t bytes, size_t width) {
  for (size_t item = 0; item < bytes; item += width) {
    for (size_t i = 0; i < width / 2; i++) {
      unsigned char kept = data[item + i];
      data[item + i] = data[item + width - 1 - i];
      data[item + width - 1 - i] = kept;
    }
  }
}

/* C++ code must not get a bool that is neither 0 nor 1. */
static void make_truth(npy_array *array) {
  unsigned char *values = array->data;
  for (size_t i = 0; i < array->count; i++) values[i] = values[i] != 0;
}

/* The bytes of one number: a part of a complex one, or a character. */
static size_t number_width(const npy_array *array) {
  switch (array->kind) {
    case 'c': return array->item_bytes / 2;
    case 'U': return 4;
    case 'S': return 1;
    default: return array->item_bytes;
  }
}

/* From Fortran's order (first axis fastest) to C's: the source's strides, walked in C's order. */
static bool transpose(npy_array *array) {
  size_t strides[NPY_MAX_RANK];
  size_t index[NPY_MAX_RANK] = {0};
  unsigned char *target = malloc(array->bytes);
  if (target == NULL) return false;
  size_t stride = array->item_bytes;
  for (size_t axis = 0; axis < array->rank; axis++) {
    strides[axis] = stride;
    stride *= (size_t)array->dims[axis];
  }
  const unsigned char *source = array->data;
  size_t from = 0;
  for (size_t done = 0; done < array->bytes; done += array->item_bytes) {
    memcpy(target + done, source + from, array->item_bytes);
    for (size_t axis = array->rank; axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < (size_t)array->dims[axis]) break;
      from -= strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
  free(array->data);
  array->data = target;
  return true;
}

static bool take_bytes(const header_text *parser, void *data, size_t bytes) {
  return parser->source->read(parser->source->context, parser->name, data, bytes, parser->fault);
}

static bool read_header(header_text *parser, char *header, uint64_t *start) {
  unsigned char preamble[12];
  uint64_t size = parser->source->size;
  if (size < 10) return refuse(parser, "the file is too short for a header");
  if (!take_bytes(parser, preamble, 10)) return false;
  if (memcmp(preamble, "PK\x03\x04", 4) == 0) {
    return refuse(parser, "the file does not begin as a .npy file; it is an archive, whose name must end in .npz");
  }
  if (memcmp(preamble, "\x93NUMPY", 6) != 0) {
    return refuse(parser, "the file does not begin as a .npy file; numpy.save writes one");
  }
  if (preamble[6] < 1 || preamble[6] > 3 || preamble[7] != 0) {
    return refuse(parser, "its format version is unknown");
  }
  uint64_t length = preamble[8] | (uint64_t)preamble[9] << 8;
  *start = 10;
  if (preamble[6] > 1) {
    if (size < 12) return refuse(parser, "the file is too short for a header");
    if (!take_bytes(parser, preamble + 10, 2)) return false;
    length |= (uint64_t)preamble[10] << 16 | (uint64_t)preamble[11] << 24;
    *start = 12;
  }
  if (length > size - *start) return refuse(parser, "its header is longer than the file");
  if (length >= HEADER_LIMIT) return refuse(parser, "its header is too long for a plain array");
  if (!take_bytes(parser, header, (size_t)length)) return false;
  header[length] = 0;
  if (strlen(header) != length) return refuse(parser, "its header has a NUL byte");
  *start += length;
  return true;
}

static bool read_data(const header_text *parser, uint64_t start, npy_array *array) {
  char type[24];
  uint64_t present = parser->source->size - start;
  if (present != array->bytes) {
    return fault_set(parser->fault, "%s: its header promises %zu bytes of data (%zu of type %s), the file has %" PRIu64,
                     parser->name, array->bytes, array->count, npy_type(array, type), present);
  }
  if (array->bytes == 0) return true;
  array->data = malloc(array->bytes);
  if (array->data == NULL) return fault_set(parser->fault, "%s: %zu bytes do not fit into memory", parser->name, array->bytes);
  return take_bytes(parser, array->data, array->bytes);
}

bool npy_read_from(const npy_source *source, npy_array *array, tool_fault *fault) {
  *array = (npy_array){0};
  header_text parser = {.source = source, .name = source->name, .fault = fault};
  char *header = malloc(HEADER_LIMIT);
  uint64_t start = 0;
  char order = native;
  bool fortran = false;
  bool good = false;
  if (header == NULL) {
    fault_set(fault, "%s: out of memory", source->name);
  } else if (read_header(&parser, header, &start)) {
    parser.at = header;
    const npy_filter *filter = source->filter;
    good = parse_header(&parser, array, &order, &fortran) &&
           (filter == NULL || filter->accepts(filter->context, array, fault)) && read_data(&parser, start, array);
  }
  free(header);
  if (good && array->bytes > 0) {
    if (array->kind == 'b') make_truth(array);
    if (order != native) swap_bytes(array->data, array->bytes, number_width(array));
    if (fortran && array->rank > 1 && !transpose(array)) good = fault_set(fault, "%s: out of memory", source->name);
  }
  if (!good) npy_free(array);
  return good;
}

static bool read_file(void *context, const char *name, void *data, size_t bytes, tool_fault *fault) {
  const int *descriptor = context;
  return file_read(*descriptor, name, data, bytes, fault);
}

bool npy_read(const char *path, npy_array *array, tool_fault *fault) {
  return npy_read_if(path, NULL, array, fault);
}

bool npy_read_if(const char *path, const npy_filter *filter, npy_array *array, tool_fault *fault) {
  *array = (npy_array){0};
  npy_source source = {.name = path, .read = read_file, .filter = filter};
  int descriptor = file_open(path, &source.size, fault);
  if (descriptor < 0) return false;
  source.context = &descriptor;
  bool read = npy_read_from(&source, array, fault);
  close(descriptor);
  return read;
}

void npy_free(npy_array *array) {
  free(array->data);
  *array = (npy_array){0};
}

const char *npy_type(const npy_array *array, char text[24]) {
  size_t number = array->kind == 'U' ? array->item_bytes / 4 : array->item_bytes;
  char order = number_width(array) > 1 ? native : '|';
  snprintf(text, 24, "%c%c%zu", order, array->kind, number);
  return text;
}

bool npy_set_dims(npy_array *array, const int64_t *dims, size_t rank) {
  if (rank > NPY_MAX_RANK) return false;
  size_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (size_t axis = 0; axis < rank; axis++) {
    if (dims[axis] < 0) return false;
    if (dims[axis] == 0) empty = true;
    if (__builtin_mul_overflow(count, (size_t)dims[axis], &count)) overflow = true;
  }
  if (empty) {
    count = 0;
    overflow = false;
  }
  size_t bytes = 0;
  if (overflow || __builtin_mul_overflow(count, array->item_bytes, &bytes)) return false;
  if (rank > 0) memcpy(array->dims, dims, rank * sizeof dims[0]);
  array->rank = rank;
  array->count = count;
  array->bytes = bytes;
  return true;
}

/* ---- writing ---- */

size_t npy_make_header(const npy_array *array, char header[NPY_HEADER_SIZE]) {
  static const char magic[10] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0}; /* and two bytes for the length */
  char type[24];
  memcpy(header, magic, sizeof magic);
  size_t length = sizeof magic;
  length += (size_t)snprintf(header + length, NPY_HEADER_SIZE - length, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                             npy_type(array, type));
  for (size_t axis = 0; axis < array->rank; axis++) {
    length += (size_t)snprintf(header + length, NPY_HEADER_SIZE - length, "%s%" PRId64 "%s", axis == 0 ? "" : ", ",
                               array->dims[axis], array->rank == 1 ? "," : "");
  }
  length += (size_t)snprintf(header + length, NPY_HEADER_SIZE - length, "), }");
  while ((length + 1) % ALIGNMENT != 0) header[length++] = ' ';
  header[length++] = '\n';
  header[8] = (char)((length - 10) & 0xFF);
  header[9] = (char)((length - 10) >> 8);
  return length;
}

bool npy_write(const char *path, const npy_array *array, tool_fault *fault) {
  char header[NPY_HEADER_SIZE];
  const file_part parts[] = {{header, npy_make_header(array, header)}, {array->data, array->bytes}};
  return file_write(path, parts, 2, fault);
}

/* ---- text ---- */

bool npy_is_text(const char *bytes, size_t length) {
  const unsigned char *text = (const unsigned char *)bytes;
  uint32_t point = 0;
  for (size_t at = 0; at < length;) {
    size_t taken = utf8_decode(text + at, length - at, &point);
    if (taken == 0 || point == 0) return false;
    at += taken;
  }
  return true;
}

static char *get_bytes_text(const char *item, size_t length) {
  while (length > 0 && item[length - 1] == 0) length--;
  if (!npy_is_text(item, length)) return NULL;
  char *text = malloc(length + 1);
  if (text == NULL) return NULL;
  memcpy(text, item, length);
  text[length] = 0;
  return text;
}

char *npy_get_text(const npy_array *array, size_t index) {
  if (array->data == NULL || index >= array->count) return NULL;
  const char *item = (const char *)array->data + index * array->item_bytes;
  if (array->kind == 'S') return get_bytes_text(item, array->item_bytes);
  size_t length = array->item_bytes / 4;
  uint32_t point = 0;
  while (length > 0 && (memcpy(&point, item + (length - 1) * 4, 4), point == 0)) length--;
  char *text = malloc(length * 4 + 1);
  if (text == NULL) return NULL;
  size_t bytes = 0;
  for (size_t i = 0; i < length; i++) {
    memcpy(&point, item + i * 4, 4);
    if (point == 0 || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) {
      free(text);
      return NULL;
    }
    bytes += utf8_put(point, (unsigned char *)text + bytes);
  }
  text[bytes] = 0;
  return text;
}

/* Code points of a text; written to `points` if that is not NULL. */
static size_t decode_text(const char *text, size_t length, uint32_t *points) {
  const unsigned char *bytes = (const unsigned char *)text;
  size_t count = 0;
  for (size_t at = 0; at < length; count++) {
    uint32_t point = 0;
    size_t taken = utf8_decode(bytes + at, length - at, &point);
    if (taken == 0) {
      point = 0xFFFD;
      taken = 1;
    }
    if (points != NULL) points[count] = point;
    at += taken;
  }
  return count;
}

bool npy_set_texts(npy_array *array, const char *const *texts, const size_t *lengths) {
  size_t longest = 1;
  for (size_t i = 0; i < array->count; i++) {
    size_t length = decode_text(texts[i], lengths[i], NULL);
    if (length > longest) longest = length;
  }
  if (longest > TEXT_LIMIT) return false;
  array->kind = 'U';
  array->item_bytes = longest * sizeof(uint32_t);
  if (__builtin_mul_overflow(array->count, array->item_bytes, &array->bytes)) return false;
  if (array->bytes == 0) return true;
  uint32_t *points = calloc(array->count, array->item_bytes);
  if (points == NULL) return false;
  for (size_t i = 0; i < array->count; i++) decode_text(texts[i], lengths[i], points + i * longest);
  array->data = points;
  return true;
}
