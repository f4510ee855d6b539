package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;
import java.lang.ref.WeakReference;
import java.util.Arrays;

/**
 * The tensors over segments of the caller's that were bound last to each input, or output, of a binding: programs bind the same few by
 * turns. A segment is not kept from the collector: without it nobody can find its tensor, which looks at no memory by itself.
 */
final class Wraps {
  /** So many of each input or output. */
  private static final int KEPT = 4;
  private static final long MEMORY = Layouts.offset(Layouts.BUFFER, "memory");
  private static final long DTYPE = Layouts.offset(Layouts.BUFFER, "dtype");
  private static final long DIMS = Layouts.offset(Layouts.BUFFER, "dims");
  private static final long RANK = Layouts.offset(Layouts.BUFFER, "rank");
  private static final long DATA = Layouts.offset(Layouts.BUFFER, "data");
  private static final long BYTES = Layouts.offset(Layouts.BUFFER, "bytes");
  private static final long DELETER = Layouts.offset(Layouts.BUFFER, "deleter");
  private static final long CONTEXT = Layouts.offset(Layouts.BUFFER, "context");

  private static final class Wrap extends WeakReference<MemorySegment> {
    private final Place place;
    private final OnnxTensorElementType type;
    private final long[] dims;
    private final long tensor;

    private Wrap(MemorySegment segment, Place place, MemoryDescriptor descriptor, long tensor) {
      super(segment);
      this.place = place;
      this.type = descriptor.type();
      this.dims = descriptor.dims();
      this.tensor = tensor;
    }

    private boolean isOf(Place at, OnnxTensorElementType of, long[] shape) {
      if (type != of || dims.length != shape.length || !place.equals(at)) return false;
      for (int i = 0; i < dims.length; i++) { // few: Arrays.equals is made for many
        if (dims[i] != shape[i]) return false;
      }
      return true;
    }

    /** Whether another segment is over the same memory of the same arena, such as those of a buffer, which are made each time. */
    private boolean isOver(MemorySegment wanted) {
      MemorySegment known = get();
      return wanted.equals(known) && wanted.byteSize() == known.byteSize() && wanted.scope().equals(known.scope());
    }
  }

  private final Wrap[][] ofSlots;
  private final int[] oldest;

  Wraps(int slots) {
    ofSlots = new Wrap[slots][];
    oldest = new int[slots];
  }

  /** A tensor over memory of the caller's. @param released see {@link OrtValueRef#wrap}; null: nothing is called */
  static long create(Scratch scratch, Place place, MemorySegment segment, MemoryDescriptor descriptor, Runnable released) {
    OrtValueRef.requireNative(segment, "", "bind the array itself, which copies it");
    long[] dims = descriptor.shape();
    MemorySegment buffer = scratch.struct(Layouts.BUFFER);
    buffer.set(JAVA_INT, MEMORY, place.memory());
    buffer.set(JAVA_INT, DTYPE, descriptor.type().number());
    buffer.set(JAVA_LONG, DIMS, scratch.dims(dims));
    buffer.set(JAVA_LONG, RANK, dims.length);
    buffer.set(JAVA_LONG, DATA, segment.address());
    buffer.set(JAVA_LONG, BYTES, segment.byteSize());
    buffer.set(JAVA_LONG, DELETER, released == null ? 0 : Released.DELETER.address());
    long ticket = released == null ? 0 : Released.keep(released);
    buffer.set(JAVA_LONG, CONTEXT, ticket);
    boolean isWrapped = false;
    try {
      scratch.check(Iobind.tensorWrap(place.device(), buffer, scratch.out(0), scratch.error(), segment));
      isWrapped = true;
      return scratch.getLong(0);
    } finally {
      if (!isWrapped) Released.forget(ticket);
    }
  }

  /** The tensor of a segment that is bound to an input, or output; within a call of the binding. */
  long tensor(Scratch scratch, int slot, Place place, MemorySegment segment, OnnxTensorElementType type, long... shape) {
    Wrap[] wraps = ofSlots[slot];
    if (wraps != null) {
      for (Wrap wrap : wraps) {
        if (wrap != null && wrap.refersTo(segment) && wrap.isOf(place, type, shape)) return wrap.tensor;
      }
    }
    return otherTensor(scratch, slot, place, segment, type, shape.clone()); // so that the JVM need not make the caller's array
  }

  /** As {@link #tensor}, of a segment that is not known itself. */
  private long otherTensor(Scratch scratch, int slot, Place place, MemorySegment segment, OnnxTensorElementType type, long[] shape) {
    Wrap[] wraps = ofSlots[slot];
    if (wraps == null) ofSlots[slot] = wraps = new Wrap[KEPT];
    for (Wrap wrap : wraps) {
      if (wrap != null && wrap.isOver(segment) && wrap.isOf(place, type, shape)) return wrap.tensor;
    }
    MemoryDescriptor descriptor = MemoryDescriptor.of(type, shape);
    Wrap made = new Wrap(segment, place, descriptor, create(scratch, place, segment, descriptor, null));
    Wrap old = wraps[oldest[slot]];
    wraps[oldest[slot]] = made;
    oldest[slot] = (oldest[slot] + 1) % KEPT;
    if (old != null) Iobind.tensorRelease(old.tensor);
    return made.tensor;
  }

  /** Gives all tensors up; what is bound has references of its own. */
  void release() {
    for (Wrap[] wraps : ofSlots) {
      if (wraps == null) continue;
      for (Wrap wrap : wraps) {
        if (wrap != null) Iobind.tensorRelease(wrap.tensor);
      }
      Arrays.fill(wraps, null);
    }
  }
}
