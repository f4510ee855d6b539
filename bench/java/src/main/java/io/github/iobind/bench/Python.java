package io.github.iobind.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;

/** Python's ONNX Runtime in a process of its own, which takes steps when it is told to. */
final class Python implements AutoCloseable {
  private final Process process;
  private final Writer out;
  private final BufferedReader in;

  Python(String name, String model) throws IOException {
    process = new ProcessBuilder(System.getProperty("bench.python"), System.getProperty("bench.script"), name, model)
        .redirectError(ProcessBuilder.Redirect.DISCARD).start();
    out = process.outputWriter();
    in = process.inputReader();
  }

  void steps(int count) throws IOException {
    out.write(count + "\n");
    out.flush();
    if (!"done".equals(in.readLine())) throw new IOException("Python gave up");
  }

  @Override
  public void close() {
    process.destroy();
  }
}
