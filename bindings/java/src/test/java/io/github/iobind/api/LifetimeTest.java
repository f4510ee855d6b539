package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What happens at the end of objects, and over many runs. */
class LifetimeTest {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private static MemoryDescriptor floats(long... shape) {
    return MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, shape);
  }

  private static List<List<Integer>> permutations(int count) {
    List<List<Integer>> all = new ArrayList<>();
    permute(new ArrayList<>(), count, all);
    return all;
  }

  private static void permute(List<Integer> begun, int count, List<List<Integer>> all) {
    if (begun.size() == count) all.add(List.copyOf(begun));
    for (int i = 0; i < count; i++) {
      if (begun.contains(i)) continue;
      begun.add(i);
      permute(begun, count, all);
      begun.removeLast();
    }
  }

  /** Every order of closing six objects that depend on each other: what is open still works, what is closed says so. */
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void closeInEveryOrder(String device) {
    try (OrtRuntimeFFM keeper = OrtRuntimeFFM.create()) {
      Devices.require(keeper, device);
      DeviceSpec spec = DeviceSpec.of(device);
      byte[] model = Models.bytes("scale");
      long before = keeper.counters(spec).allocatedBytes();
      for (List<Integer> order : permutations(6)) {
        OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
        OrtSessionFFM session = OrtSessionFFM.create(runtime, model, new OrtSessionFFM.Options().devices(spec).threads(1, 1));
        OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef host = OrtValueRef.of(runtime, new float[] {1, 2}, floats(2));
        OrtValueRef x = host.copyTo(runtime, spec);
        host.close();
        binding.bindInput("x", x, InputMode.LIVE);
        binding.runWithBindings();
        OrtValueRef y = binding.getOutput("y"), view = y.slice(0, 1);
        List<AutoCloseable> objects = List.of(runtime, session, binding, x, y, view);
        for (int index : order) {
          assertTrue(!(objects.get(index) instanceof OrtValueRef) || objects.get(index).toString().contains("float32"));
          close(objects.get(index));
          close(objects.get(index)); // again does nothing
          if (index == 4 && order.indexOf(5) > order.indexOf(4)) assertArrayEquals(new float[] {2}, view.toFloatArray());
          if (index == 3 && order.indexOf(2) > order.indexOf(3)) binding.runWithBindings(); // the binding keeps its input
          if (index == 0 && order.indexOf(1) > order.indexOf(0)) session.createBinding().close();
        }
      }
      assertEquals(before, keeper.counters(spec).allocatedBytes());
    }
  }

  private static void close(AutoCloseable object) {
    try {
      object.close();
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void useAfterCloseIsAnIllegalState() {
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create(), other = OrtRuntimeFFM.create();
    OrtSessionFFM session = Models.session(runtime, "scale");
    OrtIoBindingFFM binding = session.createBinding();
    OrtValueRef value = OrtValueRef.of(runtime, new float[] {1}, floats(1)), open = OrtValueRef.of(other, new float[1],
        floats(1));
    NativeMemory memory = NativeMemory.allocate(runtime, DeviceSpec.CPU, 16);
    OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
    OrtEventFFM event = OrtEventFFM.create(runtime, DeviceSpec.CPU);
    MemorySegment view = value.asMemorySegment();
    assertEquals(1, view.getAtIndex(ValueLayout.JAVA_FLOAT, 0));
    for (AutoCloseable object : List.of(runtime, session, binding, value, memory, stream, event)) close(object);
    List<Executable> uses = List.of(runtime::ortVersion, runtime::devices, runtime::epLibraries,
        () -> runtime.device(DeviceSpec.CPU), () -> runtime.counters(DeviceSpec.CPU),
        () -> OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(1)), () -> Models.session(runtime, "scale"),
        session::createBinding, () -> session.run(List.of(open)), session::nodes, session::endProfile, binding::runWithBindings,
        () -> binding.runWithBindings(Map.of()), () -> binding.runWithBindings(stream, event), binding::runAsync,
        () -> binding.bindInput("x", open), () -> binding.bindInput("x", new float[] {1}, 1),
        () -> binding.bindOutput("y", open), () -> binding.bindOutput("y", OutputMode.REUSE), () -> binding.getOutput(0),
        () -> binding.takeOutput(0), () -> binding.readOutput(0, new float[1]), binding::getBoundOutputValues, binding::cancel,
        binding::clear, binding::check, () -> binding.update("x", new float[1]), () -> binding.setRunOptions("t", Map.of()),
        value::descriptor, value::device, value::shape, value::toFloatArray, () -> value.write(new float[1]),
        () -> value.slice(0, 1), value::retain, value::asMemorySegment, () -> value.copyTo(open), () -> open.copyTo(value),
        () -> value.view(0, floats(1)), () -> memory.value(0, floats(1)), memory::byteSize, stream::synchronize,
        stream::nativeStream, value::nativeAddress, () -> stream.await(event), () -> event.record(stream),
        event::await, event::isDone, () -> view.getAtIndex(ValueLayout.JAVA_FLOAT, 0));
    for (int i = 0; i < uses.size(); i++) {
      int number = i;
      assertThrows(IllegalStateException.class, uses.get(i), () -> "use " + number);
    }
    assertEquals("OrtValueRef (closed)", value.toString());
    assertEquals("NativeMemory is closed", assertThrows(IllegalStateException.class, memory::byteSize).getMessage());
    open.close();
    other.close();
  }

  @Test
  void anArenaThatIsClosedIsAnIllegalState() {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale");
        OrtIoBindingFFM binding = session.createBinding(); Arena arena = Arena.ofConfined()) {
      MemorySegment output = arena.allocate(4, 4);
      OrtValueRef wrapped, part;
      try (Arena shorter = Arena.ofConfined()) {
        MemorySegment input = shorter.allocateFrom(ValueLayout.JAVA_FLOAT, 3);
        binding.bindInput("x", input, floats(1));
        binding.bindOutput("y", output, floats(1));
        binding.runWithBindings();
        wrapped = OrtValueRef.wrap(runtime, DeviceSpec.CPU, input, floats(1));
        part = wrapped.slice(0, 1);
      }
      assertTrue(assertThrows(IllegalStateException.class, binding::runWithBindings).getMessage().contains("input 'x'"));
      assertThrows(IllegalStateException.class, binding::check);
      assertThrows(IllegalStateException.class, wrapped::toFloatArray);
      for (OrtValueRef value : List.of(wrapped, part)) assertEquals("OrtValueRef (its arena is closed)", value.toString());
      assertThrows(IllegalStateException.class, () -> binding.bindInput("x", part));
      wrapped.close();
      part.close();
      binding.bindInput("x", new float[] {4}, 1);
      binding.runWithBindings();
      assertEquals(8, output.getAtIndex(ValueLayout.JAVA_FLOAT, 0));
    }
  }

  /** A view that a confined arena bounds keeps the memory, whoever closes the value. */
  @Test
  void viewsOfAnArenaKeepTheMemory() {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      long before = runtime.counters(DeviceSpec.CPU).allocatedBytes();
      try (Arena arena = Arena.ofConfined()) {
        OrtValueRef value = OrtValueRef.of(runtime, new float[] {5}, floats(1));
        MemorySegment view = value.asMemorySegment(arena);
        assertEquals(4, view.byteSize());
        value.close();
        assertEquals(5, view.getAtIndex(ValueLayout.JAVA_FLOAT, 0));
      }
      assertEquals(before, runtime.counters(DeviceSpec.CPU).allocatedBytes());
    }
  }

  /** What looks at memory of the caller's is there as long as that memory is, and sees what it holds then. */
  @Test
  void viewsOfMemoryOfTheCallers() {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale");
        OrtIoBindingFFM binding = session.createBinding()) {
      MemorySegment ofOutput, ofValue;
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment input = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 3);
        binding.bindInput("x", input, floats(1));
        binding.bindOutput("y", arena.allocate(4, 4), floats(1));
        binding.runWithBindings();
        ofOutput = binding.getBoundOutputCpuValues().get("y");
        try (Arena shorter = Arena.ofConfined();
            OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, input, floats(1))) {
          ofValue = value.asMemorySegment(shorter);
        }
        ofValue.set(ValueLayout.JAVA_FLOAT, 0, 4);
        binding.runWithBindings();
        assertEquals(8, ofOutput.get(ValueLayout.JAVA_FLOAT, 0));
      }
      for (MemorySegment view : List.of(ofOutput, ofValue)) {
        assertThrows(IllegalStateException.class, () -> view.get(ValueLayout.JAVA_FLOAT, 0));
      }
    }
  }

  private static OrtValueRef state(OrtRuntimeFFM runtime, OrtIoBindingFFM binding, String input, Arena arena) {
    OrtValueRef state = OrtValueRef.wrap(runtime, DeviceSpec.CPU, arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1), floats(1));
    binding.bindInput(input, state);
    return state;
  }

  private static float read(OrtIoBindingFFM binding, String output) {
    float[] one = new float[1];
    binding.readOutput(output, one);
    return one[0];
  }

  /** The memory of a first state that is only read is not needed after the first run; that of one in place always is. */
  @ParameterizedTest
  @EnumSource(CarryMode.class)
  void aFirstStateIsNeededOnce(CarryMode mode) {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale");
        OrtIoBindingFFM binding = session.createBinding()) {
      for (boolean isBoundBefore : new boolean[] {true, false}) {
        try (Arena arena = Arena.ofConfined()) {
          if (!isBoundBefore) binding.carry("y", "x", mode);
          state(runtime, binding, "x", arena).close();
          if (isBoundBefore) binding.carry("y", "x", mode);
          binding.runWithBindings();
        }
        if (mode == CarryMode.IN_PLACE) {
          assertThrows(IllegalStateException.class, binding::runWithBindings);
          continue;
        }
        for (int i = 0; i < 3; i++) binding.runWithBindings();
        assertEquals(16, read(binding, "y"));
        binding.update("x", new float[] {3}); // into the state
        binding.carry("y", "x", CarryMode.IN_PLACE);
        binding.runWithBindings();
        assertEquals(6, read(binding, "y"));
        binding.clear();
      }
    }
  }

  /** A run on a stream may fail later: the memory of a first state is needed until one without a stream has succeeded. */
  @ParameterizedTest
  @EnumSource(value = CarryMode.class, names = {"MOVE", "SWAP"})
  void aFirstStateOfARunOnAStream(CarryMode mode) {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale");
        OrtIoBindingFFM binding = session.createBinding(); OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      Arena early = Arena.ofShared();
      state(runtime, binding, "x", early).close();
      binding.carry("y", "x", mode);
      binding.runWithBindings(stream, null);
      stream.synchronize();
      early.close();
      assertThrows(IllegalStateException.class, binding::runWithBindings);
      binding.clear();
      Arena arena = Arena.ofShared();
      state(runtime, binding, "x", arena).close();
      binding.carry("y", "x", mode);
      binding.runWithBindings(stream, null);
      stream.synchronize();
      binding.runWithBindings();
      arena.close();
      binding.runWithBindings();
      assertEquals(8, read(binding, "y"));
    }
  }

  /** A run that fails leaves the state as it was: in the caller's memory, which is needed again. */
  @Test
  void aFirstStateOfARunThatFails() {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "loop");
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      String state = session.inputs().get(1).name(), output = session.outputs().getFirst().name();
      for (CarryMode mode : List.of(CarryMode.MOVE, CarryMode.SWAP)) {
        try (OrtIoBindingFFM binding = session.createBinding()) {
          Arena arena = Arena.ofShared();
          binding.bindInput(0, new long[] {1_000_000_000_000L});
          state(runtime, binding, state, arena).close();
          binding.carry(output, state, mode);
          binding.runWithBindings(stream, null);
          binding.cancel();
          fails(OrtStatus.CANCELLED, "cancel", stream::synchronize);
          arena.close();
          binding.bindInput(0, new long[] {2});
          IllegalStateException e = assertThrows(IllegalStateException.class, binding::runWithBindings);
          assertTrue(e.getMessage().contains("input '" + state + "'"), e.getMessage());
          binding.bindOutput(output, OutputMode.FRESH); // the carry ends; the first state is bound still
          assertThrows(IllegalStateException.class, binding::runWithBindings);
        }
      }
    }
  }

  @Test
  void misuseIsAnExceptionWithWords() {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "add dims=n,3");
        OrtIoBindingFFM binding = session.createBinding(); OrtValueRef x = OrtValueRef.allocate(runtime, DeviceSpec.CPU,
            floats(2, 3));
        OrtValueRef ints = OrtValueRef.allocate(runtime, DeviceSpec.CPU, MemoryDescriptor.of(OnnxTensorElementType.INT32, 2,
            3))) {
      fails(OrtStatus.NOT_FOUND, "x", () -> binding.bindInput("nope", x));
      fails(OrtStatus.NOT_FOUND, "7", () -> binding.bindInput(7, x, InputMode.LIVE, null));
      fails(OrtStatus.NOT_FOUND, "-1", () -> binding.bindInput(-1, new float[6], 2, 3));
      fails(OrtStatus.NOT_FOUND, "z", () -> binding.getOutput("nope"));
      fails(OrtStatus.DTYPE, "int32", () -> binding.bindInput("x", ints));
      fails(OrtStatus.DTYPE, "int[]", () -> binding.bindInput("x", new int[6], 2, 3));
      fails(OrtStatus.DTYPE, "java.lang.String", () -> binding.bindInput("x", "six", 2, 3));
      fails(OrtStatus.SHAPE, "24", () -> binding.bindInput("x", new float[5], 2, 3));
      fails(OrtStatus.SHAPE, "float32[2,4]", () -> binding.bindInput("x", new float[8], 2, 4));
      fails(OrtStatus.INVALID_STATE, "x", binding::runWithBindings);
      fails(OrtStatus.INVALID_STATE, "run", () -> binding.getOutput(0));
      fails(OrtStatus.INVALID_ARGUMENT, "array", () -> binding.bindInput("x", MemorySegment.ofArray(new float[6]), floats(2,
          3)));
      fails(OrtStatus.INVALID_ARGUMENT, "24", () -> binding.bindInput("x", MemorySegment.ofAddress(64), floats(2, 3)));
      fails(OrtStatus.INVALID_ARGUMENT, "inputs", () -> session.run(List.of(x)));
      fails(OrtStatus.SHAPE, "bytes", () -> x.write(new float[5]));
      fails(OrtStatus.DTYPE, "strings", () -> x.writeStrings("a", "b", "c", "d", "e", "f"));
      fails(OrtStatus.INVALID_STATE, "profile", session::endProfile);
      assertThrows(IllegalArgumentException.class, () -> DeviceSpec.of(" "));
      assertThrows(NullPointerException.class, () -> binding.bindInput("x", (OrtValueRef) null));
      binding.bindInput("x", x);
      binding.bindInput("y", x);
      fails(OrtStatus.INVALID_ARGUMENT, "overlap", () -> binding.bindOutput("z", x));
      binding.runWithBindings(); // nothing of that has left a trace
    }
  }

  private static void fails(OrtStatus status, String text, Executable call) {
    OrtFFMException e = assertThrows(OrtFFMException.class, call);
    assertEquals(status, e.status(), e.getMessage());
    assertTrue(e.getMessage().contains(text), e.getMessage());
  }

  /** Threads that use and close the same objects: each call works or says why, and nothing crashes. */
  @Test
  void closedByOneThreadWhileAnotherRuns() throws Exception {
    for (int round = 0; round < 60; round++) {
      OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
      OrtSessionFFM session = Models.session(runtime, "scale");
      OrtIoBindingFFM binding = session.createBinding();
      OrtValueRef x = OrtValueRef.of(runtime, new float[] {1}, floats(1));
      binding.bindInput("x", x);
      AtomicBoolean stop = new AtomicBoolean();
      List<Throwable> unexpected = Collections.synchronizedList(new ArrayList<>());
      List<Consumer<Object>> uses = List.of(o -> binding.runWithBindings(), o -> binding.readOutput(0, new float[1]),
          o -> x.toFloatArray(), o -> session.createBinding().close());
      List<Thread> threads = uses.stream().map(use -> Thread.ofPlatform().start(() -> {
        while (!stop.get()) {
          try {
            use.accept(null);
          } catch (IllegalStateException e) {
            return; // closed
          } catch (OrtFFMException e) {
            if (e.status() != OrtStatus.INVALID_STATE) unexpected.add(e);
          } catch (Throwable e) {
            unexpected.add(e);
          }
        }
      })).toList();
      Thread.sleep(2);
      List<AutoCloseable> objects = new ArrayList<>(List.of(binding, x, session, runtime));
      Collections.rotate(objects, round);
      objects.forEach(LifetimeTest::close);
      stop.set(true);
      for (Thread thread : threads) thread.join();
      assertEquals(List.of(), unexpected);
    }
  }

  /** A run makes no Java object, once the JVM has compiled it; many make no native memory either. */
  @Tag("ci")
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void manyRunsStayFlat(String device) throws Exception {
    int runs = device.equals("cpu") ? 100_000 : 20_000;
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      Devices.require(runtime, device);
      DeviceSpec spec = DeviceSpec.of(device);
      try (OrtSessionFFM session = Models.session(runtime, "scale", spec); OrtIoBindingFFM binding = session.createBinding();
          OrtValueRef x = OrtValueRef.allocate(runtime, spec, floats(4)); OrtValueRef y = OrtValueRef.allocate(runtime, spec,
              floats(4))) {
        binding.bindInput("x", x);
        binding.bindOutput("y", y);
        requireNoBytes(binding);
        DeviceCounters before = runtime.counters(spec);
        long resident = residentBytes();
        run(binding::runWithBindings, runs);
        float[] result = new float[4];
        for (int i = 0; i < runs / 20; i++) { // and what a loop does besides
          try (OrtValueRef output = binding.getOutput("y"); Arena arena = Arena.ofConfined()) {
            if (output.isHostReadable()) output.asMemorySegment(arena).fill((byte) i);
          }
          binding.readOutput("y", result);
          assertThrows(OrtFFMException.class, () -> binding.bindInput("nope", x));
        }
        DeviceCounters after = runtime.counters(spec);
        assertEquals(before.allocatedBytes(), after.allocatedBytes());
        assertEquals(before.allocationCount(), after.allocationCount());
        long grown = residentBytes() - resident;
        assertTrue(grown < 64 << 20, "resident memory grew by " + grown + " bytes"); // the JVM's heap may still grow a little
      }
    }
  }

  /** Nor does a run in memory of the caller's, of whatever arena. */
  @Test
  void runsInMemoryOfTheCallersMakeNoObject() throws Exception {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale");
        Arena shared = Arena.ofShared()) {
      for (MemorySegment memory : List.of(Arena.global().allocate(32, 16),
          MemorySegment.ofAddress(Arena.global().allocate(32, 16).address()).reinterpret(32), shared.allocate(32, 16),
          shared.allocate(32, 16).reinterpret(32, Arena.ofAuto(), null))) {
        try (OrtIoBindingFFM binding = session.createBinding()) {
          binding.bindInput("x", memory.asSlice(0, 16), 4);
          binding.bindOutput("y", memory.asSlice(16, 16), floats(4));
          requireNoBytes(binding);
        }
      }
      long[] four = {4}; // an array that the caller makes for each bind is the caller's
      MemorySegment[] byTurns = {Arena.global().allocate(16, 16), shared.allocate(16, 16), Arena.ofAuto().allocate(16, 16)};
      try (OrtIoBindingFFM binding = session.createBinding()) {
        binding.bindOutput("y", shared.allocate(16, 16), floats(4));
        requireNoBytes(() -> {
          for (MemorySegment memory : byTurns) {
            binding.bindInput("x", memory, four);
            binding.runWithBindings();
          }
        });
      }
    }
  }

  /** Each run needs the memory that is bound then, and no other. */
  @Test
  void runsHoldTheSegmentsThatAreBoundNow() {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale");
        OrtIoBindingFFM binding = session.createBinding()) {
      Arena first = Arena.ofShared(), second = Arena.ofShared();
      for (MemorySegment memory : List.of(first.allocate(4, 16), Arena.global().allocate(4, 16), second.allocate(4, 16))) {
        binding.bindInput("x", memory, 1);
        binding.runWithBindings();
      }
      first.close();
      binding.runWithBindings();
      second.close();
      assertThrows(IllegalStateException.class, binding::runWithBindings);
    }
  }

  private static void run(Runnable run, int times) {
    for (int i = 0; i < times; i++) run.run();
  }

  private static void requireNoBytes(OrtIoBindingFFM binding) throws InterruptedException {
    requireNoBytes(binding::runWithBindings);
  }

  private static void requireNoBytes(Runnable run) throws InterruptedException {
    run(run, 20_000);
    Wait.until("1000 bound runs without a byte of managed heap", () -> {
      long heap = allocatedBytes();
      run(run, 1000);
      return allocatedBytes() == heap; // once the JVM has compiled it all, which other threads do
    });
  }

  private static long allocatedBytes() {
    return THREADS.getCurrentThreadAllocatedBytes();
  }

  private static long residentBytes() throws Exception {
    String[] fields = Files.readString(Path.of("/proc/self/statm")).split(" ");
    return Long.parseLong(fields[1]) * 4096;
  }

  /** What is never closed is freed when it is collected, and reported with the place where it was made. */
  @Tag("ci")
  @Test
  void leaksAreReported() throws Exception {
    String report = leak("report");
    assertTrue(report.contains("OrtValueRef was not closed"), report);
    assertTrue(report.contains("-Diobind.leaks=trace"), report);
    String trace = leak("trace");
    assertTrue(trace.contains("at io.github.iobind.api.LifetimeTest$Leaky.leak"), trace);
    String off = leak("off"); // freed, and not reported
    assertTrue(!off.contains("not closed"), off);
  }

  /** Bindings whose run on a stream needed memory of the caller's, all of it forgotten. */
  @Test
  void aRunOnAStreamKeepsNoBinding() throws Exception {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      Devices.require(runtime, "vdev");
    }
    Child child = Child.test(Map.of(), ForgottenRuns.class);
    assertEquals(0, child.exit(), child.output());
    assertEquals(10, child.output().lines().filter(line -> line.contains("OrtIoBindingFFM was not closed")).count());
  }

  /** Exits 0 when the device's memory is freed. */
  static final class ForgottenRuns {
    public static void main(String[] arguments) throws Exception {
      DeviceSpec vdev = DeviceSpec.of("vdev");
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "add dims=n", vdev)) {
        long before = runtime.counters(vdev).allocatedBytes();
        for (int i = 0; i < 10; i++) {
          OrtIoBindingFFM binding = session.createBinding();
          binding.bindInput("x", Arena.ofAuto().allocate(4000, 16), 1000);
          binding.bindInput("y", new float[1000], 1000);
          OrtStreamFFM stream = OrtStreamFFM.create(runtime, vdev);
          binding.runWithBindings(stream, null);
          if (i % 2 == 0) stream.synchronize();
        }
        awaitFreed(runtime, vdev, before);
        System.exit(0);
      }
    }
  }

  /** What a program says that forgets things, and finds their memory freed. */
  private static String leak(String leaks) throws Exception {
    Child child = Child.java(Map.of(), "--enable-native-access=ALL-UNNAMED", Child.LIBRARY, "-Diobind.leaks=" + leaks,
        "-Diobind.project=" + Models.PROJECT, "-Diobind.build=" + Models.BUILD, "-cp", Child.CLASS_PATH, Leaky.class.getName());
    assertEquals(0, child.exit(), child.output());
    return child.output();
  }

  /** Values that were forgotten among others that were closed, in whatever order and by whatever thread: these, and no more. */
  @Tag("ci")
  @Test
  void everyLeakIsReported() throws Exception {
    Child child = Child.test(Map.of(), Forgetful.class);
    assertEquals(0, child.exit(), child.output());
    assertEquals(100, child.output().lines().filter(line -> line.contains("OrtValueRef was not closed")).count());
  }

  /** Four threads that each close two values of three, in another order and another thread than they made them. */
  static final class Forgetful {
    public static void main(String[] arguments) throws Exception {
      List<OrtValueRef> closed = Collections.synchronizedList(new ArrayList<>());
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
        long before = runtime.counters(DeviceSpec.CPU).allocatedBytes();
        List<Thread> threads = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
          threads.add(Thread.ofPlatform().start(() -> {
            for (int i = 0; i < 25; i++) {
              closed.add(OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(10)));
              OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(10));
              closed.add(OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(10)));
            }
          }));
        }
        for (Thread thread : threads) thread.join();
        Collections.shuffle(closed, new Random(7));
        closed.forEach(OrtValueRef::close);
        awaitFreed(runtime, DeviceSpec.CPU, before);
        System.exit(0);
      }
    }
  }

  /** Native memory that is forgotten is found although the heap has room for all that Java knows of it. */
  @Tag("ci")
  @Test
  void muchThatIsForgottenIsCollected() throws Exception {
    Child child = Child.java(Map.of(), "--enable-native-access=ALL-UNNAMED", Child.LIBRARY, "-Diobind.leaks=off",
        "-Diobind.collect=32", "-Xmx512m", "-cp", Child.CLASS_PATH, Careless.class.getName());
    assertEquals(0, child.exit(), child.output());
  }

  /** Allocates and fills 4 GiB of values of 4 MiB, closes none, and exits 0 if never more than 1 GiB of them are there. */
  static final class Careless {
    public static void main(String[] arguments) throws Exception {
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
        for (int i = 0; i < 1024; i++) {
          OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(1 << 20)).asMemorySegment().set(ValueLayout.JAVA_BYTE, 0, (byte) 1);
          if (i % 8 == 7) Thread.sleep(5); // some work
          if (runtime.counters(DeviceSpec.CPU).allocatedBytes() > 1L << 30) System.exit(1);
        }
        System.exit(0);
      }
    }
  }

  /** The collector is not asked where the limit is 0, or a number that makes no sense. */
  @Tag("ci")
  @ParameterizedTest
  @ValueSource(strings = {"0", "-1", "9223372036854775807"})
  void nothingIsCollectedUnasked(String limit) throws Exception {
    Child child = Child.java(Map.of(), "--enable-native-access=ALL-UNNAMED", Child.LIBRARY, "-Diobind.collect=" + limit, "-Xlog:gc",
        "-cp", Child.CLASS_PATH, Careful.class.getName());
    assertEquals(0, child.exit(), child.output());
    assertTrue(!child.output().contains("System.gc()"), child.output());
  }

  /** Closes what it opens. */
  static final class Careful {
    public static void main(String[] arguments) {
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
        for (int i = 0; i < 64; i++) OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(1 << 20)).close();
      }
    }
  }

  /** A sink of options that are ignored, because the runtime is there already, is kept by nothing. */
  @Test
  void aSinkThatIsIgnoredIsCollected() throws InterruptedException {
    try (OrtRuntimeFFM keeper = OrtRuntimeFFM.create()) {
      WeakReference<OrtRuntimeFFM.LogSink> sink = ignoredSink();
      Wait.untilCollected("nothing keeps the sink", () -> sink.get() == null);
      assertTrue(keeper.ortVersion().startsWith("1."));
    }
  }

  private static WeakReference<OrtRuntimeFFM.LogSink> ignoredSink() {
    List<String> lines = new ArrayList<>();
    OrtRuntimeFFM.LogSink sink = (level, line) -> lines.add(line);
    OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().log(OrtRuntimeFFM.LogLevel.ERROR, sink)).close();
    return new WeakReference<>(sink);
  }

  /** Has the collector run until device memory is what it was. */
  static void awaitFreed(OrtRuntimeFFM runtime, DeviceSpec device, long before) throws InterruptedException {
    Wait.untilCollected("what was forgotten is freed", () -> runtime.counters(device).allocatedBytes() == before);
  }

  /** A program that forgets values, their segments and a binding; it exits 0 when their memory is freed. */
  static final class Leaky {
    public static void main(String[] arguments) throws Exception {
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale")) {
        long before = runtime.counters(DeviceSpec.CPU).allocatedBytes();
        leak(runtime, session);
        awaitFreed(runtime, DeviceSpec.CPU, before);
        System.exit(0);
      }
    }

    private static void leak(OrtRuntimeFFM runtime, OrtSessionFFM session) throws InterruptedException {
      OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(1000)).shape();
      MemorySegment segment = OrtValueRef.allocate(runtime, DeviceSpec.CPU, floats(1000)).asMemorySegment().fill((byte) 7);
      Wait.untilCollected("both values are found", () -> Handle.LEAKS.get() == 2);
      if (segment.get(ValueLayout.JAVA_BYTE, 3999) != 7) throw new AssertionError("a segment keeps the memory of a forgotten value");
      OrtIoBindingFFM binding = session.createBinding();
      binding.bindInput("x", new float[1000], 1000);
      binding.runWithBindings();
      binding.getBoundOutputCpuValues();
    }
  }
}
