package io.github.iobind.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The description of a Spark job's session. It has only text and numbers, which Spark sends to its executors. An executor creates one
 * session for all equal specs on a device, on first use, and all of its tasks share it. Every setter returns this object.
 */
public final class SessionSpec implements Serializable {
  private static final long serialVersionUID = 1;
  private static final Pattern RESOURCE = Pattern.compile("\\{(\\w+)\\}");

  private final String file;
  private final byte[] bytes;
  private String device = "cpu";
  private int threads = 1;
  private int bindings;
  private boolean isStrict;
  private final TreeMap<String, String> ep = new TreeMap<>();
  private final TreeMap<String, String> config = new TreeMap<>();
  private final TreeMap<String, Long> dims = new TreeMap<>();
  private final TreeMap<String, List<Long>> rows = new TreeMap<>();

  private SessionSpec(String file, byte[] bytes) {
    this.file = file;
    this.bytes = bytes;
  }

  /**
   * A model in a file.
   *
   * @param file on each executor, or the name of a file sent by {@code spark-submit --files} or {@code addFile}
   * @return the spec
   */
  public static SessionSpec of(String file) {
    return new SessionSpec(Objects.requireNonNull(file, "file"), null);
  }

  /**
   * A model in memory, which Spark sends to the executors with the job.
   *
   * @param model its bytes
   * @return the spec
   */
  public static SessionSpec of(byte[] model) {
    return new SessionSpec(null, model.clone());
  }

  /**
   * Sets the device. The default is the CPU.
   *
   * @param spec a device spec; {@code {gpu}} in it is the address of the resource {@code gpu} that Spark gave the task:
   *     {@code "cuda:{gpu}"}
   * @return this
   */
  public SessionSpec device(String spec) {
    device = Objects.requireNonNull(spec, "spec");
    return this;
  }

  /**
   * Sets the number of threads of one operator.
   *
   * @param count 0: all cores. The default is 1, because Spark runs a task for each core
   * @return this
   */
  public SessionSpec threads(int count) {
    threads = count;
    return this;
  }

  /**
   * Sets the maximum number of concurrent runs of an executor's session, each with its own memory; other tasks wait.
   *
   * @param count 0, the default: the number of processors
   * @return this
   */
  public SessionSpec bindings(int count) {
    bindings = count;
    return this;
  }

  /**
   * Makes a node that the device does not run an error.
   *
   * @return this
   */
  public SessionSpec strict() {
    isStrict = true;
    return this;
  }

  /**
   * Sets an option of an execution provider.
   *
   * @param key "KEY" for the device that is not the CPU, or "NAME.KEY"
   * @param value its value
   * @return this
   */
  public SessionSpec ep(String key, String value) {
    ep.put(Objects.requireNonNull(key, "key"), Objects.requireNonNull(value, "value"));
    return this;
  }

  /**
   * Sets a session config entry of ONNX Runtime.
   *
   * @param key such as "session.use_env_allocators"
   * @param value its value
   * @return this
   */
  public SessionSpec config(String key, String value) {
    config.put(Objects.requireNonNull(key, "key"), Objects.requireNonNull(value, "value"));
    return this;
  }

  /**
   * Fixes an open dim of the model.
   *
   * @param name the dim's name
   * @param value its value
   * @return this
   */
  public SessionSpec freeDimension(String name, long value) {
    dims.put(Objects.requireNonNull(name, "name"), value);
    return this;
  }

  /**
   * Sets the shape of a row of an input, if the model leaves dims other than the first open.
   *
   * @param input its name
   * @param shape the dims of a row: those of the input without the first
   * @return this
   */
  public SessionSpec row(String input, long... shape) {
    rows.put(Objects.requireNonNull(input, "input"), Arrays.stream(shape).boxed().toList());
    return this;
  }

  /**
   * The model's file.
   *
   * @return its path or name; null for a model in memory
   */
  public String file() {
    return file;
  }

  /**
   * The model's bytes.
   *
   * @return not copied; null for a file
   */
  public byte[] bytes() {
    return bytes;
  }

  /**
   * Threads of one operator.
   *
   * @return 0: all cores
   */
  public int threads() {
    return threads;
  }

  /**
   * The maximum number of concurrent runs.
   *
   * @return 1 or more
   */
  public int bindings() {
    return bindings > 0 ? bindings : Runtime.getRuntime().availableProcessors();
  }

  /**
   * Whether a node that the device does not run is an error.
   *
   * @return whether {@link #strict} was called
   */
  public boolean isStrict() {
    return isStrict;
  }

  /**
   * Options of execution providers.
   *
   * @return as set by {@link #ep}; unmodifiable
   */
  public Map<String, String> epOptions() {
    return Collections.unmodifiableMap(ep);
  }

  /**
   * Session config entries.
   *
   * @return as set by {@link #config}; unmodifiable
   */
  public Map<String, String> configEntries() {
    return Collections.unmodifiableMap(config);
  }

  /**
   * Values of open dims.
   *
   * @return as set by {@link #freeDimension}; unmodifiable
   */
  public Map<String, Long> dims() {
    return Collections.unmodifiableMap(dims);
  }

  /**
   * Shapes of rows, by input.
   *
   * @return as set by {@link #row}; unmodifiable
   */
  public Map<String, List<Long>> rows() {
    return Collections.unmodifiableMap(rows);
  }

  /**
   * The device for a task.
   *
   * @param resources addresses of the task's resources, by name
   * @return the device spec with the first address of each resource that it names
   * @throws IllegalStateException the task has no such resource
   */
  public String device(Map<String, List<String>> resources) {
    Matcher matcher = RESOURCE.matcher(device);
    StringBuilder result = new StringBuilder();
    while (matcher.find()) {
      List<String> addresses = resources.getOrDefault(matcher.group(1), List.of());
      if (addresses.isEmpty()) {
        throw new IllegalStateException("device '" + device + "': the task has no resource '" + matcher.group(1) + "', only "
            + (resources.isEmpty() ? "cores" : String.join(", ", resources.keySet())) + ": set spark.task.resource."
            + matcher.group(1) + ".amount and spark.executor.resource." + matcher.group(1) + ".amount");
      }
      matcher.appendReplacement(result, Matcher.quoteReplacement(addresses.get(0)));
    }
    return matcher.appendTail(result).toString();
  }

  /** Whether an executor creates one session for both. */
  @Override
  public boolean equals(Object object) {
    return object instanceof SessionSpec other && Objects.equals(file, other.file) && Arrays.equals(bytes, other.bytes)
        && device.equals(other.device) && threads == other.threads && bindings == other.bindings && isStrict == other.isStrict
        && ep.equals(other.ep) && config.equals(other.config) && dims.equals(other.dims)
        && rows.equals(other.rows);
  }

  @Override
  public int hashCode() {
    return Objects.hash(file, bytes == null ? 0 : bytes.length, device, threads, bindings, isStrict, ep, config, dims, rows);
  }

  @Override
  public String toString() {
    return (file != null ? file : "a model of " + bytes.length + " bytes") + " on " + device;
  }
}
