package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;
import java.time.Duration;

/** A point in a stream for which others can wait. An unrecorded event counts as signaled. Any thread may wait. */
public final class OrtEventFFM implements AutoCloseable {
  private final Handle handle;
  /** What it was recorded behind, of the work that needs something until it has passed. */
  private volatile InFlight.Work behind;

  private OrtEventFFM(long address) {
    handle = Handle.of(this, address, Iobind::eventDestroy);
  }

  /**
   * Creates an event of a device.
   *
   * @param runtime the runtime
   * @param spec the device
   * @return the event
   * @throws OrtFFMException the device does not exist
   */
  public static OrtEventFFM create(OrtRuntimeFFM runtime, DeviceSpec spec) {
    Place place = runtime.resolve(spec);
    runtime.enter();
    try {
      return of(place);
    } finally {
      runtime.exit();
    }
  }

  /** An event of a device whose runtime is there. */
  static OrtEventFFM of(Place place) {
    try (Scratch scratch = Scratch.take()) {
      scratch.check(Iobind.eventCreate(place.device(), scratch.out(0), scratch.error()));
      return new OrtEventFFM(scratch.getLong(0));
    }
  }

  /**
   * Records the event at the current end of a stream; this replaces the previous record.
   *
   * @param stream a stream of the same device
   * @throws OrtFFMException WRONG_DEVICE: the stream is another device's
   */
  public void record(OrtStreamFFM stream) {
    long streamAddress = OrtStreamFFM.enter(stream);
    try {
      record(stream.inFlight(), streamAddress);
    } finally {
      OrtStreamFFM.exit(stream);
    }
  }

  /** Records the event, within a call in the stream, whose work this is. */
  void record(InFlight works, long streamAddress) {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        InFlight.Work last = works.last(); // what comes after this may not be before the event
        scratch.check(Iobind.eventRecord(address, streamAddress, scratch.error()));
        recordedBehind(last);
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Blocks until the event is signaled.
   *
   * @throws OrtFFMException the failure of a run or copy before it, each time until it is recorded again; RUNTIME: the device
   *     failed
   */
  public void await() {
    hasPassed(FOREVER);
  }

  /**
   * Blocks until the event is signaled, with a time limit.
   *
   * @param timeout the longest time
   * @return false if it timed out; the work remains in flight
   * @throws OrtFFMException as {@link #await()}
   */
  public boolean await(Duration timeout) {
    return hasPassed(Deadline.nanos(timeout));
  }

  /** {@code IOBIND_NO_TIMEOUT}. */
  static final long FOREVER = -1;

  /** Waits so many nanoseconds, or for ever. What it fails with is what the work failed with: it has passed. */
  boolean hasPassed(long nanos) {
    try (Scratch scratch = Scratch.take()) {
      InFlight.Work work;
      int status;
      long address = handle.enter();
      try {
        work = behind;
        status = Iobind.eventWait(address, nanos, scratch.error());
      } finally {
        handle.exit();
      }
      if (status == OrtStatus.TIMEOUT.ordinal()) return false;
      end(work);
      scratch.check(status);
      return true;
    }
  }

  /** Work before the event has passed. Outside of any call: the end of work closes events, and waits for the calls in them. */
  private static void end(InFlight.Work work) {
    if (work != null) work.passed();
  }

  /** The event was recorded, behind this work; null: behind none that needs anything. */
  void recordedBehind(InFlight.Work work) {
    behind = work;
  }

  /**
   * Polls the event without blocking.
   *
   * @return whether it is signaled
   * @throws OrtFFMException as {@link #await}, if it is signaled
   */
  public boolean isDone() {
    try (Scratch scratch = Scratch.take()) {
      InFlight.Work work;
      int status;
      long address = handle.enter();
      try {
        work = behind;
        status = Iobind.eventQuery(address, scratch.out(0), scratch.error());
      } finally {
        handle.exit();
      }
      boolean isDone = status != 0 || scratch.getInt(0) != 0;
      if (isDone) end(work);
      scratch.check(status);
      return isDone;
    }
  }

  /** Enters an event that may be absent. */
  static long enter(OrtEventFFM event) {
    return event == null ? 0 : event.handle.enter();
  }

  static void exit(OrtEventFFM event) {
    if (event != null) event.handle.exit();
  }

  /** Keeps an event that an input is bound with, also when it is closed; within a call in it. */
  static void keep(OrtEventFFM event) {
    if (event != null) event.handle.keep();
  }

  static void letGo(OrtEventFFM event) {
    if (event != null) event.handle.letGo();
  }

  /**
   * Closes the event when no thread waits for it any more; the work before it continues.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback, while a call is in the event
   */
  @Override
  public void close() {
    handle.close();
  }

  /** As {@link #close()}, and waits for no thread. */
  void closeSoon() {
    handle.closeSoon();
  }
}
