// run SCALE: what callgrind counts. Steady runs by the C interface, then by iobind.hpp, in a function that it finds by its name.
#include <iobind/iobind.hpp>

enum { RUNS = 500 };

static void in_c(iobind::binding &binding) {
  iobind_error error = IOBIND_ERROR_INIT;
  for (int i = 0; i < RUNS; i++) {
    if (iobind_binding_run(binding.get(), nullptr, &error) != IOBIND_OK) std::abort();
  }
}

static void in_cpp(iobind::binding &binding) {
  for (int i = 0; i < RUNS; i++) binding.run();
}

extern "C" __attribute__((noinline)) void steady(void (*runs)(iobind::binding &), iobind::binding &binding) {
  runs(binding);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  iobind::runtime runtime;
  iobind::session session(runtime, argv[1], runtime.cpu());
  iobind::binding binding(session);
  binding.input("x", iobind::tensor::from(runtime.cpu(), {1}, std::array{1.f}));
  binding.output("y", iobind::tensor::of<float>(runtime.cpu(), {1}));
  for (int i = 0; i < 100; i++) binding.run();
  steady(in_c, binding);
  steady(in_cpp, binding);
}
