package io.github.iobind.spark.executor;

import io.github.iobind.api.OrtBindingPool;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.spark.RowCodec;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;

/** The rows of a task, in runs of a leased binding. Between two runs the task holds no lease. */
final class BatchIterator<I, O> implements Iterator<O> {
  private final HeldSession held;
  private final int batch;
  private final RowCalls<I, O> calls;
  private final Iterator<I> rows;
  private final ArrayDeque<O> done = new ArrayDeque<>();

  BatchIterator(HeldSession held, int batch, RowCodec<I, O> codec, Iterator<I> rows) {
    this.held = held;
    this.batch = batch;
    calls = new RowCalls<>(codec);
    this.rows = rows;
  }

  @Override
  public boolean hasNext() {
    while (done.isEmpty() && rows.hasNext()) run(take(rows, batch));
    return !done.isEmpty();
  }

  @Override
  public O next() {
    if (!hasNext()) throw new NoSuchElementException();
    return done.remove();
  }

  static <I> List<I> take(Iterator<I> rows, int count) {
    List<I> taken = new ArrayList<>(count);
    while (taken.size() < count && rows.hasNext()) taken.add(rows.next());
    return taken;
  }

  private void run(List<I> some) {
    long capacity = held.layout().capacity(some.size());
    try (OrtBindingPool.Lease<Long> lease = held.bindings().lease(capacity)) {
      OrtIoBindingFFM binding = lease.binding();
      Map<String, MemorySegment> inputs = held.layout().staging(binding);
      calls.write(some, inputs, capacity);
      binding.runWithBindings();
      binding.getBoundOutputValues().forEach((name, value) -> RowLayout.requireRows(name, value.shape(), capacity));
      Map<String, MemorySegment> outputs = binding.getBoundOutputCpuValues();
      calls.read(some, outputs, capacity, done);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("the task was interrupted while it waited for a binding", e);
    }
  }
}
