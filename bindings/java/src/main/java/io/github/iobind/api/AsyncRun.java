package io.github.iobind.api;

import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * A run on a separate thread, or on the caller's for a limited time. The future is done when the run has ended, and no sooner: to
 * complete it earlier cancels the run, and the future completes in that way. Its stages run on another thread, so that they may do
 * anything; if the system can start no other thread, on the run's, after the run.
 */
final class AsyncRun extends CompletableFuture<Void> {
  private final OrtIoBindingFFM binding;
  /** ONNX Runtime has returned from the run, or was not called. */
  private boolean hasEnded;
  /** How the future ends where somebody gave the run up before it ended. */
  private final AtomicReference<Runnable> wanted = new AtomicReference<>();

  AsyncRun(OrtIoBindingFFM binding) {
    this.binding = binding;
  }

  /** Starts the run, whose binding was entered, and which was announced. */
  void start() {
    Threads.execute(() -> {
      Throwable failure = attempt();
      Threads.executeSurely(() -> end(failure)); // nothing holds the binding any more
    });
  }

  /** Runs in this thread, whose binding was entered, for a limited time. The run was announced. */
  void runHere(Duration timeout) {
    try {
      orTimeout(Deadline.nanos(timeout), TimeUnit.NANOSECONDS);
    } catch (Throwable t) {
      binding.withdrawRun();
      throw t;
    }
    Throwable failure = attempt();
    end(failure);
    switch (state()) {
      case SUCCESS -> {}
      case CANCELLED -> throw failure instanceof OrtFFMException e ? e : new OrtFFMException(OrtStatus.CANCELLED, "run: cancelled");
      default -> {
        switch (exceptionNow()) {
          case TimeoutException e ->
              throw new OrtFFMException(OrtStatus.TIMEOUT, "run: cancelled, because it did not end within " + timeout);
          case RuntimeException e -> throw e;
          case Error e -> throw e;
          case Throwable t -> throw new IllegalStateException(t);
        }
      }
    }
  }

  /** Runs, unless the run was given up before, and leaves the binding. @return what it failed with; null: nothing */
  private Throwable attempt() {
    try {
      if (wanted.get() == null) binding.runEntered();
      return null;
    } catch (Throwable t) {
      return t;
    } finally {
      synchronized (this) {
        hasEnded = true;
      }
      binding.withdrawRun(); // one that has not begun
    }
  }

  private void end(Throwable failure) {
    if (!wanted.compareAndSet(null, () -> {})) {
      wanted.get().run();
    } else if (failure == null) {
      super.complete(null);
    } else if (failure instanceof OrtFFMException e && e.status() == OrtStatus.CANCELLED) {
      super.cancel(false);
    } else {
      super.completeExceptionally(failure);
    }
  }

  private boolean giveUp(Runnable outcome) {
    synchronized (this) { // the binding takes the next run when this one has ended, and a late cancel would end that one
      if (isDone() || hasEnded || !wanted.compareAndSet(null, outcome)) return false;
      binding.cancelNow();
      return true;
    }
  }

  /** Cancels the run; the future is cancelled when the run has ended. */
  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    return giveUp(() -> super.cancel(false));
  }

  /** Gives the run up: it is cancelled, and the future is complete when it has ended. */
  @Override
  public boolean complete(Void value) {
    return giveUp(() -> super.complete(value));
  }

  /** Gives the run up, as {@link #orTimeout} does: it is cancelled, and the future fails when it has ended. */
  @Override
  public boolean completeExceptionally(Throwable failure) {
    if (failure instanceof CancellationException) return cancel(false);
    return giveUp(() -> super.completeExceptionally(failure));
  }

  private static UnsupportedOperationException unsupported(String method) {
    return new UnsupportedOperationException(method + ": the run has an outcome of its own");
  }

  @Override
  public CompletableFuture<Void> completeAsync(Supplier<? extends Void> supplier, java.util.concurrent.Executor executor) {
    throw unsupported("completeAsync");
  }

  @Override
  public void obtrudeValue(Void value) {
    throw unsupported("obtrudeValue");
  }

  @Override
  public void obtrudeException(Throwable failure) {
    throw unsupported("obtrudeException");
  }
}
