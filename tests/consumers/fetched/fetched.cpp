// The header and the library that were fetched are of one version, and find ORT.
#include <cstdio>
#include <iobind/iobind.hpp>

int main() try {
  iobind::runtime runtime;
  iobind::device device = runtime.find("cpu");
  iobind::tensor numbers = iobind::tensor::of<float>(device, {3});
  numbers.write(std::vector<float>{1, 2, 3});
  std::printf("%s %g\n", iobind_get_version_string(), static_cast<double>(numbers.read<float>()[2]));
  return iobind_get_version() == IOBIND_VERSION_NUMBER ? 0 : 1;
} catch (const iobind::error &failed) {
  std::fprintf(stderr, "%s\n", failed.what());
  return 1;
}
