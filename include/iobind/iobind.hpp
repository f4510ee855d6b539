/** @file iobind.hpp
 *  iobind.h for C++17 and newer: headers only, without another library. iobind.h documents every call; the comments here document
 *  only additions of C++. interop.hpp does the same for interop.h.
 *
 *  - Owners (runtime, stream, event, tensor, state, session, binding, audit, batch, row, pipeline) are move-only. They may be
 *    destroyed in any order. A default-constructed or moved-from owner is empty: calls on it fail with INVALID_ARGUMENT. `get()`
 *    returns the C object.
 *  - Handles (device, input_slot, output_slot) are copied freely and keep what they refer to alive.
 *  - A failed call throws iobind::error. With an `iobind::error *` as the last argument it throws nothing: it returns false, an empty
 *    object or an empty range, and fills in the error. With -fno-exceptions a failed call without that argument prints the message
 *    and aborts.
 *  - Names replace indices: `binding.input("x", tensor)` returns a slot with the index. Keep the slot for use in a loop.
 *  - Elements are passed in any contiguous range: an array, std::vector, std::span. Its element type and length are compared with the
 *    tensor's. std::byte matches every type except strings.
 *  - Functions whose result borrows from the object cannot be called on a temporary: `tensor.data<T>()`, `session.info()`.
 *  - A parameter for a name or a path takes `const char *`, std::string, std::string_view or std::filesystem::path, in UTF-8.
 *  - A run allocates nothing, and executes the same instructions as in C. */
#ifndef IOBIND_HPP
#define IOBIND_HPP

#if defined(_MSVC_LANG) ? _MSVC_LANG < 201703L : __cplusplus < 201703L
#error "iobind.hpp: expected C++17 or newer; the C header, iobind.h, needs no more than C++98"
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "iobind.h"

namespace iobind {

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

/** The details of a failed call. An object can be reused from call to call; it is true if the last call failed. */
class error : public std::exception {
public:
  error() noexcept : raw_() { clear(); }
  explicit error(const iobind_error &raw) noexcept : raw_(raw) {}
  const char *what() const noexcept override { return raw_.message; }
  iobind_status status() const noexcept { return static_cast<iobind_status>(raw_.status); }
  const char *status_name() const noexcept { return iobind_status_get_name(raw_.status); }
  int ort_code() const noexcept { return raw_.ort_code; } /**< ORT's OrtErrorCode if ORT failed, otherwise 0 */
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

/** A parameter: a name or a path, converted for C. */
class text {
public:
  text(const char *words) noexcept : data_(words) {}
  text(const std::string &words) noexcept : data_(words.c_str()), whole_(words.find('\0') == words.npos) {}
  text(std::string_view words) : copy_(words), data_(copy_.c_str()), whole_(words.find('\0') == words.npos) {}
  /** std::filesystem::path, without its header */
  template <class Path, class = decltype(std::declval<const Path &>().native(), std::declval<const Path &>().u8string())>
  text(const Path &path) {
    if constexpr (std::is_same_v<typename Path::value_type, char>) {
      copy_ = path.native();
    } else {
      auto utf8 = path.u8string();
      copy_.assign(reinterpret_cast<const char *>(utf8.data()), utf8.size());
    }
    data_ = copy_.c_str();
    whole_ = copy_.find('\0') == copy_.npos;
  }
  text(const text &) = delete;
  text &operator=(const text &) = delete;
  const char *get() const noexcept { return data_; }
  bool whole() const noexcept { return whole_; } /**< false: it has a NUL inside, where C would stop reading */

private:
  std::string copy_{};
  const char *data_ = nullptr;
  bool whole_ = true;
};

namespace detail {

[[noreturn]] inline void raise(const iobind_error &failed) {
#if defined(__cpp_exceptions)
  throw error(failed);
#else
  std::fprintf(stderr, "%s [%s]\n", failed.message, iobind_status_get_name(failed.status));
  std::abort();
#endif
}

inline bool refuse(error *given, iobind_status status, const char *what, const char *expected, const char *got) {
  iobind_error own = {};
  own.struct_size = sizeof own;
  own.status = status;
  std::snprintf(own.message, sizeof own.message, "%s: expected %s, got %s", what, expected, got);
  if (given == nullptr) raise(own);
  *given = error(own);
  return false;
}

inline bool refuse_count(error *given, const char *what, std::size_t expected, std::size_t got) {
  return expected == got ||
         refuse(given, IOBIND_ERROR_INVALID_ARGUMENT, what, std::to_string(expected).c_str(), std::to_string(got).c_str());
}

/* In C a NULL stream or event means that none was passed. */
template <class Object>
bool refuse_empty(error *given, const Object &object, const char *what) {
  return object.get() != nullptr || refuse(given, IOBIND_ERROR_INVALID_ARGUMENT, what, "an object", "an empty one");
}

template <class Argument>
const Argument &plain(const Argument &argument) noexcept {
  return argument;
}
inline const char *plain(const text &argument) noexcept { return argument.get(); }
template <class Argument>
constexpr bool is_whole(const Argument &) noexcept {
  return true;
}
inline bool is_whole(const text &argument) noexcept { return argument.whole(); }

/* Call a function of the C interface with the caller's error, or with an error that is thrown. */
template <class... Parameters, class... Arguments>
inline bool call(error *given, iobind_status (*function)(Parameters...), const Arguments &...arguments) {
  if (!(is_whole(arguments) && ...)) {
    return refuse(given, IOBIND_ERROR_INVALID_ARGUMENT, "a name or path", "text without a NUL", "one inside it");
  }
  if (given != nullptr) {
    given->clear();
    return function(plain(arguments)..., given->raw()) == IOBIND_OK;
  }
  iobind_error own; /* the call that fails writes the rest */
  own.struct_size = sizeof own;
  if (function(plain(arguments)..., &own) == IOBIND_OK) return true;
  raise(own);
}

/* A struct of the C interface, with the values of its _INIT macro. */
template <class Struct>
Struct sized() noexcept {
  Struct made = {};
  made.struct_size = sizeof made;
  return made;
}

/* The same for a call that fills in a struct. */
template <class Info, class... Parameters, class... Arguments>
inline Info ask(error *given, iobind_status (*function)(Parameters...), const Arguments &...arguments) {
  Info info = sized<Info>();
  Info *out = &info;
  call(given, function, arguments..., out);
  return info;
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
  [[nodiscard]] Object *release() noexcept { return std::exchange(object_, nullptr); } /**< transfers the reference to the caller */
  explicit operator bool() const noexcept { return object_ != nullptr; }

protected:
  Object **out() noexcept { return &object_; }

private:
  Object *object_ = nullptr;
};

template <class Range>
using element = std::remove_reference_t<decltype(*std::data(std::declval<Range &>()))>;
template <class Range>
inline constexpr bool is_bits = std::is_same_v<std::remove_cv_t<std::remove_reference_t<Range>>, std::vector<bool>>;
template <class>
inline constexpr bool never = false;

} // namespace detail

/* ---- element types, ranges, dims --------------------------------------------------------------------------------------- */

/** The element type of a C++ type. Specialize it for your own types, such as a half float. UNDEFINED: plain bytes. */
template <class T>
struct dtype_of {
  static_assert(detail::never<T>, "no element type of iobind: use a type of <cstdint>, float, double, bool, std::string or "
                                  "std::byte, or specialize iobind::dtype_of");
};
template <iobind_dtype Value>
using dtype_constant = std::integral_constant<iobind_dtype, Value>;
template <> struct dtype_of<bool> : dtype_constant<IOBIND_DTYPE_BOOL> {};
template <> struct dtype_of<float> : dtype_constant<IOBIND_DTYPE_FLOAT32> {};
template <> struct dtype_of<double> : dtype_constant<IOBIND_DTYPE_FLOAT64> {};
template <> struct dtype_of<signed char> : dtype_constant<IOBIND_DTYPE_INT8> {};
template <> struct dtype_of<unsigned char> : dtype_constant<IOBIND_DTYPE_UINT8> {};
template <> struct dtype_of<short> : dtype_constant<IOBIND_DTYPE_INT16> {};
template <> struct dtype_of<unsigned short> : dtype_constant<IOBIND_DTYPE_UINT16> {};
template <> struct dtype_of<int> : dtype_constant<IOBIND_DTYPE_INT32> {};
template <> struct dtype_of<unsigned> : dtype_constant<IOBIND_DTYPE_UINT32> {};
template <> struct dtype_of<long> : dtype_constant<sizeof(long) == 4 ? IOBIND_DTYPE_INT32 : IOBIND_DTYPE_INT64> {};
template <> struct dtype_of<unsigned long> : dtype_constant<sizeof(long) == 4 ? IOBIND_DTYPE_UINT32 : IOBIND_DTYPE_UINT64> {};
template <> struct dtype_of<long long> : dtype_constant<IOBIND_DTYPE_INT64> {};
template <> struct dtype_of<unsigned long long> : dtype_constant<IOBIND_DTYPE_UINT64> {};
template <> struct dtype_of<std::string> : dtype_constant<IOBIND_DTYPE_STRING> {};
template <> struct dtype_of<std::byte> : dtype_constant<IOBIND_DTYPE_UNDEFINED> {};

inline const char *dtype_name(iobind_dtype dtype) noexcept { return iobind_dtype_get_name(dtype); }
inline std::uint32_t dtype_bits(iobind_dtype dtype) noexcept { return iobind_dtype_get_bits(dtype); }

/** A non-owning contiguous range. It is the same type in every version of C++, and converts from and to std::span. */
template <class T>
class span {
public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using iterator = T *;
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

/** True for ranges that do not own their elements. Specialize it for your own views. */
template <class Range>
struct is_view : std::false_type {};
template <class T>
struct is_view<span<T>> : std::true_type {};

} // namespace iobind

#if __cplusplus >= 202002L
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<iobind::span<T>> = true;
template <class T, std::size_t Extent>
struct iobind::is_view<std::span<T, Extent>> : std::true_type {};
#endif

namespace iobind {
namespace detail {

/* True if the memory outlives the expression. */
template <class Range>
inline constexpr bool lasts = std::is_lvalue_reference_v<Range> || is_view<std::remove_cv_t<Range>>::value;

} // namespace detail

/** Dims: {1, 3, 48, 192}, or any range of integers. They are copied. */
class shape {
public:
  shape() noexcept = default; /**< of a scalar */
  shape(std::initializer_list<std::int64_t> dims) noexcept { assign(dims.begin(), dims.size()); }
  template <class Range, class = std::enable_if_t<std::is_integral_v<detail::element<Range>> &&
                                                  !std::is_same_v<std::remove_cv_t<detail::element<Range>>, bool>>>
  shape(const Range &dims) noexcept {
    assign(std::data(dims), std::size(dims));
  }
  const std::int64_t *data() const & noexcept { return dims_.data(); }
  const std::int64_t *data() const && = delete;
  const std::int64_t *begin() const & noexcept { return dims_.data(); }
  const std::int64_t *begin() const && = delete;
  const std::int64_t *end() const & noexcept { return dims_.data() + std::min(rank_, dims_.size()); }
  const std::int64_t *end() const && = delete;
  std::size_t rank() const noexcept { return rank_; } /**< above IOBIND_MAX_RANK every call fails */
  std::size_t size() const noexcept { return std::min(rank_, dims_.size()); }
  std::int64_t operator[](std::size_t axis) const { return dims_[axis]; }
  friend bool operator==(const shape &a, const shape &b) noexcept {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }
  friend bool operator!=(const shape &a, const shape &b) noexcept { return !(a == b); }

private:
  template <class T>
  void assign(const T *dims, std::size_t rank) noexcept {
    rank_ = rank;
    for (std::size_t i = 0; i < size(); i++) dims_[i] = static_cast<std::int64_t>(dims[i]);
  }
  std::array<std::int64_t, IOBIND_MAX_RANK> dims_{};
  std::size_t rank_ = 0;
};

inline std::size_t dtype_bytes(iobind_dtype dtype, const shape &dims, error *failed = nullptr) {
  std::size_t bytes = 0;
  detail::call(failed, iobind_dtype_get_bytes, dtype, dims.data(), dims.rank(), &bytes);
  return bytes;
}

/** A parameter: objects of one type, in braces or in a range, as objects or as pointers. A null pointer or an empty object means none
 *  at that index. With a const Object the call does not write the objects. */
template <class Object>
class list_of {
public:
  list_of() = default;
  list_of(std::initializer_list<Object *> objects) { add(objects); }
  template <class Range, class = detail::element<Range>,
            class = std::enable_if_t<!std::is_base_of_v<list_of, std::remove_cv_t<std::remove_reference_t<Range>>>>>
  list_of(Range &&objects) {
    add(objects);
  }
  auto data() const noexcept { return raw_.empty() ? nullptr : raw_.data(); } /**< null with a size of 0, as C takes it */
  std::size_t size() const noexcept { return raw_.size(); }

private:
  static auto raw(Object &object) noexcept { return object.get(); }
  static auto raw(Object *object) noexcept { return object == nullptr ? nullptr : object->get(); }
  template <class Range>
  void add(Range &objects) {
    raw_.reserve(std::size(objects));
    for (auto &object : objects) raw_.push_back(raw(object));
  }
  std::vector<decltype(std::declval<const Object &>().get())> raw_{};
};

/** The same as a member of options. It borrows the objects: they must remain valid until the call with the options. */
template <class Object>
class kept_list : public list_of<Object> {
public:
  kept_list() = default;
  kept_list(std::initializer_list<Object *> objects) : list_of<Object>(objects) {}
  template <class Range, class = detail::element<Range>,
            class = std::enable_if_t<!std::is_base_of_v<list_of<Object>, std::remove_cv_t<std::remove_reference_t<Range>>>>>
  kept_list(Range &&objects) : list_of<Object>(objects) {
    static_assert(detail::lasts<Range>, "the objects must outlive the options: give an lvalue or a span, not a temporary");
  }
};

/* ---- library and devices ----------------------------------------------------------------------------------------------- */

inline std::uint32_t version() noexcept { return iobind_get_version(); } /**< as iobind_get_version */
inline const char *version_string() noexcept { return iobind_get_version_string(); }
/** An EP of the catalogue. All strings of the catalogue have static lifetime. */
inline iobind_catalogue_info catalogue_ep(std::size_t index, error *failed = nullptr) {
  return detail::ask<iobind_catalogue_info>(failed, iobind_catalogue_get_ep, index);
}
inline iobind_option_info catalogue_option(const text &ep, std::size_t index, error *failed = nullptr) {
  return detail::ask<iobind_option_info>(failed, iobind_catalogue_get_option, ep, index);
}
inline iobind_conflict_info catalogue_conflict(const text &ep, std::size_t index, error *failed = nullptr) {
  return detail::ask<iobind_conflict_info>(failed, iobind_catalogue_get_conflict, ep, index);
}

/** A key and its value; the strings belong to the queried object. */
struct metadata_entry {
  const char *key = nullptr;
  const char *value = nullptr;
};

/** A device; it keeps its runtime alive. Empty if none was found. */
class device {
public:
  device() noexcept = default;
  explicit device(iobind_device *raw, error *failed = nullptr) {
    iobind_event *made = nullptr;
    if (raw == nullptr || !detail::call(failed, iobind_event_create, raw, &made)) return;
    alive_.reset(made, iobind_event_destroy);
    raw_ = raw;
  }
  device(const device &) = default;
  device(device &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)), alive_(std::move(other.alive_)) {}
  device &operator=(const device &) = default;
  device &operator=(device &&other) noexcept {
    raw_ = std::exchange(other.raw_, nullptr);
    alive_ = std::move(other.alive_);
    return *this;
  }
  ~device() = default;
  iobind_device *get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  friend bool operator==(const device &a, const device &b) noexcept { return a.raw_ == b.raw_; }
  friend bool operator!=(const device &a, const device &b) noexcept { return a.raw_ != b.raw_; }

