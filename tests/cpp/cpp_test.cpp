// cpp_test SCALE DECODER PAIR DEVICE: iobind.hpp on a device, with exceptions and (-fno-exceptions) only with values. SCALE: y = 2 x;
// DECODER: a model with more inputs than one; PAIR: sum = x + y, product = x y.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>

#include <iobind/interop.hpp>

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

static void tensors(const device &cpu, const device &on) {
  error failed;
  tensor x = tensor::from(on, {2, 2}, ones, &failed);
  CHECK(!failed && x && x.bytes() == 16 && x.where() == on && x.dtype() == IOBIND_DTYPE_FLOAT32);
  CHECK(x.dims() == iobind::shape({2, 2}) && x.share().dims()[1] == 2);
  CHECK(x.read<float>(&failed) == std::vector<float>(ones.begin(), ones.end()));
  CHECK(x.read<std::int32_t>(&failed).empty() && has(failed, IOBIND_ERROR_DTYPE, "float32"));
  double other[4] = {};
  CHECK(!x.write(other, &failed) && has(failed, IOBIND_ERROR_DTYPE, "float64"));
  float fewer[2] = {5, 6}, more[5] = {};
  CHECK(!x.write(fewer, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "expected 4, got 2"));
  CHECK(x.write_part(2, fewer, &failed) && x.read_part(1, fewer, &failed) && fewer[0] == 2 && fewer[1] == 5);
  CHECK(!x.write_part(3, fewer, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "tensor_write"));
  CHECK(!x.read(more, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "expected 4, got 5"));
  CHECK(x.write(ones, &failed));
  std::array<std::byte, 16> bytes{};
  CHECK(x.read(bytes, &failed) && !failed && bytes[3] == std::byte{0x3f});
  tensor moved = std::move(x);
  CHECK(!x && moved); // NOLINT: a moved-from object is empty, and may be asked
  x = moved.share();
  CHECK(x.get() == moved.get());
  moved = tensor();
  CHECK(x.address() != nullptr && !moved);
  tensor none(on, IOBIND_DTYPE_FLOAT32, {-1}, IOBIND_MEMORY_DEFAULT, &failed);
  CHECK(!none && has(failed, IOBIND_ERROR_SHAPE, "-1"));
  const std::vector<std::int64_t> dims{3};
  CHECK(tensor::of<bool>(cpu, dims, &failed) && !failed);
  std::vector<float> mine(4, 7);
  tensor wrapped = tensor::wrap(cpu, {4}, mine, &failed);
  CHECK(wrapped && wrapped.data<float>(&failed).data() == mine.data() && wrapped.data<const float>().size() == 4);
  CHECK(wrapped.data<int>(&failed).empty() && has(failed, IOBIND_ERROR_DTYPE, "int32"));
  tensor target = tensor::of<float>(on, {4});
  CHECK(target.copy(wrapped, &failed) && target.read<float>() == mine);
  const tensor &fixed = wrapped;
  const float *read_only = fixed.data<float>().data();
  CHECK(read_only == mine.data() && fixed.address() == mine.data());
  CHECK(wrapped.slice(1, 2, &failed).dims()[0] == 2 && !failed);
  CHECK(wrapped.view(4, IOBIND_DTYPE_INT32, {3}, &failed).bytes() == 12 && !failed);
  tensor second = tensor::of<float>(cpu, {4});
  CHECK(iobind::copy({&wrapped, &wrapped}, {&target, &second}, &failed) && second.read<float>() == mine);
  const std::vector<bool> bits{true, false, true};
  CHECK(tensor::from(on, {3}, bits).read<bool>() == bits);
  const std::vector<std::string> words{"one", "", "drei"};
  CHECK(tensor::from(cpu, {3}, words).read<std::string>() == words);
  CHECK(tensor::from(on, {2}, {std::int64_t{1}, std::int64_t{2}}).read<std::int64_t>()[1] == 2);
  CHECK(tensor::from(on, {}, {3.5}).read<double>()[0] == 3.5); // a scalar
  CHECK(iobind::dtype_bytes(IOBIND_DTYPE_INT4, {3}) == 2 && iobind::dtype_bits(IOBIND_DTYPE_INT4) == 4);
#if __cplusplus >= 202002L
  std::span<float> standard = wrapped.data<float>(), again = iobind::span<float>(mine);
  iobind::span<const float> back = standard;
  CHECK(back.data() == mine.data() && again.size() == 4 && wrapped.write(again));
#endif
}

