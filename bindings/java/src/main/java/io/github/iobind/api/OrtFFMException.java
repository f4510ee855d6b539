package io.github.iobind.api;

/**
 * A call that failed. Nothing has changed then, unless the method says otherwise. The message is one line: what failed, what
 * was expected, what came. Use of an object after its close is an {@link IllegalStateException} instead.
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
   * Why the call failed.
   *
   * @return the status, never OK
   */
  public OrtStatus status() {
    return status;
  }

  /**
   * ONNX Runtime's own code.
   *
   * @return the OrtErrorCode where ONNX Runtime refused, otherwise 0
   */
  public int ortCode() {
    return ortCode;
  }
}