  iobind_device_info info(error *failed = nullptr) const & {
    return detail::ask<iobind_device_info>(failed, iobind_device_get_info, raw_);
  }
  iobind_device_info info(error *failed = nullptr) const && = delete;
  std::string spec(error *failed = nullptr) const {
    const char *found = info(failed).spec;
    return found == nullptr ? std::string() : found;
  }
  metadata_entry metadata(std::size_t index, error *failed = nullptr) const & {
    metadata_entry found;
    detail::call(failed, iobind_device_get_metadata, raw_, index, &found.key, &found.value);
    return found;
  }
  metadata_entry metadata(std::size_t index, error *failed = nullptr) const && = delete;
  bool check(error *failed = nullptr) const { return detail::call(failed, iobind_device_check, raw_); }
  iobind_device_counters counters(error *failed = nullptr) const {
    return detail::ask<iobind_device_counters>(failed, iobind_device_get_counters, raw_);
  }
  iobind_memory_usage memory(iobind_holder holder = IOBIND_HOLDER_ANY, error *failed = nullptr) const {
    iobind_memory_usage usage = IOBIND_MEMORY_USAGE_INIT;
    detail::call(failed, iobind_device_get_memory, raw_, holder, &usage);
    return usage;
  }
  bool trim(error *failed = nullptr) const { return detail::call(failed, iobind_device_trim, raw_); }

private:
  iobind_device *raw_ = nullptr;
  std::shared_ptr<iobind_event> alive_{}; /* C has no references to devices; an event of the device keeps the runtime alive */
};

/** One loaded ORT. */
class runtime : public detail::owner<iobind_runtime, iobind_runtime_destroy> {
public:
  explicit runtime(std::nullptr_t) noexcept {} /**< empty */
  explicit runtime(error *failed = nullptr) : runtime(detail::sized<iobind_runtime_options>(), failed) {}
  explicit runtime(const iobind_runtime_options &options, error *failed = nullptr) {
    detail::call(failed, iobind_runtime_create, &options, out());
  }
  /** The first working device of a spec, such as "cuda,webgpu,cpu". */
  device find(const text &spec, error *failed = nullptr) const { return find_in(spec, nullptr, failed); }
  /** The same, also for specs that name a memory, such as "cuda/pinned". */
  device find(const text &spec, iobind_memory &memory, error *failed = nullptr) const { return find_in(spec, &memory, failed); }
  /** A device by its index; empty if the index is out of range. Index 0 is the CPU. */
  device at(std::size_t index, error *failed = nullptr) const { return device(iobind_runtime_get_device(get(), index), failed); }
  device cpu(error *failed = nullptr) const { return at(0, failed); }
  iobind_runtime_info info(error *failed = nullptr) const & {
    return detail::ask<iobind_runtime_info>(failed, iobind_runtime_get_info, get());
  }
  iobind_runtime_info info(error *failed = nullptr) const && = delete;
  bool register_ep(const text &name, const text &path, error *failed = nullptr) {
    return detail::call(failed, iobind_runtime_register_ep, get(), name, path);
  }
  /** An EP library that was found, registered or not. */
  iobind_ep_info ep(std::size_t index, error *failed = nullptr) const & {
    return detail::ask<iobind_ep_info>(failed, iobind_runtime_get_ep, get(), index);
  }
  iobind_ep_info ep(std::size_t index, error *failed = nullptr) const && = delete;

private:
  device find_in(const text &spec, iobind_memory *memory, error *failed) const {
    iobind_device *found = nullptr;
    return detail::call(failed, iobind_runtime_find_device, get(), spec, &found, memory) ? device(found, failed) : device();
  }
};

/* ---- streams and events ----------------------------------------------------------------------------------------------- */

class event : public detail::owner<iobind_event, iobind_event_destroy> {
public:
  event() noexcept = default;
  explicit event(iobind_event *taken) noexcept : owner(taken) {}
  explicit event(const device &where, error *failed = nullptr) { detail::call(failed, iobind_event_create, where.get(), out()); }
  bool wait(error *failed = nullptr) const { return detail::call(failed, iobind_event_wait, get(), IOBIND_NO_TIMEOUT); }
  /** Wait for at most `timeout`, then fail with TIMEOUT. nanoseconds::max(): no limit. */
  bool wait_for(std::chrono::nanoseconds timeout, error *failed = nullptr) const {
    return detail::call(failed, iobind_event_wait, get(), limit(timeout));
  }
  /** Poll without blocking. Also false if the work before the event failed; the error then has the reason. */
  bool signaled(error *failed = nullptr) const {
    std::int32_t done = 0;
    return detail::call(failed, iobind_event_query, get(), &done) && done != 0;
  }
  static std::uint64_t limit(std::chrono::nanoseconds timeout) noexcept {
    return timeout == timeout.max() ? IOBIND_NO_TIMEOUT : timeout.count() < 0 ? 0 : static_cast<std::uint64_t>(timeout.count());
  }
};

class stream : public detail::owner<iobind_stream, iobind_stream_destroy> {
public:
  stream() noexcept = default;
  explicit stream(iobind_stream *taken) noexcept : owner(taken) {}
  explicit stream(const device &where, error *failed = nullptr) : stream(where, detail::sized<iobind_stream_options>(), failed) {}
  stream(const device &where, const iobind_stream_options &options, error *failed = nullptr) {
    detail::call(failed, iobind_stream_create, where.get(), &options, out());
  }
  bool synchronize(error *failed = nullptr) { return detail::call(failed, iobind_stream_synchronize, get()); }
  bool wait(const event &before, error *failed = nullptr) {
    return detail::call(failed, iobind_stream_wait, get(), before.get());
  }
  bool record(event &into, error *failed = nullptr) { return detail::call(failed, iobind_event_record, into.get(), get()); }
  /** The EP's native stream, valid as long as this object; null if there is none. Defined in interop.hpp. */
  inline void *native() const & noexcept;
  void *native() const && = delete;
};

/* ---- tensors ---------------------------------------------------------------------------------------------------------- */

/** A reference to a tensor. A const tensor is not written: only `read` and the other const members accept it. */
class tensor : public detail::owner<iobind_tensor, iobind_tensor_release> {
public:
  tensor() noexcept = default;
  explicit tensor(iobind_tensor *taken) noexcept : owner(taken) {} /**< takes over the reference */
  tensor(const device &where, iobind_dtype dtype, const shape &dims, iobind_memory memory = IOBIND_MEMORY_DEFAULT,
         error *failed = nullptr) {
    detail::call(failed, iobind_tensor_create, where.get(), memory, dtype, dims.data(), dims.rank(), out());
  }
  tensor(const device &where, iobind_dtype dtype, const shape &dims, error *failed)
      : tensor(where, dtype, dims, IOBIND_MEMORY_DEFAULT, failed) {}
  /** A tensor of the element type of a C++ type; its content is undefined. */
  template <class T>
  static tensor of(const device &where, const shape &dims, iobind_memory memory = IOBIND_MEMORY_DEFAULT, error *failed = nullptr) {
    return tensor(where, dtype_of<T>::value, dims, memory, failed);
  }
  template <class T>
  static tensor of(const device &where, const shape &dims, error *failed) {
    return of<T>(where, dims, IOBIND_MEMORY_DEFAULT, failed);
  }
  /** A tensor with these values; their number must match the dims. */
  template <class Range>
  static tensor from(const device &where, const shape &dims, const Range &values, error *failed = nullptr) {
    tensor made;
    if constexpr (detail::is_bits<Range>) {
      made = of<bool>(where, dims, failed);
    } else {
      made = of<std::remove_cv_t<detail::element<const Range>>>(where, dims, failed);
    }
    if (made && !made.write(values, failed)) made = tensor();
    return made;
  }
  template <class T>
  static tensor from(const device &where, const shape &dims, std::initializer_list<T> values, error *failed = nullptr) {
    return from(where, dims, span<const T>(values.begin(), values.size()), failed);
  }
  /** A tensor over the caller's memory, which must outlive it: on the host, or on a device (a span over the device address). */
  template <class Range>
  static tensor wrap(const device &where, const shape &dims, Range &&memory, error *failed = nullptr) {
    using T = detail::element<Range>;
    static_assert(detail::lasts<Range>, "the memory must outlive the tensor: give an lvalue or a span, not a temporary");
    static_assert(!std::is_const_v<T>, "a tensor's memory can be written: const memory cannot be wrapped");
    return wrap(where, dtype_of<T>::value, dims, std::data(memory), std::size(memory) * sizeof(T), nullptr, nullptr, failed);
  }
  /** A tensor over memory that is passed to the deleter at the end; see iobind_tensor_wrap. */
  static tensor wrap(const device &where, iobind_dtype dtype, const shape &dims, void *data, std::size_t bytes,
                     iobind_deleter deleter, void *context, error *failed = nullptr) {
    return wrap(where, IOBIND_MEMORY_DEFAULT, dtype, dims, data, bytes, deleter, context, failed);
  }
  static tensor wrap(const device &where, iobind_memory memory, iobind_dtype dtype, const shape &dims, void *data,
                     std::size_t bytes, iobind_deleter deleter, void *context, error *failed = nullptr) {
    tensor made;
    iobind_buffer buffer = detail::sized<iobind_buffer>();
    buffer.memory = memory;
    buffer.dtype = dtype;
    buffer.dims = dims.data();
    buffer.rank = dims.rank();
    buffer.data = data;
    buffer.bytes = bytes;
    buffer.deleter = deleter;
    buffer.context = context;
    detail::call(failed, iobind_tensor_wrap, where.get(), &buffer, made.out());
    return made;
  }
  /** One more reference. */
  [[nodiscard]] tensor share() noexcept { return tensor(get() == nullptr ? nullptr : iobind_tensor_retain(get())); }
  [[nodiscard]] tensor slice(std::int64_t start, std::int64_t count, error *failed = nullptr) {
    tensor made;
    detail::call(failed, iobind_tensor_slice, get(), start, count, made.out());
    return made;
  }
  [[nodiscard]] tensor view(std::size_t offset, iobind_dtype dtype, const shape &dims, error *failed = nullptr) {
    tensor made;
    detail::call(failed, iobind_tensor_view, get(), offset, dtype, dims.data(), dims.rank(), made.out());
    return made;
  }

