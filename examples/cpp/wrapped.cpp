// wrapped MODEL [DEVICE]: memory on the device that another library has made, and a stream. The model is tests/models' "scale".
#include <cstdio>
#include <iobind/iobind.hpp>

int main(int argc, char **argv) try {
  iobind::runtime runtime;
  iobind::device device = runtime.find(argc > 2 ? argv[2] : "gpu,cpu");
  iobind::session session(runtime, argv[1], device);
  iobind::binding binding(session);
  iobind::stream stream(device);
  iobind::tensor theirs = iobind::tensor::of<float>(device, {4}); // stands for cudaMalloc, say
  auto *address = static_cast<float *>(theirs.address());
  iobind::tensor x = iobind::tensor::wrap(device, {4}, iobind::span<float>(address, 4));
  iobind::tensor y = iobind::tensor::of<float>(device, {4});
  binding.input("x", x);
  binding.output("y", y);
  const std::array values{1.f, 2.f, 3.f, 4.f};
  std::array<float, 4> result{};
  x.write(values, stream); // or a kernel of theirs on stream.native()
  binding.run(stream);
  y.read(result, stream);
  stream.synchronize();
  for (float value : result) std::printf("%g ", static_cast<double>(value));
  std::printf("\n");
} catch (const iobind::error &failed) {
  std::fprintf(stderr, "%s [%s]\n", failed.what(), failed.status_name());
  return 1;
}
