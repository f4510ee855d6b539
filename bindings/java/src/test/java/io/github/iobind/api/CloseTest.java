package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What close waits for, and what it does not. */
class CloseTest {
  private static final long ENDLESS = 1_000_000_000_000L;
  private static final MemoryDescriptor ONE = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1);
  private static OrtRuntimeFFM runtime;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create();
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  private static OrtIoBindingFFM loop(OrtSessionFFM session, long trips) {
    OrtIoBindingFFM binding = session.createBinding();
    binding.bindInput(0, new long[] {trips});
    binding.bindInput(1, new float[] {1}, 1);
    return binding;
  }

  /** A close that is not given enough time leaves all as it was. */
  @Test
  void aRunOutlastsACloseThatHasATime() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop")) {
      OrtIoBindingFFM binding = loop(session, ENDLESS);
      CompletableFuture<Void> run = binding.runAsync();
      Thread.currentThread().interrupt();
      assertFalse(binding.close(Duration.ofMillis(10)));
      assertTrue(Thread.interrupted());
      assertFalse(run.isDone());
      binding.cancel();
      assertThrows(CancellationException.class, run::get);
      binding.bindInput(0, new long[] {2}); // it is open
      binding.runWithBindings();
      assertTrue(binding.close(Duration.ZERO));
      assertTrue(binding.close(Duration.ZERO));
      assertThrows(IllegalStateException.class, binding::runWithBindings);
    }
  }

  /** While one thread waits in close, another one can still cancel what it waits for; virtual ones let their carriers go. */
  @Test
  void closeWaitsForTheRun() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop")) {
      OrtIoBindingFFM binding = loop(session, ENDLESS);
      CompletableFuture<Void> run = binding.runAsync();
      AtomicBoolean isCancelled = new AtomicBoolean();
      AtomicInteger early = new AtomicInteger();
      CountDownLatch closing = new CountDownLatch(40);
      Thread[] threads = new Thread[40]; // more than there are carriers
      for (int i = 0; i < threads.length; i++) {
        threads[i] = Thread.startVirtualThread(() -> {
          closing.countDown();
          binding.close();
          if (!isCancelled.get()) early.incrementAndGet();
        });
      }
      closing.await();
      Wait.until("a close begins", () -> isClosed(binding));
      assertFalse(binding.close(Duration.ofMillis(10))); // also where others close it
      isCancelled.set(true);
      binding.cancel();
      for (Thread thread : threads) thread.join();
      assertEquals(0, early.get());
      assertThrows(CancellationException.class, run::get);
      assertThrows(IllegalStateException.class, binding::cancel);
    }
  }

  private static boolean isClosed(OrtIoBindingFFM binding) {
    try {
      binding.check();
      return false;
    } catch (OrtFFMException underWay) {
      return false;
    } catch (IllegalStateException closed) {
      return true;
    }
  }

  @Test
  void stagesRunElsewhereAndMayClose() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop")) {
      OrtIoBindingFFM binding = loop(session, 10_000);
      AtomicReference<Thread> stage = new AtomicReference<>();
      binding.runAsync().thenRun(() -> {
        stage.set(Thread.currentThread());
        binding.close();
      }).get();
      assertNotNull(stage.get());
      assertThrows(IllegalStateException.class, binding::runWithBindings);
    }
  }

  /** A run that cannot begin is the future's failure; and one that was given up at once does not get away. */
  @Test
  void failuresAndCancelsReachTheFuture() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM empty = session.createBinding();
        OrtIoBindingFFM binding = loop(session, ENDLESS)) {
      Throwable failure = assertThrows(java.util.concurrent.ExecutionException.class, () -> empty.runAsync().get()).getCause();
      assertEquals(OrtStatus.INVALID_STATE, ((OrtFFMException) failure).status());
      for (int i = 0; i < 20; i++) {
        CompletableFuture<Void> run = binding.runAsync();
        assertTrue(run.cancel(true));
        assertThrows(CancellationException.class, run::get);
        assertFalse(run.cancel(true));
        run = binding.runAsync();
        binding.cancel(); // hits it, begun or not
        assertThrows(CancellationException.class, run::get);
      }
      CompletableFuture<Void> run = binding.runAsync();
      assertThrows(UnsupportedOperationException.class, () -> run.obtrudeValue(null));
      assertThrows(UnsupportedOperationException.class, () -> run.completeAsync(() -> null));
      run.complete(null);
      run.get();
    }
  }

  /** A run that was given up before it began ends at once; its cancel, said by another thread, is not heard by the next run. */
  @Test
  void aCancelIsForOneRun() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM binding = loop(session, 1000)) {
      for (int i = 0; i < 300; i++) {
        CompletableFuture<Void> run = binding.runAsync();
        if (run.cancel(true)) {
          assertThrows(CancellationException.class, run::get);
        } else {
          run.get(); // it had ended
        }
        binding.runWithBindings();
      }
    }
  }

  /** Two threads learn of the same two runs on a stream at the same time: one closes a binding, the other waits for the stream. */
  @Test
  void closingMeetsSynchronizing() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); Arena arena = Arena.ofShared();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      for (int i = 0; i < 100; i++) {
        OrtIoBindingFFM first = loop(session, 10), second = loop(session, 10);
        for (OrtIoBindingFFM binding : List.of(first, second)) {
          binding.bindOutput(session.outputs().getFirst().name(), arena.allocate(4, 4), ONE);
          binding.runWithBindings(stream, null);
        }
        Thread closing = Thread.ofPlatform().start(second::close);
        stream.synchronize();
        closing.join();
        first.close();
      }
    }
  }

  /** Who closes an object in a callback that a call in it made would wait for himself. */
  @Test
  void aCallbackDoesNotWaitForItsOwnCall() {
    OrtValueRef[] value = new OrtValueRef[1];
    AtomicReference<RuntimeException> thrown = new AtomicReference<>();
    try (Arena arena = Arena.ofConfined(); OrtSessionFFM session = Models.session(runtime, "scale")) {
      MemorySegment memory = arena.allocate(4, 4);
      OrtIoBindingFFM binding = session.createBinding();
      value[0] = OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, ONE, () -> {
        try {
          binding.close();
        } catch (RuntimeException e) {
          thrown.set(e);
        }
      });
      binding.bindInput("x", value[0]);
      value[0].close();
      binding.bindInput("x", new float[] {1}, 1); // releases the memory, in this call
      assertEquals(OrtStatus.INVALID_STATE, ((OrtFFMException) thrown.get()).status());
      binding.runWithBindings(); // it is open
      binding.close();
    }
  }

  /** A session that is closed leaves its bindings whole, also where it made its own runtime. */
  @Test
  void bindingsOutliveTheirSession(@org.junit.jupiter.api.io.TempDir java.nio.file.Path folder) throws Exception {
    OrtSessionFFM session = OrtSessionFFM.create(Models.file(folder, "scale"));
    try (OrtIoBindingFFM binding = session.createBinding(); Arena arena = Arena.ofShared()) {
      session.close();
      binding.bindInput("x", arena.allocateFrom(java.lang.foreign.ValueLayout.JAVA_FLOAT, 3), ONE);
      binding.bindOutputToDevice("y", DeviceSpec.CPU);
      binding.runWithBindings();
      binding.bindInput("x", java.nio.FloatBuffer.wrap(new float[] {4}), 1);
      binding.bindOutput("y", arena.allocate(4, 4), ONE);
      binding.runAsync().get();
      float[] y = new float[1];
      binding.readOutput("y", y);
      assertArrayEquals(new float[] {8}, y);
      for (OrtValueRef value : binding.copyOutputsToCpu().values()) value.close();
      assertEquals(4, binding.getBoundOutputCpuValues().get("y").byteSize());
      assertNotEquals(0, binding.audit().entries().size());
    }
    assertThrows(IllegalStateException.class, session::createBinding);
  }

  @Test
  void streamsAreClosedInTime() {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM binding = loop(session, ENDLESS)) {
      OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
      binding.runWithBindings(stream, null);
      assertFalse(stream.close(Duration.ofMillis(5)));
      binding.cancel();
      assertEquals(OrtStatus.CANCELLED, assertThrows(OrtFFMException.class, stream::synchronize).status());
      assertTrue(stream.close(Duration.ofDays(1)));
      assertThrows(IllegalStateException.class, stream::synchronize);
    }
  }

  /** The last one to use memory may be a stream's own thread: what is released there cannot wait for that thread. */
  @Test
  void aCallbackDoesNotWaitForItsOwnStream() throws Exception {
    CountDownLatch isReleased = new CountDownLatch(1);
    AtomicReference<RuntimeException> thrown = new AtomicReference<>(), inTime = new AtomicReference<>();
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM busy = loop(session, ENDLESS);
        OrtStreamFFM first = OrtStreamFFM.create(runtime, DeviceSpec.CPU); OrtEventFFM gate = OrtEventFFM.create(runtime, DeviceSpec.CPU)) {
      OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
      busy.runWithBindings(first, gate);
      stream.await(gate);
      try (OrtIoBindingFFM binding = loop(session, 1); OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU,
          Arena.global().allocate(4, 4), ONE, () -> {
            try {
              stream.close();
            } catch (RuntimeException e) {
              thrown.set(e);
            }
            try {
              stream.close(Duration.ofDays(1));
            } catch (RuntimeException e) {
              inTime.set(e);
            }
            isReleased.countDown();
          })) {
        binding.bindInput(1, value, InputMode.LIVE, null);
        binding.runWithBindings(stream, null);
      }
      busy.cancel();
      isReleased.await();
      for (RuntimeException e : List.of(thrown.get(), inTime.get())) {
        assertEquals(OrtStatus.INVALID_STATE, ((OrtFFMException) e).status());
        assertTrue(e.getMessage().contains("OrtStreamFFM: close: a callback"), e.getMessage());
      }
      assertEquals(OrtStatus.CANCELLED, assertThrows(OrtFFMException.class, stream::synchronize).status()); // it is open
      stream.close();
    }
  }

  /** The end of a value is where its memory is released: closing the value there once more is nothing to wait for. */
  @Test
  void aCallbackDoesNotWaitForItsOwnValue() {
    OrtValueRef[] value = new OrtValueRef[1];
    List<Object> outcome = new ArrayList<>();
    try (Arena arena = Arena.ofConfined()) {
      value[0] = OrtValueRef.wrap(runtime, DeviceSpec.CPU, arena.allocate(4, 4), ONE, () -> {
        value[0].close();
        outcome.add("closed");
      });
      value[0].close();
    }
    assertEquals(List.of("closed"), outcome);
    value[0].close();
  }

  /** A listener is told in the middle of a call of its binding, which it cannot close. What is idle it can, and wait for. */
  @Test
  void aListenerClosesWhatIsIdle() {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM other = loop(session, 10_000)) {
      OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
      OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
      other.runWithBindings(stream, null);
      OrtIoBindingFFM binding = loop(session, 2);
      AtomicReference<Throwable> thrown = new AtomicReference<>(), unexpected = new AtomicReference<>();
      session.onRun((of, nanos, failure) -> {
        thrown.set(assertThrows(OrtFFMException.class, of::close));
        try {
          stream.close();
          pipeline.close();
        } catch (RuntimeException e) {
          unexpected.set(e);
        }
      });
      binding.runWithBindings();
      assertEquals(OrtStatus.INVALID_STATE, ((OrtFFMException) thrown.get()).status());
      assertNull(unexpected.get());
      assertThrows(IllegalStateException.class, stream::synchronize);
      assertThrows(IllegalStateException.class, pipeline::next);
      session.onRun(null);
      binding.runWithBindings(); // it is open
      binding.close();
    }
  }

  /** Virtual threads that close streams in time let their carriers go: one more has to cancel what they wait for. */
  @Test
  void streamsAreClosedByVirtualThreads() throws Exception {
    int count = Runtime.getRuntime().availableProcessors() + 1;
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM busy = loop(session, ENDLESS);
        OrtStreamFFM first = OrtStreamFFM.create(runtime, DeviceSpec.CPU); OrtEventFFM gate = OrtEventFFM.create(runtime, DeviceSpec.CPU)) {
      busy.runWithBindings(first, gate);
      CountDownLatch closing = new CountDownLatch(count);
      AtomicInteger closed = new AtomicInteger();
      Thread[] threads = new Thread[count];
      for (int i = 0; i < count; i++) {
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
        stream.await(gate);
        boolean hasTime = i % 2 == 0;
        threads[i] = Thread.ofVirtual().start(() -> {
          closing.countDown();
          if (!hasTime) {
            stream.close();
            closed.incrementAndGet();
          } else if (stream.close(Duration.ofDays(1))) {
            closed.incrementAndGet();
          }
        });
      }
      Thread.ofVirtual().start(() -> {
        try {
          closing.await();
        } catch (InterruptedException e) {
          throw new AssertionError(e);
        }
        busy.cancel();
      });
      for (Thread thread : threads) thread.join();
      assertEquals(count, closed.get());
      assertThrows(OrtFFMException.class, first::synchronize);
    }
  }

  /** A time may be as long, or as negative, as a Duration is. */
  @Test
  void timesOfAnyLength() {
    for (Duration time : List.of(Duration.ofSeconds(Long.MAX_VALUE), Duration.ofSeconds(Long.MIN_VALUE), Duration.ZERO)) {
      OrtSessionFFM session = Models.session(runtime, "loop");
      OrtIoBindingFFM binding = loop(session, 1);
      OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
      OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
      OrtEventFFM event = OrtEventFFM.create(runtime, DeviceSpec.CPU);
      assertTrue(event.await(time));
      event.close();
      assertTrue(binding.close(time) && pipeline.close(time) && stream.close(time) && session.close(time));
    }
  }

  /** The end of an item and of work on a stream is waited for by the longest time there is. */
  @Test
  void waitsOfAnyLength() {
    Duration ever = ChronoUnit.FOREVER.getDuration();
    try (OrtSessionFFM session = Models.session(runtime, "loop");
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
        OrtEventFFM event = OrtEventFFM.create(runtime, DeviceSpec.CPU); OrtIoBindingFFM binding = loop(session, 1000);
        OrtValueRef trips = OrtValueRef.of(runtime, new long[] {1000}, MemoryDescriptor.of(OnnxTensorElementType.INT64));
        OrtValueRef state = OrtValueRef.of(runtime, new float[] {1}, ONE)) {
      pipeline.submit(List.of(trips, state));
      pipeline.next(ever).orElseThrow().close();
      binding.runWithBindings(stream, null);
      event.record(stream);
      assertTrue(event.await(ever));
    }
  }

  /** A run on a stream that a call submits while a close waits for that call is waited for in the same time. */
  @Test
  void oneTimeForAllWaits() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); Arena arena = Arena.ofShared();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      OrtIoBindingFFM binding = loop(session, ENDLESS);
      binding.bindOutput(session.outputs().getFirst().name(), arena.allocate(4, 4), ONE);
      AtomicReference<Boolean> isClosed = new AtomicReference<>();
      Thread closing;
      OrtStreamFFM.enter(stream);
      try { // a call is in the stream; and it, and the run on the stream, in the time of one close
        closing = Thread.ofPlatform().start(() -> isClosed.set(stream.close(Duration.ofMillis(100))));
        binding.runWithBindings(stream, null);
      } finally {
        OrtStreamFFM.exit(stream);
      }
      closing.join();
      assertFalse(isClosed.get());
      assertFalse(binding.close(Duration.ofMillis(10)));
      binding.cancel();
      assertEquals(OrtStatus.CANCELLED, assertThrows(OrtFFMException.class, stream::synchronize).status());
      binding.bindInput(0, new long[] {2});
      binding.runWithBindings(stream, null); // both are open
      assertTrue(stream.close(Duration.ofDays(1)));
      assertTrue(binding.close(Duration.ofDays(1)));
    }
  }
}
