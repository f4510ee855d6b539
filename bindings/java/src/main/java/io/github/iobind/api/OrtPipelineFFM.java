package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindFlow;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * A session's runs over successive items, such as frames or tiles: the upload of an item, the run of the previous one and the
 * download of the one before that overlap. Items are returned in the order of submission.
 *
 * <p>A pipeline is externally synchronized. {@code close} waits for the items in flight.
 */
public final class OrtPipelineFFM implements AutoCloseable {
  private final Handle handle;
  private final OrtSessionFFM session;
  private final Scratch scratch = new Scratch();
  private final Arena arena = Arena.ofAuto();
  private final MemorySegment inputs;
  private final MemorySegment events;
  private final MemorySegment request;
  private final MemoryDescriptor[] shapes;
  private final boolean[] isConstant;
  private final Items items;

  /** Options of a pipeline; every setter returns this object. */
  public static final class Options {
    private final Map<String, OrtValueRef> constants = new HashMap<>();
    private final Map<String, long[]> shapes = new HashMap<>();
    private final Map<String, Placement> placements = new HashMap<>();
    private int flags;
    private int slots;
    private String runTag;
    private Map<String, String> runConfig = Map.of();

    /** All defaults. */
    public Options() {}

    /**
     * The maximum number of items in flight, each with its own memory.
     *
     * @param count 0: 3
     * @return this
     */
    public Options slots(int count) {
      slots = count;
      return this;
    }

    /**
     * Stop at the first failed item; by default the pipeline continues.
     *
     * @return this
     */
    public Options stopAtFailure() {
      flags |= Constants.PIPELINE_STOP;
      return this;
    }

    /**
     * Measure when each stage of an item ends.
     *
     * @return this
     */
    public Options times() {
      flags |= Constants.PIPELINE_TIMES;
      return this;
    }

    /**
     * An input that all items share. If it is in the caller's memory, the arena must be a shared one, and cannot be closed
     * before the pipeline is.
     *
     * @param input its name
     * @param value in the memory from which the session reads it
     * @return this
     */
    public Options constant(String input, OrtValueRef value) {
      constants.put(Objects.requireNonNull(input, "input"), Objects.requireNonNull(value, "value"));
      return this;
    }

    /**
     * The shape of an input in every item, for {@link OrtPipelineFFM#submit(Object, MemorySegment...)}; not needed if the model
     * leaves at most one dim open.
     *
     * @param input its name
     * @param dims the dims
     * @return this
     */
    public Options shape(String input, long... dims) {
      shapes.put(Objects.requireNonNull(input, "input"), Objects.requireNonNull(dims, "dims").clone());
      return this;
    }

    /**
     * Where an output goes; by default it is copied to the host.
     *
     * @param output its name
     * @param placement where; not NONE for all outputs
     * @return this
     */
    public Options output(String output, Placement placement) {
      placements.put(Objects.requireNonNull(output, "output"), Objects.requireNonNull(placement, "placement"));
      return this;
    }

    /**
     * Options of all runs.
     *
     * @param tag names the runs in ONNX Runtime's log and profile; null: none
     * @param config ONNX Runtime's run config entries; empty: none
     * @return this
     */
    public Options runOptions(@Nullable String tag, Map<String, String> config) {
      Objects.requireNonNull(config, "config").forEach((key, value) -> {
        Objects.requireNonNull(key, "config");
        Objects.requireNonNull(value, "config");
      });
      runTag = tag;
      runConfig = Map.copyOf(config);
      return this;
    }
  }

  /** Where an output of an item goes. */
  public enum Placement {
    /** It is copied to the host. */
    HOST,
    /** It stays in the session's output memory. */
    DEVICE,
    /** It is not fetched. */
    NONE
  }

  /** The failure of an item. */
  public static final class ItemException extends OrtFFMException {
    private static final long serialVersionUID = 1;
    /** The item's number. */
    private final long index;
    private final transient @Nullable Object tag;

    private ItemException(OrtFFMException failure, long index, @Nullable Object tag) {
      super(failure.status(), failure.ortCode(), failure.getMessage());
      this.index = index;
      this.tag = tag;
    }

    /**
     * The item's number.
     *
     * @return 0, 1, 2 ... in the order of submission
     */
    public long index() {
      return index;
    }

