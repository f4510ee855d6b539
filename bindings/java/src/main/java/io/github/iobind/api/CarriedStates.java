package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.IobindStates;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The states that a binding carries: the part of {@link OrtIoBindingFFM} that saves, restores, reorders and rewinds them. */
abstract sealed class CarriedStates extends BoundMemory permits OrtIoBindingFFM {
  private static final long DIMS = Layouts.offset(Layouts.TENSOR_INFO, "dims");
  private static final long RANK = Layouts.offset(Layouts.TENSOR_INFO, "rank");

  CarriedStates(OrtSessionFFM session, long address, boolean isOwn) {
    super(session, address, isOwn);
  }

  /** The outputs of the last run are no longer the binding's. */
  abstract void endOutputs();

  /**
   * Saves the content that the next run would read as the carried inputs. A state that is carried by MOVE or SWAP, and to which
   * no value refers, is not copied: the binding gets new memory when it needs it. A state is copied on its device if it is
   * carried IN_PLACE, if a value refers to it, if the session captures graphs, and before the first run.
   *
   * <p>It does not block for runs on a stream of the execution provider: the state is that of the last run, and uses of the
   * state throw that run's failure. Another thread must not use the stream meanwhile. If that run uses the caller's memory,
   * this blocks.
   *
   * @return the state; the caller closes it
   * @throws OrtFFMException INVALID_STATE: nothing is carried, an input is not bound, a state is undefined after a failed run,
   *     or a call of another thread is in flight; the failure of the last run, if it was on a stream and has ended;
   *     OUT_OF_MEMORY; RUNTIME. After an error nothing has changed
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public OrtStateFFM saveState() {
    long address = enter();
    try {
      requireGuards();
      MemorySegment[] memory = held();
      InFlight.Work work = lastWork.get();
      if (memory != null && work != null) Threads.await(() -> work.await(Deadline.NEVER)); // a copy on the stream would outlast this call
      Hold.during(memory, () -> scratch.check(IobindStates.bindingSaveState(address, scratch.out(0), scratch.error())));
      return new OrtStateFFM(session, scratch.getLong(0), scratch);
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Continues from a state that was saved from this binding, or from another binding of the session that carries the same
   * states: the next run reads it. A MOVE or SWAP state is read without a copy. If it is carried IN_PLACE, or the session
   * captures graphs, it is copied into the bound memory if that has the same shape: no graph is lost and nothing is allocated.
   * Otherwise it is copied into new memory, and the previously bound memory is no longer used.
   *
   * <p>The outputs of the last run become invalid, as by a run.
   *
   * @param state the state; it may be closed after this
   * @throws OrtFFMException INVALID_ARGUMENT: the state is of another session, or the binding carries other inputs; SHAPE;
   *     INVALID_STATE: a run is in flight; the failure of the run that was to produce the state; OUT_OF_MEMORY; RUNTIME. After
   *     an error nothing has changed, except that the states of these inputs are undefined if a copy into bound memory fails
   * @throws IllegalStateException the binding, the state, or memory bound to the binding is closed
   */
  public void restoreState(OrtStateFFM state) {
    long address = enter();
    try {
      requireGuards();
      long from = state.enter();
      try {
        Set<Slot> written = state.session() == session ? writtenBy(state) : Set.of(); // another session's is refused
        Hold.during(held(), () -> scratch.check(IobindStates.bindingRestoreState(address, from, scratch.error())));
        noteStatesReplaced(written);
      } finally {
        state.exit();
      }
      endOutputs();
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Reorders the rows of all carried states on their device: the new row i is the old row {@code rows[i]}. A beam search
   * continues with its best beams this way. Saved states do not change. The outputs of the last run become invalid, as by a
   * run.
   *
   * @param axis the axis of the rows in each carried state; the states must have the same number of rows
   * @param rows old rows; a row may appear several times or not at all, and their number may change
   * @throws OrtFFMException INVALID_ARGUMENT: a row does not exist, or there are no rows; SHAPE: a state does not have the
   *     axis, or has another number of rows; NOT_SUPPORTED: another number of rows in a session that captures graphs;
   *     INVALID_STATE: as {@link #saveState}, or a run is in flight; OUT_OF_MEMORY; RUNTIME. The state after an error is as for
   *     {@link #restoreState}
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public void reorderState(int axis, long... rows) {
    if (axis < 0) throw new OrtFFMException(OrtStatus.SHAPE, "reorderState: axis: expected 0 or more, got " + axis);
    long address = enter();
    try (Arena arena = Arena.ofConfined()) {
      requireGuards();
      MemorySegment numbers = arena.allocate(JAVA_LONG, Math.max(1, rows.length));
      MemorySegment.copy(rows, 0, numbers, JAVA_LONG, 0, rows.length);
      Set<Slot> written = writtenBy(axis, rows.length);
      Hold.during(held(),
          () -> scratch.check(IobindStates.bindingReorderState(address, axis, numbers, rows.length, scratch.error())));
      noteStatesReplaced(written);
      endOutputs();
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Names the role of an input for {@link #writeLengths(long)}, if the model's graph does not show it, such as a mask from which
   * the model computes lengths. All roles that the graph does not show must be named. The length becomes unknown: pass it to the
   * next {@link #writeLengths(long, long, OrtStreamFFM)}.
   *
   * @param input its name
   * @param role its role; UNNAMED ends it. Not CACHE
   * @throws OrtFFMException NOT_FOUND; INVALID_ARGUMENT: CACHE, which needs an axis; DTYPE, SHAPE: the input cannot have that
   *     role; NOT_SUPPORTED: it is not a tensor of numbers; INVALID_STATE: a run is in flight
   */
  public void nameLength(String input, LengthRole role) {
    if (role == LengthRole.CACHE) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "nameLength: CACHE: expected nameCache, which takes the axis of its rows");
    }
    name(input, role, 0);
  }

  /**
   * Names a carried input as a cache of fixed capacity, for {@link #writeLengths(long)}, if {@link OrtSessionFFM#stateKind} does
   * not show it. {@link #nameLength} with UNNAMED ends it.
   *
   * @param input its name
   * @param axis of its rows; on its first axis it has the rows of the batch, unless this is 0
   * @throws OrtFFMException NOT_FOUND; INVALID_ARGUMENT: it does not have that axis; NOT_SUPPORTED: it is not a tensor of numbers;
   *     INVALID_STATE: a run is in flight
   */
  public void nameCache(String input, int axis) {
    if (axis < 0) throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "nameCache: axis: expected 0 or more, got " + axis);
    name(input, LengthRole.CACHE, axis);
  }

  private void name(String input, LengthRole role, int axis) {
    int index = session.inputIndex(input);
    long address = enter();
    try {
      scratch.check(IobindStates.bindingNameLength(address, index, role.ordinal(), axis, scratch.error()));
      inputs[index].isNamedCache = role == LengthRole.CACHE;
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * As {@link #writeLengths(long, long, OrtStreamFFM)}, without a stream, from the length that iobind has counted.
   *
   * @param added new rows of each cache, 1 or more
   */
  public void writeLengths(long added) {
    writeLengths(added, -1, null);
  }

  /**
   * Writes the lengths of the carried caches of fixed capacity (CAPACITY of {@link OrtSessionFFM#stateKind}) into the model's
   * inputs for them, for a run that adds rows to each. A successful run advances the length; a failed or cancelled run does
   * not. Inputs for lengths that are not bound are bound; masks and positions that are not named ({@link #nameLength}) remain
   * the caller's task.
   *
   * @param added new rows of each cache, 1 or more
   * @param length rows in use before the run, such as 0 for an empty cache; -1: the number that iobind has counted
   * @param stream the device's stream on which the copies are ordered; null: complete on return
   * @throws OrtFFMException INVALID_ARGUMENT: beyond the capacity; INVALID_STATE: the length is unknown, a state is not bound,
   *     or a run is in flight elsewhere; NOT_SUPPORTED: no such cache is carried, or the model computes its lengths from an
   *     input; SHAPE: a bound mask or bound positions do not fit; IO: as {@link OrtSessionFFM#stateKind}; WRONG_DEVICE: another device's stream; OUT_OF_MEMORY; RUNTIME
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public void writeLengths(long added, long length, @Nullable OrtStreamFFM stream) {
    if (length < -1 || added < 1) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT,
          "writeLengths: expected 1 new row or more, and a length of 0 or more, or -1, got " + added + " and " + length);
    }
    writeEach(added, length < 0 ? null : new long[] {length}, stream);
  }

  /**
   * As {@link #writeLengths(long, long, OrtStreamFFM)}, for rows of the batch with different lengths, which are counted from
   * then on.
   *
   * @param added new rows of each cache, 1 or more
   * @param lengths rows in use before the run, for each row of the batch
   * @param stream the device's stream on which the copies are ordered; null: complete on return
   * @throws OrtFFMException as there; INVALID_ARGUMENT also: the numbers of lengths and rows differ; NOT_SUPPORTED also: the
   *     model takes one length for all rows
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public void writeLengths(long added, long[] lengths, @Nullable OrtStreamFFM stream) {
    if (added < 1) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "writeLengths: expected 1 new row or more, got " + added);
    }
    writeEach(added, lengths, stream);
  }

  private void writeEach(long added, long @Nullable [] lengths, @Nullable OrtStreamFFM stream) {
    long address = enter();
    try (Arena arena = Arena.ofConfined()) {
      requireGuards();
      long count = lengths == null ? 0 : lengths.length;
      MemorySegment numbers = lengths == null ? MemorySegment.NULL : arena.allocate(JAVA_LONG, Math.max(1, count));
      if (lengths != null) MemorySegment.copy(lengths, 0, numbers, JAVA_LONG, 0, lengths.length);
      long streamAddress = OrtStreamFFM.enter(stream);
      try {
        OrtStreamFFM.copy(stream, held(), () -> scratch.check(
            IobindStates.bindingWriteLengths(address, added, numbers, count, streamAddress, scratch.error())));
      } finally {
        OrtStreamFFM.exit(stream);
      }
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /**
   * Goes back to a shorter length: keeps the first {@code length} rows of each carried state, on the axis of
   * {@link OrtSessionFFM#stateKind}. A decoder drops wrongly guessed tokens this way. The caller must bind other inputs that
   * depend on the length. Saved states do not change. The outputs of the last run become invalid, as by a run.
   *
   * @param length the number of rows to keep, at most the current number
   * @throws OrtFFMException NOT_SUPPORTED: a state is of another kind than GROWING or CAPACITY: save a state earlier, and
   *     restore it. Of CAPACITY, only the length that {@link #writeLengths(long)} counts is set; INVALID_ARGUMENT: a state is
   *     shorter; SHAPE: the states have different lengths; IO: as {@link OrtSessionFFM#stateKind}; INVALID_STATE: as
   *     {@link #saveState}, or a run is in flight; OUT_OF_MEMORY; RUNTIME. The state after an error is as for
   *     {@link #restoreState}
   * @throws IllegalStateException the binding, or memory bound to it, is closed
   */
  public void rewindState(long length) {
    if (length < 0) throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "rewindState: length: expected 0 or more, got " + length);
    long address = enter();
    try {
      requireGuards();
      Hold.during(held(), () -> scratch.check(IobindStates.bindingRewindState(address, length, scratch.error())));
      noteStatesReplaced(stayingAt(length));
      endOutputs();
    } finally {
      handle.isLeaving = true;
      handle.exitAlone();
    }
  }

  /** The inputs in memory of the caller's that stay as they are: caches of fixed capacity, and those that no run has replaced and that have this
   * length already. */
  private Set<Slot> stayingAt(long length) {
    Set<Slot> staying = new HashSet<>();
    for (int i = 0; i < outputs.length; i++) {
      Slot slot = outputs[i].carriedTo;
      if (slot == null || slot.guard == null) continue;
      StateKind kind = StateKind.of(session, i, Arrays.asList(inputs).indexOf(slot));
      boolean isCache = slot.isNamedCache || kind.kind() == StateKind.Kind.CAPACITY;
      if (isCache || (!submitted && shape(slot.guardTensor)[kind.axis()] == length)) staying.add(slot);
    }
    return staying;
  }

  /** The inputs in memory of the caller's that a state may be written into: those in place that have its shapes, or are caches, which keep their
   * capacity. */
  private Set<Slot> writtenBy(OrtStateFFM state) {
    Set<Slot> written = new HashSet<>();
    state.tensors().forEach((name, tensor) -> {
      Slot slot = inputs[session.inputIndex(name)];
      if (slot.carry != CarryMode.IN_PLACE || slot.guard == null) return;
      if (isCache(slot) || Arrays.equals(shape(slot.guardTensor), shape(tensor))) written.add(slot);
    });
    return written;
  }

  private boolean isCache(Slot input) {
    if (input.isNamedCache) return true;
    for (int i = 0; i < outputs.length; i++) {
      if (outputs[i].carriedTo == input) {
        return StateKind.of(session, i, Arrays.asList(inputs).indexOf(input)).kind() == StateKind.Kind.CAPACITY;
      }
    }
    return false;
  }

  private long[] shape(long tensor) {
    MemorySegment info = scratch.tensorInfo(tensor);
    return Layouts.longs(info.get(JAVA_LONG, DIMS), info.get(JAVA_LONG, RANK));
  }

  /** As {@link #writtenBy(OrtStateFFM)}, where the states get so many rows. */
  private Set<Slot> writtenBy(int axis, int rows) {
    Set<Slot> written = new HashSet<>();
    for (Slot slot : inputs) {
      if (slot.carry != CarryMode.IN_PLACE || slot.guard == null) continue;
      long[] shape = shape(slot.guardTensor);
      if (axis < shape.length && shape[axis] == rows) written.add(slot);
    }
    return written;
  }

  /** All carried inputs have other states, which lie in libiobind's memory but where they were written. */
  private void noteStatesReplaced(Set<Slot> written) {
    for (int i = 0; i < inputs.length; i++) {
      if (inputs[i].carry == null) continue;
      boolean stays = written.contains(inputs[i]);
      note(inputs[i], stays ? inputs[i].guard : null);
      if (!stays) noteEvent(i, null);
    }
  }
}
