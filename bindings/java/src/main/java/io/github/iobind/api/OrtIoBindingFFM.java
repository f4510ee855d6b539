package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.nio.Buffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * A session's inputs and outputs, bound to memory. Element types, ranks, fixed dims and devices are checked when something is
 * bound; names are looked up there, and a run looks up nothing and allocates nothing.
 *
 * <p>One thread at a time uses a binding: a call while another one is under way fails with INVALID_STATE. {@link #cancel} and
 * {@link #close} are for any thread at any time. Virtual threads are safe; a run keeps its carrier thread busy.
 */
public final class OrtIoBindingFFM implements AutoCloseable {
  private static final long DTYPE = Layouts.offset(Layouts.TENSOR_INFO, "dtype");
  private static final long BYTES = Layouts.offset(Layouts.TENSOR_INFO, "bytes");
  private static final long HOST_READABLE = Layouts.offset(Layouts.TENSOR_INFO, "host_readable");

  private final Handle handle;
  private final OrtSessionFFM session;
  private final Scratch scratch = new Scratch();
  private final Slot[] inputs;
  private final Slot[] outputs;
  /** The inputs' events, each kept as long as it is bound. */
  private final OrtEventFFM[] events;
  /** How many slots have memory of the caller's, which is looked at before each run. */
  private int guards;
  /** Of that memory, one segment of each arena, which a run holds; null where it must be looked for. */
  private MemorySegment[] held;
  /** A run was submitted to a stream and not seen to pass: what is bound may be in use. */
  private boolean submitted;
  /** The last run on a stream that needs something until it has passed; null where none does. */
  private volatile InFlight.Work lastWork;
  private String tag;
  private Map<String, String> config = Map.of();
  private OrtRuntimeFFM.LogLevel logLevel = OrtRuntimeFFM.LogLevel.DEFAULT;

  /** What Java knows of an input or output. */
  private static final class Slot {
    /** The caller's memory that is bound; null where it is libiobind's. */
    MemorySegment guard;
    /** Array inputs on the host: the memory of the input's own tensor, and what it holds. */
    MemorySegment own;
    OnnxTensorElementType type;
    long[] shape;
    /** Outputs: whether a run gives it. */
    OutputMode mode;
    /** Outputs: the input that it is carried to; null where it is not. */
    Slot carriedTo;
    /** Inputs: an output becomes the next run's input, which is then no memory that Java knows. */
    boolean carried;
  }

  OrtIoBindingFFM(OrtSessionFFM session, long address) {
    this.session = session;
    OrtEventFFM[] bound = new OrtEventFFM[session.inputs().size()];
    events = bound;
    Handle runtime = session.keptRuntime().handle();
    runtime.keep();
    handle = Handle.of(this, address, binding -> {
      Iobind.bindingDestroy(binding);
      runtime.letGo();
      for (OrtEventFFM event : bound) OrtEventFFM.letGo(event);
    });
    inputs = new Slot[session.inputs().size()];
    Arrays.setAll(inputs, i -> new Slot());
    outputs = new Slot[session.outputs().size()];
    Arrays.setAll(outputs, i -> new Slot());
    forgetOutputs();
  }

  private void forgetOutputs() {
    for (int i = 0; i < outputs.length; i++) {
      boolean isTensor = session.outputs().get(i).kind() == ValueInfo.Kind.TENSOR;
      outputs[i].mode = isTensor ? OutputMode.FRESH : OutputMode.NONE;
    }
  }

  /**
   * The session.
   *
   * @return the session that this binding is of
   */
  public OrtSessionFFM session() {
    return session;
  }

  private long enter() {
    session.requireOpen();
    return handle.enterAlone();
  }

  /** Whether a call is in this binding now; for tests. */
  boolean isBusy() {
    return handle.isBusy();
  }

  /** Whether memory of the caller's is bound; for tests. */
  boolean holds(MemorySegment memory) {
    for (Slot slot : inputs) {
      if (slot.guard == memory) return true;
    }
    for (Slot slot : outputs) {
      if (slot.guard == memory) return true;
    }
    return false;
  }

  // ---- inputs

  /**
   * Binds a value as an input, RESIDENT: it lives where the session wants the input, and nothing is ever copied. The binding
   * keeps the memory alive.
   *
   * @param name the input
   * @param value of a fitting type and shape; open dims may change from one binding to the next
   * @throws OrtFFMException NOT_FOUND; DTYPE, SHAPE: it does not fit, the message has both; DEVICE: it is elsewhere
   */
  public void bindInput(String name, OrtValueRef value) {
    bindInput(session.inputIndex(name), value, InputMode.RESIDENT, null);
  }

  /**
   * Binds a value as an input.
   *
   * @param name the input
   * @param value of a fitting type and shape
   * @param mode what a run sees
   * @throws OrtFFMException as {@link #bindInput(int, OrtValueRef, InputMode, OrtEventFFM)}
   */
  public void bindInput(String name, OrtValueRef value, InputMode mode) {
    bindInput(session.inputIndex(name), value, mode, null);
  }

  /**
   * Binds a value as an input.
   *
   * @param index the input, in the model's order
   * @param value of a fitting type and shape
   * @param mode what a run sees
   * @param event the run waits for it before it reads the value; null: it is ready. It must stay open until the input is bound
   *     anew
   * @throws OrtFFMException NOT_FOUND: the index; DTYPE, SHAPE: it does not fit; DEVICE: a RESIDENT value is not where the
   *     session reads the input; NOT_SUPPORTED: the input is no tensor; INVALID_ARGUMENT: it overlaps a FIXED output;
   *     INVALID_STATE: a run is under way. After an error the input is as it was
   */
  public void bindInput(int index, OrtValueRef value, InputMode mode, OrtEventFFM event) {
    long address = enter();
    try {
      boolean isWritten = mode != InputMode.SNAPSHOT && index >= 0 && index < inputs.length && inputs[index].carried;
      if (isWritten) requireWritable(value.backing(), index);
      long tensor = value.enter();
      try {
        long eventAddress = OrtEventFFM.enter(event);
        try {
          scratch.check(Iobind.bindingSetInput(address, index, mode.ordinal(), tensor, eventAddress, scratch.error()));
          noteEvent(index, event);
        } finally {
          OrtEventFFM.exit(event);
        }
      } finally {
        value.exit();
      }
      note(inputs[index], mode == InputMode.SNAPSHOT ? null : value.backing());
    } finally {
      handle.exitAlone();
    }
  }

  private void noteEvent(int index, OrtEventFFM event) {
    if (events[index] == event) return;
    OrtEventFFM.keep(event);
    OrtEventFFM.letGo(events[index]);
    events[index] = event;
  }

  /** Something was bound, which libiobind refuses while a run is under way. */
  private void note(Slot slot, MemorySegment guard) {
    submitted = false;
    if (slot.guard != null) guards--;
    if (guard != null) guards++;
    if (slot.guard != guard) held = null;
    slot.guard = guard;
    slot.own = null;
  }

  private void noteOutput(Slot slot, MemorySegment guard, OutputMode mode) {
    note(slot, guard);
    slot.mode = mode;
    if (slot.carriedTo != null) slot.carriedTo.carried = false;
    slot.carriedTo = null;
  }

  /**
   * Binds native host memory as an input, LIVE: each run sees what it holds then. It is not copied where the session reads the
   * input from host memory. Its arena refuses to be closed during a run; a run after it was closed is an IllegalStateException.
   *
   * @param name the input
   * @param segment native memory, of the descriptor's bytes or more
   * @param descriptor element type and shape
   * @throws OrtFFMException as {@link #bindInput(int, OrtValueRef, InputMode, OrtEventFFM)}; INVALID_ARGUMENT: too few bytes
   */
  public void bindInput(String name, MemorySegment segment, MemoryDescriptor descriptor) {
    int index = session.inputIndex(name);
    try (OrtValueRef value = OrtValueRef.wrap(session.keptRuntime(), DeviceSpec.CPU, segment, descriptor)) {
      bindInput(index, value, InputMode.LIVE, null);
    }
  }

  /**
   * Binds the remaining elements of a buffer as an input: a direct one as its memory is, LIVE, a heap one as a copy of now.
   *
   * @param name the input
   * @param buffer in the machine's byte order, of a type that holds the input's
   * @param shape the dims
   * @throws OrtFFMException as {@link #bindInput(String, MemorySegment, MemoryDescriptor)}
   */
  public void bindInput(String name, Buffer buffer, long... shape) {
    int index = session.inputIndex(name);
    MemoryDescriptor descriptor = MemoryDescriptor.of(session.inputs().get(index).type(), shape);
    MemorySegment segment = JavaArrays.segment(buffer, descriptor);
    if (segment.isNative()) {
      bindInput(name, segment, descriptor);
    } else {
      bindCopy(index, segment, descriptor.type(), shape);
    }
  }

  /**
   * Binds the content of a Java array as an input: a copy of now, where the session wants it. Binding another array of the same
   * shape writes into the same memory.
   *
   * @param name the input
   * @param array {@code float[]}, {@code long[]}, ..., as {@link OnnxTensorElementType#component} says for the input's type; or
   *     {@code String[]}
   * @param shape the dims; none for a scalar
   * @throws OrtFFMException NOT_FOUND; DTYPE: an array of another type; SHAPE: another number of elements, or dims that do not
   *     fit
   */
  public void bindInput(String name, Object array, long... shape) {
    bindInput(session.inputIndex(name), array, shape);
  }

  /**
   * Binds the content of a Java array as an input; see {@link #bindInput(String, Object, long...)}.
   *
   * @param index the input, in the model's order
   * @param array the elements
   * @param shape the dims; none for a scalar
   * @throws OrtFFMException as there
   */
  public void bindInput(int index, Object array, long... shape) {
    OnnxTensorElementType type = checkInput(index).type();
    if (array instanceof String[]) {
      try (OrtValueRef value = OrtValueRef.of(session.keptRuntime(), array,
          MemoryDescriptor.of(OnnxTensorElementType.STRING, shape))) {
        bindInput(index, value, InputMode.SNAPSHOT, null);
      }
      return;
    }
    bindCopy(index, JavaArrays.segment(array, MemoryDescriptor.of(type, shape)), type, shape);
  }

  private ValueInfo checkInput(int index) {
    if (index < 0 || index >= inputs.length) {
      throw new OrtFFMException(OrtStatus.NOT_FOUND, "no input " + index + ": the session has " + inputs.length);
    }
    return session.inputs().get(index);
  }

  private void bindCopy(int index, MemorySegment source, OnnxTensorElementType type, long[] shape) {
    Slot slot = inputs[index];
    long address = enter();
    try {
      if (slot.own != null && !submitted && slot.type == type && Arrays.equals(slot.shape, shape)) {
        slot.own.copyFrom(source);
        return;
      }
      Place place = session.inputPlace(index);
      boolean onHost = place != null && place.isHostReadable();
      MemoryDescriptor descriptor = MemoryDescriptor.of(type, shape);
      long tensor = OrtValueRef.create(scratch, onHost ? place : session.keptRuntime().resolve(DeviceSpec.CPU), descriptor);
      try {
        MemorySegment memory = Layouts.memory(Iobind.tensorAddress(tensor), source.byteSize());
        memory.copyFrom(source);
        InputMode mode = onHost ? InputMode.RESIDENT : InputMode.SNAPSHOT;
        scratch.check(Iobind.bindingSetInput(address, index, mode.ordinal(), tensor, 0, scratch.error()));
        noteEvent(index, null);
        note(slot, null);
        if (!onHost || slot.carried) return;
        slot.own = memory;
        slot.type = type;
        slot.shape = shape.clone();
      } finally {
        Iobind.tensorRelease(tensor);
      }
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Writes new data into a bound input without binding it anew: into the SNAPSHOT's copy or the value itself.
   *
   * @param name the input
   * @param array all elements, as {@link #bindInput(String, Object, long...)}
   * @throws OrtFFMException INVALID_STATE: the input is not bound; INVALID_ARGUMENT: another number of bytes
   */
  public void update(String name, Object array) {
    int index = session.inputIndex(name);
    OnnxTensorElementType type = checkInput(index).type();
    MemorySegment source = JavaArrays.segment(array, type);
    Slot slot = inputs[index];
    if (slot.own != null && !submitted && slot.own.byteSize() == source.byteSize()) {
      enter();
      try {
        slot.own.copyFrom(source);
      } finally {
        handle.exitAlone();
      }
      return;
    }
    try (Arena arena = Arena.ofConfined()) {
      update(index, arena.allocate(Math.max(1, source.byteSize()), 16).asSlice(0, source.byteSize()).copyFrom(source), null);
    }
  }

  /**
   * Writes new data into a bound input without binding it anew.
   *
   * @param index the input, in the model's order
   * @param source native memory, all bytes of the input
   * @param stream the device's stream that orders the copy, and {@code source} stays valid until it has passed; null: done on
   *     return
   * @throws OrtFFMException as {@link #update(String, Object)}; DEVICE: another device's stream
   */
  public void update(int index, MemorySegment source, OrtStreamFFM stream) {
    long address = enter();
    try {
      MemorySegment bound = index >= 0 && index < inputs.length ? inputs[index].guard : null;
      requireWritable(bound, index);
      long streamAddress = OrtStreamFFM.enter(stream);
      try {
        Runnable update = () -> scratch.check(
            Iobind.bindingUpdateInput(address, index, source, source.byteSize(), streamAddress, scratch.error()));
        OrtStreamFFM.copy(stream, stream == null && bound == null ? null : Hold.arenas(Arrays.asList(source, bound)), update);
      } finally {
        OrtStreamFFM.exit(stream);
      }
    } finally {
      handle.exitAlone();
    }
  }

  private void requireWritable(MemorySegment memory, int input) {
    if (memory == null || !memory.isReadOnly()) return;
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "input '" + session.inputs().get(input).name()
        + "' lies in memory that is read-only, and would be written: bind it as a SNAPSHOT, which is a copy");
  }

  // ---- outputs

  /**
   * Binds a value as an output, FIXED: every run overwrites it, and the shape must come out as the value's.
   *
   * @param name the output
   * @param value of a fitting type and shape
   * @throws OrtFFMException as {@link #bindOutput(int, OrtValueRef, OutputMode)}
   */
  public void bindOutput(String name, OrtValueRef value) {
    bindOutput(session.outputIndex(name), value, OutputMode.FIXED);
  }

  /**
   * Binds native host memory as an output, FIXED. Its arena refuses to be closed during a run; a run after it was closed is an
   * IllegalStateException.
   *
   * @param name the output
   * @param segment native memory, of the descriptor's bytes or more
   * @param descriptor element type and shape, as the output must come out
   * @throws OrtFFMException as {@link #bindOutput(int, OrtValueRef, OutputMode)}
   */
  public void bindOutput(String name, MemorySegment segment, MemoryDescriptor descriptor) {
    int index = session.outputIndex(name);
    try (OrtValueRef value = OrtValueRef.wrap(session.keptRuntime(), DeviceSpec.CPU, segment, descriptor)) {
      bindOutput(index, value, OutputMode.FIXED);
    }
  }

  /**
   * Binds a value as an output.
   *
   * @param index the output, in the model's order
   * @param value of a fitting type and shape
   * @param mode FIXED or IN_PLACE
   * @throws OrtFFMException NOT_FOUND: the index; DTYPE, SHAPE: it cannot hold the output; DEVICE: the session cannot write
   *     there; INVALID_ARGUMENT: it overlaps an input or another output, or lies in memory that is read-only. After an error
   *     the output is as it was
   */
  public void bindOutput(int index, OrtValueRef value, OutputMode mode) {
    value.requireWritable("bindOutput");
    long address = enter();
    try {
      long tensor = value.enter();
      try {
        scratch.check(Iobind.bindingSetOutput(address, index, mode.ordinal(), 0, 0, tensor, scratch.error()));
      } finally {
        value.exit();
      }
      noteOutput(outputs[index], value.backing(), mode);
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Lets an output go where the session leaves it.
   *
   * @param name the output
   * @param mode FRESH, REUSE or NONE
   * @throws OrtFFMException as {@link #bindOutputToDevice(int, DeviceSpec, OutputMode)}
   */
  public void bindOutput(String name, OutputMode mode) {
    bindOutputToDevice(session.outputIndex(name), null, mode);
  }

  /**
   * Lets an output go to a device, FRESH: new memory there in every run.
   *
   * @param name the output
   * @param spec the device; "/pinned" for its host-accessible memory
   * @throws OrtFFMException as {@link #bindOutputToDevice(int, DeviceSpec, OutputMode)}
   */
  public void bindOutputToDevice(String name, DeviceSpec spec) {
    bindOutputToDevice(session.outputIndex(name), spec, OutputMode.FRESH);
  }

  /**
   * Lets an output go to a device.
   *
   * @param index the output, in the model's order
   * @param spec the device; "/pinned" for its host-accessible memory; null: where the session leaves it
   * @param mode FRESH, REUSE or NONE
   * @throws OrtFFMException NOT_FOUND: the index or the device; DEVICE: the session cannot write there; NOT_SUPPORTED: the
   *     output is no tensor, or strings to a device, or no such memory. After an error the output is as it was
   */
  public void bindOutputToDevice(int index, DeviceSpec spec, OutputMode mode) {
    Place place = spec == null ? null : session.keptRuntime().resolve(spec);
    long address = enter();
    try {
      scratch.check(Iobind.bindingSetOutput(address, index, mode.ordinal(), place == null ? 0 : place.device(),
          place == null ? Place.DEFAULT : place.memory(), 0, scratch.error()));
      noteOutput(outputs[index], null, mode);
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Lets an output become an input of the next run: a state that never leaves the place where the session reads it. The first
   * state is what is bound to the input, before or after this call (a growing one may begin with 0 elements); bound later, it
   * is the state that the next run begins with. A run that fails leaves the state as it was. Binding the output otherwise, and
   * {@link #clear}, end it.
   *
   * <p>{@link #getOutput(String)} gives the state that a run left; a MOVE one, and any that is taken, is never overwritten.
   *
   * @param output its name
   * @param input its name
   * @param mode how
   * @throws OrtFFMException NOT_FOUND; DTYPE, SHAPE: the output can never fit the input; NOT_SUPPORTED: one of them is no
   *     tensor; INVALID_ARGUMENT: the input is carried by another output, or bound LIVE, or lies in read-only memory, where the
   *     mode is not MOVE; INVALID_STATE: a run is under way
   */
  public void carry(String output, String input, CarryMode mode) {
    carry(session.outputIndex(output), session.inputIndex(input), mode);
  }

  /**
   * As {@link #carry(String, String, CarryMode)}.
   *
   * @param from the output, in the model's order
   * @param to the input, in the model's order
   * @param mode how
   * @throws OrtFFMException as there
   */
  public void carry(int from, int to, CarryMode mode) {
    long address = enter();
    try {
      if (mode != CarryMode.MOVE && to >= 0 && to < inputs.length) requireWritable(inputs[to].guard, to);
      scratch.check(Iobind.bindingCarry(address, from, to, mode.ordinal(), scratch.error()));
      noteOutput(outputs[from], null, OutputMode.REUSE);
      outputs[from].carriedTo = inputs[to];
      inputs[to].carried = true;
      inputs[to].own = null;
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Says what each run moves: every input and output, and for a session made with {@link OrtSessionFFM.Options#placement} the
   * nodes that run on the CPU although it has a device. Sizes of outputs are those of the last run.
   *
   * @return what moves, where, how much and why
   * @throws OrtFFMException INVALID_STATE: a run is under way; RUNTIME
   */
  public BindingAudit audit() {
    long address = enter();
    try {
      scratch.check(Iobind.auditCreate(address, scratch.out(0), scratch.error()));
      long audit = scratch.getLong(0);
      try {
        return BindingAudit.read(scratch, audit);
      } finally {
        Iobind.auditDestroy(audit);
      }
    } finally {
      handle.exitAlone();
    }
  }

  // ---- runs

  /**
   * Prepares options for all later runs of this binding.
   *
   * @param runTag names the runs in ONNX Runtime's log and profile; null: none
   * @param runConfig ONNX Runtime's run config entries, such as "gpu_graph_id"; empty: none
   * @throws OrtFFMException INVALID_ARGUMENT, RUNTIME
   */
  public void setRunOptions(String runTag, Map<String, String> runConfig) {
    setRunOptions(runTag, runConfig, OrtRuntimeFFM.LogLevel.DEFAULT);
  }

  /**
   * Prepares options for all later runs of this binding.
   *
   * @param runTag names the runs in ONNX Runtime's log and profile; null: none
   * @param runConfig ONNX Runtime's run config entries; empty: none
   * @param runLogLevel the least severe line that ONNX Runtime logs in a run; see {@link OrtRuntimeFFM.Options#log}
   * @throws OrtFFMException as {@link #setRunOptions(String, Map)}
   */
  public void setRunOptions(String runTag, Map<String, String> runConfig, OrtRuntimeFFM.LogLevel runLogLevel) {
    long address = enter();
    try {
      apply(address, runTag, runConfig, runLogLevel);
      tag = runTag;
      config = Map.copyOf(runConfig);
      logLevel = runLogLevel;
    } finally {
      handle.exitAlone();
    }
  }

  private void apply(long address, String runTag, Map<String, String> runConfig, OrtRuntimeFFM.LogLevel runLogLevel) {
    StructLayout layout = Layouts.RUN_OPTIONS;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment struct = MemorySegment.NULL;
      if (runTag != null || !runConfig.isEmpty() || runLogLevel != OrtRuntimeFFM.LogLevel.DEFAULT) {
        List<String> keys = new ArrayList<>(), values = new ArrayList<>();
        runConfig.forEach((key, value) -> {
          keys.add(key);
          values.add(value);
        });
        struct = Layouts.allocate(arena, layout);
        Layouts.setInt(struct, layout, "log_level", runLogLevel.ordinal());
        if (runTag != null) Layouts.setLong(struct, layout, "tag", arena.allocateFrom(runTag).address());
        Layouts.setLong(struct, layout, "config_keys", OrtRuntimeFFM.strings(arena, keys).address());
        Layouts.setLong(struct, layout, "config_values", OrtRuntimeFFM.strings(arena, values).address());
        Layouts.setLong(struct, layout, "config_count", keys.size());
      }
      scratch.check(Iobind.bindingSetRunOptions(address, struct, scratch.error()));
    }
  }

  /**
   * Checks that the binding can run: every input bound, named dims that agree, at least one output. A run checks the same, once
   * after each change.
   *
   * @throws OrtFFMException INVALID_STATE: an input is not bound, or no output is: the message names it; SHAPE
   */
  public void check() {
    long address = enter();
    try {
      requireGuards();
      scratch.check(Iobind.bindingCheck(address, scratch.error()));
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Runs the model on what is bound. The outputs are written when it returns. It makes no Java object.
   *
   * @throws OrtFFMException as {@link #check}; DEVICE: an output did not land where it was asked for; SHAPE: a FIXED output's
   *     shape came out otherwise; CANCELLED; RUNTIME: ONNX Runtime failed. After an error no output can be fetched, and the
   *     binding can run again
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public void runWithBindings() {
    handle.enterAlone();
    try {
      runEntered();
    } finally {
      handle.exitAlone();
    }
  }

  /** Runs, in a call that entered the binding; the caller's memory is held meanwhile. */
  void runEntered() {
    session.beginRun();
    try {
      long address = handle.address();
      int status;
      if (guards == 0) {
        status = Iobind.bindingRun(address, 0, 0, scratch.error());
      } else {
        status = runHolding(address);
      }
      if (status != 0) throw scratch.failure(status);
    } finally {
      session.endRun();
    }
  }

  private int runHolding(long address) {
    requireGuards();
    MemorySegment[] memory = held();
    if (memory == null || memory.length <= Iobind.HOLDS) {
      return Iobind.bindingRun(address, 0, 0, scratch.error(), Hold.at(memory, 0), Hold.at(memory, 1));
    }
    int[] status = new int[1];
    Hold.during(memory, () -> status[0] = Iobind.bindingRun(address, 0, 0, scratch.error()));
    return status[0];
  }

  private MemorySegment[] held() {
    if (held == null && guards != 0) {
      List<MemorySegment> all = new ArrayList<>();
      for (Slot slot : inputs) all.add(slot.guard);
      for (Slot slot : outputs) all.add(slot.guard);
      held = Hold.arenas(all);
    }
    return held;
  }

  /**
   * Runs the model with run config entries for this run alone.
   *
   * @param runConfig ONNX Runtime's run config entries
   * @throws OrtFFMException as {@link #runWithBindings()} and {@link #setRunOptions}
   */
  public void runWithBindings(Map<String, String> runConfig) {
    long address = enter();
    try {
      apply(address, tag, runConfig, logLevel);
      try {
        runEntered();
      } finally {
        apply(address, tag, config, logLevel);
      }
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Runs the model, ordered on a stream: returns when the run is submitted. From then on the run is under way until the host
   * has seen it pass: by waiting for an event recorded behind it, by synchronizing the stream, or by fetching an output. What
   * is bound must stay as it is until then; values, binding and session may be closed.
   *
   * @param stream a stream of a device of the session; null: done on return
   * @param event recorded behind the run; null: none
   * @throws OrtFFMException as {@link #runWithBindings()}; DEVICE also: the stream is not of a device of the session. What goes
   *     wrong later is thrown by the event, the stream and {@link #getOutput(int)}
   */
  public void runWithBindings(OrtStreamFFM stream, OrtEventFFM event) {
    long address = enter();
    try {
      requireGuards();
      MemorySegment[] memory = held();
      if (stream == null) {
        session.beginRun();
        try {
          Hold.during(memory, () -> submit(address, null, event));
        } finally {
          session.endRun();
        }
        return;
      }
      Hold.requireShared("a run on a stream", memory);
      if (memory == null && !session.isShared()) {
        submit(address, stream, event);
      } else {
        InFlight.Work[] work = new InFlight.Work[1];
        work[0] = stream.inFlight().submit(stream, memory, () -> submit(address, stream, event),
            () -> session.runPassed(work[0]));
        if (event != null) event.recordedBehind(work[0]);
        session.runSubmitted(work[0]);
        lastWork = work[0];
      }
    } finally {
      handle.exitAlone();
    }
  }

  private void submit(long address, OrtStreamFFM stream, OrtEventFFM event) {
    long streamAddress = OrtStreamFFM.enter(stream);
    try {
      long eventAddress = OrtEventFFM.enter(event);
      try {
        scratch.check(Iobind.bindingRun(address, streamAddress, eventAddress, scratch.error()));
        submitted = stream != null;
      } finally {
        OrtEventFFM.exit(event);
      }
    } finally {
      OrtStreamFFM.exit(stream);
    }
  }

  /**
   * Runs the model without waiting for it, by a thread of its own. What is bound must stay as it is until the future is done;
   * after that the outputs can be fetched. One run at a time: a second one before that fails with INVALID_STATE.
   *
   * <p>The future is done when the run has ended. {@code cancel}, {@code orTimeout}, {@code complete} and
   * {@code completeExceptionally} give the run up: it is cancelled, and the future ends as they say when the run has ended.
   * Memory of the caller's is held meanwhile: its arena refuses to be closed. Stages of the future do not run on the thread
   * that ran the model. Waiting for the future does not keep a virtual thread's carrier busy.
   *
   * @return done when the run is, with an OrtFFMException where it failed, whatever the reason
   * @throws OrtFFMException INVALID_STATE: a call, or a run, is under way; INVALID_ARGUMENT: memory of a confined arena is
   *     bound
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public CompletableFuture<Void> runAsync() {
    enter();
    try {
      requireGuards();
      Hold.requireShared("runAsync", held());
      AsyncRun run = new AsyncRun(this);
      run.start();
      return run;
    } catch (Throwable t) {
      handle.exitAlone();
      throw t;
    }
  }

  /** The end of a run that {@link #runAsync} entered. */
  void exitRun() {
    handle.exitAlone();
  }

  /** Memory of the caller's that is gone is an exception and not a crash. */
  private void requireGuards() {
    for (int i = 0; i < inputs.length; i++) requireGuard(inputs[i], "input", i);
    for (int i = 0; i < outputs.length; i++) requireGuard(outputs[i], "output", i);
  }

  private void requireGuard(Slot slot, String what, int index) {
    if (slot.guard == null || slot.guard.scope().isAlive()) return;
    ValueInfo info = (what.equals("input") ? session.inputs() : session.outputs()).get(index);
    throw new IllegalStateException("the arena of the memory bound to " + what + " '" + info.name() + "' is closed");
  }

  /**
   * Stops the run that is under way in another thread: it fails with CANCELLED as soon as ONNX Runtime notices. Without a run
   * it does nothing. For any thread.
   *
   * @throws OrtFFMException RUNTIME
   */
  public void cancel() {
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
   * An output of the last run: a reference to the memory that it is in, nothing is copied. A FRESH one is never overwritten.
   *
   * @param name the output
   * @return the value; the caller closes it
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public OrtValueRef getOutput(String name) {
    return getOutput(session.outputIndex(name));
  }

  /**
   * An output of the last run: a reference to the memory that it is in, nothing is copied. A FRESH one is never overwritten.
   *
   * @param index the output, in the model's order
   * @return the value; the caller closes it
   * @throws OrtFFMException INVALID_STATE: no run since an output was last bound, this one is not bound, or it was taken;
   *     NOT_FOUND: the index; NOT_SUPPORTED: the run gave no tensor; DEVICE: it did not land where it was asked for
   */
  public OrtValueRef getOutput(int index) {
    long address = enter();
    try {
      return new OrtValueRef(Iobind.tensorRetain(borrow(address, index)), outputs[index].guard, scratch);
    } finally {
      handle.exitAlone();
    }
  }

  private long borrow(long address, int index) {
    int status = Iobind.bindingGetOutput(address, index, scratch.out(0), scratch.error());
    if (lastWork != null) seen(status);
    scratch.check(status);
    return scratch.getLong(0);
  }

  /** An output was fetched, which waits for the run. */
  private void seen(int status) {
    if (status != 0) return;
    lastWork.passed();
    lastWork = null;
  }

  /**
   * As {@link #getOutput(int)}, and no later run overwrites a FRESH or REUSE output that was taken. Once for each run.
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
      if (lastWork != null) seen(status);
      scratch.check(status);
      return new OrtValueRef(scratch.getLong(0), outputs[index].guard, scratch);
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Reads an output of the last run into a Java array.
   *
   * @param name the output
   * @param array of the output's type and number of elements
   * @throws OrtFFMException as {@link #getOutput(int)}; DTYPE, SHAPE: the array does not fit
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
    long address = enter();
    try {
      requireGuards();
      long tensor = borrow(address, index);
      MemorySegment info = scratch.tensorInfo(tensor);
      MemorySegment target = JavaArrays.segment(array, OnnxTensorElementType.of(info.get(JAVA_INT, DTYPE)));
      long bytes = info.get(JAVA_LONG, BYTES);
      if (target.byteSize() != bytes) {
        throw new OrtFFMException(OrtStatus.SHAPE, "output '" + session.outputs().get(index).name() + "': it has " + bytes
            + " bytes, the array " + target.byteSize());
      }
      if (info.get(JAVA_INT, HOST_READABLE) != 0) {
        target.copyFrom(OrtValueRef.memory(Iobind.tensorAddress(tensor), bytes, outputs[index].guard));
        return;
      }
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment copy = arena.allocate(Math.max(1, bytes), 16);
        scratch.check(Iobind.tensorRead(tensor, 0, copy, bytes, 0, scratch.error()));
        target.copyFrom(copy.asSlice(0, bytes));
      }
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * All outputs of the last run where they are, but for those of mode NONE.
   *
   * @return by name, in the model's order; the caller closes them
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public Map<String, OrtValueRef> getBoundOutputValues() {
    return collect(this::getOutput);
  }

  /**
   * All outputs of the last run on the host: those that the host reads are not copied.
   *
   * @return by name, in the model's order; the caller closes them
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public Map<String, OrtValueRef> getBoundOutputCpuValues() {
    return collect(index -> {
      OrtValueRef value = getOutput(index);
      if (value.isHostReadable() || value.type() == OnnxTensorElementType.STRING) return value;
      try (value) {
        return value.copyTo(session.keptRuntime(), DeviceSpec.CPU);
      }
    });
  }

  /**
   * Copies all outputs of the last run to the host: new memory, which no later run touches, whatever the outputs' modes are.
   *
   * @return by name, in the model's order; the caller closes them
   * @throws OrtFFMException as {@link #getOutput(int)}
   */
  public Map<String, OrtValueRef> copyOutputsToCpu() {
    Map<String, OrtValueRef> sources = getBoundOutputValues(), targets = new LinkedHashMap<>();
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
   * Unbinds everything: inputs and outputs are as after {@link OrtSessionFFM#createBinding}.
   *
   * @throws OrtFFMException INVALID_STATE: a run is under way; RUNTIME
   */
  public void clear() {
    long address = enter();
    try {
      scratch.check(Iobind.bindingClear(address, scratch.error()));
      for (Slot slot : inputs) note(slot, null);
      for (int i = 0; i < events.length; i++) noteEvent(i, null);
      for (Slot slot : outputs) noteOutput(slot, null, OutputMode.NONE);
      forgetOutputs();
    } finally {
      handle.exitAlone();
    }
  }

  /**
   * Gives the binding up; values that came out of it live on. It waits until no call is in the binding: the run of another
   * thread or of {@link #runAsync()}, and a run on a stream that holds memory of the caller's or an adopted session.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback, while a call is in the binding
   */
  @Override
  public void close() {
    InFlight.Work work = lastWork;
    if (work != null) Threads.await(() -> work.await(-1));
    handle.close();
  }

  /**
   * As {@link #close()}, for at most so long; {@link #cancel()} ends a run sooner.
   *
   * @param timeout how long to wait for a run
   * @return false where it was not enough: the binding is still open
   */
  public boolean close(Duration timeout) {
    long end = System.nanoTime() + timeout.toNanos();
    InFlight.Work work = lastWork;
    if (work != null && !Threads.await(() -> work.await(Math.max(0, timeout.toNanos())))) return false;
    return handle.close(Duration.ofNanos(Math.max(0, end - System.nanoTime())));
  }
}
