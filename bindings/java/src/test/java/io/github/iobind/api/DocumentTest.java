package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Every piece of Java in the documents stands in one of the samples, which the tests run. */
class DocumentTest {
  @ParameterizedTest
  @ValueSource(strings = {"java.md", "java-official.md", "vdev.md"})
  void piecesAreOfTheSamples(String name) throws Exception {
    List<String> samples = new ArrayList<>();
    try (Stream<Path> files = Files.list(Path.of("samples"))) {
      for (Path file : files.toList()) samples.add(flat(Files.readString(file)));
    }
    String document = Files.readString(Models.PROJECT.resolve("docs").resolve(name));
    List<String> pieces = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(document).results()
        .map(result -> flat(result.group(1))).toList();
    assertTrue(!pieces.isEmpty());
    for (String piece : pieces) assertTrue(samples.stream().anyMatch(sample -> sample.contains(piece)), piece);
  }

  /** Without indentation. */
  private static String flat(String text) {
    return text.lines().map(String::strip).reduce("", (all, line) -> all + line + "\n");
  }
}
