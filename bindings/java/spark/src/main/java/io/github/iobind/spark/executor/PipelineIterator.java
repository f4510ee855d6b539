package io.github.iobind.spark.executor;

import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.OrtPipelineFFM;
import io.github.iobind.api.OrtValueRef;
import io.github.iobind.spark.RowCodec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/** The rows of a task, in runs of its own pipeline, which is closed when the task ends or fails. */
final class PipelineIterator<I, O> implements Iterator<O>, AutoCloseable {
  private final HeldSession held;
  private final int batch;
  private final int slots;
  private final RowCalls<I, O> calls;
  private final Iterator<I> rows;
  private final OrtPipelineFFM pipeline;
  /** Number of items in flight. The tag of each is its rows. */
  private int submitted;
  private final ArrayDeque<O> done = new ArrayDeque<>();

  private PipelineIterator(HeldSession held, int batch, int slots, RowCodec<I, O> codec, Iterator<I> rows) {
    this.held = held;
    this.batch = batch;
    this.slots = slots;
    calls = new RowCalls<>(codec);
    this.rows = rows;
    pipeline = OrtPipelineFFM.create(held.session(), new OrtPipelineFFM.Options().slots(slots));
  }

  static <I, O> PipelineIterator<I, O> of(HeldSession held, int batch, int slots, RowCodec<I, O> codec, Iterator<I> rows) {
    PipelineIterator<I, O> made = new PipelineIterator<>(held, batch, slots, codec, rows);
    TaskContext task = TaskContext.get();
    if (task != null) task.addTaskCompletionListener((TaskCompletionListener) ended -> made.close());
    return made;
  }

  @Override
  public boolean hasNext() {
    while (done.isEmpty()) {
      while (submitted < slots && rows.hasNext()) submit(BatchIterator.take(rows, batch));
      if (submitted == 0) {
        close();
        return false;
      }
      pull();
    }
    return true;
  }

  @Override
  public O next() {
    if (!hasNext()) throw new NoSuchElementException();
    return done.remove();
  }

  /** Submits rows. The pipeline copies them before the call returns. */
  private void submit(List<I> some) {
    long capacity = held.layout().capacity(some.size());
    List<OrtValueRef> values = new ArrayList<>();
    try (Arena arena = Arena.ofConfined()) {
      Map<String, MemorySegment> inputs = held.layout().allocate(arena, capacity);
      calls.write(some, inputs, capacity);
      held.layout().descriptors(capacity).forEach((name, descriptor) ->
          values.add(OrtValueRef.wrap(held.session().runtime(), DeviceSpec.CPU, inputs.get(name), descriptor)));
      pipeline.submit(some, values, null);
      submitted++;
    } finally {
      values.forEach(OrtValueRef::close);
    }
  }

  @SuppressWarnings("unchecked") // submit set the tag
  private void pull() {
    submitted--;
    try (OrtPipelineFFM.Item item = pipeline.next()) {
      List<I> some = (List<I>) item.tag();
      long capacity = held.layout().capacity(some.size());
      Map<String, MemorySegment> outputs = new HashMap<>();
      item.outputs().forEach((name, value) -> {
        RowLayout.requireRows(name, value.shape(), capacity);
        outputs.put(name, value.asMemorySegment());
      });
      calls.read(some, outputs, capacity, done);
    }
  }

  @Override
  public void close() {
    pipeline.close();
  }
}
