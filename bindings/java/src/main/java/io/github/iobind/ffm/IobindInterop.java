package io.github.iobind.ffm;

import static io.github.iobind.ffm.Iobind.ENUM;
import static io.github.iobind.ffm.Iobind.MEMORY;
import static io.github.iobind.ffm.Iobind.OBJECT;
import static io.github.iobind.ffm.Iobind.SIZE;
import static io.github.iobind.ffm.Iobind.status;
import static io.github.iobind.ffm.Iobind.thrown;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The functions of interop.h. As {@link Iobind}. */
public final class IobindInterop {
  private IobindInterop() {}

  /** Has the functions found. */
  static void load() {}

  // ---- streams and events of other libraries

  private static final MethodHandle STREAM_WRAP = status("iobind_stream_wrap", OBJECT, MEMORY, MEMORY, OBJECT, OBJECT, OBJECT);

  /** {@code iobind_stream_wrap}. */
  public static int streamWrap(long device, MemorySegment handle, MemorySegment deleter, long context, long stream, long error) {
    try {
      return (int) STREAM_WRAP.invokeExact(device, handle, deleter, context, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_WAIT_NATIVE = status("iobind_stream_wait_native", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_stream_wait_native}. */
  public static int streamWaitNative(long stream, MemorySegment event, long error) {
    try {
      return (int) STREAM_WAIT_NATIVE.invokeExact(stream, event, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_SIGNAL_NATIVE = status("iobind_stream_signal_native", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_stream_signal_native}. */
  public static int streamSignalNative(long stream, MemorySegment event, long error) {
    try {
      return (int) STREAM_SIGNAL_NATIVE.invokeExact(stream, event, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_GET_NATIVE = status("iobind_stream_get_native", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_stream_get_native}. */
  public static int streamGetNative(long stream, MemorySegment handle, long error) {
    try {
      return (int) STREAM_GET_NATIVE.invokeExact(stream, handle, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

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

  private static final MethodHandle SESSION_WRAP = status("iobind_session_wrap", OBJECT, OBJECT, MEMORY, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_session_wrap}. */
  public static int sessionWrap(long runtime, long ortSession, MemorySegment deleter, long context, long session, long error) {
    try {
      return (int) SESSION_WRAP.invokeExact(runtime, ortSession, deleter, context, session, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- NVIDIA's libraries

  private static final MethodHandle PRELOAD = status("iobind_preload", MEMORY, OBJECT);

  /** {@code iobind_preload}. */
  public static int preload(MemorySegment options, long error) {
    try {
      return (int) PRELOAD.invokeExact(options, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- memory and semaphores of other libraries

  private static final MethodHandle DEVICE_CHECK_IMPORT = status("iobind_device_check_import", OBJECT, ENUM, OBJECT);

  /** {@code iobind_device_check_import}. */
  public static int deviceCheckImport(long device, int kind, long error) {
    try {
      return (int) DEVICE_CHECK_IMPORT.invokeExact(device, kind, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EXTERNAL_MEMORY_IMPORT = status("iobind_external_memory_import", OBJECT, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_external_memory_import}. */
  public static int externalMemoryImport(long device, MemorySegment external, long memory, long error) {
    try {
      return (int) EXTERNAL_MEMORY_IMPORT.invokeExact(device, external, memory, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EXTERNAL_MEMORY_DESTROY = Iobind.find("iobind_external_memory_destroy", FunctionDescriptor.ofVoid(OBJECT));

  /** {@code iobind_external_memory_destroy}. */
  public static void externalMemoryDestroy(long memory) {
    try {
      EXTERNAL_MEMORY_DESTROY.invokeExact(memory);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EXTERNAL_MEMORY_VIEW = status("iobind_external_memory_view", OBJECT, SIZE, ENUM, OBJECT, SIZE, OBJECT,
      OBJECT);

  /** {@code iobind_external_memory_view}. */
  public static int externalMemoryView(long memory, long offset, int dtype, long dims, long rank, long tensor, long error) {
    try {
      return (int) EXTERNAL_MEMORY_VIEW.invokeExact(memory, offset, dtype, dims, rank, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SEMAPHORE_IMPORT = status("iobind_semaphore_import", OBJECT, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_semaphore_import}. */
  public static int semaphoreImport(long device, MemorySegment external, long semaphore, long error) {
    try {
      return (int) SEMAPHORE_IMPORT.invokeExact(device, external, semaphore, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SEMAPHORE_DESTROY = Iobind.find("iobind_semaphore_destroy", FunctionDescriptor.ofVoid(OBJECT));

  /** {@code iobind_semaphore_destroy}. */
  public static void semaphoreDestroy(long semaphore) {
    try {
      SEMAPHORE_DESTROY.invokeExact(semaphore);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_WAIT_SEMAPHORE = status("iobind_stream_wait_semaphore", OBJECT, OBJECT, SIZE, OBJECT);

  /** {@code iobind_stream_wait_semaphore}. */
  public static int streamWaitSemaphore(long stream, long semaphore, long value, long error) {
    try {
      return (int) STREAM_WAIT_SEMAPHORE.invokeExact(stream, semaphore, value, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_SIGNAL_SEMAPHORE = status("iobind_stream_signal_semaphore", OBJECT, OBJECT, SIZE, OBJECT);

  /** {@code iobind_stream_signal_semaphore}. */
  public static int streamSignalSemaphore(long stream, long semaphore, long value, long error) {
    try {
      return (int) STREAM_SIGNAL_SEMAPHORE.invokeExact(stream, semaphore, value, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }
}
