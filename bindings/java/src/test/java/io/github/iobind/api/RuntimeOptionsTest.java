package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How a runtime is made and finds execution providers. Its options are those of the process: each case has a JVM of its own. */
@Tag("ci")
class RuntimeOptionsTest {
  /** The virtual accelerator's library, which is not beside libiobind here, and a copy of it. */
  @TempDir
  private static Path folder;

  @BeforeAll
  static void libraries() throws Exception {
    Path library = Path.of(System.getProperty("iobind.library")).toRealPath();
    for (String name : new String[] {"one", "two", "alone"}) Files.createDirectory(folder.resolve(name));
    Files.copy(library, folder.resolve("alone").resolve("libiobind.so"));
    Files.copy(library.resolveSibling("libiobind_java.so"), folder.resolve("alone").resolve("libiobind_java.so"));
    for (String name : new String[] {"one", "two"}) {
      Files.copy(library.resolveSibling("libiobind_vdev.so"), folder.resolve(name).resolve("libiobind_vdev.so"));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"registered", "registeredAgain", "registeredByItsOwnName", "named", "searched", "notSearched", "telemetry"})
  void inAJvmOfItsOwn(String name) throws Exception {
    Map<String, String> environment = new HashMap<>(Map.of("IOBIND_EP_LIBRARIES", folder.resolve("one").toString()));
    environment.put("ORT_NATIVE_LIB_PATH", Models.PROJECT.resolve(".runtime/onnxruntime").toString());
    if (name.equals("telemetry")) environment.put("ORT_DISABLE_TELEMETRY", null);
    Child child = Child.java(environment, "--enable-native-access=ALL-UNNAMED",
        "-Diobind.library=" + folder.resolve("alone").resolve("libiobind.so"), "-Diobind.project=" + Models.PROJECT,
        "-Diobind.build=" + Models.BUILD, "-cp", Child.CLASS_PATH, Cases.class.getName(), name, folder.toString());
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("passed: " + name), child.output());
  }

  /** What happens in such a JVM. */
  static final class Cases {
    private static Path one;
    private static Path two;

    public static void main(String[] arguments) throws Throwable {
      one = Path.of(arguments[1], "one", "libiobind_vdev.so");
      two = Path.of(arguments[1], "two", "libiobind_vdev.so");
      switch (arguments[0]) {
        case "registered" -> registered();
        case "registeredAgain" -> registeredAgain();
        case "registeredByItsOwnName" -> registeredByItsOwnName();
        case "named" -> named();
        case "searched" -> searched();
        case "notSearched" -> notSearched();
        case "telemetry" -> telemetry();
        default -> throw new IllegalArgumentException(arguments[0]);
      }
      System.out.println("passed: " + arguments[0]);
    }

    private static OrtRuntimeFFM empty() {
      return OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().noEpSearch());
    }

    private static List<String> libraries(OrtRuntimeFFM runtime) {
      return runtime.epLibraries().stream().map(one -> one.name() + " " + one.status() + " " + one.path()).toList();
    }

    private static void runsOn(OrtRuntimeFFM runtime, String device) {
      try (OrtSessionFFM session = Models.session(runtime, "scale", DeviceSpec.of(device));
          OrtIoBindingFFM binding = session.createBinding()) {
        float[] y = new float[1];
        binding.bindInput("x", new float[] {21}, 1);
        binding.runWithBindings();
        binding.readOutput("y", y);
        assertEquals(42, y[0]);
        assertEquals("vdev:0", session.inputs().getFirst().device().text());
      }
    }

    private static void registered() {
      try (OrtRuntimeFFM runtime = empty()) {
        assertEquals(1, runtime.devices().size());
        runtime.registerEp("mine", one);
        assertEquals(List.of("mine OK " + one), libraries(runtime));
        runsOn(runtime, "vdev");
        OrtFFMException e = assertThrows(OrtFFMException.class, () -> runtime.registerEp("none", Path.of("/no/such/tensor_copy.so")));
        assertEquals("registerEp: '/no/such/tensor_copy.so': no such file", e.getMessage());
        assertEquals(OrtStatus.NOT_FOUND, e.status());
      }
    }

    /** A name that is taken, and a file that has one, stay as they are. */
    private static void registeredAgain() {
      try (OrtRuntimeFFM runtime = empty()) {
        runtime.registerEp("mine", one);
        runtime.registerEp("mine", one);
        runtime.registerEp("mine", two);
        runtime.registerEp("other", one);
        runtime.registerEp(null, one);
        assertEquals(List.of("mine OK " + one), libraries(runtime));
      }
    }

    private static void registeredByItsOwnName() {
      try (OrtRuntimeFFM runtime = empty()) {
        runtime.registerEp(null, one);
        assertEquals(List.of("vdev OK " + one), libraries(runtime));
      }
    }

    private static void named() {
      var options = new OrtRuntimeFFM.Options().noEpSearch();
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(options.epLibrary("mine=" + two))) {
        assertEquals(List.of("mine OK " + two), libraries(runtime));
        runsOn(runtime, "vdev");
      }
      assertEquals(OrtStatus.NOT_FOUND, assertThrows(OrtFFMException.class,
          () -> OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().epLibrary("/no/such/library.so"))).status());
    }

    /** The folder of IOBIND_EP_LIBRARIES, which {@link #notSearched} has, too. */
    private static void searched() {
      try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
        runsOn(runtime, "vdev");
        assertTrue(libraries(runtime).contains("vdev OK " + one), libraries(runtime).toString());
      }
    }

    private static void notSearched() {
      try (OrtRuntimeFFM runtime = empty()) {
        assertEquals(List.of(), libraries(runtime));
        assertEquals(1, runtime.devices().size());
      }
    }

    /** The switch is in the environment before ONNX Runtime is loaded, so that it is seen where none is found. */
    private static void telemetry() throws Throwable {
      Path none = Path.of("/no/such/library.so");
      assertThrows(OrtFFMException.class, () -> OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortLibrary(none).telemetry()));
      assertEquals(null, environment("ORT_DISABLE_TELEMETRY"));
      assertThrows(OrtFFMException.class, () -> OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortLibrary(none)));
      assertEquals("1", environment("ORT_DISABLE_TELEMETRY"));
    }

    /** A variable as native code sees it: Java has its own copy of the environment. */
    private static String environment(String name) throws Throwable {
      Linker linker = Linker.nativeLinker();
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment value = (MemorySegment) linker.downcallHandle(linker.defaultLookup().find("getenv").orElseThrow(),
            FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.ADDRESS)).invokeExact(arena.allocateFrom(name));
        return value.equals(MemorySegment.NULL) ? null : value.reinterpret(Long.MAX_VALUE).getString(0);
      }
    }
  }
}
