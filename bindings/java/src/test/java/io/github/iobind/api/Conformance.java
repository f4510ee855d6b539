package io.github.iobind.api;

import static io.github.iobind.api.Words.dimsOf;
import static io.github.iobind.api.Words.index;
import static io.github.iobind.api.Words.mode;
import static io.github.iobind.api.Words.number;
import static io.github.iobind.api.Words.size;
import static io.github.iobind.api.Words.type;
import static io.github.iobind.api.Words.typeOf;

import io.github.iobind.api.Words.Inexpressible;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * Runs the conformance rows of the C tests on one device, through this package: {@code Conformance DEVICE CASES AT_LEAST}, or
 * {@code ALL_WRONG} for AT_LEAST where no row may pass. What the steps mean is said in tests/conformance/README.md. Exits as
 * the C runner: 0, 1, or 77 where the device is not there.
 */
final class Conformance {
  private static final long MAX_PART = 65536;

  private final OrtRuntimeFFM runtime;
  private final DeviceSpec device;
  private final DeviceInfo info;
  private final DeviceSpec host;
  private final Map<String, OrtSessionFFM> cache = new HashMap<>();

  // what a row has
  private final Map<String, Tensor> tensors = new LinkedHashMap<>();
  private final Map<String, Bound> bindings = new LinkedHashMap<>();
  private final Map<String, OrtStreamFFM> streams = new HashMap<>();
  private final Map<String, OrtEventFFM> events = new HashMap<>();
  private final Map<String, Line> pipelines = new LinkedHashMap<>();
  private final Map<String, Wrapped> wrapped = new HashMap<>();
  private final StateSteps states = new StateSteps(this);
  private final List<AutoCloseable> given = new ArrayList<>();
  private Arena arena;
  Bound current;
  private Thread runner;
  private volatile OrtFFMException runFailure;
  private OrtStatus expected;
  private String expectedText;
  private boolean settled;
  private String step;

  /** What a step found to be wrong. */
  private static final class Wrong extends RuntimeException {
    private static final long serialVersionUID = 1;

    Wrong(String why) {
      super(why, null, false, false);
    }
  }

  record Tensor(OrtValueRef handle, Mirror value, DeviceSpec place) {}

  /** Memory of the row's own, and its arena. */
  private record Wrapped(Arena arena, MemorySegment memory) {}

  static final class Slot {
    Mirror value;
    boolean taken;
    OutputMode mode = OutputMode.FRESH;
    DeviceSpec place;
    /** Outputs: the input that it becomes, or -1; and whether it is the next run's state. */
    int carriedTo = -1;
    boolean due;
  }

  static final class Bound {
    final OrtIoBindingFFM handle;
    final OrtSessionFFM session;
    final String spec;
    final boolean ownsSession;
    Slot[] inputs;
    Slot[] outputs;

    Bound(OrtSessionFFM session, String spec, boolean ownsSession) {
      this.session = session;
      this.spec = spec;
      this.ownsSession = ownsSession;
      handle = session.createBinding();
      empty();
    }

    void empty() {
      inputs = new Slot[session.inputs().size()];
      outputs = new Slot[session.outputs().size()];
      Arrays.setAll(inputs, i -> new Slot());
      Arrays.setAll(outputs, i -> new Slot());
    }
  }

  /** A pipeline, what its items were when they were submitted, and what it has lent. */
  private record Line(OrtPipelineFFM handle, OrtSessionFFM session, String spec, Map<Integer, Mirror> constants,
      Deque<List<Mirror>> items, List<Tensor> lent) {}

  private Conformance(OrtRuntimeFFM runtime, DeviceSpec spec) {
    this.runtime = runtime;
    info = runtime.device(spec);
    device = info.spec();
    host = runtime.devices().getFirst().spec();
  }

