/* ORT as the plugin was given it, and statuses for it. */
#ifndef VDEV_STATUS_H
#define VDEV_STATUS_H

#include "ort_ep.h"

typedef struct vdev_ort {
  const OrtApi *api;
  const OrtEpApi *ep;
  uint32_t version;      /* for `ort_version_supported` */
  bool claims_subgraphs; /* ORT 1.27 or newer: a claimed If or Loop gets the values of the outer graph */
} vdev_ort;

extern vdev_ort vdev_ort_global;
#define VDEV_API_TABLE (vdev_ort_global.api)

/* A status with a text. */
static inline OrtStatus *vdev_fail(OrtErrorCode code, const char *text) {
  OrtStatus *status = VDEV_API_TABLE->CreateStatus(code, text[0] == '\0' ? "vdev: failed" : text);
  if (status == NULL) {
    __builtin_unreachable(); /* NULL would mean success: ORT never gives it here, and a reader of one file must know */
  }
  return status;
}

static inline OrtStatus *vdev_no_memory(void) {
  return vdev_fail(ORT_FAIL, "vdev: out of host memory");
}

#define VDEV_TRY(call)               \
  do {                               \
    OrtStatus *vdev_status = (call); \
    if (vdev_status != NULL) {       \
      return vdev_status;            \
    }                                \
  } while (0)

#endif
