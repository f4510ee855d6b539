package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** On CUDA: a GPU's, or vcuda's, on which the test vcuda.java runs this. Skipped if there is none. */
class CudaTest {
  private static final DeviceSpec CUDA = DeviceSpec.of("cuda");
  private static final MemoryDescriptor FOUR = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 4);
  private static final int DEVICE_TO_HOST = 2;
  private static OrtRuntimeFFM runtime;

  @TempDir
  private static Path folder;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create();
    Devices.require(runtime, "cuda");
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  /** Calls a function of CUDA's runtime, which the execution provider has loaded. */
  private static void cuda(String name, Object... arguments) throws Throwable {
    MemoryLayout[] layouts = Arrays.stream(arguments)
        .map(argument -> argument instanceof Integer ? JAVA_INT : argument instanceof Long ? JAVA_LONG : ADDRESS)
        .toArray(MemoryLayout[]::new);
    MemorySegment function = SymbolLookup.libraryLookup("libcudart.so.13", Arena.global()).find(name).orElseThrow();
    Object status = Linker.nativeLinker().downcallHandle(function, FunctionDescriptor.of(JAVA_INT, layouts))
        .invokeWithArguments(arguments);
    assertEquals(0, status, name);
  }

  /** An object that CUDA's runtime makes. */
  private static MemorySegment made(String name) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ADDRESS);
      cuda(name, out);
      return out.get(ADDRESS, 0);
    }
  }

  private static OrtSessionFFM.Options onCuda() {
    return new OrtSessionFFM.Options().devices(CUDA);
  }

  /** The rows of the C tests, but for a race of ONNX Runtime's own; see tests/vcuda/conformance.sh. */
  @Test
  void conformance() throws Exception {
    List<String> rows = Files.readAllLines(Models.PROJECT.resolve("tests/conformance/cases.tsv"));
    rows.removeIf(row -> row.matches("unbound-passthrough[/\t].*"));
    Path file = Files.write(folder.resolve("cases.tsv"), rows);
    Child child = Child.test(Map.of(), Conformance.class, "cuda", file.toString(), "780");
    List<String> lines = child.output().lines().filter(line -> !line.startsWith("skip")).toList();
    System.out.println("conformance on cuda: " + lines.getLast());
    assertEquals(0, child.exit(), String.join("\n", lines));
  }

  @Test
  void sampleOfTheDocument() throws Exception {
    Child child = Child.java(Map.of("VCUDA_RACE", "fail"), "--enable-native-access=ALL-UNNAMED", Child.LIBRARY, "-cp",
        Path.of("target/classes").toAbsolutePath().toString(), "samples/Cuda.java", Models.file(folder, "scale dims=n").toString());
    assertEquals(0, child.exit(), child.output());
    List<String> lines = child.output().lines().filter(line -> line.startsWith("[") || line.contains("EP option")).toList();
    assertEquals(List.of("[2.0, 4.0, 6.0, 8.0]",
        "OrtSessionFFM.create: EP option 'gpu_mem_limit' of cuda: expected 0 .. 18446744073709551615, got '1G'"), lines);
  }

  /** No option ends the process, whether the execution provider knows it or not. */
  @Test
  void optionsAreChecked() {
    for (String[] option : new String[][] {{"use_tf32", "2"}, {"device_id", "1"}, {"arena_extend_strategy", "k"},
        {"enable_cuda_graph", "1"}, {"no_such_key", "1"}, {"USE_TF32", "1"}}) {
      OrtFFMException e = assertThrows(OrtFFMException.class,
          () -> OrtSessionFFM.create(runtime, Models.bytes("scale"), onCuda().ep(option[0], option[1])), option[0]);
      assertTrue(e.getMessage().contains(option[0]), e.getMessage());
    }
  }

  /** Its memory and its streams by the addresses that CUDA's own functions take. */
  @Test
  void addresses() throws Throwable {
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), onCuda());
        OrtIoBindingFFM binding = session.createBinding(); OrtStreamFFM stream = OrtStreamFFM.create(runtime, CUDA);
        OrtValueRef x = OrtValueRef.allocate(runtime, CUDA, FOUR); OrtValueRef y = OrtValueRef.allocate(runtime, CUDA, FOUR);
        Arena arena = Arena.ofConfined()) {
      x.write(new float[] {1, 2, 3, 4});
      binding.bindInput("x", x);
      binding.bindOutput("y", y);
      binding.runWithBindings(stream, null);
      assertNotEquals(MemorySegment.NULL, stream.nativeStream());
      cuda("cudaStreamSynchronize", stream.nativeStream());
      MemorySegment host = arena.allocate(JAVA_FLOAT, 4);
      cuda("cudaMemcpy", host, y.nativeAddress(), host.byteSize(), DEVICE_TO_HOST);
      assertArrayEquals(new float[] {2, 4, 6, 8}, host.toArray(JAVA_FLOAT));
    }
  }

  /** A stream and an event that another library has made: runs and copies are ordered with it, and it outlives them. */
  @Test
  void aStreamOfAnotherLibrary() throws Throwable {
    MemorySegment foreign = made("cudaStreamCreate"), event = made("cudaEventCreate");
    AtomicInteger released = new AtomicInteger();
    OrtStreamFFM stream = OrtStreamFFM.wrap(runtime, CUDA, NativeKind.CUDA, foreign, released::incrementAndGet);
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("matmul"), onCuda().stream(stream));
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[] {1, 2, 3, 4}, 2, 2);
      binding.bindInput("y", new float[] {1, 1, 1, 1}, 2, 2);
      cuda("cudaEventRecord", event, foreign);
      stream.await(NativeKind.CUDA, event);
      binding.runWithBindings(stream, null);
      stream.signal(NativeKind.CUDA, event);
      cuda("cudaEventSynchronize", event);
      float[] z = new float[4];
      binding.readOutput("z", z);
      assertArrayEquals(new float[] {3, 3, 7, 7}, z);
      stream.close();
      assertEquals(0, released.get()); // the session computes on it
    }
    assertEquals(1, released.get());
    cuda("cudaEventDestroy", event);
    cuda("cudaStreamDestroy", foreign);
  }

  /** An item whose value is on the device, behind the event of the run that makes it, and stays the caller's. */
  @Test
  void anItemOnTheDevice() {
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), onCuda());
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
        OrtIoBindingFFM binding = session.createBinding(); OrtStreamFFM stream = OrtStreamFFM.create(runtime, CUDA);
        OrtEventFFM made = OrtEventFFM.create(runtime, CUDA); OrtValueRef value = OrtValueRef.allocate(runtime, CUDA, FOUR)) {
      binding.bindInput("x", new float[] {1, 2, 3, 4}, 4);
      binding.bindOutput("y", value);
      binding.runWithBindings(stream, null);
      made.record(stream);
      pipeline.submit("tag", List.of(value), List.of(made));
      try (OrtPipelineFFM.Item item = pipeline.next()) {
        assertEquals("tag", item.tag());
        assertArrayEquals(new float[] {4, 8, 12, 16}, item.outputs().get("y").toFloatArray());
      }
      assertArrayEquals(new float[] {2, 4, 6, 8}, value.toFloatArray());
    }
  }

  /** What one side gives the other takes: the same memory of the device, which the last of them frees. */
  @Test
  void valuesOfOtherCode() {
    long before = runtime.counters(CUDA).allocatedBytes();
    for (OrtInterop.Dlpack[] options : new OrtInterop.Dlpack[][] {{}, {OrtInterop.Dlpack.LEGACY}}) {
      OrtValueRef made = onDevice(1, 2, 3, 4);
      MemorySegment memory = made.nativeAddress(), struct = OrtInterop.toDlpack(made, options);
      made.close();
      try (OrtValueRef taken = OrtInterop.fromDlpack(runtime, struct, options)) {
        assertDoubled(taken, memory);
      }
    }
    OrtValueRef made = onDevice(1, 2, 3, 4);
    MemorySegment memory = made.nativeAddress(), ortValue = OrtInterop.toOrtValue(made);
    made.close();
    AtomicInteger released = new AtomicInteger();
    try (OrtValueRef taken = OrtInterop.fromOrtValue(runtime, ortValue, () -> {
      InteropTest.releaseValue(runtime, ortValue);
      released.incrementAndGet();
    })) {
      assertDoubled(taken, memory);
      assertEquals(0, released.get());
    }
    assertEquals(1, released.get());
    assertEquals(before, runtime.counters(CUDA).allocatedBytes());
  }

  private static OrtValueRef onDevice(float... values) {
    try (OrtValueRef host = OrtValueRef.of(runtime, values, FOUR)) {
      return host.copyTo(runtime, CUDA);
    }
  }

  /** The value 1, 2, 3, 4 in this memory, which a session reads where it is. */
  private static void assertDoubled(OrtValueRef value, MemorySegment memory) {
    assertEquals(memory, value.nativeAddress());
    assertEquals(FOUR, value.descriptor());
    assertEquals(runtime.device(CUDA).spec(), value.device());
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), onCuda());
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", value);
      binding.runWithBindings();
      float[] y = new float[4];
      binding.readOutput("y", y);
      assertArrayEquals(new float[] {2, 4, 6, 8}, y);
    }
  }

  /** Before there is a runtime, which would load them itself. */
  @Test
  void librariesAreLoadedBefore() throws Exception {
    Child child = Child.test(Map.of(), Preloading.class);
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().lines().anyMatch("loaded"::equals), child.output());
  }

  /** Loads NVIDIA's libraries, and uses the device with them. */
  static final class Preloading {
    public static void main(String[] arguments) throws Exception {
      if (isLoaded()) throw new AssertionError("CUDA's runtime is loaded already");
      OrtRuntimeFFM.preload(null, 0, java.util.EnumSet.of(OrtRuntimeFFM.Preload.CUDA, OrtRuntimeFFM.Preload.CUDNN));
      if (!isLoaded()) throw new AssertionError("CUDA's runtime is not loaded");
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
          OrtValueRef value = OrtValueRef.allocate(runtime, CUDA, FOUR)) {
        value.write(new float[] {1, 2, 3, 4});
      }
      System.out.println("loaded");
    }

    private static boolean isLoaded() throws Exception {
      return Files.readString(Path.of("/proc/self/maps")).contains("/libcudart.so");
    }
  }

  @Test
  void capturedGraphs() throws Exception {
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), onCuda().graphs(1));
        OrtIoBindingFFM binding = session.createBinding(); OrtValueRef x = OrtValueRef.allocate(runtime, CUDA, FOUR);
        OrtValueRef y = OrtValueRef.allocate(runtime, CUDA, FOUR)) {
      binding.bindInput("x", x);
      binding.bindOutput("y", y);
      for (int i = 0; i < 3; i++) {
        x.write(new float[] {i, 1, 2, 3});
        binding.runWithBindings();
        assertArrayEquals(new float[] {2 * i, 2, 4, 6}, y.toFloatArray());
      }
      ExecutionException e = assertThrows(ExecutionException.class, () -> binding.runAsync().get()); // another thread's graph
      assertEquals(OrtStatus.INVALID_STATE, assertThrows(OrtFFMException.class, () -> {
        throw e.getCause();
      }).status());
      binding.forgetGraphs();
      binding.runAsync().get();
      assertArrayEquals(new float[] {4, 2, 4, 6}, y.toFloatArray());
    }
  }

  @Test
  void samples() throws Exception {
    List<String> lines = SamplesTest.run("samples/KvCache.java", "cuda",
        Models.file(folder, "concat dims=1,2,past,4 dims2=1,2,new,4 axis=2"));
    assertTrue(lines.contains("3200 bytes up in 100 steps"), lines.toString());
    assertEquals(List.of("10 runs of two shapes: 90 in all", "10 steps of a state: 55"),
        SamplesTest.run("samples/Graphs.java", "cuda", Models.file(folder, "add")));
    assertFalse(SamplesTest.run("samples/Tiles.java", "cuda", Models.file(folder, "scale dims=h,w")).isEmpty());
  }

  /** The samples with convolutions compute what they compute on the CPU. */
  @Test
  void samplesOfNetworks() throws Exception {
    Path voices = SamplesTest.model("silero-vad.onnx");
    SamplesTest.near(SamplesTest.numbers(SamplesTest.run("samples/Recurrent.java", "cpu", voices)),
        SamplesTest.numbers(SamplesTest.run("samples/Recurrent.java", "cuda", voices)), 0.01);
    assertEquals(SamplesTest.run("samples/Callers.java", "cpu", voices), SamplesTest.run("samples/Callers.java", "cuda", voices));
    Path directions = SamplesTest.model("pp-ocr-cls.onnx");
    SamplesTest.near(SamplesTest.numbers(SamplesTest.run("samples/Quickstart.java", "cpu", directions).subList(0, 5)),
        SamplesTest.numbers(SamplesTest.run("samples/Quickstart.java", "cuda", directions).subList(0, 5)), 0.01);
  }
}
