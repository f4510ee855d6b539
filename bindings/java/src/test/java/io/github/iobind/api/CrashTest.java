package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What ended the process once, see {@link CrashCases}. */
@Tag("ci")
class CrashTest {
  @ParameterizedTest
  @ValueSource(strings = {"adoptedSessionIsClosed", "readOnlyMemory", "arenaIsClosedInARun", "arenaIsClosedInARunOnAStream",
      "arenaIsClosedInASnapshot", "arenaIsClosedBehindAState", "manyArenas", "adoptedPipelineIsOpen",
      "adoptedSessionIsClosedTwice", "streamIsClosedInASubmit", "objectsOfArrays", "bytesAreUsedDirectly", "stackOverflows",
      "bindingOverflows", "noThreadAtTheEndOfARun"})
  void survives(String name) throws Exception {
    passes(name);
  }

  /** With an ONNX Runtime of its own, which logs to this package: lines of the log are where a run can be stopped. */
  @ParameterizedTest
  @ValueSource(strings = {"pipelinesAreClosedInTime", "closedInALogLine", "exitsInALogLine"})
  void survivesInTheMiddleOfARun(String name) throws Exception {
    passes(OWN_ORT, name);
  }

  @ParameterizedTest
  @ValueSource(strings = {"mainReturnsInARunOnAStream", "mainReturnsInAPipeline"})
  void survivesTheEndOfTheJvm(String name) throws Exception {
    passes(OWN_ORT, name);
  }

  /** What the native threads do is a race with the end of the process. */
  @ParameterizedTest
  @ValueSource(strings = {"mainReturnsInARunOnAStream", "mainReturnsInAPipeline"})
  void survivesTheEndOfTheJvmAgainAndAgain(String name) throws Exception {
    for (int i = 0; i < 10; i++) passes(OWN_ORT, name);
  }

  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void endsAlthoughACallNeverArrives() throws Exception {
    passes("callNeverArrives");
  }

  /** A host program that unregisters an EP's library loses the memory of a value that is still open, and nothing else. */
  @Test
  void survivesALibraryThatIsUnregistered() throws Exception {
    Path library = Path.of(System.getProperty("iobind.library"));
    Path vdev = library.resolveSibling(library.getFileName().toString().replace("iobind", "iobind_vdev"));
    passes("libraryIsUnregistered", vdev.toString());
  }

  private static final Map<String, String> OWN_ORT =
      Map.of("ORT_NATIVE_LIB_PATH", Models.PROJECT.resolve(".runtime/onnxruntime").toString());

  private static void passes(String... arguments) throws Exception {
    passes(Map.of(), arguments);
  }

  private static void passes(Map<String, String> environment, String... arguments) throws Exception {
    String name = arguments[0];
    Child child = OfficialTest.run(environment, CrashCases.class, arguments);
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().contains("passed: " + name), child.output());
    // the process may end with 0 while it writes its crash report
    assertTrue(!child.output().contains("fatal error"), child.output());
  }
}
