package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Every piece of Java in the documents stands in one of the samples, which the tests run. */
class DocumentTest {
  @ParameterizedTest
  @ValueSource(strings = {"java.md", "java-official.md", "vdev.md", "cuda.md"})
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

  /** The coordinates in the document are those of the pom, and the official package's version is the one that is tested. */
  @Test
  void coordinates() throws Exception {
    String document = Files.readString(Models.PROJECT.resolve("docs/java.md")), pom = Files.readString(Path.of("pom.xml"));
    List<String> dependencies = Pattern.compile("<dependency>\\s*<groupId>(.*?)</groupId>\\s*<artifactId>(.*?)</artifactId>\\s*"
        + "<version>(.*?)</version>", Pattern.DOTALL).matcher(document).results()
        .map(match -> match.group(1) + ":" + match.group(2) + ":" + match.group(3)).distinct().toList();
    assertEquals(2, dependencies.size());
    for (String dependency : dependencies) {
      String[] parts = dependency.split(":");
      assertTrue(pom.contains("<groupId>" + parts[0] + "</groupId>"), dependency);
      assertTrue(Pattern.compile("<artifactId>" + parts[1] + "</artifactId>\\s*<version>" + parts[2] + "</version>").matcher(pom)
          .find(), dependency);
      assertTrue(document.contains("(\"" + dependency + "\")"), dependency + " for Gradle");
    }
  }

  /** Without indentation. */
  private static String flat(String text) {
    return text.lines().map(String::strip).reduce("", (all, line) -> all + line + "\n");
  }
}
