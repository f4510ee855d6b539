package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;

/**
 * The reference of a view's segment to the tensor. The segment's arena keeps this object. So nobody can reach the memory any
 * more when it is collected, and the reference is given back also if a forgotten value has never closed the arena.
 */
final class ViewReference {
  private static final Cleaner CLEANER = Cleaner.create();

  private final Cleaner.Cleanable release;

  ViewReference(long address) {
    release = CLEANER.register(this, () -> Iobind.tensorRelease(address));
  }

  void giveBack(MemorySegment segment) {
    release.clean();
  }
}
