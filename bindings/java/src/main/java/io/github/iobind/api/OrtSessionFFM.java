package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * A model on its devices. A session may have any number of bindings, which different threads may use concurrently; each binding is
 * externally synchronized. A session is thread-safe. Bindings, and values fetched from them, remain valid after {@code close}.
 */
public final class OrtSessionFFM implements AutoCloseable {
  private final Handle handle;
  private final OrtRuntimeFFM runtime;
  private final OrtRuntimeFFM keptRuntime;
  private final boolean ownsRuntime;
  private final OfficialOrt.Session official;
  /** Of a session that somebody else will close: its runs on streams, which nobody may have seen to pass. */
  private final Set<InFlight.Work> works = ConcurrentHashMap.newKeySet();
  /** And its pipelines that are open. */
  private final Set<Handle> pipelines = ConcurrentHashMap.newKeySet();
  private final List<OrtValueInfo> inputs;
  private final List<OrtValueInfo> outputs;
  private final Place[] inputPlaces;
  private final Names inputNames;
  private final Names outputNames;
  private final long nodeCount;
  private final ModelInfo model;
  private final Map<String, String> metadata;
  private volatile @Nullable RunListener listener;

  /** Options of a session; every setter returns this object. */
  public static final class Options {
    private final List<DeviceSpec> devices = new ArrayList<>();
    private final Map<String, String> ep = new LinkedHashMap<>();
    private final Map<String, String> config = new LinkedHashMap<>();
    private final Map<String, Long> dims = new LinkedHashMap<>();
    private Policy policy = Policy.NONE;
    private Optimization optimization = Optimization.ALL;
    private int flags;
    private int intraOpThreads;
    private int interOpThreads;
    private String profile;
    private int graphLimit;
    private OrtVerification verification = OrtVerification.NONE;
    private OrtStreamFFM ownStream;

    /** All defaults: the CPU. */
    public Options() {}

    /**
     * The devices in order of preference. Nodes that none of them takes run on the CPU.
     *
     * @param specs the devices
     * @return this
     */
    public Options devices(DeviceSpec... specs) {
      for (DeviceSpec spec : Objects.requireNonNull(specs, "specs")) devices.add(Objects.requireNonNull(spec, "specs"));
      return this;
    }

    /**
     * How ONNX Runtime chooses devices if none is named.
     *
     * @param value the policy
     * @return this
     */
    public Options policy(Policy value) {
      policy = Objects.requireNonNull(value, "value");
      return this;
    }

    /**
     * Refuse a model if no named device takes one of its nodes, instead of running the node on the CPU silently.
     *
     * @return this
     */
    public Options strict() {
      flags |= Constants.SESSION_STRICT;
      return this;
    }

    /**
     * Record which EP runs which node, for {@link OrtSessionFFM#nodes}.
     *
     * @return this
     */
    public Options placement() {
      flags |= Constants.SESSION_PLACEMENT;
      return this;
    }

    /**
     * Disable ONNX Runtime's reuse of buffers within a run.
     *
     * @return this
     */
    public Options noMemoryReuse() {
      flags |= Constants.SESSION_NO_MEMORY_REUSE;
      return this;
    }

    /**
     * Hash a model that is passed as bytes, so that states of the session can be kept in files: {@link OrtStateFFM#save}. A session from a
     * file does not need this; the file is hashed with the first such state.
     *
     * @return this
     */
    public Options identify() {
      flags |= Constants.SESSION_IDENTIFY;
      return this;
    }

    /**
     * How far ONNX Runtime optimizes the graph.
     *
     * @param value the level
     * @return this
     */
    public Options optimization(Optimization value) {
      optimization = Objects.requireNonNull(value, "value");
      return this;
    }

    /**
     * Threads within an operator and between operators.
     *
     * @param intraOp 0: ONNX Runtime's default, the number of cores
     * @param interOp 0: ONNX Runtime's default
     * @return this
     */
    public Options threads(int intraOp, int interOp) {
      intraOpThreads = intraOp;
      interOpThreads = interOp;
      return this;
    }

