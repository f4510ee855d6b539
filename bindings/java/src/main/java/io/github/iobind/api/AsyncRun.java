package io.github.iobind.api;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A run that was submitted to a stream; a thread waits for it and completes the future. */
final class AsyncRun extends CompletableFuture<Void> {
  /** Platform threads: waiting in libiobind would keep a virtual thread's carrier. */
  private static final ExecutorService WAITERS = Executors.newCachedThreadPool(task -> {
    Thread thread = new Thread(task, "iobind-wait");
    thread.setDaemon(true);
    return thread;
  });

  private final OrtIoBindingFFM binding;

  /** The stream that a binding's runs go to, and the event behind the last one. */
  static final class Lane {
    private final OrtStreamFFM stream;
    private final OrtEventFFM event;
    volatile CompletableFuture<Void> inFlight;
    /** A run is on the stream; its event says when that one has ended, and would say it of the next one. */
    private volatile boolean busy;

    private Lane(OrtStreamFFM stream, OrtEventFFM event) {
      this.stream = stream;
      this.event = event;
    }

    static Lane of(OrtSessionFFM session) {
      DeviceSpec device = session.mainDevice();
      OrtEventFFM event = OrtEventFFM.create(session.runtime(), device);
      try {
        return new Lane(OrtStreamFFM.create(session.runtime(), device), event);
      } catch (RuntimeException e) {
        event.close();
        throw e;
      }
    }

    /** Closes the stream, which waits for what is on it: once nothing is. */
    void close() {
      CompletableFuture<Void> last = inFlight;
      if (last == null) {
        closeNow();
      } else {
        last.whenComplete((nothing, failure) -> closeNow());
      }
    }

    private void closeNow() {
      event.close();
      stream.close();
    }
  }

  AsyncRun(OrtIoBindingFFM binding, Lane lane) {
    this.binding = binding;
    if (lane.busy) throw new OrtFFMException(OrtStatus.INVALID_STATE, "runAsync: a run is under way: wait for its future first");
    binding.runWithBindings(lane.stream, lane.event);
    lane.busy = true;
    WAITERS.execute(() -> await(lane));
  }

  private void await(Lane lane) {
    try {
      lane.event.await();
      lane.busy = false;
      complete(null);
    } catch (Throwable t) {
      takeFailureOff(lane.stream);
      lane.busy = false;
      if (t instanceof OrtFFMException e && e.status() == OrtStatus.CANCELLED) {
        super.cancel(false);
      } else {
        completeExceptionally(t);
      }
    }
  }

  /** A failure stays on a stream until it has been asked for: then the next run can follow. */
  private static void takeFailureOff(OrtStreamFFM stream) {
    try {
      stream.synchronize();
    } catch (RuntimeException alreadyKnown) {
      return;
    }
  }

  /** Cancels the run; the future is done when the run has ended. */
  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    if (isDone()) return false;
    binding.cancel();
    return true;
  }
}
