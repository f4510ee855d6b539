package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Bindings that the threads of a service share. */
class PoolTest {
  private static OrtRuntimeFFM runtime;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create();
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  private static OrtBindingPool<Integer> pool(OrtSessionFFM session, int size) {
    return new OrtBindingPool<>(session, size, (binding, batch) -> {
      binding.bindInput("x", new float[batch], batch);
      binding.bindOutput("y", new long[] {batch}, OnnxTensorElementType.FLOAT32, DeviceSpec.CPU);
    });
  }

  @Test
  void manyThreadsShareFew() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtBindingPool<Integer> pool = pool(session, 3);
        var executor = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<?>> all = new ArrayList<>();
      for (int thread = 0; thread < 40; thread++) {
        int number = thread;
        all.add(executor.submit(() -> {
          for (int i = 0; i < 20; i++) {
            int batch = 1 + (number + i) % 4;
            try (OrtBindingPool.Lease<Integer> lease = pool.lease(batch)) {
              float[] x = new float[batch], y = new float[batch];
              x[batch - 1] = number;
              lease.binding().update("x", x);
              lease.binding().runWithBindings();
              Thread.yield();
              lease.binding().readOutput("y", y);
              assertEquals(2 * number, y[batch - 1]);
            }
          }
          return null;
        }));
      }
      for (Future<?> one : all) one.get();
      OrtBindingPool.Metrics metrics = pool.metrics();
      assertEquals(800, metrics.leases());
      assertEquals(0, metrics.leased());
      assertTrue(metrics.bindings() <= 3);
      assertEquals(metrics.made() - metrics.evicted(), metrics.bindings());
      assertTrue(metrics.waits() == 0 ? metrics.waitedNanos() == 0 : metrics.waitedNanos() > 0);
    }
  }

  @Test
  void bindingsAreKeptByKey() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtBindingPool<Integer> pool = pool(session, 2)) {
      OrtIoBindingFFM one, two;
      OrtBindingPool.Lease<Integer> old = pool.lease(1);
      old.close();
      try (var lease = pool.lease(1)) {
        old.close(); // not this one
        assertEquals(1, pool.metrics().leased());
        assertEquals(1, lease.key());
      }
      try (var lease = pool.lease(1); var other = pool.lease(2)) {
        one = lease.binding();
        two = other.binding();
        assertEquals(2, other.key());
        OrtFFMException e = assertThrows(OrtFFMException.class, () -> pool.lease(1, Duration.ofMillis(1)));
        assertEquals(OrtStatus.TIMEOUT, e.status());
      }
      try (var lease = pool.lease(1)) {
        assertSame(one, lease.binding());
      }
      try (var lease = pool.lease(3)) { // for which the one of 2 goes, which was idle for longest
        assertTrue(two.isClosed());
        assertNotSame(one, lease.binding());
      }
      assertFalse(one.isClosed());
      OrtBindingPool.Metrics metrics = pool.metrics();
      assertTrue(metrics.waits() <= 1); // none where the thread was away for the whole millisecond
      assertEquals(new OrtBindingPool.Metrics(6, 3, 1, metrics.waits(), metrics.waitedNanos(), 2, 0), metrics);
    }
  }

  @Test
  void whatFailsLeavesThePoolWhole() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale")) {
      OrtBindingPool<Integer> pool = pool(session, 1);
      for (int i = 0; i < 3; i++) {
        assertThrows(NegativeArraySizeException.class, () -> pool.lease(-1)); // what prepares it failed
      }
      OrtBindingPool.Lease<Integer> lease = pool.lease(1);
      lease.binding().close(); // by mistake
      lease.close();
      lease.close();
      assertEquals(0, pool.metrics().bindings());
      OrtBindingPool.Lease<Integer> last = pool.lease(1);
      AtomicReference<Throwable> failure = new AtomicReference<>();
      Thread waiting = Thread.ofVirtual().start(() -> failure.set(assertThrows(IllegalStateException.class, () -> pool.lease(1))));
      Wait.until("a thread waits", () -> pool.metrics().waits() > 0);
      pool.close();
      waiting.join();
      assertTrue(failure.get().getMessage().contains("closed"));
      OrtIoBindingFFM binding = last.binding();
      binding.runWithBindings(); // is closed when it comes back
      last.close();
      assertTrue(binding.isClosed());
      assertThrows(IllegalArgumentException.class, () -> pool(session, 0));
    }
  }

  /** A binding that somebody closed after he gave it back is not leased again. */
  @Test
  void closedBindingsAreForgotten() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtBindingPool<Integer> pool = pool(session, 2)) {
      OrtIoBindingFFM one, two;
      try (var lease = pool.lease(1); var other = pool.lease(2)) {
        one = lease.binding();
        two = other.binding();
      }
      one.close();
      two.close();
      try (var again = pool.lease(1)) {
        again.binding().runWithBindings();
      }
      try (var third = pool.lease(3)) {
        third.binding().runWithBindings();
      }
      assertEquals(0, pool.metrics().leased());
    }
  }

  /** The binding is another lessee's by then, whose data it must not change. */
  @Test
  void aClosedLeaseGivesNoBinding() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtBindingPool<Integer> pool = pool(session, 1)) {
      OrtBindingPool.Lease<Integer> closed = pool.lease(4);
      OrtIoBindingFFM binding = closed.binding();
      closed.close();
      try (var lease = pool.lease(4)) {
        assertSame(binding, lease.binding());
        lease.binding().update("x", new float[] {1, 2, 3, 4});
        assertTrue(assertThrows(IllegalStateException.class, closed::binding).getMessage().startsWith("Lease is closed"));
        assertEquals(4, closed.key());
      }
    }
  }

  /** A lease that nobody closed, of a binding that is open or closed: a waiting thread gets the place when the collector finds it. */
  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aForgottenLease() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtBindingPool<Integer> pool = pool(session, 2)) {
      OrtBindingPool.Lease<Integer> old = pool.lease(4);
      old.close(); // is kept, and does not keep the binding
      long leaks = Handle.LEAKS.get();
      var forgotten = new AtomicReference<>(List.of(pool.lease(4), pool.lease(5)));
      forgotten.get().getFirst().binding().runWithBindings();
      forgotten.get().getLast().binding().close();
      assertEquals(2, pool.metrics().leased());
      Future<Integer> waiting = taken(pool, 6);
      Wait.until("a thread waits", () -> pool.metrics().waits() > 0);
      forgotten.set(null); // until now: the JVM may collect at any time, and a thread that finds a place free does not wait
      Wait.untilCollected("both leases are found",
          () -> waiting.isDone() && pool.metrics().bindings() == 1 && Handle.LEAKS.get() > leaks);
      assertEquals(6, waiting.get());
      assertEquals(4, old.key());
      assertEquals(1, pool.metrics().bindings());
      assertEquals(0, pool.metrics().leased());
    }
  }

  /** A lease by a thread of its own, which waits as long as it takes, and gives it back. */
  private static Future<Integer> taken(OrtBindingPool<Integer> pool, int key) {
    FutureTask<Integer> task = new FutureTask<>(() -> {
      try (var lease = pool.lease(key)) {
        return lease.key();
      }
    });
    Thread.ofPlatform().daemon().start(task);
    return task;
  }

  /** A run that was given up, in whatever way, is cancelled with its lease, and its binding is leased again when it has ended. */
  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void runsThatWereGivenUp() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop")) {
      OrtBindingPool<Long> pool = new OrtBindingPool<>(session, 2, (binding, trips) -> {
        binding.bindInput(0, new long[] {trips});
        binding.bindInput(1, new float[] {1}, 1);
      });
      for (int i = 0; i < 8; i++) {
        CompletableFuture<Void> run;
        try (var lease = pool.lease(ENDLESS)) {
          run = lease.binding().runAsync();
          if (i % 4 == 0) assertThrows(TimeoutException.class, () -> run.get(1, TimeUnit.MILLISECONDS));
          if (i % 4 == 1) assertTrue(run.cancel(true));
          if (i % 4 == 2) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, run::get);
          }
        }
        assertThrows(CancellationException.class, run::get);
      }
      try (var lease = pool.lease(3L); var other = pool.lease(4L)) { // all places are there
        lease.binding().runWithBindings();
        other.binding().runWithBindings();
        assertEquals(2, pool.metrics().leased());
      }
      assertEquals(0, pool.metrics().leased());
      OrtIoBindingFFM binding;
      try (var lease = pool.lease(ENDLESS)) {
        binding = lease.binding();
        binding.runAsync();
        pool.close();
      }
      Wait.until("it comes back into a pool that is closed", () -> pool.metrics().bindings() == 0);
      assertTrue(binding.isClosed());
    }
  }

  private static final long ENDLESS = 1_000_000_000_000L;

  /** Bindings over a loop that runs on a stream until it is cancelled, with memory that is held meanwhile. */
  private static OrtBindingPool<Integer> loops(OrtSessionFFM session, OrtStreamFFM stream, java.lang.foreign.Arena arena, int size) {
    return new OrtBindingPool<>(session, size, (binding, key) -> {
      binding.bindInput(0, new long[] {key == 1 ? 1_000_000_000_000L : 1});
      binding.bindInput(1, new float[] {1}, 1);
      binding.bindOutput(session.outputs().getFirst().name(), arena.allocate(4, 4),
          MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1));
      if (key == 1) binding.runWithBindings(stream, null);
    });
  }

  /** A lease that has to close another binding waits for that no longer than it may, and the binding stays in the pool. */
  @Test
  void aBindingThatIsStillAtWork() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); var arena = java.lang.foreign.Arena.ofShared();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      OrtBindingPool<Integer> pool = loops(session, stream, arena, 1);
      OrtIoBindingFFM busy;
      try (var lease = pool.lease(1)) {
        busy = lease.binding();
      }
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> pool.lease(2, Duration.ofMillis(5)));
      assertEquals(OrtStatus.TIMEOUT, e.status());
      assertEquals(new OrtBindingPool.Metrics(1, 1, 0, 0, 0, 1, 0), pool.metrics());
      try (var lease = pool.lease(1)) {
        assertSame(busy, lease.binding());
      }
      busy.cancel();
      assertThrows(OrtFFMException.class, stream::synchronize);
      pool.lease(2, Duration.ofDays(1)).close();
      assertEquals(1, pool.metrics().evicted());
      pool.close();
      assertEquals(0, pool.metrics().bindings());
    }
  }

  /** A pool that is closed in a callback closes what needs no waiting, and says what it could not close. */
  @Test
  void closedInACallback() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); var arena = java.lang.foreign.Arena.ofShared();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      OrtBindingPool<Integer> pool = loops(session, stream, arena, 2);
      OrtIoBindingFFM busy, idle;
      try (var lease = pool.lease(1); var other = pool.lease(2)) {
        idle = other.binding();
        busy = lease.binding();
      }
      pool.lease(2).close(); // it is closed last
      AtomicReference<OrtFFMException> thrown = new AtomicReference<>();
      OrtValueRef.wrap(runtime, DeviceSpec.CPU, java.lang.foreign.Arena.global().allocate(4, 4),
          MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1), () -> thrown.set(assertThrows(OrtFFMException.class, pool::close)))
          .close();
      assertEquals(OrtStatus.INVALID_STATE, thrown.get().status());
      assertTrue(idle.isClosed());
      assertFalse(busy.isClosed());
      assertEquals(1, pool.metrics().bindings());
      assertThrows(IllegalStateException.class, () -> pool.lease(2));
      busy.cancel();
      pool.close();
      assertTrue(busy.isClosed());
      assertEquals(0, pool.metrics().bindings());
      assertThrows(OrtFFMException.class, stream::synchronize);
    }
  }

  /** A thread that comes in the moment in which a binding is given back does not get it before one that has waited. */
  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void threadsAreServedInTheOrderOfArrival() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtBindingPool<Integer> pool = pool(session, 1)) {
      var field = OrtBindingPool.class.getDeclaredField("lock");
      field.setAccessible(true);
      var lock = (java.util.concurrent.locks.ReentrantLock) field.get(pool);
      List<String> served = new java.util.concurrent.CopyOnWriteArrayList<>();
      OrtBindingPool.Lease<Integer> lease = pool.lease(1);
      Thread first = Thread.ofPlatform().start(() -> leaseOnce(pool, "first", served));
      Wait.until("a thread waits", () -> pool.metrics().waits() > 0);
      Thread second;
      lock.lock();
      try {
        second = Thread.ofPlatform().start(() -> leaseOnce(pool, "second", served));
        Wait.until("the second comes", () -> lock.hasQueuedThread(second));
        lease.close();
      } finally {
        lock.unlock();
      }
      first.join();
      second.join();
      assertEquals(List.of("first", "second"), served);
    }
  }

  private static void leaseOnce(OrtBindingPool<Integer> pool, String name, List<String> served) {
    try (OrtBindingPool.Lease<Integer> lease = pool.lease(1)) {
      lease.binding().bindInput("x", new float[] {1}, 1);
      served.add(name);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