  iobind_tensor_info info(error *failed = nullptr) const & { return ask(failed); }
  iobind_tensor_info info(error *failed = nullptr) const && = delete;
  shape dims(error *failed = nullptr) const {
    iobind_tensor_info it = ask(failed);
    return shape(span<const std::int64_t>(it.dims, it.rank));
  }
  iobind_dtype dtype(error *failed = nullptr) const { return static_cast<iobind_dtype>(ask(failed).dtype); }
  std::size_t bytes(error *failed = nullptr) const { return ask(failed).bytes; }
  device where(error *failed = nullptr) const {
    iobind_device *found = ask(failed).device;
    return found == nullptr ? device() : device(found, failed);
  }
  /** The difference from a reference, both in host memory. Without a tolerance, the default of the type applies. */
  iobind_difference compare(const tensor &right, error *failed = nullptr) const { return compare_by(right, nullptr, failed); }
  iobind_difference compare(const tensor &right, const iobind_tolerance &tolerance, error *failed = nullptr) const {
    return compare_by(right, &tolerance, failed);
  }
  /** The address on any device, for other libraries that work there; valid as long as the tensor. */
  void *address() & noexcept { return iobind_tensor_get_address(get()); }
  const void *address() const & noexcept { return iobind_tensor_get_address(get()); }
  void *address() const && = delete;

  /** Write all elements. On a stream the range must not change until the copy is complete. */
  template <class Range>
  bool write(const Range &values, error *failed = nullptr) {
    if constexpr (detail::is_bits<Range>) {
      auto copy = std::make_unique<bool[]>(values.size());
      std::copy(values.begin(), values.end(), copy.get());
      return put(span<const bool>(copy.get(), values.size()), nullptr, failed);
    } else if constexpr (std::is_same_v<std::remove_cv_t<detail::element<const Range>>, std::string>) {
      return put_strings(values, failed);
    } else {
      return put(values, nullptr, failed);
    }
  }
  template <class Range>
  bool write(Range &&values, stream &on, error *failed = nullptr) {
    static_assert(detail::lasts<Range>, "a stream reads the memory after the call: give an lvalue or a span, not a temporary");
    return detail::refuse_empty(failed, on, "tensor_write: stream") && put(values, on.get(), failed);
  }
  /** Write a part: the elements from index `first`, as many as the range has. */
  template <class Range>
  bool write_part(std::size_t first, const Range &values, error *failed = nullptr) {
    using T = std::remove_cv_t<detail::element<const Range>>;
    return is<T>(failed) && starts<T>(first, failed) &&
           detail::call(failed, iobind_tensor_write, get(), first * sizeof(T), std::data(values), std::size(values) * sizeof(T),
                        nullptr);
  }
  template <class Range>
  bool read(Range &&values, error *failed = nullptr) const {
    static_assert(detail::lasts<Range>, "the elements would be lost with the temporary: give an lvalue or a span");
    return fetch(values, nullptr, failed);
  }
  /** Read elements. On a stream they are valid when a wait or a query has reported that the copy is complete. */
  template <class Range>
  bool read(Range &&values, stream &on, error *failed = nullptr) const {
    static_assert(detail::lasts<Range>, "a stream writes the memory after the call: give an lvalue or a span, not a temporary");
    return detail::refuse_empty(failed, on, "tensor_read: stream") && fetch(values, on.get(), failed);
  }
  template <class Range>
  bool read_part(std::size_t first, Range &&values, error *failed = nullptr) const {
    using T = detail::element<Range>;
    static_assert(detail::lasts<Range>, "the elements would be lost with the temporary: give an lvalue or a span");
    static_assert(!std::is_const_v<T>, "elements cannot be read into const memory");
    return is<T>(failed) && starts<T>(first, failed) &&
           detail::call(failed, iobind_tensor_read, get(), first * sizeof(T), std::data(values), std::size(values) * sizeof(T),
                        nullptr);
  }
  /** Read all elements into a new vector. */
  template <class T>
  std::vector<T> read(error *failed = nullptr) const {
    std::vector<T> values;
    if (!is<T>(failed)) return values;
    if constexpr (std::is_same_v<T, bool>) {
      const std::size_t count = bytes();
      auto copy = std::make_unique<bool[]>(count);
      if (fetch(span<bool>(copy.get(), count), nullptr, failed)) values.assign(copy.get(), copy.get() + count);
    } else if constexpr (std::is_same_v<T, std::string>) {
      values.resize(count());
      for (std::size_t i = 0; i < values.size(); i++) {
        if (!get_string(i, values[i], failed)) return {};
      }
    } else {
      values.resize(bytes() / sizeof(T));
      if (!fetch(values, nullptr, failed)) values.clear();
    }
    return values;
  }
  /** The elements in the tensor's own memory, if the host can read it; valid as long as the tensor. The call waits for work in flight
   *  that writes the tensor, and if it is not const, also for work that reads it. Call it again after the next call that uses the
   *  tensor. */
  template <class T>
  span<T> data(error *failed = nullptr) & {
    return look<T>(failed);
  }
  template <class T>
  span<const T> data(error *failed = nullptr) const & {
    return look<const T>(failed);
  }
  template <class T>
  span<T> data(error *failed = nullptr) const && = delete;

