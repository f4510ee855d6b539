package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindFlow;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * A session's runs over items that follow one another, such as frames or tiles: the upload of an item, the run of the one
 * before it and the download of the one before that happen at the same time. Items are submitted, and pulled in the same order.
 *
 * <p>One thread at a time uses a pipeline. {@code close} waits for the items that are under way.
 */
public final class OrtPipelineFFM implements AutoCloseable {
  private final Handle handle;
  private final OrtSessionFFM session;
  private final Scratch scratch = new Scratch();
  private final Arena arena = Arena.ofAuto();
  private final MemorySegment inputs;
  private final MemorySegment outputs;

  /** How a pipeline is made; every setter returns this object. */
  public static final class Options {
    private final Map<String, OrtValueRef> constants = new HashMap<>();
    private int flags;
    private int slots;

    /** All defaults. */
    public Options() {}

    /**
     * How many items can be under way, each with memory of its own.
     *
     * @param count 0: 3
     * @return this
     */
    public Options slots(int count) {
      slots = count;
      return this;
    }

    /**
     * The first item that fails ends the pipeline; without, the others go on.
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
     * An input that is the same for all items. Memory of the caller's that it lies in is kept by the pipeline: its arena, which
     * is a shared one, refuses to be closed before the pipeline is.
     *
     * @param input its name
     * @param value where the session reads it
     * @return this
     */
    public Options constant(String input, OrtValueRef value) {
      constants.put(input, value);
      return this;
    }
  }

  /**
   * An item that was pulled. Times are nanoseconds of a monotonic clock, 0 without {@link Options#times} and where the item has
   * no such stage.
   *
   * @param index 0, 1, 2 ... in the order of submission
   * @param outputs by name, on the host. One that is open when an item is submitted keeps what it holds, and the pipeline
   *     makes new memory: close them before
   * @param submitNanos when it was submitted
   * @param uploadNanos when its upload ended
   * @param runNanos when its run ended
   * @param downloadNanos when its download ended
   */
  public record Item(long index, Map<String, OrtValueRef> outputs, long submitNanos, long uploadNanos, long runNanos,
      long downloadNanos) implements AutoCloseable {
    /** Closes the outputs. */
    @Override
    public void close() {
      outputs.values().forEach(OrtValueRef::close);
    }
  }

  private OrtPipelineFFM(OrtSessionFFM session, long address, LongConsumer destroyer) {
    this.session = session;
    handle = Handle.slow(this, address, destroyer);
    inputs = arena.allocate(JAVA_LONG, Math.max(1, session.inputs().size()));
    outputs = arena.allocate(JAVA_LONG, Math.max(1, session.outputs().size()));
  }

