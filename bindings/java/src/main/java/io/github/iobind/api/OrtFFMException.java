package io.github.iobind.api;

/**
 * A failed call. Nothing has changed, unless the method documents otherwise. The message is one line: the object, what was
 * expected, and what it got. Use of a closed object throws an {@link IllegalStateException} instead.
 */
public sealed class OrtFFMException extends RuntimeException permits OrtPipelineFFM.ItemException {
  private static final long serialVersionUID = 1;

  /** The status of the call. */
  private final OrtStatus status;
  /** ONNX Runtime's code, or 0. */
  private final int ortCode;

  OrtFFMException(OrtStatus status, int ortCode, String message) {
    super(message);
    this.status = status;
    this.ortCode = ortCode;
  }

  OrtFFMException(OrtStatus status, String message) {
    this(status, 0, message);
  }

  /**
   * The status of the call.
   *
   * @return the status, never OK
   */
  public OrtStatus status() {
    return status;
  }

  /**
   * ONNX Runtime's own code.
   *
   * @return the OrtErrorCode if ONNX Runtime failed, otherwise 0
   */
  public int ortCode() {
    return ortCode;
  }
}