  bool get_string(std::size_t index, std::string &value, error *failed = nullptr) const {
    std::size_t needed = 0;
    if (!detail::call(failed, iobind_tensor_get_string, get(), index, nullptr, 0u, &needed)) return false;
    value.resize(needed);
    return detail::call(failed, iobind_tensor_get_string, get(), index, value.data(), value.size(), &needed);
  }
  bool set_string(std::size_t index, const text &value, error *failed = nullptr) {
    return detail::call(failed, iobind_tensor_set_string, get(), index, value);
  }

  /** Copy another tensor of the same type and dims, between any two devices. On a stream both must remain valid until the copy is
   *  complete. */
  bool copy(const tensor &source, error *failed = nullptr) { return copy_on(source, nullptr, failed); }
  bool copy(const tensor &source, stream &on, error *failed = nullptr) {
    return detail::refuse_empty(failed, on, "tensor_copy: stream") && copy_on(source, on.get(), failed);
  }

private:
  iobind_difference compare_by(const tensor &right, const iobind_tolerance *tolerance, error *failed) const {
    iobind_difference found = detail::sized<iobind_difference>();
    detail::call(failed, iobind_tensor_compare, get(), right.get(), tolerance, &found);
    return found;
  }
  iobind_tensor_info ask(error *failed) const {
    return detail::ask<iobind_tensor_info>(failed, iobind_tensor_get_info, get());
  }
  bool copy_on(const tensor &source, iobind_stream *on, error *failed) {
    const iobind_tensor *const from = source.get();
    iobind_tensor *const to = get();
    return detail::call(failed, iobind_tensor_copy, &from, &to, 1u, on);
  }
  std::size_t count() const {
    std::size_t product = 1;
    for (std::int64_t dim : dims()) product *= static_cast<std::size_t>(dim);
    return product;
  }
  template <class T>
  bool is(error *failed) const {
    constexpr iobind_dtype wanted = dtype_of<std::remove_cv_t<T>>::value;
    iobind_tensor_info it = detail::sized<iobind_tensor_info>();
    return detail::call(failed, iobind_tensor_get_info, get(), &it) &&
           (wanted == it.dtype || (wanted == IOBIND_DTYPE_UNDEFINED && it.dtype != IOBIND_DTYPE_STRING) ||
            detail::refuse(failed, IOBIND_ERROR_DTYPE, "tensor", iobind_dtype_get_name(it.dtype), iobind_dtype_get_name(wanted)));
  }
  template <class T>
  bool fits(std::size_t given, error *failed) const {
    return is<T>(failed) && detail::refuse_count(failed, "tensor: the number of elements", bytes() / sizeof(T), given);
  }
  template <class T>
  bool starts(std::size_t first, error *failed) const {
    return first <= SIZE_MAX / sizeof(T) ||
           detail::refuse(failed, IOBIND_ERROR_INVALID_ARGUMENT, "tensor", "a part inside it", std::to_string(first).c_str());
  }
  template <class Range>
  bool put(const Range &values, iobind_stream *on, error *failed) {
    using T = std::remove_cv_t<detail::element<const Range>>;
    return fits<T>(std::size(values), failed) &&
           detail::call(failed, iobind_tensor_write, get(), 0u, std::data(values), std::size(values) * sizeof(T), on);
  }
  template <class Range>
  bool put_strings(const Range &values, error *failed) {
    if (!is<std::string>(failed) || !detail::refuse_count(failed, "tensor: the number of elements", count(), std::size(values))) {
      return false;
    }
    std::size_t index = 0;
    for (const std::string &value : values) {
      if (!set_string(index++, value, failed)) return false;
    }
    return true;
  }
  template <class Range>
  bool fetch(Range &&values, iobind_stream *on, error *failed) const {
    using T = detail::element<Range>;
    static_assert(!std::is_const_v<T>, "elements cannot be read into const memory");
    return fits<T>(std::size(values), failed) &&
           detail::call(failed, iobind_tensor_read, get(), 0u, std::data(values), std::size(values) * sizeof(T), on);
  }
  template <class T>
  span<T> look(error *failed) const {
    void *first = nullptr;
    constexpr iobind_access access = std::is_const_v<T> ? IOBIND_ACCESS_READ : IOBIND_ACCESS_WRITE;
    bool there = detail::call(failed, iobind_tensor_map, get(), dtype_of<std::remove_cv_t<T>>::value, access, &first);
    return there ? span<T>(static_cast<T *>(first), bytes() / sizeof(T)) : span<T>();
  }
};

/** Copy pair by pair; see iobind_tensor_copy. */
inline bool copy(const list_of<const tensor> &sources, const list_of<tensor> &targets, error *failed = nullptr) {
  return detail::refuse_count(failed, "tensor_copy: the number of targets", sources.size(), targets.size()) &&
         detail::call(failed, iobind_tensor_copy, sources.data(), targets.data(), sources.size(), nullptr);
}
inline bool copy(const list_of<const tensor> &sources, const list_of<tensor> &targets, stream &on, error *failed = nullptr) {
  return detail::refuse_empty(failed, on, "tensor_copy: stream") &&
         detail::refuse_count(failed, "tensor_copy: the number of targets", sources.size(), targets.size()) &&
         detail::call(failed, iobind_tensor_copy, sources.data(), targets.data(), sources.size(), on.get());
}

/* ---- states ----------------------------------------------------------------------------------------------------------- */

/** The saved content of a binding's carried inputs; it never changes. It comes from binding::save or session::load_state. */
class state : public detail::owner<iobind_state, iobind_state_release> {
public:
  state() noexcept = default;
  /** Takes over the reference; `of` is the session that the state was saved from or loaded for. */
  state(iobind_state *taken, iobind_session *of, error *failed = nullptr) : owner(taken), session_(of) {
    const std::size_t count = taken == nullptr ? 0 : ask(failed).pair_count;
    tensors_.reserve(count);
    for (std::size_t i = 0; i < count; i++) tensors_.emplace_back(iobind_tensor_retain(pair(i, failed).tensor));
  }
  state(const state &) = delete;
  state &operator=(const state &) = delete;
  state(state &&other) noexcept = default;
  state &operator=(state &&other) noexcept = default;
  ~state() = default;
  /** One more reference. */
  [[nodiscard]] state share(error *failed = nullptr) const {
    return state(get() == nullptr ? nullptr : iobind_state_retain(get()), session_, failed);
  }
  std::size_t size() const noexcept { return tensors_.size(); } /**< carried inputs */
  std::size_t bytes(error *failed = nullptr) const { return ask(failed).bytes; }
  /** The device that computed it, such as "cuda:0"; valid as long as the state. */
  const char *device_spec(error *failed = nullptr) const & { return ask(failed).device_spec; }
  const char *device_spec(error *failed = nullptr) const && = delete;
  /** The version of ORT that computed it, such as "1.31.1"; valid as long as the state. */
  const char *ort_version(error *failed = nullptr) const & { return ask(failed).ort_version; }
  const char *ort_version(error *failed = nullptr) const && = delete;
  /** A carried input, in the order of the inputs; its tensor is borrowed. */
  iobind_state_pair pair(std::size_t index, error *failed = nullptr) const & {
    return detail::ask<iobind_state_pair>(failed, iobind_state_get_pair, get(), index);
  }
  iobind_state_pair pair(std::size_t index, error *failed = nullptr) const && = delete;
  /** The tensor that a carried input reads after a restore; valid as long as the state. Empty if the call failed. */
  const tensor &at(const text &input, error *failed = nullptr) const & {
    std::size_t index = 0;
    if (!detail::call(failed, iobind_session_find_input, get() == nullptr ? nullptr : session_, input, &index)) return none_;
    for (std::size_t i = 0; i < size(); i++) {
      if (pair(i, failed).input == index) return tensors_[i];
    }
    detail::refuse(failed, IOBIND_ERROR_NOT_FOUND, "state", "a carried input", input.get());
    return none_;
  }
  const tensor &at(const text &input, error *failed = nullptr) const && = delete;
  /** Save the state to a file; an existing file is replaced. */
  bool save(const text &path, error *failed = nullptr) const { return detail::call(failed, iobind_state_save, get(), path); }

private:
  iobind_state_info ask(error *failed) const { return detail::ask<iobind_state_info>(failed, iobind_state_get_info, get()); }
  iobind_session *session_ = nullptr; /* remains valid as long as the state, even if its C++ object is gone */
  std::vector<tensor> tensors_{};
  tensor none_{};
};

/* ---- sessions --------------------------------------------------------------------------------------------------------- */

/** iobind_session_options with its arrays. */
struct session_options {
  std::vector<device> devices{};
  std::vector<std::pair<std::string, std::string>> ep{};     /**< EP options: "KEY" or "NAME.KEY" */
  std::vector<std::pair<std::string, std::string>> config{}; /**< ORT's session config entries */
  std::vector<std::pair<std::string, std::int64_t>> dims{};  /**< fixed values of the model's symbolic dims */
  std::string profile{};
  std::uint32_t flags = 0; /**< IOBIND_SESSION_* */
  iobind_policy policy = IOBIND_POLICY_NONE;
  std::int32_t optimization = 0;
  std::int32_t intra_op_threads = 0;
  std::int32_t inter_op_threads = 0;
  std::size_t graph_limit = 0;
  iobind_verify verify{}; /**< compare the first `runs` runs with those of the CPU */
  const stream *on = nullptr; /**< must remain valid until the session is created */
};

namespace detail {

/* Session options for C: valid as long as the objects that they were made of. */
class raw_session_options {
public:
  explicit raw_session_options(const session_options &from) : devices_(from.devices) {
    split(from.ep, ep_keys_, ep_values_);
    split(from.config, config_keys_, config_values_);
    for (const auto &dim : from.dims) {
      dim_names_.push_back(dim.first.c_str());
      dim_values_.push_back(dim.second);
    }
    raw_.flags = from.flags;
    raw_.devices = devices_.data();
    raw_.device_count = devices_.size();
    raw_.policy = from.policy;
    raw_.optimization = from.optimization;
    raw_.intra_op_threads = from.intra_op_threads;
    raw_.inter_op_threads = from.inter_op_threads;
    raw_.ep_keys = ep_keys_.data();
    raw_.ep_values = ep_values_.data();
    raw_.ep_option_count = ep_keys_.size();
    raw_.config_keys = config_keys_.data();
    raw_.config_values = config_values_.data();
    raw_.config_count = config_keys_.size();
    raw_.dim_names = dim_names_.data();
    raw_.dim_values = dim_values_.data();
    raw_.dim_count = dim_names_.size();
    raw_.profile = from.profile.empty() ? nullptr : from.profile.c_str();
    raw_.graph_limit = from.graph_limit;
    raw_.verify = from.verify;
    raw_.stream = from.on == nullptr ? nullptr : from.on->get();
  }
  const iobind_session_options *get() const noexcept { return &raw_; }

private:
  static void split(const std::vector<std::pair<std::string, std::string>> &from, std::vector<const char *> &keys,
                    std::vector<const char *> &values) {
    for (const auto &entry : from) {
      keys.push_back(entry.first.c_str());
      values.push_back(entry.second.c_str());
    }
  }
  list_of<const device> devices_;
  std::vector<const char *> ep_keys_{}, ep_values_{}, config_keys_{}, config_values_{}, dim_names_{};
  std::vector<std::int64_t> dim_values_{};
  iobind_session_options raw_ = sized<iobind_session_options>();
};

} // namespace detail

/** A run without a binding: iobind_run_request with its arrays. */
struct run_request {
  kept_list<const tensor> inputs{};
  kept_list<tensor> targets{};             /**< none, or one for each output, null for a new tensor */
  std::vector<iobind_placement> outputs{}; /**< none, or one for each output without a target */
  const iobind_run_options *options = nullptr;
};

class session : public detail::owner<iobind_session, iobind_session_destroy> {
public:
  session() noexcept = default;
  explicit session(iobind_session *taken) noexcept : owner(taken) {}
  session(const runtime &on, const text &path, const iobind_session_options &options, error *failed = nullptr) {
    detail::call(failed, iobind_session_create, on.get(), path, &options, out());
  }
  session(const runtime &on, const text &path, const session_options &options, error *failed = nullptr) {
    if (options.on != nullptr && !detail::refuse_empty(failed, *options.on, "session_create: stream")) return;
    detail::call(failed, iobind_session_create, on.get(), path, detail::raw_session_options(options).get(), out());
  }
  /** A session on a device, with the CPU as the last resort. */
  session(const runtime &on, const text &path, const device &where, error *failed = nullptr)
      : session(on, path, only(where), failed) {}
  /** A session from a model in memory, in any contiguous range, which may be freed after the call returns. */
  template <class Range>
  static session from_memory(const runtime &on, const Range &model, const iobind_session_options &options,
                             error *failed = nullptr) {
    static_assert(sizeof(detail::element<const Range>) == 1, "a model is bytes");
    session made;
    detail::call(failed, iobind_session_create_from_memory, on.get(), std::data(model), std::size(model), &options, made.out());
    return made;
  }
  template <class Range>
  static session from_memory(const runtime &on, const Range &model, const session_options &options, error *failed = nullptr) {
    if (options.on != nullptr && !detail::refuse_empty(failed, *options.on, "session_create: stream")) return session();
    return from_memory(on, model, *detail::raw_session_options(options).get(), failed);
  }
  template <class Range>
  static session from_memory(const runtime &on, const Range &model, const device &where, error *failed = nullptr) {
    return from_memory(on, model, only(where), failed);
  }
  /** A session over an `OrtSession *`; see iobind_session_wrap. Defined in interop.hpp. */
  static inline session wrap(const runtime &on, void *ort_session, iobind_deleter deleter, void *context,
                             error *failed = nullptr);

