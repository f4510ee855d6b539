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
import org.junit.jupiter.api.Tag;
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

  /** Limits that are none; and a session that verifies itself is right. */
  @Test
  void verification() {
    fails(OrtStatus.INVALID_ARGUMENT, "verify: expected 0 runs or more, got -1", () -> new OrtVerification(-1));
    var wrong = new OrtSessionFFM.Options().verify(new OrtVerification(1, 0, -1));
    fails(OrtStatus.INVALID_ARGUMENT, "verify: tolerance: relative: expected 0 .. 1e30, got -1",
        () -> OrtSessionFFM.create(runtime, Models.bytes("scale"), wrong));
    var verified = new OrtSessionFFM.Options().devices(DeviceSpec.of("vdev")).verify(new OrtVerification(2));
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), verified);
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {1, 2}, floats(2)); OrtValueRef y = session.run(List.of(x)).get(0)) {
      assertArrayEquals(new float[] {2, 4}, y.toFloatArray());
    }
    assertEquals(16, OrtStatus.RESULT.ordinal());
  }

  /** The next kernel is wrong, and only that one. */
  @Test
  void verificationFinds() {
    var wrong = new OrtSessionFFM.Options().devices(DeviceSpec.of("vdev")).ep("wrong_compute", "1").verify(new OrtVerification(1));
    try (OrtSessionFFM session = OrtSessionFFM.create(runtime, Models.bytes("scale"), wrong);
        OrtValueRef x = OrtValueRef.of(runtime, new float[] {1, 2}, floats(2))) {
      fails(OrtStatus.RESULT, "output 'y'[0]: expected 2, as on the CPU, got ", () -> session.run(List.of(x)));
      try (OrtValueRef y = session.run(List.of(x)).get(0)) {
        assertArrayEquals(new float[] {2, 4}, y.toFloatArray());
      }
    }
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

  /** Paths and names are the user's, whatever words and numbers are in them. */
  @Test
  void whatIsQuotedIsTheUsers() {
    for (String mine : List.of("/srv/models/tensor_copy.onnx", "/srv/session_run/m.onnx", "/opt/graph_limit/libep.so",
        "/srv/18446744073709551615/m.onnx", "it's/tensor_copy", "/srv/dogs' food/tensor_copy.onnx", "the tensor is NULL",
        "a tensor_copy b")) {
      String quoted = "'" + mine + "'";
      assertEquals("OrtSessionFFM.create: " + quoted + ": no such file", Texts.inJava("session_create: " + quoted + ": no such file"));
      assertEquals("update: the caller's " + quoted + " and 'x_y': graphs' Options.graphs is -4, the value is null",
          Texts.inJava("binding_write_input: the caller's " + quoted
              + " and 'x_y': graphs' graph_limit is 18446744073709551612, the tensor is NULL"));
      OrtFFMException e = assertThrows(OrtFFMException.class,
          () -> OrtSessionFFM.create(runtime, java.nio.file.Path.of(mine), new OrtSessionFFM.Options()));
      assertEquals("OrtSessionFFM.create: " + quoted + ": no such file", e.getMessage());
    }
    assertEquals("run: Load model from /srv/tensor_copy.onnx failed: copyTo.",
        Texts.inJava("session_run: Load model from /srv/tensor_copy.onnx failed: tensor_copy."));
    assertEquals("(Options.graphs): run: 0 .. 18446744073709551615", Texts.inJava("(graph_limit): session_run: 0 .. 18446744073709551615"));
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

  private static void isNull(String name, Executable call) {
    assertEquals(name, assertThrows(NullPointerException.class, call).getMessage());
  }

  /** An array that does not fit: the message has the input's name, and what to call. */
  @Test
  void arraysThatDoNotFit() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef value = OrtValueRef.of(runtime, new float[] {1, 2}, floats(2))) {
      fails(OrtStatus.INVALID_ARGUMENT, "bindInput: 'x': the array is null", () -> binding.bindInput("x", (Object) null, 1));
      fails(OrtStatus.DTYPE, "bindInput: 'x': expected float[] for float32, got float[][]: one array has all elements, row by row",
          () -> binding.bindInput("x", new float[1][1], 1, 1));
      fails(OrtStatus.SHAPE, "bindInput: 'x': expected 4 bytes for float32[], got 8: no dims were given",
          () -> binding.bindInput("x", new float[2]));
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> binding.bindInput("x", new float[2], 3));
      assertEquals("bindInput: 'x': expected 12 bytes for float32[3], got 8", e.getMessage());
      binding.bindInput("x", new float[2], 2);
      fails(OrtStatus.DTYPE, "update: 'x': expected float[] for float32, got int[]", () -> binding.update("x", new int[2]));
      binding.runWithBindings();
      fails(OrtStatus.DTYPE, "readOutput: 'y': expected float[] for float32, got long[]", () -> binding.readOutput("y", new long[1]));
      fails(OrtStatus.DTYPE, "write: expected float[] for float32, got double[]", () -> value.write(new double[2]));
      fails(OrtStatus.DTYPE, "read: expected float[] for float32, got double[]", () -> value.read(new double[2]));
      fails(OrtStatus.SHAPE, "read: expected 8 bytes for float32[2], got 12", () -> value.read(new float[3]));
    }
    try (OrtValueRef value = OrtValueRef.allocate(runtime, DeviceSpec.CPU, MemoryDescriptor.of(OnnxTensorElementType.BOOL, 1))) {
      fails(OrtStatus.DTYPE, "write: expected boolean[] or byte[] for bool, got int[]", () -> value.write(new int[1]));
    }
  }

  /** Where a String[] goes, if not there. */
  @Test
  void stringsGoElsewhere() {
    try (OrtSessionFFM session = Models.session(runtime, "identity dtype=string"); OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef value = OrtValueRef.of(runtime, new String[] {"a"}, MemoryDescriptor.of(OnnxTensorElementType.STRING, 1))) {
      fails(OrtStatus.DTYPE, "bindInput: 'x': its elements are strings: bind a String[]", () -> binding.bindInput("x", new int[1], 1));
      binding.bindInput("x", new String[] {"a"}, 1);
      fails(OrtStatus.DTYPE, "update: 'x': its elements are strings: bind them again, by bindInput(name, strings, dims)",
          () -> binding.update("x", new String[] {"b"}));
      binding.runWithBindings();
      fails(OrtStatus.DTYPE, "readOutput: 'y': its elements are strings: getOutput(name).readStrings() reads them",
          () -> binding.readOutput("y", new String[1]));
      fails(OrtStatus.DTYPE, "write: its elements are strings: writeStrings writes them", () -> value.write(new String[] {"b"}));
      fails(OrtStatus.DTYPE, "read: its elements are strings: readStrings reads them", () -> value.read(new String[1]));
    }
  }

  /** What receives must be writable, whatever memory it is. */
  @Test
  void readOnlyTargets() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef value = OrtValueRef.of(runtime, new float[] {1}, floats(1)); Arena arena = Arena.ofConfined()) {
      binding.bindInput("x", value);
      binding.runWithBindings();
      java.nio.FloatBuffer buffer = java.nio.FloatBuffer.allocate(1).asReadOnlyBuffer();
      fails(OrtStatus.INVALID_ARGUMENT, "readOutput: 'y': the target is read-only memory", () -> binding.readOutput("y", buffer));
      fails(OrtStatus.INVALID_ARGUMENT, "read: the target is read-only memory", () -> value.read(buffer));
      for (MemorySegment target : List.of(arena.allocate(4), MemorySegment.ofArray(new float[1]))) {
        fails(OrtStatus.INVALID_ARGUMENT, "read: the target is read-only memory", () -> value.read(0, target.asReadOnly(), null));
        value.read(0, target, null);
      }
      value.write(buffer); // which only reads it
    }
  }

  /** The first argument of submit is the tag, whatever it is. */
  @Test
  void segmentsThatAreTakenForTags() {
    try (OrtSessionFFM session = Models.session(runtime, "scale"); Arena arena = Arena.ofConfined();
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options())) {
      MemorySegment x = arena.allocateFrom(ValueLayout.JAVA_FLOAT, 4);
      fails(OrtStatus.INVALID_ARGUMENT, "submit: expected 1 segment behind the tag, got 0: the first argument, here a ",
          () -> pipeline.submit(x));
      fails(OrtStatus.INVALID_ARGUMENT, "is the tag: submit(tag, segment), or submit(null, segment)", () -> pipeline.submit(x));
      OrtFFMException e = assertThrows(OrtFFMException.class, () -> pipeline.submit("tag", x, x));
      assertEquals("submit: expected 1 segment behind the tag, got 2", e.getMessage());
      pipeline.submit(null, x);
      try (OrtPipelineFFM.Item item = pipeline.next()) { // and its outputs stay in their map, for the close
        assertThrows(UnsupportedOperationException.class, item.outputs()::clear);
        assertEquals(8, item.outputs().get("y").toFloatArray()[0]);
      }
    }
  }

  /** A null is refused where it is given, by its name. */
  @Test
  void nulls() {
    var options = new OrtSessionFFM.Options();
    isNull("specs", () -> new OrtSessionFFM.Options().devices((DeviceSpec[]) null));
    isNull("ortApi", () -> new OrtRuntimeFFM.Options().ortApi(null));
    isNull("dims", () -> new OrtPipelineFFM.Options().shape("x", (long[]) null));
    isNull("config", () -> new OrtPipelineFFM.Options().runOptions(null, java.util.Collections.singletonMap("a", null)));
    isNull("key", () -> options.config(null, "1"));
    isNull("value", () -> options.config("x", null));
    isNull("key", () -> options.ep(null, "1"));
    isNull("value", () -> options.ep("x", null));
    isNull("value", () -> options.policy(null));
    isNull("value", () -> options.optimization(null));
    isNull("name", () -> options.freeDimension(null, 3));
    isNull("specs", () -> options.devices(DeviceSpec.CPU, null));
    isNull("profile: the path is null", () -> options.profile(null));
    isNull("stream", () -> options.stream((OrtStreamFFM) null));
    isNull("nativeStream", () -> options.stream((MemorySegment) null));
    var runtimeOptions = new OrtRuntimeFFM.Options();
    isNull("ortLibrary: the path is null", () -> runtimeOptions.ortLibrary(null));
    isNull("library", () -> runtimeOptions.epLibrary(null));
    isNull("level", () -> runtimeOptions.log(null, (level, line) -> { }));
    isNull("sink", () -> runtimeOptions.log(OrtRuntimeFFM.LogLevel.ERROR, null));
    var pipelineOptions = new OrtPipelineFFM.Options();
    isNull("value", () -> pipelineOptions.constant("x", null));
    isNull("input", () -> pipelineOptions.shape(null, 1));
    isNull("placement", () -> pipelineOptions.output("y", null));
    isNull("config", () -> pipelineOptions.runOptions("tag", null));
    isNull("OrtSessionFFM.create: the path is null", () -> OrtSessionFFM.create(null));
    isNull("registerEp: the path is null", () -> runtime.registerEp("x", null));
    isNull("ortSession", () -> new OrtIoBindingFFM(null));
    isNull("runtime", () -> OrtSessionFFM.create(null, Models.bytes("scale"), options));
    isNull("options", () -> OrtSessionFFM.create(runtime, Models.bytes("scale"), null));
    isNull("model", () -> OrtSessionFFM.create(runtime, (byte[]) null, options));
    isNull("spec", () -> OrtValueRef.allocate(runtime, null, floats(1)));
    isNull("text", () -> DeviceSpec.of(null));
    isNull("shape", () -> floats((long[]) null));
    isNull("ortSession", () -> OrtSessionFFM.createFromOrtSession(null));
  }

  /** A path inside a zip file is not one of the same letters outside. */
  @Test
  void pathsOfOtherFileSystems(@org.junit.jupiter.api.io.TempDir java.nio.file.Path folder) throws Exception {
    java.nio.file.Path model = Models.file(folder, "scale");
    try (java.nio.file.FileSystem zip = java.nio.file.FileSystems.newFileSystem(folder.resolve("m.zip"), Map.of("create", "true"))) {
      java.nio.file.Path inside = zip.getPath(model.toString());
      var options = new OrtSessionFFM.Options();
      String what = "expected a file of the system, got '" + model + "' in a file system of 'jar'";
      fails(OrtStatus.INVALID_ARGUMENT, "OrtSessionFFM.create: " + what, () -> OrtSessionFFM.create(inside));
      fails(OrtStatus.INVALID_ARGUMENT, "OrtSessionFFM.create: " + what, () -> OrtSessionFFM.create(runtime, inside, options));
      fails(OrtStatus.INVALID_ARGUMENT, "profile: " + what, () -> options.profile(inside));
      fails(OrtStatus.INVALID_ARGUMENT, "ortLibrary: " + what, () -> new OrtRuntimeFFM.Options().ortLibrary(inside));
      fails(OrtStatus.INVALID_ARGUMENT, "registerEp: " + what, () -> runtime.registerEp(null, inside));
    }
  }

  /** A program that has loaded this package twice is told so: by its name the class would be the right one. */
  @Test
  void aSessionOfAnotherClassLoader(@org.junit.jupiter.api.io.TempDir java.nio.file.Path folder) throws Exception {
    java.net.URL classes = java.nio.file.Path.of("target/classes").toUri().toURL();
    try (var loader = new java.net.URLClassLoader("the other one", new java.net.URL[] {classes}, ClassLoader.getPlatformClassLoader())) {
      Class<?> type = loader.loadClass(OrtSessionFFM.class.getName());
      try (AutoCloseable session = (AutoCloseable) type.getMethod("create", java.nio.file.Path.class)
          .invoke(null, Models.file(folder, "scale"))) {
        OrtFFMException e = assertThrows(OrtFFMException.class, () -> new OrtIoBindingFFM(session));
        assertEquals("expected an ai.onnxruntime.OrtSession, got an object of io.github.iobind.api.OrtSessionFFM, loaded by 'the other one' "
            + "and not by 'app': load this package once, by a class loader that both share", e.getMessage());
      }
    }
    fails(OrtStatus.INVALID_ARGUMENT, "got an object of java.io.StringReader",
        () -> OrtSessionFFM.createFromOrtSession(new java.io.StringReader("")));
  }

  /** Each device of a list is pinned, so that whichever is there is. */
  @Test
  void aListOfPinnedDevices() {
    assertEquals("a:1/pinned,b/pinned,cpu/pinned", DeviceSpec.of("a:1,b/pinned,cpu").pinned().text());
    assertEquals(DeviceSpec.cuda(0).pinned(), DeviceSpec.cuda(0).pinned().pinned());
    Devices.require(runtime, "vdev");
    try (OrtValueRef value = OrtValueRef.allocate(runtime, DeviceSpec.of("vdev,cpu").pinned(), floats(1))) {
      assertEquals("vdev:0/pinned", value.device().text());
    }
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

  /** An output whose shape the data decide keeps no memory: the message names the mode that allows any shape. */
  @Test
  void reuseOfADataDependentOutput() {
    try (OrtSessionFFM session = Models.session(runtime, "nonzero"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindOutput("y", OutputMode.REUSE);
      binding.bindInput("x", new float[] {1, 0, 0}, 3);
      binding.runWithBindings();
      binding.bindInput("x", new float[] {1, 1, 0}, 3);
      fails(OrtStatus.SHAPE, "use FRESH, which allows any shape", binding::runWithBindings);
    }
  }

  /** What a call lends belongs to the binding until its next run: who ignores it leaks nothing. */
  @Test
  void whatIsLentIsTakenBack() throws Exception {
    Child child = Child.test(Map.of(), Borrower.class);
    assertEquals(0, child.exit(), child.output());
  }

  /** In a JVM of its own, where nobody else forgets anything. */
  static final class Borrower {
    public static void main(String[] arguments) {
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale")) {
        long before = Handle.openBytes();
        borrow(runtime, session);
        assertEquals(before, Handle.openBytes());
        assertEquals(0, Handle.LEAKS.get());
      }
    }

    private static void borrow(OrtRuntimeFFM runtime, OrtSessionFFM session) {
      try (OrtIoBindingFFM binding = new OrtIoBindingFFM(session)) {
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
    }
  }

  /** A folder that IOBIND_EP_LIBRARIES names may have the virtual accelerator; an entry that is not there is told. */
  @Tag("ci")
  @Test
  void librariesOfTheEnvironment(@org.junit.jupiter.api.io.TempDir java.nio.file.Path folder) throws Exception {
    java.nio.file.Path build = java.nio.file.Path.of(System.getProperty("iobind.library")).toRealPath();
    java.nio.file.Path alone = java.nio.file.Files.createDirectory(folder.resolve("alone"));
    java.nio.file.Path other = java.nio.file.Files.createDirectory(folder.resolve("other"));
    java.nio.file.Files.copy(build, alone.resolve("libiobind.so"));
    java.nio.file.Files.copy(build.resolveSibling("libiobind_java.so"), alone.resolve("libiobind_java.so"));
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
