package io.github.iobind.ffm;

/** The flags and numbers of iobind.h, by its names. A test compares every one with the header. */
public final class Constants {
  /** {@code IOBIND_RUNTIME_TELEMETRY}. */
  public static final int RUNTIME_TELEMETRY = 1;
  /** {@code IOBIND_RUNTIME_NO_EP_SEARCH}. */
  public static final int RUNTIME_NO_EP_SEARCH = 1 << 1;
  /** {@code IOBIND_RUNTIME_SOFTWARE_DEVICES}. */
  public static final int RUNTIME_SOFTWARE_DEVICES = 1 << 2;
  /** {@code IOBIND_RUNTIME_POOLS}. */
  public static final int RUNTIME_POOLS = 1 << 3;
  /** {@code IOBIND_PRELOAD_NO_CUDA}. */
  public static final int PRELOAD_NO_CUDA = 1;
  /** {@code IOBIND_PRELOAD_NO_CUDNN}. */
  public static final int PRELOAD_NO_CUDNN = 1 << 1;
  /** {@code IOBIND_PRELOAD_NO_MSVC}. */
  public static final int PRELOAD_NO_MSVC = 1 << 2;
  /** {@code IOBIND_SESSION_STRICT}. */
  public static final int SESSION_STRICT = 1;
  /** {@code IOBIND_SESSION_PLACEMENT}. */
  public static final int SESSION_PLACEMENT = 1 << 1;
  /** {@code IOBIND_SESSION_NO_MEMORY_REUSE}. */
  public static final int SESSION_NO_MEMORY_REUSE = 1 << 2;
  /** {@code IOBIND_SESSION_IDENTIFY}. */
  public static final int SESSION_IDENTIFY = 1 << 3;
  /** {@code IOBIND_AUDIT_CROSSES}. */
  public static final int AUDIT_CROSSES = 1;
  /** {@code IOBIND_AUDIT_UNKNOWN}. */
  public static final int AUDIT_UNKNOWN = 1 << 1;
  /** {@code IOBIND_PIPELINE_STOP}. */
  public static final int PIPELINE_STOP = 1;
  /** {@code IOBIND_PIPELINE_TIMES}. */
  public static final int PIPELINE_TIMES = 1 << 1;
  /** {@code IOBIND_BATCH_ON_DEVICE}. */
  public static final int BATCH_ON_DEVICE = 1;
  /** {@code IOBIND_BATCH_NO_AXIS}. */
  public static final int BATCH_NO_AXIS = -1;
  /** {@code IOBIND_DLPACK_LEGACY}. */
  public static final int DLPACK_LEGACY = 1;
  /** {@code IOBIND_DLPACK_COPY_STRIDED}. */
  public static final int DLPACK_COPY_STRIDED = 1 << 1;
  /** {@code IOBIND_ACCESS_READ}. */
  public static final int ACCESS_READ = 0;
  /** {@code IOBIND_ACCESS_WRITE}. */
  public static final int ACCESS_WRITE = 1;
  /** {@code IOBIND_OUTPUT_IN_PLACE}. */
  public static final int OUTPUT_IN_PLACE = 1;

  private Constants() {}
}
