package io.github.iobind.spark.executor;

import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.OrtBindingPool;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.spark.SessionSpec;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkFiles;
import org.apache.spark.TaskContext;

/** A session of this executor, with bindings for its tasks: one for each spec and device. */
final class HeldSession {
  private static final Map<Key, HeldSession> HELD = new HashMap<>();
  private static OrtRuntimeFFM runtime;

  private record Key(SessionSpec spec, String device) {}

  private final OrtSessionFFM session;
  private final RowLayout layout;
  private final OrtBindingPool<Long> bindings;

  private HeldSession(SessionSpec spec, String device) {
    OrtSessionFFM.Options options = new OrtSessionFFM.Options().threads(spec.threads(), 0)
        .devices(Arrays.stream(device.split(",")).map(String::strip).map(DeviceSpec::of).toArray(DeviceSpec[]::new));
    if (spec.isStrict()) options.strict();
    spec.epOptions().forEach(options::ep);
    spec.configEntries().forEach(options::config);
    spec.dims().forEach(options::freeDimension);
    session = spec.bytes() != null ? OrtSessionFFM.create(runtime, spec.bytes(), options)
        : OrtSessionFFM.create(runtime, file(spec.file()), options);
    try {
      layout = new RowLayout(session, spec.rows());
    } catch (RuntimeException e) {
      session.close();
      throw e;
    }
    bindings = new OrtBindingPool<>(session, spec.bindings(), layout::prepare);
  }

  /** This executor's session of a spec, on the device of this thread's task. */
  static HeldSession of(SessionSpec spec) {
    Key key = new Key(spec, spec.device(resources()));
    synchronized (HELD) {
      HeldSession found = HELD.get(key);
      if (found == null) {
        if (runtime == null) runtime = OrtRuntimeFFM.create();
        found = new HeldSession(spec, key.device());
        HELD.put(key, found);
      }
      return found;
    }
  }

  static void release() {
    synchronized (HELD) {
      for (HeldSession held : HELD.values()) {
        held.bindings.close();
        held.session.close();
      }
      HELD.clear();
    }
  }

  private static Map<String, List<String>> resources() {
    Map<String, List<String>> found = new HashMap<>();
    TaskContext task = TaskContext.get();
    if (task != null) task.resourcesJMap().forEach((name, resource) -> found.put(name, List.of(resource.addresses())));
    return found;
  }

  private static Path file(String name) {
    Path path = Path.of(name);
    if (Files.exists(path) || TaskContext.get() == null) return path;
    Path sent = Path.of(SparkFiles.get(path.getFileName().toString()));
    return Files.exists(sent) ? sent : path;
  }

  OrtSessionFFM session() {
    return session;
  }

  RowLayout layout() {
    return layout;
  }

  OrtBindingPool<Long> bindings() {
    return bindings;
  }
}
