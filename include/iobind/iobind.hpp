/** @file iobind.hpp
 *  iobind.h for C++17 and newer: only this header, no other library. iobind.h explains every call; the comments here explain
 *  only what C++ adds.
 *
 *  - Objects are move-only and release themselves; a moved-from one is empty. `get()` is the C object, for calls not here.
 *  - Errors are exceptions (iobind::error), or values: give an `iobind::error *` as the last argument, and the call throws
 *    nothing. Then it returns false, an empty object or an empty slot, and the error says why.
 *  - Names are used where C has indices: `binding.input("x", tensor)`. It returns the slot, whose index was looked up once:
 *    keep it if a loop binds or updates.
 *  - Elements are in any contiguous range: an array, std::vector, std::span. Its element type is compared with the tensor's.
 *  - A run allocates nothing and takes the instructions that it takes in C. */
#ifndef IOBIND_HPP
#define IOBIND_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__has_include)
#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#define IOBIND_HAS_SPAN 1
#endif
#endif

#include "iobind.h"

namespace iobind {

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

/** What a call failed with. As a value it is reused from call to call; true: the last call failed. */
class error : public std::exception {
public:
  error() noexcept { clear(); }
  explicit error(const iobind_error &raw) noexcept : raw_(raw) {}
  const char *what() const noexcept override { return raw_.message; }
  iobind_status status() const noexcept { return static_cast<iobind_status>(raw_.status); }
  const char *status_name() const noexcept { return iobind_status_name(raw_.status); }
  int ort_code() const noexcept { return raw_.ort_code; } /**< ORT's OrtErrorCode if ORT refused, otherwise 0 */
  explicit operator bool() const noexcept { return raw_.status != IOBIND_OK; }
  iobind_error *raw() noexcept { return &raw_; }
  void clear() noexcept {
    raw_.struct_size = sizeof raw_;
    raw_.status = IOBIND_OK;
    raw_.ort_code = 0;
    raw_.reserved = 0;
    raw_.message[0] = 0;
  }

private:
  iobind_error raw_;
};

namespace detail {

[[noreturn]] inline void raise(const iobind_error &failed) {
#if defined(__cpp_exceptions)
  throw error(failed);
#else
  (void)failed;
  std::abort(); /* without exceptions every call must be given an error */
#endif
}

/* Call a function of the C interface with the caller's error, or with one that is thrown. */
template <class... Parameters, class... Arguments>
inline bool call(error *given, iobind_status (*function)(Parameters...), Arguments... arguments) {
  if (given != nullptr) {
    given->clear();
    return function(arguments..., given->raw()) == IOBIND_OK;
  }
  iobind_error own; /* the rest is written where the call fails */
  own.struct_size = sizeof own;
  if (function(arguments..., &own) == IOBIND_OK) return true;
  raise(own);
}

/* The same for a call that fills in a struct. */
template <class Info, class... Parameters, class... Arguments>
inline Info ask(error *given, Info info, iobind_status (*function)(Parameters...), Arguments... arguments) {
  call(given, function, arguments..., &info);
  return info;
}

inline bool refuse(error *given, iobind_status status, const char *text, const char *expected, const char *came) {
  iobind_error own = IOBIND_ERROR_INIT;
  own.status = status;
  std::string message = std::string(text) + ": expected " + expected + ", got " + came;
  std::strncpy(own.message, message.c_str(), sizeof own.message - 1);
  if (given == nullptr) raise(own);
  *given = error(own);
  return false;
}

/* The only owner of a C object. */
template <class Object, void (*Destroy)(Object *)>
class owner {
public:
  owner() noexcept = default;
  explicit owner(Object *object) noexcept : object_(object) {}
  owner(owner &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  owner &operator=(owner &&other) noexcept {
    if (this != &other) {
      Destroy(object_);
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  owner(const owner &) = delete;
  owner &operator=(const owner &) = delete;
  ~owner() { Destroy(object_); }
  Object *get() const noexcept { return object_; }
  Object *release() noexcept { return std::exchange(object_, nullptr); } /**< the caller owns the reference now */
  explicit operator bool() const noexcept { return object_ != nullptr; }

protected:
  Object **out() noexcept { return &object_; }

private:
  Object *object_ = nullptr;
};

template <class Range>
using element = std::remove_reference_t<decltype(*std::data(std::declval<Range &>()))>;

} // namespace detail

/* ---- element types, spans, dims --------------------------------------------------------------------------------------- */

/** The element type of a C++ type. Specialize it for types of your own (a half float, say). UNDEFINED: plain bytes. */
template <class T, class = void>
struct dtype_of;
template <class T>
struct dtype_of<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr iobind_dtype value = sizeof(T) == 1   ? (std::is_signed_v<T> ? IOBIND_INT8 : IOBIND_UINT8)
                                        : sizeof(T) == 2 ? (std::is_signed_v<T> ? IOBIND_INT16 : IOBIND_UINT16)
                                        : sizeof(T) == 4 ? (std::is_signed_v<T> ? IOBIND_INT32 : IOBIND_UINT32)
                                                         : (std::is_signed_v<T> ? IOBIND_INT64 : IOBIND_UINT64);
};
template <>
struct dtype_of<bool> : std::integral_constant<iobind_dtype, IOBIND_BOOL> {};
template <>
struct dtype_of<float> : std::integral_constant<iobind_dtype, IOBIND_FLOAT32> {};
template <>
struct dtype_of<double> : std::integral_constant<iobind_dtype, IOBIND_FLOAT64> {};
template <>
struct dtype_of<std::byte> : std::integral_constant<iobind_dtype, IOBIND_UNDEFINED> {};

#if defined(IOBIND_HAS_SPAN)
template <class T>
using span = std::span<T>;
#else
/** As much of std::span as is needed before C++20. */
template <class T>
class span {
public:
  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <class Range, class = std::enable_if_t<std::is_convertible_v<detail::element<Range> (*)[], T (*)[]>>>
  constexpr span(Range &&range) : data_(std::data(range)), size_(std::size(range)) {}
  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t index) const { return data_[index]; }

private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};
#endif

/** Dims, valid only during the call that they are written in: {1, 3, 48, 192}, or any range of int64_t. */
class shape {
public:
  shape(std::initializer_list<std::int64_t> dims) noexcept : data_(std::data(dims)), rank_(dims.size()) {}
  template <class Range, class = std::enable_if_t<std::is_same_v<std::remove_cv_t<detail::element<Range>>, std::int64_t>>>
  shape(const Range &dims) noexcept : data_(std::data(dims)), rank_(std::size(dims)) {}
  const std::int64_t *data() const noexcept { return data_; }
  std::size_t rank() const noexcept { return rank_; }

private:
  const std::int64_t *data_;
  std::size_t rank_;
};

/* ---- runtime and devices ---------------------------------------------------------------------------------------------- */

/** A device of the runtime; copied freely. Empty if none was found. */
class device {
public:
  device() noexcept = default;
  explicit device(iobind_device *raw) noexcept : raw_(raw) {}
  iobind_device *get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  friend bool operator==(device a, device b) noexcept { return a.raw_ == b.raw_; }
  friend bool operator!=(device a, device b) noexcept { return a.raw_ != b.raw_; }

