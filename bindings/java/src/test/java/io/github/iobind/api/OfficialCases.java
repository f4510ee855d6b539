package io.github.iobind.api;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Field;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** What happens together with the official package: one case for each JVM, named by the argument. */
final class OfficialCases {
  private OfficialCases() {}

  public static void main(String[] arguments) throws Exception {
    switch (arguments[0]) {
      case "sharedSession" -> sharedSession();
      case "oneRuntime" -> oneRuntime();
      case "sessionFirst" -> sessionFirst();
      case "closedOfficialSession" -> closedOfficialSession();
      case "closeInEveryOrder" -> closeInEveryOrder();
      case "forgotten" -> forgotten();
      case "notASession" -> notASession();
      case "nativeSession" -> nativeSession();
      case "forgottenOnAStream" -> forgottenOnAStream();
      case "otherRuntimeBeside" -> otherRuntimeBeside();
      case "linesOfOrt" -> linesOfOrt();
      case "batchOfASharedSession" -> batchOfASharedSession();
      default -> throw new IllegalArgumentException(arguments[0]);
    }
    System.out.println("passed: " + arguments[0]);
  }

  private static void require(Object wanted, Object got) {
    if (!wanted.equals(got)) throw new AssertionError("expected " + wanted + ", got " + got);
  }

  private static OrtSession official(String model) throws Exception {
    return OrtEnvironment.getEnvironment().createSession(Models.bytes(model), new OrtSession.SessionOptions());
  }

  private static float runOfficial(OrtSession session, float x) throws Exception {
    try (OnnxTensor input = OnnxTensor.createTensor(OrtEnvironment.getEnvironment(), FloatBuffer.wrap(new float[] {x}),
        new long[] {1});
        OrtSession.Result result = session.run(Map.of("x", input))) {
      return ((float[]) result.get(0).getValue())[0];
    }
  }

  private static float runBound(OrtIoBindingFFM binding, float x) {
    float[] y = new float[1];
    binding.bindInput("x", new float[] {x}, 1);
    binding.runWithBindings();
    binding.readOutput("y", y);
    return y[0];
  }

