// quickstart MODEL [DEVICE]: what quickstart.c does, in C++. A call that fails throws iobind::error.
#include <cstdio>
#include <iobind/iobind.hpp>

int main(int argc, char **argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: quickstart MODEL [DEVICE]\n"), 2;
  iobind::runtime runtime;
  iobind::device device = runtime.find(argc > 2 ? argv[2] : "gpu,cpu");
  iobind::session session(runtime, argv[1], device);
  iobind::binding binding(session);
  iobind::tensor image = iobind::tensor::of<float>(device, {1, 3, 48, 192});
  binding.input("x", image);
  iobind::output_slot scores = binding.output("save_infer_model/scale_0.tmp_1");
  std::vector<float> pixels(3 * 48 * 192);
  for (std::size_t frame = 0; frame < 10; frame++) {
    for (std::size_t i = 0; i < pixels.size(); i++) pixels[i] = static_cast<float>((i * 31 + frame) % 255) / 127.5f - 1;
    image.write(pixels);
    binding.run();
  }
  std::vector<float> result = scores.take().read<float>();
  std::printf("upright %.3f, upside down %.3f\n", static_cast<double>(result[0]), static_cast<double>(result[1]));
} catch (const iobind::error &failed) {
  std::fprintf(stderr, "%s\n", failed.what());
  return 1;
}
