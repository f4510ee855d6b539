package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;
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

  private static final class Wrap {
    private final WeakReference<MemorySegment> segment;
    private final Place place;
    private final OnnxTensorElementType type;
    private final long[] dims;
    private final long tensor;

    private Wrap(MemorySegment segment, Place place, MemoryDescriptor descriptor, long tensor) {
      this.segment = new WeakReference<>(segment);
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
      MemorySegment known = segment.get();
      return wanted.equals(known) && wanted.byteSize() == known.byteSize() && wanted.scope().equals(known.scope());
    }
  }

  private final Wrap[][] ofSlots;
  private final int[] oldest;

  Wraps(int slots) {
    ofSlots = new Wrap[slots][];
    oldest = new int[slots];
  }

  /** The tensor of a segment that is bound to an input, or output; within a call of the binding. */
  long tensor(Scratch scratch, int slot, Place place, MemorySegment segment, OnnxTensorElementType type, long... shape) {
    Wrap[] wraps = ofSlots[slot];
    if (wraps == null) ofSlots[slot] = wraps = new Wrap[KEPT];
    for (Wrap wrap : wraps) {
      if (wrap != null && wrap.segment.refersTo(segment) && wrap.isOf(place, type, shape)) return wrap.tensor;
    }
    for (Wrap wrap : wraps) {
      if (wrap != null && wrap.isOver(segment) && wrap.isOf(place, type, shape)) return wrap.tensor;
    }
    MemoryDescriptor descriptor = MemoryDescriptor.of(type, shape);
    Wrap made = new Wrap(segment, place, descriptor, OrtValueRef.wrap(scratch, place, segment, descriptor, null));
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
