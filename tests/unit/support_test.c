/* Errors, options, infos, references and text, on which all other modules are built. */
#define _GNU_SOURCE /* mkstemp, pwrite */
#define _FILE_OFFSET_BITS 64
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/error.h"
#include "support/hash.h"
#include "support/needed.h"
#include "support/options.h"
#include "support/ref.h"
#include "support/text.h"
#if defined(__linux__)
#include "far_library.h"
#endif

static void error_is_filled(void **state) {
  (void)state;
  iobind_error error = IOBIND_ERROR_INIT;
  assert_int_equal(iobind__fail(&error, IOBIND_ERROR_SHAPE, "'%s': got %d", "x", 3), IOBIND_ERROR_SHAPE);
  assert_int_equal(error.struct_size, 512);
  assert_int_equal(error.status, IOBIND_ERROR_SHAPE);
  assert_int_equal(error.ort_code, 0);
  assert_string_equal(error.message, "'x': got 3");
  iobind__error_set(&error, IOBIND_ERROR_RUNTIME, 9, "no");
  assert_int_equal(error.status, IOBIND_ERROR_RUNTIME);
  assert_int_equal(error.ort_code, 9);
  assert_int_equal(iobind__fail(&error, IOBIND_ERROR_IO, "file"), IOBIND_ERROR_IO);
  assert_int_equal(error.ort_code, 0); /* the code of an earlier failure does not stay */
  assert_int_equal(iobind__out_of_memory(&error, "tensor_create"), IOBIND_ERROR_OUT_OF_MEMORY);
  assert_string_equal(error.message, "tensor_create: out of host memory");
}

static void error_may_be_null(void **state) {
  (void)state;
  assert_int_equal(iobind__fail(NULL, IOBIND_ERROR_IO, "%d", 1), IOBIND_ERROR_IO);
  iobind__error_set(NULL, IOBIND_ERROR_RUNTIME, 2, "%d", 1);
  size_t bytes = 7;
  assert_int_equal(iobind_dtype_get_bytes(IOBIND_DTYPE_STRING, NULL, 0, &bytes, NULL), IOBIND_ERROR_DTYPE);
}

/* A struct that a caller forgot to set up, or an older one, must not be written past its end. */
static void short_error_is_left_alone(void **state) {
  (void)state;
  for (uint32_t size = 0; size < sizeof(iobind_error); size += 128) {
    iobind_error error;
    memset(&error, 0x5a, sizeof error);
    iobind_error before = error;
    error.struct_size = before.struct_size = size;
    assert_int_equal(iobind__fail(&error, IOBIND_ERROR_IO, "too much"), IOBIND_ERROR_IO);
    assert_memory_equal(&error, &before, sizeof error);
  }
}

/* A failure that was kept: handed on by the same rule. */
static void error_is_handed_on(void **state) {
  (void)state;
  iobind_error kept = IOBIND_ERROR_INIT;
  iobind__error_set(&kept, IOBIND_ERROR_SHAPE, 7, "50%% of it");
  iobind_error error = {.struct_size = sizeof error + 8};
  assert_int_equal(iobind__error_copy(&error, &kept), IOBIND_ERROR_SHAPE);
  assert_int_equal(error.struct_size, sizeof error + 8);
  assert_int_equal(error.status, IOBIND_ERROR_SHAPE);
  assert_int_equal(error.ort_code, 7);
  assert_string_equal(error.message, "50% of it");
  iobind_error shorter = {.struct_size = 16};
  assert_int_equal(iobind__error_copy(&shorter, &kept), IOBIND_ERROR_SHAPE);
  assert_int_equal(shorter.status, 0);
  assert_string_equal(shorter.message, "");
  assert_int_equal(iobind__error_copy(NULL, &kept), IOBIND_ERROR_SHAPE);
}