    /**
     * The tag with which the item was submitted.
     *
     * @return the tag; null: none
     */
    public @Nullable Object tag() {
      return tag;
    }
  }

  /**
   * A completed item. Times are nanoseconds of a monotonic clock; they are 0 without {@link Options#times}, or if the item has
   * no such stage.
   *
   * @param index 0, 1, 2 ... in the order of submission
   * @param outputs by name, in the memory that {@link Options#output} selects. An output that is still open when an item is
   *     submitted keeps its content, and the pipeline allocates new memory: close outputs first
   * @param submitNanos when it was submitted
   * @param uploadNanos when its upload ended
   * @param runNanos when its run ended
   * @param downloadNanos when its download ended
   * @param tag of the submission; null: none
   */
  public record Item(long index, Map<String, OrtValueRef> outputs, long submitNanos, long uploadNanos, long runNanos,
      long downloadNanos, @Nullable Object tag) implements AutoCloseable {
    /** An item; its outputs cannot be taken out of the map, so that {@link #close} closes them all. */
    public Item {
      outputs = Collections.unmodifiableMap(outputs);
    }

    /** Closes the outputs. */
    @Override
    public void close() {
      outputs.values().forEach(OrtValueRef::close);
    }
  }

  /** The items that were submitted. */
  private static final class Items {
    private final OrtSessionFFM session;
    private final Scratch scratch;
    private final MemorySegment outputs;
    /** The tags of items that were not pulled, by the numbers that libiobind gives back. */
    private final Map<Long, Object> tags = new HashMap<>();
    private long tickets;
    private int underWay;
    /** Those that a close has waited for, which then had not enough time: each an item, or what it failed with. */
    private final ArrayDeque<Object> pulled = new ArrayDeque<>();

    private Items(OrtSessionFFM session, Scratch scratch) {
      this.session = session;
      this.scratch = scratch;
      outputs = Arena.ofAuto().allocate(JAVA_LONG, Math.max(1, session.outputs().size()));
    }

    /** The oldest one, alone in the pipeline; null: timed out. */
    Item next(long address, long nanos) {
      Object known = pulled.poll();
      if (known instanceof OrtFFMException failure) throw failure;
      return known != null ? (Item) known : pull(address, nanos);
    }

    private Item pull(long address, long nanos) {
      MemorySegment item = scratch.struct(Layouts.PIPELINE_ITEM);
      int status = IobindFlow.pipelineNext(address, nanos, outputs, session.outputs().size(), item, scratch.error());
      if (status == OrtStatus.TIMEOUT.ordinal()) return null;
      if (underWay > 0) underWay--;
      long ticket = Layouts.getLong(item, Layouts.PIPELINE_ITEM, "tag"), index = Layouts.getLong(item, Layouts.PIPELINE_ITEM, "index");
      Object tag = tags.remove(ticket);
      if (status != 0) throw ticket == 0 ? scratch.failure(status) : new ItemException(scratch.failure(status), index, tag);
      Map<String, OrtValueRef> values = new LinkedHashMap<>();
      for (int i = 0; i < session.outputs().size(); i++) {
        long output = outputs.getAtIndex(JAVA_LONG, i);
        if (output != 0) {
          values.put(session.outputs().get(i).name(), new OrtValueRef(Iobind.tensorRetain(output), null, scratch));
        }
      }
      var layout = Layouts.PIPELINE_ITEM;
      return new Item(index, values, Layouts.getLong(item, layout, "submit_ns"),
          Layouts.getLong(item, layout, "upload_ns"), Layouts.getLong(item, layout, "run_ns"),
          Layouts.getLong(item, layout, "download_ns"), tag);
    }

    /** Waits for all of them, and keeps them for {@link #next}; false if it timed out. */
    boolean await(long address, Deadline deadline) {
      while (underWay > 0) {
        try {
          Item item = pull(address, deadline.left());
          if (item == null) return false;
          pulled.add(item);
        } catch (OrtFFMException failure) {
          pulled.add(failure);
        }
      }
      return true;
    }

    /** Gives up what nobody has pulled. */
    void close() {
      for (Object one : pulled) {
        if (one instanceof Item item) item.close();
      }
    }
  }