  iobind_device_info info(error *failed = nullptr) const {
    return detail::ask<iobind_device_info>(failed, IOBIND_DEVICE_INFO_INIT, iobind_device_get_info, raw_);
  }
  iobind_device_counters counters(error *failed = nullptr) const {
    return detail::ask<iobind_device_counters>(failed, IOBIND_DEVICE_COUNTERS_INIT, iobind_device_get_counters, raw_);
  }

private:
  iobind_device *raw_ = nullptr;
};

/** One loaded ORT. */
class runtime : public detail::owner<iobind_runtime, iobind_runtime_destroy> {
public:
  explicit runtime(error *failed = nullptr) : runtime(iobind_runtime_options(IOBIND_RUNTIME_OPTIONS_INIT), failed) {}
  explicit runtime(const iobind_runtime_options &options, error *failed = nullptr) {
    detail::call(failed, iobind_runtime_create, &options, out());
  }
  /** The first device of a spec such as "cuda,webgpu,cpu" that works. */
  device find(const char *spec, error *failed = nullptr) const {
    iobind_device *found = nullptr;
    detail::call(failed, iobind_runtime_find_device, get(), spec, &found, nullptr);
    return device(found);
  }
  device cpu() const noexcept { return device(iobind_runtime_get_device(get(), 0)); }
  iobind_runtime_info info(error *failed = nullptr) const {
    return detail::ask<iobind_runtime_info>(failed, IOBIND_RUNTIME_INFO_INIT, iobind_runtime_get_info, get());
  }
};

/* ---- streams and events ----------------------------------------------------------------------------------------------- */

class event : public detail::owner<iobind_event, iobind_event_destroy> {
public:
  event() noexcept = default;
  explicit event(device where, error *failed = nullptr) { detail::call(failed, iobind_event_create, where.get(), out()); }
  bool wait(error *failed = nullptr) const { return detail::call(failed, iobind_event_wait, get()); }
  bool wait_for(std::uint64_t timeout_ns, error *failed = nullptr) const {
    return detail::call(failed, iobind_event_wait_for, get(), timeout_ns);
  }
  /** Whether it has passed. Also false if that cannot be found out; then the error says why. */
  bool passed(error *failed = nullptr) const {
    std::int32_t done = 0;
    return detail::call(failed, iobind_event_query, get(), &done) && done != 0;
  }
};

class stream : public detail::owner<iobind_stream, iobind_stream_destroy> {
public:
  stream() noexcept = default;
  explicit stream(device where, error *failed = nullptr) : stream(where, IOBIND_STREAM_OPTIONS_INIT, failed) {}
  stream(device where, const iobind_stream_options &options, error *failed = nullptr) {
    detail::call(failed, iobind_stream_create, where.get(), &options, out());
  }
  bool synchronize(error *failed = nullptr) const { return detail::call(failed, iobind_stream_synchronize, get()); }
  bool wait(const event &before, error *failed = nullptr) const {
    return detail::call(failed, iobind_stream_wait, get(), before.get());
  }
  bool record(const event &into, error *failed = nullptr) const {
    return detail::call(failed, iobind_event_record, into.get(), get());
  }
  void *native() const noexcept { return iobind_stream_native(get()); }
};

/* ---- tensors ---------------------------------------------------------------------------------------------------------- */

/** One reference to a tensor. */
class tensor : public detail::owner<iobind_tensor, iobind_tensor_release> {
public:
  tensor() noexcept = default;
  explicit tensor(iobind_tensor *taken) noexcept : owner(taken) {} /**< the reference is this object's from now on */
  tensor(device where, iobind_dtype dtype, shape dims, iobind_memory memory = IOBIND_MEMORY_DEFAULT, error *failed = nullptr) {
    detail::call(failed, iobind_tensor_create, where.get(), memory, dtype, dims.data(), dims.rank(), out());
  }
  /** With the elements of a C++ type; nothing is written into it. */
  template <class T>
  static tensor of(device where, shape dims, iobind_memory memory = IOBIND_MEMORY_DEFAULT, error *failed = nullptr) {
    return tensor(where, dtype_of<T>::value, dims, memory, failed);
  }
  template <class T>
  static tensor of(device where, shape dims, error *failed) {
    return of<T>(where, dims, IOBIND_MEMORY_DEFAULT, failed);
  }
  /** Filled with these values. */
  template <class Range>
  static tensor from(device where, shape dims, const Range &values, error *failed = nullptr) {
    tensor made = of<std::remove_cv_t<detail::element<const Range>>>(where, dims, IOBIND_MEMORY_DEFAULT, failed);
    if (made && !made.write(values, failed)) made = tensor();
    return made;
  }
  /** Over the caller's memory, which must outlive the tensor: on the host, or (a span over its address) on a device. */
  template <class Range>
  static tensor wrap(device where, shape dims, Range &&memory, error *failed = nullptr) {
    using T = detail::element<Range>;
    return wrap(where, dtype_of<T>::value, dims, std::data(memory), std::size(memory) * sizeof(T), nullptr, nullptr, failed);
  }
  /** Over memory that is given to the deleter at the end; see iobind_tensor_wrap. */
  static tensor wrap(device where, iobind_dtype dtype, shape dims, void *data, std::size_t bytes, iobind_deleter deleter,
                     void *context, error *failed = nullptr) {
    tensor made;
    detail::call(failed, iobind_tensor_wrap, where.get(), IOBIND_MEMORY_DEFAULT, dtype, dims.data(), dims.rank(), data, bytes,
                 deleter, context, made.out());
    return made;
  }
  tensor share() const noexcept { return tensor(iobind_tensor_retain(get())); } /**< one more reference */
  tensor slice(std::int64_t start, std::int64_t count, error *failed = nullptr) const {
    tensor made;
    detail::call(failed, iobind_tensor_slice, get(), start, count, made.out());
    return made;
  }
  tensor view(std::size_t offset, iobind_dtype dtype, shape dims, error *failed = nullptr) const {
    tensor made;
    detail::call(failed, iobind_tensor_view, get(), offset, dtype, dims.data(), dims.rank(), made.out());
    return made;
  }

