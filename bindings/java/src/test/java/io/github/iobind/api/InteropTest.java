package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** What other native code works with: addresses, streams, memory and an ONNX Runtime that it has. */
class InteropTest {
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
  }

  @Test
  void streamsOfAnEpHaveAnAddress() {
    OrtStreamFFM closed;
    try (OrtStreamFFM cpu = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      assertEquals(MemorySegment.NULL, cpu.nativeStream()); // a thread of iobind's
      closed = cpu;
    }
    assertThrows(IllegalStateException.class, closed::nativeStream);
    fails(OrtStatus.NOT_SUPPORTED, "option", () -> OrtStreamFFM.create(runtime, DeviceSpec.CPU, Map.of("key", "value")));
    Devices.require(runtime, "vdev");
    DeviceSpec vdev = DeviceSpec.of("vdev");
    fails(OrtStatus.NOT_SUPPORTED, "option", () -> OrtStreamFFM.create(runtime, vdev, Map.of("key", "value")));
    try (OrtStreamFFM one = OrtStreamFFM.create(runtime, vdev);
        OrtStreamFFM other = OrtStreamFFM.create(runtime, vdev)) {
      assertNotEquals(MemorySegment.NULL, one.nativeStream());
      assertNotEquals(one.nativeStream(), other.nativeStream());
      assertEquals(one.nativeStream(), one.nativeStream());
      assertEquals(0, one.nativeStream().byteSize()); // not for Java to look into
    }
  }

  @Test
  void valuesHaveAnAddress() {
    try (Arena arena = Arena.ofConfined(); OrtValueRef value = OrtValueRef.of(runtime, new float[] {1, 2, 3}, floats(3));
        OrtValueRef part = value.slice(1, 2); OrtValueRef empty = OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(0))) {
      assertEquals(value.asMemorySegment(arena).address(), value.nativeAddress().address());
      assertEquals(value.nativeAddress().address() + 4, part.nativeAddress().address());
      assertEquals(2, part.nativeAddress().reinterpret(8).getAtIndex(ValueLayout.JAVA_FLOAT, 0));
      assertEquals(MemorySegment.NULL, empty.nativeAddress());
    }
  }

  /** Memory of the caller's is released when the last use of it is over, and once. */
  @Test
  void wrappedMemorySaysWhenItIsFree() {
    AtomicInteger released = new AtomicInteger();
    try (Arena arena = Arena.ofConfined(); OrtSessionFFM session = Models.session(runtime, "scale")) {
      MemorySegment memory = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 3, 4);
      fails(OrtStatus.INVALID_ARGUMENT, "12",
          () -> OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, floats(3), released::incrementAndGet));
      OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, floats(2), released::incrementAndGet);
      OrtValueRef part = value.slice(0, 1);
      OrtIoBindingFFM binding = session.createBinding();
      binding.bindInput("x", value);
      value.close();
      part.close();
      binding.runWithBindings();
      float[] y = new float[2];
      binding.readOutput("y", y);
      assertArrayEquals(new float[] {6, 8}, y);
      assertEquals(0, released.get());
      binding.close();
      assertEquals(1, released.get());
      // What it throws is dropped: a native caller could not take it.
      OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, floats(2), () -> {
        released.incrementAndGet();
        throw new IllegalStateException("dropped");
      }).close();
      assertEquals(2, released.get());
    }
  }

  /** A library that gives its tensor by DLPack may close the value in its deleter, which the value's own close calls. */
  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aDeleterThatClosesTheValue() throws Exception {
    try (Arena arena = Arena.ofShared()) {
      MemorySegment stub = Linker.nativeLinker().upcallStub(
          MethodHandles.lookup().findStatic(InteropTest.class, "closeTaken", MethodType.methodType(void.class, MemorySegment.class)),
          FunctionDescriptor.ofVoid(ValueLayout.ADDRESS), arena);
      MemorySegment struct = arena.allocate(64, 8); // a DLManagedTensor
      struct.set(ValueLayout.ADDRESS, 0, arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2));
      struct.set(ValueLayout.JAVA_INT, 8, 1); // the CPU
      struct.set(ValueLayout.JAVA_INT, 16, 1);
      struct.set(ValueLayout.JAVA_INT, 20, 2 | 32 << 8 | 1 << 16); // float32
      struct.set(ValueLayout.ADDRESS, 24, arena.allocateFrom(ValueLayout.JAVA_LONG, 2));
      struct.set(ValueLayout.ADDRESS, 56, stub);
      taken = OrtInterop.fromDlpack(runtime, struct, OrtInterop.Dlpack.LEGACY);
      assertArrayEquals(new float[] {1, 2}, taken.toFloatArray());
      taken.asMemorySegment();
      taken.close();
      assertEquals(1, CLOSES.get());
    }
  }

  private static final AtomicInteger CLOSES = new AtomicInteger();
  private static OrtValueRef taken;

  @SuppressWarnings("unused") // called by libiobind
  private static void closeTaken(MemorySegment struct) {
    taken.close();
    CLOSES.incrementAndGet();
  }

  @Test
  void anOnnxRuntimeThatIsLoaded() throws Throwable {
    MemorySegment symbol =
        SymbolLookup.libraryLookup(runtime.ortLibrary(), Arena.global()).find("OrtGetApiBase").orElseThrow();
    MemorySegment base = (MemorySegment) Linker.nativeLinker()
        .downcallHandle(symbol, FunctionDescriptor.of(ValueLayout.ADDRESS)).invokeExact();
    try (OrtRuntimeFFM same = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortApiBase(base));
        OrtValueRef x = OrtValueRef.of(same, new float[] {3}, floats(1));
        OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      assertEquals(runtime.ortLibrary(), same.ortLibrary());
      binding.bindInput("x", x); // one ONNX Runtime: values of the one are good for the other
      binding.runWithBindings();
    }
    fails(OrtStatus.INVALID_ARGUMENT, "ortApi",
        () -> OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortApiBase(base).ortApi(base)));
    fails(OrtStatus.INVALID_ARGUMENT, "", () -> OrtSessionFFM.wrap(runtime, MemorySegment.NULL, null));
  }

  /** The options of a caller's stream reach the execution provider; the CPU has none. */
  @Test
  void aStreamOfTheCallersForASession() {
    MemorySegment stream = MemorySegment.ofAddress(64);
    var options = new OrtSessionFFM.Options().devices(DeviceSpec.CPU).stream(stream);
    fails(OrtStatus.INVALID_ARGUMENT, "user_compute_stream",
        () -> OrtSessionFFM.create(runtime, Models.bytes("scale"), options));
    Devices.require(runtime, "vdev");
    fails(OrtStatus.RUNTIME, "vdev: EP option", () -> OrtSessionFFM.create(runtime, Models.bytes("scale"),
        new OrtSessionFFM.Options().devices(DeviceSpec.of("vdev")).stream(stream)));
  }

  @Test
  void aSessionsOwnStream() {
    Devices.require(runtime, "vdev");
    DeviceSpec vdev = DeviceSpec.of("vdev");
    try (OrtStreamFFM cpu = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> OrtSessionFFM.create(runtime, Models.bytes("scale"),
          new OrtSessionFFM.Options().devices(vdev).stream(cpu)));
      assertTrue(e.getMessage().contains("stream"), e.getMessage());
    }
  }

  /** The virtual accelerator's own stream, as another library would have it. */
  @Test
  void aStreamOfAnotherLibrary() {
    Devices.require(runtime, "vdev");
    DeviceSpec vdev = DeviceSpec.of("vdev");
    fails(OrtStatus.NOT_SUPPORTED, "", () -> OrtStreamFFM.wrap(runtime, vdev, NativeKind.D3D12, MemorySegment.NULL, null));
    fails(OrtStatus.NOT_SUPPORTED, "",
        () -> OrtStreamFFM.wrap(runtime, DeviceSpec.CPU, NativeKind.VDEV, MemorySegment.ofAddress(64), null));
    try (OrtStreamFFM cpu = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      assertThrows(OrtFFMException.class, () -> cpu.await(NativeKind.VDEV, MemorySegment.ofAddress(64)));
      assertThrows(OrtFFMException.class, () -> cpu.signal(NativeKind.VDEV, MemorySegment.ofAddress(64)));
    }
  }

  @Test
  void capturedGraphs() {
    Devices.require(runtime, "vdev");
    DeviceSpec vdev = DeviceSpec.of("vdev");
    var options = new OrtSessionFFM.Options().devices(vdev).graphs(1);
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), options);
        OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef x = OrtValueRef.allocate(runtime, vdev, floats(2)); OrtValueRef y = OrtValueRef.allocate(runtime, vdev,
            floats(2)); OrtValueRef other = OrtValueRef.allocate(runtime, vdev, floats(3))) {
      binding.bindInput("x", x);
      binding.bindOutput("y", y);
      for (int i = 0; i < 3; i++) {
        x.write(new float[] {i, 2 * i});
        binding.runWithBindings();
        assertArrayEquals(new float[] {2 * i, 4 * i}, y.toFloatArray());
      }
      binding.bindOutput("y", OutputMode.REUSE);
      binding.bindInput("x", other);
      fails(OrtStatus.INVALID_STATE, "graph", binding::runWithBindings); // another shape, and one graph is there
      binding.forgetGraphs();
      other.write(new float[] {1, 2, 3});
      binding.runWithBindings();
      try (OrtValueRef result = binding.getOutput("y")) {
        assertArrayEquals(new float[] {2, 4, 6}, result.toFloatArray());
      }
    }
  }

  /** What one side gives the other takes: the same memory, which the last of them frees. */
  @Test
  void dlpack() {
    long before = runtime.counters(DeviceSpec.CPU).allocatedBytes();
    for (OrtInterop.Dlpack[] options : new OrtInterop.Dlpack[][] {{}, {OrtInterop.Dlpack.LEGACY}}) {
      OrtValueRef made = OrtValueRef.of(runtime, new float[] {1, 2, 3, 4}, floats(2, 2));
      MemorySegment memory = made.nativeAddress(), struct = OrtInterop.toDlpack(made, options);
      made.close();
      try (OrtValueRef taken = OrtInterop.fromDlpack(runtime, struct, options)) {
        assertEquals(memory, taken.nativeAddress());
        assertEquals(floats(2, 2), taken.descriptor());
        assertArrayEquals(new float[] {1, 2, 3, 4}, taken.toFloatArray());
      }
    }
    assertEquals(before, runtime.counters(DeviceSpec.CPU).allocatedBytes());
    MemoryDescriptor one = MemoryDescriptor.of(OnnxTensorElementType.STRING, 1);
    try (OrtValueRef strings = OrtValueRef.of(runtime, new String[] {"a"}, one); Arena arena = Arena.ofShared();
        OrtValueRef wrapped = OrtValueRef.wrap(runtime, DeviceSpec.CPU, arena.allocate(4, 4), floats(1))) {
      fails(OrtStatus.NOT_SUPPORTED, "string", () -> OrtInterop.toDlpack(strings));
      fails(OrtStatus.INVALID_ARGUMENT, "copyTo", () -> OrtInterop.toDlpack(wrapped));
    }
    fails(OrtStatus.INVALID_ARGUMENT, "", () -> OrtInterop.fromDlpack(runtime, MemorySegment.NULL));
  }

  /** Releases an OrtValue, as the C code that has it does: by the function in ONNX Runtime's table. */
  static void releaseValue(OrtRuntimeFFM runtime, MemorySegment value) {
    MemorySegment api = OrtInterop.ortApi(runtime).reinterpret(97 * 8);
    try {
      Linker.nativeLinker().downcallHandle(api.getAtIndex(ValueLayout.ADDRESS, 96), FunctionDescriptor.ofVoid(ValueLayout.ADDRESS))
          .invokeExact(value);
    } catch (Throwable t) {
      throw new IllegalStateException(t);
    }
  }

  @Test
  void valuesAndSessionsOfOnnxRuntime() {
    long before = runtime.counters(DeviceSpec.CPU).allocatedBytes();
    AtomicInteger released = new AtomicInteger();
    OrtValueRef made = OrtValueRef.of(runtime, new float[] {1, 2}, floats(2));
    MemorySegment memory = made.nativeAddress(), ortValue = OrtInterop.toOrtValue(made);
    made.close();
    OrtValueRef x = OrtInterop.fromOrtValue(runtime, ortValue, () -> {
      releaseValue(runtime, ortValue);
      released.incrementAndGet();
    });
    assertEquals(memory, x.nativeAddress());
    try (OrtSessionFFM session = Models.session(runtime, "scale");
        OrtSessionFFM same = OrtSessionFFM.wrap(runtime, OrtInterop.ortSession(session), null);
        OrtIoBindingFFM binding = same.createBinding()) {
      binding.bindInput("x", x);
      x.close();
      binding.runWithBindings();
      float[] y = new float[2];
      binding.readOutput("y", y);
      assertArrayEquals(new float[] {2, 4}, y);
      assertEquals(0, released.get()); // it is bound
    }
    assertEquals(1, released.get());
    assertEquals(before, runtime.counters(DeviceSpec.CPU).allocatedBytes());
    assertNotEquals(MemorySegment.NULL, OrtInterop.ortEnv(runtime));
    fails(OrtStatus.INVALID_ARGUMENT, "", () -> OrtInterop.fromOrtValue(runtime, MemorySegment.NULL, released::incrementAndGet));
    assertEquals(1, released.get());
    try (Arena arena = Arena.ofShared();
        OrtValueRef wrapped = OrtValueRef.wrap(runtime, DeviceSpec.CPU, arena.allocate(4, 4), floats(1))) {
      fails(OrtStatus.INVALID_ARGUMENT, "copyTo", () -> OrtInterop.toOrtValue(wrapped));
    }
  }

  /** A struct of DLPack 1 whose memory is for reading only. */
  @Test
  void readOnlyByDlpack() {
    OrtValueRef made = OrtValueRef.of(runtime, new float[] {1, 2}, floats(2));
    MemorySegment struct = OrtInterop.toDlpack(made).reinterpret(32);
    made.close();
    struct.set(ValueLayout.JAVA_LONG, 24, 1); // flags, behind version, context and deleter
    try (OrtValueRef value = OrtInterop.fromDlpack(runtime, struct)) {
      fails(OrtStatus.INVALID_ARGUMENT, "read-only", () -> value.write(new float[] {3, 4}));
      assertTrue(value.asMemorySegment().isReadOnly());
      assertArrayEquals(new float[] {1, 2}, value.toFloatArray());
      fails(OrtStatus.NOT_SUPPORTED, "read-only", () -> OrtInterop.toDlpack(value, OrtInterop.Dlpack.LEGACY));
      fails(OrtStatus.NOT_SUPPORTED, "read-only", () -> OrtInterop.toOrtValue(value));
    }
  }

  /** A segment that is for reading only: a struct that can say so says it, and what cannot is refused. */
  @Test
  void readOnlySegments() {
    MemorySegment memory = Arena.global().allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2);
    try (OrtValueRef whole = OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory.asReadOnly(), floats(2));
        OrtValueRef part = whole.slice(0, 1)) {
      for (OrtValueRef value : List.of(whole, part)) {
        fails(OrtStatus.NOT_SUPPORTED, "read-only", () -> OrtInterop.toOrtValue(value));
        fails(OrtStatus.NOT_SUPPORTED, "read-only", () -> OrtInterop.toDlpack(value, OrtInterop.Dlpack.LEGACY));
        try (OrtValueRef taken = OrtInterop.fromDlpack(runtime, OrtInterop.toDlpack(value))) {
          fails(OrtStatus.INVALID_ARGUMENT, "read-only", () -> taken.write(value.toFloatArray()));
          assertTrue(taken.asMemorySegment().isReadOnly());
          assertArrayEquals(value.toFloatArray(), taken.toFloatArray());
        }
      }
    }
    try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, floats(2));
        OrtValueRef taken = OrtInterop.fromDlpack(runtime, OrtInterop.toDlpack(value))) {
      taken.write(new float[] {3, 4});
      assertEquals(4, memory.getAtIndex(ValueLayout.JAVA_FLOAT, 1));
    }
  }

  @Test
  void librariesOfCuda(@org.junit.jupiter.api.io.TempDir java.nio.file.Path folder) {
    fails(OrtStatus.NOT_FOUND, "nowhere", () -> OrtRuntimeFFM.preload("/nowhere", 0, java.util.Set.of()));
    fails(OrtStatus.NOT_FOUND, "cud",
        () -> OrtRuntimeFFM.preload(folder.toString(), 12, java.util.Set.of(OrtRuntimeFFM.Preload.CUDA)));
    fails(OrtStatus.INVALID_ARGUMENT, "11", () -> OrtRuntimeFFM.preload(null, 11, java.util.Set.of()));
  }

  @Test
  void modelsSayWhatTheyAre() {
    try (OrtSessionFFM session = Models.session(runtime, "scale opset=20 domain=org.example description=doubles")) {
      assertEquals(new ModelInfo(20, 0, "iobind-tests", "scale", "org.example", "doubles"), session.model());
      assertEquals(Map.of(), session.metadata());
    }
    try (OrtSessionFFM session = Models.session(runtime, "scale labels=cat,dog")) {
      assertEquals(List.of("author=", "labels=cat,dog"), session.metadata().entrySet().stream().map(Object::toString).toList());
    }
  }
}