    /**
     * An option of an execution provider.
     *
     * @param key "KEY" for the first device that is not the CPU, or "NAME.KEY", such as "cuda.gpu_mem_limit"
     * @param value its value
     * @return this
     */
    public Options ep(String key, String value) {
      ep.put(Objects.requireNonNull(key, "key"), Objects.requireNonNull(value, "value"));
      return this;
    }

    /**
     * Make the first device that is not the CPU compute on the caller's stream, by its execution provider's options
     * {@code user_compute_stream} and {@code has_user_compute_stream}, which CUDA has. The caller synchronizes it. To order runs on a
     * stream of this package, pass that to {@link OrtIoBindingFFM#runWithBindings(OrtStreamFFM, OrtEventFFM)}.
     *
     * @param nativeStream on CUDA a {@code cudaStream_t}; it must outlive the session
     * @return this
     */
    public Options stream(MemorySegment nativeStream) {
      String address = Long.toUnsignedString(Objects.requireNonNull(nativeStream, "nativeStream").address());
      return ep("has_user_compute_stream", "1").ep("user_compute_stream", address);
    }

    /**
     * A session config entry of ONNX Runtime.
     *
     * @param key such as "session.use_env_allocators"
     * @param value its value
     * @return this
     */
    public Options config(String key, String value) {
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
    public Options freeDimension(String name, long value) {
      dims.put(Objects.requireNonNull(name, "name"), value);
      return this;
    }

    /**
     * Records ONNX Runtime's profile.
     *
     * @param prefix the beginning of the JSON file's path; see {@link OrtSessionFFM#endProfile}
     * @return this
     * @throws OrtFFMException INVALID_ARGUMENT: the path is in another file system of Java, such as a zip file
     */
    public Options profile(Path prefix) {
      profile = Texts.path(prefix, "profile");
      return this;
    }

    /**
     * Make the session compute on a stream of this package, which it retains: runs of all its bindings execute there one after another.
     *
     * @param stream of the only device of the session that has native streams; it may be closed before the session
     * @return this
     */
    public Options stream(OrtStreamFFM stream) {
      ownStream = Objects.requireNonNull(stream, "stream");
      return this;
    }

    /**
     * Make the execution provider capture runs as graphs, and replay a graph if a run reads and writes the memory that was captured. CUDA,
     * WebGPU and the virtual accelerator support this. A binding that has graphs must be run by the thread that captured them, not by
     * {@link OrtIoBindingFFM#runAsync} or virtual threads.
     *
     * @param limit the maximum number of graphs of a binding; 0, the default: no captures
     * @return this
     */
    public Options graphs(int limit) {
      graphLimit = limit;
      return this;
    }

    /**
     * Repeat the first runs on the CPU, and compare the outputs. If they differ, the run throws with {@link OrtStatus#RESULT}.
     *
     * @param how which runs, and how far they may differ
     * @return this
     */
    public Options verify(OrtVerification how) {
      verification = Objects.requireNonNull(how, "how");
      return this;
    }

    private MemorySegment write(Arena arena, OrtRuntimeFFM runtime) {
      StructLayout layout = Layouts.SESSION_OPTIONS;
      MemorySegment struct = Layouts.allocate(arena, layout);
      Layouts.setInt(struct, layout, "flags", flags);
      Layouts.setInt(struct, layout, "policy", policy.ordinal());
      Layouts.setInt(struct, layout, "optimization", optimization.ordinal());
      Layouts.setInt(struct, layout, "intra_op_threads", intraOpThreads);
      Layouts.setInt(struct, layout, "inter_op_threads", interOpThreads);
      long[] deviceAddresses = devices.stream().mapToLong(spec -> runtime.resolve(spec).device()).toArray();
      Layouts.setPointer(struct, layout, "devices", OrtRuntimeFFM.longs(arena, deviceAddresses));
      Layouts.setLong(struct, layout, "device_count", deviceAddresses.length);
      Layouts.setPointer(struct, layout, "ep_keys", OrtRuntimeFFM.strings(arena, List.copyOf(ep.keySet())));
      Layouts.setPointer(struct, layout, "ep_values", OrtRuntimeFFM.strings(arena, List.copyOf(ep.values())));
      Layouts.setLong(struct, layout, "ep_option_count", ep.size());
      Layouts.setPointer(struct, layout, "config_keys", OrtRuntimeFFM.strings(arena, List.copyOf(config.keySet())));
      Layouts.setPointer(struct, layout, "config_values", OrtRuntimeFFM.strings(arena, List.copyOf(config.values())));
      Layouts.setLong(struct, layout, "config_count", config.size());
      Layouts.setPointer(struct, layout, "dim_names", OrtRuntimeFFM.strings(arena, List.copyOf(dims.keySet())));
      long[] dimValues = dims.values().stream().mapToLong(Long::longValue).toArray();
      Layouts.setPointer(struct, layout, "dim_values", OrtRuntimeFFM.longs(arena, dimValues));
      Layouts.setLong(struct, layout, "dim_count", dims.size());
      Layouts.setLong(struct, layout, "graph_limit", graphLimit);
      verification.write(struct.asSlice(Layouts.offset(layout, "verify"), Layouts.VERIFY));
      if (profile != null) Layouts.setPointer(struct, layout, "profile", Texts.allocate(arena, profile, "profile"));
      return struct;
    }
  }

