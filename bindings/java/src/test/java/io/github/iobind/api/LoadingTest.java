package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.iobind.ffm.NativeLibrary;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How libiobind and ONNX Runtime are found, in JVMs of their own: from the class path and as a named module. */
class LoadingTest {
  private static final String MODULE = "io.github.iobind";
  private static final Path CLASSES = Path.of("target/classes").toAbsolutePath();
  private static final Path ORT = Models.PROJECT.resolve(".runtime/onnxruntime");

  @TempDir
  private static Path folder;

  private static Path api;
  private static Path natives;
  private static Path program;

  /** The two jars as users have them, and a small program in a module of its own. */
  @BeforeAll
  static void pack() throws Exception {
    jars(folder);
    api = folder.resolve("api.jar");
    natives = folder.resolve("natives.jar");
    Path source = Files.createDirectories(folder.resolve("source/program"));
    Files.writeString(folder.resolve("source/module-info.java"), "module program { requires io.github.iobind; }");
    Files.writeString(source.resolve("Main.java"), """
        package program;

        import io.github.iobind.api.OrtRuntimeFFM;

        public class Main {
          public static void main(String[] arguments) {
            System.out.println("module " + OrtRuntimeFFM.class.getModule().isNamed());
            System.out.println(OrtRuntimeFFM.iobindVersion());
            try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
              System.out.println("ORT " + runtime.ortVersion() + " by " + runtime.foundBy() + ": " + runtime.ortLibrary());
            }
          }
        }
        """);
    program = folder.resolve("program");
    Child javac = Child.run(Map.of(), Path.of(System.getProperty("java.home"), "bin", "javac").toString(), "-d",
        program.toString(), "-p", api.toString(), source.resolve("Main.java").toString(),
        folder.resolve("source/module-info.java").toString());
    assertEquals(0, javac.exit(), javac.output());
  }