  private OrtPipelineFFM(OrtSessionFFM session, long address, LongConsumer destroyer, Options options) {
    this.session = session;
    Items all = new Items(session, scratch);
    items = all;
    Handle[] own = new Handle[1];
    handle = own[0] = Handle.slow(this, address, pipeline -> {
      try {
        destroyer.accept(pipeline);
      } finally {
        session.pipelineClosed(own[0]);
        all.close();
      }
    }, all::await);
    session.pipelineOpened(handle);
    inputs = arena.allocate(JAVA_LONG, Math.max(1, session.inputs().size()));
    events = arena.allocate(JAVA_LONG, Math.max(1, session.inputs().size()));
    request = Layouts.allocate(arena, Layouts.PIPELINE_REQUEST);
    int count = session.inputs().size();
    Layouts.setLong(request, Layouts.PIPELINE_REQUEST, "inputs", count == 0 ? 0 : inputs.address());
    Layouts.setLong(request, Layouts.PIPELINE_REQUEST, "input_count", count);
    Layouts.setLong(request, Layouts.PIPELINE_REQUEST, "events", count == 0 ? 0 : events.address());
    Layouts.setLong(request, Layouts.PIPELINE_REQUEST, "event_count", count);
    shapes = new MemoryDescriptor[count];
    isConstant = new boolean[shapes.length];
    for (int i = 0; i < shapes.length; i++) {
      OrtValueInfo input = session.inputs().get(i);
      long[] dims = options.shapes.get(input.name());
      if (dims != null) shapes[i] = MemoryDescriptor.of(input.type(), dims);
      isConstant[i] = options.constants.containsKey(input.name());
    }
  }

