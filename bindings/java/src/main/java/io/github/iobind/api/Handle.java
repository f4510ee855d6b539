package io.github.iobind.api;

import java.lang.System.Logger.Level;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/**
 * A native object, its calls counted: it is destroyed when it is closed and the last call in it has returned, once. What is
 * never closed is destroyed when its owner is collected, and reported: the system property {@code iobind.leaks} is {@code off},
 * {@code report} (default) or {@code trace}, which also says where the object was made.
 */
final class Handle implements Runnable {
  private static final VarHandle STATE;
  private static final int CLOSED = 1 << 31;
  private static final int ALONE = 1 << 30;
  private static final Cleaner CLEANER;
  private static final boolean TRACE;
  /** Objects that were collected before they were closed. */
  static final AtomicLong LEAKS = new AtomicLong();

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Handle.class, "state", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
    String leaks = System.getProperty("iobind.leaks", "report");
    TRACE = leaks.equals("trace");
    CLEANER = leaks.equals("off") ? null : Cleaner.create();
  }

  private final long address;
  private final Class<?> type;
  private final LongConsumer destroy;
  private final Throwable made;
  private Cleaner.Cleanable cleanable;
  /** The number of calls in the object, and the two bits. */
  private volatile int state;

  private Handle(Class<?> type, long address, LongConsumer destroy) {
    this.type = type;
    this.address = address;
    this.destroy = destroy;
    this.made = TRACE ? new Throwable("made here") : null;
  }

  /** Takes over a native object for its Java owner. */
  static Handle of(Object owner, long address, LongConsumer destroy) {
    Handle handle = new Handle(owner.getClass(), address, destroy);
    if (CLEANER != null) handle.cleanable = CLEANER.register(owner, handle);
    return handle;
  }

  /** Enters a call: until {@link #exit} the object is there. */
  long enter() {
    while (true) {
      int now = state;
      if (now < 0) throw closed();
      if (STATE.compareAndSet(this, now, now + 1)) return address;
    }
  }

  void exit() {
    leave(1);
  }

  /** Enters a call that is to be the only one of its kind, for objects that one thread uses at a time. */
  long enterAlone() {
    while (true) {
      int now = state;
      if (now < 0) throw closed();
      if ((now & ALONE) != 0) {
        throw new OrtFFMException(OrtStatus.INVALID_STATE, type.getSimpleName() + ": another call, or a run, is under way");
      }
      if (STATE.compareAndSet(this, now, now + ALONE + 1)) return address;
    }
  }

  void exitAlone() {
    leave(ALONE + 1);
  }

  private void leave(int count) {
    if ((int) STATE.getAndAdd(this, -count) - count == CLOSED) destroy.accept(address);
  }

  boolean isBusy() {
    return (state & ALONE) != 0;
  }

  boolean isClosed() {
    return state < 0;
  }

  IllegalStateException closed() {
    return new IllegalStateException(type.getSimpleName() + " is closed");
  }

  /** Closes the object: from any thread, any number of times. Returns whether this call was the first. */
  boolean close() {
    boolean first = end();
    if (first && cleanable != null) cleanable.clean();
    return first;
  }

  private boolean end() {
    while (true) {
      int now = state;
      if (now < 0) return false;
      if (STATE.compareAndSet(this, now, now | CLOSED)) {
        if (now == 0) destroy.accept(address);
        return true;
      }
    }
  }

  /** The owner is gone. */
  @Override
  public void run() {
    if (isClosed()) return;
    LEAKS.incrementAndGet();
    String text = type.getSimpleName() + " was not closed before it was collected"
        + (TRACE ? "" : "; -Diobind.leaks=trace says where it was made");
    System.getLogger("io.github.iobind").log(Level.WARNING, text, made);
    end();
  }
}
