package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * An ordered queue of work on a device. On a device without native streams it is a queue with a thread of iobind: a copy is
 * made at once if no work is before it; runs, and work after them, are executed by the thread. There a failure stays on the
 * stream: later work is not executed and reports the same error, until {@link #synchronize} has thrown it.
 *
 * <p>A stream is externally synchronized; {@code close} waits for its work.
 */
public final class OrtStreamFFM implements AutoCloseable {
  private final Handle handle;
  private final Place place;
  private final InFlight inFlight;

  private OrtStreamFFM(long address, Place place) {
    InFlight works = new InFlight();
    inFlight = works;
    handle = Handle.slow(this, address, stream -> {
      try {
        Iobind.streamDestroy(stream);
      } finally {
        works.passed();
      }
    }, (stream, deadline) -> hasPassed(stream, place, works, deadline));
    this.place = place;
  }

  /** Waits for all that is on a stream now. */
  private static boolean hasPassed(long stream, Place place, InFlight works, Deadline deadline) {
    try (OrtEventFFM end = OrtEventFFM.of(place)) {
      end.record(works, stream);
      try {
        return end.hasPassed(deadline.left());
      } catch (OrtFFMException failed) {
        return true; // it has passed all the same
      }
    }
  }

  /**
   * Creates a stream of a device.
   *
   * @param runtime the runtime
   * @param spec the device
   * @return the stream
   * @throws OrtFFMException the device does not exist, or provides no stream
   */
  public static OrtStreamFFM create(OrtRuntimeFFM runtime, DeviceSpec spec) {
    return create(runtime, spec, Map.of());
  }

  /**
   * Creates a stream of a device, with options.
   *
   * @param runtime the runtime
   * @param spec the device
   * @param options of its execution provider for its stream, passed on unchanged
   * @return the stream
   * @throws OrtFFMException the device does not exist, or provides no stream; NOT_SUPPORTED: options for a device without
   *     native streams
   */
  public static OrtStreamFFM create(OrtRuntimeFFM runtime, DeviceSpec spec, Map<String, String> options) {
    Place place = runtime.resolve(spec);
    var layout = Layouts.STREAM_OPTIONS;
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      List<String> keys = List.copyOf(options.keySet());
      MemorySegment struct = Layouts.allocate(arena, layout);
      Layouts.setLong(struct, layout, "option_keys", OrtRuntimeFFM.strings(arena, keys).address());
      Layouts.setLong(struct, layout, "option_values",
          OrtRuntimeFFM.strings(arena, keys.stream().map(options::get).toList()).address());
      Layouts.setLong(struct, layout, "option_count", keys.size());
      runtime.enter();
      try {
        scratch.check(Iobind.streamCreate(place.device(), struct, scratch.out(0), scratch.error()));
        return new OrtStreamFFM(scratch.getLong(0), place);
      } finally {
        runtime.exit();
      }
    }
  }

  /**
   * Wraps a stream of another library. Work submitted to it here waits for all work that the library has previously submitted,
   * and the library's later work waits for this work; the host does not block.
   *
   * @param runtime the runtime
   * @param spec the device that the stream is of
   * @param kind the kind of handle
   * @param handle its stream; on CUDA NULL is the legacy default stream
   * @param released called once, on any thread, when neither this stream nor a session uses the handle any more; it must not
   *     call this package. null: the handle must outlive both
   * @return the stream
   * @throws OrtFFMException NOT_SUPPORTED: the device takes no handles of that kind; WRONG_DEVICE: it is another device's;
   *     INVALID_STATE: it is being captured; INVALID_ARGUMENT. After an error {@code released} is not called
   */
  public static OrtStreamFFM wrap(OrtRuntimeFFM runtime, DeviceSpec spec, NativeKind kind, MemorySegment handle,
      @Nullable Runnable released) {
    Place place = runtime.resolve(spec);
    long ticket = released == null ? 0 : Released.keep(released);
    try (Scratch scratch = Scratch.take()) {
      runtime.enter();
      try {
        MemorySegment deleter = released == null ? MemorySegment.NULL : Released.DELETER;
        int status = IobindInterop.streamWrap(place.device(), handle(scratch, kind, handle), deleter, ticket, scratch.out(0),
            scratch.error());
        if (status != 0) Released.forget(ticket);
        scratch.check(status);
        return new OrtStreamFFM(scratch.getLong(0), place);
      } finally {
        runtime.exit();
      }
    }
  }

  private static MemorySegment handle(Scratch scratch, NativeKind kind, MemorySegment handle) {
    MemorySegment struct = scratch.struct(Layouts.NATIVE);
    Layouts.setInt(struct, Layouts.NATIVE, "kind", kind.number());
    Layouts.setLong(struct, Layouts.NATIVE, "handle", OrtInterop.address("a stream or event", handle));
    return struct;
  }

  /**
   * Makes all later work of this stream wait for an event of another library; the host does not block.
   *
   * @param kind the kind of event
   * @param event already recorded
   * @throws OrtFFMException NOT_SUPPORTED: the device takes no handles of that kind; INVALID_ARGUMENT; RUNTIME
   */
  public void await(NativeKind kind, MemorySegment event) {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        scratch.check(IobindInterop.streamWaitNative(address, handle(scratch, kind, event), scratch.error()));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Records an event of another library at the current end of this stream.
   *
   * @param kind the kind of event
   * @param event the event
   * @throws OrtFFMException as {@link #await(NativeKind, MemorySegment)}
   */
  public void signal(NativeKind kind, MemorySegment event) {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        scratch.check(IobindInterop.streamSignalNative(address, handle(scratch, kind, event), scratch.error()));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Makes all later work of this stream wait until the semaphore has at least this value; the host does not block. If the value
   * is never reached, the stream blocks forever.
   *
   * @param semaphore of this device
   * @param value the value, unsigned
   * @throws OrtFFMException NOT_SUPPORTED: the device has no streams of its own; WRONG_DEVICE: another device's; RUNTIME
   */
  public void await(OrtSemaphoreFFM semaphore, long value) {
    use(semaphore, (stream, address, scratch) -> IobindInterop.streamWaitSemaphore(stream, address, value, scratch.error()));
  }

  /**
   * Sets the semaphore's value when this stream has completed all previously submitted work. If that work fails, the value may
   * not change.
   *
   * @param semaphore of this device
   * @param value greater than the semaphore's value by then, unsigned
   * @throws OrtFFMException as {@link #await(OrtSemaphoreFFM, long)}
   */
  public void signal(OrtSemaphoreFFM semaphore, long value) {
    use(semaphore, (stream, address, scratch) -> IobindInterop.streamSignalSemaphore(stream, address, value, scratch.error()));
  }

  private interface SemaphoreCall {
    int status(long stream, long semaphore, Scratch scratch);
  }

  private void use(OrtSemaphoreFFM semaphore, SemaphoreCall call) {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        long semaphoreAddress = semaphore.enter();
        try {
          scratch.check(call.status(address, semaphoreAddress, scratch));
        } finally {
          semaphore.exit();
        }
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * The execution provider's native stream, for other libraries that submit work to it: on CUDA a {@code cudaStream_t}.
   *
   * @return its address, a segment of no bytes that is valid as long as this stream; {@link MemorySegment#NULL} if the device
   *     has no native streams
   */
  public MemorySegment nativeStream() {
    try (Scratch scratch = Scratch.take()) {
      MemorySegment struct = scratch.struct(Layouts.NATIVE);
      long address = handle.enter();
      try {
        int status = IobindInterop.streamGetNative(address, struct, scratch.error());
        if (status == OrtStatus.NOT_SUPPORTED.ordinal()) return MemorySegment.NULL;
        scratch.check(status);
        return MemorySegment.ofAddress(Layouts.getLong(struct, Layouts.NATIVE, "handle"));
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Blocks until all previously submitted work is complete.
   *
   * @throws OrtFFMException the failure of a run or copy on the stream since the last call; RUNTIME: the device failed
   */
  public void synchronize() {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        InFlight.Work last = inFlight.last(); // what another thread submits meanwhile has not passed
        int status = Iobind.streamSynchronize(address, scratch.error());
        inFlight.passed(last);
        scratch.check(status);
      } finally {
        handle.exit();
      }
    }
  }

  /**
   * Makes all later work of this stream wait for an event of any stream.
   *
   * @param event the event; if it is unrecorded, this is a no-op
   * @throws OrtFFMException RUNTIME; the failure of work before the event, if the event is already signaled
   */
  public void await(OrtEventFFM event) {
    try (Scratch scratch = Scratch.take()) {
      long address = handle.enter();
      try {
        long eventAddress = OrtEventFFM.enter(event);
        try {
          scratch.check(Iobind.streamWait(address, eventAddress, scratch.error()));
        } finally {
          OrtEventFFM.exit(event);
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

  /** A new event of the stream's device. */
  OrtEventFFM event() {
    handle.enter();
    try {
      return OrtEventFFM.of(place);
    } finally {
      handle.exit();
    }
  }

  /**
   * Waits for the work on the stream and closes it.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback from native code, or in a {@link OrtSessionFFM.RunListener} while a
   *     call is in the stream
   */
  @Override
  public void close() {
    handle.close();
  }

  /**
   * As {@link #close()}, with a time limit.
   *
   * @param timeout the longest time to wait for the calls in the stream and its work
   * @return false if it timed out: the stream is still open
   * @throws OrtFFMException as {@link #close()}
   */
  public boolean close(Duration timeout) {
    return handle.closeBy(Deadline.in(timeout));
  }

  /** Copies whose memory of the caller's is held until they are done; without a stream, during the call. */
  static void copy(OrtStreamFFM stream, MemorySegment[] memory, Runnable copy) {
    if (memory == null) {
      copy.run();
    } else if (stream == null) {
      Hold.during(memory, copy);
    } else {
      Hold.requireShared("a copy on a stream", memory);
      stream.inFlight.submit(stream, memory, copy, () -> {});
    }
  }

  InFlight inFlight() {
    return inFlight;
  }
}
