package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.function.ToDoubleFunction;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs that are not waited for, and threads. */
class AsyncTest {
  private static OrtRuntimeFFM runtime;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "webgpu"})
  void futuresFollowEachOther(String device) throws Exception {
    DeviceSpec spec = DeviceSpec.of(device);
    Devices.require(runtime, device);
    try (OrtSessionFFM session = Models.session(runtime, "scale", spec); OrtIoBindingFFM binding = session.createBinding()) {
      float[] y = new float[2];
      for (int i = 1; i <= 20; i++) {
        binding.bindInput("x", new float[] {i, -i}, 2);
        CompletableFuture<Void> run = binding.runAsync();
        run.thenRun(() -> binding.readOutput("y", y)).get();
        assertArrayEquals(new float[] {2 * i, -2 * i}, y);
      }
    }
  }

  /** Stages find what they load by the context class loader, as on threads of the JDK's own pools. */
  @Test
  void threadsOfStagesHaveAClassLoader() throws Exception {
    CompletableFuture<ClassLoader> loader = new CompletableFuture<>();
    Threads.execute(() -> loader.complete(Thread.currentThread().getContextClassLoader()));
    assertSame(ClassLoader.getSystemClassLoader(), loader.get());
  }

  /** A run that takes longer than it may is cancelled, and nothing else is; what it works in may be a confined arena's. */
  @Test
  void runsWithALimitOfTime() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM binding = session.createBinding();
        Arena arena = Arena.ofConfined()) {
      binding.bindInput(session.inputs().get(1).name(), arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1), 1);
      for (int i = 0; i < 3; i++) {
        binding.bindInput(0, new long[] {1_000_000_000_000L});
        OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.runWithBindings(Duration.ofMillis(5)));
        assertEquals(OrtStatus.TIMEOUT, e.status());
        assertTrue(e.getMessage().contains("PT0.005S"), e.getMessage());
        binding.bindInput(0, new long[] {3});
        assertEquals(1, binding.runWithBindings(Duration.ofDays(1)).size());
      }
      binding.bindInput(0, new long[] {1_000_000_000_000L});
      Thread other = Thread.ofPlatform().start(() -> {
        while (!binding.isBusy()) Thread.onSpinWait();
        while (binding.isBusy()) binding.cancel(); // before the run has begun it does nothing
      });
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.runWithBindings(Duration.ofDays(1)));
      assertEquals(OrtStatus.CANCELLED, e.status());
      other.join();
      assertThrows(NullPointerException.class, () -> binding.runWithBindings((Duration) null));
      binding.bindInput(0, new long[] {3});
      binding.runWithBindings();
    }
    try (OrtSessionFFM session = Models.session(runtime, "reshape"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput(0, new float[] {1, 2, 3, 4}, 4);
      binding.bindInput(1, new long[] {3, 2}, 2);
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.runWithBindings(Duration.ofDays(1)));
      assertEquals(OrtStatus.RUNTIME, e.status());
    }
  }

  @Test
  void aRunUnderWayIsLeftAlone() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput(0, new long[] {1_000_000_000_000L});
      binding.bindInput(1, new float[] {1}, 1);
      CompletableFuture<Void> run = binding.runAsync();
      assertEquals(OrtStatus.INVALID_STATE, assertThrows(OrtFFMException.class, binding::runAsync).status());
      assertEquals(OrtStatus.INVALID_STATE,
          assertThrows(OrtFFMException.class, () -> binding.bindInput(1, new float[] {2}, 1)).status());
      assertEquals(OrtStatus.INVALID_STATE,
          assertThrows(OrtFFMException.class, () -> binding.update(session.inputs().get(1).name(), new float[] {2})).status());
      assertEquals(OrtStatus.INVALID_STATE, assertThrows(OrtFFMException.class, binding::runWithBindings).status());
      assertFalse(run.isDone());
      assertTrue(run.cancel(true));
      assertThrows(CancellationException.class, run::get);
      binding.bindInput(0, new long[] {3});
      binding.runAsync().get(); // and goes on
      float[] y = new float[1];
      binding.readOutput(0, y);
      assertEquals(4, y[0]);
    }
  }

  /** What is read on another stream comes behind the run, which may be in flight. */
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void outputsAreLentToStreams(String device) {
    DeviceSpec spec = DeviceSpec.of(device);
    Devices.require(runtime, device);
    try (OrtSessionFFM session = Models.session(runtime, "scale", spec); OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, spec); OrtStreamFFM other = OrtStreamFFM.create(runtime, spec);
        Arena arena = Arena.ofShared()) {
      MemorySegment read = arena.allocate(ValueLayout.JAVA_FLOAT, 2);
      for (int i = 1; i <= 20; i++) {
        binding.bindInput("x", new float[] {i, -i}, 2);
        binding.runWithBindings(stream, null);
        try (OrtValueRef y = binding.lendOutput("y", other)) {
          y.read(0, read, other);
          other.synchronize();
        }
        assertArrayEquals(new float[] {2 * i, -2 * i}, read.toArray(ValueLayout.JAVA_FLOAT));
        stream.synchronize();
      }
      assertEquals(OrtStatus.NOT_FOUND, assertThrows(OrtFFMException.class, () -> binding.lendOutput("z", other)).status());
      assertEquals(OrtStatus.INVALID_ARGUMENT, assertThrows(OrtFFMException.class, () -> binding.lendOutput("y", null)).status());
    }
  }

  /** Access by the host is ordered after the runs in flight that use the memory: reads after writers, writes after readers. */
  @Test
  void hostAccessIsAfterRunsInFlight() {
    MemoryDescriptor one = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1);
    try (OrtSessionFFM session = Models.session(runtime, "loop"); OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU); Arena arena = Arena.ofConfined();
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {1}, one); OrtValueRef y = OrtValueRef.of(runtime, new float[] {-1}, one)) {
      binding.bindInput(0, new long[] {100_000});
      binding.bindInput(1, x, InputMode.RESIDENT, null);
      binding.bindOutput(0, y, OutputMode.FIXED);
      List<ToDoubleFunction<OrtValueRef>> reads = List.of(value -> value.toFloatArray()[0],
          value -> value.asMemorySegment(arena).get(ValueLayout.JAVA_FLOAT, 0),
          value -> value.asMemorySegment().get(ValueLayout.JAVA_FLOAT, 0), // makes the segment
          value -> value.asMemorySegment().get(ValueLayout.JAVA_FLOAT, 0)); // and has it
      for (ToDoubleFunction<OrtValueRef> read : reads) {
        y.write(new float[] {-1});
        binding.runWithBindings(stream, null);
        assertEquals(100_001, read.applyAsDouble(y));
      }
      List<Consumer<OrtValueRef>> writes = List.of(value -> value.write(new float[] {500_000}),
          value -> value.asMemorySegment(arena).set(ValueLayout.JAVA_FLOAT, 0, 500_000));
      for (Consumer<OrtValueRef> write : writes) {
        x.write(new float[] {1});
        binding.runWithBindings(stream, null);
        write.accept(x);
        assertEquals(100_001, y.toFloatArray()[0]);
      }
    }
  }

  /** The thread of a run begins it some time after the call, and the run is in flight from the call on. */
  @Test
  void hostAccessIsAfterARunThatHasNotBegun() throws Exception {
    MemoryDescriptor one = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1);
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {1}, one); OrtValueRef y = OrtValueRef.of(runtime, new float[] {-1}, one)) {
      binding.bindInput(0, x, InputMode.RESIDENT, null);
      binding.bindOutput(0, y, OutputMode.FIXED);
      for (int round = 0; round < 100; round++) {
        x.write(new float[] {1});
        CompletableFuture<Void> run = binding.runAsync();
        x.write(new float[] {100});
        run.get();
        assertEquals(2, y.toFloatArray()[0], "round " + round);
        y.write(new float[] {-1});
        run = binding.runAsync();
        assertEquals(200, y.toFloatArray()[0], "round " + round);
        run.get();
      }
    }
  }

  @Test
  void failuresAreTheFutures() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "expand"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput(0, new float[] {1, 2}, 2);
      binding.bindInput(1, new long[] {3, 5}, 2);
      CompletableFuture<Void> run = binding.runAsync();
      ExecutionException failure = assertThrows(ExecutionException.class, run::get);
      assertEquals(OrtStatus.RUNTIME, ((OrtFFMException) failure.getCause()).status());
      binding.bindInput(1, new long[] {2, 2}, 2);
      binding.runAsync().get();
      try (OrtValueRef y = binding.getOutput(0)) {
        assertArrayEquals(new float[] {1, 2, 1, 2}, y.toFloatArray());
      }
    }
  }

  @Test
  void closedWhileARunIsUnderWay() throws Exception {
    List<CompletableFuture<Void>> runs = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      OrtSessionFFM session = Models.session(runtime, "loop");
      OrtIoBindingFFM binding = session.createBinding();
      binding.bindInput(0, new long[] {10_000});
      binding.bindInput(1, new float[] {1}, 1);
      runs.add(binding.runAsync());
      session.close();
      binding.close();
      assertThrows(IllegalStateException.class, binding::runAsync);
    }
    for (CompletableFuture<Void> run : runs) run.get();
  }

  /** Items by memory alone, each known again by its tag, also the one that fails. */
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void pipelinesGiveTagsBack(String device) {
    Devices.require(runtime, device);
    try (OrtSessionFFM session = Models.session(runtime, "reshape", DeviceSpec.of(device));
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options()); Arena arena = Arena.ofConfined()) {
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2, 3, 4);
      MemorySegment good = arena.allocateFrom(ValueLayout.JAVA_LONG, 2, 2), bad = arena.allocateFrom(ValueLayout.JAVA_LONG, 3, 2);
      pipeline.submit("first", x, good);
      pipeline.submit(List.of("second"), x, bad);
      pipeline.submit(null, x, good);
      try (OrtPipelineFFM.Item item = pipeline.next()) {
        assertEquals("first", item.tag());
        assertArrayEquals(new float[] {1, 2, 3, 4}, item.outputs().get("y").toFloatArray());
      }
      var failure = assertThrows(OrtPipelineFFM.ItemException.class, pipeline::next);
      assertEquals(List.of("second"), failure.tag());
      assertEquals(1, failure.index());
      try (OrtPipelineFFM.Item item = pipeline.next()) {
        assertEquals(2, item.index());
        assertEquals(null, item.tag());
      }
      assertEquals(OrtStatus.INVALID_ARGUMENT, assertThrows(OrtFFMException.class, () -> pipeline.submit("t", x)).status());
      assertEquals(OrtStatus.INVALID_ARGUMENT, assertThrows(OrtFFMException.class, () -> pipeline.submit("t", x, good, good)).status());
      assertEquals(OrtStatus.SHAPE,
          assertThrows(OrtFFMException.class, () -> pipeline.submit("t", x.asSlice(0, 15), good)).status());
    }
    try (OrtSessionFFM session = Models.session(runtime, "add dims=n,m", DeviceSpec.of(device)); Arena arena = Arena.ofConfined()) {
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2, 3, 4);
      try (OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options())) {
        OrtFFMException e = assertThrows(OrtFFMException.class, () -> pipeline.submit("t", x, x));
        assertTrue(e.getMessage().contains("Options.shape"), e.getMessage());
      }
      var options = new OrtPipelineFFM.Options().shape("x", 2, 2).shape("y", 2, 2);
      try (OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, options)) {
        pipeline.submit("t", x, x);
        try (OrtPipelineFFM.Item item = pipeline.next()) {
          assertArrayEquals(new float[] {2, 4, 6, 8}, item.outputs().get("z").toFloatArray());
        }
      }
    }
  }

  /** What is on the device already is read there, behind its event; outputs stay there, or are not fetched. */
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void pipelinesOnTheDevice(String device) {
    Devices.require(runtime, device);
    DeviceSpec spec = DeviceSpec.of(device);
    var options = new OrtPipelineFFM.Options().output("sum", OrtPipelineFFM.Placement.DEVICE)
        .output("product", OrtPipelineFFM.Placement.NONE).runOptions("tagged", Map.of());
    MemoryDescriptor four = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 4);
    try (OrtSessionFFM session = Models.session(runtime, "pair", spec);
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, options); OrtStreamFFM stream = OrtStreamFFM.create(runtime, spec);
        OrtEventFFM ready = OrtEventFFM.create(runtime, spec); OrtValueRef there = OrtValueRef.allocate(runtime, spec, four);
        OrtValueRef here = OrtValueRef.of(runtime, new float[] {1, 2, 3, 4}, four)) {
      OrtValueRef.copy(new OrtValueRef[] {here}, new OrtValueRef[] {there}, stream);
      ready.record(stream);
      long up = runtime.counters(spec).uploadBytes();
      pipeline.submit(7, List.of(there, here), java.util.Arrays.asList(ready, null));
      try (OrtPipelineFFM.Item item = pipeline.next()) {
        assertEquals(7, item.tag());
        assertEquals(java.util.Set.of("sum"), item.outputs().keySet());
        OrtValueRef sum = item.outputs().get("sum");
        assertEquals(device, sum.device().text().split(":")[0]);
        assertArrayEquals(new float[] {2, 4, 6, 8}, sum.toFloatArray());
      }
      assertEquals(device.equals("cpu") ? 0 : 16, runtime.counters(spec).uploadBytes() - up); // one of the two
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "webgpu"})
  void pipelinesKeepTheOrder(String device) {
    Devices.require(runtime, device);
    var options = new OrtPipelineFFM.Options().slots(3).times();
    try (OrtSessionFFM session = Models.session(runtime, "scale", DeviceSpec.of(device));
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, options);
        OrtValueRef x = OrtValueRef.allocate(runtime, DeviceSpec.CPU, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 4));
        OrtValueRef wrong = OrtValueRef.allocate(runtime, DeviceSpec.CPU,
            MemoryDescriptor.of(OnnxTensorElementType.INT32, 4))) {
      assertEquals(OrtStatus.NOT_FOUND, assertThrows(OrtFFMException.class, pipeline::next).status());
      int pulled = 0;
      for (int i = 0; i < 20; i++) {
        x.write(new float[] {i, i, i, i}); // copied by submit
        pipeline.submit(List.of(x));
        if (i >= 2) pull(pipeline, pulled++);
      }
      assertEquals(OrtStatus.DTYPE, assertThrows(OrtFFMException.class, () -> pipeline.submit(List.of(wrong))).status());
      while (pulled < 20) pull(pipeline, pulled++);
      for (int i = 0; i < 3; i++) pipeline.submit(List.of(x));
      assertEquals(OrtStatus.INVALID_STATE, assertThrows(OrtFFMException.class, () -> pipeline.submit(List.of(x))).status());
    }
    OrtSessionFFM session = Models.session(runtime, "add", DeviceSpec.CPU);
    OrtValueRef one = OrtValueRef.of(runtime, new float[] {1}, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1));
    OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options().constant("y", one).stopAtFailure());
    pipeline.submit(java.util.Arrays.asList(one, null));
    session.close();
    try (OrtPipelineFFM.Item item = pipeline.next()) {
      assertArrayEquals(new float[] {2}, item.outputs().get("z").toFloatArray());
    }
    one.close();
    pipeline.close();
    pipeline.close();
    assertThrows(IllegalStateException.class, pipeline::next);
  }

  /** An event that is closed while an input waits for it lives until the input is bound otherwise. */
  @Test
  void eventsLiveAsLongAsTheyAreBound() {
    Devices.require(runtime, "vdev");
    DeviceSpec vdev = DeviceSpec.of("vdev");
    try (OrtSessionFFM session = Models.session(runtime, "scale", vdev); OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, vdev);
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {3}, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1))) {
      OrtEventFFM event = OrtEventFFM.create(runtime, vdev);
      event.record(stream);
      binding.bindInput(0, x, InputMode.LIVE, event);
      event.close();
      for (int i = 0; i < 3; i++) binding.runWithBindings();
      binding.clear();
      binding.bindInput("x", x, InputMode.LIVE);
      binding.runWithBindings();
      float[] y = new float[1];
      binding.readOutput("y", y);
      assertEquals(6, y[0]);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void auditSaysWhatCrosses(String device) {
    Devices.require(runtime, device);
    boolean linked = !device.equals("cpu");
    try (OrtSessionFFM session = Models.session(runtime, "scale", DeviceSpec.of(device));
        OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {1, 2}, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 2))) {
      binding.bindInput("x", x, InputMode.LIVE);
      binding.runWithBindings();
      BindingAudit audit = binding.audit();
      assertEquals(linked ? 8 : 0, audit.crossingBytes());
      assertEquals(0, audit.unknownCount());
      BindingAudit.Entry input = audit.entries().getFirst();
      assertEquals("x", input.name());
      assertEquals(BindingAudit.Kind.INPUT, input.kind());
      assertEquals(linked, input.crosses());
      assertFalse(input.reason().isBlank());
      binding.bindInput("x", x, InputMode.SNAPSHOT);
      binding.runWithBindings();
      assertEquals(0, binding.audit().crossingBytes());
    }
  }

  private static void pull(OrtPipelineFFM pipeline, int number) {
    try (OrtPipelineFFM.Item item = pipeline.next()) {
      assertEquals(number, item.index());
      assertArrayEquals(new float[] {2 * number, 2 * number, 2 * number, 2 * number}, item.outputs().get("y").toFloatArray());
      assertTrue(item.runNanos() >= item.submitNanos());
    }
  }

  @Test
  void virtualThreadsEachWithABinding() throws Exception {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); var executor = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<Integer>> futures = new ArrayList<>();
      for (int thread = 0; thread < 64; thread++) {
        int number = thread;
        futures.add(executor.submit(() -> {
          try (OrtIoBindingFFM binding = session.createBinding()) {
            float[] y = new float[1];
            for (int i = 0; i < 50; i++) {
              binding.bindInput("x", new float[] {number * 100 + i}, 1);
              if (i % 10 == 0) {
                binding.runAsync().get();
              } else {
                binding.runWithBindings();
              }
              Thread.yield(); // another carrier goes on
              binding.readOutput("y", y);
              assertEquals(2 * (number * 100 + i), y[0]);
              // An error belongs to its call, not to a thread.
              String name = "no" + number;
              assertTrue(assertThrows(OrtFFMException.class, () -> binding.bindInput(name, y, 1)).getMessage().contains(name));
              assertTrue(assertThrows(OrtFFMException.class, () -> binding.bindInput("x", new float[number + 1], 1, number + 1))
                  .getMessage().contains("[1," + (number + 1) + "]"));
            }
          }
          return number;
        }));
      }
      for (int i = 0; i < futures.size(); i++) assertEquals(i, futures.get(i).get());
    }
  }
}
