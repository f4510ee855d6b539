package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.IobindJava;
import io.github.iobind.ffm.Layouts;
import io.github.iobind.ffm.NativeLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * One loaded ONNX Runtime: its environment, execution providers and devices.
 *
 * <p>There is one native runtime for each ONNX Runtime in the process. A second {@code create} for the same ONNX Runtime
 * returns another Java object over the same native runtime; its options are ignored, except EP libraries. ONNX Runtime is
 * searched for in this order: {@link Options#ortLibrary}; the environment variable {@code ORT_NATIVE_LIB_PATH} (a file or a
 * directory); the official {@code onnxruntime} package, if the program has it, whose copy is then shared; a copy that the
 * process has loaded; beside libiobind; the system's.
 *
 * <p>A runtime is thread-safe. Sessions, values and bindings remain valid after {@code close}.
 */
public final class OrtRuntimeFFM implements AutoCloseable {
  /** How many Java objects each native runtime has, by its address: a sink that comes with a later one is ignored. */
  private static final Map<Long, Integer> OBJECTS = new ConcurrentHashMap<>();

  private final Handle handle;
  private final Map<DeviceSpec, Place> resolved;
  /** The runtime as sessions and bindings know it, for whom it is there until they are gone, closed or not. */
  private final boolean isKept;
  private volatile boolean wasVdevLookedFor;

  /** Options of a runtime; every setter returns this object. */
  public static final class Options {
    private String ortLibrary;
    private final List<String> epLibraries = new ArrayList<>();
    private int flags;
    private LogSink log;
    private int logLevel;
    private long ortApi;
    private long ortApiBase;

    /** All defaults. */
    public Options() {}

    /**
     * Use this ONNX Runtime, and do not search for another.
     *
     * @param path its library, or the library's directory
     * @return this
     * @throws OrtFFMException INVALID_ARGUMENT: the path is in another file system of Java, such as a zip file
     */
    public Options ortLibrary(Path path) {
      ortLibrary = Texts.path(path, "ortLibrary");
      return this;
    }

    /**
     * Register an execution provider's library.
     *
     * @param library "FILE", "NAME=FILE", or a directory to search
     * @return this
     */
    public Options epLibrary(String library) {
      epLibraries.add(Objects.requireNonNull(library, "library"));
      return this;
    }

    /**
     * Do not search for other EP libraries than those named here.
     *
     * @return this
     */
    public Options noEpSearch() {
      flags |= Constants.RUNTIME_NO_EP_SEARCH;
      return this;
    }

    /**
     * Leave ONNX Runtime's telemetry on; by default it is disabled.
     *
     * @return this
     */
    public Options telemetry() {
      flags |= Constants.RUNTIME_TELEMETRY;
      return this;
    }

    /**
     * Let EPs offer software adapters on a machine without a GPU, such as WebGPU over a software Vulkan driver.
     *
     * @return this
     */
    public Options softwareDevices() {
      flags |= Constants.RUNTIME_SOFTWARE_DEVICES;
      return this;
    }

    /**
     * On CUDA devices, allocate tensors from a pool of NVIDIA's driver: creating or closing one does not wait for the device.
     * Other devices have no pools.
     *
     * @return this
     */
    public Options pools() {
      flags |= Constants.RUNTIME_POOLS;
      return this;
    }

    /**
     * Receive log lines; by default warnings and errors go to the {@code System.Logger} named {@code io.github.iobind}. With
     * the official package's ONNX Runtime and environment, only this package's own lines are logged there, and ONNX Runtime
     * writes its lines to stderr.
     *
     * @param level the lowest severity
     * @param sink receives the lines
     * @return this
     */
    public Options log(LogLevel level, LogSink sink) {
      logLevel = Objects.requireNonNull(level, "level").ordinal();
      log = Objects.requireNonNull(sink, "sink");
      return this;
    }

    /**
     * Use an ONNX Runtime that the process has already loaded, by its {@code const OrtApi *}. At most one of
     * {@link #ortLibrary}, {@link #ortApi} and {@link #ortApiBase} may be set.
     *
     * @param api the table of its functions
     * @return this
     */
    public Options ortApi(MemorySegment api) {
      ortApi = OrtInterop.address("ortApi", api);
      return this;
    }

