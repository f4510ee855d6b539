// cpp_test SCALE DECODER DEVICE: iobind.hpp on a device, with exceptions and (-fno-exceptions) only with values. SCALE: y = 2 x;
// DECODER: a model with more inputs than one.
#include <cstdio>
#include <new>
#include <string>

#include <iobind/iobind.hpp>

static std::size_t allocations;
__attribute__((noinline)) void *operator new(std::size_t bytes) {
  allocations++;
  void *memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
__attribute__((noinline)) void operator delete(void *memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void *memory, std::size_t) noexcept {
  std::free(memory);
}

static int wrong;
#define CHECK(condition) \
  if (!(condition)) std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), wrong++

using iobind::device;
using iobind::error;
using iobind::tensor;

static const std::array<float, 4> ones{1, 2, 3, 4};
static const std::vector<float> twos{2, 4, 6, 8};

static bool has(const error &failed, iobind_status status, const char *words) {
  bool right = failed && failed.status() == status && std::strstr(failed.what(), words) != nullptr;
  if (!right) std::fprintf(stderr, "%s: %s\n", failed.status_name(), failed.what());
  return right;
}

static void tensors(device cpu, device on) {
  error failed;
  tensor x = tensor::from(on, {2, 2}, ones, &failed);
  CHECK(!failed && x && x.bytes() == 16 && x.where() == on && x.dtype() == IOBIND_FLOAT32);
  CHECK(x.dims().size() == 2 && x.dims()[1] == 2);
  CHECK(x.read<float>(&failed) == std::vector<float>(ones.begin(), ones.end()));
  CHECK(x.read<std::int32_t>(&failed).empty() && has(failed, IOBIND_DTYPE, "float32"));
  double other[4] = {};
  CHECK(!x.write(other, &failed) && has(failed, IOBIND_DTYPE, "float64"));
  float fewer[2] = {5, 6}, more[5] = {};
  CHECK(x.write(fewer, &failed) && !failed);
  CHECK(!x.read(more, &failed) && has(failed, IOBIND_INVALID_ARGUMENT, "tensor_read"));
  std::array<std::byte, 16> bytes{};
  CHECK(x.read(bytes, &failed) && !failed && bytes[3] == std::byte{0x40});
  tensor moved = std::move(x);
  CHECK(!x && moved); // NOLINT: a moved-from object is empty, and may be asked
  x = moved.share();
  CHECK(x.get() == moved.get());
  moved = tensor();
  CHECK(x.address() != nullptr && !moved);
  tensor none(on, IOBIND_FLOAT32, {-1}, IOBIND_MEMORY_DEFAULT, &failed);
  CHECK(!none && has(failed, IOBIND_SHAPE, "-1"));
  const std::vector<std::int64_t> dims{3};
  CHECK(tensor::of<bool>(cpu, dims, &failed) && !failed);
  std::vector<float> mine(4, 7);
  tensor wrapped = tensor::wrap(cpu, {4}, mine, &failed);
  CHECK(wrapped && wrapped.data<float>(&failed).data() == mine.data() && wrapped.data<const float>().size() == 4);
  CHECK(wrapped.data<int>(&failed).empty() && has(failed, IOBIND_DTYPE, "int32"));
  tensor target = tensor::of<float>(on, {4});
  CHECK(target.copy(wrapped, &failed) && target.read<float>() == mine);
  CHECK(wrapped.slice(1, 2, &failed).dims()[0] == 2 && !failed);
  CHECK(wrapped.view(4, IOBIND_INT32, {3}, &failed).bytes() == 12 && !failed);
}

static void bindings(const iobind::session &model, device cpu, device on) {
  error failed;
  iobind::binding binding(model, &failed);
  CHECK(!binding.run(&failed) && has(failed, IOBIND_INVALID_STATE, "x"));
  CHECK(!binding.input("nothing", &failed) && has(failed, IOBIND_NOT_FOUND, "nothing"));
  CHECK(!binding.output("nothing", on, &failed) && has(failed, IOBIND_NOT_FOUND, "nothing"));
  CHECK(!binding.input("x", tensor::of<int>(on, {4}), &failed) && has(failed, IOBIND_DTYPE, "int32"));
  iobind::input_slot x = binding.input("x", tensor::from(on, {4}, ones), &failed);
  CHECK(x && x.index() == 0 && !failed);
  iobind::output_slot y = binding.output("y", on, &failed);
  CHECK(y && binding.check(&failed) && binding.run(&failed) && !failed);
  tensor kept = y.take(&failed);
  CHECK(kept.read<float>(&failed) == twos && kept.where() == on);
  CHECK(!y.take(&failed) && failed.status() == IOBIND_INVALID_STATE);
  iobind::binding moved = std::move(binding); // its slots go on to work
  CHECK(x.update(std::array<float, 4>{0, 0, 0, 1}, &failed) && moved.run(&failed));
  CHECK(y.get(&failed).read<float>() == std::vector<float>({0, 0, 0, 2}) && kept.read<float>() == twos);
  tensor fixed = tensor::of<float>(on, {4});
  CHECK(y.bind(fixed, IOBIND_OUTPUT_FIXED, &failed) && moved.run(&failed));
  std::size_t in_cpp = allocations; // ORT's own: as many as in C
  for (int i = 0; i < 10; i++) CHECK(moved.run(&failed));
  in_cpp = allocations - in_cpp;
  std::size_t in_c = allocations;
  for (int i = 0; i < 10; i++) CHECK(iobind_binding_run(moved.get(), nullptr, nullptr, failed.raw()) == IOBIND_OK);
  CHECK(in_cpp == allocations - in_c);
  CHECK(moved.output("y", cpu, IOBIND_OUTPUT_REUSE, &failed) && moved.run(&failed) && y.get().where() == cpu);
  CHECK(moved.carry("y", "x", IOBIND_CARRY_MOVE, &failed) && moved.run(&failed) && moved.run(&failed));
  CHECK(y.get().read<float>()[3] == 4);
  CHECK(!moved.carry("y", "z", IOBIND_CARRY_MOVE, &failed) && has(failed, IOBIND_NOT_FOUND, "z"));
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "tagged";
  CHECK(moved.set_run_options(options, &failed) && moved.cancel(&failed) && moved.clear(&failed));
}

