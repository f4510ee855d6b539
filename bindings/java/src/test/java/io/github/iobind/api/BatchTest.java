package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.FloatBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Live batches: rows of one run with states of their own. */
class BatchTest {
  private static final int WIDTH = 4;
  private static OrtRuntimeFFM runtime;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  private static OrtSessionFFM session(String device, String spec) {
    Devices.require(runtime, device);
    return Models.session(runtime, spec, DeviceSpec.of(device));
  }

  private static OrtSessionFFM session(String device) {
    return session(device, "voices");
  }

  private static OrtBatchFFM.Options options(int mostRows) {
    return new OrtBatchFFM.Options(mostRows).carry("next_a", "a").carry("next_b", "b").carry("next_count", "count");
  }

  private static OrtBatchFFM batch(OrtSessionFFM session, OrtBatchFFM.Options options) {
    OrtBatchFFM batch = OrtBatchFFM.create(session, options);
    batch.setShared("gain", new float[] {3});
    return batch;
  }

  private static OrtBatchFFM batch(OrtSessionFFM session) {
    return batch(session, options(4));
  }

  private static float[] numbers(Random random) {
    float[] numbers = new float[WIDTH];
    for (int i = 0; i < WIDTH; i++) numbers[i] = random.nextInt(-500, 500) / 7f;
    return numbers;
  }

  private static void set(OrtBatchFFM.Row row, float... x) {
    row.setInput("x", x.length == WIDTH ? x : new float[] {x[0], x[0], x[0], x[0]}, 1, WIDTH);
  }

  private static float[] output(OrtBatchFFM.Row row, String name) {
    try (OrtValueRef value = row.getOutput(name)) {
      return value.toFloatArray();
    }
  }

  /** How many steps a state has made. */
  private static long count(OrtStateFFM state) {
    try (OrtValueRef count = state.get("count")) {
      long[] number = new long[1];
      count.read(number);
      return number[0];
    }
  }

  private static OrtFFMException refused(OrtStatus status, Runnable call) {
    OrtFFMException e = assertThrows(OrtFFMException.class, call::run);
    assertEquals(status, e.status(), e.getMessage());
    return e;
  }

  private static OrtFFMException failed(OrtStatus status, CompletableFuture<?> future) {
    Throwable e = assertThrows(ExecutionException.class, future::get).getCause();
    assertEquals(status, assertThrows(OrtFFMException.class, () -> {
      throw e;
    }).status(), e.getMessage());
    return (OrtFFMException) e;
  }

  /** A row and the same stream alone. */
  private static final class Pair implements AutoCloseable {
    final OrtBatchFFM.Row row;
    final OrtIoBindingFFM alone;

    Pair(OrtBatchFFM batch) {
      row = batch.join();
      alone = batch.session().createBinding();
      alone.bindInput("gain", new float[] {3});
      alone.bindInput("a", new float[2 * WIDTH], 2, 1, WIDTH);
      alone.bindInput("b", new float[WIDTH], 1, WIDTH);
      alone.bindInput("count", new long[1], 1, 1);
      alone.carry("next_a", "a", CarryMode.SWAP);
      alone.carry("next_b", "b", CarryMode.SWAP);
      alone.carry("next_count", "count", CarryMode.SWAP);
    }

    void bring(float[] x) {
      set(row, x);
      alone.bindInput("x", x, 1, WIDTH);
    }

    void compareStep() {
      alone.runWithBindings();
      for (String name : List.of("y", "z")) {
        try (OrtValueRef expected = alone.getOutput(name)) {
          assertArrayEquals(expected.toFloatArray(), output(row, name), name);
        }
      }
    }

    void compareState(OrtStateFFM got) {
      try (OrtStateFFM expected = alone.saveState()) {
        for (String name : List.of("a", "b")) {
          try (OrtValueRef wanted = expected.get(name); OrtValueRef is = got.get(name)) {
            assertArrayEquals(wanted.shape(), is.shape(), name);
            assertArrayEquals(wanted.toFloatArray(), is.toFloatArray(), name);
          }
        }
        assertEquals(count(expected), count(got));
      }
    }

    @Override
    public void close() {
      row.close();
      alone.close();
    }
  }

