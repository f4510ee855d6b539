package io.github.iobind.api;

/** What an input has to do with the lengths of caches of fixed capacity, if {@code length} rows are in use and a run adds rows. */
public enum LengthRole {
  /** What the model's graph shows. */
  UNNAMED,
  /** {@code length}: the first row that the run writes. */
  BEFORE,
  /** {@code length + added - 1}: the last row that the run writes. */
  LAST,
  /** {@code length + added}. */
  AFTER,
  /** No less than {@code length + added} of the longest row of the batch; the capacity in a session that captures graphs. */
  EXTENT,
  /** Along the last axis 1 for each of the first {@code length + added} rows, 0 for all others. */
  MASK,
  /** Along the last axis {@code length}, {@code length + 1}, .. {@code length + added - 1}. */
  POSITIONS,
  /** Nothing that iobind writes: the caller does. */
  OTHER,
  /** A carried cache of fixed capacity. */
  CACHE
}
