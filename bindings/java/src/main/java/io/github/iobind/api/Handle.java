package io.github.iobind.api;

import java.lang.System.Logger.Level;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongConsumer;

/**
 * A native object, its calls counted. Closing it waits for the calls that are in it, by a Java lock, so that a virtual thread
 * lets its carrier go; then the object is destroyed, once. What is never closed is destroyed when its owner is collected, and
 * reported: the system property {@code iobind.leaks} is {@code off}, {@code report} (default) or {@code trace}, which also says
 * where the object was made.
 *
 * <p>A close without a time lets no call in from the beginning. One with a time leaves the object open while it waits: when no
 * call is in the object, it enters one of its own and waits there for the object's {@link Work}. If no other call has come by
 * then, the object is closed. Destroying it waits for nothing any more.
 *
 * <p>An object whose destruction waits, a slow one, is destroyed by the thread that closes it. A thread of the pool does it
 * where that thread must not wait: a virtual one, one that leaves the last call of an object that another thread closes, one
 * that only gives the object up, such as that of the collector.
 *
 * <p>It is itself the reference by which the collector tells that the owner is gone, and a link of the list that keeps it until
 * it is closed. A Cleaner would make another object, and cost a step that takes an output a tenth more.
 */
final class Handle extends PhantomReference<Object> {
  private static final VarHandle STATE;
  private static final VarHandle DESTROYER;
  private static final VarHandle LEAVING;
  /** How often a waiting thread looks for calls that a StackOverflowError kept from leaving; all others signal it. */
  private static final long LOOK_NANOS = 50_000_000;
  private static final long CLOSED = 1L << 63;
  private static final long ALONE = 1L << 62;
  private static final long WAITED = 1L << 61;
  /** No call has come since a close that has a time entered the object. */
  private static final long QUIET = 1L << 60;
  /** One of those that keep the object after it was closed, and whom nobody waits for. */
  private static final long KEPT = 1L << 32;
  private static final long ALL_KEPT = QUIET - KEPT;
  private static final long CALLS = KEPT - 1;
  private static final boolean REPORT;
  private static final boolean TRACE;
  private static final ReferenceQueue<Object> COLLECTED = new ReferenceQueue<>();
  /** Several, so that threads seldom meet at one. */
  private static final Open[] OPEN = new Open[16];
  /** What an object takes besides the bytes of its tensor. */
  private static final long OVERHEAD = 1024;
  /** So many bytes may be open before the collector is asked to look for what was forgotten; 0: it is never asked. */
  private static final long LIMIT = Math.clamp(Long.getLong("iobind.collect", 1024), 0, Long.MAX_VALUE >> 20) << 20;
  private static final AtomicBoolean COLLECTING = new AtomicBoolean();
  private static volatile long limitNow = LIMIT;
  /** Objects that were collected before they were closed. */
  static final AtomicLong LEAKS = new AtomicLong();

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Handle.class, "state", long.class);
      DESTROYER = MethodHandles.lookup().findVarHandle(Handle.class, "destroyer", Thread.class);
      LEAVING = MethodHandles.lookup().findVarHandle(Handle.class, "isLeaving", boolean.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
    String leaks = System.getProperty("iobind.leaks", "report");
    TRACE = leaks.equals("trace");
    REPORT = !leaks.equals("off");
    Arrays.setAll(OPEN, i -> new Open());
    Thread watcher = Thread.ofPlatform().daemon().name("iobind-leaks").inheritInheritableThreadLocals(false)
        .unstarted(Handle::watch);
    watcher.setContextClassLoader(null);
    watcher.start();
  }

  private final long address;
  private final Class<?> type;
  private final LongConsumer destroy;
  private final Work work;
  private final boolean isSlow;
  private final long bytes;
  private final Throwable made;
  /** The number of calls in the object, of those that keep it, and the four bits. */
  private volatile long state;
  /** The thread that destroys the object; null before. */
  private volatile Thread destroyer;
  private volatile boolean isGone;
  /**
   * The call of {@link #enterAlone} is over. It says so before {@link #exitAlone}: by a field, which it can set at the end of its stack,
   * too, where a method cannot be called any more. Then the next one who comes takes it out of the state.
   */
  boolean isLeaving;
  /** Calls of {@link #enter} that {@link #exit} could not take out of the state, and whether there is something to do. */
  private int owed;
  private volatile boolean isUnsettled;
  /** Made when somebody has to wait. */
  private volatile Waiting waiting;
  /** The list that it is in, and its neighbours there. */
  private final Open list;
  private Handle before;
  private Handle after;

  /** What an object does besides its calls, such as what is on a stream. It must not refer to the object's owner. */
  interface Work {
    /** Work that is over at once. */
    Work NONE = (address, deadline) -> true;

    /** Waits for it, in the only call of the object; false if it timed out. Later calls may bring new work. */
    boolean await(long address, Deadline deadline);
  }

  /** Those who wait until no call is in the object. */
  private static final class Waiting {
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();

    void signal() {
      lock.lock();
      try {
        changed.signalAll();
      } finally {
        lock.unlock();
      }
    }
  }

  /** Handles that are not closed. */
  private static final class Open {
    private Handle first;
    private long bytes;
    /** Where all lists are looked at again. */
    private long mark = LIMIT / OPEN.length;

    synchronized boolean add(Handle handle) {
      handle.after = first;
      if (first != null) first.before = handle;
      first = handle;
      bytes += handle.bytes;
      if (LIMIT == 0 || bytes < mark) return false;
      mark = bytes + LIMIT / OPEN.length;
      return true;
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
      bytes -= handle.bytes;
      mark = Math.min(mark, bytes + LIMIT / OPEN.length);
    }

    synchronized long bytes() {
      return bytes;
    }
  }

  private Handle(Object owner, Class<?> type, long address, LongConsumer destroy, Work work, boolean isSlow, long bytes) {
    super(owner, COLLECTED);
    this.type = type;
    this.address = address;
    this.destroy = destroy;
    this.work = work;
    this.isSlow = isSlow;
    this.bytes = bytes + OVERHEAD;
    this.made = TRACE ? new Throwable("made here") : null;
    this.list = OPEN[(int) Thread.currentThread().threadId() & OPEN.length - 1];
  }

  /** Takes over a native object for its Java owner. */
  static Handle of(Object owner, long address, LongConsumer destroy) {
    return of(owner, owner.getClass(), address, destroy, 0);
  }

  /**
   * Takes over a native object with memory of so many bytes.
   *
   * @param type what users know the owner as
   */
  static Handle of(Object owner, Class<?> type, long address, LongConsumer destroy, long bytes) {
    return listed(new Handle(owner, type, address, destroy, Work.NONE, false, bytes));
  }

  /** Takes over a native object with work that a close waits for, and its destruction does not. */
  static Handle of(Object owner, long address, LongConsumer destroy, Work work) {
    return listed(new Handle(owner, owner.getClass(), address, destroy, work, false, 0));
  }

  /** Takes over a native object whose destruction waits for its work. */
  static Handle slow(Object owner, long address, LongConsumer destroy, Work work) {
    return listed(new Handle(owner, owner.getClass(), address, destroy, work, true, 0));
  }

  private static Handle listed(Handle handle) {
    if (handle.list.add(handle)) collectIfMuch();
    return handle;
  }

  // ---- calls

  /** Enters a call: until {@link #exit} the object is there. */
  long enter() {
    if (!tryEnter()) throw closed();
    return address;
  }

  /** As {@link #enter}; false where the object is closed. */
  boolean tryEnter() {
    while (true) {
      long now = state;
      if (now < 0) return false;
      if (STATE.compareAndSet(this, now, (now & ~QUIET) + 1)) return true;
    }
  }

  /** Enters a call that may also come while a close waits for another one: to end that one. */
  long enterLate() {
    while (true) {
      long now = state;
      if (now < 0 && (now & CALLS) == 0) throw closed();
      if (STATE.compareAndSet(this, now, (now & ~QUIET) + 1)) return address;
    }
  }

  /** Enters a call for what keeps the object, which may be closed by now. */
  long enterKept() {
    while (true) {
      long now = state;
      if (now < 0 && (now & (CALLS | ALL_KEPT)) == 0) throw closed();
      if (STATE.compareAndSet(this, now, (now & ~QUIET) + 1)) return address;
    }
  }

  /** Leaves a call. If the stack overflows here, as in the call before, that is written down, and done by whoever waits. */
  void exit() {
    exit(1);
  }

  private void exit(int count) {
    try {
      leave(count);
    } catch (StackOverflowError e) {
      synchronized (this) { // which calls nothing
        owed += count;
        isUnsettled = true;
      }
      throw e;
    }
  }

  /** Enters a call that is to be the only one of its kind, for objects that one thread uses at a time. */
  long enterAlone() {
    while (true) {
      long now = state;
      if (now < 0) throw closed();
      if ((now & ALONE) != 0) {
        if (isLeaving) {
          exitAlone();
          continue;
        }
        throw new OrtFFMException(OrtStatus.INVALID_STATE, type.getSimpleName() + ": another call, or a run, is in flight");
      }
      if (STATE.compareAndSet(this, now, (now & ~QUIET) + ALONE + 1)) return address;
    }
  }

  /** Leaves a call that has set {@link #isLeaving}, unless somebody did so for it. */
  void exitAlone() {
    if (!LEAVING.compareAndSet(this, true, false)) return;
    try {
      leave(ALONE + 1);
    } catch (StackOverflowError e) {
      isLeaving = true;
      throw e;
    }
  }

  /** Keeps the object until {@link #letGo}, also when it is closed, which does not wait for that. Within a call. */
  void keep() {
    STATE.getAndAdd(this, KEPT);
  }

  void letGo() {
    leave(KEPT);
  }

  /** Takes a call out of the state. A stack that overflows here leaves it in. */
  private void leave(long count) {
    long now = (long) STATE.getAndAdd(this, -count) - count;
    try {
      left(now);
    } catch (StackOverflowError e) {
      isUnsettled = true;
    }
  }

  /** Takes out of the state what overflowed the stack there. */
  private void settle() {
    if (isLeaving) exitAlone();
    if (!isUnsettled) return;
    int count;
    synchronized (this) {
      count = owed;
      owed = 0;
      isUnsettled = false;
    }
    exit(count);
  }

  private void left(long now) {
    if ((now & (CLOSED | WAITED)) == 0 || (now & CALLS) != 0) return;
    if (now < 0 && (now & ALL_KEPT) == 0) destroy(false);
    if ((now & WAITED) != 0) waiting.signal();
  }

  /** The address, within a call. */
  long address() {
    return address;
  }

  boolean isBusy() {
    settle();
    return (state & ALONE) != 0;
  }

  boolean isClosed() {
    return state < 0;
  }

  IllegalStateException closed() {
    return new IllegalStateException(type.getSimpleName() + " is closed");
  }

  // ---- the end

  /** Closes the object, from any thread, any number of times, and waits until no call is in it, whatever interrupts. */
  void close() {
    mark(true);
    awaitEnd(Deadline.NEVER);
  }

  /** Closes the object, which is gone when the calls that are in it have returned; waits for nothing. */
  void closeSoon() {
    mark(false);
  }

  /** As {@link #close()}, until the deadline; false where a call, or work, is still in the object then, which is open. */
  boolean closeBy(Deadline deadline) {
    if (deadline == Deadline.NEVER) {
      close();
      return true;
    }
    while (enterQuiet(deadline)) {
      boolean isDone = false, isClosed = false;
      try {
        isDone = awaitWork(deadline);
      } finally {
        isClosed = exitQuiet(isDone);
      }
      if (isClosed) return awaitEnd(Deadline.NEVER); // its work is over
      if (!isDone || deadline.isOver()) break;
    }
    return isClosed() && awaitEnd(deadline); // another thread closes it
  }

  /** Waits for the calls and the work in the object, which stays open; false if it timed out. */
  boolean awaitQuiet(Deadline deadline) {
    if (!enterQuiet(deadline)) return isClosed() && awaitEnd(deadline);
    try {
      return awaitWork(deadline);
    } finally {
      exitQuiet(false);
    }
  }

  /** Waits until no call is in the object. */
  void awaitCalls() {
    await(Deadline.NEVER);
  }

  /** Enters a call when no other one is in the object; false if it timed out, or the object is closed. */
  private boolean enterQuiet(Deadline deadline) {
    while (true) {
      settle();
      long now = state;
      if (now < 0) return false;
      requireMayWait();
      if ((now & CALLS) == 0) {
        if (STATE.compareAndSet(this, now, now + (ALONE | QUIET) + 1)) return true;
      } else if (!await(deadline) || deadline.isOver()) { // others may come again and again
        return false;
      }
    }
  }

  /** Leaves that call; closes the object if its work is over and no other call has come: true then. */
  private boolean exitQuiet(boolean isDone) {
    while (true) {
      long now = state;
      boolean closes = isDone && now >= 0 && (now & QUIET) != 0;
      long next = (now & ~(ALONE | QUIET)) - 1 | (closes ? CLOSED : 0);
      if (!STATE.compareAndSet(this, now, next)) continue;
      if (closes) {
        list.remove(this);
        if ((next & ALL_KEPT) == 0) destroy(true);
        if ((next & WAITED) != 0) waiting.signal();
      } else {
        left(next);
      }
      return closes;
    }
  }

  private boolean awaitWork(Deadline deadline) {
    return work == Work.NONE || Threads.await(() -> work.await(address, deadline));
  }

  /** From now on the object is closed. */
  private void mark(boolean isWaitedFor) {
    settle();
    while (true) {
      long now = state;
      if (now < 0) return;
      if (isWaitedFor) requireMayWait();
      if (!STATE.compareAndSet(this, now, now | CLOSED)) continue;
      list.remove(this);
      if ((now & (CALLS | ALL_KEPT)) == 0) destroy(isWaitedFor);
      return;
    }
  }

  /**
   * A callback cannot wait for the call that it is part of. Which that is, is not known: so it waits for none, and where native
   * code called back, for no work either.
   */
  void requireMayWait() {
    boolean hasCall = (state & CALLS) != 0;
    if (hasCall && Threads.isInCallback()) {
      throw inCallback("a call is in it, and a callback of that call cannot wait for it");
    }
    if ((isSlow || isClosed()) && !isGone && Threads.isInNativeCallback()) {
      throw inCallback("a callback cannot wait for its work, which may be what called back");
    }
  }

  /** That a close is refused, in a callback. */
  OrtFFMException inCallback(String why) {
    return new OrtFFMException(OrtStatus.INVALID_STATE, type.getSimpleName() + ": close: " + why + ": close it elsewhere");
  }

  /** @param isWaitedFor whether this thread closes the object and waits for its end */
  private void destroy(boolean isWaitedFor) {
    if (isSlow && (!isWaitedFor || Thread.currentThread().isVirtual())) {
      Threads.executeSurely(this::destroyNow);
    } else {
      destroyNow();
    }
  }

  private void destroyNow() {
    if (!DESTROYER.compareAndSet(this, null, Thread.currentThread())) return;
    try {
      destroy.accept(address);
    } finally { // nobody waits for ever, whatever was thrown
      isGone = true;
      Waiting those = waiting;
      if (those != null) those.signal();
    }
  }

  private boolean isOver() {
    long now = state;
    return (now & CALLS) == 0 && (now < 0 ? isGone || (now & ALL_KEPT) != 0 : true);
  }

  /**
   * Waits until an object that is closed is gone, unless something still keeps it, or this thread is destroying it: what the object
   * used may call back, and close it once more.
   */
  private boolean awaitEnd(Deadline deadline) {
    if (isGone || isOver() || destroyer == Thread.currentThread()) return true;
    requireMayWait();
    return await(deadline);
  }

  /** Waits until no call is in the object, and where it is closed until it is gone, unless something still keeps it. */
  private boolean await(Deadline deadline) {
    Waiting those;
    synchronized (this) {
      if (waiting == null) waiting = new Waiting();
      those = waiting;
    }
    boolean wasInterrupted = false;
    those.lock.lock();
    try {
      while (true) {
        settle();
        STATE.getAndBitwiseOr(this, WAITED);
        if (isOver()) return true;
        long left = deadline.left();
        if (left == 0) return false;
        try {
          those.changed.awaitNanos(Math.min(left, LOOK_NANOS));
        } catch (InterruptedException e) {
          wasInterrupted = true;
        }
      }
    } finally {
      if (!those.lock.hasWaiters(those.changed)) STATE.getAndBitwiseAnd(this, ~WAITED); // others set it again when they wake
      those.lock.unlock();
      if (wasInterrupted) Thread.currentThread().interrupt();
    }
  }

  // ---- what was forgotten

  private static void watch() {
    while (true) {
      try {
        ((Handle) COLLECTED.remove()).ownerIsGone();
      } catch (Throwable e) {
        continue; // a logger's; the next one is looked at all the same
      }
    }
  }

  /** The thread that looks after what was forgotten waits for nothing. */
  private void ownerIsGone() {
    if (isClosed()) return;
    LEAKS.incrementAndGet();
    try {
      if (!REPORT) return;
      String text = type.getSimpleName() + " was not closed before it was collected"
          + (TRACE ? "" : "; -Diobind.leaks=trace says where it was made");
      System.getLogger("io.github.iobind").log(Level.WARNING, text, made);
    } finally {
      closeSoon();
    }
  }

  /** Bytes of all objects that are open, with what each takes besides. */
  static long openBytes() {
    long all = 0;
    for (Open open : OPEN) all += open.bytes();
    return all;
  }

  /**
   * The collector does not see native memory: a program that forgets values would fill it before the heap is full. So it is
   * asked to look whenever what is open has doubled since it looked last. The limit does not come down when values are closed: a
   * program that opens and closes much again and again would have a collection each time.
   */
  private static void collectIfMuch() {
    if (openBytes() < limitNow || !COLLECTING.compareAndSet(false, true)) return;
    System.gc();
    long freed;
    do { // what was found comes one by one
      freed = LEAKS.get();
      LockSupport.parkNanos(5_000_000);
    } while (LEAKS.get() != freed);
    limitNow = Math.max(LIMIT, 2 * openBytes());
    COLLECTING.set(false);
  }
}
