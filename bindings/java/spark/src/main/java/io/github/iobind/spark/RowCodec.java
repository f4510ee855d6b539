package io.github.iobind.spark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Map;

/**
 * Converts rows into a model's inputs, and outputs into rows. Spark sends the object to the executors, where several threads may use
 * it concurrently.
 *
 * @param <I> rows in
 * @param <O> rows out
 */
public interface RowCodec<I, O> extends Serializable {
  /**
   * Writes a row into the inputs of a run.
   *
   * @param row the row
   * @param inputs by name, the row's part of each: exactly the bytes of a row, in native byte order, with undefined content. Each must be
   *     filled, and its position must be at its end: after absolute puts, or puts into a view, call {@code position(limit())}. The
   *     buffers must not be used after the call. The task fails if a buffer is not filled or is written beyond its end, or if the
   *     codec throws; the message names the row, the input, and the columns of a Spark row that are null
   */
  void write(I row, Map<String, ByteBuffer> inputs);

  /**
   * Makes a row of the outputs.
   *
   * @param row the row whose outputs these are
   * @param outputs by name, the row's part of each: read-only, in native byte order. The buffers must not be used after the call
   * @return the result row. Null fails the task: filter rows out in a later step
   */
  O read(I row, Map<String, ByteBuffer> outputs);
}
