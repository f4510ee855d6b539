package io.github.iobind.spark;

import java.util.Iterator;

/** What an executor does, behind a door that an older JVM can load: it needs Java 22, and this does not. */
public interface Runs {
  /** The oldest JVM that has the Foreign Function and Memory API. */
  int OLDEST_JAVA = 22;

  /**
   * Runs a model over rows.
   *
   * @param spec the model and its device
   * @param batch the most rows of a run
   * @param slots of a pipeline; 0: without one
   * @param codec what a row is to the model
   * @param rows in
   * @param <I> rows in
   * @param <O> rows out
   * @return rows out
   */
  <I, O> Iterator<O> run(SessionSpec spec, int batch, int slots, RowCodec<I, O> codec, Iterator<I> rows);

  /** Closes all sessions. */
  void release();

  /**
   * This JVM's.
   *
   * @return what does it
   * @throws UnsupportedOperationException this JVM is too old
   */
  static Runs load() {
    requireJava(Runtime.version().feature());
    try {
      return (Runs) Class.forName("io.github.iobind.spark.executor.ExecutorRuns").getConstructor().newInstance();
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("the jar of iobind-spark is not whole: " + e, e);
    }
  }

  /**
   * Refuses a JVM that is too old.
   *
   * @param version its version
   * @throws UnsupportedOperationException it is older than {@link #OLDEST_JAVA}
   */
  static void requireJava(int version) {
    if (version < OLDEST_JAVA) {
      throw new UnsupportedOperationException("iobind-spark: expected a JVM of version " + OLDEST_JAVA + " or newer (Spark 4.2 supports 25), got "
          + version + " at " + System.getProperty("java.home") + ": set spark.executorEnv.JAVA_HOME, and JAVA_HOME of the driver in local mode");
    }
  }
}