  iobind_tensor_info info(error *failed = nullptr) const {
    return detail::ask<iobind_tensor_info>(failed, IOBIND_TENSOR_INFO_INIT, iobind_tensor_get_info, get());
  }
  span<const std::int64_t> dims() const {
    iobind_tensor_info it = info();
    return {it.dims, it.rank};
  }
  iobind_dtype dtype() const { return static_cast<iobind_dtype>(info().dtype); }
  std::size_t bytes() const { return info().bytes; }
  device where() const { return device(info().device); }
  void *address() const noexcept { return iobind_tensor_address(get()); }

  /** All elements, from the start of a range, or into one; on a stream the range must stay as it is until the copy has passed. */
  template <class Range>
  bool write(const Range &values, error *failed = nullptr) const {
    return put(values, nullptr, failed);
  }
  template <class Range>
  bool write(const Range &values, const stream &on, error *failed = nullptr) const {
    return put(values, on.get(), failed);
  }
  template <class Range>
  bool read(Range &&values, error *failed = nullptr) const {
    return fetch(values, nullptr, failed);
  }
  template <class Range>
  bool read(Range &&values, const stream &on, error *failed = nullptr) const {
    return fetch(values, on.get(), failed);
  }
  /** The elements, in a new vector. */
  template <class T>
  std::vector<T> read(error *failed = nullptr) const {
    std::vector<T> values;
    if (is<T>(failed)) values.resize(bytes() / sizeof(T));
    if (!values.empty() && !read(values, failed)) values.clear();
    return values;
  }
  /** The elements in the tensor's own memory, if the host can read it. */
  template <class T>
  span<T> data(error *failed = nullptr) const {
    void *first = nullptr;
    bool there = detail::call(failed, iobind_tensor_get_data, get(), dtype_of<std::remove_cv_t<T>>::value, &first);
    return there ? span<T>(static_cast<T *>(first), bytes() / sizeof(T)) : span<T>();
  }

