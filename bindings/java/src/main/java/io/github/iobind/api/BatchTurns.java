package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.IobindBatch;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The rows of a batch that are submitted, and the futures of their steps. Threads wait for the first of them here and not in libiobind, so
 * that a close or a stop ends the wait.
 *
 * <p>A row's lock is taken before this one's. No future is completed under a lock: its stages do whatever they like.
 */
final class BatchTurns {
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  /** By their slots. */
  private final Map<Long, OrtBatchFFM.Row> rows = new LinkedHashMap<>();
  private boolean isStarted;
  private boolean isOver;

  /** @return false where a thread of the batch's own makes steps already */
  boolean start() {
    lock.lock();
    try {
      boolean isFirst = !isStarted;
      isStarted = true;
      return isFirst;
    } finally {
      lock.unlock();
    }
  }

  /** The row is about to be submitted. */
  void add(OrtBatchFFM.Row row) {
    lock.lock();
    try {
      rows.put(row.slot(), row);
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  void remove(OrtBatchFFM.Row row) {
    lock.lock();
    try {
      rows.remove(row.slot());
    } finally {
      lock.unlock();
    }
  }

  /** Waits for a row, whatever interrupts; false if it timed out, or the batch is stopped or closed. */
  boolean awaitRow(Deadline deadline) {
    boolean isInterrupted = false;
    lock.lock();
    try {
      while (rows.isEmpty() && !isOver && !deadline.isOver()) {
        try {
          changed.awaitNanos(deadline.left());
        } catch (InterruptedException e) {
          isInterrupted = true;
        }
      }
      return !rows.isEmpty() && !isOver;
    } finally {
      lock.unlock();
      if (isInterrupted) Thread.currentThread().interrupt();
    }
  }

  private List<OrtBatchFFM.Row> all() {
    lock.lock();
    try {
      return List.copyOf(rows.values());
    } finally {
      lock.unlock();
    }
  }

  private List<OrtBatchFFM.Row> of(MemorySegment slots, int count) {
    List<OrtBatchFFM.Row> found = new ArrayList<>();
    lock.lock();
    try {
      for (int i = 0; i < count; i++) {
        OrtBatchFFM.Row row = rows.get(slots.getAtIndex(JAVA_LONG, i));
        if (row != null) found.add(row); // it has not left
      }
      return found;
    } finally {
      lock.unlock();
    }
  }

  /**
   * What completes the futures of a step's rows, to be done outside of any call. Where no row made one, those of all rows that have made
   * theirs: by another thread, which may be late, and whom this one would not wait for.
   */
  List<Runnable> collect(long batch, MemorySegment slots, int count, Scratch scratch) {
    List<Runnable> ended = new ArrayList<>();
    for (OrtBatchFFM.Row row : count == 0 ? all() : of(slots, count)) {
      row.lock.lock(); // behind a call that submits it, or lets it leave
      try {
        CompletableFuture<OrtBatchFFM.Row> future = row.pending;
        if (future == null) continue;
        int status = IobindBatch.batchAwait(batch, row.slot(), 0, scratch.error());
        if (status == OrtStatus.TIMEOUT.ordinal()) continue;
        row.pending = null;
        remove(row);
        if (status == 0) {
          ended.add(() -> future.complete(row));
        } else if (status == OrtStatus.CANCELLED.ordinal()) { // stopped before its step
          ended.add(() -> future.cancel(false));
        } else {
          OrtFFMException failure = scratch.failure(status);
          ended.add(() -> future.completeExceptionally(failure));
        }
      } finally {
        row.lock.unlock();
      }
    }
    return ended;
  }

  /** No thread waits for a row any more. */
  void stop() {
    lock.lock();
    try {
      isOver = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  boolean isOver() {
    lock.lock();
    try {
      return isOver;
    } finally {
      lock.unlock();
    }
  }

  /** No step is made any more. */
  void end() {
    stop();
    takeAll().forEach(future -> future.cancel(false));
  }

  /** No step is made of the rows that are submitted now. */
  void fail(Throwable reason) {
    takeAll().forEach(future -> future.completeExceptionally(reason));
  }

  private List<CompletableFuture<OrtBatchFFM.Row>> takeAll() {
    List<CompletableFuture<OrtBatchFFM.Row>> futures = new ArrayList<>();
    for (OrtBatchFFM.Row row : all()) {
      row.lock.lock();
      try {
        if (row.pending != null) futures.add(row.pending);
        row.pending = null;
        remove(row);
      } finally {
        row.lock.unlock();
      }
    }
    return futures;
  }
}
