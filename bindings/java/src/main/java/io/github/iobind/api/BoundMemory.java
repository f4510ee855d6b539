package io.github.iobind.api;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.Buffer;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/** The memory bound to a session's inputs and outputs: the part of {@link OrtIoBindingFFM} that binds it. */
abstract sealed class BoundMemory permits CarriedStates {
  final Handle handle;
  final OrtSessionFFM session;
  final Scratch scratch = new Scratch();
  final Slot[] inputs;
  final Slot[] outputs;
  /** The inputs' events, each kept as long as it is bound. */
  final OrtEventFFM[] events;
  /** How many slots have memory of the caller's, which is looked at before each run. */
  int guards;
  /** How many outputs are carried in place. */
  int statesInPlace;
  /** Of that memory, one segment of each arena, which a run holds, up to two; NULL where there is none. */
  MemorySegment firstHeld = MemorySegment.NULL;
  MemorySegment secondHeld = MemorySegment.NULL;
  /** Whether there are more than two. */
  private boolean isMoreHeld;
  /** Whether these are of what is bound now. */
  private boolean isHeldKnown;
  private final Place host;
  private final Wraps inputWraps;
  private final Wraps outputWraps;
  /** A run was submitted to a stream and not seen to pass: what is bound may be in use. */
  boolean submitted;

  /** What Java knows of an input or output. */
  static final class Slot {
    /** The tensor of the value that is bound, which libiobind keeps, so that no other one has its address; 0: something else. */
    long tensor;
    InputMode inputMode;
    /** The caller's memory that is bound; null where it is libiobind's. */
    MemorySegment guard;
    /** Inputs: the tensor over that memory, which libiobind keeps while it is bound. */
    long guardTensor;
    /** Array inputs on the host: the memory of the input's own tensor, and what it holds. */
    MemorySegment own;
    OnnxTensorElementType type;
    long[] shape;
    /** Outputs: whether a run gives it. */
    OutputMode mode;
    /** Outputs: the input that it is carried to; null where it is not. */
    Slot carriedTo;
    /** Outputs: whether it is carried in place, so that it lies in what is bound to that input. */
    boolean isInPlace;
    /** Outputs in place: the caller's memory that the last run wrote; null where it is libiobind's. */
    MemorySegment state;
    /** Inputs: how an output becomes the next run's input, which is then no memory that Java knows; null where none does. */
    CarryMode carry;
    /** Inputs: whether the caller has named it as a cache of fixed capacity. */
    boolean isNamedCache;
  }

  /** The last run on a stream that needs something until it has passed; null where none does. */
  final AtomicReference<InFlight.Work> lastWork;

  /** @param isOwn whether the session was made for this binding, which closes it */
  BoundMemory(OrtSessionFFM session, long address, boolean isOwn) {
    this.session = session;
    OrtEventFFM[] bound = new OrtEventFFM[session.inputs().size()];
    events = bound;
    host = session.keptRuntime().resolve(DeviceSpec.CPU);
    Handle runtime = session.keptRuntime().handle();
    runtime.keep();
    Wraps ofInputs = new Wraps(bound.length), ofOutputs = new Wraps(session.outputs().size());
    inputWraps = ofInputs;
    outputWraps = ofOutputs;
    LongConsumer destroy = binding -> {
      try {
        Iobind.bindingDestroy(binding);
        ofInputs.release();
        ofOutputs.release();
      } finally {
        runtime.letGo();
        for (OrtEventFFM event : bound) OrtEventFFM.letGo(event);
      }
    };
    AtomicReference<InFlight.Work> last = new AtomicReference<>();
    lastWork = last;
    Handle own = session.handle();
    handle = isOwn
        ? Handle.slow(this, address, destroy, (binding, deadline) -> await(last, deadline) && own.awaitQuiet(deadline))
        : Handle.of(this, address, destroy, (binding, deadline) -> await(last, deadline));
    inputs = new Slot[session.inputs().size()];
    Arrays.setAll(inputs, i -> new Slot());
    outputs = new Slot[session.outputs().size()];
    Arrays.setAll(outputs, i -> new Slot());
    forgetOutputs();
  }

