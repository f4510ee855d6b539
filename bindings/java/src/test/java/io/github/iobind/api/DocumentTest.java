package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Every piece of Java in the documents stands in one of the samples, which the tests run. */
class DocumentTest {
  @ParameterizedTest
  @ValueSource(strings = {"README.md", "docs/java.md", "docs/java-official.md", "docs/vdev.md", "docs/cuda.md"})
  void piecesAreOfTheSamples(String name) throws Exception {
    List<String> samples = new ArrayList<>();
    try (Stream<Path> files = Files.list(Path.of("samples"))) {
      for (Path file : files.toList()) samples.add(flat(Files.readString(file)));
    }
    String document = Files.readString(Models.PROJECT.resolve(name));
    List<String> pieces = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(document).results()
        .map(result -> flat(result.group(1))).toList();
    assertTrue(!pieces.isEmpty());
    for (String piece : pieces) assertTrue(samples.stream().anyMatch(sample -> sample.contains(piece)), piece);
  }

  /** A dependency: group, artifact, version, and classifier; "" for what it does not have. */
  private static List<String> dependencies(String xml) {
    return Pattern.compile("<dependency>(.*?)</dependency>", Pattern.DOTALL).matcher(xml).results().map(match -> {
      String text = match.group(1).replace("${project.version}", VERSION);
      return element(text, "groupId") + ":" + element(text, "artifactId") + ":" + element(text, "version") + ":"
          + element(text, "classifier");
    }).toList();
  }

  private static String element(String xml, String name) {
    Matcher found = Pattern.compile("<" + name + ">(.*?)</" + name + ">").matcher(xml);
    return found.find() ? found.group(1) : "";
  }

  private static final String VERSION = System.getProperty("iobind.version");

  /** The coordinates in the document: of the BOM, and of what the BOM has a version of, for Maven and for Gradle. */
  @Test
  void coordinates() throws Exception {
    String document = Files.readString(Models.PROJECT.resolve("docs/java.md"));
    List<String> managed = dependencies(Files.readString(Path.of("bom/pom.xml"))), named = dependencies(document);
    assertEquals(4, named.size());
    assertEquals("io.github.iobind:onnxruntime-io-binding-bom:" + VERSION + ":", named.getFirst());
    assertTrue(document.contains("(platform(\"io.github.iobind:onnxruntime-io-binding-bom:" + VERSION + "\"))"));
    for (String dependency : named.subList(1, 4)) {
      String[] parts = dependency.split(":", -1);
      assertEquals("", parts[2], dependency);
      assertTrue(managed.stream().map(one -> one.split(":", -1))
          .anyMatch(one -> one[0].equals(parts[0]) && one[1].equals(parts[1]) && one[3].equals(parts[3])), dependency);
      String gradle = parts[0] + ":" + parts[1] + (parts[3].isEmpty() ? "" : "::" + parts[3]);
      assertTrue(document.contains("(\"" + gradle + "\")"), gradle);
    }
    String official = document.substring(document.indexOf("<groupId>com.microsoft.onnxruntime"));
    assertFalse(official.substring(0, official.indexOf("</dependency>")).contains("<scope>"), "Official.java would not compile");
    assertTrue(document.contains("implementation(\"com.microsoft.onnxruntime:onnxruntime\")"));
    assertTrue(dependencies(Files.readString(Path.of("pom.xml"))).stream() // the official package that is tested
        .filter(one -> one.startsWith("com.microsoft")).allMatch(managed::contains));
    assertEquals(List.of("io.github.iobind:iobind-spark:" + VERSION + ":"),
        dependencies(Files.readString(Models.PROJECT.resolve("docs/spark.md"))));
  }

  /** The first program, by the line of the document; the jars are those that `make java` makes, in another folder. */
  @Tag("ci")
  @Test
  void firstProgram(@TempDir Path folder) throws Exception {
    String document = Files.readString(Models.PROJECT.resolve("docs/java.md"));
    Matcher found = Pattern.compile("```sh\nscripts/get-onnxruntime && scripts/get-models\n(.*?)```", Pattern.DOTALL)
        .matcher(document);
    assertTrue(found.find());
    assumeTrue(Files.exists(Models.PROJECT.resolve(".runtime/models/pp-ocr-cls.onnx")), "scripts/get-models has not been run");
    LoadingTest.jars(folder);
    String command = found.group(1).replace("dist/*", folder + "/*");
    Child child = Child.run(Map.of("ORT_NATIVE_LIB_PATH", ""), "bash", "-c", "cd " + Models.PROJECT + " && " + command);
    assertEquals(0, child.exit(), child.output());
    assertEquals(5, child.output().lines().filter(line -> line.startsWith("picture ")).count(), child.output());
    assertTrue(child.output().contains(5 * 3 * 48 * 192 * 4 + " bytes up"), child.output());
  }

  /** Without indentation. */
  private static String flat(String text) {
    return text.lines().map(String::strip).reduce("", (all, line) -> all + line + "\n");
  }
}
