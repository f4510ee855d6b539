package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
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
      "forgotten", "notASession", "nativeSession"})
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

  /** The virtual accelerator under the official package alone: a class of this one would not be found. */
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
