package io.github.iobind.spark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Map;

/**
 * What a row is to a model, and what the model's outputs are to a row. Spark sends it to the executors; there several threads may
 * use it at the same time.
 *
 * @param <I> rows in
 * @param <O> rows out
 */
public interface RowCodec<I, O> extends Serializable {
  /**
   * Writes a row into the inputs of a run.
   *
   * @param row the row
   * @param inputs by name, the row's part of each: native byte order, exactly the bytes of a row, what they hold is undefined. Each
   *     must be filled, and its position at its end: behind absolute puts, or puts into a view, call {@code position(limit())}. Not to be
   *     used after the call. One that is not filled, or written beyond its end, fails the task, as does whatever this throws; the
   *     message names the row and the input, and the columns of a Spark row that are null
   */
  void write(I row, Map<String, ByteBuffer> inputs);

  /**
   * Makes a row of the outputs.
   *
   * @param row the row whose outputs these are
   * @param outputs by name, the row's part of each: read-only, native byte order. Not to be used after the call
   * @return the row that goes on, not null, which fails the task: a row that is to be left out is filtered out behind this step
   */
  O read(I row, Map<String, ByteBuffer> outputs);
}