  // ---- steps

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void eachRowIsWhatItIsAlone(String device) {
    try (OrtSessionFFM session = session(device); OrtBatchFFM batch = batch(session, options(6))) {
      Random random = new Random(14);
      List<Pair> pairs = new ArrayList<>();
      int joined = 0, left = 0;
      for (int step = 0; step < 60; step++) {
        while (pairs.isEmpty() || pairs.size() < 6 && random.nextInt(3) == 0) {
          pairs.add(new Pair(batch));
          joined++;
        }
        Collections.shuffle(pairs, random);
        List<Pair> asked = pairs.subList(0, 1 + random.nextInt(pairs.size()));
        for (Pair pair : asked) pair.bring(numbers(random));
        batch.run(asked.stream().map(pair -> pair.row).toList());
        asked.forEach(Pair::compareStep);
        if (random.nextInt(4) == 0) {
          try (Pair pair = pairs.removeLast(); OrtStateFFM state = pair.row.leave()) {
            pair.compareState(state);
          }
          left++;
        }
      }
      assertTrue(joined > 10 && left > 5, joined + " joined, " + left + " left");
      assertEquals(60, batch.info().steps());
      assertEquals(pairs.size(), batch.info().rows());
      for (Pair pair : pairs) {
        try (OrtStateFFM state = pair.row.saveState()) {
          pair.compareState(state);
        }
        pair.close();
      }
      assertEquals(0, batch.info().rows());
    }
  }

