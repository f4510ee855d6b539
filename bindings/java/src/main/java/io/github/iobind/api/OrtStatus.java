package io.github.iobind.api;

/** Why a call failed. The names and numbers are those of libiobind. */
public enum OrtStatus {
  /** Success; never seen in an exception. */
  OK,
  /** An argument is wrong in itself. */
  INVALID_ARGUMENT,
  /** The object is not in a state for this call. */
  INVALID_STATE,
  /** No such file, name, index or device. */
  NOT_FOUND,
  /** The device, the execution provider or this version cannot do it. */
  NOT_SUPPORTED,
  /** Host or device memory is exhausted. */
  OUT_OF_MEMORY,
  /** A file could not be read or written. */
  IO,
  /** ONNX Runtime or a library is too old or too new. */
  VERSION,
  /** ONNX Runtime refused: its code and the message say why. */
  RUNTIME,
  /** The memory is, or the work would run, on the wrong device. */
  WRONG_DEVICE,
  /** Rank or dims do not fit. */
  SHAPE,
  /** The element type does not fit. */
  DTYPE,
  /** Timed out: the work stays in flight. */
  TIMEOUT,
  /** The run was cancelled. */
  CANCELLED,
  /** A defect of iobind: please report it. */
  INTERNAL,
  /** Nothing works on the device any more in this process; its work has failed. */
  DEVICE_LOST,
  /** The device's result is not the CPU's: see {@link OrtVerification}. */
  RESULT;

  private static final OrtStatus[] VALUES = values();

  static OrtStatus of(int number) {
    return number >= 0 && number < VALUES.length ? VALUES[number] : INTERNAL;
  }
}
