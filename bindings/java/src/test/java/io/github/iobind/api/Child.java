package io.github.iobind.api;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A JVM of its own, for tests of what a process does. */
record Child(int exit, String output) {
  static final String JAVA = Path.of(System.getProperty("java.home"), "bin", "java").toString();
  static final String LIBRARY = "-Diobind.library=" + System.getProperty("iobind.library");
  static final String CLASS_PATH = System.getProperty("java.class.path");

  /** Runs java with these arguments and environment variables; a null value removes one. */
  static Child java(Map<String, String> environment, String... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of(JAVA, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(List.of(arguments));
    return run(environment, command.toArray(String[]::new));
  }

  static Child run(Map<String, String> environment, String... command) throws IOException, InterruptedException {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("ORT_DISABLE_TELEMETRY", "1");
    environment.forEach((key, value) -> {
      if (value == null) {
        builder.environment().remove(key);
      } else {
        builder.environment().put(key, value);
      }
    });
    Process process = builder.start();
    process.getOutputStream().close();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return new Child(process.waitFor(), output);
  }

  /** Runs a class of the tests in class-path mode. */
  static Child test(Map<String, String> environment, Class<?> type, String... arguments) throws Exception {
    List<String> all = new ArrayList<>(List.of("--enable-native-access=ALL-UNNAMED", LIBRARY,
        "-Diobind.project=" + System.getProperty("iobind.project"), "-Diobind.build=" + System.getProperty("iobind.build"),
        "-cp", CLASS_PATH, type.getName()));
    all.addAll(List.of(arguments));
    return java(environment, all.toArray(String[]::new));
  }
}
