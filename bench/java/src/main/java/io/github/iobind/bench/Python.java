package io.github.iobind.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;

/** Python's ONNX Runtime in a process of its own, which takes steps when it is told to. */
final class Python implements AutoCloseable {
  private final Process process;
  private final Writer out;
  private final BufferedReader in;
  /** The version of its ONNX Runtime. */
  final String version;

  Python(String name, String model) throws IOException {
    process = new ProcessBuilder(System.getProperty("bench.python"), System.getProperty("bench.script"), name, model)
        .redirectError(ProcessBuilder.Redirect.DISCARD).start();
    out = process.outputWriter();
    in = process.inputReader();
    version = answer();
  }

  /** Takes steps; returns the nanoseconds of processor time that its thread took for them. */
  long steps(int count) throws IOException {
    out.write(count + "\n");
    out.flush();
    return Long.parseLong(answer());
  }

  private String answer() throws IOException {
    String line = in.readLine();
    if (line == null) throw new IOException("Python gave up: scripts/get-python makes the one that is needed");
    return line;
  }

  @Override
  public void close() {
    process.destroy();
  }
}
