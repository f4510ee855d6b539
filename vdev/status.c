#include "status.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

vdev_ort vdev_ort_global;

/* Created early, for when ORT has no memory left for a status. */
static _Atomic(OrtStatus *) spare;

void vdev_status_reserve(void) {
  atomic_store(&spare, VDEV_API_TABLE->CreateStatus(ORT_FAIL, "vdev: an operation failed, and there is no memory to say why"));
}

void vdev_status_unreserve(void) {
  OrtStatus *status = atomic_exchange(&spare, NULL);
  if (status != NULL) {
    VDEV_API_TABLE->ReleaseStatus(status);
  }
}

OrtStatus *vdev_status_make(const OrtApi *api, OrtErrorCode code, const char *text) {
  OrtStatus *status = api->CreateStatus(code, text[0] == '\0' ? "vdev: failed" : text);
  return status == NULL && api == VDEV_API_TABLE ? atomic_exchange(&spare, NULL) : status;
}

const char *vdev_status_inner(const char *message, size_t room) {
  const char *inner = message;
  for (const char *at = message;
       strlen(message) >= room && (at = strstr(at, "Non-zero status code returned while running ")) != NULL; at++) {
    inner = at;
  }
  return inner;
}

void vdev_status_give_up(const char *text) {
  fprintf(stderr, "%s\nvdev: out of memory: ONNX Runtime cannot be told that this failed\n", text);
  abort();
}
