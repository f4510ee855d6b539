package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Saved states: gone back to, branched from, kept in a file. A run doubles the state. */
class StateTest {
  private static OrtRuntimeFFM runtime;

  @BeforeAll
  static void open() {
    runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
  }

  @AfterAll
  static void close() {
    runtime.close();
  }

  private static OrtSessionFFM session(String device) {
    Devices.require(runtime, device);
    return OrtSessionFFM.create(runtime, Models.bytes("scale"), new OrtSessionFFM.Options().devices(DeviceSpec.of(device)).identify());
  }

  private static OrtIoBindingFFM bind(OrtSessionFFM session, CarryMode mode, float... first) {
    OrtIoBindingFFM binding = session.createBinding();
    binding.bindInput("x", first, first.length);
    binding.carry("y", "x", mode);
    return binding;
  }

  private static float[] run(OrtIoBindingFFM binding, int times) {
    for (int i = 0; i < times; i++) binding.runWithBindings();
    try (OrtValueRef y = binding.getOutput("y")) {
      return y.toFloatArray();
    }
  }

  private static float[] content(OrtStateFFM state) {
    try (OrtValueRef x = state.get("x")) {
      return x.toFloatArray();
    }
  }

  private static OrtFFMException refused(OrtStatus status, Runnable call) {
    OrtFFMException e = assertThrows(OrtFFMException.class, call::run);
    assertEquals(status, e.status(), e.getMessage());
    return e;
  }

  // ---- saved and restored

  @ParameterizedTest
  @CsvSource({"cpu, MOVE", "cpu, SWAP", "cpu, IN_PLACE", "vdev, MOVE", "vdev, SWAP", "vdev, IN_PLACE"})
  void backAnyNumberOfTimes(String device, CarryMode mode) {
    try (OrtSessionFFM session = session(device); OrtIoBindingFFM binding = bind(session, mode, 1, 3); OrtStateFFM first = binding.saveState()) {
      run(binding, 2);
      try (OrtStateFFM second = binding.saveState()) {
        assertArrayEquals(new float[] {32, 96}, run(binding, 3));
        for (int i = 0; i < 2; i++) {
          binding.restoreState(second);
          assertArrayEquals(new float[] {8, 24}, run(binding, 1));
          binding.restoreState(first);
          assertArrayEquals(new float[] {4, 12}, run(binding, 2));
        }
        assertArrayEquals(new float[] {4, 12}, content(second));
        assertArrayEquals(new float[] {1, 3}, content(first));
      }
    }
  }

