package io.github.iobind.ffm;

import static io.github.iobind.ffm.Iobind.ENUM;
import static io.github.iobind.ffm.Iobind.MEMORY;
import static io.github.iobind.ffm.Iobind.OBJECT;
import static io.github.iobind.ffm.Iobind.SIZE;
import static io.github.iobind.ffm.Iobind.action;
import static io.github.iobind.ffm.Iobind.status;
import static io.github.iobind.ffm.Iobind.thrown;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The functions of iobind.h on saved states. As {@link Iobind}. */
public final class IobindStates {
  private IobindStates() {}

  /** Has the functions found. */
  static void load() {}

  private static final MethodHandle BINDING_SAVE_STATE = status("iobind_binding_save_state", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_binding_save_state}. */
  public static int bindingSaveState(long binding, long state, long error) {
    try {
      return (int) BINDING_SAVE_STATE.invokeExact(binding, state, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_RESTORE_STATE = status("iobind_binding_restore_state", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_binding_restore_state}. */
  public static int bindingRestoreState(long binding, long state, long error) {
    try {
      return (int) BINDING_RESTORE_STATE.invokeExact(binding, state, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_REORDER_STATE = status("iobind_binding_reorder_state", OBJECT, SIZE, MEMORY, SIZE,
      OBJECT);

  /** {@code iobind_binding_reorder_state}. */
  public static int bindingReorderState(long binding, long axis, MemorySegment rows, long count, long error) {
    try {
      return (int) BINDING_REORDER_STATE.invokeExact(binding, axis, rows, count, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_NAME_LENGTH = status("iobind_binding_name_length", OBJECT, SIZE, ENUM, SIZE, OBJECT);

  /** {@code iobind_binding_name_length}. */
  public static int bindingNameLength(long binding, long input, int role, long axis, long error) {
    try {
      return (int) BINDING_NAME_LENGTH.invokeExact(binding, input, role, axis, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_WRITE_LENGTHS = status("iobind_binding_write_lengths", OBJECT, SIZE, MEMORY, SIZE,
      OBJECT, OBJECT);

  /** {@code iobind_binding_write_lengths}. */
  public static int bindingWriteLengths(long binding, long added, MemorySegment lengths, long count, long stream, long error) {
    try {
      return (int) BINDING_WRITE_LENGTHS.invokeExact(binding, added, lengths, count, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_REWIND_STATE = status("iobind_binding_rewind_state", OBJECT, SIZE, OBJECT);

  /** {@code iobind_binding_rewind_state}. */
  public static int bindingRewindState(long binding, long length, long error) {
    try {
      return (int) BINDING_REWIND_STATE.invokeExact(binding, length, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_STATE_KIND = status("iobind_session_get_state_kind", OBJECT, SIZE, SIZE, MEMORY,
      OBJECT);

  /** {@code iobind_session_get_state_kind}. */
  public static int sessionGetStateKind(long session, long output, long input, MemorySegment info, long error) {
    try {
      return (int) SESSION_GET_STATE_KIND.invokeExact(session, output, input, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STATE_RELEASE = action("iobind_state_release", OBJECT);

  /** {@code iobind_state_release}. */
  public static void stateRelease(long state) {
    try {
      STATE_RELEASE.invokeExact(state);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STATE_GET_INFO = status("iobind_state_get_info", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_state_get_info}. */
  public static int stateGetInfo(long state, MemorySegment info, long error) {
    try {
      return (int) STATE_GET_INFO.invokeExact(state, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STATE_GET_PAIR = status("iobind_state_get_pair", OBJECT, SIZE, MEMORY, OBJECT);

  /** {@code iobind_state_get_pair}. */
  public static int stateGetPair(long state, long index, MemorySegment pair, long error) {
    try {
      return (int) STATE_GET_PAIR.invokeExact(state, index, pair, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STATE_SAVE = status("iobind_state_save", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_state_save}. */
  public static int stateSave(long state, MemorySegment path, long error) {
    try {
      return (int) STATE_SAVE.invokeExact(state, path, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STATE_LOAD = status("iobind_state_load", OBJECT, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_state_load}. */
  public static int stateLoad(long session, MemorySegment path, long state, long error) {
    try {
      return (int) STATE_LOAD.invokeExact(session, path, state, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }
}
