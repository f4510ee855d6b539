package io.github.iobind.api;

import java.lang.System.Logger.Level;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/**
 * A native object, its calls counted: it is destroyed when it is closed and the last call in it has returned, once. What is
 * never closed is destroyed when its owner is collected, and reported: the system property {@code iobind.leaks} is {@code off},
 * {@code report} (default) or {@code trace}, which also says where the object was made.
 *
 * <p>It is itself the reference by which the collector tells that the owner is gone, and a link of the list that keeps it until
 * it is closed. A Cleaner would make another object, and cost a step that takes an output a tenth more.
 */
final class Handle extends PhantomReference<Object> {
  private static final VarHandle STATE;
  private static final int CLOSED = 1 << 31;
  private static final int ALONE = 1 << 30;
  private static final boolean WATCH;
  private static final boolean TRACE;
  private static final ReferenceQueue<Object> COLLECTED = new ReferenceQueue<>();
  /** Several, so that threads seldom meet at one. */
  private static final Open[] OPEN = new Open[16];
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
    WATCH = !leaks.equals("off");
    Arrays.setAll(OPEN, i -> new Open());
    if (WATCH) {
      Thread watcher = Thread.ofPlatform().daemon().name("iobind-leaks").inheritInheritableThreadLocals(false)
          .unstarted(Handle::watch);
      watcher.setContextClassLoader(null);
      watcher.start();
    }
  }

  private final long address;
  private final Class<?> type;
  private final LongConsumer destroy;
  private final Throwable made;
  /** The number of calls in the object, and the two bits. */
  private volatile int state;
  /** The list that it is in, and its neighbours there. */
  private final Open list;
  private Handle before;
  private Handle after;

  /** Handles that are not closed. */
  private static final class Open {
    private Handle first;

    synchronized void add(Handle handle) {
      handle.after = first;
      if (first != null) first.before = handle;
      first = handle;
    }

    synchronized void remove(Handle handle) {
      if (handle.after != null) handle.after.before = handle.before;
      if (handle.before != null) {
        handle.before.after = handle.after;
      } else {
        first = handle.after;
      }
      handle.before = null; // an old object that is gone must not keep young ones
      handle.after = null;
    }
  }

  private Handle(Object owner, long address, LongConsumer destroy) {
    super(WATCH ? owner : null, COLLECTED);
    this.type = owner.getClass();
    this.address = address;
    this.destroy = destroy;
    this.made = TRACE ? new Throwable("made here") : null;
    this.list = WATCH ? OPEN[(int) Thread.currentThread().threadId() & OPEN.length - 1] : null;
  }

  /** Takes over a native object for its Java owner. */
  static Handle of(Object owner, long address, LongConsumer destroy) {
    Handle handle = new Handle(owner, address, destroy);
    if (handle.list != null) handle.list.add(handle);
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

  /** Closes the object: from any thread, any number of times. */
  void close() {
    while (true) {
      int now = state;
      if (now < 0) return;
      if (STATE.compareAndSet(this, now, now | CLOSED)) {
        if (list != null) list.remove(this);
        if (now == 0) destroy.accept(address);
        return;
      }
    }
  }

  private static void watch() {
    while (true) {
      try {
        ((Handle) COLLECTED.remove()).ownerIsGone();
      } catch (Throwable e) {
        continue; // a logger's; the next one is looked at all the same
      }
    }
  }

  private void ownerIsGone() {
    if (isClosed()) return;
    LEAKS.incrementAndGet();
    try {
      String text = type.getSimpleName() + " was not closed before it was collected"
          + (TRACE ? "" : "; -Diobind.leaks=trace says where it was made");
      System.getLogger("io.github.iobind").log(Level.WARNING, text, made);
    } finally {
      close();
    }
  }
}
