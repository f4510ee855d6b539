package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Memory and semaphores of other libraries and processes, on the virtual accelerator. */
class ExternalTest {
  private static final DeviceSpec VDEV = DeviceSpec.of("vdev");
  private static final MemoryDescriptor FOUR = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 4);
  private static final long BYTES = 8192, LATER = 4096;
  private static OrtRuntimeFFM runtime;
  private static SymbolLookup vdev;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create();
    Devices.require(runtime, "vdev");
    Path library = Path.of(System.getProperty("iobind.library"));
    vdev = SymbolLookup.libraryLookup(library.resolveSibling(library.getFileName().toString().replace("iobind", "iobind_vdev")),
        Arena.global());
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  private static MethodHandle function(SymbolLookup library, String name, FunctionDescriptor descriptor) {
    return Linker.nativeLinker().downcallHandle(library.find(name).orElseThrow(), descriptor);
  }

  private static MethodHandle libc(String name, FunctionDescriptor descriptor) {
    return function(Linker.nativeLinker().defaultLookup(), name, descriptor);
  }

  /** The descriptor of a file in memory, which another process could have. */
  private static int file(Arena arena) throws Throwable {
    int made = (int) libc("memfd_create", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_INT))
        .invokeExact(arena.allocateFrom("shared"), 0);
    assertEquals(0, (int) libc("ftruncate", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG))
        .invokeExact(made, BYTES));
    return made;
  }

  private static void closeFile(int file) throws Throwable {
    assertEquals(0, (int) libc("close", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT)).invokeExact(file));
  }

  private static MemorySegment map(int file, Arena arena) throws Exception {
    try (FileChannel channel = FileChannel.open(Path.of("/proc/self/fd/" + file), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      return channel.map(FileChannel.MapMode.READ_WRITE, 0, BYTES, arena);
    }
  }

  private static int semaphore() throws Throwable {
    return (int) function(vdev, "vdev_semaphore_create", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG)).invokeExact(0L);
  }

  private static void fails(OrtStatus status, String text, Executable call) {
    OrtFFMException e = assertThrows(OrtFFMException.class, call);
    assertEquals(status, e.status(), e.getMessage());
    assertTrue(e.getMessage().contains(text) && !e.getMessage().contains("_import"), e.getMessage());
  }

  /** A run waits for what another side writes, and tells it when the result is there; nothing is copied. */
  @Test
  void aRunOnMemoryOfAnothers() throws Throwable {
    try (Arena arena = Arena.ofShared()) {
      int file = file(arena), shared = semaphore();
      MemorySegment there = map(file, arena);
      OrtExternalMemoryFFM memory = OrtExternalMemoryFFM.create(runtime, VDEV, ExternalKind.FD_MEMORY, file, BYTES);
      OrtSemaphoreFFM semaphore = OrtSemaphoreFFM.create(runtime, VDEV, ExternalKind.FD_SEMAPHORE, shared);
      try (OrtValueRef x = memory.value(0, FOUR); OrtValueRef y = memory.value(LATER, FOUR);
          OrtSessionFFM session = Models.session(runtime, "scale", VDEV); OrtIoBindingFFM binding = session.createBinding();
          OrtStreamFFM stream = OrtStreamFFM.create(runtime, VDEV); OrtEventFFM end = OrtEventFFM.create(runtime, VDEV)) {
        DeviceCounters before = runtime.counters(VDEV);
        binding.bindInput("x", x);
        binding.bindOutput("y", y);
        stream.await(semaphore, 1);
        binding.runWithBindings(stream, null);
        stream.signal(semaphore, 2);
        semaphore.close(); // the stream keeps it
        memory.close();    // the values keep it
        end.record(stream);
        assertFalse(end.await(Duration.ofMillis(50)));
        for (int i = 0; i < 4; i++) there.setAtIndex(ValueLayout.JAVA_FLOAT, i, i + 1);
        assertEquals(0, (int) function(vdev, "vdev_semaphore_signal",
            FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG)).invokeExact(shared, 1L));
        assertEquals(1, (int) function(vdev, "vdev_semaphore_wait", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
            ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG)).invokeExact(shared, 2L, 60_000_000_000L));
        assertEquals(8, there.get(ValueLayout.JAVA_FLOAT, LATER + 12));
        assertEquals(before.uploadBytes(), runtime.counters(VDEV).uploadBytes());
        assertEquals(before.downloadBytes(), runtime.counters(VDEV).downloadBytes());
        stream.synchronize();
        assertArrayEquals(new float[] {2, 4, 6, 8}, y.toFloatArray());
      }
      assertThrows(IllegalStateException.class, () -> memory.value(0, FOUR));
      closeFile(file);
      closeFile(shared);
    }
  }

  @Test
  void whatIsWrong() throws Throwable {
    OrtExternalMemoryFFM.check(runtime, VDEV, ExternalKind.FD_MEMORY);
    OrtExternalMemoryFFM.check(runtime, VDEV, ExternalKind.FD_SEMAPHORE);
    fails(OrtStatus.NOT_SUPPORTED, "OrtExternalMemoryFFM.check: ", () -> OrtExternalMemoryFFM.check(runtime, DeviceSpec.CPU, ExternalKind.FD_MEMORY));
    try (Arena arena = Arena.ofShared()) {
      int file = file(arena), shared = semaphore();
      fails(OrtStatus.NOT_SUPPORTED, "OrtExternalMemoryFFM.create: ",
          () -> OrtExternalMemoryFFM.create(runtime, DeviceSpec.CPU, ExternalKind.FD_MEMORY, file, BYTES));
      fails(OrtStatus.INVALID_ARGUMENT, "memory", () -> OrtExternalMemoryFFM.create(runtime, VDEV, ExternalKind.FD_SEMAPHORE, shared, BYTES));
      fails(OrtStatus.INVALID_ARGUMENT, "a file descriptor", () -> OrtExternalMemoryFFM.create(runtime, VDEV, ExternalKind.FD_MEMORY, -1, BYTES));
      fails(OrtStatus.INVALID_ARGUMENT, "the size of the memory", () -> OrtExternalMemoryFFM.create(runtime, VDEV, ExternalKind.FD_MEMORY, file, 0));
      assertThrows(OrtFFMException.class, () -> OrtExternalMemoryFFM.create(runtime, VDEV, ExternalKind.FD_MEMORY, file, 1L << 40));
      fails(OrtStatus.INVALID_ARGUMENT, "a semaphore", () -> OrtSemaphoreFFM.create(runtime, VDEV, ExternalKind.FD_MEMORY, file));
      assertThrows(OrtFFMException.class, () -> OrtSemaphoreFFM.create(runtime, VDEV, ExternalKind.FD_SEMAPHORE, file));
      try (OrtExternalMemoryFFM memory = OrtExternalMemoryFFM.create(runtime, VDEV, ExternalKind.FD_MEMORY, file, BYTES);
          OrtSemaphoreFFM semaphore = OrtSemaphoreFFM.create(runtime, VDEV, ExternalKind.FD_SEMAPHORE, shared);
          OrtStreamFFM cpu = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
        fails(OrtStatus.INVALID_ARGUMENT, "value: expected a part of the memory's 8192 bytes", () -> memory.value(8184, FOUR));
        fails(OrtStatus.INVALID_ARGUMENT, "value: ", () -> memory.value(-8, FOUR));
        fails(OrtStatus.DTYPE, "strings", () -> memory.value(0, MemoryDescriptor.of(OnnxTensorElementType.STRING, 1)));
        fails(OrtStatus.WRONG_DEVICE, "OrtStreamFFM.await: ", () -> cpu.await(semaphore, 1));
        fails(OrtStatus.WRONG_DEVICE, "signal: ", () -> cpu.signal(semaphore, 1));
      }
      closeFile(file);
      closeFile(shared);
    }
  }

  @Test
  void valuesAreCompared() {
    try (Arena arena = Arena.ofConfined(); OrtValueRef right = OrtValueRef.of(runtime, new float[] {1, 2, 4, 0}, FOUR);
        OrtValueRef other = OrtValueRef.wrap(runtime, DeviceSpec.CPU, arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 2, 5, 0), FOUR);
        OrtValueRef far = other.copyTo(runtime, VDEV);
        OrtValueRef whole = OrtValueRef.of(runtime, new int[] {1, 2, 4, 0}, MemoryDescriptor.of(OnnxTensorElementType.INT32, 4))) {
      assertEquals(new OrtDifference(0, 0, 0, 0), right.compare(right));
      assertEquals(new OrtDifference(1, 2, 1, 0.25), other.compare(right));
      assertEquals(0, OrtDifference.between(other, right, 1, 0).beyond());
      assertEquals(1, OrtDifference.between(other, right, 0, 0.2).beyond());
      fails(OrtStatus.DTYPE, "compare: ", () -> other.compare(whole));
      fails(OrtStatus.WRONG_DEVICE, "compare: ", () -> far.compare(right));
      fails(OrtStatus.INVALID_ARGUMENT, "compare: ", () -> OrtDifference.between(other, right, -1, 0));
    }
  }
}
