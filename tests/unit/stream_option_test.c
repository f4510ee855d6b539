/* Options of streams. The EPs ignore what they do not know, so it is refused before it reaches them. */
#include "stage.h"

static void an_unknown_option(void **state) {
  (void)state;
  static const char *const key = "prioritee";
  static const char *const value = "banana";
  iobind_stream_options options = IOBIND_STREAM_OPTIONS_INIT;
  iobind_stream *stream = NULL;
  options.option_keys = &key;
  options.option_values = &value;
  options.option_count = 1;
  fixture_arm();
  iobind_status status = iobind_stream_create(device, &options, &stream, &fault);
  iobind_stream_destroy(stream);
  if (status != IOBIND_ERROR_NOT_SUPPORTED) {
    fixture_expect(IOBIND_ERROR_INVALID_ARGUMENT, status, "iobind_stream_create", __FILE__, __LINE__);
  }
  expect_words(key);
}

#define ON(device, test) \
  { #device ": " #test, test, stage_open, stage_close, #device }
#define ON_GPUS(test) ON(vdev, test), ON(cuda, test)

static const struct CMUnitTest tests[] = {
    ON_GPUS(an_unknown_option),
};

FIXTURE_MAIN(tests, NULL, NULL);
