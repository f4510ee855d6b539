/* ORT's interface as the plugin was given it, and statuses. */
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

/* A status with a text; NULL: there is no memory for it. For vdev_fail_by. */
OrtStatus *vdev_status_make(const OrtApi *api, OrtErrorCode code, const char *text);

/* The part of ORT's message that names the failed node, if the message names the nodes around it, too, and does not fit; else all of it. */
const char *vdev_status_inner(const char *message, size_t room);

/* A failure cannot be reported, and NULL would mean success to ORT: ending the program is better than a wrong result. */
_Noreturn void vdev_status_give_up(const char *text);

/* A status with a text, from the given copy of ORT: never NULL. */
static inline OrtStatus *vdev_fail_by(const OrtApi *api, OrtErrorCode code, const char *text) {
  OrtStatus *status = vdev_status_make(api, code, text);
  if (status == NULL) {
    vdev_status_give_up(text);
  }
  return status;
}

static inline OrtStatus *vdev_fail(OrtErrorCode code, const char *text) {
  return vdev_fail_by(VDEV_API_TABLE, code, text);
}

/* Keep a status in reserve for when there is no memory: called after the table has changed, and before it does. */
void vdev_status_reserve(void);
void vdev_status_unreserve(void);

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
