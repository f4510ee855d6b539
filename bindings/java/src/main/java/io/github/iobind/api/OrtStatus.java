package io.github.iobind.api;

/** The status of a call. The names and numbers are those of libiobind. */
public enum OrtStatus {
  /** Success; never seen in an exception. */
  OK,
  /** An argument is invalid. */
  INVALID_ARGUMENT,
  /** The object's state does not allow this call. */
  INVALID_STATE,
  /** No such file, name, index or device. */
  NOT_FOUND,
  /** The device, the execution provider or this version does not support it. */
  NOT_SUPPORTED,
  /** Host or device memory is exhausted. */
  OUT_OF_MEMORY,
  /** A file could not be read or written. */
  IO,
  /** ONNX Runtime or a library is too old or too new. */
  VERSION,
  /** ONNX Runtime failed: its code and the message have the reason. */
  RUNTIME,
  /** The memory is, or the work would run, on the wrong device. */
  WRONG_DEVICE,
  /** Rank or dims do not match. */
  SHAPE,
  /** The element type does not match. */
  DTYPE,
  /** Timed out; the work remains in flight. */
  TIMEOUT,
  /** The run was cancelled. */
  CANCELLED,
  /** A defect of iobind: please report it. */
  INTERNAL,
  /** The device does not work any more in this process; all its work has failed. */
  DEVICE_LOST,
  /** The device's result differs from the CPU's: see {@link OrtVerification}. */
  RESULT;

  private static final OrtStatus[] VALUES = values();

  static OrtStatus of(int number) {
    return number >= 0 && number < VALUES.length ? VALUES[number] : INTERNAL;
  }
}
