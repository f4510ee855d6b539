/* The library that was loaded is the one that the header describes. */
#include <stdio.h>
#include <string.h>

#include "iobind/iobind.h"

static int wrong;

static void same(const char *what, const char *expected, const char *got) {
  if (strcmp(expected, got) != 0) {
    wrong = 1;
    fprintf(stderr, "%s: expected %s, got %s\n", what, expected, got);
  }
}

int main(void) {
  char text[64];
  if (iobind_get_version() != IOBIND_VERSION_NUMBER) {
    wrong = 1;
    fprintf(stderr, "iobind_get_version: expected 0x%06x, got 0x%06x\n", (unsigned)IOBIND_VERSION_NUMBER,
            (unsigned)iobind_get_version());
  }
  snprintf(text, sizeof text, "%d.%d.%d", IOBIND_VERSION_MAJOR, IOBIND_VERSION_MINOR, IOBIND_VERSION_PATCH);
  same("iobind_get_version_string", text, iobind_get_version_string());
#define CHECK_NAME(name, value, meaning) same("iobind_status_get_name(" #value ")", #name, iobind_status_get_name(value));
  same("iobind_status_get_name(0)", "OK", iobind_status_get_name(IOBIND_OK));
  IOBIND_STATUS_MAP(CHECK_NAME)
#undef CHECK_NAME
  same("iobind_status_get_name(-1)", "UNKNOWN", iobind_status_get_name(-1));
  same("iobind_status_get_name(17)", "UNKNOWN", iobind_status_get_name(17));
  return wrong;
}
