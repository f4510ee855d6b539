package io.github.iobind.spark;

import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;

/**
 * Models over the rows of a Dataset, for {@code Dataset.mapPartitions}. Rows come out in the order in which they went in.
 *
 * <p>An executor needs a JVM of version 22 or newer, which with Spark 4.2 is Java 25, the jar iobind-spark, and an ONNX Runtime: the
 * official package, {@code com.microsoft.onnxruntime:onnxruntime}, among the job's jars. On an older JVM a task fails and says so.
 */
public final class SparkModels {
  private SparkModels() {}

  /**
   * Runs over batches of rows.
   *
   * @param spec the model and its device
   * @param batch the most rows of a run; the number that the model says, if its first dim is fixed
   * @param codec what a row is to the model
   * @param <I> rows in
   * @param <O> rows out
   * @return for {@code mapPartitions}; in a task it throws what {@code OrtSessionFFM.create} and {@code runWithBindings} throw,
   *     IllegalStateException for a resource that the task does not have, and IllegalArgumentException for a model whose inputs
   *     and outputs are not rows
   */
  public static <I, O> MapPartitionsFunction<I, O> byBatch(SessionSpec spec, int batch, RowCodec<I, O> codec) {
    return new BatchFunction<>(spec, batch, 0, codec);
  }

  /**
   * Runs over batches of rows by a pipeline for each task: a batch goes up to the device, another one runs, a third comes down, at
   * the same time.
   *
   * @param spec the model and its device
   * @param batch the most rows of a run
   * @param slots the batches that are in flight at a time, 2 or more
   * @param codec what a row is to the model
   * @param <I> rows in
   * @param <O> rows out
   * @return as {@link #byBatch}
   */
  public static <I, O> MapPartitionsFunction<I, O> byPipeline(SessionSpec spec, int batch, int slots, RowCodec<I, O> codec) {
    if (slots < 2) throw new IllegalArgumentException("slots: expected 2 or more, got " + slots);
    return new BatchFunction<>(spec, batch, slots, codec);
  }

  /** Closes all sessions of this executor, which no task may be using; the next task makes new ones. */
  public static void release() {
    Runs.load().release();
  }

  /** What the executors get. */
  private static final class BatchFunction<I, O> implements MapPartitionsFunction<I, O> {
    private static final long serialVersionUID = 1;
    private final SessionSpec spec;
    private final int batch;
    private final int slots;
    private final RowCodec<I, O> codec;

    BatchFunction(SessionSpec spec, int batch, int slots, RowCodec<I, O> codec) {
      if (batch < 1) throw new IllegalArgumentException("batch: expected 1 or more, got " + batch);
      this.spec = spec;
      this.batch = batch;
      this.slots = slots;
      this.codec = codec;
    }

    @Override
    public Iterator<O> call(Iterator<I> rows) {
      return Runs.load().run(spec, batch, slots, codec, rows);
    }
  }
}
