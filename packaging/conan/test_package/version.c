/* The header and the library are of one version. */
#include <iobind/iobind.h>
#include <stdio.h>

int main(void) {
  printf("iobind %s\n", iobind_get_version_string());
  return iobind_get_version() == IOBIND_VERSION_NUMBER ? 0 : 1;
}