  static boolean await(AtomicReference<InFlight.Work> last, Deadline deadline) {
    InFlight.Work work = last.get();
    return work == null || work.await(deadline);
  }

  void forgetOutputs() {
    for (int i = 0; i < outputs.length; i++) {
      boolean isTensor = session.outputs().get(i).kind() == OrtValueInfo.Kind.TENSOR;
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

  long enter() {
    session.requireOpen();
    return handle.enterAlone();
  }

  boolean isClosed() {
    return handle.isClosed();
  }

  /** Whether a call, or a run, is in this binding now. */
  boolean isBusy() {
    return handle.isBusy();
  }

  /** Waits until no call, and no run, is in this binding. */
  void awaitCalls() {
    handle.awaitCalls();
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
   * Binds a value as an input, RESIDENT: it must be in the memory from which the session reads the input, and is never copied.
   * The binding retains the memory.
   *
   * @param name the input
   * @param value of a matching type and shape; open dims may change
   * @throws OrtFFMException NOT_FOUND; DTYPE, SHAPE: it does not match, the message states both; WRONG_DEVICE: it is elsewhere
   */
  public void bindInput(String name, OrtValueRef value) {
    bindInput(session.inputIndex(name), value, InputMode.RESIDENT, null);
  }

  /**
   * Binds a value as an input, RESIDENT, and checks its device.
   *
   * @param name the input
   * @param value of a matching type and shape
   * @param spec the expected device of the value; "/pinned" for its host-accessible memory
   * @throws OrtFFMException as {@link #bindInput(String, OrtValueRef)}; WRONG_DEVICE also: the value is elsewhere; NOT_FOUND
   *     also: the device
   */
  public void bindInput(String name, OrtValueRef value, DeviceSpec spec) {
    int index = session.inputIndex(name);
    DeviceSpec wanted = session.keptRuntime().resolve(spec).spec(), is = value.device();
    if (!is.equals(wanted)) {
      throw new OrtFFMException(OrtStatus.WRONG_DEVICE, "bindInput: '" + name + "': expected a value on '" + wanted + "', got one on '" + is
          + "': OrtValueRef.copyTo makes one there");
    }
    bindInput(index, value, InputMode.RESIDENT, null);
  }

  /**
   * Binds a value as an input.
   *
   * @param name the input
   * @param value of a matching type and shape
   * @param mode how it is bound
   * @throws OrtFFMException as {@link #bindInput(int, OrtValueRef, InputMode, OrtEventFFM)}
   */
  public void bindInput(String name, OrtValueRef value, InputMode mode) {
    bindInput(session.inputIndex(name), value, mode, null);
  }

  /**
   * Binds a value as an input.
   *
   * @param index the input, in the model's order
   * @param value of a matching type and shape
   * @param mode how it is bound
   * @param event for which each run waits before it reads the value; null: none. It must stay open until the input is bound
   *     again
   * @throws OrtFFMException NOT_FOUND: the index; DTYPE, SHAPE: it does not match; WRONG_DEVICE: a RESIDENT value is not in the
   *     memory from which the session reads the input; NOT_SUPPORTED: the input is not a tensor; INVALID_ARGUMENT: it overlaps
   *     a FIXED output, or is in read-only memory that would be written, as a state that is carried IN_PLACE; INVALID_STATE: a
   *     run is in flight. After an error the input is unchanged
   */
  public void bindInput(int index, OrtValueRef value, InputMode mode, @Nullable OrtEventFFM event) {
    long address = enter();
    try {
      if (event == null && isBound(index, value, mode)) return;
      if (mode != InputMode.SNAPSHOT && isWritten(index)) requireWritable(value.backing(), index);
      long tensor = value.enter();
      try {
        long eventAddress = OrtEventFFM.enter(event);
        try {
          if (mode == InputMode.SNAPSHOT && value.backing() != null) {
            Hold.during(Hold.arenas(value.backing()), () -> setInput(address, index, mode, tensor, eventAddress)); // copied now
          } else {
            setInput(address, index, mode, tensor, eventAddress);
          }
          noteEvent(index, event);
        } finally {
          OrtEventFFM.exit(event);
        }
      } finally {
        value.exit();
      }
      noteInput(inputs[index], mode == InputMode.SNAPSHOT ? null : value.backing(), value.tensor(), mode);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  private void setInput(long address, int index, InputMode mode, long tensor, long event) {
    scratch.check(Iobind.bindingSetInput(address, index, mode.ordinal(), tensor, event, scratch.error()));
  }

  /** Whether runs write what is bound to the input; those of a MOVE or SWAP state write memory of libiobind's. */
  private boolean isWritten(int index) {
    return index >= 0 && index < inputs.length && inputs[index].carry == CarryMode.IN_PLACE;
  }

  /** Whether binding the value would change nothing: programs bind what they cache before each run. */
  private boolean isBound(int index, OrtValueRef value, InputMode mode) {
    if (index < 0 || index >= inputs.length) return false;
    return isBound(inputs[index], value.tensor(), mode, events[index]) && value.isUsable();
  }

  private boolean isBound(Slot slot, long tensor, InputMode mode, OrtEventFFM event) {
    return slot.tensor == tensor && slot.inputMode == mode && mode != InputMode.SNAPSHOT && slot.carry == null && event == null
        && !submitted;
  }

  private void noteInput(Slot slot, MemorySegment guard, long tensor, InputMode mode) {
    note(slot, guard);
    slot.guardTensor = tensor;
    if (slot.carry == null) slot.tensor = tensor;
    slot.inputMode = mode;
  }

  void noteEvent(int index, OrtEventFFM event) {
    if (events[index] == event) return;
    OrtEventFFM.keep(event);
    OrtEventFFM.letGo(events[index]);
    events[index] = event;
  }

  /** Something was bound, which libiobind refuses while a run is in flight. */
  void note(Slot slot, MemorySegment guard) {
    submitted = false;
    if (slot.guard != guard) noteGuard(slot, guard);
    slot.own = null;
    slot.tensor = 0;
  }

  private void noteGuard(Slot slot, MemorySegment guard) {
    boolean isOnlyOne = guards == 1 && slot.guard != null && guard != null;
    if (slot.guard != null) guards--;
    if (guard != null) guards++;
    slot.guard = guard;
    if (isOnlyOne && isHeldKnown) {
      firstHeld = guard; // as the one before was
    } else {
      isHeldKnown = false;
    }
  }

  void noteOutput(Slot slot, MemorySegment guard, OutputMode mode) {
    note(slot, guard);
    slot.mode = mode;
    if (slot.carriedTo != null) slot.carriedTo.carry = null;
    slot.carriedTo = null;
    slot.state = null;
    if (slot.isInPlace) statesInPlace--;
    slot.isInPlace = false;
  }

  /**
   * A run has written its states in place into what is bound now, which may be bound otherwise when they are fetched. Of the other
   * modes it has read the first states, which no run reads again.
   *
   * @param isOver false: the run was submitted to a stream. If it fails, the next run reads the first states
   */
  void noteStates(boolean isOver) {
    if (statesInPlace == 0 && guards == 0) return;
    for (Slot output : outputs) {
      Slot input = output.carriedTo;
      if (output.isInPlace) {
        output.state = input.guard;
      } else if (isOver && input != null && input.guard != null) {
        input.guard = null;
        guards--;
        isHeldKnown = false;
      }
    }
  }

  /** The caller's memory that an output of the last run lies in; null where it is libiobind's. */
  static MemorySegment memoryOf(Slot output) {
    return output.isInPlace ? output.state : output.guard;
  }

  /**
   * Binds native host memory as an input, LIVE: each run reads its current content. It is not copied if the session reads the
   * input from host memory. Its arena cannot be closed during a run; a run after it was closed throws an IllegalStateException.
   *
   * @param name the input
   * @param segment native memory, of at least the descriptor's size
   * @param descriptor element type and shape
   * @throws OrtFFMException as {@link #bindInput(int, OrtValueRef, InputMode, OrtEventFFM)}; INVALID_ARGUMENT: too few bytes
   */
  public void bindInput(String name, MemorySegment segment, MemoryDescriptor descriptor) {
    bindSegment(session.inputIndex(name), host, segment, descriptor.type(), descriptor.dims());
  }

  private void bindSegment(int index, Place place, MemorySegment segment, OnnxTensorElementType type, long... shape) {
    long address = enter();
    try {
      if (isWritten(index)) requireWritable(segment, index);
      long tensor = tensor(inputWraps, index, place, segment, type, shape);
      Slot slot = inputs[index];
      if (!isBound(slot, tensor, InputMode.LIVE, events[index])) {
        setInput(address, index, InputMode.LIVE, tensor, 0);
        noteEvent(index, null);
        noteInput(slot, segment, tensor, InputMode.LIVE);
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  private long tensor(Wraps wraps, int index, Place place, MemorySegment segment, OnnxTensorElementType type, long... shape) {
    if (!segment.scope().isAlive()) throw new IllegalStateException("the arena of the memory to bind is closed");
    return wraps.tensor(scratch, index, place, segment, type, shape);
  }

  /**
   * Binds native host memory as an input, LIVE, with the model's element type.
   *
   * @param name the input
   * @param segment native memory, of at least the input's size
   * @param shape the dims
   * @throws OrtFFMException as {@link #bindInput(String, MemorySegment, MemoryDescriptor)}
   */
  public void bindInput(String name, MemorySegment segment, long... shape) {
    int index = session.inputIndex(name);
    bindSegment(index, host, segment, session.inputs().get(index).type(), shape);
  }

  /**
   * Binds the caller's memory, on the host or on a device, as an input, LIVE.
   *
   * @param name the input
   * @param segment native memory of that device, of at least the shape's size
   * @param shape the dims
   * @param type the element type
   * @param spec the device of the memory
   * @throws OrtFFMException as {@link #bindInput(String, MemorySegment, MemoryDescriptor)}; NOT_FOUND also: the device
   */
  public void bindInput(String name, MemorySegment segment, long[] shape, OnnxTensorElementType type, DeviceSpec spec) {
    bindSegment(session.inputIndex(name), session.keptRuntime().resolve(spec), segment, type, shape);
  }

  /**
   * Binds the remaining elements of a buffer as an input: of a direct buffer its memory, LIVE; of a heap buffer a copy.
   *
   * @param name the input
   * @param buffer in native byte order, of the Java type of the input's element type
   * @param shape the dims
   * @throws OrtFFMException as {@link #bindInput(String, MemorySegment, MemoryDescriptor)}
   */
  public void bindInput(String name, Buffer buffer, long... shape) {
    int index = session.inputIndex(name);
    MemoryDescriptor descriptor = MemoryDescriptor.of(session.inputs().get(index).type(), shape);
    MemorySegment segment = JavaArrays.segment(buffer, descriptor, JavaArrays.Use.BIND, name);
    if (segment.isNative()) {
      bindSegment(index, host, segment, descriptor.type(), descriptor.dims());
    } else {
      bindCopy(index, segment, descriptor.type(), shape);
    }
  }

  /**
   * Binds a copy of a Java array as an input, in the memory from which the session reads it. Binding another array of the same
   * shape writes into the same memory.
   *
   * @param name the input
   * @param array {@code float[]}, {@code long[]}, ..., as {@link OnnxTensorElementType#component} says for the input's type; or
   *     {@code String[]}
   * @param shape the dims; none for a scalar
   * @throws OrtFFMException NOT_FOUND; DTYPE: an array of another type; SHAPE: another number of elements, or dims that do not
   *     match
   */
  public void bindInput(String name, Object array, long... shape) {
    bindInput(session.inputIndex(name), array, shape);
  }

  /**
   * Binds a copy of a Java array as an input; see {@link #bindInput(String, Object, long...)}.
   *
   * @param index the input, in the model's order
   * @param array the elements
   * @param shape the dims; none for a scalar
   * @throws OrtFFMException as there
   */
  public void bindInput(int index, Object array, long... shape) {
    OrtValueInfo input = checkInput(index);
    OnnxTensorElementType type = input.type();
    if (array instanceof String[]) {
      try (OrtValueRef value = OrtValueRef.of(session.keptRuntime(), array,
          MemoryDescriptor.of(OnnxTensorElementType.STRING, shape))) {
        bindInput(index, value, InputMode.SNAPSHOT, null);
      }
      return;
    }
    MemoryDescriptor descriptor = MemoryDescriptor.of(type, shape);
    bindCopy(index, JavaArrays.segment(array, descriptor, JavaArrays.Use.BIND, input.name()), type, shape);
  }

  private OrtValueInfo checkInput(int index) {
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
      long tensor = OrtValueRef.create(scratch, onHost ? place : host, descriptor);
      try {
        MemorySegment memory = Layouts.memory(Iobind.tensorGetAddress(tensor), source.byteSize());
        memory.copyFrom(source);
        InputMode mode = onHost ? InputMode.RESIDENT : InputMode.SNAPSHOT;
        scratch.check(Iobind.bindingSetInput(address, index, mode.ordinal(), tensor, 0, scratch.error()));
        noteEvent(index, null);
        note(slot, null);
        if (!onHost || slot.carry != null) return;
        slot.own = memory;
        slot.type = type;
        slot.shape = shape.clone();
      } finally {
        Iobind.tensorRelease(tensor);
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Writes new data into a bound input without binding it again: into the copy of a SNAPSHOT, or into the value itself.
   *
   * @param name the input
   * @param array all elements, as {@link #bindInput(String, Object, long...)}
   * @throws OrtFFMException INVALID_STATE: the input is not bound; INVALID_ARGUMENT: another number of bytes
   */
  public void update(String name, Object array) {
    int index = session.inputIndex(name);
    OnnxTensorElementType type = checkInput(index).type();
    MemorySegment source = JavaArrays.segment(array, type, JavaArrays.Use.UPDATE, name);
    Slot slot = inputs[index];
    if (slot.own != null && !submitted && slot.own.byteSize() == source.byteSize()) {
      enter();
      try {
        slot.own.copyFrom(source);
      } finally {
        handle.isLeaving = true;
        handle.exitAlone();
      }
      return;
    }
    update(index, source, null);
  }

  /**
   * Writes new data into a bound input without binding it again.
   *
   * @param index the input, in the model's order
   * @param source all bytes of the input
   * @param stream the device's stream on which the copy is ordered; {@code source} must then be native memory, and remain valid
   *     until the copy is complete. null: complete on return
   * @throws OrtFFMException as {@link #update(String, Object)}; WRONG_DEVICE: another device's stream
   */
  public void update(int index, MemorySegment source, @Nullable OrtStreamFFM stream) {
    if (stream == null && !source.isNative()) {
      try (Arena arena = Arena.ofConfined()) {
        update(index, arena.allocate(Math.max(1, source.byteSize()), 16).asSlice(0, source.byteSize()).copyFrom(source), null);
        return;
      }
    }
    OrtValueRef.requireNative(source, "update: a copy on a stream: ", "without a stream the array is copied at once");
    long address = enter();
    try {
      MemorySegment bound = index >= 0 && index < inputs.length ? inputs[index].guard : null;
      requireWritable(bound, index);
      long streamAddress = OrtStreamFFM.enter(stream);
      try {
        Runnable update = () -> scratch.check(
            Iobind.bindingWriteInput(address, index, source, source.byteSize(), streamAddress, scratch.error()));
        OrtStreamFFM.copy(stream, stream == null && bound == null ? null : Hold.arenas(source, bound), update);
      } finally {
        OrtStreamFFM.exit(stream);
      }
    } finally {
      handle.isLeaving = true;
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
   * Binds a value as an output, FIXED: every run overwrites it, and the output must have its shape.
   *
   * @param name the output
   * @param value of a matching type and shape
   * @throws OrtFFMException as {@link #bindOutput(int, OrtValueRef, OutputMode)}
   */
  public void bindOutput(String name, OrtValueRef value) {
    bindOutput(session.outputIndex(name), value, OutputMode.FIXED);
  }

  /**
   * Binds native host memory as an output, FIXED. Its arena cannot be closed during a run; a run after it was closed throws an
   * IllegalStateException.
   *
   * @param name the output
   * @param segment native memory, of at least the descriptor's size
   * @param descriptor element type and shape, which the output must have
   * @throws OrtFFMException as {@link #bindOutput(int, OrtValueRef, OutputMode)}
   */
  public void bindOutput(String name, MemorySegment segment, MemoryDescriptor descriptor) {
    int index = session.outputIndex(name);
    if (segment.isReadOnly()) throw OrtValueRef.readOnly("bindOutput");
    long address = enter();
    try {
      long tensor = tensor(outputWraps, index, host, segment, descriptor.type(), descriptor.dims());
      setOutput(address, index, tensor, segment, OutputMode.FIXED);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Binds a value as an output.
   *
   * @param index the output, in the model's order
   * @param value of a matching type and shape
   * @param mode FIXED or IN_PLACE
   * @throws OrtFFMException NOT_FOUND: the index; DTYPE, SHAPE: it cannot hold the output; WRONG_DEVICE: the session cannot
   *     write there; INVALID_ARGUMENT: it overlaps an input or another output, or is in read-only memory. After an error the
   *     output is unchanged
   */
  public void bindOutput(int index, OrtValueRef value, OutputMode mode) {
    value.requireWritable("bindOutput");
    long address = enter();
    try {
      long tensor = value.enter();
      try {
        setOutput(address, index, tensor, value.backing(), mode);
      } finally {
        value.exit();
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  private void setOutput(long address, int index, long tensor, MemorySegment guard, OutputMode mode) {
    boolean isKnown = index >= 0 && index < outputs.length && !submitted;
    if (isKnown && outputs[index].tensor == tensor && outputs[index].mode == mode) return;
    int flags = switch (mode) {
      case FIXED -> 0;
      case IN_PLACE -> Constants.OUTPUT_IN_PLACE;
      default -> throw wrongMode("bindOutput", "FIXED or IN_PLACE", mode);
    };
    scratch.check(Iobind.bindingSetOutput(address, index, tensor, flags, scratch.error()));
    noteOutput(outputs[index], guard, mode);
    outputs[index].tensor = tensor;
  }

  private static OrtFFMException wrongMode(String what, String expected, OutputMode mode) {
    return new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what + ": mode: expected " + expected + ", got " + mode);
  }

  /**
   * Binds new memory of a device as an output, FIXED: every run overwrites it. The binding owns it until the output is bound
   * otherwise.
   *
   * @param name the output
   * @param shape the dims, which the output must have
   * @param type the element type
   * @param spec the device; "/pinned" for its host-accessible memory
   * @throws OrtFFMException as {@link #bindOutput(int, OrtValueRef, OutputMode)} and {@link OrtValueRef#allocate}
   */
  public void bindOutput(String name, long[] shape, OnnxTensorElementType type, DeviceSpec spec) {
    bindOutput(name, MemoryDescriptor.of(type, shape), spec);
  }

  /**
   * Binds new memory of a device as an output, FIXED; see
   * {@link #bindOutput(String, long[], OnnxTensorElementType, DeviceSpec)}.
   *
   * @param name the output
   * @param descriptor element type and shape, which the output must have
   * @param spec the device; "/pinned" for its host-accessible memory
   * @throws OrtFFMException as there
   */
  public void bindOutput(String name, MemoryDescriptor descriptor, DeviceSpec spec) {
    int index = session.outputIndex(name);
    try (OrtValueRef value = OrtValueRef.allocate(session.keptRuntime(), spec, descriptor)) {
      bindOutput(index, value, OutputMode.FIXED);
    }
  }

  /**
   * Places an output in the session's own output memory.
   *
   * @param name the output
   * @param mode FRESH, REUSE or NONE
   * @throws OrtFFMException as {@link #bindOutputToDevice(int, DeviceSpec, OutputMode)}
   */
  public void bindOutput(String name, OutputMode mode) {
    bindOutputToDevice(session.outputIndex(name), null, mode);
  }

  /**
   * Places an output on a device, FRESH: new memory there in each run.
   *
   * @param name the output
   * @param spec the device; "/pinned" for its host-accessible memory
   * @throws OrtFFMException as {@link #bindOutputToDevice(int, DeviceSpec, OutputMode)}
   */
  public void bindOutputToDevice(String name, DeviceSpec spec) {
    bindOutputToDevice(session.outputIndex(name), spec, OutputMode.FRESH);
  }

  /**
   * Binds new memory of a device as an output of known shape: as {@link #bindOutput(String, MemoryDescriptor, DeviceSpec)}.
   *
   * @param name the output
   * @param descriptor element type and shape, which the output must have
   * @param spec the device; "/pinned" for its host-accessible memory
   * @throws OrtFFMException as there
   */
  public void bindOutputToDevice(String name, MemoryDescriptor descriptor, DeviceSpec spec) {
    bindOutput(name, descriptor, spec);
  }

  /**
   * Places an output on a device.
   *
   * @param index the output, in the model's order
   * @param spec the device; "/pinned" for its host-accessible memory; null: the session's own output memory
   * @param mode FRESH, REUSE or NONE
   * @throws OrtFFMException NOT_FOUND: the index or the device; WRONG_DEVICE: the session cannot write there; NOT_SUPPORTED:
   *     the output is not a tensor, or is of strings on a device, or there is no such memory. After an error the output is
   *     unchanged
   */
  public void bindOutputToDevice(int index, @Nullable DeviceSpec spec, OutputMode mode) {
    Place place = spec == null ? null : session.keptRuntime().resolve(spec);
    long address = enter();
    try {
      scratch.check(Iobind.bindingPlaceOutput(address, index, placing(mode), place == null ? 0 : place.device(),
          place == null ? Place.DEFAULT : place.memory(), scratch.error()));
      noteOutput(outputs[index], null, mode);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /** The {@code iobind_output_mode} of an output that no value is given for. */
  static int placing(OutputMode mode) {
    return switch (mode) {
      case FRESH -> 0;
      case REUSE -> 1;
      case NONE -> 2;
      case FIXED, IN_PLACE -> throw wrongMode("bindOutput", "FRESH, REUSE or NONE where no value is given", mode);
    };
  }

  /**
   * Carries an output to an input of the next run: a state that stays in the memory from which the session reads it. The first
   * state is the value that is bound to the input, before or after this call; a growing state may begin with 0 elements. A
   * value that is bound later replaces the state for the next run. A failed run does not change the state. Binding the output
   * otherwise, or {@link OrtIoBindingFFM#clear}, ends the carry. MOVE and SWAP only read the first state: once a run without a
   * stream has succeeded, its memory is no longer needed.
   *
   * <p>{@link OrtIoBindingFFM#getOutput(String)} returns the state after a run; a MOVE state, or any that is taken, is never
   * overwritten.
   *
   * @param output its name
   * @param input its name
   * @param mode how
   * @throws OrtFFMException NOT_FOUND; DTYPE, SHAPE: the output can never match the input; NOT_SUPPORTED: one of them is not a
   *     tensor; INVALID_ARGUMENT: another output is carried to the input, or it is bound LIVE, or it is in read-only memory and
   *     the mode is IN_PLACE; INVALID_STATE: a run is in flight
   */
  public void carry(String output, String input, CarryMode mode) {
    carry(session.outputIndex(output), session.inputIndex(input), mode);
  }

  /**
   * As {@link #carry(String, String, CarryMode)} in the mode DEFAULT: a cache of fixed capacity is carried in place if its
   * operator allows it.
   *
   * @param output its name
   * @param input its name
   * @throws OrtFFMException as there
   */
  public void carry(String output, String input) {
    carry(output, input, CarryMode.DEFAULT);
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
    boolean mayBeInPlace = mayBeInPlace(from, to, mode);
    long address = enter();
    try {
      if (mayBeInPlace && to >= 0 && to < inputs.length) requireWritable(inputs[to].guard, to);
      scratch.check(Iobind.bindingCarry(address, from, to, mode.ordinal(), scratch.error()));
      noteOutput(outputs[from], null, OutputMode.REUSE);
      outputs[from].carriedTo = inputs[to];
      outputs[from].isInPlace = mayBeInPlace;
      if (outputs[from].isInPlace) statesInPlace++;
      inputs[to].carry = mayBeInPlace ? CarryMode.IN_PLACE : mode;
      inputs[to].own = null;
      inputs[to].tensor = 0;
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /** What is not known may be. */
  private boolean mayBeInPlace(int from, int to, CarryMode mode) {
    if (mode != CarryMode.DEFAULT) return mode == CarryMode.IN_PLACE;
    try {
      return StateKind.modeOf(session, from, to) == CarryMode.IN_PLACE;
    } catch (OrtFFMException unknown) {
      return true;
    }
  }

  // ---- memory of the caller's

  /** Memory of the caller's that is gone is an exception and not a crash. */
  void requireGuards() {
    for (int i = 0; i < inputs.length; i++) requireGuard(inputs[i], "input", i);
    for (int i = 0; i < outputs.length; i++) requireGuard(outputs[i], "output", i);
  }

  private void requireGuard(Slot slot, String what, int index) {
    if (slot.guard == null || slot.guard.scope().isAlive()) return;
    OrtValueInfo info = (what.equals("input") ? session.inputs() : session.outputs()).get(index);
    throw new IllegalStateException("the arena of the memory bound to " + what + " '" + info.name() + "' is closed");
  }

  /** One segment of each arena that can be closed; null where there is none. */
  MemorySegment[] held() {
    if (guards == 0) return null;
    MemorySegment[] all = new MemorySegment[guards];
    int count = 0;
    for (Slot slot : inputs) {
      if (slot.guard != null) all[count++] = slot.guard;
    }
    for (Slot slot : outputs) {
      if (slot.guard != null) all[count++] = slot.guard;
    }
    return Hold.arenas(all);
  }

  /** Whether {@link #firstHeld} and {@link #secondHeld} are all that a run holds. Makes no object. */
  boolean isHeldByTwo() {
    if (!isHeldKnown) {
      firstHeld = secondHeld = MemorySegment.NULL;
      isMoreHeld = false;
      for (Slot slot : inputs) noteHeld(slot.guard);
      for (Slot slot : outputs) noteHeld(slot.guard);
      isHeldKnown = true;
    }
    return !isMoreHeld;
  }

  private void noteHeld(MemorySegment guard) {
    if (guard == null) return;
    if (firstHeld == MemorySegment.NULL) {
      firstHeld = guard; // mostly the only one: its arena is not looked at
    } else if (Hold.isGlobal(guard) || Hold.isOneArena(firstHeld, guard)) {
      return;
    } else if (Hold.isGlobal(firstHeld)) {
      firstHeld = guard;
    } else if (secondHeld == MemorySegment.NULL) {
      secondHeld = guard;
    } else if (!Hold.isOneArena(secondHeld, guard)) {
      isMoreHeld = true;
    }
  }

  /** Gives up the tensors over segments that were bound. */
  void forgetWraps() {
    inputWraps.release();
    outputWraps.release();
  }
}