static void bindings(const iobind::session &model, const device &cpu, const device &on) {
  error failed;
  iobind::binding binding(model, &failed);
  CHECK(!binding.run(&failed) && has(failed, IOBIND_ERROR_INVALID_STATE, "x"));
  CHECK(binding.input(std::string_view("xy", 1)).index() == 0 && !binding.input(1, &failed));
  CHECK(!binding.input("nothing", &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "nothing"));
  CHECK(!binding.output("nothing", on, &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "nothing"));
  CHECK(!binding.input("x", tensor::of<int>(on, {4}), &failed) && has(failed, IOBIND_ERROR_DTYPE, "int32"));
  iobind::input_slot x = binding.input("x", tensor::from(on, {4}, ones), &failed);
  CHECK(x && x.index() == 0 && !failed);
  iobind::output_slot y = binding.output("y", on, &failed);
  CHECK(y && binding.check(&failed) && binding.run(&failed) && !failed);
  tensor kept = y.take(&failed);
  CHECK(kept.read<float>(&failed) == twos && kept.where() == on);
  CHECK(!y.take(&failed) && failed.status() == IOBIND_ERROR_INVALID_STATE);
  iobind::binding moved = std::move(binding); // its slots go on to work
  CHECK(x.update(std::array<float, 4>{0, 0, 0, 1}, &failed) && moved.run(&failed));
  CHECK(y.get(&failed).read<float>() == std::vector<float>({0, 0, 0, 2}) && kept.read<float>() == twos);
  tensor fixed = tensor::of<float>(on, {4});
  CHECK(y.bind(fixed, 0, &failed) && moved.run(&failed));
  std::size_t in_cpp = allocations; // ORT's own: as many as in C
  for (int i = 0; i < 10; i++) CHECK(moved.run(&failed));
  in_cpp = allocations - in_cpp;
  std::size_t in_c = allocations;
  for (int i = 0; i < 10; i++) CHECK(iobind_binding_run(moved.get(), nullptr, failed.raw()) == IOBIND_OK);
  CHECK(in_cpp == allocations - in_c);
  CHECK(moved.audit().info().entry_count == 2);
  CHECK(moved.output("y", cpu, IOBIND_OUTPUT_REUSE, &failed) && moved.run(&failed) && y.get().where() == cpu);
  CHECK(moved.carry("y", "x", IOBIND_CARRY_MOVE, &failed) && moved.run(&failed) && moved.run(&failed));
  CHECK(y.get().read<float>()[3] == 4);
  CHECK(!moved.carry("y", "z", IOBIND_CARRY_MOVE, &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "z"));
  iobind_run_options options = IOBIND_RUN_OPTIONS_INIT;
  options.tag = "tagged";
  CHECK(moved.set_run_options(options, &failed) && moved.cancel(&failed) && moved.clear(&failed));
}

static void own_memory(const iobind::session &model, const device &on) {
  error failed;
  tensor x = model.create_tensor(on, IOBIND_DTYPE_FLOAT32, {4}, &failed);
  CHECK(x && !failed && x.where() == on && x.write(ones) && x.read<float>() == std::vector<float>(ones.begin(), ones.end()));
  CHECK(!model.create_tensor(on, IOBIND_DTYPE_STRING, {4}, &failed) && has(failed, IOBIND_ERROR_NOT_SUPPORTED, "strings"));
}

