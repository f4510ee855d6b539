package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.IobindBatch;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongConsumer;
import java.util.function.ToIntFunction;
import org.jspecify.annotations.Nullable;

/**
 * A live batch: many independent sequences of one recurrent model, such as callers, run as rows of one run. Each {@link Row} has
 * its own state. Rows {@link #join} and leave at any time.
 *
 * <p>A batch is thread-safe; a row is externally synchronized. Either the program decides which rows make a step, by
 * {@link #run(Row...)}; or rows are submitted, by {@link Row#submit}, and one thread makes steps of the submitted rows: a
 * thread of the program by {@link #step()}, or a thread of the batch by {@link #start}.
 */
public final class OrtBatchFFM implements AutoCloseable {
  /** {@code IOBIND_BATCH_ALL}. */
  private static final long ALL = -1;

  private final Handle handle;
  private final OrtSessionFFM session;
  private final BatchTurns turns;
  private final int mostRows;
  private final long stepRows;
  private final long stepNanos;
  /** Where a step writes which rows it was of; null while one does. */
  private final AtomicReference<MemorySegment> room = new AtomicReference<>();

  /** Options of a batch; every setter returns this object. */
  public static final class Options {
    private final int mostRows;
    private final Map<String, String> pairs = new LinkedHashMap<>();
    private final Map<String, Integer> inputAxes = new HashMap<>();
    private final Map<String, Integer> outputAxes = new HashMap<>();
    private OrtStateFFM first;
    private double tolerance;
    private int flags;
    private int rows;
    private Duration longest = Duration.ZERO;

    /**
     * All defaults.
     *
     * @param mostRows the maximum number of rows; memory for the states of this number is allocated twice
     */
    public Options(int mostRows) {
      this.mostRows = mostRows;
    }

    /**
     * A state: an output that is carried to an input of the row's next step. Its dims, except the batch's, are the same in all
     * steps.
     *
     * @param output its name
     * @param input the input's name
     * @return this
     */
    public Options carry(String output, String input) {
      pairs.put(Objects.requireNonNull(output, "output"), Objects.requireNonNull(input, "input"));
      return this;
    }

    /**
     * The batch axis of an input. If no axis is set, the batch finds them by the name of an open dim that every input and
     * output has exactly once. If any axis is set, inputs and outputs without one have no batch axis.
     *
     * @param input its name
     * @param axis 0 or more
     * @return this
     */
    public Options inputAxis(String input, int axis) {
      inputAxes.put(Objects.requireNonNull(input, "input"), checked(input, axis));
      return this;
    }

    /**
     * The batch axis of an output, as {@link #inputAxis}.
     *
     * @param output its name
     * @param axis 0 or more
     * @return this
     */
    public Options outputAxis(String output, int axis) {
      outputAxes.put(Objects.requireNonNull(output, "output"), checked(output, axis));
      return this;
    }

    private static int checked(String name, int axis) {
      if (axis >= 0) return axis;
      throw new OrtFFMException(OrtStatus.SHAPE, "the batch axis of '" + name + "': expected 0 or more, got " + axis);
    }

    /**
     * The initial state of a row; the default is zeros.
     *
     * @param state with one row, of the same states; it may be closed after the batch was created
     * @return this
     */
    public Options first(OrtStateFFM state) {
      first = Objects.requireNonNull(state, "state");
      return this;
    }

    /**
     * How far a row may differ from the same row alone, in the test before the first step with each number of rows; by default,
     * not at all.
     *
     * @param part as a fraction of the range of an output's values
     * @return this
     */
    public Options tolerance(double part) {
      tolerance = part;
      return this;
    }

    /**
     * Leave outputs in the session's output memory; by default those of all rows are copied to the host together.
     *
     * @return this
     */
    public Options onDevice() {
      flags |= Constants.BATCH_ON_DEVICE;
      return this;
    }

