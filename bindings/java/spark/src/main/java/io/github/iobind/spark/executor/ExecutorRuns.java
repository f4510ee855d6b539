package io.github.iobind.spark.executor;

import io.github.iobind.spark.RowCodec;
import io.github.iobind.spark.Runs;
import io.github.iobind.spark.SessionSpec;
import java.util.Iterator;

/** Implements {@link Runs} with iobind for Java. */
public final class ExecutorRuns implements Runs {
  /** For {@link Runs#load}. */
  public ExecutorRuns() {}

  @Override
  public <I, O> Iterator<O> run(SessionSpec spec, int batch, int slots, RowCodec<I, O> codec, Iterator<I> rows) {
    HeldSession held = HeldSession.of(spec);
    return slots == 0 ? new BatchIterator<>(held, batch, codec, rows) : PipelineIterator.of(held, batch, slots, codec, rows);
  }

  @Override
  public void release() {
    HeldSession.release();
  }
}
