// ort_value MODEL [DEVICE]: ORT's own C++ interface beside iobind. An Ort::Value becomes an input, and an output an Ort::Value, each keeping the
// other alive. Needs ORT's headers, which may be older than the ORT that is loaded, and does not link to ORT. The model is tests/models' "scale".
#define ORT_API_MANUAL_INIT // the ORT that iobind has loaded, and no other
#include <cstdio>
#include <iobind/interop.hpp>
#include <onnxruntime_cxx_api.h>

// The tensor owns the value from now on.
static iobind::tensor from_ort(const iobind::runtime &runtime, Ort::Value value) {
  auto release = [](void *, void *given) { Ort::GetApi().ReleaseValue(static_cast<OrtValue *>(given)); };
  OrtValue *raw = value;
  iobind::tensor made = iobind::wrap_ort(runtime, raw, release);
  value.release();
  return made;
}

static Ort::Value run(const iobind::runtime &runtime, const char *model, const char *spec) {
  iobind::session session(runtime, model, runtime.find(spec));
  iobind::binding binding(session);
  Ort::AllocatorWithDefaultOptions allocator;
  const std::array<std::int64_t, 1> dims{4};
  Ort::Value x = Ort::Value::CreateTensor<float>(allocator, dims.data(), dims.size());
  for (int i = 0; i < 4; i++) x.GetTensorMutableData<float>()[i] = static_cast<float>(i + 1);
  binding.input("x", from_ort(runtime, std::move(x)), IOBIND_INPUT_SNAPSHOT);
  iobind::output_slot y = binding.output("y", runtime.cpu());
  binding.run();
  return Ort::Value(static_cast<OrtValue *>(iobind::to_ort(y.take()))); // it holds a reference to the tensor
}

int main(int argc, char **argv) try {
  iobind::runtime runtime;
  Ort::InitApi(static_cast<const OrtApi *>(iobind::get_ort(runtime).api));
  Ort::Value y = run(runtime, argv[1], argc > 2 ? argv[2] : "gpu,cpu");
  for (int i = 0; i < 4; i++) std::printf("%g ", static_cast<double>(y.GetTensorMutableData<float>()[i]));
  std::printf("\n");
} catch (const std::exception &thrown) {
  std::fprintf(stderr, "%s\n", thrown.what());
  return 1;
}
