package io.github.iobind.api;

import java.lang.ref.Cleaner;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiConsumer;

/**
 * Bindings of one session for the threads of a service. A thread leases a binding, writes its data into the bound inputs, runs,
 * reads the outputs, and returns the binding. Bindings are created on demand, up to a maximum number. If all are leased,
 * threads wait in the order of arrival; a waiting virtual thread releases its carrier.
 *
 * <p>A binding is prepared once, for a key such as the batch size, and stays bound: leasing it again binds nothing. If the
 * maximum number exists and none with the requested key is free, the binding that was idle for longest is closed and replaced.
 *
 * <p>A lease that is never closed occupies the pool until the garbage collector finds its binding, which is then closed and
 * reported like any other.
 *
 * <p>A pool is thread-safe.
 *
 * @param <K> the key of a binding, with {@code equals} and {@code hashCode}: the batch size, a shape, a tenant
 */
public final class OrtBindingPool<K> implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final OrtSessionFFM session;
  private final int size;
  private final BiConsumer<OrtIoBindingFFM, K> prepare;
  private final ReentrantLock lock = new ReentrantLock(true);
  /** Threads that wait, in the order of arrival, each by a condition of its own. */
  private final ArrayDeque<Condition> waiting = new ArrayDeque<>();
  private final Map<K, ArrayDeque<Member<K>>> free = new HashMap<>();
  /** All free ones, the one that was idle for longest first. */
  private final ArrayDeque<Member<K>> idle = new ArrayDeque<>();
  private int bindings;
  private int leased;
  private boolean isClosed;
  private long leases;
  private long made;
  private long evicted;
  private long waits;
  private long waitedNanos;

  /**
   * Counts of a pool.
   *
   * @param leases how often a binding was leased
   * @param made how many bindings were created and prepared
   * @param evicted how many were closed for a binding of another key
   * @param waits how often a lease had to wait
   * @param waitedNanos the total time of these waits
   * @param bindings the current number of bindings
   * @param leased how many of them are currently leased
   */
  public record Metrics(long leases, long made, long evicted, long waits, long waitedNanos, int bindings, int leased) {}

  /** A binding, its key and its place: the pool has it while it is free, and the lease while it is leased. */
  private static final class Member<K> {
    private final K key;
    private final OrtIoBindingFFM binding;
    private final Place place;

    private Member(K key, OrtIoBindingFFM binding, Place place) {
      this.key = key;
      this.binding = binding;
      this.place = place;
    }
  }

  /** What a binding takes up in the pool; only used under the lock. */
  private static final class Place {
    private boolean isLeased = true;
  }

  /** What is done when a binding was collected. It must not refer to the binding, and must not keep a forgotten pool. */
  private record Collected<K>(WeakReference<OrtBindingPool<K>> pool, Place place) implements Runnable {
    @Override
    public void run() {
      OrtBindingPool<K> open = pool.get();
      if (open != null) open.forgetCollected(place);
    }
  }

  /**
   * A leased binding, for one thread; closing the lease returns the binding.
   *
   * @param <K> the pool's keys
   */
  public static final class Lease<K> implements AutoCloseable {
    private final OrtBindingPool<K> pool;
    private final K key;
    /** Null: the lease is closed. A closed one does not keep the binding, which may be another lease's. */
    private volatile Member<K> member;

    private Lease(OrtBindingPool<K> pool, Member<K> member) {
      this.pool = pool;
      this.key = member.key;
      this.member = member;
    }

    /**
     * The binding, prepared for the key.
     *
     * @return the binding; not to be used after {@link #close}, when another thread may have it
     * @throws IllegalStateException the lease is closed
     */
    public OrtIoBindingFFM binding() {
      Member<K> leased = member;
      if (leased == null) throw new IllegalStateException("Lease is closed: another thread may have its binding by now");
      return leased.binding;
    }

    /**
     * The key of the lease.
     *
     * @return the key
     */
    public K key() {
      return key;
    }

    /**
     * Returns the binding unchanged; later calls are no-ops. A binding that was closed is dropped. A run still in flight, such
     * as one of {@link OrtIoBindingFFM#runAsync} whose future was cancelled, is cancelled. This call does not wait for it: the
     * binding is back in the pool when the run has ended.
     *
     * @throws OrtFFMException RUNTIME: the run could not be cancelled; the binding is back when the run has ended
     */
    @Override
    public void close() {
      pool.give(this);
    }
  }

  /**
   * A pool.
   *
   * @param session the session of the bindings; the caller closes it, after the pool
   * @param size the maximum number of bindings
   * @param prepare binds the inputs and outputs of a binding for a key; called once for each new binding
   * @throws IllegalArgumentException the size is less than 1
   */
  public OrtBindingPool(OrtSessionFFM session, int size, BiConsumer<OrtIoBindingFFM, K> prepare) {
    if (size < 1) throw new IllegalArgumentException("size: expected 1 or more, got " + size);
    this.session = Objects.requireNonNull(session, "session");
    this.size = size;
    this.prepare = Objects.requireNonNull(prepare, "prepare");
  }

  /**
   * Leases a binding, and waits for one without a time limit.
   *
   * @param key the key
   * @return the lease, closed by the caller
   * @throws InterruptedException the thread was interrupted while it waited
   * @throws OrtFFMException as {@link OrtSessionFFM#createBinding}, and exceptions of {@code prepare}
   * @throws IllegalStateException the pool is closed
   */
  public Lease<K> lease(K key) throws InterruptedException {
    return lease(key, Deadline.NEVER);
  }

  /**
   * Leases a binding, and waits for one with a time limit.
   *
   * @param key the key
   * @param timeout the longest time
   * @return the lease, closed by the caller
   * @throws InterruptedException the thread was interrupted while it waited
   * @throws OrtFFMException as {@link #lease(Object)}; TIMEOUT: all were leased, or the binding to be replaced was still in use
   * @throws IllegalStateException the pool is closed
   */
  public Lease<K> lease(K key, Duration timeout) throws InterruptedException {
    return lease(key, Deadline.in(timeout));
  }

  private Lease<K> lease(K key, Deadline deadline) throws InterruptedException {
    Objects.requireNonNull(key, "key");
    Member<K> unwanted = null;
    lock.lockInterruptibly();
    try {
      awaitRoom(deadline);
      leased++;
      Lease<K> found = takeFree(key);
      if (found != null) {
        leases++;
        return found;
      }
      if (bindings == size) {
        unwanted = idle.getFirst();
        remove(unwanted);
      } else {
        bindings++;
      }
    } finally {
      lock.unlock();
    }
    if (unwanted != null) evict(unwanted, deadline);
    return make(key);
  }

  /** Waits until a binding is free, or one can be made, and no thread waits that came before. */
  private void awaitRoom(Deadline deadline) throws InterruptedException {
    requireOpen();
    if (waiting.isEmpty() && hasRoom()) return;
    if (deadline.isOver()) throw allLeased();
    Condition turn = lock.newCondition();
    waiting.addLast(turn);
    waits++;
    long from = System.nanoTime();
    try {
      while (waiting.peekFirst() != turn || !hasRoom()) {
        requireOpen();
        if (deadline.isOver()) throw allLeased();
        turn.awaitNanos(deadline.left());
      }
      requireOpen();
    } finally {
      waiting.remove(turn);
      waitedNanos += System.nanoTime() - from;
      signalNext(); // who comes next looks whether there is room
    }
  }

  private boolean hasRoom() {
    return bindings < size || !idle.isEmpty();
  }

  private void requireOpen() {
    if (isClosed) throw new IllegalStateException("OrtBindingPool is closed");
  }

  private OrtFFMException allLeased() {
    return new OrtFFMException(OrtStatus.TIMEOUT, "lease: all " + size + " bindings of the pool are leased");
  }

  private void signalNext() {
    if (!waiting.isEmpty()) waiting.getFirst().signal();
  }

  /** A lease of the free binding of the key that was used last, whose memory is warm; null: there is none. */
  private Lease<K> takeFree(K key) {
    while (free.containsKey(key)) {
      Member<K> found = free.get(key).getLast();
      remove(found);
      if (found.binding.isClosed()) { // by somebody who had leased it
        bindings--;
        continue;
      }
      found.place.isLeased = true;
      return new Lease<>(this, found);
    }
    return null;
  }

  private void remove(Member<K> member) {
    idle.remove(member);
    ArrayDeque<Member<K>> ofKey = free.get(member.key);
    ofKey.remove(member);
    if (ofKey.isEmpty()) free.remove(member.key);
  }

  private void add(Member<K> member) {
    free.computeIfAbsent(member.key, key -> new ArrayDeque<>()).addLast(member);
    idle.addLast(member);
  }

  /** Closes a binding that another one takes the place of; what cannot be closed stays in the pool. */
  private void evict(Member<K> unwanted, Deadline deadline) {
    boolean isGone = false;
    try {
      isGone = unwanted.binding.closeBy(deadline);
    } finally {
      lock.lock();
      try {
        if (isGone) {
          evicted++;
        } else {
          leased--;
          if (unwanted.binding.isClosed()) {
            bindings--;
          } else {
            add(unwanted); // also where the pool was closed meanwhile: closing it again closes this one
          }
          signalNext();
        }
      } finally {
        lock.unlock();
      }
    }
    if (isGone) return;
    throw new OrtFFMException(OrtStatus.TIMEOUT,
        "lease: all " + size + " bindings of the pool are in use: work of the one that was to be closed is in flight");
  }

  /** Makes a binding, outside the lock: others are leased meanwhile. */
  private Lease<K> make(K key) {
    OrtIoBindingFFM binding = null;
    Place place = new Place();
    boolean isMade = false;
    try {
      binding = session.createBinding();
      prepare.accept(binding, key);
      CLEANER.register(binding, new Collected<>(new WeakReference<>(this), place));
      isMade = true;
    } finally {
      if (!isMade) {
        try {
          if (binding != null) binding.close();
        } finally {
          forget(place);
        }
      }
    }
    lock.lock();
    try {
      made++;
      leases++;
    } finally {
      lock.unlock();
    }
    return new Lease<>(this, new Member<>(key, binding, place));
  }

  /** A place that was leased is free for another binding. */
  private void forget(Place place) {
    lock.lock();
    try {
      place.isLeased = false;
      bindings--;
      leased--;
      signalNext();
    } finally {
      lock.unlock();
    }
  }

  /** Called by the thread that looks after what was collected; a binding that was given back and closed has no place any more. */
  private void forgetCollected(Place place) {
    lock.lock();
    try {
      if (place.isLeased) forget(place);
    } finally {
      lock.unlock();
    }
  }

  private void give(Lease<K> lease) {
    Member<K> member;
    lock.lock();
    try {
      member = lease.member;
      lease.member = null;
    } finally {
      lock.unlock();
    }
    if (member == null) return;
    if (!member.binding.isBusy()) {
      takeBack(member);
      return;
    }
    try {
      member.binding.cancel();
    } catch (IllegalStateException closed) { // and the run has ended
      return;
    } finally {
      Threads.executeSurely(() -> {
        member.binding.awaitCalls();
        takeBack(member);
      });
    }
  }

  /** A binding in which no call is any more. */
  private void takeBack(Member<K> member) {
    lock.lock();
    try {
      member.place.isLeased = false;
      if (!isClosed && !member.binding.isClosed()) {
        leased--;
        add(member);
        signalNext();
        return;
      }
    } finally {
      lock.unlock();
    }
    try {
      member.binding.close();
    } finally {
      forget(member.place);
    }
  }

  /**
   * Counts of the pool, for a service's metrics.
   *
   * @return the current counts
   */
  public Metrics metrics() {
    lock.lock();
    try {
      return new Metrics(leases, made, evicted, waits, waitedNanos, bindings, leased);
    } finally {
      lock.unlock();
    }
  }

  /**
   * Closes all bindings; leased ones are closed when they are returned. Waiting threads get an IllegalStateException.
   *
   * @throws OrtFFMException as {@link OrtIoBindingFFM#close()}: the failure of the first binding that could not be closed,
   *     after all others were; closing the pool again closes that one
   */
  @Override
  public void close() {
    List<Member<K>> all;
    lock.lock();
    try {
      isClosed = true;
      all = new ArrayList<>(idle);
      idle.clear();
      free.clear();
      bindings -= all.size();
      waiting.forEach(Condition::signal);
    } finally {
      lock.unlock();
    }
    RuntimeException first = null;
    for (Member<K> member : all) {
      try {
        member.binding.close();
      } catch (RuntimeException e) {
        if (first == null) first = e;
        keep(member);
      }
    }
    if (first != null) throw first;
  }

  /** A binding that could not be closed, in a pool that is. */
  private void keep(Member<K> member) {
    if (member.binding.isClosed()) return;
    lock.lock();
    try {
      add(member);
      bindings++;
    } finally {
      lock.unlock();
    }
  }
}