static void states(const iobind::session &model, const iobind::session &other, const std::filesystem::path &file, const device &on) {
  error failed;
  iobind::binding binding(model), branch(model);
  binding.input("x", tensor::from(on, {4}, ones));
  CHECK(!binding.save(&failed) && has(failed, IOBIND_ERROR_INVALID_STATE, "carries"));
  CHECK(binding.carry("y", "x") && branch.carry("y", "x", IOBIND_CARRY_SWAP) && binding.run());
  iobind::state state = binding.save(&failed);
  CHECK(state && !failed && state.size() == 1 && state.bytes() == 16 && state.pair(0).input == 0 && state.pair(0).output == 0);
  CHECK(state.at("x").read<float>() == twos && state.at(std::string("x")).where() == on);
  CHECK(!state.at("z", &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "z") && !state.pair(1, &failed).tensor && failed);
  CHECK(binding.run() && binding.run() && binding.output("y").get().read<float>()[0] == 8);
  CHECK(branch.restore(state, &failed) && branch.run() && branch.output("y").get().read<float>()[0] == 4);
  CHECK(binding.restore(state, &failed) && !failed && binding.run() && binding.output("y").get().read<float>()[0] == 4);
  CHECK(state.save(file, &failed) && !failed && state.save(file.string(), &failed));
  iobind::state loaded = model.load_state(file, &failed);
  CHECK(loaded.at("x", &failed).read<float>() == twos && !failed && loaded.bytes() == 16);
  CHECK(std::string(loaded.device_spec()) == state.device_spec() && std::string(loaded.ort_version()) == state.ort_version());
  CHECK(!other.load_state(file, &failed) && has(failed, IOBIND_ERROR_IO, "another model"));
  CHECK(!model.load_state("/nowhere", &failed) && !state.save(file / "below", &failed) && has(failed, IOBIND_ERROR_IO, "cannot be written"));
  iobind::state second = state.share();
  const tensor &borrowed = second.at("x");
  iobind::state moved = std::move(second);
  state = iobind::state();
  CHECK(borrowed.read<float>() == twos && moved.size() == 1);
  CHECK(branch.restore(moved) && branch.run() && moved.at("x").read<float>() == twos);
  std::filesystem::remove(file);
  CHECK(branch.restore(moved) && branch.reorder(0, {3, 0, 0, 1}, &failed) && !failed && branch.run());
  CHECK((branch.output("y").get().read<float>() == std::vector<float>{16, 4, 4, 8}));
  CHECK(branch.reorder(0, std::vector<int>{0, 1, 0, 0}) && branch.reorder(0, std::array<std::int64_t, 4>{1, 1, 0, 0}) && branch.run());
  CHECK((branch.output("y").get().read<float>() == std::vector<float>{8, 8, 32, 32}));
  CHECK(!branch.rewind(0, &failed) && has(failed, IOBIND_ERROR_NOT_SUPPORTED, "save a state earlier"));
  CHECK(model.state_kind("y", "x", &failed).kind == IOBIND_STATE_UNKNOWN && !failed);
  CHECK(other.state_kind("key", std::string("past_key")).kind == IOBIND_STATE_GROWING && other.state_kind("value", "past_value").axis == 0);
  CHECK(other.state_kind("key", "past", &failed).kind == IOBIND_STATE_UNKNOWN && has(failed, IOBIND_ERROR_NOT_FOUND, "past"));
}

static void shorter(const iobind::session &decoder, const device &on) {
  iobind::binding binding(decoder);
  binding.input("tokens", tensor::from(on, {3}, std::vector<std::int64_t>{3, 7, 1}));
  for (const char *name : {"key", "value"}) {
    const std::string past = std::string("past_") + name;
    binding.input(past, tensor::of<float>(on, {0, 8}));
    CHECK(binding.carry(name, past));
  }
  CHECK(binding.run() && binding.run() && binding.output("key").get().dims()[0] == 6);
  CHECK(binding.rewind(4) && binding.run() && binding.output("key").get().dims()[0] == 7);
}

static iobind::batch_options counting() {
  iobind::batch_options options;
  options.most_rows = 4;
  options.states = {{"sum", "x"}};
  return options;
}

