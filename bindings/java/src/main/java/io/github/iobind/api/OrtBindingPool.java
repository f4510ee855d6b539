package io.github.iobind.api;

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
 * Bindings of one session for the threads of a service: what each of them would write itself. A thread leases a binding, writes
 * its data into what is bound, runs, reads, and gives the binding back. Bindings are made when they are first needed, at most so
 * many at a time; who comes when all are leased waits, in the order of arrival, and a virtual thread lets its carrier go.
 *
 * <p>A binding is prepared once, for a key such as the batch size, and kept with everything that is bound to it: leasing it
 * again binds nothing. When all bindings are made and none of the wanted key is free, the one that was idle for longest is
 * closed for a new one.
 *
 * <p>Any thread may call any method at any time.
 *
 * @param <K> what bindings differ in, with {@code equals} and {@code hashCode}: the batch size, a shape, a tenant
 */
public final class OrtBindingPool<K> implements AutoCloseable {
  private final OrtSessionFFM session;
  private final int size;
  private final BiConsumer<OrtIoBindingFFM, K> prepare;
  private final ReentrantLock lock = new ReentrantLock(true);
  private final Condition returned = lock.newCondition();
  private final Map<K, ArrayDeque<Lease<K>>> free = new HashMap<>();
  /** All free ones, the one that was idle for longest first. */
  private final ArrayDeque<Lease<K>> idle = new ArrayDeque<>();
  private int bindings;
  private int leased;
  private boolean isClosed;
  private long leases;
  private long made;
  private long evicted;
  private long waits;
  private long waitedNanos;

  /**
   * What a pool has done so far.
   *
   * @param leases how often a binding was leased
   * @param made how many bindings were made and prepared
   * @param evicted how many were closed for one of another key
   * @param waits how often a lease had to wait
   * @param waitedNanos for how long, all of them together
   * @param bindings how many bindings there are now
   * @param leased how many of them are leased now
   */
  public record Metrics(long leases, long made, long evicted, long waits, long waitedNanos, int bindings, int leased) {}

  /**
   * A binding that is leased: for one thread, until it is closed, which gives the binding back.
   *
   * @param <K> the pool's keys
   */
  public static final class Lease<K> implements AutoCloseable {
    private final OrtBindingPool<K> pool;
    private final K key;
    private final OrtIoBindingFFM binding;
    private boolean isLeased;

    private Lease(OrtBindingPool<K> pool, K key, OrtIoBindingFFM binding) {
      this.pool = pool;
      this.key = key;
      this.binding = binding;
    }

    /**
     * The binding, prepared for the key.
     *
     * @return the binding; not to be used after {@link #close}
     */
    public OrtIoBindingFFM binding() {
      return binding;
    }

    /**
     * What it was leased for.
     *
     * @return the key
     */
    public K key() {
      return key;
    }

    /**
     * Gives the binding back as it is, any number of times; one that was closed is forgotten. A run of
     * {@link OrtIoBindingFFM#runAsync} must be over.
     *
     * @throws OrtFFMException INVALID_STATE: a run is under way; the binding is still leased
     */
    @Override
    public void close() {
      pool.give(this);
    }
  }

  /**
   * A pool.
   *
   * @param session of which bindings are made; closed by the caller, after the pool
   * @param size the most bindings at a time
   * @param prepare binds what a binding of a key keeps: inputs to write into, outputs; called once for each binding that is made
   * @throws IllegalArgumentException the size is less than 1
   */
  public OrtBindingPool(OrtSessionFFM session, int size, BiConsumer<OrtIoBindingFFM, K> prepare) {
    if (size < 1) throw new IllegalArgumentException("size: expected 1 or more, got " + size);
    this.session = Objects.requireNonNull(session, "session");
    this.size = size;
    this.prepare = Objects.requireNonNull(prepare, "prepare");
  }

  /**
   * Leases a binding, waiting for one as long as it takes.
   *
   * @param key what it is for
   * @return the lease, closed by the caller
   * @throws InterruptedException the thread was interrupted while it waited
   * @throws OrtFFMException as {@link OrtSessionFFM#createBinding} and what prepares the binding
   * @throws IllegalStateException the pool is closed
   */
  public Lease<K> lease(K key) throws InterruptedException {
    return lease(key, Deadline.NEVER);
  }

  /**
   * Leases a binding, waiting for one for a limited time.
   *
   * @param key what it is for
   * @param timeout how long
   * @return the lease, closed by the caller
   * @throws InterruptedException the thread was interrupted while it waited
   * @throws OrtFFMException as {@link #lease(Object)}; TIMEOUT: all were leased for so long, or the one that was to be closed for a new
   *     one was still at work
   * @throws IllegalStateException the pool is closed
   */
  public Lease<K> lease(K key, Duration timeout) throws InterruptedException {
    return lease(key, Deadline.in(timeout));
  }