  iobind_session_info info(error *failed = nullptr) const & { return ask(failed); }
  iobind_session_info info(error *failed = nullptr) const && = delete;
  metadata_entry metadata(std::size_t index, error *failed = nullptr) const & {
    metadata_entry found;
    detail::call(failed, iobind_session_get_metadata, get(), index, &found.key, &found.value);
    return found;
  }
  metadata_entry metadata(std::size_t index, error *failed = nullptr) const && = delete;
  iobind_value_info input(std::size_t index, error *failed = nullptr) const & {
    return detail::ask<iobind_value_info>(failed, iobind_session_get_input, get(), index);
  }
  iobind_value_info input(std::size_t index, error *failed = nullptr) const && = delete;
  iobind_value_info output(std::size_t index, error *failed = nullptr) const & {
    return detail::ask<iobind_value_info>(failed, iobind_session_get_output, get(), index);
  }
  iobind_value_info output(std::size_t index, error *failed = nullptr) const && = delete;
  iobind_value_info input(const text &name, error *failed = nullptr) const & {
    std::size_t index = 0;
    return detail::call(failed, iobind_session_find_input, get(), name, &index) ? input(index, failed) : iobind_value_info{};
  }
  iobind_value_info input(const text &name, error *failed = nullptr) const && = delete;
  iobind_value_info output(const text &name, error *failed = nullptr) const & {
    std::size_t index = 0;
    return detail::call(failed, iobind_session_find_output, get(), name, &index) ? output(index, failed) : iobind_value_info{};
  }
  iobind_value_info output(const text &name, error *failed = nullptr) const && = delete;
  /** A node and the EP that runs it; the session needs IOBIND_SESSION_PLACEMENT. */
  iobind_node_info node(std::size_t index, error *failed = nullptr) const & {
    return detail::ask<iobind_node_info>(failed, iobind_session_get_node, get(), index);
  }
  iobind_node_info node(std::size_t index, error *failed = nullptr) const && = delete;