/* The name of the function that was called comes first, once. */
static void error_has_a_name(void **state) {
  (void)state;
  static const struct {
    const char *message;
    const char *named;
  } cases[] = {
      {"copy from 'cpu' to 'gpu_0': refused", "event_wait: copy from 'cpu' to 'gpu_0': refused"},
      {"allocate: refused", "event_wait: allocate: refused"},
      {"'a_b': refused", "event_wait: 'a_b': refused"},
      {"binding_run: 'y': refused", "binding_run: 'y': refused"},
      {"event_wait: refused", "event_wait: refused"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    iobind_error error = IOBIND_ERROR_INIT;
    iobind__error_set(&error, IOBIND_ERROR_SHAPE, 7, "%s", cases[i].message);
    assert_int_equal(iobind__named(IOBIND_ERROR_SHAPE, &error, "event_wait"), IOBIND_ERROR_SHAPE);
    assert_string_equal(error.message, cases[i].named);
    assert_int_equal(error.status, IOBIND_ERROR_SHAPE);
    assert_int_equal(error.ort_code, 7);
    iobind_error before = error;
    assert_int_equal(iobind__named(IOBIND_OK, &error, "event_query"), IOBIND_OK);
    assert_memory_equal(&error, &before, sizeof error);
  }
  iobind_error shorter = {.struct_size = 16};
  assert_int_equal(iobind__named(IOBIND_ERROR_SHAPE, &shorter, "event_wait"), IOBIND_ERROR_SHAPE);
  assert_string_equal(shorter.message, "");
  assert_int_equal(iobind__named(IOBIND_ERROR_SHAPE, NULL, "event_wait"), IOBIND_ERROR_SHAPE);
}

static void longer_error_is_filled(void **state) {
  (void)state;
  struct {
    iobind_error error;
    char newer[32];
  } longer = {IOBIND_ERROR_INIT, "newer"};
  longer.error.struct_size = sizeof longer;
  assert_int_equal(iobind__fail(&longer.error, IOBIND_ERROR_IO, "file"), IOBIND_ERROR_IO);
  assert_string_equal(longer.error.message, "file");
  assert_int_equal(longer.error.struct_size, sizeof longer);
  assert_string_equal(longer.newer, "newer");
}

static void message_is_one_line(void **state) {
  (void)state;
  iobind_error error = IOBIND_ERROR_INIT;
  iobind__error_set(&error, IOBIND_ERROR_IO, 0, "a\nb\r\nc\td\x1B[2J\x7F \xC3\xA9\n");
  assert_string_equal(error.message, "a b  c d [2J  \xC3\xA9 ");
}

/* Wherever the cut falls, no half of a character stays, and dots say that there was more. */
static void message_is_cut_at_a_character(void **state) {
  (void)state;
  static const char *const characters[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  for (size_t c = 0; c < 4; c++) {
    size_t width = strlen(characters[c]);
    for (size_t shift = 0; shift < 5; shift++) {
      char text[1024];
      memset(text, 'x', shift);
      size_t length = shift;
      while (length + width < 700) {
        memcpy(text + length, characters[c], width);
        length += width;
      }
      text[length] = '\0';
      iobind_error error = IOBIND_ERROR_INIT;
      iobind__error_set(&error, IOBIND_ERROR_IO, 0, "%s", text);
      size_t kept = strlen(error.message) - strlen("...");
      assert_true(test_is_utf8(error.message));
      assert_memory_equal(error.message, text, kept);
      assert_string_equal(error.message + kept, "...");
      assert_true(kept + width > sizeof error.message - sizeof "..."); /* no more is lost than must be */
    }
  }
}

static void message_that_just_fits_is_whole(void **state) {
  (void)state;
  char text[496];
  memset(text, 'x', sizeof text);
  memcpy(text + 493, "\xC3\xA9", 3); /* the last character ends with the buffer */
  iobind_error error = IOBIND_ERROR_INIT;
  iobind__error_set(&error, IOBIND_ERROR_IO, 0, "%s", text);
  assert_string_equal(error.message, text);
}

static void status_names(void **state) {
  (void)state;
  assert_string_equal(iobind_status_get_name(0), "OK");
  assert_string_equal(iobind_status_get_name(5), "OUT_OF_MEMORY");
  assert_string_equal(iobind_status_get_name(14), "INTERNAL");
  assert_string_equal(iobind_status_get_name(15), "DEVICE_LOST");
  assert_string_equal(iobind_status_get_name(16), "RESULT");
  assert_string_equal(iobind_status_get_name(17), "UNKNOWN");
  assert_string_equal(iobind_status_get_name(-1), "UNKNOWN");
  assert_string_equal(iobind_status_get_name(INT32_MAX), "UNKNOWN");
}

static void version_is_the_headers(void **state) {
  (void)state;
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", IOBIND_VERSION_MAJOR, IOBIND_VERSION_MINOR, IOBIND_VERSION_PATCH);
  assert_string_equal(iobind_get_version_string(), text);
  assert_int_equal(iobind_get_version(), IOBIND_VERSION_NUMBER);
}

typedef struct settings {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t first;
  uint64_t second;
} settings;
/* When it ended with `first`. */
typedef struct old_settings {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t first;
} old_settings;
enum { OLDEST = sizeof(old_settings) };

static void options_null_is_default(void **state) {
  (void)state;
  settings out;
  memset(&out, 0x5a, sizeof out);
  expect_ok(iobind__options_read(&out, sizeof out, OLDEST, NULL, "call", &fault));
  assert_int_equal(out.struct_size, 0);
  assert_int_equal(out.flags, 0);
  assert_int_equal(out.first, 0);
  assert_int_equal(out.second, 0);
}

static void options_shorter_ends_in_zero(void **state) {
  (void)state;
  /* exactly as large as the older struct: AddressSanitizer sees a byte too many */
  old_settings *given = malloc(sizeof *given);
  assert_non_null(given);
  given->struct_size = OLDEST;
  given->flags = 1;
  given->first = 2;
  settings out;
  memset(&out, 0x5a, sizeof out);
  expect_ok(iobind__options_read(&out, sizeof out, OLDEST, given, "call", &fault));
  assert_int_equal(out.flags, 1);
  assert_int_equal(out.first, 2);
  assert_int_equal(out.second, 0);
  free(given);
}

static void options_too_short(void **state) {
  (void)state;
  settings given = {.struct_size = OLDEST - 1};
  settings out;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind__options_read(&out, sizeof out, OLDEST, &given, "call", &fault));
  expect_words("_INIT");
  given.struct_size = 0;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind__options_read(&out, sizeof out, OLDEST, &given, "call", &fault));
}