    /**
     * Use an ONNX Runtime that the process has already loaded, by its {@code const OrtApiBase *}.
     *
     * @param base the result of its function {@code OrtGetApiBase}
     * @return this
     */
    public Options ortApiBase(MemorySegment base) {
      ortApiBase = OrtInterop.address("ortApiBase", base);
      return this;
    }

    private boolean namesOrt() {
      return ortLibrary != null || ortApi != 0 || ortApiBase != 0;
    }
  }

  /** The severity of a log line. */
  public enum LogLevel {
    /** Warnings and errors. */
    DEFAULT,
    /** Everything. */
    VERBOSE,
    /** Information. */
    INFO,
    /** Warnings. */
    WARNING,
    /** Errors. */
    ERROR
  }

  /** Receives log lines, on any thread, including ONNX Runtime's, and concurrently. Exceptions are ignored. */
  @FunctionalInterface
  public interface LogSink {
    /**
     * A line.
     *
     * @param level its severity
     * @param message one line; it must not call iobind
     */
    void log(LogLevel level, String message);
  }

  private OrtRuntimeFFM(long address) {
    handle = Handle.of(this, address, OrtRuntimeFFM::destroy);
    resolved = new ConcurrentHashMap<>();
    isKept = false;
  }

  private OrtRuntimeFFM(OrtRuntimeFFM closable) {
    handle = closable.handle;
    resolved = closable.resolved;
    isKept = true;
  }

  /** The runtime for what keeps its {@link #handle}. */
  OrtRuntimeFFM kept() {
    return new OrtRuntimeFFM(this);
  }

  Handle handle() {
    return handle;
  }

  /**
   * Finds and loads ONNX Runtime 1.24 or newer, with default options.
   *
   * @return the runtime
   * @throws OrtFFMException NOT_FOUND: the message lists what was tried; VERSION: it is too old
   * @throws UnsatisfiedLinkError libiobind was not found: the message lists what was tried
   */
  public static OrtRuntimeFFM create() {
    return create(new Options());
  }