static float product(const iobind::row &row) {
  error failed;
  const std::vector<float> values = row.output("product", &failed).read<float>(&failed);
  return values.size() == 1 && !failed ? values[0] : -1;
}

/* Each row adds what it is given to its state, and gives the state times that. */
static void batches(const iobind::session &pair, const iobind::session &scale, const device &cpu, const device &on) {
  error failed;
  tensor two = tensor::from(cpu, {1}, {2.f}), three = tensor::from(cpu, {1}, {3.f});
  iobind::batch batch(pair, counting(), &failed);
  CHECK(batch && !failed && batch.info().row_count == 0);
  iobind::row first = batch.join(&failed), second = batch.join();
  CHECK(first && second && !failed && first.slot() != second.slot() && batch.info(&failed).row_count == 2);
  CHECK(!batch.run({first, second}, &failed) && has(failed, IOBIND_ERROR_INVALID_STATE, "'y' is not set"));
  CHECK(first.set("y", two, &failed) && second.set(1, three, &failed) && batch.run({first, second}, &failed) && !failed);
  CHECK(first.set("y", three) && batch.run({first}) && product(first) == 6 && product(second) == 0);
  iobind::state saved = second.save(&failed);
  CHECK(saved && saved.at("x").read<float>() == std::vector<float>{3});
  iobind::row third = batch.join(saved, &failed);
  const std::vector<std::uint64_t> all{third, second, first};
  CHECK(third.set("y", two) && second.set("y", two) && first.set("y", two) && batch.run(all, &failed));
  CHECK(product(third) == 6 && product(second) == 6 && product(first) == 10 && batch.info().steps == 3);
  CHECK(!batch.run({first, first}, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "given twice"));
  CHECK(!first.set("y", tensor::from(cpu, {2}, {1.f, 2.f}), &failed) && has(failed, IOBIND_ERROR_SHAPE, "'y'"));
  CHECK(!first.set("y", tensor::from(cpu, {1}, {1}), &failed) && has(failed, IOBIND_ERROR_DTYPE, "int32"));
  CHECK(!first.set("x", two, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "state"));
  CHECK(!first.set("z", two, &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "z") && !first.output("z", &failed) && failed);
  CHECK(!first.output("sum", &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "state"));
  CHECK(!batch.set("y", two, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "has a batch axis"));
  CHECK(!batch.join(iobind::state(), &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "state"));
  iobind::stream stream(on);
  CHECK(first.set("y", two) && batch.run({first}, stream, &failed) && first.set("y", three) && batch.run({first}, stream));
  iobind::stream none;
  CHECK(product(first) == 27 && !batch.run({first}, none, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  { // rows leave at their end, and go on where they are moved to
    iobind::row fourth = batch.join(), moved = std::move(fourth);
    CHECK(!fourth && moved && batch.info().row_count == 4); // NOLINT: a moved-from object is empty, and may be asked
    CHECK(!fourth.submit(&failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
    CHECK(!batch.join(&failed) && has(failed, IOBIND_ERROR_INVALID_STATE, "most rows"));
    third = std::move(moved); // the third one leaves
    CHECK(batch.info().row_count == 3 && batch.join()); // a temporary one leaves at once
    CHECK(batch.info().row_count == 3);
  }
  iobind::state last = first.leave_saved(&failed);
  CHECK(last && last.at("x").read<float>()[0] == 12 && !first && !first.leave(&failed) && failed);
  CHECK(second.leave(&failed) && !second && batch.info().row_count == 1);
  iobind::batch_wait when;
  when.timeout = std::chrono::nanoseconds(0);
  CHECK(batch.step(when, &failed) == 0 && failed.status() == IOBIND_ERROR_TIMEOUT);
  CHECK(third.set("y", two) && third.submit(&failed) && !third.submit(&failed) && has(failed, IOBIND_ERROR_INVALID_STATE, "submitted"));
  CHECK(!third.wait_for(std::chrono::nanoseconds(0), &failed) && failed.status() == IOBIND_ERROR_TIMEOUT);
  CHECK(batch.step(&failed) == 1 && third.wait(&failed) && !failed && product(third) == 0);
  std::vector<std::uint64_t> stepped;
  CHECK(third.set("y", two) && third.submit() && batch.step(stepped) == 1 && stepped == std::vector<std::uint64_t>{third});
  CHECK(batch.step(stepped, when, &failed) == 0 && failed.status() == IOBIND_ERROR_TIMEOUT && stepped.empty());
  batch.stop();
  CHECK(batch.step(&failed) == 0 && has(failed, IOBIND_ERROR_CANCELLED, "stopped") && !batch.join(&failed));
  iobind::batch().stop();
  iobind::batch_options options = counting();
  options.first = &last;
  options.axes = {{"x", 0}, {"y", 0}, {"sum", 0}, {"product", 0}};
  options.flags = IOBIND_BATCH_ON_DEVICE;
  iobind::batch again(pair, options, &failed);
  iobind::row fifth = again.join();
  CHECK(fifth.set("y", two) && again.run({fifth}) && product(fifth) == 24 && fifth.output("product").where() == on);
  batch = std::move(again); // rows keep their own batch
  CHECK(third.set("y", two) && third.save(&failed) && !failed && batch.info().row_count == 1);
  options.axes.pop_back();
  CHECK(!iobind::batch(pair, options, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "none for 'product'"));
  options.axes = {{"z", 0}};
  CHECK(!iobind::batch(pair, options, &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "z"));
  options = counting();
  options.states = {{"sum", "z"}};
  CHECK(!iobind::batch(pair, options, &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "z"));
  options = iobind::batch_options();
  CHECK(!iobind::batch(scale, options, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "most_rows"));
  CHECK(!iobind::batch(iobind::session(), options, &failed) && !iobind::batch().join(&failed) && failed);
}

static void on_streams(const iobind::session &model, const device &on) {
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
  CHECK(!again.copy(tensor::of<int>(on, {4}), stream, &failed) && has(failed, IOBIND_ERROR_DTYPE, "int32"));
  CHECK(behind.wait() && behind.signaled() && behind.wait_for(std::chrono::seconds(1)) && y.read(result, stream) && stream.synchronize() && result[3] == 8);
  CHECK(binding.run(stream));
  tensor lent = slot.lend(stream);
  CHECK(again.copy(lent, stream) && stream.synchronize() && again.read<float>() == y.read<float>());
  CHECK(on.info().flags & IOBIND_DEVICE_STREAMS ? stream.native() != nullptr : stream.native() == nullptr);
}

static void pipelines(const iobind::session &model, const device &cpu) {
  iobind::pipeline pipeline(model);
  tensor item = tensor::from(cpu, {4}, ones);
  error failed;
  CHECK(!pipeline.next(&failed) && failed.status() == IOBIND_ERROR_NOT_FOUND && !pipeline.output(0));
  CHECK(pipeline.submit({&item}) && pipeline.next() && pipeline.output(0).read<float>() == twos);
  iobind_pipeline_item pulled = IOBIND_PIPELINE_ITEM_INIT;
  CHECK(pipeline.submit({&item}, {}, &item) && pipeline.next(&pulled) && pulled.tag == &item);
  tensor kept = pipeline.take(0);
  CHECK(!pipeline.output(0) && pipeline.submit({&item}) && pipeline.next() && kept.read<float>() == twos);
  iobind::pipeline_options options;
  options.slots = 1;
  options.outputs = {IOBIND_PLACE_NONE};
  CHECK(!iobind::pipeline(model, options, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  options.outputs = {IOBIND_PLACE_DEVICE};
  iobind::pipeline single(model, options);
  CHECK(single.submit({&item}) && single.next_for(std::chrono::minutes(1)) && single.output(0).read<float>() == twos);
}

// The usual loop reuses the memory of its slots: it allocates no more after the first items, as in C.
static void lending(const iobind::session &model, const device &cpu, const device &on) {
  iobind::pipeline pipeline(model);
  tensor item = tensor::from(cpu, {4}, ones);
  std::uint64_t before = 0;
  CHECK(pipeline.submit({&item}) && pipeline.submit({&item}));
  for (int i = 0; i < 20; i++) {
    if (i == 5) before = cpu.counters().allocation_count + on.counters().allocation_count;
    CHECK(pipeline.submit({&item}) && pipeline.next() && pipeline.output(0).read<float>() == twos);
  }
  CHECK(cpu.counters().allocation_count + on.counters().allocation_count == before);
  const tensor *held = &pipeline.output(0);
  CHECK(*held && pipeline.submit({&item}) && !*held); // submitting gives the lent outputs back
}

static void several_inputs(const iobind::session &model, const device &cpu) {
  error failed;
  iobind_session_info info = model.info();
  CHECK(info.input_count > 1 && model.input(1).name != nullptr && model.output(0).name != nullptr);
  model.output(99, &failed);
  CHECK(failed.status() == IOBIND_ERROR_NOT_FOUND);
  iobind::binding binding(model);
  CHECK(binding.input(model.input(1).name).index() == 1);
  tensor tokens = tensor::from(cpu, {2}, {std::int64_t{1}, std::int64_t{2}});
  tensor key = tensor::of<float>(cpu, {0, 8}), value = tensor::of<float>(cpu, {0, 8});
  std::vector<tensor> outputs = model.run({&tokens, &key, &value}, &failed);
  CHECK(outputs.size() == info.output_count && outputs[0].dims()[0] == 2 && !failed);
  iobind::run_request request;
  request.inputs = {&tokens, &key, &value};
  request.outputs = {IOBIND_PLACE_HOST, IOBIND_PLACE_NONE, IOBIND_PLACE_NONE, IOBIND_PLACE_NONE};
  std::vector<tensor> one = model.run_with(request, &failed);
  CHECK(one.size() == 4 && one[0].read<float>() == outputs[0].read<float>() && !one[1]);
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

static void exceptions(const iobind::runtime &runtime, const device &on) {
  CHECK(throws(IOBIND_ERROR_NOT_FOUND, [&] { runtime.find("ep=Nobody"); }));
  CHECK(throws(IOBIND_ERROR_NOT_FOUND, [&] { iobind::session(runtime, "/nowhere.onnx", on); }));
  CHECK(throws(IOBIND_ERROR_DTYPE, [&] { tensor::from(on, {4}, ones).read<int>(); }));
  try {
    tensor(on, IOBIND_DTYPE_FLOAT32, {-1});
    CHECK(!on); // no exception came
  } catch (const std::exception &failed) {
    CHECK(std::string(failed.what()).find("-1") != std::string::npos);
  }
}
#else
static void exceptions(const iobind::runtime &runtime, const device &on) {
  error failed;
  CHECK(!runtime.find("ep=Nobody", &failed) && failed.status() == IOBIND_ERROR_NOT_FOUND);
  CHECK(!iobind::session(runtime, "/nowhere.onnx", on, &failed) && failed.status() == IOBIND_ERROR_NOT_FOUND);
}
#endif

static void sessions(const iobind::runtime &runtime, const std::filesystem::path &path, const device &on) {
  iobind::session_options options;
  options.devices = {on};
  options.config = {{"session.use_env_allocators", "1"}};
  options.dims = {{"n", 4}};
  error failed;
  iobind::session session(runtime, path, options, &failed);
  CHECK(session && session.input("x").dims[0] == 4 && session.output("y").device == on.get());
  std::vector<char> bytes(std::filesystem::file_size(path));
  std::FILE *file = std::fopen(path.c_str(), "rb");
  CHECK(file != nullptr && std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fclose(file) == 0);
  iobind::session second = iobind::session::from_memory(runtime, bytes, on, &failed);
  CHECK(second.info(&failed).input_count == 1 && !failed);
  options.verify.relative = -1;
  CHECK(!iobind::session(runtime, path.string(), options, &failed) && has(failed, IOBIND_ERROR_INVALID_ARGUMENT, "verify"));
  options.verify = {2, 0, 1e-3, 1e-2};
  CHECK(iobind::session(runtime, path.string(), options, &failed) && !failed);
  options.dims = {{"nobody", 4}};
  CHECK(!iobind::session(runtime, path.string(), options, &failed) && has(failed, IOBIND_ERROR_NOT_FOUND, "nobody"));
}

/* The next kernel is wrong, and only that one. */
static void verified(const iobind::runtime &runtime, const char *path, const device &on) {
  iobind::session_options options;
  options.devices = {on};
  options.ep = {{"wrong_compute", "1"}};
  options.verify.runs = 1;
  error failed;
  iobind::session session(runtime, path, options, &failed);
  tensor x = tensor::from(on, {4}, ones);
  CHECK(session.run({&x}, &failed).empty() && has(failed, IOBIND_ERROR_RESULT, "output 'y'[0]: expected 2, as on the CPU, got "));
  std::vector<tensor> right = session.run({&x}, &failed);
  CHECK(!failed && right.size() == 1 && right[0].read<float>()[0] == 2);
}

static void interop(const iobind::runtime &runtime, const iobind::session &model, const device &cpu) {
  error failed;
  tensor x = tensor::from(cpu, {2, 2}, ones);
  tensor taken = iobind::from_dlpack(runtime, iobind::to_dlpack(x), 0, &failed);
  CHECK(taken && taken.address() == x.address() && taken.dims() == x.dims());
  tensor narrow = tensor::of<float>(cpu, {2, 1});
  CHECK(iobind::copy_rows(iobind::rows(x, 4, 8), iobind::rows(narrow, 0, 4), 4, 2, &failed));
  CHECK((narrow.read<float>() == std::vector<float>{2, 4}));
  CHECK(x.compare(x, &failed).beyond == 0 && !failed);
  CHECK(x.compare(tensor::from(cpu, {2, 2}, {2.0f, 2.0f, 3.0f, 4.0f}), iobind_tolerance{0.5, 0}, &failed).absolute >= 1);
  CHECK(x.compare(narrow, &failed).beyond == 0 && failed.status() == IOBIND_ERROR_SHAPE);
  CHECK(iobind::get_ort(runtime).api != nullptr && iobind::get_ort(model) != nullptr);
  CHECK(!iobind::check_import(cpu, IOBIND_EXTERNAL_FD_MEMORY, &failed) && failed.status() == IOBIND_ERROR_NOT_SUPPORTED);
  CHECK(!iobind::semaphore(cpu, iobind::external_handle(IOBIND_EXTERNAL_FD_SEMAPHORE, nullptr), &failed) && failed);
  CHECK(!iobind::wrap_stream(cpu, iobind::native_handle(IOBIND_NATIVE_CUDA, nullptr), &failed) && failed);
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  iobind::runtime runtime;
  CHECK(runtime.info().device_count > 0 && iobind::version() != 0 && iobind::version_string()[0] != 0);
  device on = runtime.find(argv[4]), cpu = runtime.cpu();
  iobind::session scale(runtime, argv[1], on), decoder(runtime, argv[2], on), pair(runtime, argv[3], on);
  tensors(cpu, on);
  sessions(runtime, argv[1], on);
  if (std::strcmp(argv[4], "vdev") == 0) verified(runtime, argv[1], on);
  bindings(scale, cpu, on);
  own_memory(scale, on);
  states(scale, decoder, argv[1] + std::string(".state"), on);
  shorter(decoder, on);
  batches(pair, scale, cpu, on);
  on_streams(scale, on);
  pipelines(scale, cpu);
  lending(scale, cpu, on);
  several_inputs(decoder, cpu);
  interop(runtime, scale, cpu);
  exceptions(runtime, on);
  if (wrong == 0) std::printf("%s: right\n", argv[4]);
  return wrong != 0;
}