static void options_longer_needs_a_zero_tail(void **state) {
  (void)state;
  struct {
    settings known;
    uint64_t newer[2];
  } given = {{sizeof given, 1, 2, 3}, {0, 0}};
  settings out;
  expect_ok(iobind__options_read(&out, sizeof out, OLDEST, &given, "call", &fault));
  assert_int_equal(out.second, 3);
  given.newer[1] = (uint64_t)1 << 63; /* the very last byte */
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind__options_read(&out, sizeof out, OLDEST, &given, "call", &fault));
  expect_words("byte 39");
  /* bytes beyond the size that the caller passes are not read */
  given.known.struct_size = sizeof given - sizeof given.newer[1];
  expect_ok(iobind__options_read(&out, sizeof out, OLDEST, &given, "call", &fault));
}

static void flags_unknown(void **state) {
  (void)state;
  expect_ok(iobind__flags_check(5, 7, "call", &fault));
  expect(IOBIND_ERROR_NOT_SUPPORTED, iobind__flags_check(0x85, 7, "call", &fault));
  expect_words("0x80");
}

static void info_is_filled_by_the_callers_size(void **state) {
  (void)state;
  const settings full = {sizeof full, 4, 5, 6};
  settings exact = {.struct_size = sizeof exact};
  expect_ok(iobind__info_write(&exact, "settings", &full, sizeof full, OLDEST, "call", &fault));
  assert_memory_equal(&exact, &full, sizeof full);

  old_settings *shorter = malloc(sizeof *shorter);
  assert_non_null(shorter);
  shorter->struct_size = OLDEST;
  expect_ok(iobind__info_write(shorter, "settings", &full, sizeof full, OLDEST, "call", &fault));
  assert_int_equal(shorter->struct_size, OLDEST);
  assert_int_equal(shorter->first, 5);
  free(shorter);

  struct {
    settings known;
    uint64_t newer;
  } longer = {{.struct_size = sizeof longer}, 9};
  expect_ok(iobind__info_write(&longer, "settings", &full, sizeof full, OLDEST, "call", &fault));
  assert_int_equal(longer.known.struct_size, sizeof longer);
  assert_int_equal(longer.known.second, 6);
  assert_int_equal(longer.newer, 0); /* what we do not know is zero, not what was there */
}

static void info_that_is_none(void **state) {
  (void)state;
  const settings full = {sizeof full, 4, 5, 6};
  settings before = {.struct_size = OLDEST - 1, .flags = 77};
  settings info = before;
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind__info_write(&info, "settings", &full, sizeof full, OLDEST, "call", &fault));
  expect_words("call: settings: expected struct_size");
  assert_memory_equal(&info, &before, sizeof info);
  expect(IOBIND_ERROR_INVALID_ARGUMENT, iobind__info_write(NULL, "settings", &full, sizeof full, OLDEST, "call", &fault));
  expect_words("call: settings is NULL");
}

static int destroyed;

