package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What bindings do, on the CPU. */
class BindingTest {
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

  @Test
  void runtimeSaysWhatItIs() {
    assertTrue(runtime.ortVersion().matches("1\\.\\d+\\.\\d+"), runtime.ortVersion());
    assertTrue(runtime.ortApiVersion() >= 24);
    assertTrue(OrtRuntimeFFM.iobindVersion().startsWith(System.getProperty("iobind.version") + " "));
    DeviceInfo cpu = runtime.devices().getFirst();
    assertEquals("CPUExecutionProvider", cpu.epName());
    assertTrue(cpu.capabilities().contains(DeviceInfo.Capability.HOST_MEMORY));
    assertEquals(DeviceSpec.CPU.text(), runtime.device(DeviceSpec.CPU).spec().text().split(":")[0]);
    OrtFFMException e = assertThrows(OrtFFMException.class, () -> runtime.device(DeviceSpec.of("nonsense")));
    assertEquals(OrtStatus.INVALID_ARGUMENT, e.status());
  }

  @Test
  void signature() {
    try (OrtSessionFFM session = Models.session(runtime, "concat dims=past,3 dims2=new,3")) {
      OrtValueInfo first = session.inputs().getFirst();
      assertEquals("first", first.name());
      assertEquals(OrtValueInfo.Kind.TENSOR, first.kind());
      assertEquals(OnnxTensorElementType.FLOAT32, first.type());
      assertEquals(List.of(-1L, 3L), first.shape());
      assertEquals(List.of("past", ""), first.symbols());
      assertEquals("joined", session.outputs().getFirst().name());
      assertEquals(1, session.inputIndex("second"));
      assertEquals(1, session.inputIndex(new String("second"))); // another object of the same text
      assertEquals(0, session.inputIndex("first"));
      assertEquals(1, session.inputIndex("second"));
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> session.inputIndex("third"));
      assertEquals(OrtStatus.NOT_FOUND, e.status());
      assertTrue(e.getMessage().contains("first"), e.getMessage());
    }
  }

  @Test
  void arraysInAndOut() {
    try (OrtSessionFFM session = Models.session(runtime, "add dims=n,3"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[] {1, 2, 3, 4, 5, 6}, 2, 3);
      binding.bindInput("y", new float[] {10, 20, 30, 40, 50, 60}, 2, 3);
      binding.runWithBindings();
      float[] result = new float[6];
      binding.readOutput("z", result);
      assertArrayEquals(new float[] {11, 22, 33, 44, 55, 66}, result);
      binding.bindInput("x", new float[] {0, 0, 0, 0, 0, 0}, 2, 3); // the same memory
      binding.update("y", new float[] {1, 1, 1, 1, 1, 1});
      binding.runWithBindings();
      binding.readOutput("z", result);
      assertArrayEquals(new float[] {1, 1, 1, 1, 1, 1}, result);
      binding.bindInput("x", new float[] {7, 8, 9}, 1, 3); // another shape
      binding.bindInput("y", new float[] {1, 1, 1}, 1, 3);
      binding.runWithBindings();
      try (OrtValueRef z = binding.getOutput("z")) {
        assertEquals(floats(1, 3), z.descriptor());
        assertArrayEquals(new float[] {8, 9, 10}, z.toFloatArray());
      }
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.readOutput("z", result));
      assertEquals(OrtStatus.SHAPE, e.status());
      e = assertThrows(OrtFFMException.class, () -> binding.readOutput("z", new int[3]));
      assertEquals(OrtStatus.DTYPE, e.status());
    }
  }

  @Test
  void segmentsAreNotCopied() {
    try (Arena arena = Arena.ofConfined(); OrtSessionFFM session = Models.session(runtime, "scale");
        OrtIoBindingFFM binding = session.createBinding()) {
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2, 3), y = arena.allocate(12, 16);
      binding.bindInput("x", x, floats(3));
      binding.bindOutput("y", y, floats(3));
      binding.runWithBindings();
      assertArrayEquals(new float[] {2, 4, 6}, y.toArray(ValueLayout.JAVA_FLOAT));
      x.setAtIndex(ValueLayout.JAVA_FLOAT, 1, 50);
      binding.runWithBindings();
      assertArrayEquals(new float[] {2, 100, 6}, y.toArray(ValueLayout.JAVA_FLOAT));
    }
  }

  @Test
  void buffers() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      FloatBuffer direct = ByteBuffer.allocateDirect(16).order(ByteOrder.nativeOrder()).asFloatBuffer();
      direct.put(new float[] {9, 1, 2, 3}).position(1);
      binding.bindInput("x", direct, 3);
      float[] result = new float[3];
      binding.runWithBindings();
      binding.readOutput("y", result);
      assertArrayEquals(new float[] {2, 4, 6}, result);
      direct.put(1, 5); // a run sees what a direct buffer holds then
      binding.runWithBindings();
      binding.readOutput("y", result);
      assertArrayEquals(new float[] {10, 4, 6}, result);
      FloatBuffer heap = FloatBuffer.wrap(new float[] {4, 5, 6});
      binding.bindInput("x", heap, 3);
      heap.put(0, 99); // a copy of a heap buffer was taken
      binding.runWithBindings();
      binding.readOutput("y", result);
      assertArrayEquals(new float[] {8, 10, 12}, result);
      FloatBuffer wrongOrder = ByteBuffer.allocateDirect(12).order(ByteOrder.BIG_ENDIAN).asFloatBuffer();
      assertThrows(OrtFFMException.class, () -> binding.bindInput("x", wrongOrder, 3));
    }
  }

  @Test
  void everyElementType() {
    for (OnnxTensorElementType type : OnnxTensorElementType.values()) {
      assertEquals(type.bits(), io.github.iobind.ffm.Iobind.dtypeGetBits(type.number()), type.name());
      if (type != OnnxTensorElementType.UNDEFINED) {
        assertEquals(type.toString(),
            io.github.iobind.ffm.Layouts.string(io.github.iobind.ffm.Iobind.dtypeGetName(type.number())));
      }
      assertEquals(type.component() == null, type.bits() == 0 || type.bits() > 64
          || type == OnnxTensorElementType.COMPLEX64, type.name());
    }
    try (Scratch scratch = Scratch.take()) { // bytes are counted as libiobind counts them
      for (OnnxTensorElementType type : OnnxTensorElementType.values()) {
        if (type.bits() == 0) continue;
        for (long[] shape : new long[][] {{}, {0}, {1}, {3, 5}, {2, 0, 7}, {7, 11, 13}}) {
          scratch.check(io.github.iobind.ffm.Iobind.dtypeGetBytes(type.number(), scratch.dims(shape), shape.length,
              scratch.out(0), scratch.error()));
          MemoryDescriptor descriptor = MemoryDescriptor.of(type, shape);
          assertEquals(scratch.getLong(0), descriptor.byteSize(), descriptor.toString());
        }
      }
    }
    assertEquals(3, MemoryDescriptor.of(OnnxTensorElementType.INT4, 5).byteSize());
    assertEquals(2, MemoryDescriptor.of(OnnxTensorElementType.INT2, 5).byteSize());
    assertEquals(0, floats(0, Long.MAX_VALUE).byteSize());
    assertThrows(OrtFFMException.class, () -> floats(Long.MAX_VALUE, 2));
    assertThrows(OrtFFMException.class, () -> floats(-1));
    assertThrows(OrtFFMException.class, () -> floats(new long[17]));
  }

  @Test
  void longs() {
    MemoryDescriptor three = MemoryDescriptor.of(OnnxTensorElementType.INT64, 3);
    try (OrtValueRef value = OrtValueRef.of(runtime, new long[] {1, -2, Long.MAX_VALUE}, three);
        OrtValueRef part = value.view(8, MemoryDescriptor.of(OnnxTensorElementType.UINT64, 1));
        OrtValueRef floats = OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(3))) {
      assertArrayEquals(new long[] {1, -2, Long.MAX_VALUE}, value.toLongArray());
      assertArrayEquals(new long[] {-2}, part.toLongArray());
      assertEquals(OrtStatus.DTYPE, assertThrows(OrtFFMException.class, floats::toLongArray).status());
    }
  }

  @Test
  void strings() {
    try (OrtSessionFFM session = Models.session(runtime, "identity dtype=string");
        OrtIoBindingFFM binding = session.createBinding()) {
      String[] texts = {"", "one", "zwölf \uD83D\uDE00"};
      binding.bindInput("x", texts, 3);
      binding.runWithBindings();
      try (OrtValueRef y = binding.getOutput("y")) {
        assertArrayEquals(texts, y.readStrings());
      }
      assertArrayEquals(texts, binding.copyOutputsToCpu().get("y").readStrings());
    }
  }

  /** Binding what is bound already changes nothing, but for a state that has moved on since, and what is closed is refused. */
  @Test
  void theSameValueAgain() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {1}, floats(1))) {
      OrtValueRef again = x.retain();
      float[] y = new float[1];
      for (int i = 1; i < 4; i++) {
        x.write(new float[] {i});
        binding.bindInput("x", i % 2 == 0 ? x : again);
        binding.runWithBindings();
        binding.readOutput("y", y);
        assertEquals(2 * i, y[0]);
      }
      x.write(new float[] {1});
      binding.carry("y", "x", CarryMode.MOVE);
      for (int i = 0; i < 3; i++) binding.runWithBindings();
      binding.bindInput("x", x); // the state from the start
      binding.runWithBindings();
      binding.readOutput("y", y);
      assertEquals(2, y[0]);
      binding.bindOutput("y", OutputMode.FRESH); // carried no more
      binding.bindInput("x", x);
      binding.runWithBindings();
      binding.readOutput("y", y);
      assertEquals(2, y[0]);
      binding.bindInput("x", x, InputMode.SNAPSHOT);
      x.write(new float[] {5});
      binding.bindInput("x", x, InputMode.SNAPSHOT); // a copy of now
      binding.runWithBindings();
      binding.readOutput("y", y);
      assertEquals(10, y[0]);
      binding.bindInput("x", again);
      again.close();
      assertThrows(IllegalStateException.class, () -> binding.bindInput("x", again));
    }
  }

  @Test
  void outputModes() {
    try (OrtSessionFFM session = Models.session(runtime, "multi"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[] {3}, 1);
      List<String> names = session.outputs().stream().map(OrtValueInfo::name).toList();
      binding.bindOutput(names.get(0), OutputMode.REUSE);
      binding.bindOutput(names.get(1), OutputMode.NONE);
      binding.runWithBindings();
      Map<String, OrtValueRef> lent = binding.getBoundOutputValues(), values = new java.util.HashMap<>();
      Map<String, OrtValueRef> copies = binding.copyOutputsToCpu();
      Map<String, MemorySegment> host = binding.getBoundOutputCpuValues();
      assertEquals(List.of(names.get(0), names.get(2)), List.copyOf(lent.keySet()));
      lent.forEach((name, value) -> values.put(name, value.retain()));
      copies.replaceAll((name, value) -> value.retain());
      assertEquals(values.get(names.get(0)).address(), host.get(names.get(0)).address());
      assertNotEquals(values.get(names.get(0)).address(), copies.get(names.get(0)).address());
      binding.update("x", new float[] {4});
      binding.runWithBindings();
      assertArrayEquals(new float[] {8}, values.get(names.get(0)).toFloatArray()); // reused
      assertArrayEquals(new float[] {3}, values.get(names.get(2)).toFloatArray()); // fresh
      assertArrayEquals(new float[] {6}, copies.get(names.get(0)).toFloatArray());
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.getOutput(1));
      assertEquals(OrtStatus.INVALID_STATE, e.status());
      for (var map : List.of(values, copies)) map.values().forEach(OrtValueRef::close);
    }
  }

  /** A run's outputs are fetched when they are asked for, and a map never shows those of a later run. */
  @Test
  void aRunGivesItsOutputs() {
    try (OrtSessionFFM session = Models.session(runtime, "multi"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[] {3}, 1);
      List<String> names = session.outputs().stream().map(OrtValueInfo::name).toList();
      binding.bindOutput(names.get(1), OutputMode.NONE);
      Map<String, OrtValueRef> first = binding.runWithBindings();
      assertEquals(2, first.size());
      assertEquals(List.of(names.get(0), names.get(2)), List.copyOf(first.keySet()));
      assertTrue(first.containsKey(names.get(0)));
      assertFalse(first.containsKey(names.get(1)));
      assertNull(first.get(names.get(1)));
      assertNull(first.get("none"));
      OrtValueRef value = first.get(names.get(0)), kept = value.retain();
      assertSame(value, first.get(names.get(0)));
      assertArrayEquals(new float[] {6}, value.toFloatArray());
      assertThrows(UnsupportedOperationException.class, first::clear);
      Map<String, OrtValueRef> ignored = binding.runWithBindings();
      for (int i = 0; i < 20; i++) binding.runWithBindings(); // a map that was looked into stays its run's
      ignored = binding.runWithBindings();
      binding.update("x", new float[] {4});
      Map<String, OrtValueRef> last = binding.runWithBindings(Map.of());
      assertThrows(IllegalStateException.class, value::toFloatArray);
      for (Map<String, OrtValueRef> ended : List.of(first, ignored)) {
        String message = assertThrows(IllegalStateException.class, () -> ended.get(names.get(0))).getMessage();
        assertTrue(message.contains("an earlier run"), message);
        assertThrows(IllegalStateException.class, ended::size);
      }
      assertArrayEquals(new float[] {8}, last.get(names.get(0)).toFloatArray());
      assertArrayEquals(new float[] {6}, kept.toFloatArray());
      kept.close();
      binding.clear();
      assertThrows(IllegalStateException.class, () -> last.get(names.get(0)));
    }
  }

  /** A caller who ignores the copies leaks nothing: the next run closes them. */
  @Test
  void copiesOfOutputsAreTheBindings() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[1000], 1000);
      binding.runWithBindings();
      OrtValueRef copy = binding.copyOutputsToCpu().get("y"), kept = copy.retain();
      binding.runWithBindings();
      assertThrows(IllegalStateException.class, copy::shape);
      assertEquals(1000, kept.toFloatArray().length);
      kept.close();
      binding.copyOutputsToCpu();
      long before = Handle.openBytes();
      binding.copyOutputsToCpu();
      assertTrue(Handle.openBytes() > before);
      binding.runWithBindings();
      assertTrue(Handle.openBytes() < before);
    }
  }

  /** What the package was first asked for by name: devices by name, hardware and number, and values and outputs on them. */
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void byNameAndDevice(String name) {
    Devices.require(runtime, name);
    DeviceInfo.Hardware type = runtime.device(DeviceSpec.of(name)).hardware();
    DeviceInfo.Hardware other = type == DeviceInfo.Hardware.NPU ? DeviceInfo.Hardware.CPU : DeviceInfo.Hardware.NPU;
    DeviceSpec spec = new DeviceSpec(name, type, 0), wrong = new DeviceSpec(name, other, 0);
    assertEquals(DeviceSpec.of(name.equals("cpu") ? "cpu" : name + ":0"), spec);
    assertEquals(spec.hashCode(), wrong.hashCode());
    OrtFFMException e = assertThrows(OrtFFMException.class, () -> OrtValueRef.allocate(runtime, wrong, floats(1)));
    assertEquals(OrtStatus.WRONG_DEVICE, e.status());
    assertTrue(e.getMessage().endsWith("expected NPU, got " + type), e.getMessage());
    e = assertThrows(OrtFFMException.class, () -> Models.session(runtime, "scale", wrong));
    assertEquals(OrtStatus.WRONG_DEVICE, e.status());
    for (String bad : List.of("", "cuda:0", "cuda,cpu")) {
      assertThrows(IllegalArgumentException.class, () -> new DeviceSpec(bad, type, 0));
    }
    assertThrows(IllegalArgumentException.class, () -> new DeviceSpec(name, type, -1));
    try (OrtSessionFFM session = Models.session(runtime, "scale", spec); OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef x = OrtValueRef.allocate(runtime, spec, floats(2));
        OrtValueRef elsewhere = OrtValueRef.allocate(runtime, DeviceSpec.of(name.equals("cpu") ? "vdev" : "cpu"), floats(2))) {
      x.write(new float[] {1, 2});
      binding.bindInput("x", x, spec);
      binding.bindOutputToDevice("y", floats(2), spec);
      OrtValueRef y = binding.runWithBindings().get("y");
      assertEquals(spec, y.device());
      assertArrayEquals(new float[] {2, 4}, y.toFloatArray());
      e = assertThrows(OrtFFMException.class, () -> binding.bindInput("x", elsewhere, spec));
      assertEquals(OrtStatus.WRONG_DEVICE, e.status());
      assertTrue(e.getMessage().contains("expected a value on '" + spec + "', got one on '"), e.getMessage());
      binding.update(0, MemorySegment.ofArray(new float[] {3, 4}), null);
      binding.runWithBindings();
      assertArrayEquals(new float[] {6, 8}, binding.getBoundOutputCpuValues().get("y").toArray(ValueLayout.JAVA_FLOAT));
      try (OrtStreamFFM stream = OrtStreamFFM.create(runtime, spec)) {
        e = assertThrows(OrtFFMException.class, () -> binding.update(0, MemorySegment.ofArray(new float[2]), stream));
        assertTrue(e.getMessage().startsWith("update: a copy on a stream: expected native memory"), e.getMessage());
      }
    }
  }

  /** Segments that are bound by turns, more of them than a binding remembers, and what else may be said of the same memory. */
  @Test
  void segmentsByTurns() {
    try (Arena arena = Arena.ofShared(); OrtSessionFFM session = Models.session(runtime, "scale");
        OrtIoBindingFFM binding = session.createBinding()) {
      MemorySegment[] x = new MemorySegment[6], y = new MemorySegment[6];
      for (int i = 0; i < 6; i++) {
        x[i] = arena.allocate(8, 16);
        y[i] = arena.allocate(8, 16);
      }
      for (int turn = 0; turn < 40; turn++) {
        int i = turn < 20 ? turn % 2 : turn % 6, count = turn % 3 == 0 ? 1 : 2;
        x[i].setAtIndex(ValueLayout.JAVA_FLOAT, count - 1, turn);
        binding.bindInput("x", x[i], count);
        binding.bindOutput("y", y[i], floats(count));
        binding.runWithBindings();
        assertEquals(2 * turn, y[i].getAtIndex(ValueLayout.JAVA_FLOAT, count - 1));
        assertEquals(count * 4, binding.getBoundOutputCpuValues().get("y").byteSize());
      }
      Arena other = Arena.ofShared();
      MemorySegment gone = other.allocate(8, 16);
      binding.bindInput("x", gone, 1);
      binding.bindInput("x", x[0], 1);
      other.close(); // it is not bound any more
      binding.bindOutput("y", y[0], floats(1));
      binding.runWithBindings();
      assertThrows(IllegalStateException.class, () -> binding.bindInput("x", gone, 1));
      binding.clear();
      binding.bindInput("x", x[0].asReadOnly(), 1);
      assertThrows(OrtFFMException.class, () -> binding.bindOutput("y", y[0].asReadOnly(), floats(1)));
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.bindInput("x", x[0].asSlice(0, 4), 2));
      assertEquals(OrtStatus.INVALID_ARGUMENT, e.status());
      binding.runWithBindings();
    }
  }

  @Test
  void runOptions() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[] {1}, 1);
      binding.setRunOptions("a tag", Map.of());
      binding.runWithBindings(Map.of("memory.enable_memory_arena_shrinkage", "cpu:0"));
      assertThrows(OrtFFMException.class,
          () -> binding.runWithBindings(Map.of("memory.enable_memory_arena_shrinkage", "no such device:7")));
      binding.runWithBindings(); // the entry was for that run alone
      binding.setRunOptions(null, Map.of("no_such_entry", "1"), OrtRuntimeFFM.LogLevel.ERROR);
      binding.runWithBindings();
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.setRunOptions(null,
          Map.of("disable_synchronize_execution_providers", "1"), OrtRuntimeFFM.LogLevel.VERBOSE));
      assertEquals(OrtStatus.INVALID_ARGUMENT, e.status());
    }
  }

  @Test
  void sessionsFromFilesAndOptions(@TempDir Path folder) throws Exception {
    Path file = Models.file(folder, "scale");
    try (OrtSessionFFM session = OrtSessionFFM.create(file); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[] {21}, 1);
      binding.runWithBindings();
      float[] y = new float[1];
      binding.readOutput("y", y);
      assertEquals(42, y[0]);
    }
    OrtFFMException e = assertThrows(OrtFFMException.class, () -> OrtSessionFFM.create(folder.resolve("none.onnx")));
    assertEquals(OrtStatus.NOT_FOUND, e.status());
    var options = new OrtSessionFFM.Options().devices(DeviceSpec.CPU).strict().placement().threads(1, 1)
        .optimization(OrtSessionFFM.Optimization.BASIC).freeDimension("n", 4)
        .config("session.use_env_allocators", "1").profile(folder.resolve("profile"));
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, file, options)) {
      assertEquals(List.of(4L), session.inputs().getFirst().shape());
      assertEquals("CPUExecutionProvider", session.nodes().getFirst().epName());
      try (OrtValueRef x = OrtValueRef.of(runtime, new float[] {1, 2, 3, 4}, floats(4))) {
        List<OrtValueRef> results = session.run(List.of(x));
        assertArrayEquals(new float[] {2, 4, 6, 8}, results.getFirst().toFloatArray());
        results.getFirst().close();
      }
      assertTrue(session.endProfile().toFile().length() > 0);
      try (OrtValueRef own = OrtValueRef.allocate(session, DeviceSpec.CPU, floats(4))) {
        own.write(new float[] {1, 2, 3, 4});
        assertArrayEquals(new float[] {1, 2, 3, 4}, own.toFloatArray());
      }
      OrtFFMException refused = assertThrows(OrtFFMException.class, () -> OrtValueRef.allocate(session, DeviceSpec.CPU,
          new MemoryDescriptor(OnnxTensorElementType.STRING, 4)));
      assertEquals(OrtStatus.NOT_SUPPORTED, refused.status());
    }
    e = assertThrows(OrtFFMException.class,
        () -> OrtSessionFFM.create(runtime, file, new OrtSessionFFM.Options().freeDimension("nope", 1)));
    assertEquals(OrtStatus.NOT_FOUND, e.status());
    e = assertThrows(OrtFFMException.class,
        () -> OrtSessionFFM.create(runtime, new byte[] {1, 2, 3}, new OrtSessionFFM.Options()));
    assertEquals(OrtStatus.RUNTIME, e.status());
    assertNotEquals(0, e.ortCode());
    assertFalse(e.getMessage().isBlank());
  }

  @Test
  void views() {
    try (NativeMemory memory = NativeMemory.allocate(runtime, DeviceSpec.CPU, 64); Arena arena = Arena.ofConfined()) {
      MemorySegment all = memory.asMemorySegment(arena).fill((byte) 0);
      assertEquals(64, all.byteSize());
      try (OrtValueRef part = memory.value(16, floats(2, 3)); OrtValueRef row = part.slice(1, 1)) {
        part.write(new float[] {1, 2, 3, 4, 5, 6});
        assertArrayEquals(new float[] {4, 5, 6}, row.toFloatArray());
        assertEquals(4, all.getAtIndex(ValueLayout.JAVA_FLOAT, 7));
        assertThrows(OrtFFMException.class, () -> memory.value(60, floats(2)));
        try (OrtValueRef copy = part.copyTo(runtime, DeviceSpec.CPU)) {
          part.write(new float[6]);
          assertArrayEquals(new float[] {1, 2, 3, 4, 5, 6}, copy.toFloatArray());
        }
      }
    }
  }

  /** ONNX Runtime chooses devices where none is named; an option of an EP is one that it knows. */
  @Test
  void devicesByPolicy() {
    for (var policy : OrtSessionFFM.Policy.values()) {
      var options = new OrtSessionFFM.Options().policy(policy).noMemoryReuse();
      try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), options);
          OrtIoBindingFFM binding = session.createBinding()) {
        float[] y = new float[2];
        binding.bindInput("x", new float[] {1, 2}, 2);
        binding.runWithBindings();
        binding.readOutput("y", y);
        assertArrayEquals(new float[] {2, 4}, y, policy.name());
      }
    }
    OrtFFMException e = assertThrows(OrtFFMException.class, () -> OrtSessionFFM.create(runtime, Models.bytes("scale"),
        new OrtSessionFFM.Options().devices(DeviceSpec.CPU).policy(OrtSessionFFM.Policy.PREFER_CPU)));
    assertEquals(OrtStatus.INVALID_ARGUMENT, e.status()); // the one or the other
    Devices.require(runtime, "vdev");
    e = assertThrows(OrtFFMException.class, () -> OrtSessionFFM.create(runtime, Models.bytes("scale"),
        new OrtSessionFFM.Options().devices(DeviceSpec.of("vdev")).ep("no_such_option", "1")));
    assertTrue(e.getMessage().contains("no_such_option"), e.getMessage());
  }

  /** Memory of a device, and pinned memory that the host writes. */
  @Test
  void deviceAndPinnedMemory() {
    Devices.require(runtime, "vdev");
    DeviceSpec vdev = DeviceSpec.of("vdev");
    try (NativeMemory device = NativeMemory.allocate(runtime, vdev, 64);
        NativeMemory pinned = NativeMemory.allocate(runtime, vdev.pinned(), 64); Arena arena = Arena.ofConfined()) {
      assertEquals("vdev:0", device.device().text());
      assertEquals("vdev:0/pinned", pinned.device().text());
      assertThrows(OrtFFMException.class, () -> device.asMemorySegment(arena));
      pinned.asMemorySegment(arena).setAtIndex(ValueLayout.JAVA_FLOAT, 4, 7);
      try (OrtValueRef from = pinned.value(16, floats(2)); OrtValueRef to = device.value(32, floats(2));
          OrtValueRef all = device.asValue()) {
        from.copyTo(to);
        assertEquals(7, to.toFloatArray()[0]);
        byte[] bytes = new byte[64];
        all.read(bytes);
        assertEquals(7, ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()).getFloat(32));
      }
      assertThrows(OrtFFMException.class, () -> NativeMemory.allocate(runtime, DeviceSpec.CPU.pinned(), 64));
    }
  }

  /** A state that grows, moves on, is set anew and taken; an output that is bound otherwise is carried no more. */
  @Test
  void carry() {
    try (OrtSessionFFM session = Models.session(runtime, "concat dims=n dims2=m axis=0");
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.carry("joined", "first", CarryMode.MOVE);
      for (int round = 0; round < 3; round++) {
        binding.bindInput("first", new float[] {round}, 1); // the state that the next run begins with
        for (int step = 1; step < 4; step++) {
          binding.bindInput("second", new float[] {10 * step}, 1);
          binding.runWithBindings();
        }
        float[] state = new float[4];
        binding.readOutput("joined", state);
        assertArrayEquals(new float[] {round, 10, 20, 30}, state);
      }
      try (OrtValueRef taken = binding.takeOutput("joined")) {
        binding.runWithBindings();
        assertArrayEquals(new float[] {2, 10, 20, 30}, taken.toFloatArray());
      }
      binding.bindOutput("joined", OutputMode.FRESH);
      binding.bindInput("first", new float[] {7}, 1);
      binding.runWithBindings();
      binding.bindInput("first", new float[] {8}, 1); // the same memory as before
      binding.runWithBindings();
      float[] joined = new float[2];
      binding.readOutput("joined", joined);
      assertArrayEquals(new float[] {8, 30}, joined);
    }
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      for (CarryMode mode : CarryMode.values()) {
        binding.bindInput("x", new float[] {1, -1}, 2);
        binding.carry("y", "x", mode);
        for (int step = 0; step < 10; step++) binding.runWithBindings();
        float[] state = new float[2];
        binding.readOutput("y", state);
        assertArrayEquals(new float[] {1024, -1024}, state, mode.name());
        binding.clear();
      }
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.carry("nope", "x", CarryMode.SWAP));
      assertEquals(OrtStatus.NOT_FOUND, e.status());
    }
  }

  @Test
  void runsAreTold() throws Exception {
    List<String> heard = new java.util.concurrent.CopyOnWriteArrayList<>();
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      session.onRun((of, nanos, failure) -> {
        heard.add((of == binding && nanos > 0) + " " + (failure == null ? "passed" : failure.status()));
        throw new IllegalStateException("is dropped");
      });
      assertThrows(OrtFFMException.class, binding::runWithBindings);
      binding.bindInput("x", new float[] {1}, 1);
      binding.runWithBindings();
      binding.runAsync().get();
      binding.runWithBindings(null, null); // which has ended, too
      session.onRun(null);
      binding.runWithBindings();
    }
    assertEquals(List.of("true INVALID_STATE", "true passed", "true passed", "true passed"), heard);
  }
}