  private Lease<K> lease(K key, Deadline deadline) throws InterruptedException {
    Objects.requireNonNull(key, "key");
    Lease<K> unwanted = null;
    lock.lockInterruptibly();
    try {
      awaitRoom(key, deadline);
      leases++;
      leased++;
      Lease<K> found = takeFree(key);
      if (found != null) return found;
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

  /** Waits until a binding of the key is free, or one can be made. */
  private void awaitRoom(K key, Deadline deadline) throws InterruptedException {
    long from = 0;
    try {
      while (true) {
        if (isClosed) throw new IllegalStateException("OrtBindingPool is closed");
        if (free.containsKey(key) || bindings < size || !idle.isEmpty()) return;
        if (deadline.isOver()) {
          throw new OrtFFMException(OrtStatus.TIMEOUT, "lease: all " + size + " bindings of the pool are leased");
        }
        if (from == 0) {
          from = System.nanoTime();
          waits++;
        }
        returned.awaitNanos(deadline.left());
      }
    } finally {
      if (from != 0) waitedNanos += System.nanoTime() - from;
    }
  }

  /** The free binding of the key that was used last, whose memory is warm; null: there is none. */
  private Lease<K> takeFree(K key) {
    while (free.containsKey(key)) {
      Lease<K> found = free.get(key).getLast();
      remove(found);
      if (found.binding.isClosed()) { // by somebody who had leased it
        bindings--;
        continue;
      }
      Lease<K> again = new Lease<>(this, key, found.binding); // a second close of the old one gives nothing back
      again.isLeased = true;
      return again;
    }
    return null;
  }

  private void remove(Lease<K> lease) {
    idle.remove(lease);
    ArrayDeque<Lease<K>> ofKey = free.get(lease.key);
    ofKey.remove(lease);
    if (ofKey.isEmpty()) free.remove(lease.key);
  }

  private void add(Lease<K> lease) {
    free.computeIfAbsent(lease.key, key -> new ArrayDeque<>()).addLast(lease);
    idle.addLast(lease);
  }

  /** Closes a binding that another one takes the place of; what cannot be closed stays in the pool. */
  private void evict(Lease<K> unwanted, Deadline deadline) {
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
          returned.signal();
        }
      } finally {
        lock.unlock();
      }
    }
    if (isGone) return;
    throw new OrtFFMException(OrtStatus.TIMEOUT,
        "lease: all " + size + " bindings of the pool are in use: work of the one that was to be closed is under way");
  }

  /** Makes a binding, outside the lock: others are leased meanwhile. */
  private Lease<K> make(K key) {
    OrtIoBindingFFM binding = null;
    boolean isPrepared = false;
    try {
      binding = session.createBinding();
      prepare.accept(binding, key);
      isPrepared = true;
    } finally {
      if (!isPrepared) {
        try {
          if (binding != null) binding.close();
        } finally {
          forget();
        }
      }
    }
    lock.lock();
    try {
      made++;
    } finally {
      lock.unlock();
    }
    Lease<K> lease = new Lease<>(this, key, binding);
    lease.isLeased = true;
    return lease;
  }

  private void forget() {
    lock.lock();
    try {
      bindings--;
      leased--;
      returned.signal();
    } finally {
      lock.unlock();
    }
  }

  private void give(Lease<K> lease) {
    lock.lock();
    try {
      if (!lease.isLeased) return;
      if (lease.binding.isBusy()) {
        throw new OrtFFMException(OrtStatus.INVALID_STATE, "lease: a run of the binding is under way: wait for its future first");
      }
      lease.isLeased = false;
      if (!isClosed && !lease.binding.isClosed()) {
        leased--;
        add(lease);
        returned.signal();
        return;
      }
    } finally {
      lock.unlock();
    }
    try {
      lease.binding.close();
    } finally {
      forget();
    }
  }

  /**
   * What the pool has done so far, for a service's metrics.
   *
   * @return the numbers as they are now
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
   * Closes all bindings, those that are leased when they come back. Threads that wait for one get an IllegalStateException.
   *
   * @throws OrtFFMException as {@link OrtIoBindingFFM#close()}: what the first binding failed with that could not be closed, when all
   *     others are; closing the pool again closes that one
   */
  @Override
  public void close() {
    List<Lease<K>> all;
    lock.lock();
    try {
      isClosed = true;
      all = new ArrayList<>(idle);
      idle.clear();
      free.clear();
      bindings -= all.size();
      returned.signalAll();
    } finally {
      lock.unlock();
    }
    RuntimeException first = null;
    for (Lease<K> lease : all) {
      try {
        lease.binding.close();
      } catch (RuntimeException e) {
        if (first == null) first = e;
        keep(lease);
      }
    }
    if (first != null) throw first;
  }

  /** A binding that could not be closed, in a pool that is. */
  private void keep(Lease<K> lease) {
    if (lease.binding.isClosed()) return;
    lock.lock();
    try {
      add(lease);
      bindings++;
    } finally {
      lock.unlock();
    }
  }
}
