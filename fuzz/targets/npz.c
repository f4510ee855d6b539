/* tool/formats/npz.c: arbitrary bytes as an archive; or an archive with valid checksums and arbitrary members, so that the members are
 * parsed. */
#include "formats/npz.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "bytes.h"

static void read_all(const char *path) {
  tool_fault fault = {""};
  npz_archive *archive = npz_open(path, &fault);
  if (archive == NULL) {
    CHECK(fault.text[0] != 0);
    return;
  }
  size_t count = npz_count(archive);
  CHECK(count > 0);
  for (size_t i = 0; i < count && i < 8; i++) {
    npy_array array;
    fault.text[0] = 0;
    if (npz_read(archive, npz_name(archive, i), NULL, &array, &fault)) {
      CHECK(array.bytes == array.count * array.item_bytes);
      npy_free(&array);
    } else {
      CHECK(array.data == NULL && fault.text[0] != 0);
    }
  }
  npz_close(archive);
}

/* An archive of up to three members, in zip's layout. */
static void read_made(bytes source) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *target = zip_source_buffer_create(NULL, 0, 0, &error);
  CHECK(target != NULL);
  zip_source_keep(target);
  zip_t *zip = zip_open_from_source(target, ZIP_TRUNCATE, &error);
  CHECK(zip != NULL);
  static const char *const names[] = {"x.npy", "y.npy", "x"};
  uint8_t count = take_byte(&source) % 3 + 1;
  for (uint8_t i = 0; i < count; i++) {
    size_t size = i + 1 == count ? source.left : take_number(&source) % (source.left + 1);
    zip_source_t *content = zip_source_buffer(zip, source.at, size, 0);
    zip_int64_t place = zip_file_add(zip, names[i], content, 0);
    CHECK(place >= 0);
    CHECK(zip_set_file_compression(zip, (zip_uint64_t)place, i % 2 == 0 ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 1) == 0);
    source.at += size;
    source.left -= size;
  }
  CHECK(zip_close(zip) == 0);
  zip_stat_t stat;
  CHECK(zip_source_stat(target, &stat) == 0 && zip_source_open(target) == 0);
  char *data = malloc(stat.size);
  CHECK(data != NULL && zip_source_read(target, data, stat.size) == (zip_int64_t)stat.size);
  zip_source_close(target);
  zip_source_free(target);
  memory_file file = memory_file_make(data, stat.size);
  free(data);
  read_all(file.path);
  memory_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes source = {data, size};
  if (take_byte(&source) == 'm') {
    read_made(source);
    return 0;
  }
  /* From the first byte on, so that an unchanged archive can be a seed. */
  memory_file file = memory_file_make(data, size);
  read_all(file.path);
  memory_file_close(&file);
  return 0;
}
