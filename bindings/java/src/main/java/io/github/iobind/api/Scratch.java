package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Native memory for one call: its error, dims, out pointers and a small struct. A binding has its own; other calls take one
 * from a small pool, or make one. It belongs to a call and not to a thread, so that virtual threads are safe.
 */
final class Scratch implements AutoCloseable {
  private static final AtomicReferenceArray<Scratch> POOL = new AtomicReferenceArray<>(64);
  private static final long DIMS = Layouts.ERROR.byteSize();
  private static final long OUT = DIMS + MemoryDescriptor.MAX_RANK * Long.BYTES;
  private static final long STRUCT = OUT + 4 * Long.BYTES;
  private static final long TENSOR_INFO = STRUCT + 128;
  private static final long BYTES = TENSOR_INFO + Layouts.TENSOR_INFO.byteSize();
  private static final long ORT_CODE = Layouts.offset(Layouts.ERROR, "ort_code");
  private static final long MESSAGE = Layouts.offset(Layouts.ERROR, "message");

  private final MemorySegment memory = Arena.ofAuto().allocate(BYTES, 16);
  private final long address = memory.address();
  private final MemorySegment tensorInfo = Layouts.allocate((bytes, alignment) -> memory.asSlice(TENSOR_INFO, bytes),
      Layouts.TENSOR_INFO);

  Scratch() {
    memory.set(JAVA_INT, 0, (int) Layouts.ERROR.byteSize());
  }

  /** Asks what a tensor is, by the struct that is kept for this. */
  MemorySegment tensorInfo(long tensor) {
    check(Iobind.tensorGetInfo(tensor, address + TENSOR_INFO, address));
    return tensorInfo;
  }

  static Scratch take() {
    Scratch scratch = POOL.getAndSet(place(), null);
    return scratch != null ? scratch : new Scratch();
  }

  /** Threads that are at work at the same time are at different places, mostly. */
  private static int place() {
    return (int) Thread.currentThread().threadId() & 63;
  }

  /** Gives it back to the pool; another one that is there is left to the collector. */
  @Override
  public void close() {
    POOL.lazySet(place(), this);
  }

  /** The address of the error, which libiobind leaves alone when the call succeeds. */
  long error() {
    return address;
  }

  /** Throws where a call failed. */
  void check(int status) {
    if (status != 0) throw failure(status);
  }

  OrtFFMException failure(int status) {
    byte[] text = memory.asSlice(MESSAGE, DIMS - MESSAGE).toArray(JAVA_BYTE);
    int length = 0;
    while (length < text.length && text[length] != 0) length++;
    return new OrtFFMException(OrtStatus.of(status), memory.get(JAVA_INT, ORT_CODE),
        Texts.inJava(new String(text, 0, length, StandardCharsets.UTF_8)));
  }

  /** Writes dims and gives their address. */
  long dims(long[] shape) {
    MemorySegment.copy(shape, 0, memory, JAVA_LONG, DIMS, shape.length);
    return address + DIMS;
  }

  /** The address of an out pointer, 0 .. 3. */
  long out(int index) {
    return address + OUT + index * (long) Long.BYTES;
  }

  long getLong(int index) {
    return memory.get(JAVA_LONG, OUT + index * (long) Long.BYTES);
  }

  void setLong(int index, long value) {
    memory.set(JAVA_LONG, OUT + index * (long) Long.BYTES, value);
  }

  int getInt(int index) {
    return memory.get(JAVA_INT, OUT + index * (long) Long.BYTES);
  }

  /** A struct of zeros with its size set. */
  MemorySegment struct(java.lang.foreign.StructLayout layout) {
    MemorySegment struct = memory.asSlice(STRUCT, layout.byteSize()).fill((byte) 0);
    struct.set(JAVA_INT, 0, (int) layout.byteSize());
    return struct;
  }
}
