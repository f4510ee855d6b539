// mistakes SCALE DECODER DEVICE: mistakes that users make, under the address and undefined-behaviour sanitizers: each is an error, or
// is none. SCALE: y = 2 x; DECODER: three inputs, four outputs. What must not even compile is in refused.cpp.
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include <iobind/interop.hpp>

static int wrong;
#define CHECK(condition) \
  if (!(condition)) std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), wrong++

using iobind::device;
using iobind::error;
using iobind::tensor;

static const std::array<float, 4> ones{1, 2, 3, 4};
static error failed;

// The last call failed so, and the message has these words.
static bool says(iobind_status status, const char *words) {
  bool right = failed.status() == status && std::strstr(failed.what(), words) != nullptr;
  if (!right) std::fprintf(stderr, "%s: %s\n", failed.status_name(), failed.what());
  return right;
}

template <class Object> static Object leave(Object &object) { // what a caller's moved-from object is
  Object taken = std::move(object);
  return taken;
}

static void lengths(const iobind::session &decoder, const device &cpu) {
  iobind::pipeline pipeline(decoder);
  tensor tokens = tensor::from(cpu, {1}, {std::int64_t{1}});
  tensor key = tensor::of<float>(cpu, {0, 8}), value = tensor::of<float>(cpu, {0, 8});
  CHECK(!pipeline.submit({&tokens}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "inputs: expected a length of 3, got 1"));
  CHECK(!pipeline.submit({&tokens, &key, &value, &value}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "inputs: expected a length of 3, got 4"));
  CHECK(!pipeline.submit({}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "inputs is NULL"));
  iobind::event ready(cpu);
  CHECK(!pipeline.submit({&tokens, &key, &value}, {&ready}, nullptr, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "events"));
  CHECK(pipeline.submit({&tokens, &key, &value}, &failed) && pipeline.next(&failed));
  CHECK(pipeline.output_count() == 4 && pipeline.output(3, &failed) && !failed);
  CHECK(!pipeline.output(4, &failed) && says(IOBIND_ERROR_NOT_FOUND, "4"));
  CHECK(!pipeline.take(std::numeric_limits<std::size_t>::max(), &failed) && says(IOBIND_ERROR_NOT_FOUND, "output"));
  iobind::pipeline_options options;
  options.constants = {&tokens};
  CHECK(!iobind::pipeline(decoder, options, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "constants: expected a length of 3, got 1"));
  options.constants = {};
  options.outputs = {IOBIND_PLACE_HOST};
  CHECK(!iobind::pipeline(decoder, options, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "placements: expected a length of 4, got 1"));
  CHECK(decoder.run({&tokens}, &failed).empty() && says(IOBIND_ERROR_INVALID_ARGUMENT, "inputs: expected a length of 3, got 1"));
  CHECK(decoder.run({&tokens, nullptr, &value}, &failed).empty() && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  iobind::run_request request;
  request.inputs = {&tokens, &key, &value};
  request.targets = {&key};
  CHECK(decoder.run_with(request, &failed).empty() && says(IOBIND_ERROR_INVALID_ARGUMENT, "targets: expected a length of 4, got 1"));
  request.targets = {};
  request.outputs = {IOBIND_PLACE_HOST};
  CHECK(decoder.run_with(request, &failed).empty() && says(IOBIND_ERROR_INVALID_ARGUMENT, "placements: expected a length of 4, got 1"));
  CHECK(!iobind::copy({&key, &value}, {&key}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "targets: expected 2, got 1"));
}

static void elements(const device &on) {
  tensor x = tensor::from(on, {4}, ones);
  const std::array<float, 2> two{8, 9};
  std::array<float, 8> eight{};
  CHECK(!tensor::from(on, {4}, two, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "expected 4, got 2"));
  CHECK(!tensor::from(on, {4}, eight, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "expected 4, got 8"));
  CHECK(!x.write(two, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "expected 4, got 2"));
  CHECK(!x.read(eight, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "expected 4, got 8"));
  CHECK(!x.write_part(SIZE_MAX / 2, two, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "a part inside it"));
  CHECK(!x.read_part(4, eight, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  const std::vector<int> whole{1, 2, 3, 4};
  CHECK(!x.write(whole, &failed) && says(IOBIND_ERROR_DTYPE, "expected float32, got int32"));
  CHECK(x.read<std::uint32_t>(&failed).empty() && says(IOBIND_ERROR_DTYPE, "float32"));
  CHECK(x.read<bool>(&failed).empty() && says(IOBIND_ERROR_DTYPE, "float32"));
  CHECK(x.read<std::string>(&failed).empty() && says(IOBIND_ERROR_DTYPE, "float32"));
  CHECK(x.data<int>(&failed).empty() && (failed.status() == IOBIND_ERROR_DTYPE || failed.status() == IOBIND_ERROR_WRONG_DEVICE));
  std::vector<float> three(3);
  CHECK(!tensor::wrap(on, {4}, three, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!tensor(on, IOBIND_DTYPE_FLOAT32, std::vector<int>(17, 1), &failed) && says(IOBIND_ERROR_SHAPE, "17"));
  CHECK(!tensor(on, IOBIND_DTYPE_FLOAT32, {std::numeric_limits<std::int64_t>::max(), 8}, &failed) && failed.status() == IOBIND_ERROR_SHAPE);
  CHECK(x.read<float>() == std::vector<float>(ones.begin(), ones.end()));
  CHECK(tensor::of<float>(on, {0}).read<float>(&failed).empty() && !failed);
}

static void strings(const device &cpu) {
  tensor words = tensor::of<std::string>(cpu, {2});
  CHECK(!words.write(std::vector<std::string>{"one"}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "expected 2, got 1"));
  CHECK(!words.write(std::vector<std::string>{"one", std::string("a\0b", 3)}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "NUL"));
  CHECK(!words.set_string(2, "x", &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(words.read<std::byte>(&failed).empty() && says(IOBIND_ERROR_DTYPE, "string"));
  CHECK(words.data<std::string>(&failed).empty() && says(IOBIND_ERROR_DTYPE, "strings have no bytes"));
  std::array<std::byte, 2> bytes{};
  CHECK(!words.write(bytes, &failed) && says(IOBIND_ERROR_DTYPE, "string"));
}

static void updates(const iobind::session &scale, const device &on) {
  iobind::binding binding(scale);
  iobind::input_slot x = binding.input("x", tensor::from(on, {4}, ones));
  CHECK(!x.update(std::vector<int>{1, 2, 3, 4}, &failed) && says(IOBIND_ERROR_DTYPE, "expected float32, got int32"));
  CHECK(!x.update(std::array<double, 2>{1, 2}, &failed) && says(IOBIND_ERROR_DTYPE, "got float64"));
  CHECK(!x.update(std::vector<bool>{true}, &failed) && says(IOBIND_ERROR_DTYPE, "got bool"));
  CHECK(!x.update(std::array<float, 2>{1, 2}, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(binding.run(&failed));
  iobind::output_slot y = binding.output("y");
  CHECK(binding.run(&failed) && y.get().read<float>()[3] == 8);
}

// What a temporary gave stays valid.
static void temporaries(const iobind::session &scale, const device &on) {
  iobind::shape dims = tensor::of<float>(on, {2, 3}).dims();
  CHECK(dims.rank() == 2 && dims[1] == 3);
  iobind::shape braces = {4, 5};
  CHECK(tensor::of<float>(on, braces).bytes() == 80);
  iobind::input_slot x = iobind::binding(scale).input("x", tensor::from(on, {4}, ones));
  CHECK(x.update(ones, &failed));
  iobind::output_slot y;
  {
    iobind::binding binding(scale);
    binding.input("x", tensor::from(on, {4}, ones));
    y = binding.output("y");
    binding.run();
  }
  CHECK(y.take().read<float>(&failed)[3] == 8);
  for (std::int64_t dim : tensor::of<float>(on, {7}).dims()) CHECK(dim == 7);
}

static void moved_from(const iobind::session &scale, const device &cpu, const device &on) {
  iobind::binding binding(scale);
  iobind::input_slot x = binding.input("x", tensor::from(on, {4}, ones));
  iobind::output_slot y = binding.output("y");
  iobind::binding kept = leave(binding);
  CHECK(!binding && !binding.input("x", &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "NULL"));
  CHECK(!binding.output("y", on, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!binding.run(&failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!binding.check(&failed) && !binding.cancel(&failed) && !binding.clear(&failed) && !binding.forget_graphs(&failed));
  CHECK(!binding.carry("y", "x", IOBIND_CARRY_MOVE, &failed) && !binding.audit(&failed) && failed);
  CHECK(x.update(ones, &failed) && kept.run(&failed) && y.take(&failed).read<float>()[3] == 8);

  iobind::pipeline pipeline(scale);
  tensor item = tensor::from(cpu, {4}, ones);
  CHECK(pipeline.submit({&item}) && pipeline.next());
  iobind::pipeline other = leave(pipeline);
  CHECK(other.output(0).read<float>()[0] == 2 && !pipeline.output(0, &failed) && failed.status() == IOBIND_ERROR_NOT_FOUND);
  CHECK(!pipeline.submit({&item}, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!pipeline.next(&failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT && !pipeline.take(0, &failed));

  tensor gone = leave(item);
  CHECK(!item && !item.write(ones, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(item.read<float>(&failed).empty() && failed && item.dims(&failed).rank() == 0 && failed && item.bytes(&failed) == 0);
  CHECK(!item.where(&failed) && item.data<float>(&failed).empty() && item.address() == nullptr && !item.share());
  CHECK(!item.slice(0, 1, &failed) && !item.copy(gone, &failed) && !gone.copy(item, &failed) && failed);
  CHECK(!kept.input("x", item, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!kept.output("y", item, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);

  device here = on;
  device there = std::move(here);
  CHECK(there && !here && !tensor::of<float>(here, {1}, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT); // NOLINT
  CHECK(!iobind::stream(here, &failed) && !iobind::event(here, &failed) && here.spec(&failed).empty() && failed);
  CHECK(!kept.output("y", here, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "device"));
}

static void states(const iobind::runtime &runtime, const iobind::session &scale, const char *path, const device &on) {
  iobind::binding binding(scale);
  CHECK(!binding.save(&failed) && says(IOBIND_ERROR_INVALID_STATE, "carries"));
  CHECK(binding.carry("y", "x", IOBIND_CARRY_SWAP, &failed) && !binding.save(&failed) && says(IOBIND_ERROR_INVALID_STATE, "not bound"));
  binding.input("x", tensor::from(on, {4}, ones), IOBIND_INPUT_SNAPSHOT);
  binding.run();
  iobind::state state = binding.save(&failed);
  CHECK(!state.at("y", &failed) && says(IOBIND_ERROR_NOT_FOUND, "y") && !state.pair(1, &failed).tensor && failed);
  CHECK(!state.at(std::string_view("x\0y", 3), &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "NUL"));
  CHECK(!state.save(nullptr, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "path"));
  CHECK(!tensor(iobind_tensor_retain(state.pair(0).tensor)).write(ones, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "read-only"));
  CHECK(!binding.output("y", tensor(iobind_tensor_retain(state.pair(0).tensor)), &failed) && failed);
  CHECK(!binding.reorder(0, {0, 4}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "the states have 4 rows"));
  CHECK(!binding.reorder(0, {}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "1 row"));
  CHECK(!binding.reorder(0, std::vector<int>(), &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "1 row"));
  CHECK(!binding.reorder(7, std::array<int, 1>{0}, &failed) && says(IOBIND_ERROR_SHAPE, "axis 7"));
  CHECK(!binding.reorder(0, std::array<std::int64_t, 1>{-1}, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!binding.rewind(1, &failed) && says(IOBIND_ERROR_NOT_SUPPORTED, "save a state earlier"));
  CHECK(!binding.write_lengths(1, 0, &failed) && says(IOBIND_ERROR_NOT_SUPPORTED, "a carried cache of fixed capacity"));
  CHECK(!binding.name_length("z", IOBIND_LENGTH_CACHE, 0, &failed) && says(IOBIND_ERROR_NOT_FOUND, "z"));
  CHECK(!binding.name_length("x", IOBIND_LENGTH_AFTER, 0, &failed) && says(IOBIND_ERROR_DTYPE, "int32 or int64"));
  CHECK(!iobind::binding().name_length("x", IOBIND_LENGTH_CACHE, 0, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(binding.name_length("x", IOBIND_LENGTH_OTHER) && binding.name_length("x", IOBIND_LENGTH_UNNAMED));
  iobind::stream none_on;
  CHECK(!binding.write_lengths(1, 0, none_on, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!binding.write_lengths(1, {3, 5}, &failed) && says(IOBIND_ERROR_NOT_SUPPORTED, "a carried cache of fixed capacity"));
  CHECK(!binding.write_lengths(1, std::vector<int>{3, 5}, none_on, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!binding.write_lengths(1, {3, 5}, none_on, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!iobind::binding().write_lengths(1, 0, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!iobind::binding().rewind(0, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(scale.state_kind("x", "x", &failed).kind == IOBIND_STATE_UNKNOWN && says(IOBIND_ERROR_NOT_FOUND, "x"));
  CHECK(iobind::session().state_kind("y", "x", &failed).kind == IOBIND_STATE_UNKNOWN && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!iobind::binding().reorder(0, {0}, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  iobind::session second(runtime, path, on);
  iobind::binding other(second);
  CHECK(other.carry("y", "x") && !other.restore(state, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "another session"));
  CHECK(iobind::binding(scale).restore(state, &failed) == false && says(IOBIND_ERROR_INVALID_ARGUMENT, "carried inputs"));

  iobind::state kept = leave(state);
  CHECK(!state && state.size() == 0 && state.bytes(&failed) == 0 && failed && !state.at("x", &failed) && failed); // NOLINT
  CHECK(!state.save("/nowhere", &failed) && failed && !state.share() && !state.pair(0, &failed).tensor && failed); // NOLINT
  CHECK(!binding.restore(state, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "state")); // NOLINT
  iobind::state none;
  CHECK(!none.at("x", &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT && none.bytes(&failed) == 0 && failed);
  CHECK(!iobind::binding().save(&failed) && failed && !iobind::binding().restore(kept, &failed) && failed);
  CHECK(!iobind::session().load_state("/nowhere", &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(kept.at("x").read<float>(&failed)[3] == 8);
}

// A state keeps its session and its names, whatever else is gone.
static iobind::state outlive_all(const char *path, const char *spec) {
  iobind::runtime runtime;
  iobind::session session(runtime, path, runtime.find(spec));
  iobind::binding binding(session);
  binding.input("x", tensor::from(runtime.cpu(), {4}, ones), IOBIND_INPUT_SNAPSHOT);
  binding.carry("y", "x");
  binding.run();
  return binding.save();
}

static void empty(const iobind::runtime &runtime, const iobind::session &scale, const char *path, const device &on) {
  iobind::runtime no_runtime(nullptr);
  CHECK(!no_runtime && !no_runtime.find("cpu", &failed) && failed && !no_runtime.cpu() && !no_runtime.at(7));
  CHECK(no_runtime.info(&failed).device_count == 0 && failed);
  CHECK(!iobind::session(no_runtime, path, on, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!iobind::session(runtime, path, device(), &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!iobind::session(runtime, nullptr, on, &failed) && failed.status() == IOBIND_ERROR_INVALID_ARGUMENT);
  CHECK(!iobind::session(runtime, std::string_view("a\0b", 3), on, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "NUL"));
  iobind::session no_session;
  CHECK(!iobind::binding(no_session, &failed) && failed && !iobind::pipeline(no_session, &failed) && failed);
  CHECK(no_session.run({}, &failed).empty() && failed && no_session.info(&failed).input_count == 0);
  CHECK(no_session.input("x", &failed).name == nullptr && no_session.end_profile(&failed).empty() && failed);
  CHECK(!no_session.create_tensor(on, IOBIND_DTYPE_FLOAT32, {4}, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "session"));
  iobind::binding no_binding;
  CHECK(!no_binding.run(&failed) && !no_binding.input(0, &failed) && failed);
  iobind::input_slot no_input;
  iobind::output_slot no_output;
  CHECK(!no_input.update(ones, &failed) && failed && !no_input.bind(tensor(), &failed) && failed);
  CHECK(!no_output.get(&failed) && failed && !no_output.take(&failed) && !no_output.bind(IOBIND_OUTPUT_NONE, &failed) && failed);
  iobind::pipeline no_pipeline;
  CHECK(!no_pipeline.submit({}, &failed) && !no_pipeline.next(&failed) && !no_pipeline.output(0, &failed) && failed);
  CHECK(!iobind::external_memory().view(0, IOBIND_DTYPE_UINT8, {1}, &failed) && failed);

  iobind::stream no_stream, stream(on);
  iobind::event no_event, event(on);
  iobind::binding binding(scale);
  tensor x = tensor::from(on, {4}, ones);
  iobind::input_slot slot = binding.input("x", x);
  iobind::output_slot y = binding.output("y");
  CHECK(!no_stream.synchronize(&failed) && !no_stream.wait(event, &failed) && !stream.wait(no_event, &failed) && failed);
  CHECK(!stream.record(no_event, &failed) && !no_event.wait(&failed) && !no_event.signaled(&failed) && failed);
  CHECK(!no_event.wait_for(std::chrono::nanoseconds(1), &failed) && failed && no_stream.native() == nullptr);
  // Without an error these would be synchronous, or not ordered, silently.
  CHECK(!x.write(ones, no_stream, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  std::array<float, 4> values{};
  CHECK(!x.read(values, no_stream, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  CHECK(!slot.update(ones, no_stream, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  CHECK(!slot.bind(x, IOBIND_INPUT_RESIDENT, &no_event, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "event"));
  CHECK(!binding.run(no_stream, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  CHECK(!binding.run(no_stream, event, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  CHECK(!binding.run(stream, no_event, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "event"));
  CHECK(binding.run(&failed) && !y.lend(no_stream, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  iobind::session_options options;
  options.on = &no_stream;
  CHECK(!iobind::session(runtime, path, options, &failed) && says(IOBIND_ERROR_INVALID_ARGUMENT, "stream"));
  CHECK(!iobind::native_stream(no_stream, &failed).handle && failed);
  CHECK(iobind::catalogue_ep(SIZE_MAX, &failed).name == nullptr && failed.status() == IOBIND_ERROR_NOT_FOUND);
  CHECK(iobind::catalogue_option("cudda", 0, &failed).key == nullptr && failed.status() == IOBIND_ERROR_NOT_FOUND);
  CHECK(iobind::catalogue_conflict("cuda", SIZE_MAX, &failed).key == nullptr && failed.status() == IOBIND_ERROR_NOT_FOUND);
}

// Objects may go in any order: a device, too, keeps its runtime alive.
static device outlive(const char *path, const char *spec, tensor &y, device &late) {
  iobind::runtime runtime;
  device on = runtime.find(spec);
  iobind::session session(runtime, path, on);
  iobind::binding binding(session);
  binding.input("x", tensor::from(on, {4}, ones));
  iobind::output_slot slot = binding.output("y");
  binding.run();
  y = slot.take();
  late = y.where();
  return on;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  tensor y;
  device late, on = outlive(argv[1], argv[3], y, late);
  CHECK(on.spec() == late.spec() && y.read<float>()[3] == 8);
  y = tensor();
  on = device();
  CHECK(late.counters().allocation_count > 0 && tensor::of<float>(late, {4}).where() == late);
  late = device();
  iobind::state state = outlive_all(argv[1], argv[3]);
  CHECK(state.at("x").read<float>()[3] == 8 && state.bytes() == 16);
  state = iobind::state();

  iobind::runtime runtime;
  device cpu = runtime.cpu();
  on = runtime.find(argv[3]);
  iobind::session scale(runtime, argv[1], on), decoder(runtime, argv[2], on);
  lengths(decoder, cpu);
  elements(cpu);
  elements(on);
  strings(cpu);
  updates(scale, on);
  temporaries(scale, on);
  moved_from(scale, cpu, on);
  empty(runtime, scale, argv[1], on);
  states(runtime, scale, argv[1], on);
  if (wrong == 0) std::printf("%s: right\n", argv[3]);
  return wrong != 0;
}