  /** Run once without a binding, with the inputs in the model's order. Returns the outputs, on the host. */
  std::vector<tensor> run(const list_of<const tensor> &inputs, error *failed = nullptr) const {
    iobind_run_request raw = detail::sized<iobind_run_request>();
    raw.inputs = inputs.data();
    raw.input_count = inputs.size();
    return run_raw(raw, failed);
  }
  std::vector<tensor> run_with(const run_request &request, error *failed = nullptr) const {
    std::vector<std::int32_t> placements(request.outputs.begin(), request.outputs.end());
    iobind_run_request raw = detail::sized<iobind_run_request>();
    raw.inputs = request.inputs.data();
    raw.input_count = request.inputs.size();
    raw.targets = request.targets.data();
    raw.target_count = request.targets.size();
    raw.placements = placements.empty() ? nullptr : placements.data();
    raw.placement_count = placements.size();
    raw.options = request.options;
    return run_raw(raw, failed);
  }
  /** Load a state from a file, into memory where the session reads its inputs. */
  [[nodiscard]] state load_state(const text &path, error *failed = nullptr) const {
    iobind_state *loaded = nullptr;
    return detail::call(failed, iobind_state_load, get(), path, &loaded) ? state(loaded, get(), failed) : state();
  }
  /** The kind of the state that an output leaves for an input; `kind` is an iobind_state_kind. */
  iobind_state_kind_info state_kind(const text &output, const text &input, error *failed = nullptr) const {
    std::size_t from = 0, to = 0;
    iobind_state_kind_info found = detail::sized<iobind_state_kind_info>();
    if (detail::call(failed, iobind_session_find_output, get(), output, &from) &&
        detail::call(failed, iobind_session_find_input, get(), input, &to)) {
      detail::call(failed, iobind_session_get_state_kind, get(), from, to, &found);
    }
    return found;
  }
  /** A tensor in the session's own memory, such as its arena on CUDA; see iobind_session_create_tensor. */
  tensor create_tensor(const device &where, iobind_dtype dtype, const shape &dims, iobind_memory memory = IOBIND_MEMORY_DEFAULT,
                       error *failed = nullptr) const {
    iobind_tensor *made = nullptr;
    detail::call(failed, iobind_session_create_tensor, get(), where.get(), memory, dtype, dims.data(), dims.rank(), &made);
    return tensor(made);
  }
  tensor create_tensor(const device &where, iobind_dtype dtype, const shape &dims, error *failed) const {
    return create_tensor(where, dtype, dims, IOBIND_MEMORY_DEFAULT, failed);
  }
  /** End the profile. Returns the file's path; empty if the call failed. */
  std::string end_profile(error *failed = nullptr) {
    const char *path = nullptr;
    return detail::call(failed, iobind_session_end_profile, get(), &path) ? path : std::string();
  }

private:
  static session_options only(const device &where) {
    session_options options;
    options.devices.push_back(where);
    return options;
  }
  std::vector<tensor> run_raw(const iobind_run_request &request, error *failed) const {
    std::vector<iobind_tensor *> raw(ask(failed).output_count);
    detail::call(failed, iobind_session_run, get(), &request, raw.data(), raw.size());
    std::vector<tensor> outputs;
    bool any = false;
    for (iobind_tensor *output : raw) {
      any = any || output != nullptr;
      outputs.emplace_back(output);
    }
    return any ? std::move(outputs) : std::vector<tensor>();
  }
  iobind_session_info ask(error *failed) const {
    return detail::ask<iobind_session_info>(failed, iobind_session_get_info, get());
  }
};

/* ---- bindings --------------------------------------------------------------------------------------------------------- */

/** An input or output of a binding, by the index of its name. It keeps the binding alive. */
class slot {
public:
  slot() noexcept = default;
  std::size_t index() const noexcept { return index_; }
  iobind_dtype dtype() const noexcept { return dtype_; } /**< the type that the model declares */
  explicit operator bool() const noexcept { return binding_ != nullptr; }

protected:
  friend class binding;
  slot(std::shared_ptr<iobind_binding> binding, std::size_t index, iobind_dtype dtype) noexcept
      : binding_(std::move(binding)), index_(index), dtype_(dtype) {}
  iobind_binding *raw() const noexcept { return binding_.get(); }

private:
  std::shared_ptr<iobind_binding> binding_{};
  std::size_t index_ = 0;
  iobind_dtype dtype_ = IOBIND_DTYPE_UNDEFINED;
};

class input_slot : public slot {
public:
  using slot::slot;
  /** Bind a tensor. A run does not write it, unless it is a state carried IN_PLACE. `update` writes it, unless it is a SNAPSHOT. */
  bool bind(const tensor &value, iobind_input_mode mode = IOBIND_INPUT_RESIDENT, const event *ready = nullptr,
            error *failed = nullptr) const {
    return (ready == nullptr || detail::refuse_empty(failed, *ready, "binding_set_input: event")) &&
           detail::call(failed, iobind_binding_set_input, raw(), index(), mode, value.get(),
                        ready == nullptr ? nullptr : ready->get());
  }
  bool bind(const tensor &value, error *failed) const { return bind(value, IOBIND_INPUT_RESIDENT, nullptr, failed); }
  /** Write new data into the bound input: all its elements. */
  template <class Range>
  bool update(const Range &values, error *failed = nullptr) const {
    if constexpr (detail::is_bits<Range>) {
      auto copy = std::make_unique<bool[]>(values.size());
      std::copy(values.begin(), values.end(), copy.get());
      return put(span<const bool>(copy.get(), values.size()), nullptr, failed);
    } else {
      return put(values, nullptr, failed);
    }
  }
  template <class Range>
  bool update(Range &&values, stream &on, error *failed = nullptr) const {
    static_assert(detail::lasts<Range>, "a stream reads the memory after the call: give an lvalue or a span, not a temporary");
    return detail::refuse_empty(failed, on, "binding_write_input: stream") && put(values, on.get(), failed);
  }

private:
  template <class Range>
  bool put(const Range &values, iobind_stream *on, error *failed) const {
    using T = std::remove_cv_t<detail::element<const Range>>;
    constexpr iobind_dtype given = dtype_of<T>::value;
    if (*this && given != dtype() && (given != IOBIND_DTYPE_UNDEFINED || dtype() == IOBIND_DTYPE_STRING)) {
      return detail::refuse(failed, IOBIND_ERROR_DTYPE, "binding_write_input", iobind_dtype_get_name(dtype()), iobind_dtype_get_name(given));
    }
    return detail::call(failed, iobind_binding_write_input, raw(), index(), std::data(values), std::size(values) * sizeof(T), on);
  }
};

class output_slot : public slot {
public:
  using slot::slot;
  /** Place the output where the session leaves it. */
  bool bind(iobind_output_mode mode, error *failed = nullptr) const { return place(mode, nullptr, IOBIND_MEMORY_DEFAULT, failed); }
  bool bind(iobind_output_mode mode, const device &where, iobind_memory memory = IOBIND_MEMORY_DEFAULT,
            error *failed = nullptr) const {
    return detail::refuse_empty(failed, where, "binding_place_output: device") && place(mode, where.get(), memory, failed);
  }
  /** Bind a tensor that each run overwrites. `flags`: IOBIND_OUTPUT_IN_PLACE or 0. */
  bool bind(tensor &target, std::uint32_t flags = 0, error *failed = nullptr) const {
    return detail::call(failed, iobind_binding_set_output, raw(), index(), target.get(), flags);
  }
  bool bind(tensor &&target, std::uint32_t flags = 0, error *failed = nullptr) const { return bind(target, flags, failed); }
  bool bind(tensor &target, iobind_output_mode mode, error *failed = nullptr) const = delete; /* a mode is not a flag */
  bool bind(tensor &&target, iobind_output_mode mode, error *failed = nullptr) const = delete;
  /** The last run's output, with a new reference; a later run may overwrite it unless the output is FRESH. */
  [[nodiscard]] tensor get(error *failed = nullptr) const {
    iobind_tensor *borrowed = nullptr;
    detail::call(failed, iobind_binding_get_output, raw(), index(), nullptr, &borrowed);
    return tensor(borrowed == nullptr ? nullptr : iobind_tensor_retain(borrowed));
  }
  /** The same without blocking for a run in flight: the output is for later work on the stream. */
  [[nodiscard]] tensor lend(stream &to, error *failed = nullptr) const {
    iobind_tensor *borrowed = nullptr;
    if (!detail::refuse_empty(failed, to, "binding_get_output: stream")) return tensor();
    detail::call(failed, iobind_binding_get_output, raw(), index(), to.get(), &borrowed);
    return tensor(borrowed == nullptr ? nullptr : iobind_tensor_retain(borrowed));
  }
  /** Take the last run's output: the caller owns it. */
  [[nodiscard]] tensor take(error *failed = nullptr) const {
    iobind_tensor *taken = nullptr;
    detail::call(failed, iobind_binding_take_output, raw(), index(), &taken);
    return tensor(taken);
  }

private:
  bool place(iobind_output_mode mode, iobind_device *where, iobind_memory memory, error *failed) const {
    return detail::call(failed, iobind_binding_place_output, raw(), index(), mode, where, memory);
  }
};

/** The bytes that each run of a binding moves, and why. */
class audit : public detail::owner<iobind_audit, iobind_audit_destroy> {
public:
  audit() noexcept = default;
  explicit audit(iobind_audit *taken) noexcept : owner(taken) {}
  iobind_audit_info info(error *failed = nullptr) const {
    return detail::ask<iobind_audit_info>(failed, iobind_audit_get_info, get());
  }
  iobind_audit_entry entry(std::size_t index, error *failed = nullptr) const & {
    return detail::ask<iobind_audit_entry>(failed, iobind_audit_get_entry, get(), index);
  }
  iobind_audit_entry entry(std::size_t index, error *failed = nullptr) const && = delete;
};

class binding {
public:
  binding() noexcept = default;
  explicit binding(const session &of, error *failed = nullptr) {
    iobind_binding *made = nullptr;
    if (!detail::call(failed, iobind_binding_create, of.get(), &made)) return;
    object_.reset(made, iobind_binding_destroy);
    session_ = of.get();
  }
  binding(const binding &) = delete;
  binding &operator=(const binding &) = delete;
  binding(binding &&other) noexcept = default;
  binding &operator=(binding &&other) noexcept = default;
  ~binding() = default;
  iobind_binding *get() const noexcept { return object_.get(); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

  input_slot input(const text &name, error *failed = nullptr) {
    std::size_t index = 0;
    return detail::call(failed, iobind_session_find_input, model(), name, &index) ? input(index, failed) : input_slot();
  }
  input_slot input(std::size_t index, error *failed = nullptr) {
    iobind_value_info value = detail::sized<iobind_value_info>();
    bool found = detail::call(failed, iobind_session_get_input, model(), index, &value);
    return found ? input_slot(object_, index, static_cast<iobind_dtype>(value.dtype)) : input_slot();
  }
  input_slot input(const text &name, const tensor &value, error *failed) {
    return input(name, value, IOBIND_INPUT_RESIDENT, nullptr, failed);
  }
  input_slot input(const text &name, const tensor &value, iobind_input_mode mode = IOBIND_INPUT_RESIDENT,
                   const event *ready = nullptr, error *failed = nullptr) {
    input_slot found = input(name, failed);
    return found && found.bind(value, mode, ready, failed) ? found : input_slot();
  }
  output_slot output(const text &name, error *failed = nullptr) {
    std::size_t index = 0;
    return detail::call(failed, iobind_session_find_output, model(), name, &index) ? output(index, failed) : output_slot();
  }
  output_slot output(std::size_t index, error *failed = nullptr) {
    iobind_value_info value = detail::sized<iobind_value_info>();
    bool found = detail::call(failed, iobind_session_get_output, model(), index, &value);
    return found ? output_slot(object_, index, static_cast<iobind_dtype>(value.dtype)) : output_slot();
  }
  /** Bind a tensor that each run overwrites. */
  output_slot output(const text &name, tensor &target, error *failed = nullptr) {
    output_slot found = output(name, failed);
    return found && found.bind(target, 0, failed) ? found : output_slot();
  }
  output_slot output(const text &name, tensor &&target, error *failed = nullptr) { return output(name, target, failed); }
  output_slot output(const text &name, const device &where, error *failed) {
    return output(name, where, IOBIND_OUTPUT_FRESH, failed);
  }
  /** Use new memory on a device in each run (FRESH), or the memory of the first run (REUSE). */
  output_slot output(const text &name, const device &where, iobind_output_mode mode = IOBIND_OUTPUT_FRESH,
                     error *failed = nullptr) {
    output_slot found = output(name, failed);
    return found && found.bind(mode, where, IOBIND_MEMORY_DEFAULT, failed) ? found : output_slot();
  }
  /** Place the output where the session leaves it; or NONE. */
  output_slot output(const text &name, iobind_output_mode mode, error *failed = nullptr) {
    output_slot found = output(name, failed);
    return found && found.bind(mode, failed) ? found : output_slot();
  }
  /** Carry the output to the input of the next run. */
  bool carry(const text &from, const text &to, iobind_carry_mode mode = IOBIND_CARRY_DEFAULT, error *failed = nullptr) {
    output_slot source = output(from, failed);
    input_slot target = source ? input(to, failed) : input_slot();
    return target && detail::call(failed, iobind_binding_carry, get(), source.index(), target.index(), mode);
  }
  /** Run. The run is complete when the call returns. On a stream the call returns when the run is submitted. */
  bool run(error *failed = nullptr) { return detail::call(failed, iobind_binding_run, get(), nullptr); }
  bool run(stream &on, error *failed = nullptr) {
    return detail::refuse_empty(failed, on, "binding_run: stream") && detail::call(failed, iobind_binding_run, get(), on.get());
  }
  /** The same; the event is recorded after the run. */
  bool run(stream &on, event &after, error *failed = nullptr) {
    return detail::refuse_empty(failed, after, "binding_run: event") && run(on, failed) && on.record(after, failed);
  }
  /** Save the content that the next run would read from its carried inputs. */
  [[nodiscard]] state save(error *failed = nullptr) {
    iobind_state *saved = nullptr;
    return detail::call(failed, iobind_binding_save_state, get(), &saved) ? state(saved, session_, failed) : state();
  }
  /** Restore a state of this binding, or of another binding of the same session. */
  bool restore(const state &from, error *failed = nullptr) {
    return detail::call(failed, iobind_binding_restore_state, get(), from.get());
  }
  /** Reorder the rows of all carried states: the new row i is the old row `rows[i]`. A range of integers, or {2, 0, 0}. */
  template <class Range, class = std::enable_if_t<std::is_integral_v<detail::element<const Range>>>>
  bool reorder(std::size_t axis, const Range &rows, error *failed = nullptr) {
    const std::vector<std::int64_t> old(std::begin(rows), std::end(rows));
    return detail::call(failed, iobind_binding_reorder_state, get(), axis, old.data(), old.size());
  }
  bool reorder(std::size_t axis, std::initializer_list<std::int64_t> rows, error *failed = nullptr) {
    return reorder(axis, span<const std::int64_t>(rows.begin(), rows.size()), failed);
  }
  /** Name the role of an input for write_lengths, if the model's graph does not show it.
   *  @param axis  IOBIND_LENGTH_CACHE: the axis of its rows */
  bool name_length(const text &name, iobind_length_role role, std::size_t axis = 0, error *failed = nullptr) {
    input_slot found = input(name, failed);
    return found && detail::call(failed, iobind_binding_name_length, get(), found.index(), role, axis);
  }
  /** Write the lengths of carried caches of fixed capacity, for a run that adds so many rows. -1: the length that iobind has
   *  counted. */
  bool write_lengths(std::size_t added, std::int64_t length = -1, error *failed = nullptr) {
    return detail::call(failed, iobind_binding_write_lengths, get(), added, length == -1 ? nullptr : &length,
                        static_cast<std::size_t>(length != -1), nullptr);
  }
  bool write_lengths(std::size_t added, std::int64_t length, stream &on, error *failed = nullptr) {
    return detail::refuse_empty(failed, on, "binding_write_lengths: stream") &&
           detail::call(failed, iobind_binding_write_lengths, get(), added, length == -1 ? nullptr : &length,
                        static_cast<std::size_t>(length != -1), on.get());
  }
  /** A length for each row of the batch: a range of integers, or {3, 5}. */
  template <class Range, class = std::enable_if_t<std::is_integral_v<detail::element<const Range>>>>
  bool write_lengths(std::size_t added, const Range &lengths, error *failed = nullptr) {
    return write_each(added, {std::begin(lengths), std::end(lengths)}, nullptr, failed);
  }
  template <class Range, class = std::enable_if_t<std::is_integral_v<detail::element<const Range>>>>
  bool write_lengths(std::size_t added, const Range &lengths, stream &on, error *failed = nullptr) {
    return detail::refuse_empty(failed, on, "binding_write_lengths: stream") &&
           write_each(added, {std::begin(lengths), std::end(lengths)}, on.get(), failed);
  }
  bool write_lengths(std::size_t added, std::initializer_list<std::int64_t> lengths, error *failed = nullptr) {
    return write_each(added, lengths, nullptr, failed);
  }
  bool write_lengths(std::size_t added, std::initializer_list<std::int64_t> lengths, stream &on, error *failed = nullptr) {
    return detail::refuse_empty(failed, on, "binding_write_lengths: stream") && write_each(added, lengths, on.get(), failed);
  }
  /** Shorten all carried states, which are growing or caches of fixed capacity: the first rows remain. */
  bool rewind(std::size_t length, error *failed = nullptr) {
    return detail::call(failed, iobind_binding_rewind_state, get(), length);
  }
  bool check(error *failed = nullptr) { return detail::call(failed, iobind_binding_check, get()); }
  /** The next run without a stream, on any thread, is in flight from now on. */
  bool announce_run(error *failed = nullptr) { return detail::call(failed, iobind_binding_announce_run, get(), 1); }
  /** The announced run is not made. */
  bool withdraw_run(error *failed = nullptr) { return detail::call(failed, iobind_binding_announce_run, get(), 0); }
  /** Stop the run in flight, from any thread. */
  bool cancel(error *failed = nullptr) const { return detail::call(failed, iobind_binding_cancel, get()); }
  bool clear(error *failed = nullptr) { return detail::call(failed, iobind_binding_clear, get()); }
  bool forget_graphs(error *failed = nullptr) { return detail::call(failed, iobind_binding_reset_graphs, get()); }
  bool set_run_options(const iobind_run_options &options, error *failed = nullptr) {
    return detail::call(failed, iobind_binding_set_run_options, get(), &options);
  }
  iobind::audit audit(error *failed = nullptr) {
    iobind_audit *made = nullptr;
    detail::call(failed, iobind_audit_create, get(), &made);
    return iobind::audit(made);
  }

private:
  bool write_each(std::size_t added, const std::vector<std::int64_t> &lengths, iobind_stream *on, error *failed) {
    const std::int64_t none = 0; /* an empty range is not "as iobind has counted" */
    return detail::call(failed, iobind_binding_write_lengths, get(), added, lengths.empty() ? &none : lengths.data(),
                        lengths.size(), on);
  }
  iobind_session *model() const noexcept { return object_ == nullptr ? nullptr : session_; }
  std::shared_ptr<iobind_binding> object_{}; /* its slots share it */
  iobind_session *session_ = nullptr;        /* remains valid as long as the binding, even if its C++ object is gone */
};

/* ---- batches ---------------------------------------------------------------------------------------------------------- */

/** iobind_batch_options with its arrays, by name. */
struct batch_options {
  std::size_t most_rows = 0;
  std::vector<std::pair<std::string, std::string>> states{}; /**< an output, and the input that it becomes in the row's next step */
  std::vector<std::pair<std::string, std::int32_t>> axes{};  /**< empty: found by name; or one for each input and output,
                                                                  IOBIND_BATCH_NO_AXIS for none */
  const state *first = nullptr;                              /**< must remain valid until the batch is created */
  double tolerance = 0;
  std::uint32_t flags = 0; /**< IOBIND_BATCH_* */
};

/** The conditions on which batch::step makes a step. */
struct batch_wait {
  std::size_t rows = 16;                     /**< when so many rows are submitted */
  std::chrono::nanoseconds longest{1000000}; /**< or when one of them has waited so long */
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max(); /**< for the first row; max(): no limit */
};

namespace detail {

/* Batch options for C: valid as long as the objects that they were made of. */
class raw_batch_options {
public:
  bool fill(const batch_options &from, iobind_session *of, error *failed) {
    raw_.flags = from.flags;
    raw_.most_rows = from.most_rows;
    raw_.first = from.first == nullptr ? nullptr : from.first->get();
    raw_.tolerance = from.tolerance;
    return add_states(from, of, failed) && (from.axes.empty() || add_axes(from, of, failed));
  }
  const iobind_batch_options *get() const noexcept { return &raw_; }

private:
  static constexpr std::int32_t unknown_axis = INT32_MIN;