  /** A run fails, which ONNX Runtime logs by the official package's environment, and not to a sink of this package's. */
  private static void linesOfOrt() throws Exception {
    List<String> lines = new CopyOnWriteArrayList<>();
    var options = new OrtRuntimeFFM.Options().log(OrtRuntimeFFM.LogLevel.WARNING, (level, line) -> lines.add(line));
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(options); OrtSessionFFM session = Models.session(runtime, "nonzero");
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindOutput("y", OutputMode.REUSE);
      binding.bindInput("x", new float[] {1, 0}, 2);
      binding.runWithBindings();
      binding.bindInput("x", new float[] {1, 1}, 2);
      try {
        binding.runWithBindings();
        throw new AssertionError("it was to fail");
      } catch (OrtFFMException e) {
        require(OrtStatus.SHAPE, e.status());
      }
      require(List.of(), lines);
    }
  }

  /** How many copies of ONNX Runtime the process has mapped. */
  private static long copies() throws Exception {
    return Files.readAllLines(Path.of("/proc/self/maps")).stream().filter(line -> line.contains("libonnxruntime.so"))
        .map(line -> line.substring(line.indexOf('/'))).distinct().count();
  }

  private static void sharedSession() throws Exception {
    try (OrtSession session = official("scale")) {
      long before = copies();
      try (OrtSessionFFM shared = OrtSessionFFM.createFromOrtSession(session);
          OrtIoBindingFFM binding = shared.createBinding()) {
        require("1.29.0", shared.runtime().ortVersion());
        require("x", shared.inputs().getFirst().name());
        for (int i = 0; i < 10; i++) {
          require(2f * i, runBound(binding, i));
          require(2f * i, runOfficial(session, i)); // and the other way, in turn
        }
        require(before, copies());
      }
      require(6f, runOfficial(session, 3)); // still the official one's
    }
  }

  /** Without ORT_NATIVE_LIB_PATH the official package's copy is the one, also where it was not used before. */
  private static void oneRuntime() throws Exception {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      require("1.29.0", runtime.ortVersion());
      require(1L, copies());
      try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding();
          OrtSession other = official("scale")) {
        require(8f, runBound(binding, 4));
        require(8f, runOfficial(other, 4));
      }
      require(1L, copies());
    }
  }

  private static void sessionFirst() throws Exception {
    OrtSession session = official("scale");
    OrtSessionFFM shared = OrtSessionFFM.createFromOrtSession(session);
    OrtIoBindingFFM binding = shared.createBinding();
    require(2f, runBound(binding, 1));
    shared.close(); // the binding lives on
    require(4f, runBound(binding, 2));
    OrtValueRef kept = binding.getOutput("y");
    binding.close();
    session.close();
    require(4f, kept.toFloatArray()[0]); // a value does not need the session
    kept.close();
  }

  private static void closedOfficialSession() throws Exception {
    OrtSession session = official("scale");
    OrtSessionFFM shared = OrtSessionFFM.createFromOrtSession(session);
    OrtIoBindingFFM binding = shared.createBinding();
    require(2f, runBound(binding, 1));
    session.close();
    List<Runnable> uses = List.of(binding::runWithBindings, shared::createBinding, () -> binding.getOutput(0),
        () -> binding.bindInput("x", new float[] {1}, 1), () -> OrtSessionFFM.createFromOrtSession(session));
    for (Runnable use : uses) {
      try {
        use.run();
        throw new AssertionError("a closed session was used");
      } catch (IllegalStateException e) {
        require("the ai.onnxruntime.OrtSession is closed", e.getMessage());
      }
    }
    binding.close();
    shared.close();
  }

  /** Steps of a batch are runs of the official session, which can be closed behind the adopting one. */
  private static void batchOfASharedSession() throws Exception {
    OrtSession session = official("pair dims=rows,1");
    OrtSessionFFM shared = OrtSessionFFM.createFromOrtSession(session);
    OrtBatchFFM batch = OrtBatchFFM.create(shared, new OrtBatchFFM.Options(2).carry("sum", "y"));
    batch.start();
    OrtBatchFFM.Row row = batch.join();
    for (int i = 0; i < 3; i++) {
      row.setInput("x", new float[] {2}, 1, 1);
      row.submit().get();
      try (OrtValueRef product = row.getOutput("product")) {
        require(4f * i, product.toFloatArray()[0]);
      }
    }
    shared.close();
    try {
      batch.join();
      throw new AssertionError("it was to be closed");
    } catch (IllegalStateException e) {
      require("OrtBatchFFM is closed", String.valueOf(e.getMessage()));
    }
    session.close();
    batch.close();
    OrtSession gone = official("pair dims=rows,1");
    OrtSessionFFM adopting = OrtSessionFFM.createFromOrtSession(gone);
    OrtBatchFFM left = OrtBatchFFM.create(adopting, new OrtBatchFFM.Options(2).carry("sum", "y"));
    gone.close();
    try {
      left.join();
      throw new AssertionError("its session is gone");
    } catch (IllegalStateException e) {
      left.close();
      adopting.close();
    }
  }

  private static void closeInEveryOrder() throws Exception {
    int[][] orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int[] order : orders) {
      OrtSession session = official("scale");
      OrtSessionFFM shared = OrtSessionFFM.createFromOrtSession(session);
      OrtIoBindingFFM binding = shared.createBinding();
      require(2f, runBound(binding, 1));
      AutoCloseable[] objects = {session, shared, binding};
      for (int index : order) objects[index].close();
      for (int index = 1; index < 3; index++) objects[index].close();
    }
  }

  /** An official session that only a binding still needs is not collected under it. */
  private static void forgotten() throws Exception {
    OrtIoBindingFFM binding = OrtSessionFFM.createFromOrtSession(official("scale")).createBinding();
    for (int i = 0; i < 20; i++) {
      System.gc();
      Thread.sleep(5);
      require(2f * i, runBound(binding, i));
    }
    binding.close();
  }

  /** A run on a stream keeps neither a binding that adopted its session nor that session. */
  private static void forgottenOnAStream() throws Exception {
    try (OrtSession session = official("scale"); OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      long before = runtime.counters(DeviceSpec.CPU).allocatedBytes();
      for (int i = 0; i < 10; i++) {
        OrtIoBindingFFM binding = new OrtIoBindingFFM(session);
        binding.bindInput("x", new float[1000], 1000);
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
        binding.runWithBindings(stream, null);
        if (i % 2 == 0) stream.synchronize();
      }
      LifetimeTest.awaitFreed(runtime, DeviceSpec.CPU, before);
    }
  }

  private static long field(Class<?> type, Object object, String name) throws Exception {
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    return field.getLong(object);
  }

  private static MemorySegment handle(OrtSession session) throws Exception {
    return MemorySegment.ofAddress(field(OrtSession.class, session, "nativeHandle"));
  }

  /** What another library's code would do: the addresses of ONNX Runtime and of a session are all that it has. */
  private static void nativeSession() throws Exception {
    OrtSession session = official("scale");
    MemorySegment api = MemorySegment.ofAddress(field(Class.forName("ai.onnxruntime.OnnxRuntime"), null, "ortApiHandle"));
    AtomicInteger released = new AtomicInteger();
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortApi(api));
    require("1.29.0", runtime.ortVersion());
    OrtSessionFFM shared = OrtSessionFFM.wrap(runtime, handle(session), released::incrementAndGet);
    OrtIoBindingFFM binding = shared.createBinding();
    require(6f, runBound(binding, 3));
    runtime.close();
    shared.close();
    require(8f, runBound(binding, 4));
    require(0, released.get());
    binding.close();
    require(1, released.get()); // now it may go
    require(2f, runOfficial(session, 1));
    try (OrtRuntimeFFM again = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortApi(api));
        OrtSessionFFM unguarded = OrtSessionFFM.wrap(again, handle(session), null);
        OrtIoBindingFFM other = unguarded.createBinding()) {
      require(2f, runBound(other, 1));
    }
    session.close();
  }

  private static void notASession() throws Exception {
    try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
      OrtSessionFFM.createFromOrtSession(options);
      throw new AssertionError("something else was adopted");
    } catch (OrtFFMException e) {
      require(OrtStatus.INVALID_ARGUMENT, e.status());
    }
  }

  /** ORT 1.31 for this package, 1.29 for the official one, side by side: no handle crosses over. */
  private static void otherRuntimeBeside() throws Exception {
    try (OrtSession session = official("scale"); OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
        OrtSessionFFM own = Models.session(runtime, "scale"); OrtIoBindingFFM binding = own.createBinding();
        OrtSessionFFM shared = OrtSessionFFM.createFromOrtSession(session); OrtIoBindingFFM bound = shared.createBinding();
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {1}, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1))) {
      require(false, runtime.ortVersion().equals(shared.runtime().ortVersion()));
      require(10f, runBound(binding, 5));
      require(10f, runBound(bound, 5));
      require(10f, runOfficial(session, 5));
      try {
        bound.bindInput("x", x);
        throw new AssertionError("a value of another ONNX Runtime was bound");
      } catch (OrtFFMException e) {
        require(OrtStatus.WRONG_DEVICE, e.status());
      }
      try {
        OrtSessionFFM.wrap(runtime, handle(session), () -> {
          throw new AssertionError("released what was never taken");
        });
        throw new AssertionError("a session of another ONNX Runtime was adopted");
      } catch (OrtFFMException e) {
        require(OrtStatus.NOT_SUPPORTED, e.status());
      }
    }
  }
}
