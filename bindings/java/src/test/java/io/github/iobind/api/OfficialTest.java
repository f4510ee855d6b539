package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Together with the official package in one process; each case in a JVM of its own, see {@link OfficialCases}. */
class OfficialTest {
  static final Path JAR = Path.of(System.getProperty("iobind.official"));

  private static Child run(Map<String, String> environment, String name) throws Exception {
    return run(environment, OfficialCases.class, name);
  }

  /** Runs a class of the tests with the official package beside this one. */
  static Child run(Map<String, String> environment, Class<?> cases, String... names) throws Exception {
    Map<String, String> all = new HashMap<>();
    all.put("ORT_NATIVE_LIB_PATH", null);
    all.putAll(environment);
    List<String> arguments = new ArrayList<>(List.of("--enable-native-access=ALL-UNNAMED", Child.LIBRARY,
        "-Diobind.project=" + System.getProperty("iobind.project"), "-Diobind.build=" + System.getProperty("iobind.build"),
        "-Diobind.leaks=trace", "-cp", Child.CLASS_PATH + ":" + JAR, cases.getName()));
    arguments.addAll(List.of(names));
    return Child.java(all, arguments.toArray(String[]::new));
  }

  @ParameterizedTest
  @ValueSource(strings = {"sharedSession", "closeInEveryOrder"})
  void shares(String name) throws Exception {
    passes(name);
  }

  @Tag("ci")
  @ParameterizedTest
  @ValueSource(strings = {"oneRuntime", "sessionFirst", "closedOfficialSession", "forgotten", "forgottenOnAStream", "notASession",
      "nativeSession", "batchOfASharedSession"})
  void sharesAlso(String name) throws Exception {
    passes(name);
  }

  private static void passes(String name) throws Exception {
    Child child = run(Map.of(), name);
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("passed: " + name), child.output());
  }

  /** ONNX Runtime writes what it logs to stderr, as docs/java.md says. */
  @Test
  void linesOfOrt() throws Exception {
    Child child = run(Map.of(), "linesOfOrt");
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("[E:onnxruntime:"), child.output());
  }

  /** With another ONNX Runtime beside the official one handles must not meet: adopting still takes the official one's. */
  @Tag("ci")
  @ParameterizedTest
  @ValueSource(strings = {"sharedSession", "otherRuntimeBeside"})
  void anotherOnnxRuntimeBeside(String name) throws Exception {
    Child child = run(Map.of("ORT_NATIVE_LIB_PATH", Models.PROJECT.resolve(".runtime/onnxruntime").toString()), name);
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("passed: " + name), child.output());
  }

  /** As named modules, with native access for the two alone; the official package is an automatic one. */
  @Tag("ci")
  @Test
  void namedModules(@TempDir Path folder) throws Exception {
    Path source = Files.createDirectories(folder.resolve("source/program"));
    Files.writeString(folder.resolve("source/module-info.java"),
        "module program { requires io.github.iobind; requires com.microsoft.onnxruntime; }");
    Files.writeString(source.resolve("Main.java"), """
        package program;

        import ai.onnxruntime.OrtEnvironment;
        import ai.onnxruntime.OrtSession;
        import io.github.iobind.api.OrtIoBindingFFM;
        import io.github.iobind.api.OrtSessionFFM;

        public class Main {
          public static void main(String[] arguments) throws Exception {
            try (OrtSession official = OrtEnvironment.getEnvironment().createSession(arguments[0]);
                OrtSessionFFM session = OrtSessionFFM.createFromOrtSession(official);
                OrtIoBindingFFM binding = session.createBinding()) {
              float[] y = new float[1];
              binding.bindInput("x", new float[] {21}, 1);
              binding.runWithBindings();
              binding.readOutput("y", y);
              System.out.println(session.getClass().getModule() + ", " + official.getClass().getModule() + ": " + y[0]);
            }
          }
        }
        """);
    String modules = Path.of("target/classes").toAbsolutePath() + File.pathSeparator + JAR;
    Path program = folder.resolve("program");
    Child javac = Child.run(Map.of(), Path.of(System.getProperty("java.home"), "bin", "javac").toString(), "-d",
        program.toString(), "-p", modules, source.resolve("Main.java").toString(), folder.resolve("source/module-info.java").toString());
    assertEquals(0, javac.exit(), javac.output());
    Map<String, String> environment = new HashMap<>();
    environment.put("ORT_NATIVE_LIB_PATH", null);
    Child child = Child.java(environment, "--enable-native-access=io.github.iobind,com.microsoft.onnxruntime", Child.LIBRARY,
        "-p", modules + File.pathSeparator + program, "-m", "program/program.Main", Models.file(folder, "scale").toString());
    assertEquals(0, child.exit(), child.output());
    assertEquals("module io.github.iobind, module com.microsoft.onnxruntime: 42.0", child.output().strip());
  }

  /** The virtual accelerator under the official package alone: a class of this one would not be found. */
  @Tag("ci")
  @Test
  void virtualDeviceAlone(@TempDir Path folder) throws Exception {
    Path library = Path.of(System.getProperty("iobind.library"));
    Path vdev = library.resolveSibling(library.getFileName().toString().replace("iobind", "iobind_vdev"));
    Path trace = folder.resolve("trace.json");
    Map<String, String> environment = new HashMap<>(Map.of("VDEV_TRACE", "1", "VDEV_TRACE_FILE", trace.toString()));
    environment.put("ORT_NATIVE_LIB_PATH", null);
    Child child = Child.java(environment, "--enable-native-access=ALL-UNNAMED", "-cp", JAR.toString(),
        "samples/VirtualDevice.java", vdev.toString(), Models.file(folder, "add dims=4").toString());
    assertEquals(0, child.exit(), child.output());
    assertEquals("[2.0, 4.0, 6.0, 8.0]", child.output().strip());
    JsonArray events = JsonParser.parseString(Files.readString(trace)).getAsJsonObject().getAsJsonArray("traceEvents");
    Set<String> names = new HashSet<>();
    for (JsonElement event : events) names.add(event.getAsJsonObject().get("name").getAsString());
    assertTrue(names.containsAll(Set.of("upload", "Add", "download")), names.toString()); // not on the CPU
  }
}
