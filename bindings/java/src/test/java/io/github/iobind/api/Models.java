package io.github.iobind.api;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Models for tests, made by the program make-model of the C tests. */
final class Models {
  static final Path PROJECT = Path.of(System.getProperty("iobind.project")).normalize();
  static final Path BUILD = Path.of(System.getProperty("iobind.build")).normalize();
  private static final Map<String, byte[]> MADE = new ConcurrentHashMap<>();

  private Models() {}

  /** A model by its spec, such as "add dims=n,3". */
  static byte[] bytes(String spec) {
    return MADE.computeIfAbsent(spec, Models::make);
  }

  /** Writes a model to a file. */
  static Path file(Path folder, String spec) throws IOException {
    return Files.write(folder.resolve(spec.replaceAll("[^a-z0-9]", "_") + ".onnx"), bytes(spec));
  }

  private static byte[] make(String spec) {
    try {
      Path file = Files.createTempFile("iobind", ".onnx");
      List<String> command = new ArrayList<>(List.of(BUILD.resolve("bin/make-model").toString()));
      command.addAll(List.of(spec.split(" ")));
      command.add(file.toString());
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      String output = new String(process.getInputStream().readAllBytes());
      if (process.waitFor() != 0) throw new IllegalStateException(spec + ": " + output);
      byte[] bytes = Files.readAllBytes(file);
      Files.delete(file);
      return bytes;
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(spec, e);
    }
  }

  /** A session on the CPU or another device. */
  static OrtSessionFFM session(OrtRuntimeFFM runtime, String spec, DeviceSpec... devices) {
    return OrtSessionFFM.create(runtime, bytes(spec), new OrtSessionFFM.Options().devices(devices));
  }
}