  /**
   * Creates a pipeline.
   *
   * @param session runs the model
   * @param options how
   * @return the pipeline
   * @throws OrtFFMException NOT_SUPPORTED: an input that is not a tensor, or strings, and not constant; NOT_FOUND: no such
   *     input; as {@link OrtIoBindingFFM#bindInput(String, OrtValueRef)} for the constants
   */
  public static OrtPipelineFFM create(OrtSessionFFM session, Options options) {
    int count = session.inputs().size();
    OrtValueRef[] constants = new OrtValueRef[count];
    options.constants.forEach((name, value) -> constants[session.inputIndex(name)] = value);
    options.shapes.keySet().forEach(session::inputIndex);
    options.placements.keySet().forEach(session::outputIndex);
    MemorySegment[] memory = Hold.arenas(Arrays.stream(constants).map(OrtPipelineFFM::backing).toArray(MemorySegment[]::new));
    Hold.requireShared("a constant of a pipeline", memory);
    Hold holding = memory == null ? null : Hold.begin(memory);
    LongConsumer destroyer = holding == null ? IobindFlow::pipelineDestroy : address -> {
      try {
        IobindFlow.pipelineDestroy(address);
      } finally {
        holding.end();
      }
    };
    boolean made = false;
    int entered = 0;
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment addresses = arena.allocate(JAVA_LONG, Math.max(1, count));
      MemorySegment struct = Layouts.allocate(arena, Layouts.PIPELINE_OPTIONS);
      Layouts.setInt(struct, Layouts.PIPELINE_OPTIONS, "flags", options.flags);
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "slots", options.slots);
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "constants", count == 0 ? 0 : addresses.address());
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "constant_count", count);
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "placements", placements(arena, session, options).address());
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "placement_count", options.placements.isEmpty() ? 0 : session.outputs().size());
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "run_options",
          OrtIoBindingFFM.runOptions(arena, options.runTag, options.runConfig, OrtRuntimeFFM.LogLevel.DEFAULT).address());
      long address = session.enter();
      try {
        for (; entered < count; entered++) addresses.setAtIndex(JAVA_LONG, entered, enter(constants[entered]));
        scratch.check(IobindFlow.pipelineCreate(address, struct, scratch.out(0), scratch.error()));
        OrtPipelineFFM pipeline = new OrtPipelineFFM(session, scratch.getLong(0), destroyer, options);
        made = true;
        return pipeline;
      } finally {
        session.exit();
      }
    } finally {
      if (!made && holding != null) holding.end();
      while (entered > 0) exit(constants[--entered]);
    }
  }

  private static MemorySegment placements(Arena arena, OrtSessionFFM session, Options options) {
    if (options.placements.isEmpty()) return MemorySegment.NULL;
    MemorySegment all = arena.allocate(JAVA_INT, session.outputs().size());
    options.placements.forEach((name, where) -> all.setAtIndex(JAVA_INT, session.outputIndex(name), where.ordinal()));
    return all;
  }

  private static MemorySegment backing(OrtValueRef value) {
    return value == null ? null : value.backing();
  }

  private static long enter(OrtValueRef value) {
    return value == null ? 0 : value.enter();
  }

  private static void exit(OrtValueRef value) {
    if (value != null) value.exit();
  }

  /**
   * Submits an item without a tag and events.
   *
   * @param values as for {@link #submit(Object, List, List)}
   * @throws OrtFFMException as {@link #submit(Object, List, List)}
   */
  public void submit(List<@Nullable OrtValueRef> values) {
    submit(null, values, null);
  }

  /**
   * Submits an item. Values on the host are copied before the call returns, after their events, and may then be changed. Other
   * values are read in place, and must not be written until the item was returned.
   *
   * @param tag returned with the item, also if it fails; null: none
   * @param values one value for each input, in the session's order, on the host or in the memory from which the session reads
   *     the input; null for constant inputs
   * @param ready one event for each input, after which its value is complete; null, also for a single input: it is complete
   * @throws OrtFFMException INVALID_STATE: every slot has an item that was not returned, or an item failed and the pipeline
   *     stops at failures; DTYPE, SHAPE: a value does not match; WRONG_DEVICE: a value is neither on the host nor in the memory
   *     from which the session reads it; INVALID_ARGUMENT: a value on a device is in memory of an arena that can be closed; the
   *     failure of work before an event. {@link #next} throws later failures
   */
  public void submit(@Nullable Object tag, List<@Nullable OrtValueRef> values, @Nullable List<@Nullable OrtEventFFM> ready) {
    for (OrtValueRef value : values) requireKept(value);
    requireCount("inputs", values.size());
    if (ready != null) requireCount("events", ready.size());
    boolean isCounted = session.beginRun();
    try {
      submitCounted(values, ready, tag);
    } finally {
      session.endRun(isCounted);
    }
  }

  private void submitCounted(List<OrtValueRef> values, List<OrtEventFFM> ready, Object tag) {
    long address = handle.enterAlone();
    int entered = 0, waiting = 0;
    try {
      for (; entered < values.size(); entered++) inputs.setAtIndex(JAVA_LONG, entered, enter(values.get(entered)));
      for (; waiting < values.size(); waiting++) {
        events.setAtIndex(JAVA_LONG, waiting, OrtEventFFM.enter(ready == null ? null : ready.get(waiting)));
      }
      Hold.during(Hold.arenas(values.stream().map(OrtPipelineFFM::backing).toArray(MemorySegment[]::new)),
          () -> submitRequest(address, tag));
      items.underWay++;
    } finally {
      while (waiting > 0) {
        waiting--;
        OrtEventFFM.exit(ready == null ? null : ready.get(waiting));
      }
      while (entered > 0) exit(values.get(--entered));
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Submits an item of host memory, which is copied before the call returns.
   *
   * @param tag returned with the item, also if it fails; null: none
   * @param segments native memory of exactly the inputs' sizes, one for each input that is not constant, in the session's
   *     order; see {@link Options#shape}
   * @throws OrtFFMException as {@link #submit(Object, List, List)}; INVALID_ARGUMENT: another number of segments, a Java
   *     array's segment, or an unknown shape; SHAPE: another number of bytes
   */
  public void submit(@Nullable Object tag, MemorySegment... segments) {
    OrtValueRef[] values = new OrtValueRef[shapes.length];
    try {
      int next = 0;
      for (int i = 0; i < shapes.length; i++) {
        if (isConstant[i]) continue;
        if (next == segments.length) throw wrongCount(tag, segments.length);
        MemorySegment segment = segments[next++];
        values[i] = OrtValueRef.wrap(session.keptRuntime(), DeviceSpec.CPU, segment, shape(i, segment.byteSize()));
      }
      if (next != segments.length) throw wrongCount(tag, segments.length);
      submit(tag, Arrays.asList(values), null);
    } finally {
      for (OrtValueRef value : values) {
        if (value != null) value.close();
      }
    }
  }

  private OrtFFMException wrongCount(@Nullable Object tag, int got) {
    int expected = 0;
    for (boolean one : isConstant) expected += one ? 0 : 1;
    String hint = got > 0 || tag == null ? "" : ": the first argument, here a " + tag.getClass().getSimpleName()
        + ", is the tag: submit(tag, segment), or submit(null, segment) without one";
    return new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "submit: expected " + expected + (expected == 1 ? " segment" : " segments")
        + " behind the tag, got " + got + hint);
  }

  /** The shape of an input of so many bytes: what the options say, or what the model does but for one open dim. */
  private MemoryDescriptor shape(int input, long bytes) {
    OrtValueInfo info = session.inputs().get(input);
    MemoryDescriptor known = shapes[input];
    if (known == null) {
      long[] dims = info.shape().stream().mapToLong(Long::longValue).toArray();
      long rest = 1;
      int open = -1, count = 0;
      for (int i = 0; i < dims.length; i++) {
        if (dims[i] < 0) {
          open = i;
          count++;
        } else {
          rest *= dims[i];
        }
      }
      if (!info.hasShape() || count > 1) {
        throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "submit: '" + info.name()
            + "' has more than one open dim: name its shape by OrtPipelineFFM.Options.shape");
      }
      if (open >= 0) dims[open] = rest == 0 ? 0 : bytes * 8 / Math.max(1, info.type().bits()) / rest;
      known = MemoryDescriptor.of(info.type(), dims);
    }
    if (known.byteSize() != bytes) {
      throw new OrtFFMException(OrtStatus.SHAPE, "submit: '" + info.name() + "': expected " + known.byteSize() + " bytes for " + known
          + ", got " + bytes);
    }
    return known;
  }

  private void submitRequest(long address, Object tag) {
    long ticket = ++items.tickets;
    Layouts.setLong(request, Layouts.PIPELINE_REQUEST, "tag", ticket);
    scratch.check(IobindFlow.pipelineSubmit(address, request, scratch.error()));
    if (tag != null) items.tags.put(ticket, tag);
  }

  private void requireCount(String what, int got) {
    if (got == shapes.length) return;
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "submit: expected " + shapes.length + " " + what + ", got " + got);
  }

  /** What is read where it is, after the call, must not be memory that Java takes away. */
  private static void requireKept(OrtValueRef value) {
    if (value == null || value.isHostReadable() || Hold.arenas(value.backing()) == null) return;
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT,
        "submit: a value on a device lies in memory of an arena that can be closed in the middle");
  }

  /**
   * Waits for the oldest item that was not returned.
   *
   * @return the item; the caller closes it
   * @throws OrtFFMException the failure of the item, with its index in the message; an {@link ItemException} if it was
   *     submitted with a tag. The pipeline then continues, unless it stops at failures: the following items are CANCELLED.
   *     NOT_FOUND: no item is in flight
   */
  public Item next() {
    return next(OrtEventFFM.FOREVER);
  }

  /**
   * Waits for the oldest item that was not returned, with a time limit.
   *
   * @param timeout the longest time
   * @return the item; the caller closes it. Empty: timed out; the item is still the next one
   * @throws OrtFFMException as {@link #next()}
   */
  public Optional<Item> next(Duration timeout) {
    return Optional.ofNullable(next(Deadline.nanos(timeout)));
  }

  private Item next(long nanos) {
    session.requireOpen();
    long address = handle.enterAlone();
    try {
      return items.next(address, nanos);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Waits for the items in flight and closes the pipeline.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback from native code, or in a {@link OrtSessionFFM.RunListener} while a
   *     call is in the pipeline
   */
  @Override
  public void close() {
    handle.close();
  }

  /**
   * As {@link #close()}, with a time limit.
   *
   * @param timeout the longest time to wait for the call in the pipeline and the items in flight
   * @return false if it timed out: the pipeline is still open, and all its items can be fetched
   * @throws OrtFFMException as {@link #close()}
   */
  public boolean close(Duration timeout) {
    return handle.closeBy(Deadline.in(timeout));
  }
}
