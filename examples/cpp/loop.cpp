// loop MODEL [DEVICE]: 100 runs on any device, one copy up and one down. The model is tests/models' "scale": y = 2 x.
#include <cstdio>
#include <iobind/iobind.hpp>

int main(int argc, char **argv) try {
  iobind::runtime runtime;
  iobind::device device = runtime.find(argc > 2 ? argv[2] : "gpu,cpu");
  iobind::session session(runtime, argv[1], device);
  iobind::binding binding(session);
  iobind::tensor y = iobind::tensor::of<float>(device, {4});
  binding.input("x", iobind::tensor::from(device, {4}, std::array{1.f, 2.f, 3.f, 4.f})); // up, once
  binding.output("y", y);
  for (int i = 0; i < 100; i++) binding.run();
  for (float value : y.read<float>()) std::printf("%g ", static_cast<double>(value)); // down, once
  iobind_device_counters counted = device.counters();
  std::printf("in 100 runs: %llu up, %llu down\n", static_cast<unsigned long long>(counted.upload_count),
              static_cast<unsigned long long>(counted.download_count));
} catch (const iobind::error &failed) {
  std::fprintf(stderr, "%s [%s]\n", failed.what(), failed.status_name());
  return 1;
}