  /**
   * Finds and loads ONNX Runtime 1.24 or newer.
   *
   * @param options how
   * @return the runtime
   * @throws OrtFFMException NOT_FOUND: no ONNX Runtime (the message lists what was tried), or a file of the EP libraries does
   *     not exist; VERSION: it is too old
   * @throws UnsatisfiedLinkError libiobind was not found: the message lists what was tried
   * @throws IllegalCallerException native access is denied: the message has the flag
   */
  public static OrtRuntimeFFM create(Options options) {
    NativeLibrary.load();
    StringBuilder tried = new StringBuilder();
    long api = options.ortApi;
    if (!options.namesOrt() && System.getenv("ORT_NATIVE_LIB_PATH") == null) api = OfficialOrt.api(tried);
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment struct = Layouts.allocate(arena, Layouts.RUNTIME_OPTIONS);
      Layouts.setInt(struct, Layouts.RUNTIME_OPTIONS, "flags", options.flags);
      if (options.ortLibrary != null) set(struct, "ort_library", Texts.allocate(arena, options.ortLibrary, "ortLibrary"));
      Layouts.setLong(struct, Layouts.RUNTIME_OPTIONS, "ort_api", api);
      Layouts.setLong(struct, Layouts.RUNTIME_OPTIONS, "ort_api_base", options.ortApiBase);
      set(struct, "ep_libraries", strings(arena, options.epLibraries));
      Layouts.setLong(struct, Layouts.RUNTIME_OPTIONS, "ep_library_count", options.epLibraries.size());
      set(struct, "log", IobindJava.log());
      Layouts.setInt(struct, Layouts.RUNTIME_OPTIONS, "log_level",
          options.log != null ? options.logLevel : LogLevel.WARNING.ordinal());
      int status = create(struct, options.log, scratch);
      if (status != 0 && !tried.isEmpty()) {
        OrtFFMException failure = scratch.failure(status);
        throw new OrtFFMException(failure.status(), failure.ortCode(), failure.getMessage() + "; before that: " + tried);
      }
      scratch.check(status);
      return new OrtRuntimeFFM(scratch.getLong(0));
    }
  }

  /** @param log null: the system's */
  private static int create(MemorySegment struct, LogSink log, Scratch scratch) {
    long sink = log == null ? SystemLog.SINK : LogSinks.keep(log);
    boolean isUsed = log == null;
    Layouts.setLong(struct, Layouts.RUNTIME_OPTIONS, "log_context", sink);
    try {
      synchronized (OBJECTS) { // of two threads that create, the first one counts first
        int status = Iobind.runtimeCreate(struct, scratch.out(0), scratch.error());
        boolean isFirst = status == 0 && OBJECTS.merge(scratch.getLong(0), 1, Integer::sum) == 1;
        isUsed |= isFirst;
        return status;
      }
    } finally {
      if (!isUsed) LogSinks.forget(sink);
    }
  }

  private static void destroy(long address) {
    OBJECTS.computeIfPresent(address, (key, count) -> count == 1 ? null : count - 1); // another one may get the address next
    Iobind.runtimeDestroy(address);
  }

  private static void set(MemorySegment struct, String field, MemorySegment value) {
    Layouts.setLong(struct, Layouts.RUNTIME_OPTIONS, field, value.address());
  }

  /** One for all runtimes. */
  private static final class SystemLog {
    static final long SINK = LogSinks.keep(OrtRuntimeFFM::toSystemLogger);
  }

  private static void toSystemLogger(LogLevel level, String message) {
    System.getLogger("io.github.iobind").log(switch (level) {
      case VERBOSE -> System.Logger.Level.DEBUG;
      case INFO -> System.Logger.Level.INFO;
      case ERROR -> System.Logger.Level.ERROR;
      default -> System.Logger.Level.WARNING;
    }, message);
  }

  /** Numbers of 64 bits; NULL for none. */
  static MemorySegment longs(Arena arena, long[] values) {
    return values.length == 0 ? MemorySegment.NULL : arena.allocateFrom(JAVA_LONG, values);
  }

  static MemorySegment strings(Arena arena, List<String> texts) {
    if (texts.isEmpty()) return MemorySegment.NULL;
    MemorySegment pointers = arena.allocate(ADDRESS, texts.size());
    for (int i = 0; i < texts.size(); i++) pointers.setAtIndex(ADDRESS, i, Texts.allocate(arena, texts.get(i), "option " + i));
    return pointers;
  }

  long enter() {
    return isKept ? handle.enterKept() : handle.enter();
  }

  void exit() {
    handle.exit();
  }

  // ---- what was loaded

  /** Reads one field of the runtime's info. */
  private <T> T info(Function<MemorySegment, T> field) {
    try (Scratch scratch = Scratch.take()) {
      MemorySegment struct = scratch.struct(Layouts.RUNTIME_INFO);
      long address = enter();
      try {
        scratch.check(Iobind.runtimeGetInfo(address, struct, scratch.error()));
        return field.apply(struct);
      } finally {
        exit();
      }
    }
  }

  /**
   * The version of ONNX Runtime.
   *
   * @return such as "1.31.1"
   */
  public String ortVersion() {
    return info(s -> Layouts.getString(s, Layouts.RUNTIME_INFO, "ort_version"));
  }

  /**
   * The version of ONNX Runtime's C interface in use.
   *
   * @return such as 29
   */
  public int ortApiVersion() {
    return info(s -> Layouts.getInt(s, Layouts.RUNTIME_INFO, "ort_api_version"));
  }

  /**
   * The file that ONNX Runtime was loaded from.
   *
   * @return its path; "" if it is unknown for a shared copy
   */
  public String ortLibrary() {
    return info(s -> Layouts.getString(s, Layouts.RUNTIME_INFO, "ort_library"));
  }

  /**
   * Which step of the search found ONNX Runtime.
   *
   * @return such as "ORT_NATIVE_LIB_PATH"
   */
  public String foundBy() {
    return info(s -> Layouts.getString(s, Layouts.RUNTIME_INFO, "found_by"));
  }

  /**
   * The version of libiobind, and its location.
   *
   * @return such as "1.0.0 (natives jar: /tmp/...)"
   */
  public static String iobindVersion() {
    NativeLibrary.load();
    return Layouts.string(Iobind.getVersionString()) + " (" + NativeLibrary.origin() + ")";
  }

  /**
   * The EP libraries that were found, in use or not.
   *
   * @return in the order in which they were found
   */
  public List<EpLibrary> epLibraries() {
    long count = info(s -> Layouts.getLong(s, Layouts.RUNTIME_INFO, "ep_count"));
    List<EpLibrary> result = new ArrayList<>();
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        for (long i = 0; i < count; i++) {
          MemorySegment info = scratch.struct(Layouts.EP_INFO);
          scratch.check(Iobind.runtimeGetEp(address, i, info, scratch.error()));
          result.add(new EpLibrary(Layouts.getString(info, Layouts.EP_INFO, "name"),
              Layouts.getString(info, Layouts.EP_INFO, "path"),
              OrtStatus.of(Layouts.getInt(info, Layouts.EP_INFO, "status")),
              Layouts.getString(info, Layouts.EP_INFO, "message")));
        }
      } finally {
        handle.exit();
      }
    }
    return result;
  }

  /** Libraries that CUDA's execution provider needs. */
  public enum Preload {
    /** CUDA's runtime, cuBLAS, cuRAND, cuFFT and nvrtc. */
    CUDA(Constants.PRELOAD_NO_CUDA),
    /** The library cuDNN. */
    CUDNN(Constants.PRELOAD_NO_CUDNN),
    /** On Windows: Microsoft's C++ runtime. */
    MSVC(Constants.PRELOAD_NO_MSVC);

    private final int without;

    Preload(int without) {
      this.without = without;
    }
  }

  /**
   * Loads all of NVIDIA's libraries, from where they are found; see {@link #preload(String, int, Set)}.
   *
   * @throws OrtFFMException NOT_FOUND: the message names what is missing
   */
  public static void preload() {
    preload(null, 0, EnumSet.allOf(Preload.class));
  }

  /**
   * Loads NVIDIA's libraries before the loader needs them. A runtime does this automatically when it loads CUDA's execution
   * provider; call this earlier to select other libraries.
   *
   * @param folder null: the libraries of an installed PyTorch, then NVIDIA's wheels for Python, then the loader's search path;
   *     "": the wheels only; otherwise only this directory, which has the libraries or Python's packages
   * @param cuda the major version of CUDA, 12 or 13; 0: the newest that is found
   * @param which the libraries to load
   * @throws OrtFFMException NOT_FOUND: no such directory, or a missing library that CUDA's execution provider needs: the
   *     message names them; INVALID_ARGUMENT
   */
  public static void preload(@Nullable String folder, int cuda, Set<Preload> which) {
    NativeLibrary.load();
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment struct = Layouts.allocate(arena, Layouts.PRELOAD_OPTIONS);
      int flags = 0;
      for (Preload one : Preload.values()) flags |= which.contains(one) ? 0 : one.without;
      Layouts.setInt(struct, Layouts.PRELOAD_OPTIONS, "flags", flags);
      Layouts.setInt(struct, Layouts.PRELOAD_OPTIONS, "cuda", cuda);
      long text = folder == null ? 0 : Texts.allocate(arena, folder, "folder").address();
      Layouts.setLong(struct, Layouts.PRELOAD_OPTIONS, "directory", text);
      scratch.check(IobindInterop.preload(struct, scratch.error()));
    }
  }

  /**
   * Registers an EP library. Its devices are appended to the known ones. This is a no-op if the name, or the file under any
   * name, is already registered; {@link #epLibraries} lists files and names.
   *
   * @param name the name under which it is registered; null: the catalogue's name
   * @param path its file
   * @throws OrtFFMException NOT_FOUND: no such file; RUNTIME: it does not load, the message has the reason; NOT_SUPPORTED:
   *     another copy of ONNX Runtime in the process uses it; INVALID_ARGUMENT: the path is in another file system of Java
   */
  public void registerEp(@Nullable String name, Path path) {
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment nameText = name == null ? MemorySegment.NULL : Texts.allocate(arena, name, "name");
      MemorySegment pathText = Texts.allocate(arena, Texts.path(path, "registerEp"), "path");
      long address = enter();
      try {
        scratch.check(Iobind.runtimeRegisterEp(address, nameText, pathText, scratch.error()));
      } finally {
        handle.exit();
      }
    }
  }

  // ---- devices

  /**
   * All devices; the first is always the CPU.
   *
   * @return their descriptions
   */
  public List<DeviceInfo> devices() {
    List<DeviceInfo> result = new ArrayList<>();
    long address = enter();
    try {
      for (long i = 0; ; i++) {
        long device = Iobind.runtimeGetDevice(address, i);
        if (device == 0) return result;
        result.add(deviceInfo(device));
      }
    } finally {
      handle.exit();
    }
  }

  /**
   * Resolves a spec to its first device that works. Each device is checked once, with a small session.
   *
   * @param spec names it
   * @return the device's description
   * @throws OrtFFMException NOT_FOUND: no device matches; WRONG_DEVICE: none of the devices works, the message has each reason;
   *     INVALID_ARGUMENT: an invalid spec
   */
  public DeviceInfo device(DeviceSpec spec) {
    Place place = resolve(spec);
    enter();
    try {
      return deviceInfo(place.device());
    } finally {
      handle.exit();
    }
  }

  /**
   * Bytes that iobind has moved, and memory that it has allocated, on a device.
   *
   * @param spec names the device
   * @return the current counters
   * @throws OrtFFMException as {@link #device}
   */
  public DeviceCounters counters(DeviceSpec spec) {
    Place place = resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      enter();
      try {
        MemorySegment s = scratch.struct(Layouts.DEVICE_COUNTERS);
        scratch.check(Iobind.deviceGetCounters(place.device(), s, scratch.error()));
        var layout = Layouts.DEVICE_COUNTERS;
        return new DeviceCounters(Layouts.getLong(s, layout, "upload_bytes"), Layouts.getLong(s, layout, "upload_count"),
            Layouts.getLong(s, layout, "download_bytes"), Layouts.getLong(s, layout, "download_count"),
            Layouts.getLong(s, layout, "local_bytes"), Layouts.getLong(s, layout, "local_count"),
            Layouts.getLong(s, layout, "allocated_bytes"), Layouts.getLong(s, layout, "allocation_count"));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Memory of a device that iobind has allocated.
   *
   * @param spec names the device
   * @param holder the use of the memory
   * @return the amounts
   * @throws OrtFFMException as {@link #device}
   */
  public MemoryUsage memory(DeviceSpec spec, MemoryHolder holder) {
    Objects.requireNonNull(holder, "holder");
    Place place = resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      enter();
      try {
        MemorySegment s = scratch.struct(Layouts.MEMORY_USAGE);
        scratch.check(Iobind.deviceGetMemory(place.device(), holder.ordinal(), s, scratch.error()));
        var layout = Layouts.MEMORY_USAGE;
        return new MemoryUsage(Layouts.getLong(s, layout, "bytes"), Layouts.getLong(s, layout, "count"),
            Layouts.getLong(s, layout, "most_bytes"));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Returns the memory that the allocators of a device keep for later tensors to the driver. Only pools ({@link Options#pools}) keep
   * memory; on other devices the call has no effect.
   *
   * @param spec names the device
   * @throws OrtFFMException as {@link #device}, or if the driver refuses
   */
  public void trim(DeviceSpec spec) {
    Place place = resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      enter();
      try {
        scratch.check(Iobind.deviceTrim(place.device(), scratch.error()));
      } finally {
        handle.exit();
      }
    }
  }

  Place resolve(DeviceSpec spec) {
    Objects.requireNonNull(spec, "spec");
    Place known = resolved.get(spec);
    Place place = known != null ? known : find(spec);
    if (spec.type() != null && spec.type() != place.hardware()) {
      throw new OrtFFMException(OrtStatus.WRONG_DEVICE, "device '" + spec + "': expected " + spec.type() + ", got " + place.hardware());
    }
    return place;
  }

  private Place find(DeviceSpec spec) {
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment text = Texts.allocate(arena, spec.text(), "device spec");
      long address = enter();
      try {
        if (namesVdev(spec)) findVdev(arena, scratch, address);
        scratch.check(Iobind.runtimeFindDevice(address, text, scratch.out(0), scratch.out(1), scratch.error()));
        Place place = place(scratch.getLong(0), scratch.getInt(1));
        resolved.put(spec, place);
        return place;
      } finally {
        handle.exit();
      }
    }
  }

  /** Libiobind looks for the virtual accelerator beside itself, where the one of the natives jar is not. */
  private void findVdev(Arena arena, Scratch scratch, long address) {
    if (wasVdevLookedFor) return;
    MemorySegment text = arena.allocateFrom("vdev");
    int status = Iobind.runtimeFindDevice(address, text, scratch.out(0), scratch.out(1), scratch.error());
    if (status == OrtStatus.NOT_FOUND.ordinal()) NativeLibrary.withVdev(file -> registerEp("vdev", file));
    wasVdevLookedFor = true;
  }

  private static boolean namesVdev(DeviceSpec spec) {
    return Arrays.stream(spec.text().split(",")).anyMatch(one -> one.strip().matches("vdev(:\\d+)?(/pinned)?"));
  }

  /** A memory of a device, whose runtime is there. */
  static Place place(long device, int memory) {
    try (Scratch scratch = Scratch.take()) {
      MemorySegment info = scratch.struct(Layouts.DEVICE_INFO);
      scratch.check(Iobind.deviceGetInfo(device, info, scratch.error()));
      DeviceSpec spec = DeviceSpec.of(Layouts.getString(info, Layouts.DEVICE_INFO, "spec"));
      return new Place(device, memory, memory == Place.DEFAULT ? spec : spec.pinned(),
          DeviceInfo.Hardware.values()[Layouts.getInt(info, Layouts.DEVICE_INFO, "hardware")], Layouts.getInt(info, Layouts.DEVICE_INFO, "flags"));
    }
  }

  private static DeviceInfo deviceInfo(long device) {
    try (Scratch scratch = Scratch.take()) {
      MemorySegment info = scratch.struct(Layouts.DEVICE_INFO);
      scratch.check(Iobind.deviceGetInfo(device, info, scratch.error()));
      var layout = Layouts.DEVICE_INFO;
      int flags = Layouts.getInt(info, layout, "flags");
      Set<DeviceInfo.Capability> capabilities = Arrays.stream(DeviceInfo.Capability.values())
          .filter(c -> (flags & 1 << c.ordinal()) != 0)
          .collect(Collectors.toCollection(() -> EnumSet.noneOf(DeviceInfo.Capability.class)));
      Map<String, String> metadata = new LinkedHashMap<>();
      for (long i = 0, count = Layouts.getLong(info, layout, "metadata_count"); i < count; i++) {
        scratch.check(Iobind.deviceGetMetadata(device, i, scratch.out(0), scratch.out(1), scratch.error()));
        metadata.putIfAbsent(Layouts.string(scratch.getLong(0)), Layouts.string(scratch.getLong(1)));
      }
      return new DeviceInfo(DeviceSpec.of(Layouts.getString(info, layout, "spec")), Layouts.getString(info, layout, "ep_name"),
          Layouts.getString(info, layout, "ep_vendor"), Layouts.getString(info, layout, "vendor"),
          Layouts.getString(info, layout, "memory_name"), Layouts.getInt(info, layout, "vendor_id"),
          Layouts.getInt(info, layout, "device_id"), DeviceInfo.Hardware.values()[Layouts.getInt(info, layout, "hardware")],
          Layouts.getInt(info, layout, "ordinal"), Set.copyOf(capabilities), Map.copyOf(metadata));
    }
  }

  /** Closes the runtime; objects that were created with it remain valid. */
  @Override
  public void close() {
    handle.close();
  }
}
