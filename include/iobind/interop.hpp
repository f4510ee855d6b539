/** @file interop.hpp
 *  interop.h for C++17 and newer, by the rules of iobind.hpp. interop.h documents every call; the comments here document only
 *  additions of C++. */
#ifndef IOBIND_INTEROP_HPP
#define IOBIND_INTEROP_HPP

#include "interop.h"
#include "iobind.hpp"

namespace iobind {

/* ---- streams, events and devices of other libraries ------------------------------------------------------------------ */

/** A handle of another library; `value` is of a fence. */
inline iobind_native native_handle(iobind_native_kind kind, void *handle, std::uint64_t value = 0) noexcept {
  iobind_native made = detail::sized<iobind_native>();
  made.kind = kind;
  made.handle = handle;
  made.value = value;
  return made;
}
/** Without a deleter the handle must remain valid until the stream is destroyed and no session computes on it. */
inline stream wrap_stream(const device &where, const iobind_native &native, iobind_deleter deleter = nullptr,
                          void *context = nullptr, error *failed = nullptr) {
  iobind_stream *made = nullptr;
  detail::call(failed, iobind_stream_wrap, where.get(), &native, deleter, context, &made);
  return stream(made);
}
inline stream wrap_stream(const device &where, const iobind_native &native, error *failed) {
  return wrap_stream(where, native, nullptr, nullptr, failed);
}
inline bool wait_native(stream &on, const iobind_native &native, error *failed = nullptr) {
  return detail::call(failed, iobind_stream_wait_native, on.get(), &native);
}
inline bool signal_native(stream &on, const iobind_native &native, error *failed = nullptr) {
  return detail::call(failed, iobind_stream_signal_native, on.get(), &native);
}
inline void *stream::native() const & noexcept {
  iobind_native found = detail::sized<iobind_native>();
  return iobind_stream_get_native(get(), &found, nullptr) == IOBIND_OK ? found.handle : nullptr;
}
/** A stream's native stream, with its kind; valid as long as the stream. */
inline iobind_native native_stream(const stream &of, error *failed = nullptr) {
  return detail::ask<iobind_native>(failed, iobind_stream_get_native, of.get());
}
iobind_native native_stream(const stream &&of, error *failed = nullptr) = delete;
/** Set the Direct3D objects that a DirectML device uses, before its first use. */
inline device adopt_device(const runtime &on, const iobind_native_device &native, error *failed = nullptr) {
  iobind_device *found = nullptr;
  return detail::call(failed, iobind_runtime_adopt_device, on.get(), &native, &found) ? device(found, failed) : device();
}
/** The object that is a tensor's memory, with a reference that the caller releases. */
inline iobind_native native_memory(tensor &of, error *failed = nullptr) {
  return detail::ask<iobind_native>(failed, iobind_tensor_get_native, of.get());
}

/* ---- DLPack ------------------------------------------------------------------------------------------------------------ */

/** A `DLManagedTensorVersioned *`, or with IOBIND_DLPACK_LEGACY a `DLManagedTensor *`; the caller calls its deleter or passes it on. */
[[nodiscard]] inline void *to_dlpack(tensor &of, std::uint32_t flags = 0, error *failed = nullptr) {
  void *managed = nullptr;
  detail::call(failed, iobind_tensor_to_dlpack, of.get(), flags, &managed);
  return managed;
}
/** The tensor owns the struct. If the tensor is empty, the call failed and the caller still owns the struct. */
[[nodiscard]] inline tensor from_dlpack(const runtime &on, void *managed, std::uint32_t flags = 0, error *failed = nullptr) {
  iobind_tensor *made = nullptr;
  detail::call(failed, iobind_tensor_from_dlpack, on.get(), managed, flags, &made);
  return tensor(made);
}

/* ---- rows with a pitch ------------------------------------------------------------------------------------------------ */

/** Rows of bytes in a tensor, at a distance of `pitch` bytes. */
inline iobind_rows rows(tensor &of, std::size_t offset, std::size_t pitch) noexcept {
  iobind_rows made = detail::sized<iobind_rows>();
  made.tensor = of.get();
  made.offset = offset;
  made.pitch = pitch;
  return made;
}
inline bool copy_rows(const iobind_rows &source, const iobind_rows &target, std::size_t row_bytes, std::size_t count,
                      error *failed = nullptr) {
  return detail::call(failed, iobind_tensor_copy_rows, &source, &target, row_bytes, count, nullptr);
}
inline bool copy_rows(const iobind_rows &source, const iobind_rows &target, std::size_t row_bytes, std::size_t count, stream &on,
                      error *failed = nullptr) {
  return detail::refuse_empty(failed, on, "tensor_copy_rows: stream") &&
         detail::call(failed, iobind_tensor_copy_rows, &source, &target, row_bytes, count, on.get());
}

/* ---- ORT's own objects ------------------------------------------------------------------------------------------------- */

inline const void *host_api_base() noexcept { return iobind_get_host_api_base(); }
/** A tensor over an `OrtValue *`. Without a deleter the OrtValue must remain valid until the tensor, and every run that uses it, is
 *  gone. */
[[nodiscard]] inline tensor wrap_ort(const runtime &on, void *ort_value, iobind_deleter deleter = nullptr, void *context = nullptr,
                                     error *failed = nullptr) {
  iobind_tensor *made = nullptr;
  detail::call(failed, iobind_tensor_wrap_ort, on.get(), ort_value, deleter, context, &made);
  return tensor(made);
}
/** An `OrtValue *` that retains the tensor; the caller releases it by ORT's ReleaseValue. */
[[nodiscard]] inline void *to_ort(tensor &of, error *failed = nullptr) {
  void *made = nullptr;
  detail::call(failed, iobind_tensor_to_ort, of.get(), &made);
  return made;
}
[[nodiscard]] inline void *to_ort(tensor &&of, error *failed = nullptr) { return to_ort(of, failed); }
/** The `OrtApi *` and `OrtEnv *`, valid as long as the runtime. */
inline iobind_ort get_ort(const runtime &of, error *failed = nullptr) {
  return detail::ask<iobind_ort>(failed, iobind_runtime_get_ort, of.get());
}
iobind_ort get_ort(const runtime &&of, error *failed = nullptr) = delete;
/** The `OrtSession *`, valid as long as the session. */
inline void *get_ort(const session &of) noexcept { return iobind_session_get_ort(of.get()); }
void *get_ort(const session &&of) = delete;

inline session session::wrap(const runtime &on, void *ort_session, iobind_deleter deleter, void *context, error *failed) {
  session made;
  detail::call(failed, iobind_session_wrap, on.get(), ort_session, deleter, context, made.out());
  return made;
}

/* ---- NVIDIA's libraries ------------------------------------------------------------------------------------------------ */

/** Load NVIDIA's libraries before CUDA's EP needs them. */
inline bool preload(const iobind_preload_options &options = detail::sized<iobind_preload_options>(), error *failed = nullptr) {
  return detail::call(failed, iobind_preload, &options);
}

/* ---- external memory and semaphores ---------------------------------------------------------------------------------- */

/** A handle to import; `bytes` is the size of the whole allocation, or 0 for a semaphore. */
inline iobind_external external_handle(iobind_external_kind kind, void *handle, std::size_t bytes = 0) noexcept {
  iobind_external made = detail::sized<iobind_external>();
  made.kind = kind;
  made.handle = handle;
  made.bytes = bytes;
  return made;
}
inline bool check_import(const device &where, iobind_external_kind kind, error *failed = nullptr) {
  return detail::call(failed, iobind_device_check_import, where.get(), kind);
}

class external_memory : public detail::owner<iobind_external_memory, iobind_external_memory_destroy> {
public:
  external_memory() noexcept = default;
  external_memory(const device &where, const iobind_external &external, error *failed = nullptr) {
    detail::call(failed, iobind_external_memory_import, where.get(), &external, out());
  }
  [[nodiscard]] tensor view(std::size_t offset, iobind_dtype dtype, const shape &dims, error *failed = nullptr) {
    iobind_tensor *made = nullptr;
    detail::call(failed, iobind_external_memory_view, get(), offset, dtype, dims.data(), dims.rank(), &made);
    return tensor(made);
  }
};

class semaphore : public detail::owner<iobind_semaphore, iobind_semaphore_destroy> {
public:
  semaphore() noexcept = default;
  semaphore(const device &where, const iobind_external &external, error *failed = nullptr) {
    detail::call(failed, iobind_semaphore_import, where.get(), &external, out());
  }
  /** Make later work of the stream wait until the value is `value` or more. */
  bool wait(stream &on, std::uint64_t value, error *failed = nullptr) {
    return detail::call(failed, iobind_stream_wait_semaphore, on.get(), get(), value);
  }
  /** Signal the semaphore with `value` after all previously submitted work of the stream. */
  bool signal(stream &on, std::uint64_t value, error *failed = nullptr) {
    return detail::call(failed, iobind_stream_signal_semaphore, on.get(), get(), value);
  }
};

} // namespace iobind

#endif
