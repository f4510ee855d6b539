package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.Arrays;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The conformance rows of the C tests hold through this package too, on each device. */
class ConformanceTest {
  /** Rows that claim what is not so must fail: the runner sees it. */
  @Tag("ci")
  @Test
  void wrongRows() throws Exception {
    Child child = Child.test(Map.of(), Conformance.class, "cpu",
        Models.PROJECT.resolve("tests/conformance/wrong.tsv").toString(),
        "ALL_WRONG");
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().lines().filter(line -> line.startsWith("FAIL")).count() >= 15, child.output());
  }

  @Test
  void rowsOnVdev() throws Exception {
    rows("vdev", 806);
  }

  @Tag("ci")
  @ParameterizedTest
  @CsvSource({"cpu, 776", "webgpu, 766"})
  void rowsOn(String device, int atLeast) throws Exception {
    rows(device, atLeast);
  }

  private static void rows(String device, int atLeast) throws Exception {
    // A run cannot be cancelled in the middle of a kernel, and the virtual device makes a loop one kernel: there the CPU has
    // it.
    Map<String, String> environment = device.equals("vdev") ? Map.of("VDEV_DENY", "Loop", "VDEV_RACE", "fail") : Map.of();
    Child child = Child.test(environment, Conformance.class, device,
        Models.PROJECT.resolve("tests/conformance/cases.tsv").toString(), String.valueOf(atLeast));
    if (child.exit() == 77) {
      String required = System.getenv().getOrDefault("IOBIND_REQUIRE", "");
      assertFalse(Arrays.asList(required.split(",")).contains(device), child.output());
      assumeTrue(false, child.output());
    }
    String[] lines = child.output().split("\n");
    System.out.println("conformance on " + device + ": " + lines[lines.length - 1]);
    assertEquals(0, child.exit(), () -> String.join("\n", Arrays.stream(lines).filter(l -> !l.startsWith("skip")).toList()));
  }
}
