package io.github.iobind.spark;

import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;

/**
 * Models over the rows of a Dataset, for {@code Dataset.mapPartitions}. The result rows have the order of the input rows.
 *
 * <p>An executor needs a JVM of version 22 or newer, which with Spark 4.2 is Java 25, the jar iobind-spark, and an ONNX Runtime: the
 * official package, {@code com.microsoft.onnxruntime:onnxruntime}, among the job's jars. On an older JVM a task fails with a
 * message that names the version.
 */
public final class SparkModels {
  private SparkModels() {}

  /**
   * Runs over batches of rows.
   *
   * @param spec the model and its device
   * @param batch the maximum number of rows in a run, and at most the number that the model declares if its first dim is fixed
   * @param codec converts rows
   * @param <I> the input rows' type
   * @param <O> the result rows' type
   * @return for {@code mapPartitions}; in a task it throws what {@code OrtSessionFFM.create} and {@code runWithBindings} throw,
   *     IllegalStateException for a resource that the task does not have, and IllegalArgumentException for a model whose inputs
   *     and outputs are not rows
   */
  public static <I, O> MapPartitionsFunction<I, O> byBatch(SessionSpec spec, int batch, RowCodec<I, O> codec) {
    return new BatchFunction<>(spec, batch, 0, codec);
  }

  /**
   * Runs over batches of rows with a pipeline for each task: one batch is uploaded while another one runs and a third one is
   * downloaded.
   *
   * @param spec the model and its device
   * @param batch the maximum number of rows in a run
   * @param slots the maximum number of batches in flight, 2 or more
   * @param codec converts rows
   * @param <I> the input rows' type
   * @param <O> the result rows' type
   * @return as {@link #byBatch}
   */
  public static <I, O> MapPartitionsFunction<I, O> byPipeline(SessionSpec spec, int batch, int slots, RowCodec<I, O> codec) {
    if (slots < 2) throw new IllegalArgumentException("slots: expected 2 or more, got " + slots);
    return new BatchFunction<>(spec, batch, slots, codec);
  }

  /** Closes all sessions of this executor. No task may be using one. The next task creates new ones. */
  public static void release() {
    Runs.load().release();
  }

  /** What Spark sends to the executors. */
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