  /** The package's jar and that of the natives, as scripts/build-java makes them. */
  static void jars(Path folder) throws Exception {
    jar(folder.resolve("api.jar"), CLASSES);
    try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(folder.resolve("natives.jar")))) {
      Path library = Path.of(System.getProperty("iobind.library"));
      for (String name : new String[] {"iobind", "iobind_java", "iobind_vdev"}) {
        out.putNextEntry(new JarEntry("natives/" + NativeLibrary.platform() + "/" + System.mapLibraryName(name)));
        Files.copy(library.resolveSibling(System.mapLibraryName(name)), out);
      }
    }
  }

  private static void jar(Path file, Path classes) throws Exception {
    try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(file)); Stream<Path> paths = Files.walk(classes)) {
      for (Path path : paths.filter(Files::isRegularFile).collect(Collectors.toList())) {
        out.putNextEntry(new JarEntry(classes.relativize(path).toString()));
        Files.copy(path, out);
      }
    }
  }

  private static String path(Object... parts) {
    return Arrays.stream(parts).map(Object::toString).collect(Collectors.joining(":"));
  }

  /** The environment of these programs: ONNX Runtime by ORT_NATIVE_LIB_PATH, or none. */
  private static Map<String, String> environment(Path ort) {
    Map<String, String> environment = new HashMap<>();
    environment.put("ORT_NATIVE_LIB_PATH", ort == null ? null : ort.toString());
    environment.put("LD_LIBRARY_PATH", null);
    return environment;
  }

  @Test
  void classPath() throws Exception {
    Child child = Child.java(environment(ORT), "--enable-native-access=ALL-UNNAMED", "-cp", path(api, natives, program),
        "program.Main");
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().startsWith("module false\n" + System.getProperty("iobind.version") + " (natives jar: "),
        child.output());
    assertTrue(child.output().contains(" by ORT_NATIVE_LIB_PATH: " + ORT.resolve("libonnxruntime.so").toRealPath()),
        child.output());
    assertFalse(child.output().contains("WARNING"), child.output());
  }

  @Test
  void modulePath() throws Exception {
    // The natives jar on the module path, as an automatic module that has to be asked for, and on the class path.
    for (String[] where : new String[][] {{"-p", path(api, natives, program), "--add-modules", "natives"},
        {"-p", path(api, program), "-cp", natives.toString()}}) {
      String[] arguments = Stream.of(new String[] {"--enable-native-access=" + MODULE}, where,
          new String[] {"-m", "program/program.Main"}).flatMap(Arrays::stream).toArray(String[]::new);
      Child child = Child.java(environment(ORT), arguments);
      assertEquals(0, child.exit(), child.output());
      assertTrue(child.output().startsWith("module true\n" + System.getProperty("iobind.version") + " (natives jar: "),
          child.output());
      assertFalse(child.output().contains("WARNING"), child.output());
    }
  }

  /** An image by jlink has the package and the program; the natives jar, an automatic module, stays beside it on the class path. */
  @Tag("ci")
  @Test
  void jlinkedImage() throws Exception {
    Path jlink = Path.of(System.getProperty("java.home"), "bin", "jlink");
    assumeTrue(Files.exists(jlink), "this JDK has no jlink");
    Path image = folder.resolve("image");
    Child made = Child.run(Map.of(), jlink.toString(), "-p", path(api, program), "--add-modules", "program", "--output", image.toString());
    assertEquals(0, made.exit(), made.output());
    Child child = Child.run(environment(ORT), image.resolve("bin/java").toString(), "--enable-native-access=" + MODULE, "-cp",
        natives.toString(), "-m", "program/program.Main");
    assertEquals(0, child.exit(), child.output());
    assertTrue(child.output().startsWith("module true\n" + System.getProperty("iobind.version") + " (natives jar: "), child.output());
    assertTrue(child.output().contains(" by ORT_NATIVE_LIB_PATH: "), child.output());
    Child refused = Child.run(Map.of(), jlink.toString(), "-p", path(api, natives, program), "--add-modules", "program,natives", "--output",
        folder.resolve("other").toString());
    assertTrue(refused.output().contains("automatic module cannot be used with jlink"), refused.output());
  }

  @Test
  void deniedNativeAccessNamesTheFlag() throws Exception {
    // From JDK 24 on access is denied where the program says so, before that to all modules but those that are named.
    boolean deniable = Runtime.version().feature() >= 24;
    String deny = deniable ? "--illegal-native-access=deny" : "--enable-native-access=java.base";
    Path temporary = Files.createDirectory(folder.resolve("tmp-denied"));
    String there = "-Djava.io.tmpdir=" + temporary;
    Child child = Child.java(environment(ORT), there, deny, "-cp", path(api, natives, program), "program.Main");
    assertTrue(child.output().contains("start java with --enable-native-access=ALL-UNNAMED"), child.output());
    child = Child.java(environment(ORT), there, deny, "-p", path(api, program), "-cp", natives.toString(), "-m",
        "program/program.Main");
    assertTrue(child.output().contains("start java with --enable-native-access=" + MODULE), child.output());
    try (Stream<Path> left = Files.list(temporary)) {
      assertEquals(0, left.count());
    }
  }

  @Test
  void libiobindIsNotThere() throws Exception {
    Child child = Child.java(environment(ORT), "--enable-native-access=ALL-UNNAMED", "-cp", path(api, program), "program.Main");
    assertEquals(1, child.exit());
    assertTrue(child.output().contains("UnsatisfiedLinkError: libiobind was not found. Tried: natives jar: no natives/"
        + NativeLibrary.platform()), child.output());
    assertTrue(child.output().contains("the system's libiobind.so.1: not found"), child.output());
    child = Child.java(environment(ORT), "--enable-native-access=ALL-UNNAMED", "-Diobind.library=/nowhere/libiobind.so", "-cp",
        path(api, natives, program), "program.Main");
    assertEquals(1, child.exit());
    assertTrue(child.output().contains("-Diobind.library: no file /nowhere/libiobind.so"), child.output());
    child = Child.java(environment(ORT), "--enable-native-access=ALL-UNNAMED", "-Diobind.library=" + api, "-cp",
        path(api, program), "program.Main");
    assertTrue(child.output().contains("does not load"), child.output());
  }

  /** libiobind_java is taken from beside the file that the property names, else from the natives jar. */
  @Tag("ci")
  @Test
  void libiobindJavaIsNotThere() throws Exception {
    Path alone = Files.createDirectory(folder.resolve("alone")).resolve(System.mapLibraryName("iobind"));
    Files.copy(Path.of(System.getProperty("iobind.library")), alone);
    String named = "-Diobind.library=" + alone, other = System.mapLibraryName("iobind_java");
    Child child = Child.java(environment(ORT), "--enable-native-access=ALL-UNNAMED", named, "-cp", path(api, program), "program.Main");
    assertEquals(1, child.exit());
    assertTrue(child.output().contains("libiobind_java, which this package needs beside libiobind, was not found. Tried: beside libiobind: "
        + "no file " + alone.resolveSibling(other) + "; natives jar: no natives/" + NativeLibrary.platform() + "/" + other), child.output());
    for (Path part : new Path[] {natives, program}) {
      if (part.equals(program)) Files.copy(Path.of(System.getProperty("iobind.library")).resolveSibling(other), alone.resolveSibling(other));
      child = Child.java(environment(ORT), "--enable-native-access=ALL-UNNAMED", named, "-cp", path(api, program, part), "program.Main");
      assertEquals(0, child.exit(), child.output());
      assertTrue(child.output().contains(" (-Diobind.library: " + alone), child.output());
    }
  }

  @Tag("ci")
  @Test
  void onnxRuntimeIsNotThere() throws Exception {
    Child child = Child.java(environment(folder), "--enable-native-access=ALL-UNNAMED", "-cp", path(api, natives, program),
        "program.Main");
    assertEquals(1, child.exit());
    assertTrue(child.output().contains("OrtFFMException") && child.output().contains("ORT_NATIVE_LIB_PATH"), child.output());
    // The natives jar is unpacked away from any runtime folder: then only the system can have one.
    child = Child.java(environment(null), "--enable-native-access=ALL-UNNAMED", "-cp", path(api, natives, program),
        "program.Main");
    if (child.exit() == 0) assumeTrue(false, "this system has an ONNX Runtime: " + child.output());
    assertTrue(child.output().contains("the official onnxruntime jar: not on the class path"), child.output());
    assertTrue(child.output().contains("libonnxruntime"), child.output());
  }

  /** The virtual accelerator is in the natives jar; it is there for a program that names it, and for no other. */
  @Tag("ci")
  @Test
  void theVirtualAcceleratorIsInTheJar() throws Exception {
    Path source = Files.writeString(folder.resolve("Devices.java"), """
        import io.github.iobind.api.*;

        public class Devices {
          public static void main(String[] arguments) {
            try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
              System.out.println(runtime.devices().size());
              System.out.println(runtime.device(DeviceSpec.of("vdev:0,cpu")).spec());
              System.out.println(runtime.device(DeviceSpec.of("vdev:1")).spec());
            }
          }
        }
        """);
    Path temporary = Files.createDirectory(folder.resolve("tmp-vdev"));
    Map<String, String> environment = environment(ORT);
    environment.put("VDEV_DEVICES", "2");
    Child child = Child.java(environment, "-Djava.io.tmpdir=" + temporary, "--enable-native-access=ALL-UNNAMED", "-cp",
        path(api, natives), source.toString());
    assertEquals(0, child.exit(), child.output());
    assertEquals("1\nvdev:0\nvdev:1", child.output().strip());
    try (Stream<Path> left = Files.list(temporary)) {
      assertEquals(0, left.count());
    }
  }

  /** Nothing is left in the temporary folder. */
  @Tag("ci")
  @Test
  void theUnpackedLibraryIsGone() throws Exception {
    Path temporary = Files.createDirectory(folder.resolve("tmp"));
    Child child = Child.java(environment(ORT), "-Djava.io.tmpdir=" + temporary, "--enable-native-access=ALL-UNNAMED", "-cp",
        path(api, natives, program), "program.Main");
    assertEquals(0, child.exit(), child.output());
    try (Stream<Path> left = Files.list(temporary)) {
      assertEquals(0, left.count());
    }
    child = Child.java(environment(ORT), "-Djava.io.tmpdir=/nowhere", "--enable-native-access=ALL-UNNAMED", "-cp",
        path(api, natives, program), "program.Main");
    assertTrue(child.output().contains("it cannot be unpacked into /nowhere"), child.output());
  }
}