  /** How ONNX Runtime chooses devices. */
  public enum Policy {
    /** The devices that the options name; the CPU if they name none. */
    NONE,
    /** ONNX Runtime's default. */
    DEFAULT,
    /** The CPU, if possible. */
    PREFER_CPU,
    /** An NPU, if possible. */
    PREFER_NPU,
    /** A GPU, if possible. */
    PREFER_GPU,
    /** The fastest. */
    MAX_PERFORMANCE,
    /** The most work for the power. */
    MAX_EFFICIENCY,
    /** The least power. */
    MIN_POWER
  }

  /** How far ONNX Runtime optimizes the graph. */
  public enum Optimization {
    /** All optimizations. */
    ALL,
    /** Nothing. */
    NONE,
    /** Optimizations that are valid on every device. */
    BASIC,
    /** Also those that are valid on the chosen device. */
    EXTENDED,
    /** Also changes of the data layout. */
    LAYOUT
  }

  /**
   * Which EP runs a node.
   *
   * @param name the node's name
   * @param domain "" is ONNX's own
   * @param opType such as "Conv"
   * @param epName the EP
   */
  public record Node(String name, String domain, String opType, String epName) {}

  /** Receives the end of each run, for a program's metrics. */
  @FunctionalInterface
  public interface RunListener {
    /**
     * A run has ended. Called on the thread that ran it, within the binding's call; exceptions are ignored. It may close objects that no
     * call uses, such as another stream; closing an object that a call uses, such as the binding itself, fails with INVALID_STATE.
     *
     * @param binding the binding of the run; it must not be used or closed here
     * @param nanos the duration in nanoseconds
     * @param failure the failure of the run; null: it succeeded
     */
    void ran(OrtIoBindingFFM binding, long nanos, @Nullable OrtFFMException failure);
  }

  private OrtSessionFFM(OrtRuntimeFFM runtime, boolean ownsRuntime, long address, OfficialOrt.Session official) {
    Handle needed = runtime.handle();
    needed.keep();
    LongConsumer destroy = session -> {
      try {
        Iobind.sessionDestroy(session);
      } finally {
        needed.letGo();
      }
    };
    this.handle = official == null ? Handle.of(this, address, destroy) : adopted(this, address, destroy, works, pipelines);
    this.runtime = runtime;
    this.keptRuntime = runtime.kept();
    this.ownsRuntime = ownsRuntime;
    this.official = official;
    try (Scratch scratch = Scratch.take()) {
      MemorySegment info = scratch.struct(Layouts.SESSION_INFO);
      scratch.check(Iobind.sessionGetInfo(address, info, scratch.error()));
      long inputCount = Layouts.getLong(info, Layouts.SESSION_INFO, "input_count");
      long outputCount = Layouts.getLong(info, Layouts.SESSION_INFO, "output_count");
      nodeCount = Layouts.getLong(info, Layouts.SESSION_INFO, "node_count");
      model = ModelInfo.of(info);
      metadata = readMetadata(scratch, address, Layouts.getLong(info, Layouts.SESSION_INFO, "metadata_count"));
      inputPlaces = new Place[(int) inputCount];
      inputs = read(scratch, address, inputCount, true);
      outputs = read(scratch, address, outputCount, false);
    }
    inputNames = new Names("input", inputs);
    outputNames = new Names("output", outputs);
  }

