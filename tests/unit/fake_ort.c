/* A library that looks like ONNX Runtime from the outside and has whatever version UNIT_FAKE_VERSION says. It gives out no
 * interface; UNIT_FAKE_ASKED is set to the version that was asked for. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <stdlib.h>

#include "ort/api.h"

__attribute__((visibility("default"))) const OrtApiBase *OrtGetApiBase(void);

static const OrtApi *ORT_CALL get_api(uint32_t version) {
  char text[16];
  snprintf(text, sizeof text, "%u", version);
  setenv("UNIT_FAKE_ASKED", text, 1);
  return NULL;
}

static const char *ORT_CALL get_version(void) {
  return getenv("UNIT_FAKE_VERSION");
}

const OrtApiBase *OrtGetApiBase(void) {
  static const OrtApiBase base = {get_api, get_version};
  return &base;
}