  @ParameterizedTest
  @EnumSource(CarryMode.class)
  void branches(CarryMode mode) {
    try (OrtSessionFFM session = session("vdev"); OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1)) {
      run(binding, 2);
      List<OrtIoBindingFFM> branches = new ArrayList<>();
      try (OrtStateFFM state = binding.saveState()) {
        for (int i = 0; i < 3; i++) branches.add(bind(session, mode, 50));
        for (OrtIoBindingFFM branch : branches) branch.restoreState(state);
        assertArrayEquals(new float[] {8}, run(binding, 1));
      }
      for (int i = 0; i < 3; i++) assertArrayEquals(new float[] {8 << i}, run(branches.get(i), 1 + i));
      branches.forEach(OrtIoBindingFFM::close);
    }
  }

  @Test
  void whatAStateIs() {
    try (OrtSessionFFM session = session("vdev"); OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1, 3);
        OrtStateFFM state = binding.saveState()) {
      assertEquals(Set.of("x"), state.inputs());
      assertThrows(UnsupportedOperationException.class, () -> state.inputs().clear());
      assertEquals(8, state.bytes());
      try (OrtValueRef x = state.get("x")) {
        assertEquals(MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 2), x.descriptor());
        assertEquals(session.inputs().getFirst().device(), x.device());
        refused(OrtStatus.INVALID_ARGUMENT, () -> x.write(new float[] {7, 7}));
        refused(OrtStatus.INVALID_ARGUMENT, () -> binding.bindOutput("y", x));
      }
      assertEquals("no input 'z': the state has [x]", refused(OrtStatus.NOT_FOUND, () -> state.get("z")).getMessage());
    }
  }

  @Test
  void segmentsOfAStateAreReadOnly() {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1, 3);
        OrtStateFFM state = binding.saveState(); OrtValueRef x = state.get("x"); Arena arena = Arena.ofConfined()) {
      assertTrue(x.asMemorySegment().isReadOnly() && x.asMemorySegment(arena).isReadOnly());
      assertEquals(3, x.asMemorySegment().getAtIndex(ValueLayout.JAVA_FLOAT, 1));
    }
  }

  @ParameterizedTest
  @EnumSource(value = CarryMode.class, names = {"MOVE", "SWAP"})
  void whatNoValueRefersToIsNotCopied(CarryMode mode) {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = bind(session, mode, 1)) {
      run(binding, 1);
      long address;
      try (OrtValueRef y = binding.getOutput("y")) {
        address = y.address();
      }
      try (OrtStateFFM state = binding.saveState(); OrtValueRef x = state.get("x")) {
        assertEquals(address, x.address());
      }
      run(binding, 1);
      try (OrtValueRef held = binding.getOutput("y"); OrtStateFFM state = binding.saveState(); OrtValueRef x = state.get("x")) {
        assertNotEquals(held.address(), x.address());
        held.write(new float[] {70});
        assertArrayEquals(new float[] {4}, content(state));
      }
    }
  }

  @Test
  void outputsOfTheLastRunEnd() {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1);
        OrtStateFFM state = binding.saveState()) {
      Map<String, OrtValueRef> outputs = binding.runWithBindings();
      OrtValueRef y = outputs.get("y");
      refused(OrtStatus.INVALID_ARGUMENT, () -> {
        try (OrtIoBindingFFM other = session.createBinding()) {
          other.restoreState(state);
        }
      });
      assertArrayEquals(new float[] {2}, y.toFloatArray());
      binding.restoreState(state);
      assertThrows(IllegalStateException.class, () -> outputs.get("y"));
      assertThrows(IllegalStateException.class, y::toFloatArray);
      refused(OrtStatus.INVALID_STATE, () -> binding.getOutput("y"));
      assertArrayEquals(new float[] {2}, run(binding, 1));
    }
  }

  @Test
  void graphsAreNotCapturedAgain() {
    Devices.require(runtime, "vdev");
    var options = new OrtSessionFFM.Options().devices(DeviceSpec.of("vdev")).graphs(2);
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), options);
        OrtIoBindingFFM binding = bind(session, CarryMode.SWAP, 1)) {
      run(binding, 4);
      try (OrtStateFFM state = binding.saveState()) {
        long allocated = runtime.counters(DeviceSpec.of("vdev")).allocationCount();
        for (int i = 0; i < 3; i++) {
          assertArrayEquals(new float[] {128}, run(binding, 3));
          binding.restoreState(state);
        }
        assertEquals(allocated, runtime.counters(DeviceSpec.of("vdev")).allocationCount());
      }
    }
  }

  // ---- memory of the caller's

  /** Restored into: it stays bound, and its arena is held as before. */
  @Test
  void inPlaceInMemoryOfTheCallers() {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = session.createBinding()) {
      Arena arena = Arena.ofShared();
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 3);
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, x, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 2))) {
        binding.bindInput("x", value);
      }
      binding.carry("y", "x", CarryMode.IN_PLACE);
      OrtStateFFM state = binding.saveState();
      binding.runWithBindings();
      binding.restoreState(state);
      assertArrayEquals(new float[] {1, 3}, x.toArray(ValueLayout.JAVA_FLOAT));
      assertTrue(binding.holds(x));
      binding.runWithBindings();
      assertArrayEquals(new float[] {2, 6}, x.toArray(ValueLayout.JAVA_FLOAT));
      arena.close();
      assertThrows(IllegalStateException.class, binding::runWithBindings);
      assertThrows(IllegalStateException.class, binding::saveState);
      assertThrows(IllegalStateException.class, () -> binding.restoreState(state));
      assertArrayEquals(new float[] {1, 3}, content(state));
      state.close();
    }
  }

  /** A state of another shape, or carried otherwise, is in memory of its own: the caller's is not used any more. */
  @ParameterizedTest
  @CsvSource({"MOVE, 2", "SWAP, 2", "IN_PLACE, 3"})
  void memoryOfTheCallersIsLetGo(CarryMode mode, int length) {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = session.createBinding();
        OrtIoBindingFFM other = bind(session, mode, new float[length]); OrtStateFFM state = other.saveState()) {
      Arena arena = Arena.ofShared();
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 3, 5);
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, x, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 2))) {
        binding.bindInput("x", value);
      }
      binding.carry("y", "x", mode);
      assertTrue(binding.holds(x));
      binding.restoreState(state);
      assertFalse(binding.holds(x));
      arena.close();
      assertArrayEquals(new float[length], run(binding, 2));
    }
  }

  // ---- rows in another order

  @ParameterizedTest
  @CsvSource({"cpu, MOVE", "cpu, SWAP", "cpu, IN_PLACE", "vdev, MOVE", "vdev, SWAP", "vdev, IN_PLACE"})
  void rowsInAnotherOrder(String device, CarryMode mode) {
    try (OrtSessionFFM session = session(device); OrtIoBindingFFM binding = bind(session, mode, 1, 3, 5)) {
      Map<String, OrtValueRef> outputs = binding.runWithBindings();
      try (OrtStateFFM state = binding.saveState()) {
        binding.reorderState(0, 2, 0, 0);
        assertThrows(IllegalStateException.class, () -> outputs.get("y"));
        refused(OrtStatus.INVALID_STATE, () -> binding.getOutput("y"));
        assertArrayEquals(new float[] {20, 4, 4}, run(binding, 1));
        binding.reorderState(0, 1, 1, 0, 0);
        assertArrayEquals(new float[] {8, 8, 40, 40}, run(binding, 1));
        assertArrayEquals(new float[] {2, 6, 10}, content(state));
      }
    }
  }

  @Test
  void rowsThatAreRefused() {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1, 3)) {
      OrtValueRef y = binding.runWithBindings().get("y");
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.reorderState(0, 0, 2));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.reorderState(0));
      assertTrue(refused(OrtStatus.SHAPE, () -> binding.reorderState(1, 0, 1)).getMessage().startsWith("reorderState: "));
      refused(OrtStatus.SHAPE, () -> binding.reorderState(-1, 0, 1));
      assertThrows(NullPointerException.class, () -> binding.reorderState(0, (long[]) null));
      assertArrayEquals(new float[] {2, 6}, y.toFloatArray());
      assertArrayEquals(new float[] {4, 12}, run(binding, 1));
    }
  }

  /** As many rows: in place, and it stays bound. Others: in memory of libiobind's. */
  @Test
  void rowsOfMemoryOfTheCallers() {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = session.createBinding()) {
      Arena arena = Arena.ofShared();
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 3);
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, x, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 2))) {
        binding.bindInput("x", value);
      }
      binding.carry("y", "x", CarryMode.IN_PLACE);
      binding.reorderState(0, 1, 0);
      assertArrayEquals(new float[] {3, 1}, x.toArray(ValueLayout.JAVA_FLOAT));
      assertTrue(binding.holds(x));
      binding.reorderState(0, 1, 1, 0);
      assertFalse(binding.holds(x));
      arena.close();
      assertArrayEquals(new float[] {4, 4, 12}, run(binding, 2));
    }
  }

  // ---- back to a shorter length

  private static OrtSessionFFM growing(String device) {
    Devices.require(runtime, device);
    return OrtSessionFFM.create(runtime, Models.bytes("concat dims=past dims2=new"),
        new OrtSessionFFM.Options().devices(DeviceSpec.of(device)).identify());
  }

  /** Each run appends 9 to what there is at first. */
  private static OrtIoBindingFFM grow(OrtSessionFFM session, float... first) {
    OrtIoBindingFFM binding = session.createBinding();
    if (first.length > 0) binding.bindInput("first", first, first.length);
    binding.bindInput("second", new float[] {9}, 1);
    binding.carry("joined", "first", CarryMode.MOVE);
    return binding;
  }

  private static float[] grown(OrtIoBindingFFM binding) {
    binding.runWithBindings();
    try (OrtValueRef joined = binding.getOutput("joined")) {
      return joined.toFloatArray();
    }
  }

  @ParameterizedTest
  @CsvSource({"cpu", "vdev"})
  void backToAShorterLength(String device) {
    try (OrtSessionFFM session = growing(device); OrtIoBindingFFM binding = grow(session, 1, 2)) {
      assertEquals(new StateKind(StateKind.Kind.GROWING, 0), session.stateKind("joined", "first"));
      Map<String, OrtValueRef> outputs = binding.runWithBindings();
      try (OrtStateFFM state = binding.saveState()) {
        binding.rewindState(1);
        assertThrows(IllegalStateException.class, () -> outputs.get("joined"));
        refused(OrtStatus.INVALID_STATE, () -> binding.getOutput("joined"));
        assertArrayEquals(new float[] {1, 9}, grown(binding));
        binding.rewindState(0);
        assertArrayEquals(new float[] {9}, grown(binding));
        binding.restoreState(state);
        binding.rewindState(2);
        assertArrayEquals(new float[] {1, 2, 9}, grown(binding));
      }
    }
  }

  /** Rows of 4 numbers in a cache of 16, in memory of the caller's, which stays bound. */
  @ParameterizedTest
  @CsvSource({"cpu", "vdev"})
  void lengthsOfACache(String device) {
    Devices.require(runtime, device);
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("append opset=24"),
            new OrtSessionFFM.Options().devices(DeviceSpec.of(device)).identify());
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.of(device));
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("cache", new float[64], 1, 16, 4);
      binding.bindInput("row", new float[] {1, 1, 1, 1, 2, 2, 2, 2}, 1, 2, 4);
      binding.carry("next", "cache", CarryMode.IN_PLACE);
      assertEquals(new StateKind(StateKind.Kind.CAPACITY, 1), session.stateKind("next", "cache"));
      refused(OrtStatus.INVALID_STATE, () -> binding.writeLengths(1));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.writeLengths(0));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.writeLengths(2, 15, null));
      binding.writeLengths(2, 0, null);
      binding.runWithBindings();
      binding.bindInput("row", new float[] {3, 3, 3, 3}, 1, 1, 4);
      binding.writeLengths(1);
      binding.runWithBindings();
      binding.rewindState(1);
      binding.writeLengths(1, -1, stream);
      stream.synchronize();
      assertArrayEquals(new float[] {1, 3, 3, 0}, firsts(binding));
      refused(OrtStatus.SHAPE, () -> {
        binding.writeLengths(2);
        binding.runWithBindings();
      });
    }
  }

  /** The graph shows neither the cache nor its lengths. The caller's memory that is bound stays held. */
  @Test
  void lengthsThatAreNamed() {
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("masked"), new OrtSessionFFM.Options().identify());
        OrtIoBindingFFM binding = session.createBinding(); Arena arena = Arena.ofShared()) {
      MemorySegment cache = arena.allocate(ValueLayout.JAVA_FLOAT, 64);
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, cache, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 16, 4))) {
        binding.bindInput("cache", value);
      }
      binding.bindInput("row", new float[] {5, 5, 5, 5}, 1, 4);
      binding.carry("next", "cache", CarryMode.IN_PLACE);
      assertTrue(refused(OrtStatus.NOT_SUPPORTED, () -> binding.writeLengths(1, 0, null)).getMessage().contains("nameLength"));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.nameLength("cache", LengthRole.CACHE));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.nameCache("cache", -1));
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> binding.nameCache("cache", 2)).getMessage().startsWith("nameLength: "));
      refused(OrtStatus.NOT_FOUND, () -> binding.nameCache("none", 0));
      binding.nameCache("cache", 0);
      binding.nameLength("at", LengthRole.POSITIONS);
      binding.nameLength("mask", LengthRole.MASK);
      binding.writeLengths(1, 0, null);
      assertEquals(5, binding.runWithBindings().get("y").toFloatArray()[0]);
      try (OrtStateFFM state = binding.saveState()) {
        binding.writeLengths(1);
        assertEquals(10, binding.runWithBindings().get("y").toFloatArray()[0]);
        binding.restoreState(state);
      }
      assertTrue(binding.holds(cache));
      binding.writeLengths(1);
      assertEquals(10, binding.runWithBindings().get("y").toFloatArray()[0]);
      binding.rewindState(0);
      assertTrue(binding.holds(cache));
      binding.nameLength("mask", LengthRole.UNNAMED);
      binding.clear();
    }
  }

  /** The rows of a batch have different lengths, which are counted. */
  @ParameterizedTest
  @CsvSource({"cpu", "vdev"})
  void lengthsOfTheRowsOfABatch(String device) {
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("append opset=24 batch=2"),
            new OrtSessionFFM.Options().devices(DeviceSpec.of(device)).identify());
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.of(device));
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("cache", new float[128], 2, 16, 4);
      binding.bindInput("row", new float[] {1, 1, 1, 1, 2, 2, 2, 2}, 2, 1, 4);
      binding.carry("next", "cache", CarryMode.DEFAULT);
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.writeLengths(0, new long[] {0, 1}, null));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.writeLengths(1, new long[] {0, 1, 2}, null));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.writeLengths(1, new long[0], null));
      binding.writeLengths(1, new long[] {0, 1}, null);
      binding.runWithBindings();
      binding.writeLengths(1);
      binding.runWithBindings();
      binding.writeLengths(1, new long[] {3, 3}, stream);
      stream.synchronize();
      binding.runWithBindings();
      try (OrtValueRef next = binding.getOutput("next")) {
        float[] all = next.toFloatArray();
        assertArrayEquals(new float[] {1, 1, 0, 1}, new float[] {all[0], all[4], all[8], all[12]});
        assertArrayEquals(new float[] {0, 2, 2, 2}, new float[] {all[64], all[68], all[72], all[76]});
      }
    }
  }

  /** The caller's memory is written by each run, and by a state of its first rows: it stays held. */
  @Test
  void aCacheInMemoryOfTheCallers() {
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("append opset=24"), new OrtSessionFFM.Options().identify());
        OrtIoBindingFFM binding = session.createBinding(); Arena arena = Arena.ofShared()) {
      MemorySegment cache = arena.allocate(ValueLayout.JAVA_FLOAT, 64);
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, cache, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, 16, 4))) {
        binding.bindInput("cache", value);
      }
      binding.bindInput("row", new float[] {7, 7, 7, 7}, 1, 1, 4);
      binding.carry("next", "cache");
      binding.writeLengths(1, 0, null);
      binding.runWithBindings();
      try (OrtStateFFM state = binding.saveState()) {
        binding.writeLengths(1);
        binding.runWithBindings();
        binding.restoreState(state);
      }
      assertTrue(binding.holds(cache));
      binding.writeLengths(1);
      binding.runWithBindings();
      binding.rewindState(0);
      assertTrue(binding.holds(cache));
      assertArrayEquals(new float[] {7, 7, 0}, new float[] {cache.getAtIndex(ValueLayout.JAVA_FLOAT, 0),
          cache.getAtIndex(ValueLayout.JAVA_FLOAT, 4), cache.getAtIndex(ValueLayout.JAVA_FLOAT, 8)});
      binding.clear();
    }
  }

  /** Another node reads the cache, so that runs do not write the memory that it began in. */
  @Test
  void aCacheThatCannotBeInPlace() {
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("append opset=24 old=1"), new OrtSessionFFM.Options().identify());
        OrtIoBindingFFM binding = session.createBinding(); Arena arena = Arena.ofShared()) {
      MemorySegment cache = arena.allocate(ValueLayout.JAVA_FLOAT, 64).asReadOnly();
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, cache, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, 16, 4))) {
        binding.bindInput("cache", value);
      }
      binding.bindInput("row", new float[] {7, 7, 7, 7}, 1, 1, 4);
      binding.carry("next", "cache");
      binding.writeLengths(1, 0, null);
      binding.runWithBindings();
      assertEquals(0, cache.getAtIndex(ValueLayout.JAVA_FLOAT, 0));
      binding.writeLengths(1);
      assertArrayEquals(new float[] {7, 7, 0, 0}, firsts(binding));
    }
  }

  private static float[] firsts(OrtIoBindingFFM binding) {
    binding.runWithBindings();
    try (OrtValueRef next = binding.getOutput("next")) {
      float[] all = next.toFloatArray();
      return new float[] {all[0], all[4], all[8], all[12]};
    }
  }

  @Test
  void lengthsThatAreRefused() {
    try (OrtSessionFFM session = growing("cpu"); OrtIoBindingFFM binding = grow(session, 1, 2);
        OrtSessionFFM scale = session("cpu"); OrtIoBindingFFM doubled = bind(scale, CarryMode.MOVE, 1)) {
      OrtValueRef joined = binding.runWithBindings().get("joined");
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> binding.rewindState(4)).getMessage().startsWith("rewindState: "));
      refused(OrtStatus.INVALID_ARGUMENT, () -> binding.rewindState(-1));
      assertArrayEquals(new float[] {1, 2, 9}, joined.toFloatArray());
      run(doubled, 1);
      assertTrue(refused(OrtStatus.NOT_SUPPORTED, () -> doubled.rewindState(0)).getMessage().contains("save a state earlier"));
      assertEquals(new StateKind(StateKind.Kind.UNKNOWN, -1), scale.stateKind("y", "x"));
      refused(OrtStatus.NOT_FOUND, () -> session.stateKind("first", "first"));
      refused(OrtStatus.NOT_FOUND, () -> session.stateKind("joined", "joined"));
    }
  }

  /** As long as it is: it stays bound. Shorter: in memory of libiobind's. */
  @Test
  void lengthsOfMemoryOfTheCallers() {
    try (OrtSessionFFM session = growing("cpu"); OrtIoBindingFFM binding = grow(session)) {
      Arena arena = Arena.ofShared();
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 3);
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, x, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 2))) {
        binding.bindInput("first", value);
      }
      binding.carry("joined", "first", CarryMode.MOVE);
      binding.rewindState(2);
      assertTrue(binding.holds(x));
      binding.rewindState(1);
      assertFalse(binding.holds(x));
      arena.close();
      assertArrayEquals(new float[] {1, 9}, grown(binding));
    }
  }

  // ---- on a stream

  @ParameterizedTest
  @EnumSource(CarryMode.class)
  void ofRunsInFlight(CarryMode mode) {
    try (OrtSessionFFM session = session("vdev"); OrtIoBindingFFM binding = bind(session, mode, 1, 3);
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.of("vdev"))) {
      List<OrtStateFFM> states = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        binding.runWithBindings(stream, null);
        states.add(binding.saveState());
      }
      for (int i = 0; i < 4; i++) assertArrayEquals(new float[] {2 << i, 6 << i}, content(states.get(i)));
      stream.synchronize();
      binding.restoreState(states.getFirst());
      assertArrayEquals(new float[] {4, 12}, run(binding, 1));
      binding.runWithBindings(stream, null);
      refused(OrtStatus.INVALID_STATE, () -> binding.restoreState(states.getFirst()));
      stream.synchronize();
      states.forEach(OrtStateFFM::close);
    }
  }

  /** The copy is made when the call returns: a copy on the stream would read the memory later. */
  @Test
  void ofARunInFlightInMemoryOfTheCallers() {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      Arena arena = Arena.ofShared();
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 1, 3);
      try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, x, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 2))) {
        binding.bindInput("x", value);
      }
      binding.carry("y", "x", CarryMode.IN_PLACE);
      binding.runWithBindings(stream, null);
      try (OrtStateFFM state = binding.saveState()) {
        x.fill((byte) 0);
        arena.close();
        assertArrayEquals(new float[] {2, 6}, content(state));
      }
    }
  }

  // ---- in a file

  @ParameterizedTest
  @EnumSource(CarryMode.class)
  void inAFile(CarryMode mode, @TempDir Path folder) throws Exception {
    Path model = Models.file(folder, "scale"), file = folder.resolve("\u00e4 state");
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, model, new OrtSessionFFM.Options());
        OrtIoBindingFFM binding = bind(session, mode, 1, 3)) {
      run(binding, 1);
      try (OrtStateFFM state = binding.saveState()) {
        state.save(file);
      }
      run(binding, 1);
      try (OrtStateFFM state = binding.saveState()) {
        state.save(file);
      }
    }
    try (OrtSessionFFM session = session("vdev"); OrtIoBindingFFM binding = bind(session, mode, 0, 0);
        OrtStateFFM state = session.loadState(file)) {
      assertArrayEquals(new float[] {4, 12}, content(state));
      assertEquals("cpu", state.deviceSpec().split(":")[0]);
      assertEquals(runtime.ortVersion(), state.ortVersion());
      binding.restoreState(state);
      assertArrayEquals(new float[] {8, 24}, run(binding, 1));
    }
    try (var files = Files.list(folder)) {
      assertEquals(2, files.count());
    }
  }

  @Test
  void filesThatAreRefused(@TempDir Path folder) throws Exception {
    Path file = folder.resolve("state");
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1, 3);
        OrtStateFFM state = binding.saveState()) {
      state.save(file);
      byte[] bytes = Files.readAllBytes(file);
      for (int at : new int[] {3, 60, bytes.length / 2}) {
        byte[] damaged = bytes.clone();
        damaged[at] ^= 1;
        Files.write(file, damaged);
        assertTrue(refused(OrtStatus.IO, () -> session.loadState(file)).getMessage().startsWith("loadState: '" + file), "byte " + at);
      }
      for (int length : new int[] {0, 8, bytes.length - 1}) {
        Files.write(file, java.util.Arrays.copyOf(bytes, length));
        refused(OrtStatus.IO, () -> session.loadState(file));
      }
      Files.write(file, bytes);
      refused(OrtStatus.IO, () -> session.loadState(folder.resolve("missing")));
      refused(OrtStatus.IO, () -> state.save(folder.resolve("no").resolve("state")));
      try (OrtSessionFFM other = OrtSessionFFM.create(runtime, Models.bytes("add"), new OrtSessionFFM.Options().identify())) {
        assertTrue(refused(OrtStatus.IO, () -> other.loadState(file)).getMessage().contains("another model"));
      }
      try (OrtSessionFFM unknown = Models.session(runtime, "scale"); OrtIoBindingFFM own = bind(unknown, CarryMode.MOVE, 1);
          OrtStateFFM saved = own.saveState()) {
        assertTrue(refused(OrtStatus.NOT_SUPPORTED, () -> saved.save(file)).getMessage().endsWith("with Options.identify"));
        refused(OrtStatus.NOT_SUPPORTED, () -> unknown.loadState(file));
      }
      try (var zip = java.nio.file.FileSystems.newFileSystem(folder.resolve("a.zip"), Map.of("create", "true"))) {
        refused(OrtStatus.INVALID_ARGUMENT, () -> state.save(zip.getPath("state")));
        refused(OrtStatus.INVALID_ARGUMENT, () -> session.loadState(zip.getPath("state")));
      }
      assertThrows(NullPointerException.class, () -> state.save(null));
      assertArrayEquals(bytes, Files.readAllBytes(file));
    }
  }

  // ---- refused, closed

  @Test
  void whatIsRefused() {
    try (OrtSessionFFM session = session("cpu"); OrtIoBindingFFM binding = session.createBinding();
        OrtIoBindingFFM carried = bind(session, CarryMode.MOVE, 1); OrtStateFFM state = carried.saveState()) {
      binding.bindInput("x", new float[] {1}, 1);
      assertTrue(refused(OrtStatus.INVALID_STATE, binding::saveState).getMessage().startsWith("saveState: the binding carries nothing"));
      assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> binding.restoreState(state)).getMessage().startsWith("restoreState: "));
      try (OrtSessionFFM other = session("cpu"); OrtIoBindingFFM others = bind(other, CarryMode.IN_PLACE, 5)) {
        assertTrue(refused(OrtStatus.INVALID_ARGUMENT, () -> others.restoreState(state)).getMessage().contains("another session"));
        assertArrayEquals(new float[] {10}, run(others, 1));
      }
      assertThrows(NullPointerException.class, () -> binding.restoreState(null));
      assertArrayEquals(new float[] {2}, run(binding, 1)); // no call is left in it
    }
  }

  @Test
  void aClosedStateAndWhatIsLeftOfIt() {
    OrtStateFFM state;
    OrtValueRef x;
    try (OrtSessionFFM session = session("vdev"); OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1, 3)) {
      run(binding, 1);
      state = binding.saveState();
      binding.restoreState(state);
      x = state.get("x");
      state.close();
      state.close();
      assertThrows(IllegalStateException.class, () -> binding.restoreState(state));
      assertArrayEquals(new float[] {4, 12}, run(binding, 1)); // and no call is left in it
    }
    for (Runnable call : List.<Runnable>of(() -> state.get("x"), () -> state.save(Path.of("state")))) {
      assertEquals("OrtStateFFM is closed", assertThrows(IllegalStateException.class, call::run).getMessage());
    }
    assertArrayEquals(new float[] {2, 6}, x.toFloatArray());
    x.close();
  }

  @Test
  void outlivesBindingSessionAndRuntime(@TempDir Path folder) {
    OrtStateFFM state;
    try (OrtRuntimeFFM own = OrtRuntimeFFM.create();
        OrtSessionFFM session = OrtSessionFFM.create(own, Models.bytes("scale"), new OrtSessionFFM.Options().identify());
        OrtIoBindingFFM binding = bind(session, CarryMode.MOVE, 1, 3)) {
      run(binding, 1);
      state = binding.saveState();
    }
    state.save(folder.resolve("state"));
    assertArrayEquals(new float[] {2, 6}, content(state));
    state.close();
  }

  @Test
  void threadsShareAState() throws Exception {
    try (OrtSessionFFM session = session("vdev"); OrtIoBindingFFM binding = bind(session, CarryMode.SWAP, 1)) {
      run(binding, 3);
      try (OrtStateFFM state = binding.saveState()) {
        List<Throwable> wrong = java.util.Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (CarryMode mode : CarryMode.values()) {
          threads.add(Thread.ofPlatform().start(() -> {
            try (OrtIoBindingFFM branch = bind(session, mode, 0)) {
              for (int i = 0; i < 20; i++) {
                branch.restoreState(state);
                assertArrayEquals(new float[] {32}, run(branch, 2));
                assertArrayEquals(new float[] {8}, content(state));
              }
            } catch (Throwable t) {
              wrong.add(t);
            }
          }));
        }
        for (Thread thread : threads) thread.join();
        assertEquals(List.of(), wrong);
      }
    }
  }
}