  /** The handle of a session that somebody else will close: when it is gone, nothing of it runs any more. */
  private static Handle adopted(OrtSessionFFM owner, long address, LongConsumer destroy, Set<InFlight.Work> works,
      Set<Handle> pipelines) {
    return Handle.slow(owner, address, session -> {
      try {
        for (InFlight.Work work : works) work.await(Deadline.NEVER);
        for (Handle pipeline : pipelines) pipeline.close();
      } finally {
        destroy.accept(session);
      }
    }, (session, deadline) -> {
      for (InFlight.Work work : works) {
        if (!work.await(deadline)) return false;
      }
      for (Handle pipeline : pipelines) {
        if (!pipeline.awaitQuiet(deadline)) return false;
      }
      return true;
    });
  }

  private static Map<String, String> readMetadata(Scratch scratch, long address, long count) {
    Map<String, String> entries = new LinkedHashMap<>();
    for (long i = 0; i < count; i++) {
      scratch.check(Iobind.sessionGetMetadata(address, i, scratch.out(0), scratch.out(1), scratch.error()));
      entries.put(Layouts.string(scratch.getLong(0)), Layouts.string(scratch.getLong(1)));
    }
    return Collections.unmodifiableMap(entries);
  }

  private List<OrtValueInfo> read(Scratch scratch, long address, long count, boolean isInput) {
    List<OrtValueInfo> values = new ArrayList<>();
    StructLayout layout = Layouts.VALUE_INFO;
    for (int i = 0; i < count; i++) {
      MemorySegment info = scratch.struct(layout);
      scratch.check(isInput ? Iobind.sessionGetInput(address, i, info, scratch.error())
          : Iobind.sessionGetOutput(address, i, info, scratch.error()));
      OrtValueInfo.Kind kind = OrtValueInfo.Kind.values()[Layouts.getInt(info, layout, "kind")];
      long rank = Layouts.getLong(info, layout, "rank"), device = Layouts.getLong(info, layout, "device");
      List<Long> shape = java.util.Arrays.stream(Layouts.longs(Layouts.getLong(info, layout, "dims"), rank)).boxed().toList();
      List<String> symbols = new ArrayList<>();
      for (long symbol : Layouts.longs(Layouts.getLong(info, layout, "symbols"), rank)) symbols.add(Layouts.string(symbol));
      Place place = device == 0 ? null : OrtRuntimeFFM.place(device, Layouts.getInt(info, layout, "memory"));
      if (isInput) inputPlaces[i] = place;
      values.add(new OrtValueInfo(Layouts.getString(info, layout, "name"), kind,
          OnnxTensorElementType.of(Layouts.getInt(info, layout, "dtype")), Layouts.getInt(info, layout, "has_shape") != 0,
              shape,
          List.copyOf(symbols), place == null ? null : place.spec(), Layouts.getString(info, layout, "memory_name")));
    }
    return List.copyOf(values);
  }

  // ---- making

  /**
   * Loads a model on the CPU, with its own runtime.
   *
   * @param model an ONNX or ORT file
   * @return the session
   * @throws OrtFFMException as {@link #create(OrtRuntimeFFM, Path, Options)} and {@link OrtRuntimeFFM#create()}
   */
  public static OrtSessionFFM create(Path model) {
    String path = file(model);
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
    try {
      return create(runtime, true, path, null, new Options());
    } catch (RuntimeException e) {
      runtime.close();
      throw e;
    }
  }

