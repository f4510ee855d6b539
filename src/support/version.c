/* The version and the names of statuses. */
#include "support/error.h"

uint32_t iobind_get_version(void) {
  return IOBIND_VERSION_NUMBER;
}

#define IOBIND_TEXT_OF(x) #x
#define IOBIND_TEXT(x) IOBIND_TEXT_OF(x)

const char *iobind_get_version_string(void) {
  return IOBIND_TEXT(IOBIND_VERSION_MAJOR) "." IOBIND_TEXT(IOBIND_VERSION_MINOR) "." IOBIND_TEXT(IOBIND_VERSION_PATCH);
}

const char *iobind_status_get_name(int32_t status) {
  switch (status) {
    case IOBIND_OK: return "OK";
#define IOBIND_STATUS_CASE(name, value, text) \
  case value: return #name;
      IOBIND_STATUS_MAP(IOBIND_STATUS_CASE)
#undef IOBIND_STATUS_CASE
    default: return "UNKNOWN";
  }
}
