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
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

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
      assertEquals(new OrtBindingPool.Metrics(6, 3, 1, 1, pool.metrics().waitedNanos(), 2, 0), pool.metrics());
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
      while (pool.metrics().waits() == 0) Thread.onSpinWait();
      pool.close();
      waiting.join();
      assertTrue(failure.get().getMessage().contains("closed"));
      last.binding().runWithBindings(); // is closed when it comes back
      last.close();
      assertTrue(last.binding().isClosed());
      assertThrows(IllegalArgumentException.class, () -> pool(session, 0));
    }
  }
}