  /**
   * Loads a model.
   *
   * @param runtime the runtime
   * @param model an ONNX or ORT file
   * @param options how
   * @return the session
   * @throws OrtFFMException NOT_FOUND: no such file, or no such free dimension; IO; INVALID_ARGUMENT: also a path in another file system of
   *     Java, such as a zip file; RUNTIME: ONNX Runtime refuses the model or a device; WRONG_DEVICE, NOT_FOUND: a device does not exist
   */
  public static OrtSessionFFM create(OrtRuntimeFFM runtime, Path model, Options options) {
    return create(runtime, false, file(model), null, options);
  }

  /**
   * Loads a model from memory.
   *
   * @param runtime the runtime
   * @param model the bytes of an ONNX or ORT file
   * @param options how
   * @return the session
   * @throws OrtFFMException as {@link #create(OrtRuntimeFFM, Path, Options)}
   */
  public static OrtSessionFFM create(OrtRuntimeFFM runtime, byte[] model, Options options) {
    return create(runtime, false, null, Objects.requireNonNull(model, "model"), options);
  }

  private static String file(Path model) {
    return Texts.path(model, "OrtSessionFFM.create");
  }

  private static OrtSessionFFM create(OrtRuntimeFFM runtime, boolean ownsRuntime, String path, byte[] model, Options options) {
    Objects.requireNonNull(runtime, "runtime");
    Objects.requireNonNull(options, "options");
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment struct = options.write(arena, runtime);
      long address = runtime.enter();
      try {
        Layouts.setLong(struct, Layouts.SESSION_OPTIONS, "stream", OrtStreamFFM.enter(options.ownStream));
        if (path != null) {
          scratch.check(Iobind.sessionCreate(address, Texts.allocate(arena, path, "model"), struct, scratch.out(0), scratch.error()));
        } else {
          MemorySegment bytes = arena.allocate(Math.max(1, model.length), 16);
          MemorySegment.copy(model, 0, bytes, java.lang.foreign.ValueLayout.JAVA_BYTE, 0, model.length);
          scratch.check(Iobind.sessionCreateFromMemory(address, bytes, model.length, struct, scratch.out(0), scratch.error()));
        }
        return new OrtSessionFFM(runtime, ownsRuntime, scratch.getLong(0), null);
      } finally {
        if (Layouts.getLong(struct, Layouts.SESSION_OPTIONS, "stream") != 0) OrtStreamFFM.exit(options.ownStream);
        runtime.exit();
      }
    }
  }

