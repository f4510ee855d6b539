package io.github.iobind.bench;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtSession;
import io.github.iobind.api.CarryMode;
import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.InputMode;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtValueRef;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** The cases; the names are CASE_SIDE. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@OperationsPerInvocation(Side.STEPS)
public class Cases {
  private static final MemoryDescriptor ONE = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1);

  // ---- a model of one element, everything bound before

  /** Everything bound before. */
  @State(Scope.Thread)
  public static class Bound {
    Side side;
    OnnxTensor x;
    OnnxTensor y;
    Map<String, OnnxTensor> inputs;
    Map<String, OnnxTensor> outputs;

    @Setup
    public void open() throws Throwable {
      side = new Side("bound") {};
      side.raw.bind("x", true, 1);
      side.raw.bind("y", false, 1);
      try (OrtValueRef in = OrtValueRef.of(side.runtime, new float[] {1}, ONE);
          OrtValueRef out = OrtValueRef.allocate(side.runtime, DeviceSpec.CPU, ONE)) {
        side.binding.bindInput("x", in);
        side.binding.bindOutput("y", out);
      }
      x = OnnxTensor.createTensor(side.environment, direct(1), new long[] {1});
      y = OnnxTensor.createTensor(side.environment, direct(1), new long[] {1});
      inputs = Map.of("x", x);
      outputs = Map.of("y", y);
    }

    @TearDown
    public void close() throws Exception {
      x.close();
      y.close();
      side.close();
    }
  }

  private static FloatBuffer direct(int count) {
    return ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder()).asFloatBuffer();
  }

  @Benchmark
  public void bound_raw(Bound b) throws Throwable {
    b.side.raw.bound(Side.STEPS);
  }

  @Benchmark
  public void bound_iobind(Bound b) {
    for (int i = 0; i < Side.STEPS; i++) b.side.binding.runWithBindings();
  }

  @Benchmark
  public void bound_official(Bound b) throws Exception {
    for (int i = 0; i < Side.STEPS; i++) b.side.official.run(b.inputs, b.outputs).close();
  }

  @Benchmark
  public void bound_python(Bound b) throws Exception {
    b.side.python.steps(Side.STEPS);
  }

  // ---- the same, with another one of two values bound in each step that were made before

  /** Two inputs that take turns. */
  @State(Scope.Thread)
  public static class Cached {
    Side side;
    MemorySegment[] raw;
    MemorySegment[] segments;
    OrtIoBindingFFM kept;
    OrtValueRef[] values;
    OnnxTensor[] tensors;
    OnnxTensor y;

    @Setup
    public void open() throws Throwable {
      side = new Side("cached") {};
      side.raw.bind("y", false, 1);
      raw = new MemorySegment[] {side.raw.zeros(1), side.raw.zeros(1)};
      values = new OrtValueRef[2];
      tensors = new OnnxTensor[2];
      for (int i = 0; i < 2; i++) {
        values[i] = OrtValueRef.of(side.runtime, new float[] {1}, ONE);
        tensors[i] = OnnxTensor.createTensor(side.environment, direct(1), new long[] {1});
      }
      segments = new MemorySegment[] {Arena.global().allocate(4, 16), Arena.ofAuto().allocate(4, 16)};
      kept = side.session.createBinding();
      kept.bindInput("x", segments[1], 1);
      try (OrtValueRef out = OrtValueRef.allocate(side.runtime, DeviceSpec.CPU, ONE)) {
        side.binding.bindOutput("y", out);
        kept.bindOutput("y", out);
      }
      y = OnnxTensor.createTensor(side.environment, direct(1), new long[] {1});
    }

    @TearDown
    public void close() throws Exception {
      kept.close();
      for (OrtValueRef value : values) value.close();
      for (OnnxTensor tensor : tensors) tensor.close();
      y.close();
      side.close();
    }
  }

  @Benchmark
  public void cached_raw(Cached c) throws Throwable {
    c.side.raw.cached(Side.STEPS, c.raw[0], c.raw[1]);
  }

  @Benchmark
  public void cached_iobind(Cached c) {
    for (int i = 0; i < Side.STEPS; i++) {
      c.side.binding.bindInput("x", c.values[i & 1]);
      c.side.binding.runWithBindings();
    }
  }

  /** The value that is bound already, as programs do that bind everything before each run. */
  @Benchmark
  public void cached_iobindSame(Cached c) {
    for (int i = 0; i < Side.STEPS; i++) {
      c.side.binding.bindInput("x", c.values[0]);
      c.side.binding.runWithBindings();
    }
  }

  /** Two segments of the caller's by turns. */
  @Benchmark
  public void cached_iobindSegments(Cached c) {
    for (int i = 0; i < Side.STEPS; i++) {
      c.side.binding.bindInput("x", c.segments[i & 1], 1);
      c.side.binding.runWithBindings();
    }
  }

  /** What that is to be compared with: a binding that keeps one of them. */
  @Benchmark
  public void cached_iobindKept(Cached c) {
    for (int i = 0; i < Side.STEPS; i++) c.kept.runWithBindings();
  }

  @Benchmark
  public void cached_official(Cached c) throws Exception {
    for (int i = 0; i < Side.STEPS; i++) c.side.official.run(Map.of("x", c.tensors[i & 1]), Map.of("y", c.y)).close();
  }

  @Benchmark
  public void cached_python(Cached c) throws Exception {
    c.side.python.steps(Side.STEPS);
  }

  // ---- a new input from an array, the output read into an array

  /** Nothing bound before. */
  @State(Scope.Thread)
  public static class Naive {
    Side side;
    final float[] in = new float[1];
    final float[] out = new float[1];

    @Setup
    public void open() throws Throwable {
      side = new Side("naive") {};
    }

    @TearDown
    public void close() throws Exception {
      side.close();
    }
  }

  @Benchmark
  public void naive_raw(Naive n) throws Throwable {
    n.side.raw.naive(Side.STEPS);
  }

  @Benchmark
  public float naive_iobind(Naive n) {
    for (int i = 0; i < Side.STEPS; i++) {
      n.in[0] = i;
      n.side.binding.bindInput("x", n.in, 1);
      n.side.binding.runWithBindings();
      n.side.binding.readOutput("y", n.out);
    }
    return n.out[0];
  }

  /** The same with a value made for each input and taken of each output. */
  @Benchmark
  public float naive_iobindValues(Naive n) {
    for (int i = 0; i < Side.STEPS; i++) {
      n.in[0] = i;
      try (OrtValueRef x = OrtValueRef.of(n.side.runtime, n.in, ONE)) {
        n.side.binding.bindInput("x", x);
        n.side.binding.runWithBindings();
        try (OrtValueRef y = n.side.binding.getOutput("y")) {
          y.read(n.out);
        }
      }
    }
    return n.out[0];
  }

  @Benchmark
  public float naive_official(Naive n) throws Exception {
    float last = 0;
    for (int i = 0; i < Side.STEPS; i++) {
      try (OnnxTensor x = OnnxTensor.createTensor(n.side.environment, new float[] {i});
          OrtSession.Result result = n.side.official.run(Map.of("x", x))) {
        last = ((float[]) result.get(0).getValue())[0];
      }
    }
    return last;
  }

  @Benchmark
  public void naive_python(Naive n) throws Exception {
    n.side.python.steps(Side.STEPS);
  }

  // ---- a KV cache that grows by one entry a step

  /** The new entry is the same in every step. */
  @State(Scope.Thread)
  public static class Grow {
    static final MemoryDescriptor NOTHING = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, 2, 0, 4);
    Side side;
    OrtValueRef start;
    OrtIoBindingFFM byHand;
    OnnxTensor entry;

    @Setup
    public void open() throws Throwable {
      side = new Side("grow") {};
      start = OrtValueRef.allocate(side.runtime, DeviceSpec.CPU, NOTHING);
      side.binding.bindInput("second", new float[8], 1, 2, 1, 4);
      side.binding.carry("joined", "first", CarryMode.MOVE);
      byHand = side.session.createBinding();
      byHand.bindInput("second", new float[8], 1, 2, 1, 4);
      entry = OnnxTensor.createTensor(side.environment, direct(8), new long[] {1, 2, 1, 4});
    }

    @TearDown
    public void close() throws Exception {
      entry.close();
      byHand.close();
      start.close();
      side.close();
    }
  }

  @Benchmark
  public void grow_raw(Grow g) throws Throwable {
    g.side.raw.grow(Side.STEPS);
  }

  @Benchmark
  public void grow_iobind(Grow g) {
    g.side.binding.bindInput("first", g.start, InputMode.RESIDENT);
    for (int i = 0; i < Side.STEPS; i++) g.side.binding.runWithBindings();
  }

  /** The same without carry: the output is taken and bound in each step. */
  @Benchmark
  public void grow_iobindByHand(Grow g) {
    int first = g.side.session.inputIndex("first");
    OrtValueRef past = g.start.retain();
    for (int i = 0; i < Side.STEPS; i++) {
      g.byHand.bindInput(first, past, InputMode.RESIDENT, null);
      past.close();
      g.byHand.runWithBindings();
      past = g.byHand.takeOutput(0);
    }
    past.close();
  }

  @Benchmark
  public void grow_official(Grow g) throws Exception {
    OnnxTensor past = OnnxTensor.createTensor(g.side.environment, direct(0), new long[] {1, 2, 0, 4});
    OrtSession.Result before = null;
    for (int i = 0; i < Side.STEPS; i++) {
      OrtSession.Result result = g.side.official.run(Map.of("first", past, "second", g.entry));
      if (before != null) before.close();
      before = result;
      past = (OnnxTensor) result.get(0);
    }
    before.close();
  }

  @Benchmark
  public void grow_python(Grow g) throws Exception {
    g.side.python.steps(Side.STEPS);
  }

  // ---- an output whose shape the data decide

  /** Which of 16 elements are not zero. */
  @State(Scope.Thread)
  public static class Data {
    Side side;
    OnnxTensor x;

    @Setup
    public void open() throws Throwable {
      side = new Side("data") {};
      side.raw.bind("x", true, 16);
      float[] numbers = new float[16];
      for (int i = 0; i < 16; i++) numbers[i] = i % 2;
      side.binding.bindInput("x", numbers, 16);
      x = OnnxTensor.createTensor(side.environment, direct(16).put(numbers).flip(), new long[] {16});
    }

    @TearDown
    public void close() throws Exception {
      x.close();
      side.close();
    }
  }

  @Benchmark
  public long data_raw(Data d) throws Throwable {
    return d.side.raw.dataDependent(Side.STEPS);
  }

  @Benchmark
  public long data_iobind(Data d) {
    long found = 0;
    for (int i = 0; i < Side.STEPS; i++) {
      d.side.binding.runWithBindings();
      try (OrtValueRef y = d.side.binding.takeOutput(0)) {
        found += y.shape()[1];
      }
    }
    return found;
  }

  @Benchmark
  public long data_official(Data d) throws Exception {
    long found = 0;
    for (int i = 0; i < Side.STEPS; i++) {
      try (OrtSession.Result result = d.side.official.run(Map.of("x", d.x))) {
        found += ((OnnxTensor) result.get(0)).getInfo().getShape()[1];
      }
    }
    return found;
  }

  @Benchmark
  public void data_python(Data d) throws Exception {
    d.side.python.steps(Side.STEPS);
  }

  // ---- models with a state that moves from step to step: Silero's detector of voice, and a small transformer that decodes

  /** What a step takes besides the state, and where the state goes. */
  @State(Scope.Thread)
  public abstract static class Stateful {
    final String name;
    final String from;
    final String to;
    final String result;
    final int steps;
    /** After so many steps it begins again. */
    final int room;
    final long[] start;
    final float[] read;
    Side side;
    MemorySegment rawFrom;
    MemorySegment rawTo;
    MemorySegment rawStart;
    OrtValueRef first;
    OnnxTensor officialStart;
    Map<String, OnnxTensor> others;

    Stateful(String name, String from, String to, String result, int steps, int room, int resultCount, long... start) {
      this.name = name;
      this.from = from;
      this.to = to;
      this.result = result;
      this.steps = steps;
      this.room = room;
      this.start = start;
      this.read = new float[resultCount];
    }

    abstract void others() throws Throwable;

    @Setup
    public void open() throws Throwable {
      side = new Side(name) {};
      others();
      side.raw.bind(result, false, read.length == 1 ? new long[] {1, 1} : new long[] {1, read.length});
      rawFrom = side.raw.text(from);
      rawTo = side.raw.text(to);
      rawStart = side.raw.zeros(start);
      int count = 1;
      for (long dim : start) count *= (int) dim;
      first = OrtValueRef.of(side.runtime, new float[count], MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, start));
      side.binding.bindOutput(result, new long[] {1, read.length}, OnnxTensorElementType.FLOAT32, DeviceSpec.CPU);
      side.binding.bindInput(to, first);
      side.binding.carry(from, to, CarryMode.MOVE);
      officialStart = OnnxTensor.createTensor(side.environment, direct(count), start);
    }

    @TearDown
    public void close() throws Exception {
      first.close();
      officialStart.close();
      for (OnnxTensor one : others.values()) one.close();
      side.close();
    }

    void byRaw() throws Throwable {
      side.raw.state(steps, rawFrom, rawTo, rawStart, room);
    }

    float byIobind() {
      for (int i = 0; i < steps; i++) {
        if (i % room == 0) side.binding.bindInput(to, first);
        side.binding.runWithBindings();
        side.binding.readOutput(result, read);
      }
      return read[0];
    }

    float byOfficial() throws Exception {
      OrtSession.Result before = null;
      Map<String, OnnxTensor> inputs = new HashMap<>(others);
      for (int i = 0; i < steps; i++) {
        inputs.put(to, i % room == 0 ? officialStart : (OnnxTensor) before.get(from).orElseThrow());
        OrtSession.Result now = side.official.run(inputs);
        if (before != null) before.close();
        before = now;
        ((OnnxTensor) now.get(result).orElseThrow()).getFloatBuffer().get(read);
      }
      before.close();
      return read[0];
    }
  }

  /** Silero's detector of voice: a real model, of some 100 microseconds. */
  public static class Voice extends Stateful {
    /** Steps that one measured call takes. */
    static final int STEPS = 16;

    public Voice() {
      super("voice", "stateN", "state", "output", STEPS, Integer.MAX_VALUE, 1, 2, 1, 128);
    }

    @Override
    void others() throws Throwable {
      side.raw.bind("input", true, 1, 512);
      side.raw.bind("sr", 16000);
      side.binding.bindInput("input", new float[512], 1, 512);
      side.binding.bindInput("sr", new long[] {16000});
      others = Map.of("input", OnnxTensor.createTensor(side.environment, direct(512), new long[] {1, 512}), "sr",
          OnnxTensor.createTensor(side.environment, 16000L));
    }
  }

  @Benchmark
  @OperationsPerInvocation(Voice.STEPS)
  public void voice_raw(Voice v) throws Throwable {
    v.byRaw();
  }

  @Benchmark
  @OperationsPerInvocation(Voice.STEPS)
  public float voice_iobind(Voice v) {
    return v.byIobind();
  }

  @Benchmark
  @OperationsPerInvocation(Voice.STEPS)
  public float voice_official(Voice v) throws Exception {
    return v.byOfficial();
  }

  @Benchmark
  @OperationsPerInvocation(Voice.STEPS)
  public void voice_python(Voice v) throws Exception {
    v.side.python.steps(Voice.STEPS);
  }

  /** A transformer of two layers that takes a token a step, with the keys and values of those before. */
  public static class Decoder extends Stateful {
    /** Steps that one measured call takes: as many as there is room for. */
    static final int STEPS = 64;

    public Decoder() {
      super("decoder", "state", "past", "logits", STEPS, STEPS, 32, 4, 2, 0, 8);
    }

    @Override
    void others() throws Throwable {
      side.raw.bind("tokens", 3, 1);
      side.binding.bindInput("tokens", new long[] {3}, 1);
      others = Map.of("tokens", OnnxTensor.createTensor(side.environment, new long[] {3}));
    }
  }

  @Benchmark
  @OperationsPerInvocation(Decoder.STEPS)
  public void decoder_raw(Decoder d) throws Throwable {
    d.byRaw();
  }

  @Benchmark
  @OperationsPerInvocation(Decoder.STEPS)
  public float decoder_iobind(Decoder d) {
    return d.byIobind();
  }

  @Benchmark
  @OperationsPerInvocation(Decoder.STEPS)
  public float decoder_official(Decoder d) throws Exception {
    return d.byOfficial();
  }

  @Benchmark
  @OperationsPerInvocation(Decoder.STEPS)
  public void decoder_python(Decoder d) throws Exception {
    d.side.python.steps(Decoder.STEPS);
  }
}
