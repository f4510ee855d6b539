package io.github.iobind.bench;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import java.nio.file.Files;
import java.nio.file.Path;

/** One case: the same model by raw C calls, by iobind, by the official package and by Python, with one thread each. */
abstract class Side implements AutoCloseable {
  /** Steps that one measured call takes, so that the call itself does not count. */
  static final int STEPS = 256;

  final String model;
  final Raw raw;
  final OrtRuntimeFFM runtime;
  final OrtSessionFFM session;
  final OrtIoBindingFFM binding;
  final OrtEnvironment environment = OrtEnvironment.getEnvironment();
  final OrtSession official;
  final Python python;

  Side(String name) throws Throwable {
    model = Path.of(System.getProperty("bench.models"), name + ".onnx").toString();
    byte[] bytes = Files.readAllBytes(Path.of(model));
    raw = new Raw(bytes);
    runtime = OrtRuntimeFFM.create();
    session = OrtSessionFFM.create(runtime, bytes, new OrtSessionFFM.Options().threads(1, 1));
    binding = session.createBinding();
    official = environment.createSession(bytes, options());
    python = new Python(name, model);
  }

  private static OrtSession.SessionOptions options() throws OrtException {
    OrtSession.SessionOptions options = new OrtSession.SessionOptions();
    options.setIntraOpNumThreads(1);
    options.setInterOpNumThreads(1);
    return options;
  }

  @Override
  public void close() throws Exception {
    python.close();
    official.close();
    binding.close();
    session.close();
    runtime.close();
    raw.close();
  }
}
