package io.github.iobind.ffm;

import static io.github.iobind.ffm.Iobind.MEMORY;
import static io.github.iobind.ffm.Iobind.OBJECT;
import static io.github.iobind.ffm.Iobind.SIZE;
import static io.github.iobind.ffm.Iobind.action;
import static io.github.iobind.ffm.Iobind.status;
import static io.github.iobind.ffm.Iobind.thrown;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The functions of iobind.h on live batches. As {@link Iobind}. */
public final class IobindBatch {
  private static final MemoryLayout SLOT = JAVA_LONG;
  private static final MemoryLayout NANOS = JAVA_LONG;

  private IobindBatch() {}

  /** Has the functions found. */
  static void load() {}

  private static final MethodHandle BATCH_CREATE = status("iobind_batch_create", OBJECT, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_batch_create}. */
  public static int batchCreate(long session, MemorySegment options, long batch, long error) {
    try {
      return (int) BATCH_CREATE.invokeExact(session, options, batch, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_DESTROY = action("iobind_batch_destroy", OBJECT);

  /** {@code iobind_batch_destroy}. */
  public static void batchDestroy(long batch) {
    try {
      BATCH_DESTROY.invokeExact(batch);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_STOP = action("iobind_batch_stop", OBJECT);

  /** {@code iobind_batch_stop}. */
  public static void batchStop(long batch) {
    try {
      BATCH_STOP.invokeExact(batch);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_GET_INFO = status("iobind_batch_get_info", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_batch_get_info}. */
  public static int batchGetInfo(long batch, MemorySegment info, long error) {
    try {
      return (int) BATCH_GET_INFO.invokeExact(batch, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_JOIN = status("iobind_batch_join", OBJECT, OBJECT, OBJECT, OBJECT);

  /** {@code iobind_batch_join}. */
  public static int batchJoin(long batch, long state, long slot, long error) {
    try {
      return (int) BATCH_JOIN.invokeExact(batch, state, slot, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_LEAVE = status("iobind_batch_leave", OBJECT, SLOT, OBJECT, OBJECT);

  /** {@code iobind_batch_leave}. */
  public static int batchLeave(long batch, long slot, long state, long error) {
    try {
      return (int) BATCH_LEAVE.invokeExact(batch, slot, state, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_SET_INPUT = status("iobind_batch_set_input", OBJECT, SLOT, SIZE, OBJECT, OBJECT);

  /** {@code iobind_batch_set_input}. */
  public static int batchSetInput(long batch, long slot, long index, long row, long error) {
    try {
      return (int) BATCH_SET_INPUT.invokeExact(batch, slot, index, row, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_RUN = status("iobind_batch_run", OBJECT, MEMORY, SIZE, OBJECT, OBJECT);

  /** {@code iobind_batch_run}. */
  public static int batchRun(long batch, MemorySegment slots, long count, long stream, long error) {
    try {
      return (int) BATCH_RUN.invokeExact(batch, slots, count, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_GET_OUTPUT = status("iobind_batch_take_output", OBJECT, SLOT, SIZE, OBJECT, OBJECT);

  /** {@code iobind_batch_take_output}. */
  public static int batchGetOutput(long batch, long slot, long index, long tensor, long error) {
    try {
      return (int) BATCH_GET_OUTPUT.invokeExact(batch, slot, index, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_SAVE_STATE = status("iobind_batch_save_state", OBJECT, SLOT, OBJECT, OBJECT);

  /** {@code iobind_batch_save_state}. */
  public static int batchSaveState(long batch, long slot, long state, long error) {
    try {
      return (int) BATCH_SAVE_STATE.invokeExact(batch, slot, state, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_SUBMIT = status("iobind_batch_submit", OBJECT, SLOT, OBJECT);

  /** {@code iobind_batch_submit}. */
  public static int batchSubmit(long batch, long slot, long error) {
    try {
      return (int) BATCH_SUBMIT.invokeExact(batch, slot, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_STEP = status("iobind_batch_step", OBJECT, MEMORY, MEMORY, SIZE, OBJECT, OBJECT);

  /** {@code iobind_batch_step}. */
  public static int batchStep(long batch, MemorySegment wait, MemorySegment slots, long room, long count, long error) {
    try {
      return (int) BATCH_STEP.invokeExact(batch, wait, slots, room, count, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BATCH_AWAIT = status("iobind_batch_await", OBJECT, SLOT, NANOS, OBJECT);

  /** {@code iobind_batch_await}. */
  public static int batchAwait(long batch, long slot, long timeout, long error) {
    try {
      return (int) BATCH_AWAIT.invokeExact(batch, slot, timeout, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }
}