  public static void main(String[] arguments) throws Exception {
    int code;
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices()
        .log(OrtRuntimeFFM.LogLevel.ERROR, (level, line) -> {}))) { // a failure is in its exception
      Conformance conformance;
      try {
        conformance = new Conformance(runtime, DeviceSpec.of(arguments[0]));
      } catch (OrtFFMException e) {
        System.out.println("skip: " + arguments[0] + ": " + e.getMessage());
        System.exit(77);
        return;
      }
      code = conformance.runAll(CaseFile.read(Path.of(arguments[1])), arguments[2]);
    }
    System.exit(code);
  }

  private int runAll(List<CaseFile.Row> rows, String wanted) throws Exception {
    int passed = 0, failed = 0, skipped = 0;
    for (CaseFile.Row row : rows) {
      long before = runtime.counters(device).allocatedBytes();
      String failure = null, skip = null;
      arena = Arena.ofShared();
      step = "";
      try {
        skip = play(row);
      } catch (Inexpressible e) {
        skip = "Java: " + e.getMessage();
      } catch (Exception e) {
        failure = step + ": " + (e instanceof Wrong ? e.getMessage() : e.toString());
      }
      clear();
      long left = runtime.counters(device).allocatedBytes() - before;
      if (failure == null && skip == null && left != 0 && row.model().isEmpty()) {
        failure = left + " bytes of device memory are left behind";
      }
      if (failure != null) {
        failed++;
        System.out.println("FAIL " + row.name() + " (line " + row.line() + "): " + failure);
      } else if (skip != null) {
        skipped++;
        System.out.println("skip " + row.name() + ": " + skip);
      } else {
        passed++;
      }
    }
    cache.values().forEach(OrtSessionFFM::close);
    System.out.println(passed + " passed, " + failed + " failed, " + skipped + " skipped");
    if (wanted.equals("ALL_WRONG")) return passed == 0 ? 0 : 1;
    int atLeast = Integer.parseInt(wanted);
    if (passed < atLeast) System.out.println("FAIL: " + atLeast + " rows at least are to pass");
    return failed == 0 && passed >= atLeast ? 0 : 1;
  }

  private void clear() throws Exception {
    if (runner != null) {
      for (Bound bound : bindings.values()) bound.handle.cancel();
      runner.join();
      runner = null;
    }
    for (Line line : pipelines.values()) line.handle().close();
    pipelines.clear();
    for (Bound bound : bindings.values()) {
      bound.handle.close();
      if (bound.ownsSession) bound.session.close();
    }
    for (Tensor tensor : tensors.values()) tensor.handle().close();
    states.clear();
    for (AutoCloseable object : given) object.close();
    events.values().forEach(OrtEventFFM::close);
    streams.values().forEach(OrtStreamFFM::close);
    bindings.clear();
    tensors.clear();
    given.clear();
    events.clear();
    streams.clear();
    for (Wrapped of : wrapped.values()) {
      if (of.arena().scope().isAlive()) of.arena().close();
    }
    wrapped.clear();
    current = null;
    arena.close();
  }

  /** Plays a row; what the device lacks is returned. */
  private String play(CaseFile.Row row) {
    for (String need : row.needs().isEmpty() ? new String[0] : row.needs().split(" ")) {
      if (!need.equals("on-device") && !has(need)) return "the device has not: " + need;
    }
    if (!row.model().isEmpty()) {
      OrtSessionFFM session = cached(row.model());
      if (Arrays.asList(row.needs().split(" ")).contains("on-device") && !onDevice(session)) {
        return "the device has not: on-device";
      }
      current = new Bound(session, row.model(), false);
      bindings.put("main", current);
    }
    for (String text : row.steps().split(";")) {
      step = text.trim();
      settled = false;
      List<String> words = CaseFile.words(step);
      if (!words.isEmpty()) run(words);
    }
    return null;
  }

  private OrtSessionFFM cached(String spec) {
    return cache.computeIfAbsent(spec, s -> OrtSessionFFM.create(runtime, Models.bytes(s), Words.options(List.of(), device)));
  }

  private boolean onDevice(OrtSessionFFM session) {
    return java.util.stream.Stream.concat(session.inputs().stream(), session.outputs().stream())
        .allMatch(value -> device.equals(value.device()));
  }

  private boolean has(String need) {
    var capabilities = info.capabilities();
    return switch (need) {
      case "link" -> !capabilities.contains(DeviceInfo.Capability.HOST_MEMORY);
      case "host-memory" -> capabilities.contains(DeviceInfo.Capability.HOST_MEMORY);
      case "pinned" -> capabilities.contains(DeviceInfo.Capability.HOST_ACCESSIBLE);
      case "no-pinned" -> !capabilities.contains(DeviceInfo.Capability.HOST_ACCESSIBLE);
      case "addressable" -> capabilities.contains(DeviceInfo.Capability.ADDRESSABLE);
      case "no-addressable" -> !capabilities.contains(DeviceInfo.Capability.ADDRESSABLE);
      case "streams" -> capabilities.contains(DeviceInfo.Capability.STREAMS);
      case "no-streams" -> !capabilities.contains(DeviceInfo.Capability.STREAMS);
      case "faults" -> false; // the virtual device's control interface is C's
      case "in-c" -> false; // steps that this interpreter has not
      default -> {
        if (need.startsWith("ort:1.")) {
          yield Integer.parseInt(runtime.ortVersion().split("\\.")[1]) >= Integer.parseInt(need.substring(6));
        }
        if (need.startsWith("computes:")) yield computes(need.substring(9));
        throw new Wrong("'" + need + "' is nothing that a row can need");
      }
    };
  }

  /** Some devices take a session and say in its first run that they cannot. */
  private boolean computes(String type) {
    try (OrtValueRef x = OrtValueRef.allocate(runtime, host, MemoryDescriptor.of(type(type), 1))) {
      cached("scale dtype=" + type).run(List.of(x)).forEach(OrtValueRef::close);
      return true;
    } catch (OrtFFMException e) {
      return false;
    }
  }

  // ---- steps

  private void run(List<String> w) {
    switch (w.getFirst()) {
      case "fail" -> {
        expected = OrtStatus.valueOf(w.get(1));
        expectedText = w.get(2);
        try {
          run(w.subList(4, w.size()));
          if (!settled) throw new Wrong("it makes no call that can fail");
        } finally {
          expected = null;
        }
      }
      case "times" -> {
        for (int i = 0; i < Integer.parseInt(w.get(1)); i++) run(w.subList(3, w.size()));
      }
      case "moves" -> {
        boolean linked = has("link");
        DeviceCounters before = runtime.counters(device);
        run(w.subList(4, w.size()));
        DeviceCounters after = runtime.counters(device);
        require("bytes up", linked ? Long.parseLong(w.get(1)) : 0, after.uploadBytes() - before.uploadBytes());
        require("bytes down", linked ? Long.parseLong(w.get(2)) : 0, after.downloadBytes() - before.downloadBytes());
      }
      case "create", "wrap", "alias", "view", "slice", "retain" -> make(w);
      case "release" -> w.stream().skip(1).forEach(name -> tensors.remove(name).handle().close());
      case "fill" -> fill(tensor(w.get(1)), Long.parseLong(w.get(2)), stream(w, 3));
      case "set" -> set(tensor(w.get(1)), w.get(2));
      case "write" -> writePart(w);
      case "read" -> readPart(w);
      case "poke" -> poke(tensor(w.get(1)), Long.parseLong(w.get(2)));
      case "check" -> w.stream().skip(1).forEach(name -> check(name, tensor(name)));
      case "put-string" -> putString(tensor(w.get(1)), Long.parseLong(w.get(2)), Integer.parseInt(w.get(3)));
      case "get-string" -> settle(() -> tensor(w.get(1)).handle().readString(Long.parseLong(w.get(2))));
      case "copy" -> copy(w);
      case "same", "differ" -> require("same address", w.getFirst().equals("same"),
          tensor(w.get(1)).handle().address() == tensor(w.get(2)).handle().address());
      case "data" -> {
        Tensor tensor = tensor(w.get(1));
        if (tensor.value().type() != typeOf(w.get(2)) || !tensor.handle().isHostReadable()) {
          throw new Inexpressible("the host's view has no element type");
        }
        settle(() -> tensor.handle().asMemorySegment());
      }
      case "freed" -> freed(w.get(1), w.get(2));
      case "open" -> open(w.get(1), w.subList(2, w.size()));
      case "bind" -> bindings.put(w.get(1), current = new Bound(current.session, current.spec, false));
      case "use" -> current = bindings.get(w.get(1));
      case "drop-binding" -> {
        Bound bound = bindings.remove(w.get(1));
        bound.handle.close();
        if (bound.ownsSession) bound.session.close();
      }
      case "drop-session" -> bindings.get(w.get(1)).session.close();
      case "signature" -> signature(w);
      case "find" -> find(w);
      case "input" -> input(w);
      case "output" -> output(w);
      case "update" -> update(w);
      case "carry" -> carry(w);
      case "ready" -> settle(() -> current.handle.check());
      case "clear" -> {
        if (settle(() -> current.handle.clear())) current.empty();
      }
      case "tag" -> settle(() -> current.handle.setRunOptions(w.size() > 1 ? w.get(1) : null, Map.of()));
      case "run" -> runBinding(w);
      case "get", "keep", "take" -> fetch(w);
      case "unbound" -> unbound(w.get(1));
      case "save", "restore", "reorder", "rewind", "kind", "state", "drop-state", "write-state", "read-state", "drop-file" -> states.run(w);
      case "stream" -> {
        OrtStreamFFM stream = settle(() -> OrtStreamFFM.create(runtime, w.size() > 2 ? place(w.get(2)) : device));
        if (stream != null) streams.put(w.get(1), stream);
      }
      case "event" -> {
        OrtEventFFM event = settle(() -> OrtEventFFM.create(runtime, device));
        if (event != null) events.put(w.get(1), event);
      }
      case "record" -> settle(() -> events.get(w.get(1)).record(streams.get(w.get(2))));
      case "await" -> settle(() -> streams.get(w.get(1)).await(events.get(w.get(2))));
      case "sync" -> settle(() -> streams.get(w.get(1)).synchronize());
      case "wait" -> settle(() -> events.get(w.get(1)).await());
      case "query" -> {
        Boolean done = settle(() -> events.get(w.get(1)).isDone());
        if (done != null) require("done", w.get(2).equals("1"), done);
      }
      case "pipeline" -> pipeline(w);
      case "submit" -> submit(w);
      case "next" -> next(w);
      case "drop-pipeline" -> pipelines.remove(w.get(1)).handle().close();
      case "start" -> start();
      case "cancel" -> settle(() -> current.handle.cancel());
      case "join" -> join();
      default -> throw new Wrong("no step '" + w.getFirst() + "'");
    }
  }

  /** Makes the step's call, and compares its outcome with what the step expects. Null where it failed, as expected. */
  <T> T settle(Supplier<T> call) {
    settled = true;
    T result;
    try {
      result = call.get();
    } catch (OrtFFMException e) {
      String message = e.getMessage();
      if (message == null || message.isBlank() || message.contains("\n")) {
        throw new Wrong(e.status() + " without a line of text");
      }
      if (e.status() == OrtStatus.RUNTIME && e.ortCode() == 0) throw new Wrong("RUNTIME without ORT's code");
      if (e.status() != expected) throw new Wrong("expected " + expected + ", got " + e.status() + ": " + message);
      if (!message.contains(Texts.inJava(expectedText))) throw new Wrong("the message does not say '" + expectedText + "': " + message);
      return null;
    }
    if (expected != null) throw new Wrong("expected " + expected + ", got OK");
    return result;
  }

  boolean settle(Runnable call) {
    return settle(() -> {
      call.run();
      return true;
    }) != null;
  }

  static void require(String what, Object wanted, Object got) {
    if (!wanted.equals(got)) throw new Wrong(what + ": expected " + wanted + ", got " + got);
  }

  // ---- words

  private Tensor tensor(String name) {
    Tensor tensor = tensors.get(name);
    if (tensor == null) throw new Wrong("no tensor '" + name + "'");
    return tensor;
  }

  private OrtStreamFFM stream(List<String> w, int index) {
    if (w.size() <= index) return null;
    OrtStreamFFM stream = streams.get(w.get(index));
    if (stream == null) throw new Wrong("no stream '" + w.get(index) + "'");
    return stream;
  }

  private DeviceSpec place(String text) {
    return switch (text) {
      case "host" -> host;
      case "device" -> device;
      case "pinned" -> {
        if (has("no-pinned")) throw new Inexpressible("a device spec is found wrong when it is resolved");
        yield device.pinned();
      }
      default -> {
        int index = Integer.parseInt(text.substring(text.indexOf(':') + 1));
        yield (text.startsWith("input") ? current.session.inputs() : current.session.outputs()).get(index).device();
      }
    };
  }

  Tensor keep(String name, OrtValueRef handle, Mirror value, DeviceSpec place) {
    Tensor tensor = new Tensor(handle, value, place);
    Tensor before = tensors.put(name, tensor);
    if (before != null) before.handle().close();
    return tensor;
  }

  // ---- tensors

  private void make(List<String> w) {
    String name = w.get(1), verb = w.getFirst();
    if (verb.equals("create") || verb.equals("wrap")) {
      OnnxTensorElementType type = typeOf(w.get(2));
      long[] dims = dimsOf(w.get(2));
      DeviceSpec place = place(w.get(3));
      OrtValueRef handle = settle(() -> verb.equals("create")
          ? OrtValueRef.allocate(runtime, place, MemoryDescriptor.of(type, dims))
          : OrtValueRef.wrap(runtime, place, wrapped(name, size(w.get(4))), MemoryDescriptor.of(type, dims)));
      if (handle != null) keep(name, handle, Mirror.of(type, dims), place);
      return;
    }
    Tensor of = tensor(w.get(verb.equals("alias") ? 3 : 2));
    Mirror value = of.value();
    switch (verb) {
      case "alias" -> {
        MemoryDescriptor descriptor = MemoryDescriptor.of(typeOf(w.get(2)), dimsOf(w.get(2)));
        MemorySegment memory = MemorySegment.ofAddress(of.handle().address())
            .reinterpret(w.size() > 4 ? size(w.get(4)) : of.handle().descriptor().byteSize());
        OrtValueRef handle = settle(() -> OrtValueRef.wrap(runtime, of.place(), memory, descriptor));
        if (handle != null) keep(name, handle, value.part(0, descriptor.type(), descriptor.shape()), of.place());
      }
      case "view" -> {
        OnnxTensorElementType type = typeOf(w.get(4));
        long[] dims = dimsOf(w.get(4));
        OrtValueRef handle = settle(() -> of.handle().view(number(w.get(3)), MemoryDescriptor.of(type, dims)));
        if (handle != null) keep(name, handle, value.part((int) number(w.get(3)), type, dims), of.place());
      }
      case "slice" -> {
        long start = number(w.get(3)), count = number(w.get(4));
        OrtValueRef handle = settle(() -> of.handle().slice(start, count));
        if (handle == null) return;
        long[] dims = value.dims().clone();
        dims[0] = start;
        int offset = Math.toIntExact(MemoryDescriptor.of(value.type(), dims).byteSize());
        dims[0] = count;
        keep(name, handle, value.part(offset, value.type(), dims), of.place());
      }
      default -> keep(name, of.handle().retain(), value, of.place());
    }
  }

  private MemorySegment wrapped(String name, long bytes) {
    Arena of = Arena.ofShared();
    MemorySegment memory = of.allocate(Math.max(1, bytes), 16).asSlice(0, bytes);
    wrapped.put(name, new Wrapped(of, memory));
    return memory;
  }

  /**
   * Whether values and bindings are done with wrapped memory. Where they are its arena is closed, so that a mistake is seen.
   */
  private void freed(String name, String times) {
    Wrapped of = wrapped.get(name);
    if (of == null) throw new Wrong("'" + name + "' is no wrapped tensor");
    boolean inUse = tensors.values().stream().anyMatch(tensor -> tensor.handle().backing() == of.memory())
        || bindings.values().stream().anyMatch(bound -> bound.handle.holds(of.memory()));
    require("freed", times, inUse ? "0" : "1");
    if (!inUse) of.arena().close();
  }

  private MemorySegment nativeCopy(byte[] bytes) {
    MemorySegment memory = arena.allocate(bytes.length + 1L, 16).asSlice(0, bytes.length);
    return memory.copyFrom(MemorySegment.ofArray(bytes));
  }

  private void writeBytes(Tensor tensor, long offset, byte[] bytes, OrtStreamFFM stream) {
    MemorySegment memory = nativeCopy(bytes);
    if (settle(() -> tensor.handle().write(offset, memory, stream))) tensor.value().put((int) offset, bytes);
  }

  private void fill(Tensor tensor, long seed, OrtStreamFFM stream) {
    byte[] pattern = tensor.value().pattern(seed);
    if (tensor.value().type() != OnnxTensorElementType.STRING) {
      writeBytes(tensor, 0, pattern, stream);
      return;
    }
    for (int i = 0; i < tensor.value().count(); i++) putString(tensor, i, (int) seed + i);
  }

  private void putString(Tensor tensor, long index, int number) {
    if (settle(() -> tensor.handle().writeString(index, Mirror.text(number)))) tensor.value().setNumber((int) index, number);
  }

  private void set(Tensor tensor, String numbers) {
    Mirror to = Mirror.like(tensor.value());
    Arrays.fill(to.bytes(), (byte) 0);
    String[] each = numbers.split(",");
    require("numbers", to.count(), each.length);
    for (int i = 0; i < each.length; i++) to.set(i, Double.parseDouble(each[i]));
    writeBytes(tensor, 0, to.bytes(), null);
  }

  private void writePart(List<String> w) {
    long seed = number(w.get(4)), bytes = size(w.get(3));
    byte[] data = new byte[(int) Math.min(bytes, MAX_PART)];
    for (int i = 0; i < data.length; i++) data[i] = (byte) ((seed * 7 + i) % 100 + 1);
    writeBytes(tensor(w.get(1)), number(w.get(2)), data, stream(w, 5));
  }

  private void readPart(List<String> w) {
    Tensor tensor = tensor(w.get(1));
    long offset = number(w.get(2)), bytes = size(w.get(3));
    OrtStreamFFM stream = stream(w, 4);
    MemorySegment memory = arena.allocate(bytes + 1, 16).asSlice(0, bytes);
    if (!settle(() -> tensor.handle().read(offset, memory, stream))) return;
    if (stream != null) stream.synchronize();
    byte[] wanted = Arrays.copyOfRange(tensor.value().bytes(), tensor.value().offset() + (int) offset,
        tensor.value().offset() + (int) (offset + bytes));
    compare(w.get(1), wanted, memory.toArray(java.lang.foreign.ValueLayout.JAVA_BYTE));
  }

  /** Writes into host memory behind iobind's back, as a caller does who has wrapped it. */
  private void poke(Tensor tensor, long seed) {
    byte[] pattern = tensor.value().pattern(seed);
    tensor.value().put(0, pattern);
    tensor.handle().asMemorySegment().copyFrom(MemorySegment.ofArray(pattern));
  }

  private static void compare(String name, byte[] wanted, byte[] got) {
    int at = Arrays.mismatch(wanted, got);
    if (at >= 0) {
      throw new Wrong(name + ": byte " + at + " of " + wanted.length + ": expected "
          + (at < wanted.length ? wanted[at] : "its end") + ", got " + (at < got.length ? got[at] : "its end"));
    }
  }

  private void check(String name, Tensor tensor) {
    Mirror value = tensor.value();
    OrtValueRef handle = tensor.handle();
    require(name, value.typeText(), handle.descriptor().toString());
    require(name + " is on", tensor.place(), handle.device());
    if (value.type() == OnnxTensorElementType.STRING) {
      String[] strings = handle.readStrings();
      for (int i = 0; i < strings.length; i++) require(name + "[" + i + "]", Mirror.text(value.number(i)), strings[i]);
      return;
    }
    boolean readable = tensor.place().text().endsWith("/pinned")
        || runtime.device(tensor.place()).capabilities().contains(DeviceInfo.Capability.HOST_MEMORY);
    require(name + " is host-readable", readable, handle.isHostReadable());
    if (readable) {
      try (Arena confined = Arena.ofConfined()) {
        compare(name, value.content(), handle.asMemorySegment(confined).toArray(java.lang.foreign.ValueLayout.JAVA_BYTE));
      }
    } else {
      try {
        handle.asMemorySegment();
        throw new Wrong(name + ": the host may look into device memory");
      } catch (OrtFFMException e) {
        require(name, OrtStatus.WRONG_DEVICE, e.status());
      }
    }
    byte[] content = new byte[value.byteCount()];
    handle.read(0, MemorySegment.ofArray(content), null);
    compare(name, value.content(), content);
  }

  private void copy(List<String> w) {
    OrtStreamFFM stream = null;
    List<String> names = w.subList(1, w.size());
    if (names.size() >= 2 && names.get(names.size() - 2).equals("on")) {
      stream = stream(names, names.size() - 1);
      names = names.subList(0, names.size() - 2);
    }
    List<Tensor> from = new ArrayList<>(), to = new ArrayList<>();
    for (int i = 0; i < names.size(); i += 2) {
      from.add(tensor(names.get(i)));
      to.add(tensor(names.get(i + 1)));
    }
    OrtStreamFFM on = stream;
    if (!settle(() -> OrtValueRef.copy(from.stream().map(Tensor::handle).toArray(OrtValueRef[]::new),
        to.stream().map(Tensor::handle).toArray(OrtValueRef[]::new), on))) return;
    for (int i = 0; i < from.size(); i++) to.get(i).value().put(0, from.get(i).value().content());
  }

  // ---- sessions

  private void open(String name, List<String> words) {
    int count = (int) words.stream().takeWhile(word -> word.startsWith("+")).count();
    String spec = String.join(" ", words.subList(count, words.size()));
    OrtSessionFFM.Options options = Words.options(words.subList(0, count), device);
    OrtSessionFFM session = settle(() -> OrtSessionFFM.create(runtime, Models.bytes(spec), options));
    if (session == null) return;
    current = new Bound(session, spec, true);
    Bound before = bindings.put(name, current);
    if (before != null) given.add(before.handle);
  }

  private void signature(List<String> w) {
    List<OrtValueInfo> values = w.get(1).equals("output") ? current.session.outputs() : current.session.inputs();
    int index = index(w.get(2));
    if (index >= values.size()) throw new Inexpressible("inputs and outputs are a List");
    settled = true;
    OrtValueInfo value = values.get(index);
    String text = value.name() + " " + value.kind().name().toLowerCase(Locale.ROOT);
    if (value.kind() == OrtValueInfo.Kind.TENSOR) {
      List<String> dims = new ArrayList<>();
      for (int i = 0; i < value.shape().size(); i++) {
        String symbol = value.symbols().get(i);
        dims.add(value.shape().get(i) >= 0 ? value.shape().get(i).toString() : symbol.isEmpty() ? "?" : symbol);
      }
      text = value.name() + " " + value.type() + "[" + (value.hasShape() ? String.join(",", dims) : "*") + "]";
    }
    require("signature", String.join(" ", w.subList(3, w.size())), text);
  }

  private void find(List<String> w) {
    Integer index = settle(() -> w.get(1).equals("output") ? current.session.outputIndex(w.get(2))
        : current.session.inputIndex(w.get(2)));
    if (index != null) require("index", Integer.parseInt(w.get(3)), index);
  }

  // ---- bindings

  private void input(List<String> w) {
    int index = index(w.get(1));
    InputMode mode = mode(InputMode.class, w.get(2));
    if (w.get(3).equals("null")) throw new Inexpressible("null is a NullPointerException");
    Tensor tensor = tensor(w.get(3));
    OrtEventFFM event = w.size() > 4 ? events.get(w.get(4)) : null;
    if (!settle(() -> current.handle.bindInput(index, tensor.handle(), mode, event))) return;
    for (Slot state : current.outputs) {
      if (state.carriedTo == index) state.due = false;
    }
    current.inputs[index].value = mode == InputMode.SNAPSHOT ? tensor.value().copy() : tensor.value();
  }

  /** What the last run left becomes the next one's input. */
  private void advance() {
    for (Slot from : current.outputs) {
      if (from.carriedTo < 0 || !from.due) continue;
      current.inputs[from.carriedTo].value = from.value;
      from.due = false;
    }
  }

  private void carry(List<String> w) {
    int from = index(w.get(1)), to = index(w.get(2));
    CarryMode mode = mode(CarryMode.class, w.get(3));
    if (!settle(() -> current.handle.carry(from, to, mode))) return;
    advance();
    Slot slot = current.outputs[from];
    slot.carriedTo = to;
    slot.value = null;
    slot.taken = false;
    slot.mode = mode == CarryMode.IN_PLACE ? OutputMode.IN_PLACE : OutputMode.FRESH;
    slot.place = current.session.inputs().get(to).device();
  }

  private void output(List<String> w) {
    int index = index(w.get(1));
    OutputMode mode = mode(OutputMode.class, w.get(2));
    boolean takesTensor = mode == OutputMode.FIXED || mode == OutputMode.IN_PLACE;
    if (takesTensor && w.get(3).equals("null")) throw new Inexpressible("null is a NullPointerException");
    Tensor tensor = takesTensor ? tensor(w.get(3)) : null;
    DeviceSpec place = !takesTensor && w.size() > 3 ? place(w.get(3)) : null;
    boolean done = settle(() -> {
      if (takesTensor) {
        current.handle.bindOutput(index, tensor.handle(), mode);
      } else {
        current.handle.bindOutputToDevice(index, place, mode);
      }
    });
    if (!done) return;
    advance();
    Slot slot = current.outputs[index];
    slot.carriedTo = -1;
    slot.mode = mode;
    slot.taken = false;
    slot.place = takesTensor ? tensor.place() : place;
    slot.value = takesTensor ? tensor.value() : null;
  }

  private void update(List<String> w) {
    int index = index(w.get(1));
    advance();
    Mirror value = index >= 0 && index < current.inputs.length ? current.inputs[index].value : null;
    boolean isNumber = w.size() > 3 && Character.isDigit(w.get(3).charAt(0));
    int own = value == null ? 4 : value.byteCount();
    byte[] data = Arrays.copyOf(value == null ? new byte[4] : value.pattern(number(w.get(2))), isNumber
        ? Integer.parseInt(w.get(3)) : own);
    OrtStreamFFM stream = isNumber ? null : stream(w, 3);
    MemorySegment memory = nativeCopy(data);
    if (settle(() -> current.handle.update(index, memory, stream))) value.put(0, data);
  }

  private List<Mirror> compute() {
    List<Mirror> inputs = Arrays.stream(current.inputs).map(slot -> slot.value).collect(Collectors.toList());
    if (inputs.contains(null)) throw new Wrong("the run succeeded without an input");
    return Reference.run(current.spec, inputs);
  }

  private void runBinding(List<String> w) {
    OrtStreamFFM stream = stream(w, 1);
    OrtEventFFM event = w.size() > 2 ? events.get(w.get(2)) : null;
    boolean done = settle(() -> {
      if (stream == null && event == null) {
        current.handle.runWithBindings();
      } else {
        current.handle.runWithBindings(stream, event);
      }
    });
    if (!done) return;
    advance();
    List<Mirror> results = compute();
    for (int i = 0; i < results.size(); i++) {
      Slot slot = current.outputs[i];
      if (slot.carriedTo >= 0 && slot.mode == OutputMode.IN_PLACE) slot.value = current.inputs[slot.carriedTo].value;
      apply(slot, results.get(i), i);
      slot.due = slot.carriedTo >= 0;
    }
  }

  /** What the run must have left in an output. */
  private void apply(Slot slot, Mirror computed, int index) {
    boolean sameDims = slot.value != null && Arrays.equals(slot.value.dims(), computed.dims());
    boolean keeps = switch (slot.mode) {
      case FIXED, IN_PLACE -> true;
      case REUSE -> sameDims && !slot.taken;
      default -> false;
    };
    if (keeps && !sameDims) throw new Wrong("the run succeeded with a FIXED output of another shape");
    if (keeps) {
      slot.value.put(0, computed.content());
    } else {
      slot.value = computed;
      slot.taken = false;
    }
  }

  private void fetch(List<String> w) {
    int index = index(w.get(2));
    boolean takes = w.getFirst().equals("take");
    OrtValueRef handle = settle(() -> takes ? current.handle.takeOutput(index) : current.handle.getOutput(index));
    if (handle == null) return;
    Slot slot = current.outputs[index];
    if (slot.value == null) throw new Wrong("an output was given that no run has made");
    keep(w.get(1), handle, slot.value, slot.place != null ? slot.place : current.session.outputs().get(index).device());
    slot.taken |= takes;
  }

  private OrtValueRef hostCopy(Mirror value) {
    if (value == null) return null;
    OrtValueRef handle = OrtValueRef.allocate(runtime, host, MemoryDescriptor.of(value.type(), value.dims()));
    given.add(handle);
    if (value.type() == OnnxTensorElementType.STRING) {
      for (int i = 0; i < value.count(); i++) handle.writeString(i, Mirror.text(value.number(i)));
    } else {
      handle.write(0, MemorySegment.ofArray(value.content()), null);
    }
    return handle;
  }

  private void unbound(String name) {
    advance();
    List<OrtValueRef> inputs = Arrays.stream(current.inputs).map(slot -> hostCopy(slot.value)).collect(Collectors.toList());
    List<OrtValueRef> results = settle(() -> current.session.run(inputs));
    if (results == null) return;
    List<Mirror> values = compute();
    for (int i = 0; i < results.size(); i++) keep(name + i, results.get(i), values.get(i), host);
  }

  // ---- pipelines

  private void pipeline(List<String> w) {
    var options = new OrtPipelineFFM.Options();
    Map<Integer, Mirror> constants = new HashMap<>();
    for (String word : w.subList(2, w.size())) {
      String[] parts = word.split("=");
      switch (parts[0]) {
        case "stop" -> options.stopAtFailure();
        case "times" -> options.times();
        case "slots" -> options.slots(Integer.parseInt(parts[1]));
        default -> {
          int index = Integer.parseInt(parts[0]);
          options.constant(current.session.inputs().get(index).name(), tensor(parts[1]).handle());
          constants.put(index, tensor(parts[1]).value());
        }
      }
    }
    OrtPipelineFFM handle = settle(() -> OrtPipelineFFM.create(current.session, options));
    if (handle != null) {
      pipelines.put(w.get(1),
          new Line(handle, current.session, current.spec, constants, new ArrayDeque<>(), new ArrayList<>()));
    }
  }

  private void submit(List<String> w) {
    Line line = pipelines.get(w.get(1));
    List<Tensor> given = w.stream().skip(2).map(name -> name.equals("null") ? null : tensor(name)).toList();
    for (Tensor lent : line.lent()) lent.handle().close(); // they are valid until here
    tensors.values().removeAll(line.lent());
    line.lent().clear();
    if (!settle(() -> line.handle().submit(given.stream().map(of -> of == null ? null : of.handle()).toList()))) return;
    List<Mirror> inputs = new ArrayList<>();
    for (int i = 0; i < given.size(); i++) {
      inputs.add(line.constants().containsKey(i) ? line.constants().get(i) : given.get(i).value().copy());
    }
    line.items().add(inputs);
  }

  private void next(List<String> w) {
    Line line = pipelines.get(w.get(1));
    List<Mirror> inputs = line.items().poll();
    OrtPipelineFFM.Item item = settle(() -> line.handle().next());
    if (item == null) return;
    require("item", Long.parseLong(w.get(2)), item.index());
    List<Mirror> results = Reference.run(line.spec(), inputs);
    for (int i = 0; i < results.size(); i++) {
      OrtValueInfo info = line.session().outputs().get(i);
      OrtValueRef handle = item.outputs().get(info.name());
      if (i + 3 >= w.size() || w.get(i + 3).equals("-")) {
        handle.close();
        continue;
      }
      line.lent().add(keep(w.get(i + 3), handle, results.get(i), handedOver(info.device())));
    }
  }

  /** Where a pipeline hands an output over that the session leaves at a place. */
  private DeviceSpec handedOver(DeviceSpec left) {
    boolean onHost = left.text().endsWith("/pinned")
        || runtime.device(left).capabilities().contains(DeviceInfo.Capability.HOST_MEMORY);
    return onHost ? left : has("pinned") ? device.pinned() : host;
  }

  // ---- a run in a thread

  private void start() {
    Bound bound = current;
    runFailure = null;
    runner = Thread.ofPlatform().start(() -> {
      try {
        bound.handle.runWithBindings();
      } catch (OrtFFMException e) {
        runFailure = e;
      }
    });
    while (runner.isAlive()) {
      if (bound.handle.isBusy()) return;
      Thread.onSpinWait();
    }
    throw new Wrong("the run was over before it was seen");
  }

  private void join() {
    try {
      runner.join();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
    runner = null;
    settle(() -> {
      if (runFailure != null) throw runFailure;
    });
  }
}
