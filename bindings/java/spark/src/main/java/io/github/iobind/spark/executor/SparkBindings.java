package io.github.iobind.spark.executor;

import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.spark.Runs;
import io.github.iobind.spark.SessionSpec;
import java.io.Serializable;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.util.TaskCompletionListener;

/**
 * For models that are not rows in and rows out: a state that is carried from row to row, several models, outputs of any shape. A
 * job compiled with these classes needs Java 22 on the driver, too.
 */
public final class SparkBindings {
  private SparkBindings() {}

  /**
   * What a task does with a binding.
   *
   * @param <I> the input rows' type
   * @param <O> the result rows' type
   */
  @FunctionalInterface
  public interface Task<I, O> extends Serializable {
    /**
     * Runs over the rows of a partition.
     *
     * @param binding the task's own, with nothing bound; it is closed when the task ends
     * @param rows of the partition
     * @return the result rows; the iterator may compute them lazily
     */
    Iterator<O> call(OrtIoBindingFFM binding, Iterator<I> rows);
  }

  /**
   * A binding of the executor's session for each task.
   *
   * @param spec the model and its device
   * @param task what the task does with the binding
   * @param <I> the input rows' type
   * @param <O> the result rows' type
   * @return for {@code mapPartitions}
   */
  public static <I, O> MapPartitionsFunction<I, O> byBinding(SessionSpec spec, Task<I, O> task) {
    return rows -> {
      Runs.requireJava(Runtime.version().feature());
      OrtIoBindingFFM binding = HeldSession.of(spec).session().createBinding();
      TaskContext context = TaskContext.get();
      if (context != null) context.addTaskCompletionListener((TaskCompletionListener) ended -> binding.close());
      return task.call(binding, rows);
    };
  }
}
