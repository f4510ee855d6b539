// Mistakes that must not compile: one for each name, with what the compiler says (cpp.py refused defines one name at a time). Without any
// name all of it compiles.
#include <list>

#include <iobind/interop.hpp>

using iobind::tensor;

template <class... Ignored> void use(Ignored &&...) {}

void mistakes(iobind::runtime &runtime, iobind::session &session, iobind::binding &binding, iobind::pipeline &pipeline,
              iobind::device &device, iobind::stream &stream, tensor &x, const tensor &constant) {
  std::vector<float> values(4);
  const std::vector<float> fixed(4);
  auto made = [&] { return tensor::of<float>(device, {4}); };
  iobind::input_slot input = binding.input("x");
  iobind::output_slot y = binding.output("y");
#if defined(DATA_OF_TEMPORARY) // deleted
  use(y.take().data<float>());
#elif defined(ADDRESS_OF_TEMPORARY) // deleted
  use(y.take().address());
#elif defined(INFO_OF_TEMPORARY) // deleted
  use(y.take().info());
#elif defined(DIMS_OF_TEMPORARY) // deleted
  use(y.take().dims().data());
#elif defined(INFO_OF_TEMPORARY_SESSION) // deleted
  use(iobind::session(runtime, "model", device).input(0));
#elif defined(INFO_OF_TEMPORARY_DEVICE) // deleted
  use(runtime.find("cpu").info());
#elif defined(INFO_OF_TEMPORARY_RUNTIME) // deleted
  use(iobind::runtime().info());
#elif defined(ENTRY_OF_TEMPORARY_AUDIT) // deleted
  use(binding.audit().entry(0));
#elif defined(NATIVE_OF_TEMPORARY) // deleted
  use(iobind::stream(device).native());
#elif defined(ORT_OF_TEMPORARY) // deleted
  use(iobind::get_ort(iobind::runtime()));
#elif defined(OUTPUT_OF_TEMPORARY_PIPELINE) // deleted
  use(iobind::pipeline(session).output(0));
#elif defined(TENSOR_OF_TEMPORARY_STATE) // deleted
  use(binding.save().at("x"));
#elif defined(PAIR_OF_TEMPORARY_STATE) // deleted
  use(session.load_state("file").pair(0));
#elif defined(WRAP_TEMPORARY) // the memory must outlive the tensor
  use(tensor::wrap(device, {2}, std::vector<float>{1, 2}));
#elif defined(WRAP_CONST) // const memory cannot be wrapped
  use(tensor::wrap(device, {4}, fixed));
#elif defined(CONSTANTS_OF_TEMPORARY) // the objects must outlive the options
  iobind::pipeline_options options;
  options.constants = std::vector<tensor>(1);
#elif defined(TARGETS_OF_TEMPORARY) // the objects must outlive the options
  iobind::run_request request;
  request.targets = std::vector<tensor>(1);
#elif defined(WRITE_TEMPORARY_ON_STREAM) // a stream reads the memory after the call
  x.write(std::vector<float>{1, 2}, stream);
#elif defined(READ_INTO_TEMPORARY) // would be lost
  x.read(std::vector<float>(4));
#elif defined(READ_INTO_TEMPORARY_ON_STREAM) // a stream writes the memory after the call
  x.read(std::vector<float>(4), stream);
#elif defined(UPDATE_TEMPORARY_ON_STREAM) // a stream reads the memory after the call
  input.update(std::vector<float>{1, 2}, stream);
#elif defined(READ_INTO_CONST) // read into const memory
  x.read(fixed);
#elif defined(WRITE_CONST_TENSOR) // qualifiers|not marked const|no matching|discards
  constant.write(values);
#elif defined(WRITE_STATE) // qualifiers|not marked const|no matching|discards
  iobind::state state = binding.save();
  state.at("x").write(values);
#elif defined(STATE_AS_OUTPUT) // no matching|discards
  iobind::state state = binding.save();
  binding.output("y", state.at("x"));
#elif defined(DATA_OF_CONST_TENSOR) // const
  float *data = constant.data<float>().data();
  use(data);
#elif defined(CONST_TARGET) // no matching|discards
  binding.output("y", constant);
#elif defined(COPY_INTO_CONST_TENSOR) // no matching|no viable
  use(iobind::copy({&x}, {&constant}));
#elif defined(COPY_INTO_CONST_TENSORS) // discards|drops|no matching|no viable
  const std::vector<tensor> constants(1);
  use(iobind::copy(constants, constants));
#elif defined(CONST_RUN_TARGET) // no match|no viable
  iobind::run_request request;
  request.targets = {&constant};
#elif defined(VIEW_OF_CONST_TENSOR) // qualifiers|not marked const|discards
  use(constant.slice(0, 1));
#elif defined(INT128) && defined(__SIZEOF_INT128__) // no element type of iobind
  use(x.read<__int128>());
#elif defined(CHAR) // no element type of iobind
  use(x.read<char>());
#elif defined(WIDE) // no element type of iobind
  use(x.read<wchar_t>());
#elif defined(POINTERS) // no element type of iobind
  use(tensor::from(device, {1}, std::vector<float *>(1)));
#elif defined(NOT_CONTIGUOUS) // no matching|invalid
  use(tensor::from(device, {1}, std::list<float>(1)));
#elif defined(BITS_ON_STREAM) // no match|invalid|void|cannot
  std::vector<bool> bits(4);
  x.write(bits, stream);
#elif defined(MODE_AS_FLAG) // deleted
  y.bind(x, IOBIND_OUTPUT_REUSE);
#elif defined(FLAG_AS_MODE) // no matching|invalid conversion|no viable|cannot convert
  y.bind(IOBIND_OUTPUT_IN_PLACE);
#elif defined(COPY_TENSOR) // deleted
  tensor second = x;
  use(second);
#elif defined(COPY_BINDING) // deleted
  iobind::binding second = binding;
  use(second);
#elif defined(ROWS_AS_FLOAT) // no matching|no viable|could not convert
  binding.reorder(0, values);
#elif defined(COPY_STATE) // deleted
  iobind::state first = binding.save();
  iobind::state second = first;
  use(second);
#elif defined(TENSORS_BY_VALUE) // no matching|could not convert|no viable
  pipeline.submit({x});
#elif defined(ARRAY_OF_OUTPUTS) // no matching|cannot convert|no viable
  std::array<tensor, 1> outputs;
  pipeline.next(outputs);
#elif defined(DIMS_AS_FLOAT) // narrowing|no matching|could not convert|cannot be narrowed
  use(tensor::of<float>(device, {1.5}));
#elif defined(MILLISECONDS_AS_NUMBER) // no matching|could not convert|cannot convert|no viable
  use(iobind::event(device).wait_for(10));
#else // right
  tensor taken = y.take();
  use(taken.data<float>(), taken.address(), taken.info(), y.take().dims()[0], y.take().read<float>(), runtime.find("cpu").spec());
  use(tensor::wrap(device, {4}, values), tensor::wrap(device, {4}, iobind::span<float>(values)));
  x.write(values, stream);
  x.write(iobind::span<const float>(values), stream);
  x.write(std::vector<float>{1, 2});
  x.read(values, stream);
  x.read(iobind::span<float>(values));
  input.update(values, stream);
  input.update(std::vector<float>{1, 2});
  use(constant.data<float>(), constant.read<bool>(), constant.dims());
  pipeline.submit({&x});
  pipeline.submit({&constant});
  std::vector<tensor> several(1);
  std::vector<const tensor *> pointers{&constant};
  use(iobind::copy({&constant}, {&x}), iobind::copy(several, several), iobind::copy(pointers, several, stream), session.run({&constant}));
  use(pipeline.output(0).read<float>(), pipeline.take(0), session.input(0), binding.audit().info());
  iobind::state state = binding.save();
  use(state.at("x").read<float>(), state.at("x").data<float>(), state.share(), binding.restore(session.load_state("file")));
  binding.input("x", state.at("x"));
  use(binding.reorder(0, {1, 0}), binding.reorder(0, std::vector<int>(2)));
  binding.output("y", made());
  y.bind(x, IOBIND_OUTPUT_IN_PLACE);
  use(iobind::event(device).wait_for(std::chrono::milliseconds(10)));
#endif
  use(made, input, y, fixed, values, constant, stream, session, pipeline, x, device, binding, runtime);
}