static void count_destroyed(iobind__ref *ref) {
  (void)ref;
  destroyed++;
}

static void ref_dies_once(void **state) {
  (void)state;
  iobind__ref ref;
  destroyed = 0;
  iobind__ref_init(&ref, count_destroyed);
  iobind__ref_retain(&ref);
  assert_true(iobind__ref_try_retain(&ref));
  iobind__ref_release(&ref);
  iobind__ref_release(&ref);
  assert_int_equal(destroyed, 0);
  iobind__ref_release(&ref);
  assert_int_equal(destroyed, 1);
  assert_false(iobind__ref_try_retain(&ref)); /* too late: it must not rise again */
  iobind__ref_release(NULL);
  assert_int_equal(destroyed, 1);
}

static void text_grows(void **state) {
  (void)state;
  iobind__text text = {0};
  assert_string_equal(iobind__text_get(&text), "");
  char expected[4000] = "";
  for (int i = 0; i < 500; i++) {
    iobind__text_add(&text, "%d,", i);
    size_t length = strlen(expected);
    snprintf(expected + length, sizeof expected - length, "%d,", i);
  }
  assert_false(text.failed);
  assert_string_equal(iobind__text_get(&text), expected);
  assert_int_equal(text.length, strlen(expected));
  iobind__text_free(&text);
  assert_string_equal(iobind__text_get(&text), "");
  char *copy = iobind__string_copy("");
  assert_string_equal(copy, "");
  free(copy);
}

static void name_is_shortened_in_its_middle(void **state) {
  (void)state;
  char out[IOBIND__NAME_TEXT];
  char name[600];
  for (size_t length = 0; length < sizeof name; length++) {
    for (size_t i = 0; i < length; i++) {
      name[i] = (char)('a' + i % 26);
    }
    name[length] = '\0';
    iobind__text_shorten(name, out);
    if (length < sizeof out) {
      assert_string_equal(out, name);
    } else {
      assert_true(strlen(out) < sizeof out);
      assert_memory_equal(out, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst...", 49);
      assert_string_equal(out + strlen(out) - 46, name + length - 46);
    }
  }
  for (size_t shift = 0; shift < 3; shift++) { /* between characters */
    char euros[3 * 64 + 4] = "aa";
    for (size_t i = 0; i < 64; i++) {
      memcpy(euros + shift + 3 * i, "\xE2\x82\xAC", 4);
    }
    iobind__text_shorten(euros, out);
    assert_true(test_is_utf8(out));
    assert_non_null(strstr(out, "..."));
  }
}

static void name_is_left_out(void **state) {
  (void)state;
  char text[] = "run: vdev:0: upload: vdev:0: vdev:01: vdev:0";
  iobind__text_leave_out(text, "vdev:0");
  assert_string_equal(text, "run: upload: vdev:01: vdev:0");
  iobind__text_leave_out(text, "");
  assert_string_equal(text, "run: upload: vdev:01: vdev:0");
}

#if defined(__linux__)
/* This program's own file, cut off and with a byte changed, at every place where its reader looks. */
static void needed_libraries_of_a_damaged_file(void **state) {
  (void)state;
  char **names = NULL;
  assert_true(iobind__needed_list("/proc/self/exe", &names));
  assert_non_null(names);
  size_t found = 0;
  for (size_t i = 0; names[i] != NULL; i++) found += strncmp(names[i], "libc.so", 7) == 0;
  assert_int_equal(found, 1);
  iobind__needed_free(names);
  static unsigned char content[4096];
  FILE *own = fopen("/proc/self/exe", "rb");
  assert_non_null(own);
  size_t size = fread(content, 1, sizeof content, own);
  fclose(own);
  char path[] = "/tmp/iobind-needed-XXXXXX";
  int made = mkstemp(path);
  assert_true(made >= 0);
  for (size_t at = 0; at < 1024; at++) {
    size_t length = at % 2 == 0 ? at : size;
    unsigned char kept = content[at];
    content[at] = (unsigned char)(at % 3 == 0 ? 0xFF : kept + 1);
    assert_int_equal(ftruncate(made, 0), 0);
    assert_int_equal(pwrite(made, content, length, 0), (ssize_t)length);
    assert_true(iobind__needed_list(path, &names)); /* with any result */
    iobind__needed_free(names);
    content[at] = kept;
  }
  close(made);
  remove(path);
  assert_true(iobind__needed_list("/nowhere", &names));
  assert_null(names);
}

/* A file of more than 4 GiB. */
static void needed_libraries_at_far_offsets(void **state) {
  (void)state;
  char path[] = "/tmp/iobind-needed-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  bool is_written = far_library_write(file);
  char **names = NULL;
  bool is_read = iobind__needed_list(path, &names);
  close(file);
  remove(path);
  assert_true(is_written && is_read);
  assert_non_null(names);
  assert_string_equal(names[0], FAR_NEEDED);
  assert_null(names[1]);
  iobind__needed_free(names);
}
#endif

static void letters_by_ascii(void **state) {
  (void)state;
  assert_true(iobind__text_same_letters("deviceId", "DEVICEID"));
  assert_true(iobind__text_same_letters("", ""));
  assert_false(iobind__text_same_letters("deviceId", "deviceIds"));
  assert_false(iobind__text_same_letters("deviceIds", "deviceId"));
  assert_false(iobind__text_same_letters("a[", "a{"));
}

/* Files keep hashes: the same bytes must have the same one in every release, on every machine. */
static void hash_stays_as_it_is(void **state) {
  (void)state;
  static const uint64_t kept[2] = {0x4fdb1b7b54eb7940, 0xa20e6debb9d1ace4};
  unsigned char bytes[1000];
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] = (unsigned char)i;
  }
  iobind__hash hash = iobind__hash_of(bytes, sizeof bytes);
  assert_memory_equal(hash.words, kept, sizeof kept);
}