  bool add_states(const batch_options &from, iobind_session *of, error *failed) {
    for (const auto &names : from.states) {
      iobind_batch_pair pair = {};
      if (!call(failed, iobind_session_find_output, of, text(names.first), &pair.output) ||
          !call(failed, iobind_session_find_input, of, text(names.second), &pair.input)) {
        return false;
      }
      pairs_.push_back(pair);
    }
    raw_.pairs = pairs_.empty() ? nullptr : pairs_.data();
    raw_.pair_count = pairs_.size();
    return true;
  }
  bool add_axes(const batch_options &from, iobind_session *of, error *failed) {
    iobind_session_info model = sized<iobind_session_info>();
    if (!call(failed, iobind_session_get_info, of, &model)) return false;
    input_axes_.assign(model.input_count, unknown_axis);
    output_axes_.assign(model.output_count, unknown_axis);
    for (const auto &axis : from.axes) {
      error none; /* an input may also be an output */
      std::size_t index = 0;
      bool is_input = call(&none, iobind_session_find_input, of, text(axis.first), &index);
      if (is_input) input_axes_[index] = axis.second;
      bool is_output = call(is_input ? &none : failed, iobind_session_find_output, of, text(axis.first), &index);
      if (is_output) output_axes_[index] = axis.second;
      if (!is_input && !is_output) return false;
    }
    raw_.input_axes = input_axes_.data();
    raw_.input_axis_count = input_axes_.size();
    raw_.output_axes = output_axes_.data();
    raw_.output_axis_count = output_axes_.size();
    return has_all(input_axes_, of, iobind_session_get_input, failed) && has_all(output_axes_, of, iobind_session_get_output, failed);
  }
  template <class Describe>
  static bool has_all(const std::vector<std::int32_t> &axes, iobind_session *of, Describe describe, error *failed) {
    const auto without = std::find(axes.begin(), axes.end(), unknown_axis);
    if (without == axes.end()) return true;
    iobind_value_info value = sized<iobind_value_info>();
    const auto index = static_cast<std::size_t>(without - axes.begin());
    return call(failed, describe, of, index, &value) &&
           refuse(failed, IOBIND_ERROR_INVALID_ARGUMENT, "batch_create: axes", "one for each input and output",
                  (std::string("none for '") + value.name + "'").c_str());
  }

  std::vector<iobind_batch_pair> pairs_{};
  std::vector<std::int32_t> input_axes_{}, output_axes_{};
  iobind_batch_options raw_ = sized<iobind_batch_options>();
};

} // namespace detail

/** A row of a batch, from batch::join. It keeps the batch alive; its destructor makes it leave. As an argument of batch::run it is
 *  its slot. */
class row {
public:
  row() noexcept = default;
  row(const row &) = delete;
  row &operator=(const row &) = delete;
  row(row &&other) noexcept : batch_(std::move(other.batch_)), session_(other.session_), slot_(std::exchange(other.slot_, 0u)) {}
  row &operator=(row &&other) noexcept {
    if (this != &other) {
      drop();
      batch_ = std::move(other.batch_);
      session_ = other.session_;
      slot_ = std::exchange(other.slot_, 0u); /* no row has this slot */
    }
    return *this;
  }
  ~row() { drop(); }
  std::uint64_t slot() const noexcept { return slot_; }
  operator std::uint64_t() const noexcept { return slot_; }
  explicit operator bool() const noexcept { return batch_ != nullptr; } /**< it has not left */

