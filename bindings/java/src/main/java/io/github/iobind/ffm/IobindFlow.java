package io.github.iobind.ffm;

import static io.github.iobind.ffm.Iobind.MEMORY;
import static io.github.iobind.ffm.Iobind.OBJECT;
import static io.github.iobind.ffm.Iobind.SIZE;
import static io.github.iobind.ffm.Iobind.action;
import static io.github.iobind.ffm.Iobind.status;
import static io.github.iobind.ffm.Iobind.thrown;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The functions of iobind.h that look at many runs: pipelines and audits. As {@link Iobind}. */
public final class IobindFlow {
  private IobindFlow() {}

  /** Has the functions found. */
  static void load() {}

  // ---- pipelines

  private static final MethodHandle PIPELINE_CREATE = status("iobind_pipeline_create", OBJECT, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_pipeline_create}. */
  public static int pipelineCreate(long session, MemorySegment options, long pipeline, long error) {
    try {
      return (int) PIPELINE_CREATE.invokeExact(session, options, pipeline, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle PIPELINE_DESTROY = action("iobind_pipeline_destroy", OBJECT);

  /** {@code iobind_pipeline_destroy}. */
  public static void pipelineDestroy(long pipeline) {
    try {
      PIPELINE_DESTROY.invokeExact(pipeline);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle PIPELINE_SUBMIT = status("iobind_pipeline_submit", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_pipeline_submit}. */
  public static int pipelineSubmit(long pipeline, MemorySegment request, long error) {
    try {
      return (int) PIPELINE_SUBMIT.invokeExact(pipeline, request, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle PIPELINE_NEXT = status("iobind_pipeline_next", OBJECT, SIZE, MEMORY, SIZE,
      MEMORY, OBJECT);

  /** {@code iobind_pipeline_next}. */
  public static int pipelineNext(long pipeline, long nanos, MemorySegment outputs, long count, MemorySegment item,
      long error) {
    try {
      return (int) PIPELINE_NEXT.invokeExact(pipeline, nanos, outputs, count, item, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- audit

  private static final MethodHandle AUDIT_CREATE = status("iobind_audit_create", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_audit_create}. */
  public static int auditCreate(long binding, long audit, long error) {
    try {
      return (int) AUDIT_CREATE.invokeExact(binding, audit, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle AUDIT_DESTROY = action("iobind_audit_destroy", OBJECT);

  /** {@code iobind_audit_destroy}. */
  public static void auditDestroy(long audit) {
    try {
      AUDIT_DESTROY.invokeExact(audit);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle AUDIT_GET_INFO = status("iobind_audit_get_info", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_audit_get_info}. */
  public static int auditGetInfo(long audit, MemorySegment info, long error) {
    try {
      return (int) AUDIT_GET_INFO.invokeExact(audit, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle AUDIT_GET_ENTRY = status("iobind_audit_get_entry", OBJECT, SIZE, MEMORY, OBJECT);

  /** {@code iobind_audit_get_entry}. */
  public static int auditGetEntry(long audit, long index, MemorySegment entry, long error) {
    try {
      return (int) AUDIT_GET_ENTRY.invokeExact(audit, index, entry, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }
}
