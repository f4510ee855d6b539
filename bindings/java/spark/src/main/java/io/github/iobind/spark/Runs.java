package io.github.iobind.spark;

import java.util.Iterator;

/** What an executor does. The implementation needs Java 22; an older JVM can load this interface. */
public interface Runs {
  /** The oldest JVM that has the Foreign Function and Memory API. */
  int OLDEST_JAVA = 22;

  /**
   * Runs a model over rows.
   *
   * @param spec the model and its device
   * @param batch the maximum number of rows in a run
   * @param slots the pipeline's; 0: no pipeline
   * @param codec converts rows
   * @param rows the input rows
   * @param <I> the input rows' type
   * @param <O> the result rows' type
   * @return the result rows
   */
  <I, O> Iterator<O> run(SessionSpec spec, int batch, int slots, RowCodec<I, O> codec, Iterator<I> rows);

  /** Closes all sessions. */
  void release();

  /**
   * Loads the implementation.
   *
   * @return the implementation
   * @throws UnsupportedOperationException this JVM is too old
   */
  static Runs load() {
    requireJava(Runtime.version().feature());
    try {
      return (Runs) Class.forName("io.github.iobind.spark.executor.ExecutorRuns").getConstructor().newInstance();
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("the jar of iobind-spark is incomplete: " + e, e);
    }
  }

  /**
   * Refuses a JVM that is too old.
   *
   * @param version the JVM's version
   * @throws UnsupportedOperationException the JVM is older than {@link #OLDEST_JAVA}
   */
  static void requireJava(int version) {
    if (version < OLDEST_JAVA) {
      throw new UnsupportedOperationException("iobind-spark: expected a JVM of version " + OLDEST_JAVA + " or newer (Spark 4.2 supports 25), got "
          + version + " at " + System.getProperty("java.home") + ": set spark.executorEnv.JAVA_HOME, and JAVA_HOME of the driver in local mode");
    }
  }
}
