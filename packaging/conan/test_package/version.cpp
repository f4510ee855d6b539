// The headers for C and C++ and the library are of one version. Without an ONNX Runtime the library says so.
#include <cstdio>
#include <iobind/iobind.hpp>

int main() {
  std::printf("iobind %s\n", iobind_get_version_string());
  if (iobind_get_version() != IOBIND_VERSION_NUMBER) return 1;
  try {
    iobind::runtime runtime;
  } catch (const iobind::error &failed) {
    return failed.status() == IOBIND_ERROR_NOT_FOUND ? 0 : 1;
  }
  return 0;
}