static void hash_of_parts_is_that_of_the_whole(void **state) {
  (void)state;
  unsigned char bytes[400];
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] = (unsigned char)(7 * i);
  }
  iobind__hash whole = iobind__hash_of(bytes, sizeof bytes);
  for (size_t part = 1; part < sizeof bytes; part++) {
    iobind__hasher hasher;
    iobind__hash_begin(&hasher);
    for (size_t at = 0; at < sizeof bytes; at += part) {
      iobind__hash_add(&hasher, bytes + at, sizeof bytes - at < part ? sizeof bytes - at : part);
    }
    iobind__hash hash = iobind__hash_end(&hasher);
    assert_memory_equal(hash.words, whole.words, sizeof whole.words);
  }
}

static void hash_sees_each_bit_and_the_length(void **state) {
  (void)state;
  unsigned char bytes[200] = {0};
  iobind__hash zeros = iobind__hash_of(bytes, sizeof bytes);
  for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    iobind__hash other = iobind__hash_of(bytes, sizeof bytes);
    assert_true(other.words[0] != zeros.words[0] && other.words[1] != zeros.words[1]);
    bytes[bit / 8] = 0;
  }
  for (size_t length = 0; length < sizeof bytes; length++) {
    iobind__hash other = iobind__hash_of(bytes, length);
    assert_true(other.words[0] != zeros.words[0] && other.words[1] != zeros.words[1]);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(error_is_filled),
    cmocka_unit_test(error_may_be_null),
    cmocka_unit_test(short_error_is_left_alone),
    cmocka_unit_test(error_is_handed_on),
    cmocka_unit_test(error_has_a_name),
    cmocka_unit_test(longer_error_is_filled),
    cmocka_unit_test(message_is_one_line),
    cmocka_unit_test(message_is_cut_at_a_character),
    cmocka_unit_test(message_that_just_fits_is_whole),
    cmocka_unit_test(status_names),
    cmocka_unit_test(version_is_the_headers),
    cmocka_unit_test(options_null_is_default),
    cmocka_unit_test(options_shorter_ends_in_zero),
    cmocka_unit_test(options_too_short),
    cmocka_unit_test(options_longer_needs_a_zero_tail),
    cmocka_unit_test(flags_unknown),
    cmocka_unit_test(info_is_filled_by_the_callers_size),
    cmocka_unit_test(info_that_is_none),
    cmocka_unit_test(ref_dies_once),
    cmocka_unit_test(text_grows),
    cmocka_unit_test(name_is_shortened_in_its_middle),
    cmocka_unit_test(name_is_left_out),
    cmocka_unit_test(letters_by_ascii),
    cmocka_unit_test(hash_stays_as_it_is),
    cmocka_unit_test(hash_of_parts_is_that_of_the_whole),
    cmocka_unit_test(hash_sees_each_bit_and_the_length),
#if defined(__linux__)
    cmocka_unit_test(needed_libraries_of_a_damaged_file),
    cmocka_unit_test(needed_libraries_at_far_offsets),
#endif
};

FIXTURE_MAIN(tests, NULL, NULL);
