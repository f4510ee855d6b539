package io.github.iobind.ffm;

import static io.github.iobind.ffm.Iobind.ENUM;
import static io.github.iobind.ffm.Iobind.MEMORY;
import static io.github.iobind.ffm.Iobind.OBJECT;
import static io.github.iobind.ffm.Iobind.status;
import static io.github.iobind.ffm.Iobind.thrown;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The functions of interop.h that exchange tensors with other libraries. As {@link Iobind}. */
public final class IobindInterop {
  private IobindInterop() {}

  /** Has the functions found. */
  static void load() {}

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
}
