package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;

/**
 * An ordered queue of work on a device: what is submitted to it is done in that order. On a device without streams of its own
 * the work is done when the call returns, or in the order of the calls.
 *
 * <p>One thread at a time uses a stream; {@code close} waits for the work that is on it.
 */
public final class OrtStreamFFM implements AutoCloseable {
  private final Handle handle;

  private OrtStreamFFM(long address) {
    handle = Handle.of(this, address, Iobind::streamDestroy);
  }

  /**
   * A stream of a device.
   *
   * @param runtime the runtime
   * @param spec the device
   * @return the stream
   * @throws OrtFFMException the device is not there, or gives no stream
   */
  public static OrtStreamFFM create(OrtRuntimeFFM runtime, DeviceSpec spec) {
    Place place = runtime.resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      runtime.enter();
      try {
        scratch.check(Iobind.streamCreate(place.device(), 0, scratch.out(0), scratch.error()));
        return new OrtStreamFFM(scratch.getLong(0));
      } finally {
        runtime.exit();
      }
    }
  }

  /**
   * Waits until everything submitted so far has finished.
   *
   * @throws OrtFFMException RUNTIME: the device failed
   */
  public void synchronize() {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        scratch.check(Iobind.streamSynchronize(address, scratch.error()));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Orders all later work of this stream behind an event of any stream.
   *
   * @param event an event; one that was never recorded orders nothing
   */
  public void await(OrtEventFFM event) {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        long eventAddress = event.enter();
        try {
          scratch.check(Iobind.streamWait(address, eventAddress, scratch.error()));
        } finally {
          event.exit();
        }
      } finally {
        handle.exit();
      }
    }
  }

  /** Enters a stream that may be absent. */
  static long enter(OrtStreamFFM stream) {
    return stream == null ? 0 : stream.handle.enter();
  }

  static void exit(OrtStreamFFM stream) {
    if (stream != null) stream.handle.exit();
  }

  /** Waits for the work on the stream and gives it up. */
  @Override
  public void close() {
    handle.close();
  }
}