  /** All of another tensor of the same type and dims, wherever the two are; on a stream both must stay until it has passed. */
  bool copy(const tensor &source, error *failed = nullptr) const { return copy_on(source, nullptr, failed); }
  bool copy(const tensor &source, const stream &on, error *failed = nullptr) const { return copy_on(source, on.get(), failed); }

private:
  bool copy_on(const tensor &source, iobind_stream *on, error *failed) const {
    const iobind_tensor *const from = source.get();
    iobind_tensor *const to = get();
    return detail::call(failed, iobind_tensor_copy, &from, &to, 1u, on);
  }
  template <class T>
  bool is(error *failed) const {
    constexpr iobind_dtype wanted = dtype_of<std::remove_cv_t<T>>::value;
    iobind_tensor_info it = IOBIND_TENSOR_INFO_INIT;
    return detail::call(failed, iobind_tensor_get_info, get(), &it) &&
           (wanted == IOBIND_UNDEFINED || it.dtype == wanted ||
            detail::refuse(failed, IOBIND_DTYPE, "tensor", iobind_dtype_name(it.dtype), iobind_dtype_name(wanted)));
  }
  template <class Range>
  bool put(const Range &values, iobind_stream *on, error *failed) const {
    using T = detail::element<const Range>;
    return is<T>(failed) &&
           detail::call(failed, iobind_tensor_write, get(), 0u, std::data(values), std::size(values) * sizeof(T), on);
  }
  template <class Range>
  bool fetch(Range &&values, iobind_stream *on, error *failed) const {
    using T = detail::element<Range>;
    return is<T>(failed) &&
           detail::call(failed, iobind_tensor_read, get(), 0u, std::data(values), std::size(values) * sizeof(T), on);
  }
};

/* ---- sessions --------------------------------------------------------------------------------------------------------- */

class session : public detail::owner<iobind_session, iobind_session_destroy> {
public:
  session(const runtime &on, const char *path, const iobind_session_options &options, error *failed = nullptr) {
    detail::call(failed, iobind_session_create, on.get(), path, &options, out());
  }
  /** On a device, with the CPU as the last resort. */
  session(const runtime &on, const char *path, device where, error *failed = nullptr) {
    iobind_device *devices[] = {where.get()};
    iobind_session_options options = IOBIND_SESSION_OPTIONS_INIT;
    options.devices = devices;
    options.device_count = 1;
    detail::call(failed, iobind_session_create, on.get(), path, &options, out());
  }
  session(const runtime &on, span<const std::byte> model, const iobind_session_options &options, error *failed = nullptr) {
    detail::call(failed, iobind_session_create_from_memory, on.get(), model.data(), model.size(), &options, out());
  }
  iobind_session_info info(error *failed = nullptr) const {
    return detail::ask<iobind_session_info>(failed, IOBIND_SESSION_INFO_INIT, iobind_session_get_info, get());
  }
  iobind_value_info input(std::size_t index, error *failed = nullptr) const {
    return detail::ask<iobind_value_info>(failed, IOBIND_VALUE_INFO_INIT, iobind_session_get_input, get(), index);
  }
  iobind_value_info output(std::size_t index, error *failed = nullptr) const {
    return detail::ask<iobind_value_info>(failed, IOBIND_VALUE_INFO_INIT, iobind_session_get_output, get(), index);
  }
};

/* ---- bindings --------------------------------------------------------------------------------------------------------- */

/** An input or output of a binding, by the index of its name. Valid as long as the binding, also after that was moved. */
class slot {
public:
  slot() noexcept = default;
  slot(iobind_binding *binding, std::size_t index) noexcept : binding_(binding), index_(index) {}
  std::size_t index() const noexcept { return index_; }
  explicit operator bool() const noexcept { return binding_ != nullptr; }

protected:
  iobind_binding *binding_ = nullptr;
  std::size_t index_ = 0;
};

class input_slot : public slot {
public:
  using slot::slot;
  bool bind(const tensor &value, iobind_input_mode mode = IOBIND_INPUT_RESIDENT, const event *ready = nullptr,
            error *failed = nullptr) const {
    return detail::call(failed, iobind_binding_set_input, binding_, index_, mode, value.get(),
                        ready == nullptr ? nullptr : ready->get());
  }
  /** New data into what is bound. The element type is not compared here: the bytes must be those of the input. */
  template <class Range>
  bool update(const Range &values, error *failed = nullptr) const {
    return update(values, nullptr, failed);
  }
  template <class Range>
  bool update(const Range &values, const stream *on, error *failed = nullptr) const {
    return detail::call(failed, iobind_binding_update_input, binding_, index_, std::data(values),
                        std::size(values) * sizeof *std::data(values), on == nullptr ? nullptr : on->get());
  }
};

class output_slot : public slot {
public:
  using slot::slot;
  bool bind(iobind_output_mode mode, device where = device(), iobind_memory memory = IOBIND_MEMORY_DEFAULT,
            error *failed = nullptr) const {
    return set(mode, where.get(), memory, nullptr, failed);
  }
  bool bind(const tensor &target, iobind_output_mode mode = IOBIND_OUTPUT_FIXED, error *failed = nullptr) const {
    return set(mode, nullptr, IOBIND_MEMORY_DEFAULT, target.get(), failed);
  }
  /** The last run's output with one more reference; a later run may overwrite it if it is not FRESH. */
  tensor get(error *failed = nullptr) const {
    iobind_tensor *borrowed = nullptr;
    detail::call(failed, iobind_binding_get_output, binding_, index_, &borrowed);
    return tensor(borrowed == nullptr ? nullptr : iobind_tensor_retain(borrowed));
  }
  /** The same without a wait for a run that is under way: for what is submitted to the stream from now on. */
  tensor lend(const stream &to, error *failed = nullptr) const {
    iobind_tensor *borrowed = nullptr;
    detail::call(failed, iobind_binding_lend_output, binding_, index_, to.get(), &borrowed);
    return tensor(borrowed == nullptr ? nullptr : iobind_tensor_retain(borrowed));
  }
  /** The last run's output, which the caller owns from now on. */
  tensor take(error *failed = nullptr) const {
    iobind_tensor *taken = nullptr;
    detail::call(failed, iobind_binding_take_output, binding_, index_, &taken);
    return tensor(taken);
  }

private:
  bool set(iobind_output_mode mode, iobind_device *where, iobind_memory memory, iobind_tensor *target, error *failed) const {
    return detail::call(failed, iobind_binding_set_output, binding_, index_, mode, where, memory, target);
  }
};

class binding : public detail::owner<iobind_binding, iobind_binding_destroy> {
public:
  explicit binding(const session &of, error *failed = nullptr) : session_(of.get()) {
    detail::call(failed, iobind_binding_create, of.get(), out());
  }
  input_slot input(const char *name, error *failed = nullptr) const {
    std::size_t index = 0;
    bool found = detail::call(failed, iobind_session_find_input, session_, name, &index);
    return found ? input_slot(get(), index) : input_slot();
  }
  input_slot input(const char *name, const tensor &value, error *failed) const {
    return input(name, value, IOBIND_INPUT_RESIDENT, nullptr, failed);
  }
  input_slot input(const char *name, const tensor &value, iobind_input_mode mode = IOBIND_INPUT_RESIDENT,
                   const event *ready = nullptr, error *failed = nullptr) const {
    input_slot found = input(name, failed);
    return found && found.bind(value, mode, ready, failed) ? found : input_slot();
  }
  output_slot output(const char *name, error *failed = nullptr) const {
    std::size_t index = 0;
    bool found = detail::call(failed, iobind_session_find_output, session_, name, &index);
    return found ? output_slot(get(), index) : output_slot();
  }
  /** FIXED: each run writes into the tensor. */
  output_slot output(const char *name, const tensor &target, error *failed = nullptr) const {
    output_slot found = output(name, failed);
    return found && found.bind(target, IOBIND_OUTPUT_FIXED, failed) ? found : output_slot();
  }
  output_slot output(const char *name, device where, error *failed) const {
    return output(name, where, IOBIND_OUTPUT_FRESH, failed);
  }
  /** New memory on a device in each run (FRESH), or the memory of the first one (REUSE). */
  output_slot output(const char *name, device where, iobind_output_mode mode = IOBIND_OUTPUT_FRESH,
                     error *failed = nullptr) const {
    output_slot found = output(name, failed);
    return found && found.bind(mode, where, IOBIND_MEMORY_DEFAULT, failed) ? found : output_slot();
  }
  /** The output becomes the next run's input. */
  bool carry(const char *from, const char *to, iobind_carry_mode mode = IOBIND_CARRY_MOVE, error *failed = nullptr) const {
    output_slot source = output(from, failed);
    input_slot target = source ? input(to, failed) : input_slot();
    return target && detail::call(failed, iobind_binding_carry, get(), source.index(), target.index(), mode);
  }
  /** Has finished when it returns; on a stream it is ordered there, and returns when it is submitted. */
  bool run(error *failed = nullptr) const { return run_on(nullptr, nullptr, failed); }
  bool run(const stream &on, error *failed = nullptr) const { return run_on(on.get(), nullptr, failed); }
  bool run(const stream &on, const event &behind, error *failed = nullptr) const {
    return run_on(on.get(), behind.get(), failed);
  }
  bool check(error *failed = nullptr) const { return detail::call(failed, iobind_binding_check, get()); }
  bool cancel(error *failed = nullptr) const { return detail::call(failed, iobind_binding_cancel, get()); }
  bool clear(error *failed = nullptr) const { return detail::call(failed, iobind_binding_clear, get()); }
  bool forget_graphs(error *failed = nullptr) const { return detail::call(failed, iobind_binding_forget_graphs, get()); }
  bool set_run_options(const iobind_run_options &options, error *failed = nullptr) const {
    return detail::call(failed, iobind_binding_set_run_options, get(), &options);
  }

private:
  bool run_on(iobind_stream *on, iobind_event *behind, error *failed) const {
    return detail::call(failed, iobind_binding_run, get(), on, behind);
  }
  iobind_session *session_; /* lives as long as the binding, even if its own object is gone */
};

/* ---- pipelines -------------------------------------------------------------------------------------------------------- */

class pipeline : public detail::owner<iobind_pipeline, iobind_pipeline_destroy> {
public:
  explicit pipeline(const session &of, const iobind_pipeline_options &options = IOBIND_PIPELINE_OPTIONS_INIT,
                    error *failed = nullptr) {
    detail::call(failed, iobind_pipeline_create, of.get(), &options, out());
  }
  /** One host tensor for each input in the model's order; an empty one for a constant input. */
  template <std::size_t N>
  bool submit(const std::array<const tensor *, N> &inputs, error *failed = nullptr) const {
    std::array<iobind_tensor *, N> raw{};
    for (std::size_t i = 0; i < N; i++) raw[i] = inputs[i] == nullptr ? nullptr : inputs[i]->get();
    return detail::call(failed, iobind_pipeline_submit, get(), raw.data());
  }
  bool submit(const iobind_pipeline_request &request, error *failed = nullptr) const {
    return detail::call(failed, iobind_pipeline_submit_request, get(), &request);
  }
  /** The oldest item's outputs, one for each of the session's. Each has its own reference, so no later item overwrites it. */
  template <std::size_t N>
  bool next(std::array<tensor, N> &outputs, iobind_pipeline_item *item = nullptr, error *failed = nullptr) const {
    return next_for(UINT64_MAX, outputs, item, failed);
  }
  template <std::size_t N>
  bool next_for(std::uint64_t timeout_ns, std::array<tensor, N> &outputs, iobind_pipeline_item *item = nullptr,
                error *failed = nullptr) const {
    std::array<iobind_tensor *, N> raw{};
    bool came = detail::call(failed, iobind_pipeline_next_for, get(), timeout_ns, raw.data(), item);
    for (std::size_t i = 0; i < N; i++) outputs[i] = tensor(raw[i] == nullptr ? nullptr : iobind_tensor_retain(raw[i]));
    return came;
  }
};

} // namespace iobind

#endif