  /**
   * Makes a pipeline.
   *
   * @param session whose runs it makes
   * @param options how
   * @return the pipeline
   * @throws OrtFFMException NOT_SUPPORTED: an input that is not a tensor, or strings, and not constant; NOT_FOUND: no such input;
   *     as {@link OrtIoBindingFFM#bindInput(String, OrtValueRef)} for the constants
   */
  public static OrtPipelineFFM create(OrtSessionFFM session, Options options) {
    int count = session.inputs().size();
    OrtValueRef[] constants = new OrtValueRef[count];
    options.constants.forEach((name, value) -> constants[session.inputIndex(name)] = value);
    MemorySegment[] memory = Hold.arenas(Arrays.stream(constants).map(OrtPipelineFFM::backing).toList());
    Hold.requireShared("a constant of a pipeline", memory);
    Hold holding = memory == null ? null : Hold.begin(memory);
    LongConsumer destroyer = holding == null ? IobindFlow::pipelineDestroy : address -> {
      IobindFlow.pipelineDestroy(address);
      holding.end();
    };
    boolean made = false;
    int entered = 0;
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment addresses = arena.allocate(JAVA_LONG, Math.max(1, count));
      MemorySegment struct = Layouts.allocate(arena, Layouts.PIPELINE_OPTIONS);
      Layouts.setInt(struct, Layouts.PIPELINE_OPTIONS, "flags", options.flags);
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "slots", options.slots);
      Layouts.setLong(struct, Layouts.PIPELINE_OPTIONS, "constants", addresses.address());
      long address = session.enter();
      try {
        for (; entered < count; entered++) addresses.setAtIndex(JAVA_LONG, entered, enter(constants[entered]));
        scratch.check(IobindFlow.pipelineCreate(address, struct, scratch.out(0), scratch.error()));
        OrtPipelineFFM pipeline = new OrtPipelineFFM(session, scratch.getLong(0), destroyer);
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
   * Submits an item. Its content is copied at once, so that the values are the caller's again.
   *
   * @param values one host value for each input, in the session's order; null for the constant ones
   * @throws OrtFFMException INVALID_STATE: every slot holds an item that was not pulled, or an item failed and the pipeline
   *     stops there; DTYPE, SHAPE, DEVICE: a value does not fit. What fails later is thrown by {@link #next}
   */
  public void submit(List<@Nullable OrtValueRef> values) {
    if (values.size() != session.inputs().size()) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT,
          "expected " + session.inputs().size() + " inputs, got " + values.size());
    }
    session.requireOpen();
    long address = handle.enterAlone();
    int entered = 0;
    try {
      for (; entered < values.size(); entered++) inputs.setAtIndex(JAVA_LONG, entered, enter(values.get(entered)));
      Hold.during(Hold.arenas(values.stream().map(OrtPipelineFFM::backing).toList()),
          () -> scratch.check(IobindFlow.pipelineSubmit(address, inputs, scratch.error())));
    } finally {
      while (entered > 0) exit(values.get(--entered));
      handle.exitAlone();
    }
  }

  /**
   * Waits for the oldest item that was not pulled.
   *
   * @return the item; the caller closes it
   * @throws OrtFFMException what the item failed with, its index in the message, and the pipeline goes on unless it stops at a
   *     failure; CANCELLED: an item behind one that failed where it does; NOT_FOUND: no item is under way
   */
  public Item next() {
    return next(-1);
  }

  /**
   * Waits for the oldest item that was not pulled, for a limited time.
   *
   * @param timeout how long
   * @return the item; the caller closes it. Empty: the time was not enough, and the item is still the next one
   * @throws OrtFFMException as {@link #next()}
   */
  public Optional<Item> next(Duration timeout) {
    return Optional.ofNullable(next(Math.max(0, timeout.toNanos())));
  }

  private Item next(long nanos) {
    session.requireOpen();
    long address = handle.enterAlone();
    try {
      MemorySegment item = scratch.struct(Layouts.PIPELINE_ITEM);
      int status = nanos < 0 ? IobindFlow.pipelineNext(address, outputs, item, scratch.error())
          : IobindFlow.pipelineNextFor(address, nanos, outputs, item, scratch.error());
      if (status == OrtStatus.TIMEOUT.ordinal()) return null;
      scratch.check(status);
      Map<String, OrtValueRef> values = new LinkedHashMap<>();
      for (int i = 0; i < session.outputs().size(); i++) {
        long output = outputs.getAtIndex(JAVA_LONG, i);
        if (output != 0) {
          values.put(session.outputs().get(i).name(), new OrtValueRef(Iobind.tensorRetain(output), null, scratch));
        }
      }
      var layout = Layouts.PIPELINE_ITEM;
      return new Item(Layouts.getLong(item, layout, "index"), values, Layouts.getLong(item, layout, "submit_ns"),
          Layouts.getLong(item, layout, "upload_ns"), Layouts.getLong(item, layout, "run_ns"),
          Layouts.getLong(item, layout, "download_ns"));
    } finally {
      handle.exitAlone();
    }
  }

  /** Waits for the items that are under way and gives the pipeline up. */
  @Override
  public void close() {
    handle.close();
  }
}