static void on_streams(const iobind::session &model, device on) {
  iobind::stream stream(on);
  iobind::event behind(on);
  iobind::binding binding(model);
  tensor x = tensor::of<float>(on, {4}), y = tensor::of<float>(on, {4});
  binding.input("x", x);
  iobind::output_slot slot = binding.output("y", y);
  std::array<float, 4> result{};
  CHECK(x.write(ones, stream) && stream.record(behind) && stream.wait(behind) && binding.run(stream, behind));
  tensor again = tensor::of<float>(on, {4});
  CHECK(again.copy(x, stream) && stream.synchronize() && again.read<float>() == std::vector<float>(ones.begin(), ones.end()));
  error failed;
  CHECK(!again.copy(tensor::of<int>(on, {4}), stream, &failed) && has(failed, IOBIND_DTYPE, "int32"));
  CHECK(behind.wait() && behind.passed() && y.read(result, stream) && stream.synchronize() && result[3] == 8);
  CHECK(binding.run(stream));
  tensor lent = slot.lend(stream);
  CHECK(again.copy(lent, stream) && stream.synchronize() && again.read<float>() == y.read<float>());
  CHECK(on.info().flags & IOBIND_DEVICE_STREAMS ? stream.native() != nullptr : stream.native() == nullptr);
}

static void pipelines(const iobind::session &model, device cpu) {
  iobind::pipeline pipeline(model);
  tensor item = tensor::from(cpu, {4}, ones);
  std::array<tensor, 1> outputs;
  error failed;
  CHECK(!pipeline.next(outputs, nullptr, &failed) && failed.status() == IOBIND_NOT_FOUND && !outputs[0]);
  CHECK(pipeline.submit(std::array<const tensor *, 1>{&item}) && pipeline.next(outputs));
  CHECK(outputs[0].read<float>() == twos);
  iobind_tensor *const inputs[] = {item.get()};
  iobind_pipeline_request request = IOBIND_PIPELINE_REQUEST_INIT;
  iobind_pipeline_item pulled = IOBIND_PIPELINE_ITEM_INIT;
  request.inputs = inputs;
  request.tag = &item;
  CHECK(pipeline.submit(request) && pipeline.next(outputs, &pulled) && pulled.tag == &item);
  CHECK(outputs[0].read<float>() == twos);
}

static void several_inputs(const iobind::session &model) {
  error failed;
  iobind_session_info info = model.info();
  CHECK(info.input_count > 1 && model.input(1).name != nullptr && model.output(0).name != nullptr);
  model.output(99, &failed);
  CHECK(failed.status() == IOBIND_NOT_FOUND);
  iobind::binding binding(model);
  CHECK(binding.input(model.input(1).name).index() == 1);
}

#if defined(__cpp_exceptions)
template <class Call> static bool throws(iobind_status status, Call call) {
  try {
    call();
  } catch (const error &failed) {
    return failed.status() == status && failed.what()[0] != 0;
  }
  return false;
}

static void exceptions(const iobind::runtime &runtime, device on) {
  CHECK(throws(IOBIND_NOT_FOUND, [&] { runtime.find("ep=Nobody"); }));
  CHECK(throws(IOBIND_NOT_FOUND, [&] { iobind::session(runtime, "/nowhere.onnx", on); }));
  CHECK(throws(IOBIND_DTYPE, [&] { tensor::from(on, {4}, ones).read<int>(); }));
  try {
    tensor(on, IOBIND_FLOAT32, {-1});
    CHECK(!on); // no exception came
  } catch (const std::exception &failed) {
    CHECK(std::string(failed.what()).find("-1") != std::string::npos);
  }
}
#else
static void exceptions(const iobind::runtime &runtime, device on) {
  error failed;
  CHECK(!runtime.find("ep=Nobody", &failed) && failed.status() == IOBIND_NOT_FOUND);
  CHECK(!iobind::session(runtime, "/nowhere.onnx", on, &failed) && failed.status() == IOBIND_NOT_FOUND);
}
#endif

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  iobind::runtime runtime;
  CHECK(runtime.info().device_count > 0);
  device on = runtime.find(argv[3]), cpu = runtime.cpu();
  iobind::session scale(runtime, argv[1], on), decoder(runtime, argv[2], on);
  tensors(cpu, on);
  bindings(scale, cpu, on);
  on_streams(scale, on);
  pipelines(scale, cpu);
  several_inputs(decoder);
  exceptions(runtime, on);
  if (wrong == 0) std::printf("%s: right\n", argv[3]);
  return wrong != 0;
}
