package io.github.iobind.api;

import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindStates;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.LongConsumer;

/**
 * A saved state: the content of a binding's carried inputs at one time. {@link OrtIoBindingFFM#saveState} and
 * {@link OrtSessionFFM#loadState} create states; {@link OrtIoBindingFFM#restoreState} continues from one, any number of times
 * and in any number of bindings of the session. A state never changes.
 *
 * <p>It is thread-safe. It may outlive its binding, session and runtime, whose memory and model it retains until it is closed;
 * values fetched from it, and bindings that read it, retain the memory longer.
 */
public final class OrtStateFFM implements AutoCloseable {
  private static final StructLayout INFO = Layouts.STATE_INFO;
  private static final StructLayout PAIR = Layouts.STATE_PAIR;

  private final Handle handle;
  private final OrtSessionFFM session;
  private final long bytes;
  private final String deviceSpec;
  private final String ortVersion;
  /** The tensors by the names of the inputs, in the model's order; the state has the references. */
  private final Map<String, Long> tensors = new LinkedHashMap<>();

  /** @param address which this takes over; the caller is in a call that keeps the session's runtime */
  OrtStateFFM(OrtSessionFFM session, long address, Scratch scratch) {
    this.session = session;
    MemorySegment info = scratch.struct(INFO);
    scratch.check(IobindStates.stateGetInfo(address, info, scratch.error()));
    bytes = Layouts.getLong(info, INFO, "bytes");
    deviceSpec = Layouts.getString(info, INFO, "device_spec");
    ortVersion = Layouts.getString(info, INFO, "ort_version");
    long count = Layouts.getLong(info, INFO, "pair_count");
    for (long i = 0; i < count; i++) {
      MemorySegment pair = scratch.struct(PAIR);
      scratch.check(IobindStates.stateGetPair(address, i, pair, scratch.error()));
      String name = session.inputs().get((int) Layouts.getLong(pair, PAIR, "input")).name();
      tensors.put(name, Layouts.getLong(pair, PAIR, "tensor"));
    }
    Handle runtime = session.keptRuntime().handle();
    runtime.keep();
    LongConsumer release = state -> {
      try {
        IobindStates.stateRelease(state);
      } finally {
        runtime.letGo();
      }
    };
    handle = Handle.of(this, OrtStateFFM.class, address, release, bytes);
  }

  /** {@link OrtSessionFFM#loadState}. */
  static OrtStateFFM load(OrtSessionFFM session, Path path) {
    String file = Texts.path(path, "loadState");
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment text = Texts.allocate(arena, file, "path");
      long address = session.enter();
      try {
        scratch.check(IobindStates.stateLoad(address, text, scratch.out(0), scratch.error()));
        return new OrtStateFFM(session, scratch.getLong(0), scratch);
      } finally {
        session.exit();
      }
    }
  }

  /**
   * The carried inputs.
   *
   * @return their names, in the model's order
   */
  public Set<String> inputs() {
    return Collections.unmodifiableSet(tensors.keySet());
  }

  /**
   * The memory of all its tensors.
   *
   * @return bytes
   */
  public long bytes() {
    return bytes;
  }

  /**
   * Where its session ran: the first device other than the CPU. Of a state from a file: as in the file.
   *
   * @return a device spec, such as "cuda:0"
   */
  public String deviceSpec() {
    return deviceSpec;
  }

  /**
   * The version of ONNX Runtime that its session had. Of a state from a file: as in the file.
   *
   * @return such as "1.31.1"
   */
  public String ortVersion() {
    return ortVersion;
  }

  /**
   * The saved content of a carried input: a read-only reference to its memory, without a copy. If the run that produces it is
   * in flight on a stream, host access blocks until it is complete. Work on another stream does not wait: order it by an event
   * of the run's stream.
   *
   * @param inputName the input's name
   * @return the value; the caller closes it
   * @throws OrtFFMException NOT_FOUND: the state has no such input; the message lists those that it has
   * @throws IllegalStateException the state is closed
   */
  public OrtValueRef get(String inputName) {
    Long tensor = tensors.get(inputName);
    if (tensor == null) {
      throw new OrtFFMException(OrtStatus.NOT_FOUND, "no input '" + inputName + "': the state has " + tensors.keySet());
    }
    try (Scratch scratch = Scratch.take()) {
      handle.enter();
      try {
        return new OrtValueRef(Iobind.tensorRetain(tensor), null, scratch);
      } finally {
        handle.exit();
      }
    }
  }

  OrtSessionFFM session() {
    return session;
  }

  /** The tensors by the names of the inputs, valid within a call in the state. */
  Map<String, Long> tensors() {
    return tensors;
  }

  /**
   * Writes the state to a file, which {@link OrtSessionFFM#loadState} reads, also in another process, on another device, and
   * with another version of ONNX Runtime. No reader sees a partial file. Blocks until the run that produces the state is
   * complete.
   *
   * @param path the file; an existing one is replaced
   * @throws OrtFFMException IO: the file cannot be written, or the model's file has changed since the session was created;
   *     NOT_SUPPORTED: the session was created from bytes without {@link OrtSessionFFM.Options#identify}, or was adopted; the
   *     failure of that run; INVALID_ARGUMENT: the path is in another file system of Java, such as a zip file; OUT_OF_MEMORY,
   *     RUNTIME
   * @throws IllegalStateException the state is closed
   */
  public void save(Path path) {
    String file = Texts.path(path, "save");
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment text = Texts.allocate(arena, file, "path");
      long address = handle.enter();
      try {
        scratch.check(IobindStates.stateSave(address, text, scratch.error()));
      } finally {
        handle.exit();
      }
    }
  }

  long enter() {
    return handle.enter();
  }

  void exit() {
    handle.exit();
  }

  /**
   * Closes the state when the calls in it have returned. Values fetched from it, and bindings that read it, remain valid.
   *
   * @throws OrtFFMException INVALID_STATE: in a callback, while a call is in the state
   */
  @Override
  public void close() {
    handle.close();
  }
}
