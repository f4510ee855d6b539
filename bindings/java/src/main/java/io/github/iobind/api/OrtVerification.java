package io.github.iobind.api;

import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;

/**
 * Which runs of a session are compared with the CPU's, for {@link OrtSessionFFM.Options#verify}, and how far they may differ.
 *
 * @param runs the number of first runs of each binding, and of each set of dims; 0: the value of the environment variable
 *     IOBIND_VERIFY
 * @param absolute how far an element of a floating-point type may differ; if both limits are 0, they depend on the type
 * @param relative how much farther, relative to the CPU's value
 */
public record OrtVerification(int runs, double absolute, double relative) {
  static final OrtVerification NONE = new OrtVerification(0, 0, 0);

  /**
   * Checks the number of runs; the limits are checked when the session is created.
   *
   * @throws OrtFFMException INVALID_ARGUMENT: runs is negative
   */
  public OrtVerification {
    if (runs < 0) throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "verify: expected 0 runs or more, got " + runs);
  }

  /**
   * Uses the limits of each type.
   *
   * @param runs how many
   * @throws OrtFFMException INVALID_ARGUMENT: it is negative
   */
  public OrtVerification(int runs) {
    this(runs, 0, 0);
  }

  void write(MemorySegment struct) {
    Layouts.setInt(struct, Layouts.VERIFY, "runs", runs);
    Layouts.setDouble(struct, Layouts.VERIFY, "absolute", absolute);
    Layouts.setDouble(struct, Layouts.VERIFY, "relative", relative);
  }
}
