package io.github.iobind.api;

import io.github.iobind.ffm.IobindStates;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;
import java.util.function.Function;

/**
 * The kind of the state that is carried from an output to an input, as found in the model's graph. For most graphs it is
 * UNKNOWN.
 *
 * @param kind the kind
 * @param axis of the length, for GROWING, WINDOW and CAPACITY; -1: unknown, or another kind
 */
public record StateKind(Kind kind, int axis) {
  /** How a run computes the state from the previous one. */
  public enum Kind {
    /** The graph does not show it. */
    UNKNOWN,
    /** GRU, LSTM, RNN: each run computes a new state. */
    RECURRENT,
    /** Each run appends to it. */
    GROWING,
    /** Each run appends to it and drops its oldest part. */
    WINDOW,
    /** A cache of fixed capacity, whose lengths are other inputs. */
    CAPACITY
  }

  /** Of the session's output and input by their indexes. */
  static StateKind of(OrtSessionFFM session, int output, int input) {
    return read(session, output, input, info -> new StateKind(
        Kind.values()[Layouts.getInt(info, Layouts.STATE_KIND_INFO, "kind")],
        (int) Layouts.getLong(info, Layouts.STATE_KIND_INFO, "axis")));
  }

  /** What DEFAULT chooses for it. */
  static CarryMode modeOf(OrtSessionFFM session, int output, int input) {
    return read(session, output, input, info -> CarryMode.values()[Layouts.getInt(info, Layouts.STATE_KIND_INFO, "mode")]);
  }

  private static <T> T read(OrtSessionFFM session, int output, int input, Function<MemorySegment, T> take) {
    try (Scratch scratch = Scratch.take()) {
      long address = session.enter();
      try {
        MemorySegment info = scratch.struct(Layouts.STATE_KIND_INFO);
        scratch.check(IobindStates.sessionGetStateKind(address, output, input, info, scratch.error()));
        return take.apply(info);
      } finally {
        session.exit();
      }
    }
  }
}
