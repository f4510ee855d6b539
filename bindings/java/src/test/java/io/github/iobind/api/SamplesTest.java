package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The samples run on each device that is there: one as a program of one file, as the document says, the others compiled. */
@Tag("ci")
class SamplesTest {
  private static final String CLASSES = Path.of("target/classes").toAbsolutePath().toString();
  private static List<String> quickstartOnCpu;
  private static List<String> recurrentOnCpu;

  @TempDir
  private static Path compiled;

  @TempDir
  private Path folder;

  /** Compiling takes longer than running. */
  @BeforeAll
  static void compile() {
    int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-d", compiled.toString(), "-cp", CLASSES,
        "samples/Callers.java", "samples/Graphs.java", "samples/KvCache.java", "samples/Quickstart.java", "samples/Recurrent.java", "samples/Service.java", "samples/Tiles.java");
    assertEquals(0, status);
  }

  static Path model(String name) {
    Path file = Models.PROJECT.resolve(".runtime/models").resolve(name);
    assumeTrue(Files.exists(file), "scripts/get-models has not been run");
    return file;
  }

  /** Runs a sample; a device that is not there skips the test with the sample's own words. */
  static List<String> run(String sample, String device, Object... arguments) throws Exception {
    boolean isFile = sample.endsWith(".java");
    List<String> all = new ArrayList<>(List.of("--enable-native-access=ALL-UNNAMED", Child.LIBRARY, "-cp",
        isFile ? CLASSES : CLASSES + File.pathSeparator + compiled, sample));
    for (Object argument : arguments) all.add(argument.toString());
    all.add(device);
    Child child = Child.java(Map.of(), all.toArray(String[]::new));
    if (child.exit() != 0 && child.output().contains("no device works")) {
      String required = System.getenv().getOrDefault("IOBIND_REQUIRE", "");
      assertFalse(Arrays.asList(required.split(",")).contains(device), child.output());
      assumeTrue(false, child.output());
    }
    assertEquals(0, child.exit(), child.output());
    // what was logged, in java.util.logging's two lines, is not the sample's
    return child.output().lines().filter(line -> !line.contains(" toSystemLogger") && !line.startsWith("WARNING: ")).toList();
  }

  /** The numbers with a point in some lines. */
  static double[] numbers(List<String> lines) {
    Matcher matcher = Pattern.compile("-?\\d+\\.\\d+").matcher(String.join("\n", lines));
    return matcher.results().mapToDouble(result -> Double.parseDouble(result.group())).toArray();
  }

  static void near(double[] wanted, double[] got, double tolerance) {
    assertEquals(wanted.length, got.length);
    for (int i = 0; i < wanted.length; i++) assertEquals(wanted[i], got[i], tolerance, "number " + i);
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "cuda"})
  void quickstart(String device) throws Exception {
    classifies(device);
  }

  /** A software driver takes its time over a real model; the other samples are on it in each run of the tests. */
  @Tag("long")
  @Test
  void quickstartOnWebGpu() throws Exception {
    classifies("webgpu");
  }

  private static void classifies(String device) throws Exception {
    List<String> lines = run("Quickstart", device, model("pp-ocr-cls.onnx"));
    if (quickstartOnCpu == null) quickstartOnCpu = run("samples/Quickstart.java", "cpu", model("pp-ocr-cls.onnx"));
    double[] got = numbers(lines.subList(0, 5));
    assertEquals(10, got.length);
    for (int i = 0; i < 10; i += 2) assertEquals(1, got[i] + got[i + 1], 0.001);
    near(numbers(quickstartOnCpu.subList(0, 5)), got, 0.01);
    String link = device.equals("cpu") ? ": 0 bytes up" : ": " + 5 * 3 * 48 * 192 * 4 + " bytes up";
    assertTrue(lines.getLast().startsWith(device) && lines.getLast().endsWith(link), lines.getLast());
  }

  /** The state that stays on the device gives what the CPU's gives. */
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "cuda"})
  void recurrent(String device) throws Exception {
    List<String> lines = run("Recurrent", device, model("silero-vad.onnx"));
    if (recurrentOnCpu == null) recurrentOnCpu = run("Recurrent", "cpu", model("silero-vad.onnx"));
    assertEquals(31, lines.size());
    near(numbers(recurrentOnCpu), numbers(lines), 0.01);
  }

  /** The caller whose sound is that of the sample before is heard as there. */
  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "cuda"})
  void callers(String device) throws Exception {
    List<String> lines = run("Callers", device, model("silero-vad.onnx"));
    double[] alone = numbers(run("Recurrent", "cpu", model("silero-vad.onnx")));
    long found = IntStream.range(0, alone.length).filter(i -> i % 2 == 1 && alone[i] > 0.5).count(); // each behind its time
    assertEquals("caller 0: speech in " + found + " windows", lines.getFirst());
    assertEquals(8, lines.size());
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "webgpu", "cuda"})
  void kvCache(String device) throws Exception {
    List<String> lines = run("KvCache", device, Models.file(folder, "concat dims=1,2,past,4 dims2=1,2,new,4 axis=2"));
    assertTrue(lines.getFirst().startsWith("cache float32[1,2,100,4] on " + device), lines.getFirst());
    assertTrue(lines.getFirst().endsWith("last entry 99.0"), lines.getFirst());
    assertEquals((device.equals("cpu") ? 0 : 100 * 32) + " bytes up in 100 steps", lines.getLast());
  }

  @Test
  void graphs() throws Exception {
    List<String> lines = run("Graphs", "vdev", Models.file(folder, "add"));
    assertEquals(List.of("10 runs of two shapes: 90 in all", "10 steps of a state: 55"), lines);
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev"})
  void service(String device) throws Exception {
    List<String> lines = run("Service", device, model("pp-ocr-cls.onnx"));
    assertTrue(lines.getLast().matches("20\\.00, [1-4] bindings at most"), lines.getLast());
  }

  /** A session of the official package, with its own ONNX Runtime. */
  @Test
  void official() throws Exception {
    java.util.Map<String, String> environment = new java.util.HashMap<>();
    environment.put("ORT_NATIVE_LIB_PATH", null);
    Child child = Child.java(environment, "--enable-native-access=ALL-UNNAMED", Child.LIBRARY, "-cp",
        CLASSES + File.pathSeparator + OfficialTest.JAR, "samples/Official.java", model("pp-ocr-cls.onnx").toString());
    assertEquals(0, child.exit(), child.output());
    List<String> lines = child.output().lines().toList();
    assertEquals(4, lines.size(), child.output());
    assertTrue(lines.getFirst().startsWith("OrtValueRef float32[1,2] on cpu: upright 0."), child.output());
    assertTrue(lines.get(2).endsWith(lines.get(3)), child.output()); // the last picture twice
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "webgpu", "cuda"})
  void tiles(String device) throws Exception {
    List<String> lines = run("Tiles", device, Models.file(folder, "scale dims=h,w"));
    long pixels = 12L * 64 * 64;
    assertEquals("12 tiles on " + device, lines.getFirst().replaceAll("(:\\d+)?,.*", ""));
    assertEquals(pixels * (pixels - 1), Double.parseDouble(lines.getFirst().replaceAll(".*sum ", "")));
  }
}