    /**
     * When {@link OrtBatchFFM#step()} and the thread of {@link OrtBatchFFM#start} make a step: as soon as this number of rows,
     * or all rows, are submitted, or one has waited for the longest time.
     *
     * @param rows 0: 16
     * @param longest zero: 1 ms
     * @return this
     */
    public Options steps(int rows, Duration longest) {
      if (rows < 0) throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "steps: expected 0 or more rows, got " + rows);
      this.rows = rows;
      this.longest = Objects.requireNonNull(longest, "longest");
      return this;
    }

    private MemorySegment write(Arena arena, OrtSessionFFM session) {
      StructLayout layout = Layouts.BATCH_OPTIONS;
      MemorySegment struct = Layouts.allocate(arena, layout);
      Layouts.setInt(struct, layout, "flags", flags);
      Layouts.setLong(struct, layout, "most_rows", mostRows);
      Layouts.setDouble(struct, layout, "tolerance", tolerance);
      if (!pairs.isEmpty()) {
        MemorySegment all = arena.allocate(Layouts.BATCH_PAIR, pairs.size());
        long at = 0;
        for (Map.Entry<String, String> pair : pairs.entrySet()) {
          all.setAtIndex(JAVA_LONG, at++, session.outputIndex(pair.getKey()));
          all.setAtIndex(JAVA_LONG, at++, session.inputIndex(pair.getValue()));
        }
        Layouts.setLong(struct, layout, "pairs", all.address());
        Layouts.setLong(struct, layout, "pair_count", pairs.size());
      }
      int[] ofInputs = axes(inputAxes, session.inputs(), session::inputIndex);
      int[] ofOutputs = axes(outputAxes, session.outputs(), session::outputIndex);
      if (!inputAxes.isEmpty() || !outputAxes.isEmpty()) {
        Layouts.setLong(struct, layout, "input_axes", arena.allocateFrom(JAVA_INT, ofInputs).address());
        Layouts.setLong(struct, layout, "input_axis_count", ofInputs.length);
        Layouts.setLong(struct, layout, "output_axes", arena.allocateFrom(JAVA_INT, ofOutputs).address());
        Layouts.setLong(struct, layout, "output_axis_count", ofOutputs.length);
      }
      return struct;
    }

