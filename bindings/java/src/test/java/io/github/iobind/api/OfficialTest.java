package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Together with the official package in one process; each case in a JVM of its own, see {@link OfficialCases}. */
class OfficialTest {
  static final Path JAR = Path.of(System.getProperty("iobind.official"));

  static Child run(Map<String, String> environment, String name) throws Exception {
    Map<String, String> all = new HashMap<>();
    all.put("ORT_NATIVE_LIB_PATH", null);
    all.putAll(environment);
    List<String> arguments = new ArrayList<>(List.of("--enable-native-access=ALL-UNNAMED", Child.LIBRARY,
        "-Diobind.project=" + System.getProperty("iobind.project"), "-Diobind.build=" + System.getProperty("iobind.build"),
        "-Diobind.leaks=trace", "-cp", Child.CLASS_PATH + ":" + JAR, OfficialCases.class.getName(), name));
    return Child.java(all, arguments.toArray(String[]::new));
  }

  @ParameterizedTest
  @ValueSource(strings = {"sharedSession", "oneRuntime", "sessionFirst", "closedOfficialSession", "closeInEveryOrder",
      "forgotten",
      "notASession"})
  void shares(String name) throws Exception {
    Child child = run(Map.of(), name);
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("passed: " + name), child.output());
  }

  /** With another ONNX Runtime beside the official one handles must not meet: adopting still takes the official one's. */
  @ParameterizedTest
  @ValueSource(strings = {"sharedSession", "otherRuntimeBeside"})
  void anotherOnnxRuntimeBeside(String name) throws Exception {
    Child child = run(Map.of("ORT_NATIVE_LIB_PATH", Models.PROJECT.resolve(".runtime/onnxruntime").toString()), name);
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("passed: " + name), child.output());
  }
}
