package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;

/** A point in a stream that can be waited for. One that was never recorded counts as passed. Waiting is for any thread. */
public final class OrtEventFFM implements AutoCloseable {
  private final Handle handle;

  private OrtEventFFM(long address) {
    handle = Handle.of(this, address, Iobind::eventDestroy);
  }

  /**
   * An event of a device.
   *
   * @param runtime the runtime
   * @param spec the device
   * @return the event
   * @throws OrtFFMException the device is not there
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
   * Records the event at the present end of a stream; replaces what it held.
   *
   * @param stream a stream of the same device
   * @throws OrtFFMException DEVICE: the stream is another device's
   */
  public void record(OrtStreamFFM stream) {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        long streamAddress = OrtStreamFFM.enter(stream);
        try {
          scratch.check(Iobind.eventRecord(address, streamAddress, scratch.error()));
        } finally {
          OrtStreamFFM.exit(stream);
        }
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Waits for the event.
   *
   * @throws OrtFFMException what a run or copy before it failed with, each time until it is recorded anew; RUNTIME: the device
   *     failed
   */
  public void await() {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        scratch.check(Iobind.eventWait(address, scratch.error()));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Whether the event has passed, without waiting for it.
   *
   * @return whether it has
   * @throws OrtFFMException as {@link #await}, where it has passed
   */
  public boolean isDone() {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        scratch.check(Iobind.eventQuery(address, scratch.out(0), scratch.error()));
        return scratch.getInt(0) != 0;
      } finally {
        handle.exit();
      }
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
   * Gives the event up when no thread waits for it any more; the work before it goes on.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback, while a call is in the event
   */
  @Override
  public void close() {
    handle.close();
  }
}