  /**
   * Adopts a session of the official package: it uses the same native session in the same ONNX Runtime, and loads nothing again. Both
   * packages can run it. The caller closes the official session, after this session and its bindings. Use after that throws an
   * IllegalStateException.
   *
   * @param ortSession an {@code ai.onnxruntime.OrtSession}. This method's parameter type does not name it, so that this package works, and
   *     can be inspected by reflection, without the official one
   * @return the session; {@link #runtime} is that of the official package's ONNX Runtime
   * @throws OrtFFMException INVALID_ARGUMENT: something else; VERSION: the official package is older than 1.24
   * @throws IllegalStateException it is closed
   */
  public static OrtSessionFFM createFromOrtSession(AutoCloseable ortSession) {
    OfficialOrt.Session official = OfficialOrt.Session.of(Objects.requireNonNull(ortSession, "ortSession"));
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortApi(MemorySegment.ofAddress(official.api())));
    try {
      MemorySegment handle = MemorySegment.ofAddress(official.handle());
      return adopt(runtime, true, handle, () -> java.lang.ref.Reference.reachabilityFence(ortSession), official);
    } catch (RuntimeException e) {
      runtime.close();
      throw e;
    }
  }

  /**
   * Adopts a session that other native code has created with the runtime's ONNX Runtime. It works as any other session; its devices are
   * those of its inputs and outputs, and the CPU. For an {@code ai.onnxruntime.OrtSession} there is {@link #createFromOrtSession}.
   *
   * @param runtime that of the session's ONNX Runtime; see {@link OrtRuntimeFFM.Options#ortApi}
   * @param ortSession an {@code OrtSession *}; neither copied nor released
   * @param released called once, on any thread, when the native session is no longer used; it must not call this package. null: the native
   *     session must outlive this object, its bindings and values
   * @return the session
   * @throws OrtFFMException INVALID_ARGUMENT: a null address; NOT_SUPPORTED: the session is of another copy of ONNX Runtime; RUNTIME. After
   *     an error {@code released} is not called
   */
  public static OrtSessionFFM wrap(OrtRuntimeFFM runtime, MemorySegment ortSession, @Nullable Runnable released) {
    return adopt(runtime, false, ortSession, released, null);
  }

  /**
   * @param official the session of the official package; null: whoever has it learns by {@code released} when it may close it
   */
  static OrtSessionFFM adopt(OrtRuntimeFFM runtime, boolean ownsRuntime, MemorySegment ortSession, Runnable released,
      OfficialOrt.Session official) {
    long object = OrtInterop.address("wrap", ortSession);
    try (Scratch scratch = Scratch.take()) {
      long address = runtime.enter();
      long ticket = released == null ? 0 : Released.keep(released);
      try {
        int status = IobindInterop.sessionWrap(address, object, released == null ? MemorySegment.NULL : Released.DELETER, ticket,
            scratch.out(0), scratch.error());
        if (status != 0) Released.forget(ticket);
        scratch.check(status);
        return new OrtSessionFFM(runtime, ownsRuntime, scratch.getLong(0), official);
      } finally {
        runtime.exit();
      }
    }
  }

  // ---- what it is

  /**
   * The inputs.
   *
   * @return in the model's order
   */
  public List<OrtValueInfo> inputs() {
    return inputs;
  }

  /**
   * The outputs.
   *
   * @return in the model's order
   */
  public List<OrtValueInfo> outputs() {
    return outputs;
  }

  /**
   * The model's description.
   *
   * @return opset, version and texts
   */
  public ModelInfo model() {
    return model;
  }

  /**
   * The model's own metadata, such as labels or a vocabulary.
   *
   * @return in the order of their keys
   */
  public Map<String, String> metadata() {
    return metadata;
  }

  /**
   * The runtime of the session.
   *
   * @return the runtime; closed with the session if the session created it
   */
  public OrtRuntimeFFM runtime() {
    return runtime;
  }

  /**
   * The index of an input. Look it up once, before a loop.
   *
   * @param name its name
   * @return its index
   * @throws OrtFFMException NOT_FOUND: the message lists the existing names
   */
  public int inputIndex(String name) {
    return inputNames.index(name);
  }

  /**
   * The index of an output. Look it up once, before a loop.
   *
   * @param name its name
   * @return its index
   * @throws OrtFFMException NOT_FOUND: the message lists the existing names
   */
  public int outputIndex(String name) {
    return outputNames.index(name);
  }

  /**
   * Which EP runs which node, for a session created with {@link Options#placement}.
   *
   * @return grouped by EP; empty without that option
   */
  public List<Node> nodes() {
    List<Node> nodes = new ArrayList<>();
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        for (long i = 0; i < nodeCount; i++) {
          MemorySegment info = scratch.struct(Layouts.NODE_INFO);
          scratch.check(Iobind.sessionGetNode(address, i, info, scratch.error()));
          nodes.add(new Node(Layouts.getString(info, Layouts.NODE_INFO, "name"),
              Layouts.getString(info, Layouts.NODE_INFO, "domain"), Layouts.getString(info, Layouts.NODE_INFO, "op_type"),
              Layouts.getString(info, Layouts.NODE_INFO, "ep_name")));
        }
        return nodes;
      } finally {
        exit();
      }
    }
  }

  /**
   * The kind of the state that is carried from an output to an input. The first call reads the graph from the model's file, without the
   * weights.
   *
   * @param output the output's name
   * @param input the input's name
   * @return the kind; UNKNOWN also for a session that was adopted, or created from bytes without {@link Options#identify}
   * @throws OrtFFMException NOT_FOUND; IO: the model's file cannot be read, or has changed since the session was made; OUT_OF_MEMORY
   * @throws IllegalStateException the session is closed
   */
  public StateKind stateKind(String output, String input) {
    return StateKind.of(this, outputIndex(output), inputIndex(input));
  }

  // ---- use

  /**
   * Creates a binding: no input is bound, and each output is FRESH in the session's own output memory.
   *
   * @return the binding
   * @throws OrtFFMException OUT_OF_MEMORY, RUNTIME
   */
  public OrtIoBindingFFM createBinding() {
    long address = enter();
    try {
      return new OrtIoBindingFFM(this, nativeBinding(address));
    } finally {
      exit();
    }
  }

  private static long nativeBinding(long session) {
    try (Scratch scratch = Scratch.take()) {
      scratch.check(Iobind.bindingCreate(session, scratch.out(0), scratch.error()));
      return scratch.getLong(0);
    }
  }

  /**
   * Loads a state from a file that {@link OrtStateFFM#save} wrote, into the memory from which the session reads its inputs. The session
   * that saved it must have had the same model, on any device.
   *
   * @param path the file
   * @return the state; the caller closes it
   * @throws OrtFFMException IO: the file cannot be read, is not a state, is truncated or damaged, or is of another model: the message says
   *     what differs; VERSION: a newer iobind wrote it; NOT_SUPPORTED: the session was created from bytes without {@link Options#identify},
   *     or was adopted; INVALID_ARGUMENT: the path is in another file system of Java, such as a zip file; OUT_OF_MEMORY, RUNTIME
   * @throws IllegalStateException the session is closed
   */
  public OrtStateFFM loadState(Path path) {
    return OrtStateFFM.load(this, path);
  }

  /** A native binding for a constructor; a session that was made for it alone does not outlive a failure. */
  long newBinding(boolean isOwn) {
    try {
      long address = enter();
      try {
        return nativeBinding(address);
      } finally {
        exit();
      }
    } catch (RuntimeException e) {
      if (isOwn) close();
      throw e;
    }
  }

  /**
   * Sets a listener for later runs of all bindings, including those of {@link OrtIoBindingFFM#runAsync}. Runs on a stream are not reported,
   * because their duration is not known.
   *
   * @param runListener the listener; null: none
   */
  public void onRun(@Nullable RunListener runListener) {
    listener = runListener;
  }

  @Nullable RunListener listener() {
    return listener;
  }

  /**
   * Runs once without a binding. ONNX Runtime may copy all inputs and outputs over the link in each run.
   *
   * @param values one host-readable value for each input, in the session's order
   * @return new host values, null for outputs that are not tensors; the caller closes them
   * @throws OrtFFMException DTYPE, SHAPE, WRONG_DEVICE: an input does not match; INVALID_ARGUMENT: an input is missing; RUNTIME
   */
  public List<@Nullable OrtValueRef> run(List<OrtValueRef> values) {
    int entered = 0;
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      if (values.size() != inputs.size()) {
        throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "expected " + inputs.size() + " inputs, got " + values.size());
      }
      MemorySegment in = arena.allocate(JAVA_LONG, Math.max(1, inputs.size()));
      MemorySegment out = arena.allocate(JAVA_LONG, Math.max(1, outputs.size()));
      MemorySegment request = Layouts.allocate(arena, Layouts.RUN_REQUEST);
      Layouts.setLong(request, Layouts.RUN_REQUEST, "inputs", inputs.isEmpty() ? 0 : in.address());
      Layouts.setLong(request, Layouts.RUN_REQUEST, "input_count", inputs.size());
      long address = enter();
      try {
        for (; entered < values.size(); entered++) {
          OrtValueRef value = values.get(entered);
          in.setAtIndex(JAVA_LONG, entered, value == null ? 0 : value.enter());
        }
        Hold.during(Hold.arenas(values.stream().map(value -> value == null ? null : value.backing()).toArray(MemorySegment[]::new)),
            () -> scratch.check(Iobind.sessionRun(address, request, out, outputs.size(), scratch.error())));
      } finally {
        exit();
      }
      List<@Nullable OrtValueRef> results = new ArrayList<>();
      for (int i = 0; i < outputs.size(); i++) {
        long result = out.getAtIndex(JAVA_LONG, i);
        results.add(result == 0 ? null : new OrtValueRef(result, null));
      }
      return results;
    } finally {
      while (entered > 0) {
        OrtValueRef value = values.get(--entered);
        if (value != null) value.exit();
      }
    }
  }

  /**
   * Ends the profile of a session created with {@link Options#profile} and writes its file. Runs must be complete.
   *
   * @return the file
   * @throws OrtFFMException INVALID_STATE: no profile is being recorded
   */
  public Path endProfile() {
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        scratch.check(Iobind.sessionEndProfile(address, scratch.out(0), scratch.error()));
        return Path.of(Layouts.string(scratch.getLong(0)));
      } finally {
        exit();
      }
    }
  }

  /** The runtime for bindings, which need it also when it and this session are closed. */
  OrtRuntimeFFM keptRuntime() {
    return keptRuntime;
  }

  Place inputPlace(int index) {
    return inputPlaces[index];
  }

  /** Refuses the use of an official session that was closed. */
  void requireOpen() {
    if (official != null && official.isClosed()) throw official.gone();
  }

  long enter() {
    long address = handle.enter();
    if (official != null && official.isClosed()) {
      handle.exit();
      throw official.gone();
    }
    return address;
  }

  void exit() {
    handle.exit();
  }

  /** Whether somebody else closes the native session, who must be able to know that no run is in flight. */
  boolean isShared() {
    return official != null;
  }

  /** The session's calls, among them the runs of an adopted one. */
  Handle handle() {
    return handle;
  }

  /**
   * Begins a run, for which the close of an adopted session waits until {@link #endRun}.
   *
   * @return whether it does: not where the session is closed, whose bindings live on
   */
  boolean beginRun() {
    if (official == null) return false;
    boolean isCounted = handle.tryEnter();
    if (!official.isClosed()) return isCounted;
    endRun(isCounted);
    throw official.gone();
  }

  void endRun(boolean isCounted) {
    if (isCounted) handle.exit();
  }

  void runSubmitted(InFlight.Work work) {
    if (!isShared()) return;
    works.add(work);
    if (work.isOver()) works.remove(work); // its stream was closed meanwhile
  }

  void runPassed(InFlight.Work work) {
    if (work != null) works.remove(work);
  }

  /** A pipeline or a batch was made: what it runs is not seen here. */
  void pipelineOpened(Handle pipeline) {
    if (isShared()) pipelines.add(pipeline);
  }

  void pipelineClosed(Handle pipeline) {
    pipelines.remove(pipeline);
  }

  /**
   * Closes the session when the calls in it have returned; its bindings remain valid. An adopted session also waits for the runs of its
   * bindings, and closes its pipelines and batches, so that the official session can be closed next.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback, or a {@link RunListener}, while a call is in the session; an adopted session: in
   *     any callback from native code
   */
  @Override
  public void close() {
    closeBy(Deadline.NEVER);
  }

  /**
   * As {@link #close()}, with a time limit.
   *
   * @param timeout the longest time to wait for the calls in the session, and for the runs and pipelines of an adopted one
   * @return false if it timed out: the session is still open, and so are its pipelines
   * @throws OrtFFMException as {@link #close()}
   */
  public boolean close(Duration timeout) {
    return closeBy(Deadline.in(timeout));
  }

  boolean closeBy(Deadline deadline) {
    if (!handle.closeBy(deadline)) return false;
    if (ownsRuntime) runtime.close();
    return true;
  }
}
