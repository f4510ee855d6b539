package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindFlow;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * A session's inputs and outputs, bound to memory. Binding checks element types, ranks, fixed dims and devices, and looks up
 * names; a run looks up nothing and allocates nothing.
 *
 * <p>A binding is externally synchronized: a concurrent call fails with INVALID_STATE. {@link #cancel} and {@link #close} may
 * be called from any thread at any time. Virtual threads are safe; a run pins its carrier thread.
 */
public final class OrtIoBindingFFM extends CarriedStates implements AutoCloseable {
  private static final long DTYPE = Layouts.offset(Layouts.TENSOR_INFO, "dtype");
  private static final long BYTES = Layouts.offset(Layouts.TENSOR_INFO, "bytes");
  private static final long HOST_READABLE = Layouts.offset(Layouts.TENSOR_INFO, "host_readable");

  /** The run of {@link #runAsync} that has not ended; null: there is none. */
  private volatile AsyncRun asyncRun;
  private String tag;
  private Map<String, String> config = Map.of();
  private OrtRuntimeFFM.LogLevel logLevel = OrtRuntimeFFM.LogLevel.DEFAULT;

  /** What was made for this binding alone and is closed with it. */
  private final OrtSessionFFM ownSession;
  /** What belongs to the binding until its next run: values and arenas that the caller looks at and does not close. */
  private final List<AutoCloseable> lent = new ArrayList<>();
  private volatile boolean isLent;
  /** Those that runs give by turns, so that a run makes no object: a map in which somebody has looked stays that run's. */
  private final RunOutputs[] maps = new RunOutputs[8];
  /** The runs so far, and what else has ended the outputs of the last one: whose outputs a map has. */
  private long runs;

  OrtIoBindingFFM(OrtSessionFFM session, long address) {
    super(session, address, false);
    ownSession = null;
  }

  /**
   * Creates a binding of a session of this package, or of the official package, which is then adopted.
   *
   * @param ortSession an {@code ai.onnxruntime.OrtSession} or an {@link OrtSessionFFM}; the caller closes it, after the binding
   * @throws OrtFFMException as {@link OrtSessionFFM#createFromOrtSession} and {@link OrtSessionFFM#createBinding}
   */
  public OrtIoBindingFFM(AutoCloseable ortSession) {
    this(ortSession instanceof OrtSessionFFM ours ? ours : OrtSessionFFM.createFromOrtSession(ortSession),
        !(ortSession instanceof OrtSessionFFM));
  }

  private OrtIoBindingFFM(OrtSessionFFM session, boolean isOwn) {
    super(session, session.newBinding(isOwn), isOwn);
    ownSession = isOwn ? session : null;
  }

  /**
   * Creates a binding of a session of the official package, as the constructor does.
   *
   * @param ortSession as {@link #OrtIoBindingFFM(AutoCloseable)}
   * @return the binding
   * @throws OrtFFMException as there
   */
  public static OrtIoBindingFFM createFromOrtSession(AutoCloseable ortSession) {
    return new OrtIoBindingFFM(ortSession);
  }

  /**
   * Reports the bytes that each run moves for every input and output, and, for a session created with
   * {@link OrtSessionFFM.Options#placement}, the nodes that run on the CPU although the session has a device. Sizes of outputs
   * are those of the last run.
   *
   * @return the moves, with device, size and reason
   * @throws OrtFFMException INVALID_STATE: a run is in flight; RUNTIME
   */
  public BindingAudit audit() {
    long address = enter();
    try {
      scratch.check(IobindFlow.auditCreate(address, scratch.out(0), scratch.error()));
      long audit = scratch.getLong(0);
      try {
        return BindingAudit.read(scratch, audit);
      } finally {
        IobindFlow.auditDestroy(audit);
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  // ---- runs

  /**
   * Sets options for all later runs of this binding.
   *
   * @param runTag names the runs in ONNX Runtime's log and profile; null: none
   * @param runConfig ONNX Runtime's run config entries, such as "memory.enable_memory_arena_shrinkage"; empty: none
   * @throws OrtFFMException INVALID_ARGUMENT, RUNTIME
   */
  public void setRunOptions(@Nullable String runTag, Map<String, String> runConfig) {
    setRunOptions(runTag, runConfig, OrtRuntimeFFM.LogLevel.DEFAULT);
  }

  /**
   * Sets options for all later runs of this binding.
   *
   * @param runTag names the runs in ONNX Runtime's log and profile; null: none
   * @param runConfig ONNX Runtime's run config entries; empty: none
   * @param runLogLevel the lowest severity that ONNX Runtime logs in a run; see {@link OrtRuntimeFFM.Options#log}
   * @throws OrtFFMException as {@link #setRunOptions(String, Map)}
   */
  public void setRunOptions(@Nullable String runTag, Map<String, String> runConfig, OrtRuntimeFFM.LogLevel runLogLevel) {
    long address = enter();
    try {
      apply(address, runTag, runConfig, runLogLevel);
      tag = runTag;
      config = Map.copyOf(runConfig);
      logLevel = runLogLevel;
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  private void apply(long address, String runTag, Map<String, String> runConfig, OrtRuntimeFFM.LogLevel runLogLevel) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment struct = runOptions(arena, runTag, runConfig, runLogLevel);
      scratch.check(Iobind.bindingSetRunOptions(address, struct, scratch.error()));
    }
  }

  /** The options of runs; NULL where they are the defaults. */
  static MemorySegment runOptions(Arena arena, String runTag, Map<String, String> runConfig, OrtRuntimeFFM.LogLevel runLogLevel) {
    if (runTag == null && runConfig.isEmpty() && runLogLevel == OrtRuntimeFFM.LogLevel.DEFAULT) return MemorySegment.NULL;
    StructLayout layout = Layouts.RUN_OPTIONS;
    List<String> keys = new ArrayList<>(), values = new ArrayList<>();
    runConfig.forEach((key, value) -> {
      keys.add(key);
      values.add(value);
    });
    MemorySegment struct = Layouts.allocate(arena, layout);
    Layouts.setInt(struct, layout, "log_level", runLogLevel.ordinal());
    if (runTag != null) Layouts.setLong(struct, layout, "tag", Texts.allocate(arena, runTag, "tag").address());
    Layouts.setLong(struct, layout, "config_keys", OrtRuntimeFFM.strings(arena, keys).address());
    Layouts.setLong(struct, layout, "config_values", OrtRuntimeFFM.strings(arena, values).address());
    Layouts.setLong(struct, layout, "config_count", keys.size());
    return struct;
  }

  /**
   * Checks that the binding can run: every input is bound, named dims agree, and there is at least one output. The first run
   * after a change checks the same.
   *
   * @throws OrtFFMException INVALID_STATE: an input, or every output, is not bound: the message names it; SHAPE
   */
  public void check() {
    long address = enter();
    try {
      requireGuards();
      scratch.check(Iobind.bindingCheck(address, scratch.error()));
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Runs the model with the bound inputs and outputs. The run is complete on return. It creates no Java object.
   *
   * @return the outputs by name, in the model's order, except those of mode NONE. The map fetches a value on first access, as
   *     {@link #getOutput(String)} does. The binding owns the values: its next run, {@link #clear} and {@link #close} close
   *     them, and later use of the map throws an IllegalStateException. A map that was never accessed is reused eight runs
   *     later. To keep a value, use {@link OrtValueRef#retain} or {@link #takeOutput(String)}
   * @throws OrtFFMException as {@link #check}; WRONG_DEVICE: an output is not in the requested memory; SHAPE: a FIXED output
   *     has another shape; CANCELLED; RUNTIME: ONNX Runtime failed. After an error no output can be fetched, and the binding
   *     can run again
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public Map<String, OrtValueRef> runWithBindings() {
    handle.enterAlone();
    try {
      runEntered();
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
    return outputsOfRun();
  }

  /**
   * As {@link #runWithBindings()}, with a time limit: a run that takes longer is cancelled, which ONNX Runtime checks between
   * two nodes. The call returns or throws when the run has ended.
   *
   * @param timeout the longest duration of the run
   * @return as {@link #runWithBindings()}
   * @throws OrtFFMException as {@link #runWithBindings()}; TIMEOUT: the run was cancelled by the time limit
   * @throws IllegalStateException as {@link #runWithBindings()}
   */
  public Map<String, OrtValueRef> runWithBindings(Duration timeout) {
    Hold.requireStack();
    long address = handle.enterAlone();
    announceRun(address).runHere(timeout);
    return outputsOfRun();
  }

  private Map<String, OrtValueRef> outputsOfRun() {
    int turn = (int) (runs % maps.length);
    if (maps[turn] == null || maps[turn].isUsed()) maps[turn] = new RunOutputs(this);
    maps[turn].begin(runs);
    return maps[turn];
  }

  /** Runs, in a call that entered the binding; the caller's memory is held meanwhile. */
  void runEntered() {
    OrtSessionFFM.RunListener listener = session.listener();
    if (listener == null) {
      runNow();
    } else {
      told(listener, this::runNow);
    }
  }

  /** Runs, and has a listener told of it. */
  private void told(OrtSessionFFM.RunListener listener, Runnable run) {
    long from = System.nanoTime();
    OrtFFMException[] failure = new OrtFFMException[1];
    try {
      run.run();
    } catch (OrtFFMException e) {
      failure[0] = e;
      throw e;
    } finally {
      long nanos = System.nanoTime() - from;
      Threads.tell(() -> listener.ran(this, nanos, failure[0]));
    }
  }

  private void runNow() {
    runs++;
    if (isLent) takeBack();
    boolean isCounted = session.beginRun();
    try {
      long address = handle.address();
      int status;
      if (guards == 0) {
        status = Iobind.bindingRun(address, 0, scratch.error());
      } else {
        status = runHolding(address);
      }
      if (status != 0) throw scratch.failure(status);
      noteStates(true);
    } finally {
      session.endRun(isCounted);
    }
  }

  private int runHolding(long address) {
    if (isHeldByTwo()) {
      try {
        return Iobind.bindingRun(address, 0, scratch.error(), firstHeld, secondHeld);
      } catch (IllegalStateException e) { // an arena is closed
        requireGuards();
        throw e;
      }
    }
    requireGuards();
    int[] status = new int[1];
    Hold.during(held(), () -> status[0] = Iobind.bindingRun(address, 0, scratch.error()));
    return status[0];
  }

  /**
   * Runs the model with run config entries for this run only.
   *
   * @param runConfig ONNX Runtime's run config entries; empty: none
   * @return as {@link #runWithBindings()}
   * @throws OrtFFMException as {@link #runWithBindings()} and {@link #setRunOptions}
   */
  public Map<String, OrtValueRef> runWithBindings(Map<String, String> runConfig) {
    long address = enter();
    try {
      if (runConfig.isEmpty()) {
        runEntered();
      } else {
        apply(address, tag, runConfig, logLevel);
        try {
          runEntered();
        } finally {
          apply(address, tag, config, logLevel);
        }
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
    return outputsOfRun();
  }

  /**
   * Runs the model, ordered on a stream: returns when the run is submitted. The run is in flight until the host has waited for
   * it: for an event recorded after it, for the stream, or by fetching an output. Until then do not change bound memory;
   * values, binding and session may be closed.
   *
   * @param stream a stream of a device of the session; null: complete on return
   * @param event recorded after the run; null: none. Without a stream it is not recorded
   * @throws OrtFFMException as {@link #runWithBindings()}; WRONG_DEVICE also: the stream is not of a device of the session.
   *     Later failures are thrown by the event, the stream and {@link #getOutput(int)}
   */
  public void runWithBindings(@Nullable OrtStreamFFM stream, @Nullable OrtEventFFM event) {
    long address = enter();
    try {
      OrtSessionFFM.RunListener listener = stream == null ? session.listener() : null; // a run on a stream has not ended then
      if (listener == null) {
        run(address, stream, event);
      } else {
        told(listener, () -> run(address, null, event));
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  private void run(long address, OrtStreamFFM stream, OrtEventFFM event) {
    requireGuards();
    MemorySegment[] memory = held();
    if (stream != null) Hold.requireShared("a run on a stream", memory);
    boolean isCounted = session.beginRun();
    try {
      if (stream == null) {
        Hold.during(memory, () -> submit(address, null, event));
      } else if (memory == null && !session.isShared()) {
        submit(address, stream, event);
      } else {
        InFlight.Work[] work = new InFlight.Work[1];
        work[0] = stream.inFlight().submit(stream, memory, () -> submit(address, stream, event), passed(session, work));
        if (event != null) event.recordedBehind(work[0]);
        session.runSubmitted(work[0]);
        lastWork.set(work[0]);
      }
    } finally {
      session.endRun(isCounted);
    }
  }

  /** Made without the binding, which the work must not keep from the collector. */
  private static Runnable passed(OrtSessionFFM session, InFlight.Work[] work) {
    return () -> session.runPassed(work[0]);
  }

  private void submit(long address, OrtStreamFFM stream, OrtEventFFM event) {
    runs++;
    if (isLent) takeBack();
    long streamAddress = OrtStreamFFM.enter(stream);
    try {
      long eventAddress = OrtEventFFM.enter(event);
      try {
        scratch.check(Iobind.bindingRun(address, streamAddress, scratch.error()));
        submitted = stream != null;
        noteStates(stream == null);
        if (submitted && event != null) scratch.check(Iobind.eventRecord(eventAddress, streamAddress, scratch.error()));
      } finally {
        OrtEventFFM.exit(event);
      }
    } finally {
      OrtStreamFFM.exit(stream);
    }
  }

  /**
   * Runs the model on a separate thread, without blocking. The run is in flight when the call returns: an access to a bound value
   * waits until the run has ended. Do not change bound segments until the future is done; then the outputs can be fetched. A second
   * run before that fails with INVALID_STATE.
   *
   * <p>The future is done when the run has ended. {@code cancel}, {@code orTimeout}, {@code complete} and
   * {@code completeExceptionally} cancel the run, and the future completes in their way when the run has ended. Until then the
   * arena of the caller's memory cannot be closed. Stages of the future do not run on the thread that ran the model, unless no
   * other thread can be started. Waiting for the future does not pin a virtual thread's carrier.
   *
   * @return completes when the run has ended, exceptionally with an OrtFFMException if it failed
   * @throws OrtFFMException INVALID_STATE: a call, or a run, is in flight; INVALID_ARGUMENT: memory of a confined arena is
   *     bound
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public CompletableFuture<Void> runAsync() {
    long address = enter();
    try {
      requireGuards();
      Hold.requireShared("runAsync", held());
    } catch (Throwable t) {
      exitRun();
      throw t;
    }
    AsyncRun run = announceRun(address);
    try {
      run.start();
      return run;
    } catch (Throwable t) {
      withdrawRun();
      throw t;
    }
  }

  /** From now on a run is in flight, in a call that entered the binding: access to what is bound waits for it. */
  private AsyncRun announceRun(long address) {
    try {
      if (isLent) takeBack(); // a reader of what was lent would wait for the run, and the run for the reader
      AsyncRun run = new AsyncRun(this);
      scratch.check(Iobind.bindingAnnounceRun(address, 1, scratch.error()));
      asyncRun = run;
      return run;
    } catch (Throwable t) {
      exitRun();
      throw t;
    }
  }

  /** The end of a run that was announced, whether it was made or not. */
  void withdrawRun() {
    Iobind.bindingAnnounceRun(handle.address(), 0, 0);
    exitRun();
  }

  private void exitRun() {
    asyncRun = null;
    handle.isLeaving = true;
    handle.exitAlone();
  }

  /**
   * Cancels the run in flight: of {@link #runAsync}, whose future is cancelled, or of another thread, which fails with
   * CANCELLED when ONNX Runtime checks for it. Without a run this is a no-op; it may miss a run that another thread is just
   * beginning. Any thread may call it.
   *
   * @throws OrtFFMException RUNTIME
   */
  public void cancel() {
    AsyncRun run = asyncRun;
    if (run == null || !run.cancel(true)) cancelNow();
  }

  /** Cancels what ONNX Runtime runs now. */
  void cancelNow() {
    try (Scratch own = Scratch.take()) {
      long address = handle.enterLate(); // also while close waits for the run
      try {
        own.check(Iobind.bindingCancel(address, own.error()));
      } finally {
        handle.exit();
      }
    }
  }

  // ---- results

  /**
   * An output of the last run: a reference to its memory, without a copy. A FRESH output is never overwritten.
   *
   * @param name the output
   * @return the value; the caller closes it
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public OrtValueRef getOutput(String name) {
    return getOutput(session.outputIndex(name));
  }

  /**
   * An output of the last run: a reference to its memory, without a copy. A FRESH output is never overwritten.
   *
   * @param index the output, in the model's order
   * @return the value; the caller closes it
   * @throws OrtFFMException INVALID_STATE: no run since an output was last bound, the output is not bound, or it was taken;
   *     NOT_FOUND: the index; NOT_SUPPORTED: the output is not a tensor; WRONG_DEVICE: it is not in the requested memory
   */
  public OrtValueRef getOutput(int index) {
    long address = enter();
    try {
      return new OrtValueRef(Iobind.tensorRetain(borrow(address, index)), memoryOf(outputs[index]), scratch);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  private long borrow(long address, int index) {
    int status = Iobind.bindingGetOutput(address, index, 0, scratch.out(0), scratch.error());
    seen(status);
    scratch.check(status);
    return scratch.getLong(0);
  }

  /** An output was fetched, which waits for the run. */
  private void seen(int status) {
    InFlight.Work work = lastWork.get();
    if (work == null || status != 0) return;
    work.passed();
    lastWork.set(null);
  }

  /**
   * As {@link #getOutput(String)}, without blocking for a run in flight on a stream, if the output is in a device's memory.
   * Until the run is complete, the value may be used only by work submitted to {@code stream}, which is ordered after the run.
   *
   * @param name the output
   * @param stream the run's, or another one of a device of the session
   * @return the value; the caller closes it
   * @throws OrtFFMException as {@link #getOutput(int)}; WRONG_DEVICE also: another device's stream
   */
  public OrtValueRef lendOutput(String name, OrtStreamFFM stream) {
    return lendOutput(session.outputIndex(name), stream);
  }

  /**
   * As {@link #lendOutput(String, OrtStreamFFM)}.
   *
   * @param index the output, in the model's order
   * @param stream the run's, or another one of a device of the session
   * @return the value; the caller closes it
   * @throws OrtFFMException as {@link #getOutput(int)}; WRONG_DEVICE also: another device's stream
   */
  public OrtValueRef lendOutput(int index, OrtStreamFFM stream) {
    if (stream == null) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "lendOutput: stream is null: getOutput waits for the run");
    }
    long address = enter();
    try {
      long onto = OrtStreamFFM.enter(stream);
      try {
        scratch.check(Iobind.bindingGetOutput(address, index, onto, scratch.out(0), scratch.error()));
      } finally {
        OrtStreamFFM.exit(stream);
      }
      return new OrtValueRef(Iobind.tensorRetain(scratch.getLong(0)), memoryOf(outputs[index]), scratch);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * As {@link #getOutput(int)}, and transfers ownership: no later run overwrites a FRESH or REUSE output that was taken. It can
   * be taken once for each run.
   *
   * @param name the output
   * @return the value; the caller closes it
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public OrtValueRef takeOutput(String name) {
    return takeOutput(session.outputIndex(name));
  }

  /**
   * As {@link #takeOutput(String)}.
   *
   * @param index the output, in the model's order
   * @return the value; the caller closes it
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public OrtValueRef takeOutput(int index) {
    long address = enter();
    try {
      int status = Iobind.bindingTakeOutput(address, index, scratch.out(0), scratch.error());
      seen(status);
      scratch.check(status);
      return new OrtValueRef(scratch.getLong(0), memoryOf(outputs[index]), scratch);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Reads an output of the last run into a Java array.
   *
   * @param name the output
   * @param array of the output's type and number of elements
   * @throws OrtFFMException as {@link #getOutput(int)}; DTYPE, SHAPE: the array does not match; INVALID_ARGUMENT: a buffer is
   *     read-only
   */
  public void readOutput(String name, Object array) {
    readOutput(session.outputIndex(name), array);
  }

  /**
   * Reads an output of the last run into a Java array.
   *
   * @param index the output, in the model's order
   * @param array of the output's type and number of elements
   * @throws OrtFFMException as {@link #readOutput(String, Object)}
   */
  public void readOutput(int index, Object array) {
    if (array instanceof boolean[]) {
      try (OrtValueRef value = getOutput(index)) {
        value.read(array);
      }
      return;
    }
    long address = enter();
    try {
      requireGuards();
      long tensor = borrow(address, index);
      MemorySegment memory = memoryOf(outputs[index]);
      MemorySegment info = scratch.tensorInfo(tensor);
      MemorySegment target = JavaArrays.segment(array, OnnxTensorElementType.of(info.get(JAVA_INT, DTYPE)),
          JavaArrays.Use.READ_OUTPUT, session.outputs().get(index).name());
      long bytes = info.get(JAVA_LONG, BYTES);
      if (target.byteSize() != bytes) {
        throw new OrtFFMException(OrtStatus.SHAPE, "output '" + session.outputs().get(index).name() + "': it has " + bytes
            + " bytes, the array " + target.byteSize());
      }
      if (info.get(JAVA_INT, HOST_READABLE) != 0) {
        int type = info.get(JAVA_INT, DTYPE);
        scratch.check(Iobind.tensorMap(tensor, type, Constants.ACCESS_READ, scratch.out(0), scratch.error()));
        target.copyFrom(OrtValueRef.memory(scratch.getLong(0), bytes, memory));
        return;
      }
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment copy = arena.allocate(Math.max(1, bytes), 16);
        Hold.during(Hold.arenas(memory),
            () -> scratch.check(Iobind.tensorRead(tensor, 0, copy, bytes, 0, scratch.error())));
        target.copyFrom(copy.asSlice(0, bytes));
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * All outputs of the last run, except those of mode NONE, without a copy. The binding owns them: its next run closes them, so
   * the caller need not. To keep one, use {@link OrtValueRef#retain} or {@link #takeOutput(String)}.
   *
   * @return by name, in the model's order
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public Map<String, OrtValueRef> getBoundOutputValues() {
    Map<String, OrtValueRef> values = collect(this::getOutput);
    lend(values.values());
    return values;
  }

  /** Refuses a map of outputs whose run is not the last one any more. */
  void requireRun(long run) {
    if (runs != run) throw new IllegalStateException("OrtIoBindingFFM: these are the outputs of an earlier run: retain a value to keep it");
  }

  /** An output that the binding closes. */
  OrtValueRef lendOutput(int index) {
    OrtValueRef value = getOutput(index);
    lend(List.of(value));
    return value;
  }

  private void lend(Collection<? extends AutoCloseable> objects) {
    synchronized (lent) {
      lent.addAll(objects);
      isLent = true;
    }
  }

  @Override
  void endOutputs() {
    runs++;
    takeBack();
  }

  /** Closes what was lent; what a call of another thread is using is closed the next time. */
  private void takeBack() {
    synchronized (lent) {
      lent.removeIf(object -> {
        try {
          object.close();
          return true;
        } catch (Exception e) {
          return false;
        }
      });
      isLent = !lent.isEmpty();
    }
  }

  /**
   * All outputs of the last run as host memory; outputs that the host can read are not copied. The segments are valid until the
   * binding's next run, {@link #clear} or {@link #close}; later access throws an IllegalStateException. An output that is bound
   * to your own segment stays readable until that segment's arena is closed, and later shows the next run's data.
   * {@link #copyOutputsToCpu} returns copies, each of which can be retained.
   *
   * @return by name, in the model's order; a segment of each output's bytes, which any thread may read
   * @throws OrtFFMException as {@link #getOutput(int)}; DTYPE: an output of strings, which {@link OrtValueRef#readStrings}
   *     reads
   */
  public Map<String, MemorySegment> getBoundOutputCpuValues() {
    Map<String, OrtValueRef> values = collect(index -> {
      OrtValueRef value = getOutput(index);
      if (value.isHostReadable() || value.type() == OnnxTensorElementType.STRING) return value;
      try (value) {
        return value.copyTo(session.keptRuntime(), DeviceSpec.CPU);
      }
    });
    lend(values.values());
    Map<String, MemorySegment> segments = new LinkedHashMap<>();
    values.forEach((name, value) -> segments.put(name, value.asMemorySegment()));
    return segments;
  }

  /**
   * Copies all outputs of the last run to new host memory, whatever their modes are. The binding owns the copies: its next run,
   * {@link #clear} and {@link #close} close them, so the caller need not. {@link OrtValueRef#retain} keeps a copy, which no
   * later run changes.
   *
   * @return by name, in the model's order
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public Map<String, OrtValueRef> copyOutputsToCpu() {
    Map<String, OrtValueRef> sources = collect(this::getOutput), targets = new LinkedHashMap<>();
    try {
      List<OrtValueRef> from = new ArrayList<>(), to = new ArrayList<>();
      sources.forEach((name, source) -> {
        if (source.type() == OnnxTensorElementType.STRING) {
          targets.put(name, OrtValueRef.of(session.keptRuntime(), source.readStrings(), source.descriptor()));
          return;
        }
        OrtValueRef target = OrtValueRef.allocate(session.keptRuntime(), DeviceSpec.CPU, source.descriptor());
        targets.put(name, target);
        from.add(source);
        to.add(target);
      });
      OrtValueRef.copy(from.toArray(OrtValueRef[]::new), to.toArray(OrtValueRef[]::new), null);
      lend(targets.values());
      return targets;
    } catch (RuntimeException e) {
      targets.values().forEach(OrtValueRef::close);
      throw e;
    } finally {
      sources.values().forEach(OrtValueRef::close);
    }
  }

  private Map<String, OrtValueRef> collect(java.util.function.IntFunction<OrtValueRef> fetch) {
    Map<String, OrtValueRef> values = new LinkedHashMap<>();
    try {
      for (int i = 0; i < outputs.length; i++) {
        if (outputs[i].mode != OutputMode.NONE) values.put(session.outputs().get(i).name(), fetch.apply(i));
      }
      return values;
    } catch (RuntimeException e) {
      values.values().forEach(OrtValueRef::close);
      throw e;
    }
  }

  /**
   * Drops the binding's captured graphs, of a session created with {@link OrtSessionFFM.Options#graphs}: the next runs capture
   * again.
   *
   * @throws OrtFFMException INVALID_STATE: a run is in flight
   */
  public void forgetGraphs() {
    long address = enter();
    try {
      scratch.check(Iobind.bindingResetGraphs(address, scratch.error()));
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Unbinds everything: inputs and outputs are as after {@link OrtSessionFFM#createBinding}.
   *
   * @throws OrtFFMException INVALID_STATE: a run is in flight; RUNTIME
   */
  public void clear() {
    long address = enter();
    try {
      scratch.check(Iobind.bindingClear(address, scratch.error()));
      endOutputs();
      for (Slot slot : inputs) note(slot, null);
      for (int i = 0; i < events.length; i++) noteEvent(i, null);
      for (Slot slot : outputs) noteOutput(slot, null, OutputMode.NONE);
      forgetOutputs();
      forgetWraps();
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Closes the binding; values that were fetched from it remain valid. It blocks until no call uses the binding: the run of
   * another thread or of {@link #runAsync()}, and a run on a stream that uses the caller's memory or an adopted session.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback, or a {@link OrtSessionFFM.RunListener}, while a call is in the
   *     binding; in a callback from native code also while such a run is on a stream, or if the binding adopted its session
   */
  @Override
  public void close() {
    closeBy(Deadline.NEVER);
  }

  /**
   * As {@link #close()}, with a time limit; {@link #cancel()} ends a run sooner.
   *
   * @param timeout the longest time to wait for a run
   * @return false if it timed out: the binding is still open
   * @throws OrtFFMException as {@link #close()}
   */
  public boolean close(Duration timeout) {
    return closeBy(Deadline.in(timeout));
  }

  boolean closeBy(Deadline deadline) {
    handle.requireMayWait();
    boolean isClosed = awaitLastWork(deadline) // while the binding is open, a run on a stream can be cancelled
        && handle.closeBy(deadline) && awaitLastWork(deadline); // and that of a call that was in the binding until now
    if (!isClosed) return false;
    takeBack();
    return ownSession == null || ownSession.closeBy(deadline);
  }

  private boolean awaitLastWork(Deadline deadline) {
    InFlight.Work work = lastWork.get();
    if (work == null || work.isOver()) return true;
    if (Threads.isInNativeCallback()) {
      throw handle.inCallback("a run of it is in flight on a stream, which a callback cannot wait for");
    }
    return Threads.await(() -> work.await(deadline));
  }
}
