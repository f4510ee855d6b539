package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What is easily done wrong in Java: it works, or the exception has Java's words for it. */
class MistakesTest {
  private static OrtRuntimeFFM runtime;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create();
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  private static MemoryDescriptor floats(long... shape) {
    return MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, shape);
  }

  private static void fails(OrtStatus status, String text, Executable call) {
    OrtFFMException e = assertThrows(OrtFFMException.class, call);
    assertEquals(status, e.status(), e.getMessage());
    assertTrue(e.getMessage().contains(text), e.getMessage());
    assertFalse(e.getMessage().matches("(?s).*(iobind_|IOBIND_|NULL|18446744|(?<![\\w'])[a-z]+(_[a-z]+)+(?![\\w'])).*"), e.getMessage());
  }

  /** Strings that ONNX Runtime would cut or change are refused, and no element has changed. */
  @Test
  void stringsThatWouldNotComeBack() {
    MemoryDescriptor two = MemoryDescriptor.of(OnnxTensorElementType.STRING, 2);
    try (OrtValueRef value = OrtValueRef.of(runtime, new String[] {"a", "\uD83D\uDE00é"}, two)) {
      fails(OrtStatus.INVALID_ARGUMENT, "string 1: it has a NUL at 2", () -> value.writeStrings("x", "ab\0c"));
      fails(OrtStatus.INVALID_ARGUMENT, "string 0: it has half of a surrogate pair", () -> value.writeStrings("\uD83D", "y"));
      fails(OrtStatus.INVALID_ARGUMENT, "string 1: it is null", () -> value.writeStrings("x", null));
      assertArrayEquals(new String[] {"a", "\uD83D\uDE00é"}, value.readStrings());
    }
    fails(OrtStatus.INVALID_ARGUMENT, "NUL", () -> runtime.device(DeviceSpec.of("cpu\0gpu")));
    fails(OrtStatus.INVALID_ARGUMENT, "NUL",
        () -> OrtSessionFFM.create(runtime, Models.bytes("scale"), new OrtSessionFFM.Options().config("a\0b", "c")));
  }

  @Test
  void buffersInTheOtherOrder() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      ByteBuffer big = ByteBuffer.allocate(4).order(ByteOrder.BIG_ENDIAN);
      fails(OrtStatus.INVALID_ARGUMENT, "order(ByteOrder.nativeOrder())", () -> binding.bindInput("x", big, 1));
      fails(OrtStatus.INVALID_ARGUMENT, "order",
          () -> binding.bindInput("x", ByteBuffer.allocateDirect(4), 1)); // as it is made
      binding.bindInput("x", ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder()), 1);
    }
    MemoryDescriptor bytes = MemoryDescriptor.of(OnnxTensorElementType.UINT8, 4);
    try (OrtValueRef value = OrtValueRef.of(runtime, ByteBuffer.allocate(4).put(0, (byte) 3), bytes)) {
      byte[] read = new byte[4]; // bytes have no order
      value.read(read);
      assertEquals(3, read[0]);
    }
  }

  /** A segment has an overload for what the model says already; what has none says which one there is. */
  @Test
  void overloads() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding();
        Arena arena = Arena.ofConfined(); OrtValueRef value = OrtValueRef.of(runtime, new float[] {1}, floats(1))) {
      binding.bindInput("x", arena.allocateFrom(ValueLayout.JAVA_FLOAT, 2, 3, 4), 3);
      binding.runWithBindings();
      float[] y = new float[3];
      binding.readOutput("y", y);
      assertArrayEquals(new float[] {4, 6, 8}, y);
      fails(OrtStatus.INVALID_ARGUMENT, "bindInput(name, value)", () -> binding.bindInput("x", value, 1));
      fails(OrtStatus.INVALID_ARGUMENT, "MemoryDescriptor.of(type, dims)", () -> binding.update("x", arena.allocate(12)));
      fails(OrtStatus.INVALID_ARGUMENT, "null", () -> binding.bindInput("x", (Object) null, 1));
    }
  }

  @Test
  void messagesHaveJavasWords() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding();
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options().slots(1));
        OrtValueRef value = OrtValueRef.of(runtime, new float[] {1}, floats(1)); Arena arena = Arena.ofConfined()) {
      fails(OrtStatus.NOT_FOUND, "-1", () -> binding.getOutput(-1));
      fails(OrtStatus.INVALID_ARGUMENT, "-4", () -> value.read(-4, arena.allocate(4), null));
      pipeline.submit(List.of(value));
      fails(OrtStatus.INVALID_STATE, "pull one by next", () -> pipeline.submit(List.of(value)));
      pipeline.next().close();
      fails(OrtStatus.INVALID_STATE, "runWithBindings: ", binding::runWithBindings);
      fails(OrtStatus.SHAPE, "a Java array at most", () -> JavaArrays.length(floats(1L << 31)));
      fails(OrtStatus.INVALID_ARGUMENT, "run: 'x': the value is null", () -> session.run(Collections.singletonList(null)));
      fails(OrtStatus.INVALID_ARGUMENT, "submit: 'x': the value is null", () -> pipeline.submit(Collections.singletonList(null)));
    }
    fails(OrtStatus.INVALID_ARGUMENT, "device: 'nope'", () -> runtime.device(DeviceSpec.of("nope")));
    fails(OrtStatus.NOT_FOUND, "device: ", () -> OrtValueRef.allocate(runtime, DeviceSpec.of("cuda:77"), floats(1)));
    fails(OrtStatus.INVALID_ARGUMENT, "intraOp and interOp",
        () -> OrtSessionFFM.create(runtime, Models.bytes("scale"), new OrtSessionFFM.Options().threads(-1, 0)));
    try (OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      MemorySegment event = MemorySegment.ofAddress(64);
      fails(OrtStatus.NOT_SUPPORTED, "OrtStreamFFM.await: ", () -> stream.await(NativeKind.CUDA, event));
      fails(OrtStatus.NOT_SUPPORTED, "signal: ", () -> stream.signal(NativeKind.CUDA, event));
    }
  }

  @Test
  void messagesOfGraphsHaveJavasWords() {
    Devices.require(runtime, "vdev");
    DeviceSpec vdev = DeviceSpec.of("vdev");
    var options = new OrtSessionFFM.Options().devices(vdev).graphs(1);
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), options);
        OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef value = OrtValueRef.of(runtime, new float[] {1}, floats(1))) {
      fails(OrtStatus.NOT_SUPPORTED, "(Options.graphs)", () -> binding.bindInput("x", value, InputMode.LIVE));
      fails(OrtStatus.NOT_SUPPORTED, "Options.graphs is 1", () -> binding.carry("y", "x", CarryMode.SWAP));
      fails(OrtStatus.INVALID_ARGUMENT, "with Options.graphs", () -> binding.runWithBindings(Map.of("gpu_graph_id", "1")));
    }
    fails(OrtStatus.INVALID_ARGUMENT, "set Options.graphs", () -> OrtSessionFFM.create(runtime, Models.bytes("scale"),
        new OrtSessionFFM.Options().devices(vdev).ep("enable_graph_capture", "1")));
  }

  /** Types that no Java array has as they are: booleans, and floats of 16 bits. */
  @Test
  void booleansAndHalfFloats() {
    MemoryDescriptor three = MemoryDescriptor.of(OnnxTensorElementType.BOOL, 3);
    try (OrtValueRef value = OrtValueRef.of(runtime, new boolean[] {true, false, true}, three)) {
      assertArrayEquals(new boolean[] {true, false, true}, value.toBooleanArray());
      boolean[] read = new boolean[3];
      value.read(read);
      assertArrayEquals(new boolean[] {true, false, true}, read);
      fails(OrtStatus.SHAPE, "3 booleans", () -> value.read(new boolean[2]));
      fails(OrtStatus.DTYPE, "float", value::toFloatArray);
    }
    float[] floats = {1, -2.5f, 65504, 0.1f, Float.POSITIVE_INFINITY};
    for (OnnxTensorElementType type : List.of(OnnxTensorElementType.FLOAT16, OnnxTensorElementType.BFLOAT16,
        OnnxTensorElementType.FLOAT32)) {
      try (OrtValueRef value = OrtValueRef.allocate(runtime, DeviceSpec.CPU, MemoryDescriptor.of(type, 5))) {
        value.writeFloats(floats);
        float[] read = value.toFloatArray();
        for (int i = 0; i < 4; i++) assertEquals(floats[i], read[i], Math.abs(floats[i]) / 128);
        assertEquals(floats[4], read[4]);
        fails(OrtStatus.DTYPE, "bool", value::toBooleanArray);
      }
    }
    assertEquals(0x3F80, JavaArrays.bfloat16(Float.intBitsToFloat(0x3F808000))); // a tie goes to the even one
    assertEquals(0x3F82, JavaArrays.bfloat16(Float.intBitsToFloat(0x3F818000)));
    assertTrue(Float.isNaN(Float.intBitsToFloat(JavaArrays.bfloat16(Float.NaN) << 16)));
  }

  /** An output whose shape the data decide keeps no memory: the message says which modes do, and which takes any. */
  @Test
  void reuseOfADataDependentOutput() {
    try (OrtSessionFFM session = Models.session(runtime, "nonzero"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindOutput("y", OutputMode.REUSE);
      binding.bindInput("x", new float[] {1, 0, 0}, 3);
      binding.runWithBindings();
      binding.bindInput("x", new float[] {1, 1, 0}, 3);
      fails(OrtStatus.SHAPE, "FIXED and REUSE keep one, FRESH takes any", binding::runWithBindings);
    }
  }

  /** What a call lends belongs to the binding until its next run: who ignores it leaks nothing. */
  @Test
  void whatIsLentIsTakenBack() {
    long leaks = Handle.LEAKS.get();
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = new OrtIoBindingFFM(session)) {
      long before = runtime.counters(DeviceSpec.CPU).allocatedBytes();
      binding.bindInput("x", new float[] {1, 2}, 2);
      MemorySegment last = null;
      OrtValueRef kept = null;
      for (int i = 0; i < 100; i++) {
        OrtValueRef y = binding.runWithBindings(Map.of()).get("y");
        if (i == 50) kept = y.retain();
        last = binding.getBoundOutputCpuValues().get("y");
        assertEquals(4, last.getAtIndex(ValueLayout.JAVA_FLOAT, 1));
        binding.getBoundOutputValues();
      }
      assertArrayEquals(new float[] {2, 4}, kept.toFloatArray());
      kept.close();
      MemorySegment ended = last;
      binding.runWithBindings();
      assertThrows(IllegalStateException.class, () -> ended.get(ValueLayout.JAVA_FLOAT, 0));
      assertTrue(runtime.counters(DeviceSpec.CPU).allocatedBytes() - before < 1000);
    }
    System.gc();
    assertEquals(leaks, Handle.LEAKS.get());
  }

  /** A folder that IOBIND_EP_LIBRARIES names may have the virtual accelerator; an entry that is not there is told. */
  @Test
  void librariesOfTheEnvironment(@org.junit.jupiter.api.io.TempDir java.nio.file.Path folder) throws Exception {
    java.nio.file.Path build = java.nio.file.Path.of(System.getProperty("iobind.library")).toRealPath();
    java.nio.file.Path alone = java.nio.file.Files.createDirectory(folder.resolve("alone"));
    java.nio.file.Path other = java.nio.file.Files.createDirectory(folder.resolve("other"));
    java.nio.file.Files.copy(build, alone.resolve("libiobind.so"));
    String vdev = build.resolveSibling("libiobind_vdev.so").toString();
    java.nio.file.Files.copy(java.nio.file.Path.of(vdev), other.resolve("libiobind_vdev.so"));
    Child child = Child.java(Map.of("IOBIND_EP_LIBRARIES", "/nowhere:" + other), "--enable-native-access=ALL-UNNAMED",
        "-Diobind.library=" + alone.resolve("libiobind.so"), "-Diobind.project=.", "-Diobind.build=.", "-cp",
        Child.CLASS_PATH, Environment.class.getName());
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("vdev:0") && child.output().contains("IOBIND_EP_LIBRARIES: '/nowhere'"),
        child.output());
  }

  /** Finds the virtual accelerator. */
  static final class Environment {
    public static void main(String[] arguments) {
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortLibrary(
          java.nio.file.Path.of("../../.runtime/onnxruntime")))) {
        System.out.println(runtime.device(DeviceSpec.of("vdev")).spec());
      }
    }
  }
}
