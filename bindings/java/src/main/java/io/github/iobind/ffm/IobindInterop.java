package io.github.iobind.ffm;

import static io.github.iobind.ffm.Iobind.ENUM;
import static io.github.iobind.ffm.Iobind.MEMORY;
import static io.github.iobind.ffm.Iobind.OBJECT;
import static io.github.iobind.ffm.Iobind.status;
import static io.github.iobind.ffm.Iobind.thrown;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The functions of interop.h that exchange tensors and objects of ONNX Runtime with other code. As {@link Iobind}. */
public final class IobindInterop {
  private IobindInterop() {}

  /** Has the functions found. */
  static void load() {}

  // ---- tensors

  private static final MethodHandle TENSOR_TO_DLPACK = status("iobind_tensor_to_dlpack", OBJECT, ENUM, OBJECT, OBJECT);

  /** {@code iobind_tensor_to_dlpack}. */
  public static int tensorToDlpack(long tensor, int flags, long managed, long error) {
    try {
      return (int) TENSOR_TO_DLPACK.invokeExact(tensor, flags, managed, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_FROM_DLPACK = status("iobind_tensor_from_dlpack", OBJECT, MEMORY, ENUM, OBJECT,
      OBJECT);

  /** {@code iobind_tensor_from_dlpack}. */
  public static int tensorFromDlpack(long runtime, MemorySegment managed, int flags, long tensor, long error) {
    try {
      return (int) TENSOR_FROM_DLPACK.invokeExact(runtime, managed, flags, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_WRAP_ORT = status("iobind_tensor_wrap_ort", OBJECT, MEMORY, MEMORY, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_tensor_wrap_ort}. */
  public static int tensorWrapOrt(long runtime, MemorySegment value, MemorySegment deleter, long context, long tensor, long error) {
    try {
      return (int) TENSOR_WRAP_ORT.invokeExact(runtime, value, deleter, context, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_TO_ORT = status("iobind_tensor_to_ort", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_tensor_to_ort}. */
  public static int tensorToOrt(long tensor, long value, long error) {
    try {
      return (int) TENSOR_TO_ORT.invokeExact(tensor, value, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- functions that libiobind is given to call

  /** {@code iobind_callback_log}. */
  public static MemorySegment callbackLog() {
    return Iobind.symbol("iobind_callback_log");
  }

  /** {@code iobind_callback_delete}. */
  public static MemorySegment callbackDelete() {
    return Iobind.symbol("iobind_callback_delete");
  }

  // ---- ONNX Runtime's own objects

  private static final MethodHandle RUNTIME_GET_ORT = status("iobind_runtime_get_ort", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_runtime_get_ort}. */
  public static int runtimeGetOrt(long runtime, MemorySegment ort, long error) {
    try {
      return (int) RUNTIME_GET_ORT.invokeExact(runtime, ort, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_ORT = Iobind.find("iobind_session_get_ort", FunctionDescriptor.of(OBJECT, OBJECT));

  /** {@code iobind_session_get_ort}. */
  public static long sessionGetOrt(long session) {
    try {
      return (long) SESSION_GET_ORT.invokeExact(session);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }
}
