package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The samples run as they are, each as a program of one file, on each device that is there. */
class SamplesTest {
  private static List<String> quickstartOnCpu;
  private static List<String> recurrentOnCpu;

  @TempDir
  private Path folder;

  private static Path model(String name) {
    Path file = Models.PROJECT.resolve(".runtime/models").resolve(name);
    assumeTrue(Files.exists(file), "scripts/get-models has not been run");
    return file;
  }

  /** Runs a sample; a device that is not there skips the test with the sample's own words. */
  private static List<String> run(String sample, String device, Object... arguments) throws Exception {
    String[] all = new String[5 + arguments.length + 1];
    all[0] = "--enable-native-access=ALL-UNNAMED";
    all[1] = Child.LIBRARY;
    all[2] = "-cp";
    all[3] = Path.of("target/classes").toAbsolutePath().toString();
    all[4] = Path.of("samples", sample + ".java").toString();
    for (int i = 0; i < arguments.length; i++) all[5 + i] = arguments[i].toString();
    all[all.length - 1] = device;
    Child child = Child.java(Map.of(), all);
    if (child.exit() != 0 && child.output().contains("find_device")) {
      String required = System.getenv().getOrDefault("IOBIND_REQUIRE", "");
      assertFalse(Arrays.asList(required.split(",")).contains(device), child.output());
      assumeTrue(false, child.output());
    }
    assertEquals(0, child.exit(), child.output());
    return child.output().lines().toList();
  }

  /** The numbers with a point in some lines. */
  private static double[] numbers(List<String> lines) {
    Matcher matcher = Pattern.compile("-?\\d+\\.\\d+").matcher(String.join("\n", lines));
    return matcher.results().mapToDouble(result -> Double.parseDouble(result.group())).toArray();
  }

  private static void near(double[] wanted, double[] got, double tolerance) {
    assertEquals(wanted.length, got.length);
    for (int i = 0; i < wanted.length; i++) assertEquals(wanted[i], got[i], tolerance, "number " + i);
  }

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "webgpu", "cuda"})
  void quickstart(String device) throws Exception {
    List<String> lines = run("Quickstart", device, model("pp-ocr-cls.onnx"));
    if (quickstartOnCpu == null) quickstartOnCpu = run("Quickstart", "cpu", model("pp-ocr-cls.onnx"));
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

  @ParameterizedTest
  @ValueSource(strings = {"cpu", "vdev", "webgpu", "cuda"})
  void kvCache(String device) throws Exception {
    List<String> lines = run("KvCache", device, Models.file(folder, "concat dims=1,2,past,4 dims2=1,2,new,4 axis=2"));
    assertTrue(lines.getFirst().startsWith("cache float32[1,2,100,4] on " + device), lines.getFirst());
    assertTrue(lines.getFirst().endsWith("last entry 99.0"), lines.getFirst());
    assertEquals((device.equals("cpu") ? 0 : 100 * 32) + " bytes up in 100 steps", lines.getLast());
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
