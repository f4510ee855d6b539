#include "support/options.h"

#include <string.h>

iobind_status iobind__options_read(void *out, size_t size, size_t oldest, const void *options, const char *what,
                                   iobind_error *error) {
  memset(out, 0, size);
  if (options == NULL) {
    return IOBIND_OK;
  }
  uint32_t given;
  memcpy(&given, options, sizeof given);
  if (given < oldest) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: options: expected struct_size of %zu or more, got %u: start from the _INIT macro", what, oldest,
                        given);
  }
  const unsigned char *bytes = options;
  for (size_t i = size; i < given; i++) {
    if (bytes[i] != 0) {
      return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                          "%s: options: a field at byte %zu is set that iobind %s does not know", what, i,
                          iobind_get_version_string());
    }
  }
  memcpy(out, options, given < size ? given : size);
  return IOBIND_OK;
}

iobind_status iobind__flags_check(uint32_t flags, uint32_t known, const char *what, iobind_error *error) {
  if ((flags & ~known) != 0) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "%s: options: flags 0x%x are not known to iobind %s", what,
                        flags & ~known, iobind_get_version_string());
  }
  return IOBIND_OK;
}

iobind_status iobind__info_write(void *info, const char *name, const void *full, size_t size, size_t oldest, const char *what,
                                 iobind_error *error) {
  IOBIND__TRY(iobind__null_check(info, name, what, error));
  uint32_t given;
  memcpy(&given, info, sizeof given);
  if (given < oldest) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "%s: %s: expected struct_size of %zu or more, got %u: start from the _INIT macro", what, name, oldest,
                        given);
  }
  size_t common = given < size ? given : size;
  memset((char *)info + sizeof given, 0, given - sizeof given);
  memcpy((char *)info + sizeof given, (const char *)full + sizeof given, common - sizeof given);
  return IOBIND_OK;
}

iobind_status iobind__array_check(const void *array, size_t count, size_t expected, const char *name, const char *what,
                                  iobind_error *error) {
  if (expected > 0) {
    IOBIND__TRY(iobind__null_check(array, name, what, error));
  }
  return count == expected ? IOBIND_OK
                           : iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "%s: %s: expected a length of %zu, got %zu",
                                          what, name, expected, count);
}

iobind_status iobind__array_check_optional(const void *array, size_t count, size_t expected, const char *name, const char *what,
                                           iobind_error *error) {
  return iobind__array_check(array, count, array == NULL ? 0 : expected, name, what, error);
}