  /** The thread that makes steps captures the graphs, and replays them. */
  @Test
  void capturedGraphs() throws Exception {
    Devices.require(runtime, "vdev");
    var graphs = new OrtSessionFFM.Options().devices(DeviceSpec.of("vdev")).graphs(4);
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("voices"), graphs);
        OrtBatchFFM batch = batch(session, options(3).steps(3, Duration.ofMillis(1)))) {
      batch.start();
      Random random = new Random(11);
      List<Voice> voices = List.of(new Voice(batch), new Voice(batch), new Voice(batch));
      for (int i = 0; i < 12; i++) {
        List<Voice> asked = i % 4 == 3 ? voices.subList(0, 1) : voices;
        List<CompletableFuture<OrtBatchFFM.Row>> futures = asked.stream().map(voice -> voice.speak(random.nextInt(100))).toList();
        for (CompletableFuture<OrtBatchFFM.Row> future : futures) future.get();
        asked.forEach(Voice::compareStep);
      }
    }
  }

  /** A row whose numbers are all the same, and small whole ones. */
  private static final class Voice {
    private final OrtBatchFFM.Row row;
    private float a, b;

    Voice(OrtBatchFFM batch) {
      row = batch.join();
    }

    CompletableFuture<OrtBatchFFM.Row> speak(int x) {
      set(row, x);
      a = x - a;
      b = Math.max(b, x);
      return row.submit();
    }

    void compareStep() {
      assertEquals(a + b, output(row, "y")[0]);
      assertEquals(b + 3, output(row, "z")[0]);
    }
  }

  @Test
  void onAStream() {
    try (OrtSessionFFM session = session("vdev"); OrtBatchFFM batch = batch(session, options(4).onDevice());
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.of("vdev")); Pair one = new Pair(batch); Pair two = new Pair(batch)) {
      Random random = new Random(3);
      for (int i = 0; i < 4; i++) {
        List<Pair> asked = i == 2 ? List.of(two) : List.of(one, two);
        for (Pair pair : asked) pair.bring(numbers(random));
        batch.run(stream, asked.stream().map(pair -> pair.row).toList());
        asked.forEach(Pair::compareStep);
      }
      try (OrtValueRef z = one.row.getOutput("z")) {
        assertEquals(session.inputs().getFirst().device(), z.device());
      }
    }
  }

  @Test
  void outputsAreOnTheHostAndRemain() {
    try (OrtSessionFFM session = session("vdev")) {
      OrtValueRef first, second;
      try (OrtBatchFFM batch = batch(session)) {
        OrtBatchFFM.Row row = batch.join(), other = batch.join();
        set(row, 1);
        set(other, 5);
        batch.run(other, row);
        first = row.getOutput("z");
        set(row, 7);
        batch.run(row);
        second = row.getOutput("z");
        assertArrayEquals(new float[] {8, 8, 8, 8}, output(other, "z"));
      }
      assertEquals(DeviceSpec.CPU, first.device());
      assertArrayEquals(new long[] {1, WIDTH}, first.shape());
      assertArrayEquals(new float[] {4, 4, 4, 4}, first.toFloatArray());
      assertArrayEquals(new float[] {10, 10, 10, 10}, second.toFloatArray());
      first.close();
      second.close();
    }
  }

  @Test
  void whatABatchIs() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      assertSame(session, batch.session());
      assertEquals(new OrtBatchFFM.Info(0, 0, 0, 0, 2 * 4 * (8 * 4 + 4 * 4 + 8)), batch.info());
      OrtBatchFFM.Row row = batch.join(), other = batch.join();
      set(row, 1);
      set(other, 1);
      batch.run(row, other);
      OrtBatchFFM.Info info = batch.info();
      assertEquals(List.of(2L, 2L, 1L), List.of(info.rows(), info.width(), info.steps()));
      assertTrue(info.movedRows() > 0, info.toString());
    }
  }

  @Test
  void axesThatAreGiven() {
    OrtBatchFFM.Options axes = options(4).inputAxis("x", 0).inputAxis("a", 1).inputAxis("b", 0).inputAxis("count", 0)
        .outputAxis("y", 1).outputAxis("z", 0).outputAxis("next_a", 1).outputAxis("next_b", 0).outputAxis("next_count", 0);
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session, axes); Pair pair = new Pair(batch)) {
      pair.bring(new float[] {1, 2, 3, 4});
      batch.run(pair.row);
      pair.compareStep();
      assertTrue(refused(OrtStatus.SHAPE, () -> OrtBatchFFM.create(session, options(4).inputAxis("x", 1))).getMessage().contains("'x'"));
    }
    refused(OrtStatus.SHAPE, () -> axes.inputAxis("x", -1));
    refused(OrtStatus.SHAPE, () -> axes.outputAxis("y", -1));
    try (OrtSessionFFM session = session("cpu", "pair dims=n,m")) {
      String message = refused(OrtStatus.SHAPE,
          () -> OrtBatchFFM.create(session, new OrtBatchFFM.Options(2).carry("sum", "y"))).getMessage();
      assertTrue(message.startsWith("OrtBatchFFM.create: ") && message.contains("'n', 'm'")
          && message.endsWith("give Options.inputAxis and Options.outputAxis"), message);
    }
  }

  /** Bindings, pipelines and runs without a binding of the same session, between the steps. */
  @Test
  void besideOtherRunsOfTheSession() {
    try (OrtSessionFFM session = session("vdev"); OrtBatchFFM batch = batch(session); Pair one = new Pair(batch); Pair two = new Pair(batch);
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options())) {
      Random random = new Random(8);
      List<OrtValueRef> inputs = new ArrayList<>();
      for (OrtValueInfo input : session.inputs()) {
        long[] shape = input.shape().stream().mapToLong(dim -> dim < 0 ? 1 : dim).toArray();
        inputs.add(OrtValueRef.allocate(runtime, DeviceSpec.CPU, MemoryDescriptor.of(input.type(), shape)));
        inputs.getLast().asMemorySegment().fill((byte) 0);
      }
      for (int i = 0; i < 4; i++) {
        for (Pair pair : List.of(one, two)) pair.bring(numbers(random));
        pipeline.submit(inputs);
        session.run(inputs).forEach(OrtValueRef::close);
        batch.run(one.row, two.row);
        pipeline.next().close();
        one.compareStep();
        two.compareStep();
      }
      inputs.forEach(OrtValueRef::close);
    }
  }

  // ---- states

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void statesGoFromRowToRowAndToABinding(String device) {
    try (OrtSessionFFM session = session(device); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join(), other = batch.join();
      for (float x : new float[] {1, 2, 9}) {
        set(row, x);
        set(other, 100 * x);
        batch.run(row, other);
      }
      try (OrtStateFFM state = row.saveState(); Pair pair = new Pair(batch)) {
        assertEquals(3, count(state));
        pair.alone.restoreState(state);
        pair.row.close();
        OrtBatchFFM.Row branch = batch.join(state);
        set(branch, 5);
        pair.alone.bindInput("x", new float[] {5, 5, 5, 5}, 1, WIDTH);
        batch.run(branch);
        pair.alone.runWithBindings();
        try (OrtStateFFM got = branch.leave()) {
          pair.compareState(got);
          assertEquals(4, count(got));
        }
        assertEquals(3, count(state));
        try (OrtBatchFFM next = batch(session, options(2).first(state)); OrtStateFFM joined = next.join().saveState()) {
          assertEquals(3, count(joined));
        }
      }
    }
  }

  @Test
  void statesThatAreRefused() {
    try (OrtSessionFFM session = session("cpu"); OrtSessionFFM other = session("cpu"); OrtBatchFFM batch = batch(session);
        OrtBatchFFM others = batch(other); OrtStateFFM state = others.join().saveState()) {
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> batch.join(state)).getMessage().startsWith("join: the state is of another session"));
      refused(OrtStatus.INVALID_ARGUMENT, () -> OrtBatchFFM.create(session, options(4).first(state)));
      OrtStateFFM closed = batch.join().leave();
      closed.close();
      assertThrows(IllegalStateException.class, () -> batch.join(closed));
      assertThrows(IllegalStateException.class, () -> OrtBatchFFM.create(session, options(4).first(closed)));
      assertEquals(0, batch.info().rows());
    }
    try (OrtSessionFFM session = session("cpu", "scale dims=rows,3"); OrtBatchFFM batch = OrtBatchFFM.create(session, new OrtBatchFFM.Options(2))) {
      refused(OrtStatus.INVALID_STATE, () -> batch.join().saveState());
      refused(OrtStatus.INVALID_STATE, () -> batch.join().leave());
    }
  }

  // ---- inputs

  @Test
  void inputsOfAnyKind() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session); Arena arena = Arena.ofConfined();
        OrtValueRef value = OrtValueRef.of(runtime, new float[] {1, 2, 3, 4}, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, WIDTH));
        OrtValueRef gain = OrtValueRef.of(runtime, new float[] {10}, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32))) {
      batch.setShared("gain", gain);
      MemorySegment segment = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2, 3, 4);
      List<OrtBatchFFM.Row> rows = IntStream.range(0, 4).mapToObj(i -> batch.join()).toList();
      rows.get(0).setInput("x", value);
      rows.get(1).setInput("x", segment, 1, WIDTH);
      rows.get(2).setInput("x", FloatBuffer.wrap(new float[] {1, 2, 3, 4}), 1, WIDTH);
      set(rows.get(3), 1, 2, 3, 4);
      segment.fill((byte) 0);
      value.write(new float[WIDTH]);
      batch.run(rows);
      for (OrtBatchFFM.Row row : rows) assertArrayEquals(new float[] {11, 12, 13, 14}, output(row, "z"));
    }
  }

  @Test
  void inputsThatAreRefused() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      refused(OrtStatus.NOT_FOUND, () -> row.setInput("w", new float[WIDTH], 1, WIDTH));
      refused(OrtStatus.DTYPE, () -> row.setInput("x", new double[WIDTH], 1, WIDTH));
      assertTrue(refused(OrtStatus.SHAPE, () -> row.setInput("x", new float[WIDTH])).getMessage().contains("setInput(name, array, 1, 3)"));
      assertTrue(refused(OrtStatus.SHAPE, () -> row.setInput("x", new float[2 * WIDTH], 2, WIDTH)).getMessage().startsWith("setInput: 'x'"));
      refused(OrtStatus.SHAPE, () -> row.setInput("x", new float[5], 1, 5));
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> row.setInput("b", new float[WIDTH], 1, WIDTH)).getMessage().contains("join takes the first one"));
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> row.setInput("gain", new float[1])).getMessage()
          .endsWith("has no batch axis: set it once, for all rows (setShared)"));
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> batch.setShared("x", new float[WIDTH], 1, WIDTH)).getMessage()
          .endsWith("has a batch axis: set it for each row"));
      refused(OrtStatus.INVALID_ARGUMENT, () -> row.setInput("x", MemorySegment.ofArray(new float[WIDTH]), 1, WIDTH));
      Arena arena = Arena.ofConfined();
      MemorySegment segment = arena.allocate(4 * WIDTH);
      arena.close();
      assertThrows(IllegalStateException.class, () -> row.setInput("x", segment, 1, WIDTH));
      batch.run(row);
      assertArrayEquals(new float[] {4, 4, 4, 4}, output(row, "z"));
    }
  }

  /** They are where the session reads them, or refused. */
  @Test
  void inputsOnADevice() {
    MemoryDescriptor descriptor = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, WIDTH);
    try (OrtSessionFFM there = session("vdev"); OrtSessionFFM elsewhere = session("cpu"); OrtBatchFFM batch = batch(there);
        OrtBatchFFM other = batch(elsewhere); OrtValueRef x = OrtValueRef.allocate(runtime, DeviceSpec.of("vdev"), descriptor)) {
      x.write(0, MemorySegment.ofArray(new float[] {1, 1, 1, 1}), null);
      OrtBatchFFM.Row row = batch.join();
      row.setInput("x", x);
      batch.run(row);
      assertArrayEquals(new float[] {4, 4, 4, 4}, output(row, "z"));
      refused(OrtStatus.WRONG_DEVICE, () -> other.join().setInput("x", x));
    }
  }

  @Test
  void inputsInPinnedMemory() {
    try (OrtSessionFFM session = session("vdev"); OrtBatchFFM batch = batch(session);
        OrtValueRef x = OrtValueRef.allocate(runtime, DeviceSpec.of("vdev/pinned"), MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, WIDTH))) {
      OrtBatchFFM.Row row = batch.join();
      x.write(new float[] {1, 2, 3, 4});
      row.setInput("x", x);
      x.write(new float[WIDTH]);
      batch.run(row);
      assertArrayEquals(new float[] {4, 5, 6, 7}, output(row, "z"));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void inputsAndOutputsByDlpack(String device) {
    try (OrtSessionFFM session = session(device); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join(), other = batch.join();
      set(row, 1, 2, 3, 4);
      batch.run(row);
      try (OrtValueRef z = row.getOutput("z"); OrtValueRef taken = OrtInterop.fromDlpack(runtime, OrtInterop.toDlpack(z))) {
        other.setInput("x", taken);
      }
      batch.run(other);
      assertArrayEquals(new float[] {7, 8, 9, 10}, output(other, "z"));
    }
  }

  // ---- what is refused

  @Test
  void stepsThatAreRefused() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session, options(2)); OrtBatchFFM others = batch(session)) {
      OrtBatchFFM.Row row = batch.join(), unset = batch.join();
      refused(OrtStatus.INVALID_STATE, batch::join);
      refused(OrtStatus.INVALID_STATE, () -> row.getOutput("z"));
      set(row, 1);
      refused(OrtStatus.INVALID_ARGUMENT, batch::run);
      refused(OrtStatus.INVALID_ARGUMENT, () -> batch.run(row, row));
      assertEquals("run: a row is of another batch", refused(OrtStatus.INVALID_ARGUMENT, () -> batch.run(row, others.join())).getMessage());
      assertTrue(refused(OrtStatus.INVALID_STATE, () -> batch.run(row, unset)).getMessage().contains("'x'"));
      assertEquals(0, batch.info().steps());
      batch.run(row);
      refused(OrtStatus.INVALID_STATE, () -> batch.run(row)); // an input holds for one step
      refused(OrtStatus.NOT_FOUND, () -> row.getOutput("w"));
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> row.getOutput("next_a")).getMessage().endsWith("is a state: saveState"));
    }
  }

  @Test
  void batchesThatAreRefused() {
    try (OrtSessionFFM session = session("cpu")) {
      refused(OrtStatus.INVALID_ARGUMENT, () -> OrtBatchFFM.create(session, options(0)));
      refused(OrtStatus.INVALID_ARGUMENT, () -> OrtBatchFFM.create(session, options(2).tolerance(-1)));
      refused(OrtStatus.NOT_FOUND, () -> OrtBatchFFM.create(session, options(2).carry("w", "x")));
      refused(OrtStatus.NOT_FOUND, () -> OrtBatchFFM.create(session, options(2).outputAxis("w", 0)));
      refused(OrtStatus.DTYPE, () -> OrtBatchFFM.create(session, new OrtBatchFFM.Options(2).carry("next_count", "b")));
      refused(OrtStatus.INVALID_ARGUMENT, () -> options(2).steps(-1, Duration.ZERO));
    }
    try (OrtSessionFFM session = session("cpu", "identity dtype=string dims=rows,3")) {
      assertTrue(refused(OrtStatus.NOT_SUPPORTED, () -> OrtBatchFFM.create(session, new OrtBatchFFM.Options(2))).getMessage().contains("'x'"));
    }
  }

  @Test
  void aModelThatMixesRows() {
    try (OrtSessionFFM session = session("cpu", "voices mix=1"); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      String message = refused(OrtStatus.NOT_SUPPORTED, () -> batch.run(row)).getMessage();
      assertTrue(message.startsWith("run: the model mixes rows") && message.contains("output '"), message);
      assertEquals(0, batch.info().steps());
    }
    try (OrtSessionFFM session = session("cpu", "voices mix=1"); OrtBatchFFM batch = batch(session, options(4).tolerance(1e9))) {
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      batch.run(row);
    }
  }

  // ---- futures

  @Test
  void aStepCompletesFutures() throws Exception {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join(), other = batch.join();
      assertEquals(0, batch.step(Duration.ZERO));
      for (int i = 1; i <= 3; i++) {
        set(row, i);
        set(other, 10 * i);
        CompletableFuture<OrtBatchFFM.Row> future = row.submit(), futureOfOther = other.submit();
        assertFalse(future.isDone() || futureOfOther.isDone());
        assertEquals("submit: the row is submitted already: await its future", refused(OrtStatus.INVALID_STATE, row::submit).getMessage());
        refused(OrtStatus.INVALID_STATE, () -> batch.run(row));
        assertEquals(2, batch.step());
        assertTrue(future.isDone() && futureOfOther.isDone());
        assertSame(row, future.get());
        assertArrayEquals(new float[] {3 + i, 3 + i, 3 + i, 3 + i}, output(row, "z"));
        assertArrayEquals(new float[] {3 + 10 * i, 3 + 10 * i, 3 + 10 * i, 3 + 10 * i}, output(futureOfOther.get(), "z"));
      }
      assertTrue(refused(OrtStatus.INVALID_STATE, row::submit).getMessage().contains("'x'"));
    }
  }

  /** As soon as so many rows are there, however long a row may wait. */
  @Test
  void aStepOfSomeRows() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session, options(4).steps(2, Duration.ofDays(1)))) {
      List<OrtBatchFFM.Row> rows = IntStream.range(0, 4).mapToObj(i -> batch.join()).toList();
      for (OrtBatchFFM.Row row : rows.subList(0, 2)) {
        set(row, 1);
        row.submit();
      }
      assertEquals(2, batch.step());
      assertEquals(0, batch.step(Duration.ZERO));
    }
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session, options(4).steps(4, Duration.ofNanos(1)))) {
      OrtBatchFFM.Row row = batch.join();
      batch.join();
      set(row, 1);
      row.submit();
      assertEquals(1, batch.step(Duration.ofDays(1)));
    }
  }

  @Test
  void aStepThatFailsLeavesItsRows() throws Exception {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = OrtBatchFFM.create(session, options(4))) {
      OrtBatchFFM.Row row = batch.join();
      set(row, 2);
      CompletableFuture<OrtBatchFFM.Row> future = row.submit();
      String message = refused(OrtStatus.INVALID_STATE, batch::step).getMessage();
      assertTrue(message.startsWith("step: 'gain', which all rows share"), message);
      assertEquals(message, failed(OrtStatus.INVALID_STATE, future).getMessage());
      assertEquals(0, batch.step(Duration.ZERO));
      batch.setShared("gain", new float[] {1});
      future = row.submit();
      assertEquals(1, batch.step());
      assertArrayEquals(new float[] {3, 3, 3, 3}, output(future.get(), "z"));
    }
  }

  /** A row whose input has other dims is not in the same step. */
  @Test
  void rowsOfOtherDims() {
    try (OrtSessionFFM session = session("cpu", "scale dims=rows,length"); OrtBatchFFM batch = OrtBatchFFM.create(session,
        new OrtBatchFFM.Options(4).inputAxis("x", 0).outputAxis("y", 0))) {
      OrtBatchFFM.Row row = batch.join(), longer = batch.join();
      row.setInput("x", new float[] {1, 2}, 1, 2);
      longer.setInput("x", new float[] {1, 2, 3}, 1, 3);
      refused(OrtStatus.SHAPE, () -> batch.run(row, longer));
      CompletableFuture<OrtBatchFFM.Row> first = row.submit(), second = longer.submit();
      assertEquals(1, batch.step());
      assertTrue(first.isDone() && !second.isDone());
      assertEquals(1, batch.step());
      assertArrayEquals(new float[] {2, 4, 6}, output(second.join(), "y"));
      assertArrayEquals(new float[] {2, 4}, output(first.join(), "y"));
    }
  }

  @Test
  void whoGivesAFutureUpDoesNotTakeTheRowBack() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      CompletableFuture<OrtBatchFFM.Row> future = row.submit();
      assertTrue(future.cancel(true));
      refused(OrtStatus.INVALID_STATE, row::submit);
      assertEquals(1, batch.step());
      set(row, 2);
      assertFalse(row.submit().isDone());
      assertEquals(1, batch.step());
    }
  }

  @Test
  void aRowThatLeavesAndABatchThatCloses() {
    try (OrtSessionFFM session = session("cpu")) {
      OrtBatchFFM batch = batch(session);
      OrtBatchFFM.Row left = batch.join(), kept = batch.join();
      set(left, 1);
      set(kept, 1);
      CompletableFuture<OrtBatchFFM.Row> ofLeft = left.submit(), ofKept = kept.submit();
      left.leave().close();
      assertTrue(ofLeft.isCancelled());
      assertFalse(ofKept.isDone());
      batch.close();
      assertTrue(ofKept.isCancelled());
    }
  }

  // ---- a thread of the batch's own

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void callersAwaitTheirFutures(String device) throws Exception {
    int callers = 8, steps = 30;
    try (OrtSessionFFM session = session(device); OrtBatchFFM batch = batch(session, options(callers).steps(4, Duration.ofMillis(1)))) {
      batch.start();
      refused(OrtStatus.INVALID_STATE, batch::start);
      List<Throwable> wrong = Collections.synchronizedList(new ArrayList<>());
      List<Thread> threads = new ArrayList<>();
      for (int caller = 0; caller < callers; caller++) {
        int number = caller;
        Thread.Builder builder = caller % 2 == 0 ? Thread.ofPlatform() : Thread.ofVirtual();
        threads.add(builder.start(() -> {
          Random random = new Random(number);
          for (int visit = 0; visit < 2; visit++) {
            try (Pair pair = new Pair(batch)) {
              for (int i = 0; i < steps; i++) {
                pair.bring(numbers(random));
                assertSame(pair.row, pair.row.submit().get());
                pair.compareStep();
              }
            } catch (Throwable t) {
              wrong.add(t);
            }
          }
        }));
      }
      for (Thread thread : threads) thread.join();
      assertEquals(List.of(), wrong);
      assertTrue(batch.info().steps() <= 2L * callers * steps, batch.info().toString());
    }
  }

  /** A row may leave at any time: its future ends, and the others' rows are what they are. */
  @Test
  void rowsLeaveWhileStepsAreMade() throws Exception {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session, options(8).steps(2, Duration.ofNanos(1)));
        Pair stays = new Pair(batch)) {
      batch.start();
      List<Throwable> wrong = Collections.synchronizedList(new ArrayList<>());
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        threads.add(Thread.ofPlatform().start(() -> {
          try {
            for (int visit = 0; visit < 100; visit++) {
              CompletableFuture<OrtBatchFFM.Row> future;
              try (OrtBatchFFM.Row row = batch.join()) {
                set(row, 1);
                future = row.submit();
                Thread.yield();
              }
              try {
                future.get(); // which may be just about to be completed
              } catch (CancellationException hasLeft) {
                continue;
              }
            }
          } catch (Throwable t) {
            wrong.add(t);
          }
        }));
      }
      Random random = new Random(5);
      for (int i = 0; i < 50; i++) {
        stays.bring(numbers(random));
        stays.row.submit().get();
        stays.compareStep();
      }
      for (Thread thread : threads) thread.join();
      assertEquals(List.of(), wrong);
    }
  }

  /** A caller without a thread: each stage brings the next input. */
  @Test
  void stagesSubmitAgain() throws Exception {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      batch.start();
      CompletableFuture<Float> last = new CompletableFuture<>();
      speak(batch.join(), 1, last);
      assertEquals(13, last.get());
    }
  }

  private static void speak(OrtBatchFFM.Row row, int number, CompletableFuture<Float> last) {
    set(row, number);
    row.submit().whenComplete((ended, failure) -> {
      if (failure != null) {
        last.completeExceptionally(failure);
      } else if (number == 10) {
        last.complete(output(row, "z")[0]);
        row.close();
      } else {
        speak(row, number + 1, last);
      }
    });
  }

  @Test
  void aStageMayCloseTheBatch() throws Exception {
    try (OrtSessionFFM session = session("cpu")) {
      OrtBatchFFM batch = batch(session);
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      CompletableFuture<Void> closed = row.submit().thenAccept(ended -> batch.close());
      batch.start();
      closed.get();
      assertThrows(IllegalStateException.class, batch::join);
    }
  }

  @Test
  void aFailureIsThatOfTheFuture() throws Exception {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = OrtBatchFFM.create(session, options(4))) {
      batch.start();
      OrtBatchFFM.Row row = batch.join();
      set(row, 2);
      failed(OrtStatus.INVALID_STATE, row.submit());
      batch.setShared("gain", new float[] {1});
      assertArrayEquals(new float[] {3, 3, 3, 3}, output(row.submit().get(), "z"));
    }
  }

  // ---- the end

  @Test
  void aRowThatHasLeft() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      batch.run(row);
      OrtValueRef z = row.getOutput("z");
      row.close();
      row.close();
      OrtBatchFFM.Row next = batch.join(); // has its place
      set(next, 1);
      for (Runnable call : List.<Runnable>of(() -> set(row, 1), () -> row.getOutput("z"), row::saveState, row::submit, row::leave,
          () -> batch.run(row), () -> batch.run(next, row))) {
        assertEquals("OrtBatchFFM.Row has left", assertThrows(IllegalStateException.class, call::run).getMessage());
      }
      refused(OrtStatus.INVALID_STATE, () -> next.getOutput("z"));
      assertEquals(1, batch.info().rows());
      assertArrayEquals(new float[] {4, 4, 4, 4}, z.toFloatArray());
      z.close();
    }
  }

  @Test
  void aClosedBatch() {
    try (OrtSessionFFM session = session("cpu")) {
      OrtBatchFFM batch = batch(session);
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      batch.run(row);
      OrtStateFFM state = row.saveState();
      batch.close();
      batch.close();
      for (Runnable call : List.<Runnable>of(batch::join, () -> batch.join(state), batch::info, batch::step, batch::start,
          () -> batch.step(Duration.ZERO), () -> batch.run(row), () -> batch.setShared("gain", new float[1]), () -> set(row, 1),
          () -> row.getOutput("z"), row::saveState, row::submit, row::leave)) {
        assertEquals("OrtBatchFFM is closed", assertThrows(IllegalStateException.class, call::run).getMessage());
      }
      row.close();
      assertEquals(1, count(state));
      state.close();
    }
  }

  @Test
  void aCloseEndsTheWaitForARow() throws Exception {
    try (OrtSessionFFM session = session("cpu")) {
      OrtBatchFFM batch = batch(session);
      batch.join();
      CompletableFuture<Integer> step = new CompletableFuture<>();
      Thread thread = Thread.ofPlatform().start(() -> step.completeAsync(batch::step, Runnable::run));
      Wait.until("the thread waits", () -> thread.getState() == Thread.State.WAITING || thread.getState() == Thread.State.TIMED_WAITING);
      batch.close();
      thread.join();
      assertEquals("OrtBatchFFM is closed",
          assertThrows(IllegalStateException.class, () -> {
            throw assertThrows(ExecutionException.class, step::get).getCause();
          }).getMessage());
    }
  }

  /** Futures whose step has not begun are cancelled; a step is refused, now and later; what was computed remains. */
  @Test
  void aStopEndsWaits() throws Exception {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row first = batch.join(), second = batch.join();
      set(first, 1);
      batch.run(first);
      set(second, 1);
      CompletableFuture<Integer> step = new CompletableFuture<>();
      Thread thread = Thread.ofPlatform().start(() -> step.completeAsync(batch::step, Runnable::run));
      Wait.until("the thread waits", () -> thread.getState() == Thread.State.WAITING || thread.getState() == Thread.State.TIMED_WAITING);
      batch.stop();
      thread.join();
      OrtFFMException ended = assertInstanceOf(OrtFFMException.class, assertThrows(ExecutionException.class, step::get).getCause());
      assertEquals(OrtStatus.CANCELLED, ended.status());
      batch.stop();
      assertEquals(OrtStatus.CANCELLED, assertThrows(OrtFFMException.class, () -> batch.step(Duration.ZERO)).status());
      assertEquals(OrtStatus.INVALID_STATE, assertThrows(OrtFFMException.class, batch::join).status());
      assertEquals(OrtStatus.INVALID_STATE, assertThrows(OrtFFMException.class, second::submit).status());
      assertArrayEquals(new float[] {4, 4, 4, 4}, output(first, "z"));
      batch.run(second);
      assertArrayEquals(new float[] {4, 4, 4, 4}, output(second, "z"));
      first.leave().close();
    }
  }

  /** The thread that waits wakes only when the batch refuses steps: it must not find a batch without rows, and return 0. */
  @Test
  void aStopRefusesTheStepOfAThreadThatWaits() throws Exception {
    try (OrtSessionFFM session = session("cpu")) {
      for (int round = 0; round < 200; round++) {
        try (OrtBatchFFM batch = batch(session)) {
          CompletableFuture<Integer> step = new CompletableFuture<>();
          Thread thread = Thread.ofPlatform().start(() -> step.completeAsync(batch::step, Runnable::run));
          batch.stop();
          thread.join();
          Throwable ended = assertThrows(ExecutionException.class, step::get, "round " + round).getCause();
          assertEquals(OrtStatus.CANCELLED, assertInstanceOf(OrtFFMException.class, ended).status());
        }
      }
    }
  }

  @Test
  void aStopCancelsWhatIsSubmitted() {
    try (OrtSessionFFM session = session("cpu"); OrtBatchFFM batch = batch(session)) {
      OrtBatchFFM.Row row = batch.join();
      set(row, 1);
      CompletableFuture<OrtBatchFFM.Row> future = row.submit();
      batch.stop();
      assertTrue(future.isCancelled());
      batch.start(); // its thread ends at once
      row.close();
    }
  }

  @Test
  void outlivesSessionAndRuntime() {
    OrtBatchFFM batch;
    try (OrtRuntimeFFM own = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(own, "voices", DeviceSpec.CPU)) {
      batch = batch(session);
    }
    OrtBatchFFM.Row row = batch.join();
    set(row, 1);
    batch.run(row);
    assertArrayEquals(new float[] {4, 4, 4, 4}, output(row, "z"));
    OrtStateFFM state = row.leave();
    batch.close();
    assertEquals(1, count(state));
    state.close();
  }
}