    private static int[] axes(Map<String, Integer> named, List<OrtValueInfo> values, ToIntFunction<String> index) {
      int[] axes = new int[values.size()];
      Arrays.fill(axes, Constants.BATCH_NO_AXIS);
      named.forEach((name, axis) -> axes[index.applyAsInt(name)] = axis);
      return axes;
    }
  }

  /**
   * Counts of a batch.
   *
   * @param rows that have joined and not left
   * @param width rows of the last step's run, idle ones included
   * @param steps that were made
   * @param movedRows rows whose states were moved: by joins, leaves, changes of the rows of a step, and saved states
   * @param bytes of the states' memory
   */
  public record Info(long rows, long width, long steps, long movedRows, long bytes) {}

  private OrtBatchFFM(OrtSessionFFM session, long address, Options options) {
    this.session = session;
    BatchTurns all = new BatchTurns();
    turns = all;
    mostRows = options.mostRows;
    stepRows = options.rows;
    stepNanos = Deadline.nanos(options.longest);
    Handle runtime = session.keptRuntime().handle();
    runtime.keep();
    Handle[] own = new Handle[1];
    LongConsumer destroy = batch -> {
      try {
        IobindBatch.batchDestroy(batch);
      } finally {
        runtime.letGo();
        session.pipelineClosed(own[0]);
        all.end();
      }
    };
    handle = own[0] = Handle.slow(this, address, destroy, Handle.Work.NONE);
    session.pipelineOpened(handle);
  }

  /**
   * Creates a batch. The model must not mix rows. To test this, before the first step with each number of rows a batch runs the
   * model with that many rows of different data, and with each of them alone; before its very first step it does so with 2, 3,
   * 5 and 8 rows. The test cannot prove that a model never mixes rows.
   *
   * <p>A session that captures graphs captures two for each power of two that occurs. A step is one replay with the next power
   * of two, or several replays with smaller ones, whichever has taken less time. The same thread must make all steps. Any other
   * session runs exactly the rows of a step.
   *
   * @param session runs the model; it may be closed before the batch
   * @param options how
   * @return the batch
   * @throws OrtFFMException INVALID_ARGUMENT; NOT_FOUND: no such input or output; SHAPE: no batch axis can be found (the
   *     message lists the candidates), or a state does not match; DTYPE: a state's input and output differ; NOT_SUPPORTED: a
   *     value is not a tensor, has strings or a packed type, or a state grows; OUT_OF_MEMORY; RUNTIME
   * @throws IllegalStateException the session, or the first state, is closed
   */
  public static OrtBatchFFM create(OrtSessionFFM session, Options options) {
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment struct = options.write(arena, session);
      long address = session.enter();
      try {
        if (options.first != null) Layouts.setLong(struct, Layouts.BATCH_OPTIONS, "first", options.first.enter());
        try {
          scratch.check(IobindBatch.batchCreate(address, struct, scratch.out(0), scratch.error()));
        } finally {
          if (options.first != null) options.first.exit();
        }
        return new OrtBatchFFM(session, scratch.getLong(0), options);
      } finally {
        session.exit();
      }
    }
  }

  /**
   * The session.
   *
   * @return the session that this batch is of
   */
  public OrtSessionFFM session() {
    return session;
  }

  /**
   * Counts of the batch.
   *
   * @return the current counts
   * @throws IllegalStateException the batch is closed
   */
  public Info info() {
    try (Scratch scratch = Scratch.take()) {
      StructLayout layout = Layouts.BATCH_INFO;
      MemorySegment info = scratch.struct(layout);
      long address = enter();
      try {
        scratch.check(IobindBatch.batchGetInfo(address, info, scratch.error()));
      } finally {
        handle.exit();
      }
      return new Info(Layouts.getLong(info, layout, "row_count"), Layouts.getLong(info, layout, "width"),
          Layouts.getLong(info, layout, "steps"), Layouts.getLong(info, layout, "moved_rows"), Layouts.getLong(info, layout, "bytes"));
    }
  }

  private long enter() {
    session.requireOpen();
    return handle.enter();
  }

  // ---- rows

  /**
   * A stream that is a row of the batch, from {@link OrtBatchFFM#join} until it leaves. It is externally synchronized, but
   * {@link #leave} and {@link #close} may be called by any thread.
   */
  public static final class Row implements AutoCloseable {
    private final OrtBatchFFM batch;
    private final long slot;
    /** Of what follows, and of the calls that submit the row, collect its step, and let it leave. */
    final ReentrantLock lock = new ReentrantLock();
    private volatile boolean hasLeft;
    /** Of the step that the row was submitted for; null: of none. */
    CompletableFuture<Row> pending;

    private Row(OrtBatchFFM batch, long slot) {
      this.batch = batch;
      this.slot = slot;
    }

    long slot() {
      return slot;
    }

    private long enter() {
      if (hasLeft) throw new IllegalStateException("OrtBatchFFM.Row has left");
      return batch.enter();
    }

    /**
     * Sets an input for the row's next step to a copy of the value's current content. It is valid for one step.
     *
     * @param name an input with a batch axis that is not a state
     * @param value of the input's type and dims, with length 1 on the batch axis; in host memory, or in the memory from which
     *     the session reads the input
     * @throws OrtFFMException NOT_FOUND: the name; DTYPE, SHAPE: it does not match; WRONG_DEVICE: it is elsewhere;
     *     INVALID_ARGUMENT: a state, or an input without a batch axis; OUT_OF_MEMORY; the failure of work that was to write the
     *     value
     * @throws IllegalStateException the row has left, or the batch or the value is closed
     */
    public void setInput(String name, OrtValueRef value) {
      if (hasLeft) throw new IllegalStateException("OrtBatchFFM.Row has left");
      batch.set(slot, batch.session.inputIndex(name), value);
    }

    /**
     * Sets an input for the row's next step to a copy of a Java array or a buffer.
     *
     * @param name an input with a batch axis that is not a state
     * @param array {@code float[]}, {@code long[]}, ..., as {@link OnnxTensorElementType#component} says for the input's type
     * @param shape the dims, with length 1 on the batch axis
     * @throws OrtFFMException as {@link #setInput(String, OrtValueRef)}; DTYPE, SHAPE also: an array of another type or length
     * @throws IllegalStateException the row has left, or the batch is closed
     */
    public void setInput(String name, Object array, long... shape) {
      try (OrtValueRef value = batch.value(name, array, shape)) {
        setInput(name, value);
      }
    }

    /**
     * Sets an input for the row's next step to a copy of native memory.
     *
     * @param name an input with a batch axis that is not a state
     * @param segment native memory, of the input's size
     * @param shape the dims, with length 1 on the batch axis
     * @throws OrtFFMException as {@link #setInput(String, OrtValueRef)}; INVALID_ARGUMENT also: the segment is a Java array's,
     *     or too small
     * @throws IllegalStateException the row has left, or the batch or the segment's arena is closed
     */
    public void setInput(String name, MemorySegment segment, long... shape) {
      try (OrtValueRef value = batch.value(name, segment, shape)) {
        setInput(name, value);
      }
    }

    /**
     * An output of the row's last step, which no later step overwrites. Blocks until a step in flight on a stream is complete.
     *
     * @param name an output that is not a state; an output without a batch axis is returned as a whole
     * @return the value; the caller closes it
     * @throws OrtFFMException NOT_FOUND: the name; INVALID_STATE: the row has made no step; INVALID_ARGUMENT: a state, see
     *     {@link #saveState}; the failure of the step in flight; OUT_OF_MEMORY; RUNTIME
     * @throws IllegalStateException the row has left, or the batch is closed
     */
    public OrtValueRef getOutput(String name) {
      int index = batch.session.outputIndex(name);
      try (Scratch scratch = Scratch.take()) {
        long address = enter();
        try {
          scratch.check(IobindBatch.batchGetOutput(address, slot, index, scratch.out(0), scratch.error()));
          return new OrtValueRef(scratch.getLong(0), null, scratch);
        } finally {
          batch.handle.exit();
        }
      }
    }

    /**
     * Saves the row's state, for another row, a binding of the session, or a file. Blocks until the step in flight is complete.
     *
     * @return the state, with one row; the caller closes it
     * @throws OrtFFMException INVALID_STATE: the batch has no states; the failure of the step in flight; OUT_OF_MEMORY; RUNTIME
     * @throws IllegalStateException the row has left, or the batch is closed
     */
    public OrtStateFFM saveState() {
      try (Scratch scratch = Scratch.take()) {
        long address = enter();
        try {
          scratch.check(IobindBatch.batchSaveState(address, slot, scratch.out(0), scratch.error()));
          return new OrtStateFFM(batch.session, scratch.getLong(0), scratch);
        } finally {
          batch.handle.exit();
        }
      }
    }

    /**
     * Submits the row, whose inputs must be set, for the next {@link OrtBatchFFM#step()}, or for the thread of
     * {@link OrtBatchFFM#start}.
     *
     * <p>The future completes with this row when its step is complete, or with the step's failure; after a failure the row and
     * its inputs are unchanged. The future is cancelled if the row leaves first, or if the batch is stopped or closed.
     * Cancelling or completing it does not withdraw the row. Its stages run on the thread that makes steps: use the
     * {@code Async} methods for long ones.
     *
     * @return the future
     * @throws OrtFFMException INVALID_STATE: an input is not set (the message names it), or the row is already submitted
     * @throws IllegalStateException the row has left, or the batch is closed
     */
    public CompletableFuture<Row> submit() {
      lock.lock();
      try (Scratch scratch = Scratch.take()) {
        if (pending != null) throw new OrtFFMException(OrtStatus.INVALID_STATE, "submit: the row is submitted already: await its future");
        CompletableFuture<Row> future = new CompletableFuture<>();
        long address = enter();
        boolean isSubmitted = false;
        batch.turns.add(this); // before it can make its step: whoever makes it looks for it here
        try {
          scratch.check(IobindBatch.batchSubmit(address, slot, scratch.error()));
          pending = future;
          isSubmitted = true;
        } finally {
          if (!isSubmitted) batch.turns.remove(this);
          batch.handle.exit();
        }
        return future;
      } finally {
        lock.unlock();
      }
    }

    /**
     * Lets the row leave, after the step in flight, and returns its state.
     *
     * @return the state, with one row; the caller closes it
     * @throws OrtFFMException as {@link #saveState}; in that case the row has not left
     * @throws IllegalStateException the row has left, or the batch is closed
     */
    public OrtStateFFM leave() {
      return Objects.requireNonNull(leave(true));
    }

    /**
     * Lets the row leave, after the step in flight, and discards its state. This is a no-op if the row has left, or the batch
     * is closed.
     *
     * @throws OrtFFMException the failure of the step in flight; in that case the row has not left
     */
    @Override
    public void close() {
      try {
        if (!isOver()) leave(false);
      } catch (IllegalStateException e) {
        if (!isOver()) throw e; // by another thread, just now
      }
    }

    private boolean isOver() {
      return hasLeft || batch.handle.isClosed();
    }

    private @Nullable OrtStateFFM leave(boolean isKept) {
      CompletableFuture<Row> dropped;
      OrtStateFFM state = null;
      lock.lock();
      try (Scratch scratch = Scratch.take()) {
        long address = enter();
        try {
          scratch.check(IobindBatch.batchLeave(address, slot, isKept ? scratch.out(0) : 0, scratch.error()));
          hasLeft = true;
          if (isKept) state = new OrtStateFFM(batch.session, scratch.getLong(0), scratch);
        } finally {
          batch.handle.exit();
        }
        dropped = pending;
        pending = null;
      } finally {
        lock.unlock();
      }
      batch.turns.remove(this);
      if (dropped != null) dropped.cancel(false);
      return state;
    }
  }

  /**
   * Adds a row, which begins with the batch's first state. Nothing is moved before its first step.
   *
   * @return the row
   * @throws OrtFFMException INVALID_STATE: the batch has its maximum number of rows, or is stopped
   * @throws IllegalStateException the batch is closed
   */
  public Row join() {
    return join(null);
  }

  /**
   * Adds a row.
   *
   * @param state the initial state, with one row, of a row of a batch or of a binding of the session; it may be closed after
   *     this. null: the batch's first state
   * @return the row
   * @throws OrtFFMException INVALID_STATE: the batch has its maximum number of rows; INVALID_ARGUMENT: a state of another
   *     session or of other carried inputs; SHAPE: a state of other dims, or of more rows; OUT_OF_MEMORY
   * @throws IllegalStateException the batch, or the state, is closed
   */
  public Row join(@Nullable OrtStateFFM state) {
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        long from = state == null ? 0 : state.enter();
        try {
          scratch.check(IobindBatch.batchJoin(address, from, scratch.out(0), scratch.error()));
        } finally {
          if (state != null) state.exit();
        }
        return new Row(this, scratch.getLong(0));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Sets an input without a batch axis, which all rows share, to a copy of the value's current content. It remains set until it
   * is set again. Blocks until the step in flight is complete.
   *
   * @param name the input
   * @param value of the input's type and dims; in host memory, or in the memory from which the session reads the input
   * @throws OrtFFMException as {@link Row#setInput(String, OrtValueRef)}; INVALID_ARGUMENT: an input with a batch axis
   * @throws IllegalStateException the batch or the value is closed
   */
  public void setShared(String name, OrtValueRef value) {
    set(ALL, session.inputIndex(name), value);
  }

  /**
   * Sets an input without a batch axis to a copy of a Java array or a buffer.
   *
   * @param name the input
   * @param array as for {@link Row#setInput(String, Object, long...)}
   * @param shape the dims; none for a scalar
   * @throws OrtFFMException as {@link #setShared(String, OrtValueRef)}
   * @throws IllegalStateException the batch is closed
   */
  public void setShared(String name, Object array, long... shape) {
    try (OrtValueRef value = value(name, array, shape)) {
      setShared(name, value);
    }
  }

  private OrtValueRef value(String input, Object array, long[] shape) {
    MemoryDescriptor descriptor = MemoryDescriptor.of(session.inputs().get(session.inputIndex(input)).type(), shape);
    if (array instanceof MemorySegment segment) return OrtValueRef.wrap(session.keptRuntime(), DeviceSpec.CPU, segment, descriptor);
    MemorySegment content = JavaArrays.segment(array, descriptor, JavaArrays.Use.SET, input);
    OrtValueRef value = OrtValueRef.allocate(session.keptRuntime(), DeviceSpec.CPU, descriptor);
    value.write(0, content, null);
    return value;
  }

  private void set(long slot, int index, OrtValueRef value) {
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        long row = value.enter();
        try {
          Hold.during(Hold.arenas(value.backing()),
              () -> scratch.check(IobindBatch.batchSetInput(address, slot, index, row, scratch.error())));
        } finally {
          value.exit();
        }
      } finally {
        handle.exit();
      }
    }
  }

  // ---- steps

  /**
   * Makes a step of some rows, whose inputs must be set, with the same dims. The states of all other rows do not change.
   *
   * @param rows different rows of this batch, one or more
   * @throws OrtFFMException INVALID_ARGUMENT: no row, a row twice, or a row of another batch; INVALID_STATE: an input is not
   *     set (the message names it), or a row is submitted; SHAPE: rows of different dims, or an output that does not have a row
   *     for each; NOT_SUPPORTED: the model mixes rows (the message names the output); CANCELLED, DEVICE_LOST, OUT_OF_MEMORY,
   *     RUNTIME: the run failed; the failure of the step in flight. After a failure all rows and their inputs are unchanged
   * @throws IllegalStateException a row has left, or the batch is closed
   */
  public void run(Row... rows) {
    run(null, List.of(rows));
  }

  /**
   * Makes a step of some rows; see {@link #run(Row...)}.
   *
   * @param rows different rows of this batch, one or more
   * @throws OrtFFMException as there
   * @throws IllegalStateException as there
   */
  public void run(Collection<Row> rows) {
    run(null, rows);
  }

  /**
   * Makes a step of some rows on a stream. It is in flight until the next call that needs its result: a step,
   * {@link Row#getOutput}, {@link Row#saveState}, or a leave. That call also throws the step's failure.
   *
   * @param stream a stream of a device of the session; null: complete on return
   * @param rows different rows of this batch, one or more
   * @throws OrtFFMException as {@link #run(Row...)}; WRONG_DEVICE: the stream is not of a device of the session
   * @throws IllegalStateException as there, or the stream is closed
   */
  public void run(@Nullable OrtStreamFFM stream, Collection<Row> rows) {
    boolean isCounted = session.beginRun();
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment slots = arena.allocate(JAVA_LONG, Math.max(1, rows.size()));
      int count = 0;
      for (Row row : rows) slots.setAtIndex(JAVA_LONG, count++, slotOf(row));
      long address = enter();
      try {
        long on = OrtStreamFFM.enter(stream);
        try {
          scratch.check(IobindBatch.batchRun(address, slots, count, on, scratch.error()));
        } finally {
          OrtStreamFFM.exit(stream);
        }
      } finally {
        handle.exit();
      }
    } finally {
      session.endRun(isCounted);
    }
  }

  private long slotOf(Row row) {
    if (row.batch != this) throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "run: a row is of another batch");
    if (row.hasLeft) throw new IllegalStateException("OrtBatchFFM.Row has left");
    return row.slot;
  }

  /**
   * Waits for submitted rows, as {@link Options#steps} defines, and makes a step of them. Rows whose inputs have other dims
   * than those of the first row wait for the next step. The futures of the rows are complete when it returns.
   *
   * @return the number of rows, 1 or more
   * @throws OrtFFMException as {@link #run(Row...)}: the future of each row has the same failure; CANCELLED: the batch is
   *     stopped
   * @throws IllegalStateException the batch is closed, also while this waits for a row
   */
  public int step() {
    return step(Deadline.NEVER);
  }

  /**
   * As {@link #step()}, with a time limit.
   *
   * @param timeout the longest time to wait for the first row; zero: only rows that are already submitted
   * @return the number of rows; 0: timed out
   * @throws OrtFFMException as {@link #step()}
   * @throws IllegalStateException as {@link #step()}
   */
  public int step(Duration timeout) {
    return step(Deadline.in(timeout));
  }

  private int step(Deadline deadline) {
    while (turns.awaitRow(deadline)) {
      int count = stepSubmitted();
      if (count > 0) return count;
    }
    if (handle.isClosed()) throw handle.closed();
    return turns.isOver() ? stepSubmitted() : 0; // a stopped batch refuses it
  }

  /** @return the number of rows; 0: those that were seen have made their steps, or left, meanwhile */
  private int stepSubmitted() {
    List<Runnable> ended;
    OrtFFMException failure = null;
    int count;
    MemorySegment known = room.getAndSet(null), slots = known != null ? known : Arena.ofAuto().allocate(JAVA_LONG, mostRows);
    boolean isCounted = session.beginRun();
    try (Scratch scratch = Scratch.take()) {
      MemorySegment wait = scratch.struct(Layouts.BATCH_WAIT);
      Layouts.setLong(wait, Layouts.BATCH_WAIT, "rows", stepRows);
      Layouts.setLong(wait, Layouts.BATCH_WAIT, "longest_ns", stepNanos);
      Layouts.setLong(wait, Layouts.BATCH_WAIT, "timeout_ns", 1); // rows that are submitted now: threads wait for them in Java
      scratch.setLong(0, 0); // what is refused leaves it as it is
      long address = enter();
      try {
        int status = IobindBatch.batchStep(address, wait, slots, mostRows, scratch.out(0), scratch.error());
        count = (int) scratch.getLong(0);
        if (status != 0 && status != OrtStatus.TIMEOUT.ordinal()) failure = scratch.failure(status);
        ended = turns.collect(address, slots, count, scratch);
      } finally {
        handle.exit();
      }
    } finally {
      room.set(slots);
      session.endRun(isCounted);
    }
    ended.forEach(Runnable::run); // stages may close the batch: nothing is in it
    if (failure != null) throw failure;
    return count;
  }

  /**
   * Starts a thread of the batch that makes steps of the submitted rows, as {@link #step()} does, until the batch is closed.
   * The futures have the failure of a step. The thread retains the batch, so a batch that is never closed is never collected.
   *
   * @throws OrtFFMException INVALID_STATE: it was already started
   * @throws IllegalStateException the batch is closed
   */
  public void start() {
    if (handle.isClosed()) throw handle.closed();
    if (!turns.start()) throw new OrtFFMException(OrtStatus.INVALID_STATE, "start: the batch has a thread that makes steps already");
    Thread thread = Thread.ofPlatform().daemon().name("iobind-batch").inheritInheritableThreadLocals(false).unstarted(this::serve);
    thread.setContextClassLoader(ClassLoader.getSystemClassLoader());
    thread.start();
  }

  private void serve() {
    while (!handle.isClosed() && !turns.isOver()) {
      try {
        step(Deadline.NEVER);
      } catch (OrtFFMException failed) { // the futures have it, or the batch is stopped
      } catch (Throwable t) { // the batch or its session is closed, or an error of Java's
        turns.fail(t);
      }
    }
  }

  /**
   * Ends all waits for rows: {@link #step()} throws CANCELLED, now and later, and the thread of {@link #start} ends. Futures of
   * rows whose step has not begun are cancelled; a step in progress ends as usual. Rows can no longer join or be submitted, but
   * they can leave, their states can be saved, and {@link #run(Row...)} makes steps. If the batch is already stopped, this is a
   * no-op.
   *
   * @throws IllegalStateException the batch is closed
   */
  public void stop() {
    List<Runnable> ended;
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        IobindBatch.batchStop(address); // before the threads wake, so that their steps are refused
        turns.stop();
        ended = turns.collect(address, MemorySegment.NULL, 0, scratch);
      } finally {
        handle.exit();
      }
    }
    ended.forEach(Runnable::run);
  }

  /**
   * Closes the batch, after the calls in it and the step in flight. The futures of submitted rows are cancelled. States and
   * outputs of its rows remain valid.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback from native code, or in a {@link OrtSessionFFM.RunListener} while a
   *     call is in the batch
   */
  @Override
  public void close() {
    handle.close();
  }
}