  /** Set an input of the next step; it is copied. */
  bool set(const text &input, const tensor &value, error *failed = nullptr) {
    std::size_t index = 0;
    return detail::call(failed, iobind_session_find_input, model(), input, &index) && set(index, value, failed);
  }
  bool set(std::size_t index, const tensor &value, error *failed = nullptr) {
    return detail::call(failed, iobind_batch_set_input, batch_.get(), slot_, index, value.get());
  }
  /** An output of the last step; no later step overwrites it. */
  [[nodiscard]] tensor output(const text &name, error *failed = nullptr) const {
    std::size_t index = 0;
    return detail::call(failed, iobind_session_find_output, model(), name, &index) ? output(index, failed) : tensor();
  }
  [[nodiscard]] tensor output(std::size_t index, error *failed = nullptr) const {
    iobind_tensor *found = nullptr;
    detail::call(failed, iobind_batch_take_output, batch_.get(), slot_, index, &found);
    return tensor(found);
  }
  [[nodiscard]] state save(error *failed = nullptr) const {
    iobind_state *saved = nullptr;
    return detail::call(failed, iobind_batch_save_state, batch_.get(), slot_, &saved) ? state(saved, session_, failed) : state();
  }
  /** Leave. After a failure the row has not left. */
  bool leave(error *failed = nullptr) {
    if (!detail::call(failed, iobind_batch_leave, batch_.get(), slot_, nullptr)) return false;
    batch_.reset();
    return true;
  }
  /** Leave, and return the state. */
  [[nodiscard]] state leave_saved(error *failed = nullptr) {
    iobind_state *saved = nullptr;
    if (!detail::call(failed, iobind_batch_leave, batch_.get(), slot_, &saved)) return state();
    state taken(saved, session_, failed); /* the session's objects keep it alive */
    batch_.reset();
    return taken;
  }
  /** Submit the row for the next batch::step, which another thread makes. */
  bool submit(error *failed = nullptr) { return detail::call(failed, iobind_batch_submit, batch_.get(), slot_); }
  bool wait(error *failed = nullptr) { return wait_for(std::chrono::nanoseconds::max(), failed); }
  /** Wait for the step. After a failure with TIMEOUT the row remains submitted. */
  bool wait_for(std::chrono::nanoseconds timeout, error *failed = nullptr) {
    return detail::call(failed, iobind_batch_await, batch_.get(), slot_, event::limit(timeout));
  }

private:
  friend class batch;
  row(std::shared_ptr<iobind_batch> of, iobind_session *session, std::uint64_t number) noexcept
      : batch_(std::move(of)), session_(session), slot_(number) {}
  iobind_session *model() const noexcept { return batch_ == nullptr ? nullptr : session_; }
  void drop() noexcept { /* the first call may return the failure of the step in flight; the second one makes the row leave */
    if (batch_ != nullptr && iobind_batch_leave(batch_.get(), slot_, nullptr, nullptr) != IOBIND_OK) {
      static_cast<void>(!iobind_batch_leave(batch_.get(), slot_, nullptr, nullptr));
    }
    batch_.reset();
  }
  std::shared_ptr<iobind_batch> batch_{};
  iobind_session *session_ = nullptr; /* remains valid as long as the batch */
  std::uint64_t slot_ = 0;
};

/** Many independent sequences as rows of one run of a recurrent model; see iobind_batch_create. Any thread may call it. */
class batch {
public:
  batch() noexcept = default;
  batch(const session &of, const batch_options &options, error *failed = nullptr) {
    detail::raw_batch_options raw;
    iobind_batch *made = nullptr;
    if (!raw.fill(options, of.get(), failed) || !detail::call(failed, iobind_batch_create, of.get(), raw.get(), &made)) return;
    object_.reset(made, iobind_batch_destroy);
    session_ = of.get();
    most_rows_ = options.most_rows;
  }
  batch(const batch &) = delete;
  batch &operator=(const batch &) = delete;
  batch(batch &&other) noexcept = default;
  batch &operator=(batch &&other) noexcept = default;
  ~batch() = default;
  iobind_batch *get() const noexcept { return object_.get(); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

  iobind_batch_info info(error *failed = nullptr) const {
    return detail::ask<iobind_batch_info>(failed, iobind_batch_get_info, get());
  }
  /** Add a row that begins with the batch's first state. */
  [[nodiscard]] row join(error *failed = nullptr) { return join_with(nullptr, failed); }
  [[nodiscard]] row join(const state &from, error *failed = nullptr) {
    return detail::refuse_empty(failed, from, "batch_join: state") ? join_with(from.get(), failed) : row();
  }
  /** Set an input that all rows share; it is copied. */
  bool set(const text &input, const tensor &value, error *failed = nullptr) {
    std::size_t index = 0;
    return detail::call(failed, iobind_session_find_input, object_ == nullptr ? nullptr : session_, input, &index) &&
           detail::call(failed, iobind_batch_set_input, get(), IOBIND_BATCH_ALL, index, value.get());
  }
  /** Make a step of some rows: {first, second}, or a range of slots. */
  bool run(std::initializer_list<std::uint64_t> rows, error *failed = nullptr) {
    return detail::call(failed, iobind_batch_run, get(), rows.begin(), rows.size(), nullptr);
  }
  bool run(span<const std::uint64_t> rows, error *failed = nullptr) {
    return detail::call(failed, iobind_batch_run, get(), rows.data(), rows.size(), nullptr);
  }
  /** The same; the call returns when the step is submitted. */
  bool run(std::initializer_list<std::uint64_t> rows, stream &on, error *failed = nullptr) {
    return run(span<const std::uint64_t>(rows.begin(), rows.size()), on, failed);
  }
  bool run(span<const std::uint64_t> rows, stream &on, error *failed = nullptr) {
    return detail::refuse_empty(failed, on, "batch_run: stream") &&
           detail::call(failed, iobind_batch_run, get(), rows.data(), rows.size(), on.get());
  }
  /** Make a step of the submitted rows. Returns their number; fails with TIMEOUT if there are none. */
  std::size_t step(const batch_wait &when = batch_wait(), error *failed = nullptr) { return step_into(nullptr, 0, when, failed); }
  /** The same; `rows` receives their slots, also if the step fails. Reuse the vector in a loop, so that nothing is allocated. */
  std::size_t step(std::vector<std::uint64_t> &rows, const batch_wait &when = batch_wait(), error *failed = nullptr) {
    rows.assign(most_rows_, 0);
    rows.resize(step_into(rows.data(), rows.size(), when, failed));
    return rows.size();
  }
  std::size_t step(error *failed) { return step(batch_wait(), failed); }
  /** End all waits for rows and for steps, in any thread, with CANCELLED; see iobind_batch_stop. */
  void stop() noexcept { iobind_batch_stop(get()); }

private:
  std::size_t step_into(std::uint64_t *slots, std::size_t room, const batch_wait &when, error *failed) {
    iobind_batch_wait raw = detail::sized<iobind_batch_wait>();
    std::size_t count = 0;
    raw.rows = when.rows;
    raw.longest_ns = (std::max)(event::limit(when.longest), std::uint64_t{1}); /* in C 0 selects the default */
    raw.timeout_ns = (std::max)(event::limit(when.timeout), std::uint64_t{1});
    detail::call(failed, iobind_batch_step, get(), &raw, slots, room, &count);
    return count;
  }
  row join_with(iobind_state *from, error *failed) {
    std::uint64_t number = 0;
    return detail::call(failed, iobind_batch_join, get(), from, &number) ? row(object_, session_, number) : row();
  }
  std::shared_ptr<iobind_batch> object_{}; /* its rows share it */
  std::size_t most_rows_ = 0;
  iobind_session *session_ = nullptr;      /* remains valid as long as the batch, even if its C++ object is gone */
};

/* ---- pipelines -------------------------------------------------------------------------------------------------------- */

/** iobind_pipeline_options with its arrays. */
struct pipeline_options {
  std::size_t slots = 0;                 /**< 0: 3 */
  std::uint32_t flags = 0;               /**< IOBIND_PIPELINE_* */
  kept_list<const tensor> constants{};     /**< none, or one for each input; null for an input that each item has */
  std::vector<iobind_placement> outputs{}; /**< none: all on the host; or one for each output */
  const iobind_run_options *run_options = nullptr;
};

/** Outputs are borrowed: `output(i)` is valid until the next call of submit or next, which empties it, so that the pipeline can reuse
 *  the memory. `take(i)` keeps an output: the pipeline then allocates new memory. */
class pipeline : public detail::owner<iobind_pipeline, iobind_pipeline_destroy> {
public:
  pipeline() noexcept = default;
  explicit pipeline(const session &of, error *failed = nullptr) : pipeline(of, pipeline_options(), failed) {}
  pipeline(const session &of, const pipeline_options &options, error *failed = nullptr) {
    iobind_session_info model = detail::sized<iobind_session_info>();
    iobind_pipeline_options raw = detail::sized<iobind_pipeline_options>();
    std::vector<std::int32_t> placements(options.outputs.begin(), options.outputs.end());
    if (!detail::call(failed, iobind_session_get_info, of.get(), &model)) return;
    raw.flags = options.flags;
    raw.slots = options.slots;
    raw.constants = options.constants.data();
    raw.constant_count = options.constants.size();
    raw.placements = placements.empty() ? nullptr : placements.data();
    raw.placement_count = placements.size();
    raw.run_options = options.run_options;
    raw_.resize(model.output_count);
    lent_.resize(model.output_count);
    detail::call(failed, iobind_pipeline_create, of.get(), &raw, out());
  }
  /** Submit an item: one host tensor for each input in the model's order, null for a constant. The data are copied before the call
   *  returns. */
  bool submit(const list_of<const tensor> &inputs, error *failed = nullptr) {
    return submit(inputs, list_of<const event>(), nullptr, failed);
  }
  /** Submit an item: inputs on the host or where the session reads them; events of their producers, or none; a tag that is returned
   *  with it. */
  bool submit(const list_of<const tensor> &inputs, const list_of<const event> &events, void *tag = nullptr, error *failed = nullptr) {
    iobind_pipeline_request request = detail::sized<iobind_pipeline_request>();
    request.inputs = inputs.data();
    request.input_count = inputs.size();
    request.events = events.data();
    request.event_count = events.size();
    request.tag = tag;
    drop();
    return detail::call(failed, iobind_pipeline_submit, get(), &request);
  }
  /** Wait for the oldest item; `item` receives its index, times and tag. */
  bool next(iobind_pipeline_item *item = nullptr, error *failed = nullptr) {
    return next_for(std::chrono::nanoseconds::max(), item, failed);
  }
  bool next(error *failed) { return next(nullptr, failed); }
  /** The same with a time limit. After a failure with TIMEOUT the item remains the next one. */
  bool next_for(std::chrono::nanoseconds timeout, iobind_pipeline_item *item = nullptr, error *failed = nullptr) {
    drop();
    return detail::call(failed, iobind_pipeline_next, get(), event::limit(timeout), raw_.data(), raw_.size(), item) && lend();
  }
  /** The pulled item's output; empty if it is not fetched, or was taken. */
  const tensor &output(std::size_t index, error *failed = nullptr) const & {
    return known(index, failed) ? lent_[index] : none_;
  }
  const tensor &output(std::size_t index, error *failed = nullptr) const && = delete;
  [[nodiscard]] tensor take(std::size_t index, error *failed = nullptr) {
    return known(index, failed) ? std::move(lent_[index]) : tensor();
  }
  std::size_t output_count() const noexcept { return raw_.size(); }

private:
  bool known(std::size_t index, error *failed) const {
    if (failed != nullptr) failed->clear();
    return index < raw_.size() || detail::refuse(failed, IOBIND_ERROR_NOT_FOUND, "pipeline: output", "an index of the session's outputs",
                                                 std::to_string(index).c_str());
  }
  bool lend() noexcept {
    for (std::size_t i = 0; i < raw_.size(); i++) lent_[i] = tensor(raw_[i] == nullptr ? nullptr : iobind_tensor_retain(raw_[i]));
    return true;
  }
  void drop() noexcept {
    for (tensor &lent : lent_) lent = tensor();
  }
  std::vector<iobind_tensor *> raw_{};
  std::vector<tensor> lent_{};
  tensor none_{};
};

} // namespace iobind

#endif
