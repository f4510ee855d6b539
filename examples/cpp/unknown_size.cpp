// unknown_size MODEL [DEVICE]: an output whose size is unknown before the run stays on the device. The model is tests/models'
// "nonzero": the indices of what is not zero.
#include <cstdio>
#include <iobind/iobind.hpp>

int main(int argc, char **argv) try {
  iobind::runtime runtime;
  iobind::device device = runtime.find(argc > 2 ? argv[2] : "gpu,cpu");
  iobind::session session(runtime, argv[1], device);
  iobind::binding binding(session);
  const float values[] = {0, 3, 0, 5, 7};
  binding.input("x", iobind::tensor::from(runtime.cpu(), {5}, values), IOBIND_INPUT_SNAPSHOT); // goes to where it is read
  iobind::output_slot found = binding.output("y", device);
  binding.run();
  iobind::tensor indices = found.take();
  std::printf("%lld found, on %s\n", static_cast<long long>(indices.dims()[1]), indices.where().spec().c_str());
  for (std::int64_t index : indices.read<std::int64_t>()) std::printf("%lld ", static_cast<long long>(index));
  std::printf("\n");
} catch (const iobind::error &failed) {
  std::fprintf(stderr, "%s [%s]\n", failed.what(), failed.status_name());
  return 1;
}
