package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import io.github.iobind.ffm.IobindJava;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.function.Executable;

/** What ended the process once; each in a JVM of its own, named by the argument. */
final class CrashCases {
  /** Trips of the model "loop" that take some hundred milliseconds. */
  private static final long TRIPS = 300_000;
  /** And such that only a cancel ends. */
  private static final long ENDLESS = 1_000_000_000_000L;
  private static final MemoryDescriptor ONE = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1);

  private CrashCases() {}

  public static void main(String[] arguments) throws Throwable {
    switch (arguments[0]) {
      case "adoptedSessionIsClosed" -> adoptedSessionIsClosed();
      case "readOnlyMemory" -> readOnlyMemory();
      case "arenaIsClosedInARun" -> arenaIsClosedInARun();
      case "arenaIsClosedInARunOnAStream" -> arenaIsClosedInARunOnAStream();
      case "arenaIsClosedInASnapshot" -> arenaIsClosedInASnapshot();
      case "arenaIsClosedBehindAState" -> arenaIsClosedBehindAState();
      case "manyArenas" -> manyArenas();
      case "adoptedPipelineIsOpen" -> adoptedPipelineIsOpen();
      case "adoptedSessionIsClosedTwice" -> adoptedSessionIsClosedTwice();
      case "pipelinesAreClosedInTime" -> pipelinesAreClosedInTime();
      case "closedInALogLine" -> closedInALogLine();
      case "streamIsClosedInASubmit" -> streamIsClosedInASubmit();
      case "objectsOfArrays" -> objectsOfArrays();
      case "bytesAreUsedDirectly" -> bytesAreUsedDirectly();
      case "mainReturnsInARunOnAStream" -> mainReturnsInARunOnAStream();
      case "mainReturnsInAPipeline" -> mainReturnsInAPipeline();
      case "exitsInALogLine" -> exitsInALogLine();
      case "stackOverflows" -> stackOverflows();
      case "bindingOverflows" -> bindingOverflows();
      case "callNeverArrives" -> callNeverArrives();
      case "noThreadAtTheEndOfARun" -> noThreadAtTheEndOfARun();
      case "libraryIsUnregistered" -> libraryIsUnregistered(arguments[1]);
      default -> throw new IllegalArgumentException(arguments[0]);
    }
    System.out.println("passed: " + arguments[0]);
  }

  private static void require(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  private static <E extends Throwable> E fails(Class<E> type, Executable call) {
    try {
      call.execute();
    } catch (Throwable t) {
      if (type.isInstance(t)) return type.cast(t);
      throw new AssertionError("expected " + type, t);
    }
    throw new AssertionError("expected " + type);
  }

  /** Waits until a thread is in a call of libiobind, and was a moment ago: the first look may come before the call itself. */
  private static void awaitCall(String function) {
    for (int looks = 0; looks < 2; looks = isCalled(function) ? looks + 1 : 0) {
      LockSupport.parkNanos(1_000_000); // looking stops all threads
    }
  }

  private static boolean isCalled(String function) {
    return Thread.getAllStackTraces().values().stream().flatMap(java.util.Arrays::stream)
        .anyMatch(frame -> frame.getClassName().equals("io.github.iobind.ffm.Iobind") && frame.getMethodName().equals(function));
  }

  /** Does something in the middle of each run that fails: when ONNX Runtime logs it. */
  private static OrtRuntimeFFM runtimeWithFailures(Runnable action) {
    return OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().log(OrtRuntimeFFM.LogLevel.ERROR, (level, line) -> {
      if (line.contains("Non-zero status code")) action.run();
    }));
  }

  /** Nobody waits for the run any more, and everything is closed in the documented order. */
  private static void adoptedSessionIsClosed() throws Exception {
    for (int way = 0; way < 3; way++) {
      long trips = TRIPS;
      while (!isClosedInARun(way, trips)) trips *= 2; // this thread was too slow
    }
  }

  /** False if the run had ended before it was given up. */
  private static boolean isClosedInARun(int way, long trips) throws Exception {
    OrtSession official = official("loop");
    OrtSessionFFM session = OrtSessionFFM.createFromOrtSession(official);
    OrtIoBindingFFM binding = session.createBinding();
    binding.bindInput(0, new long[] {trips});
    binding.bindInput(1, new float[] {1}, 1);
    CompletableFuture<Void> run = binding.runAsync();
    if (way == 2) Thread.currentThread().interrupt();
    boolean isGivenUp = way == 1 && run.cancel(true);
    try {
      if (way != 1) run.get(20, TimeUnit.MILLISECONDS);
    } catch (TimeoutException | InterruptedException e) {
      isGivenUp = way == (e instanceof TimeoutException ? 0 : 2);
    }
    if (way == 2) Thread.currentThread().interrupt(); // close waits all the same
    binding.close();
    require(Thread.interrupted() == (way == 2), "an interrupt is left to the caller");
    session.close();
    official.close();
    if (way == 1 && isGivenUp) { // 0.1: the run was still in flight, over freed memory
      fails(CancellationException.class, run::get);
    } else {
      run.get();
    }
    return isGivenUp;
  }

  private static Path file() throws Exception {
    Path file = Files.createTempFile("iobind", ".bin");
    Files.write(file, new byte[4096]);
    file.toFile().deleteOnExit();
    return file;
  }

  private static MemorySegment map(Path file, FileChannel.MapMode mode, Arena arena) throws Exception {
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      return channel.map(mode, 0, 4096, arena);
    }
  }

  /** Wherever iobind or ONNX Runtime would write memory that is for reading only, it is refused; what reads it works. */
  private static void readOnlyMemory() throws Exception {
    Path file = file();
    try (Arena arena = Arena.ofConfined(); OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
        OrtSessionFFM session = Models.session(runtime, "scale")) {
      MemorySegment plain = arena.allocate(64, 16);
      MemorySegment view = plain.asReadOnly();
      MemorySegment mapped = map(file, FileChannel.MapMode.READ_ONLY, arena);
      for (MemorySegment memory : List.of(view, mapped)) {
        try (OrtIoBindingFFM binding = session.createBinding();
            OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, ONE); OrtValueRef part = value.slice(0, 1);
            OrtValueRef again = value.retain(); OrtValueRef source = OrtValueRef.of(runtime, new float[] {7}, ONE)) {
          List<Executable> writes = List.of(() -> binding.bindOutput("y", memory, ONE), () -> value.write(new float[] {1}),
              () -> part.write(new float[] {1}), () -> again.write(0, plain.asSlice(0, 4), null), () -> source.copyTo(value),
              () -> source.copyTo(part), () -> binding.bindOutput("y", value),
              () -> binding.bindOutput(0, again, OutputMode.IN_PLACE));
          for (int i = 0; i < writes.size(); i++) {
            OrtFFMException e = fails(OrtFFMException.class, writes.get(i));
            require(e.status() == OrtStatus.INVALID_ARGUMENT && e.getMessage().contains("read-only"), i + ": " + e);
          }
          require(value.asMemorySegment().isReadOnly() && value.asMemorySegment(arena).isReadOnly(), "a view is read-only");
          binding.bindInput("x", value, InputMode.LIVE);
          require(fails(OrtFFMException.class, () -> binding.update("x", new float[] {1})).getMessage().contains("read-only"),
              "an update writes into the value");
          binding.runWithBindings();
          float[] y = {1};
          binding.readOutput("y", y);
          require(y[0] == 0 && value.toFloatArray()[0] == 0, "it is read, and was not written");
          binding.bindInput("x", value, InputMode.SNAPSHOT);
          binding.update("x", new float[] {1}); // into the copy
          for (CarryMode mode : CarryMode.values()) {
            carryFromReadOnly(session, value, mode, true);
            carryFromReadOnly(session, value, mode, false);
          }
        }
      }
      require(plain.get(java.lang.foreign.ValueLayout.JAVA_INT, 0) == 0, "nothing was written");
    }
    require(Files.readAllBytes(file)[0] == 0, "nothing was written");
  }

  /** A first state that is read-only: only IN_PLACE would write it, whether it is bound before the carry or after it. */
  private static void carryFromReadOnly(OrtSessionFFM session, OrtValueRef value, CarryMode mode, boolean isBoundBefore) {
    try (OrtIoBindingFFM binding = session.createBinding()) {
      Runnable bind = () -> binding.bindInput("x", value), carry = () -> binding.carry("y", "x", mode);
      Runnable last = isBoundBefore ? carry : bind;
      (isBoundBefore ? bind : carry).run();
      if (mode == CarryMode.IN_PLACE) {
        OrtFFMException e = fails(OrtFFMException.class, last::run);
        require(e.status() == OrtStatus.INVALID_ARGUMENT && e.getMessage().contains("read-only"), mode + ": " + e);
        return;
      }
      last.run();
      for (int i = 0; i < 3; i++) binding.runWithBindings();
    }
  }

  /** An arena cannot be closed while a run is at work in its memory, whatever became of the future. */
  private static void arenaIsClosedInARun() throws Exception {
    Path file = file();
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "loop");
        OrtIoBindingFFM binding = session.createBinding()) {
      for (int way = 3; way >= 0; way--) { // the last one has to meet the call, whose first time takes longest
        Arena arena = Arena.ofShared();
        binding.bindInput(0, new long[] {ENDLESS});
        binding.bindInput(1, new float[] {1}, 1);
        binding.bindOutput(session.outputs().getFirst().name(), map(file, FileChannel.MapMode.READ_WRITE, arena), ONE);
        CompletableFuture<Void> run = binding.runAsync();
        awaitCall("bindingRun");
        IllegalStateException refused = null;
        if (way == 0) {
          refused = fails(IllegalStateException.class, arena::close);
          binding.cancel();
        }
        if (way == 1) run.orTimeout(10, TimeUnit.MILLISECONDS);
        if (way == 2) run.complete(null);
        if (way == 3) run.completeExceptionally(new IllegalArgumentException("enough"));
        try {
          run.get();
          require(way == 2, "it was given up");
        } catch (CancellationException e) {
          require(way == 0, "it was cancelled");
        } catch (ExecutionException e) {
          Class<?> type = way == 1 ? TimeoutException.class : IllegalArgumentException.class;
          require(type.isInstance(e.getCause()), "the future fails with what it was given: " + e);
        }
        require(refused == null || refused.getMessage().contains("acquired"), "what Java says: " + refused);
        arena.close(); // the run has ended before its future
        Thread.sleep(way == 0 ? 0 : 300);
      }
      try (Arena confined = Arena.ofConfined()) {
        binding.bindOutput(session.outputs().getFirst().name(), confined.allocate(4, 4), ONE);
        OrtFFMException e = fails(OrtFFMException.class, binding::runAsync);
        require(e.status() == OrtStatus.INVALID_ARGUMENT && e.getMessage().contains("Arena.ofShared"), e.getMessage());
      }
    }
  }

  private static void arenaIsClosedInARunOnAStream() throws Exception {
    Path file = file();
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "loop");
        OrtIoBindingFFM binding = session.createBinding(); OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU)) {
      Arena arena = Arena.ofShared();
      binding.bindInput(0, new long[] {ENDLESS});
      binding.bindInput(1, new float[] {1}, 1);
      binding.bindOutput(session.outputs().getFirst().name(), map(file, FileChannel.MapMode.READ_WRITE, arena), ONE);
      binding.runWithBindings(stream, null);
      fails(IllegalStateException.class, arena::close);
      binding.cancel();
      fails(OrtFFMException.class, stream::synchronize);
      binding.bindInput(0, new long[] {3});
      binding.runWithBindings(stream, null);
      stream.synchronize();
      arena.close();
      try (Arena confined = Arena.ofConfined()) {
        binding.bindOutput(session.outputs().getFirst().name(), confined.allocate(4, 4), ONE);
        OrtFFMException e = fails(OrtFFMException.class, () -> binding.runWithBindings(stream, null));
        require(e.status() == OrtStatus.INVALID_ARGUMENT && e.getMessage().contains("Arena.ofShared"), e.getMessage());
      }
      // A copy on a stream, behind a run.
      binding.bindInput(0, new long[] {ENDLESS});
      binding.bindOutput(session.outputs().getFirst().name(), OutputMode.FRESH);
      binding.runWithBindings(stream, null);
      Arena other = Arena.ofShared();
      MemorySegment target = map(file, FileChannel.MapMode.READ_WRITE, other);
      try (OrtValueRef value = OrtValueRef.of(runtime, new float[] {1}, ONE);
          OrtValueRef wrapped = OrtValueRef.wrap(runtime, DeviceSpec.CPU, target, ONE)) {
        OrtValueRef.copy(new OrtValueRef[] {value}, new OrtValueRef[] {wrapped}, stream);
        value.read(0, target.asSlice(64, 4), stream);
        value.write(0, target.asSlice(64, 4), stream);
        fails(IllegalStateException.class, other::close);
      }
      binding.cancel();
      fails(OrtFFMException.class, stream::synchronize);
      stream.synchronize();
      other.close();
    }
  }

  /** A snapshot is copied when it is bound, behind its event; until then its arena refuses to be closed. */
  private static void arenaIsClosedInASnapshot() throws Exception {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "loop");
        OrtIoBindingFFM busy = session.createBinding(); OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
        OrtEventFFM event = OrtEventFFM.create(runtime, DeviceSpec.CPU)) {
      busy.bindInput(0, new long[] {ENDLESS});
      busy.bindInput(1, new float[] {1}, 1);
      busy.runWithBindings(stream, event);
      Arena arena = Arena.ofShared();
      OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, map(file(), FileChannel.MapMode.READ_WRITE, arena), ONE);
      Thread thread = Thread.ofPlatform().start(() -> {
        try {
          binding.bindInput(1, value, InputMode.SNAPSHOT, event);
        } catch (OrtFFMException cancelled) {
          return; // what is before the event
        }
      });
      awaitCall("bindingSetInput"); // which waits for the event, the memory held
      require(fails(IllegalStateException.class, arena::close).getMessage().contains("acquired"), "it is held");
      busy.cancel();
      thread.join();
      fails(OrtFFMException.class, stream::synchronize);
      value.close();
      arena.close();
      try (Arena confined = Arena.ofConfined();
          OrtValueRef own = OrtValueRef.wrap(runtime, DeviceSpec.CPU, confined.allocate(4, 4), ONE)) {
        CompletableFuture<Void> other = CompletableFuture.runAsync(() -> binding.bindInput(1, own, InputMode.SNAPSHOT, null));
        require(fails(ExecutionException.class, other::get).getCause() instanceof WrongThreadException, "another thread's memory");
      }
    }
  }

  /** A state in place lies in what was bound: who fetches it and closes that memory is told. */
  private static void arenaIsClosedBehindAState() throws Exception {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "scale")) {
      for (int way = 0; way < 3; way++) {
        Arena arena = Arena.ofShared();
        OrtValueRef state;
        try (OrtIoBindingFFM binding = session.createBinding()) {
          MemorySegment memory = map(file(), FileChannel.MapMode.READ_WRITE, arena);
          memory.set(java.lang.foreign.ValueLayout.JAVA_FLOAT, 0, 3);
          try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, ONE)) {
            binding.bindInput("x", value);
          }
          binding.carry("y", "x", CarryMode.IN_PLACE);
          binding.runWithBindings();
          if (way == 2) binding.bindInput("x", new float[] {1}, 1); // the next state; the last one is where it was
          state = way == 0 ? binding.takeOutput("y") : binding.getOutput("y");
          float[] y = new float[1];
          if (way != 0) binding.readOutput("y", y);
          require(state.toFloatArray()[0] == 6 && (way == 0 || y[0] == 6), "the state");
          if (way == 2) {
            binding.runWithBindings();
            try (OrtValueRef next = binding.getOutput("y")) {
              require(next.toFloatArray()[0] == 2 && next.backing() == null, "the next state is in iobind's memory");
            }
          }
        }
        arena.close();
        fails(IllegalStateException.class, state::toFloatArray);
        fails(IllegalStateException.class, () -> state.copyTo(runtime, DeviceSpec.CPU));
        state.close();
      }
      try (OrtIoBindingFFM binding = session.createBinding()) {
        Arena arena = Arena.ofShared();
        binding.bindInput("x", new float[] {3}, 1);
        binding.carry("y", "x", CarryMode.IN_PLACE);
        binding.runWithBindings();
        try (OrtValueRef value = OrtValueRef.wrap(runtime, DeviceSpec.CPU, arena.allocate(4, 4), ONE)) {
          binding.bindInput("x", value);
        }
        arena.close();
        fails(IllegalStateException.class, binding::runWithBindings);
        try (OrtValueRef state = binding.getOutput("y")) {
          require(state.toFloatArray()[0] == 6, "the state of the run before is in iobind's memory");
        }
      }
    }
  }

  /** More arenas than calls fit on a stack, a call in a call. */
  private static void manyArenas() throws InterruptedException {
    int count = 4000;
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      OrtValueRef[] sources = new OrtValueRef[count], targets = new OrtValueRef[count];
      Arena[] arenas = new Arena[count];
      for (int i = 0; i < count; i++) {
        arenas[i] = i % 3 == 0 ? Arena.ofConfined() : Arena.ofShared();
        MemorySegment memory = arenas[i].allocate(4, 4);
        memory.set(java.lang.foreign.ValueLayout.JAVA_FLOAT, 0, i);
        sources[i] = OrtValueRef.wrap(runtime, DeviceSpec.CPU, memory, ONE);
        targets[i] = OrtValueRef.allocate(runtime, DeviceSpec.CPU, ONE);
      }
      Thread small = new Thread(null, () -> OrtValueRef.copy(java.util.Arrays.stream(sources).filter(value ->
          value.backing().isAccessibleBy(Threads.other())).toArray(OrtValueRef[]::new),
          java.util.Arrays.copyOf(targets, count - (count + 2) / 3), null), "small", 256 << 10);
      small.start();
      small.join();
      OrtValueRef.copy(sources, targets, null);
      require(targets[count - 1].toFloatArray()[0] == count - 1, "they are copied");
      arenas[7].close();
      fails(IllegalStateException.class, () -> OrtValueRef.copy(sources, targets, null));
      for (int i = 0; i < count; i++) {
        sources[i].close();
        targets[i].close();
        if (arenas[i].scope().isAlive()) arenas[i].close(); // nothing holds them
      }
    }
  }

  private static OrtSession official(String model) throws Exception {
    return OrtEnvironment.getEnvironment().createSession(Models.bytes(model), new OrtSession.SessionOptions());
  }

  /** An adopted session's close also waits for the items of its pipelines. */
  private static void adoptedPipelineIsOpen() throws Exception {
    for (int way = 0; way < 2; way++) {
      OrtSession official = official("loop");
      OrtSessionFFM session = OrtSessionFFM.createFromOrtSession(official);
      OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
      try (OrtValueRef trips = OrtValueRef.of(session.runtime(), new long[] {TRIPS},
          MemoryDescriptor.of(OnnxTensorElementType.INT64));
          OrtValueRef x = OrtValueRef.of(session.runtime(), new float[] {1}, ONE)) {
        for (int i = 0; i < 3; i++) pipeline.submit(List.of(trips, x));
      }
      if (way == 0) session.close();
      if (way == 1) require(session.close(Duration.ofDays(1)), "all the time that it takes");
      official.close();
      fails(IllegalStateException.class, pipeline::next);
      pipeline.close();
    }
  }

  /** Submits four numbers that come out in so many rows, or fail. */
  private static void submit(OrtPipelineFFM pipeline, long rows) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment shape = arena.allocateFrom(java.lang.foreign.ValueLayout.JAVA_LONG, rows, 2);
      pipeline.submit(rows, arena.allocateFrom(java.lang.foreign.ValueLayout.JAVA_FLOAT, 1, 2, 3, 4), shape);
    }
  }

  /** What the official package's session is for this one, in a process whose ONNX Runtime logs to this package. */
  private static final class Host implements AutoCloseable {
    @SuppressWarnings("unused") // looked at by reflection
    private volatile boolean closed;
    private final OrtSessionFFM owner;

    Host(OrtSessionFFM owner) {
      this.owner = owner;
    }

    OrtSessionFFM adopt() throws Exception {
      MemorySegment address = OrtInterop.ortSession(owner);
      var field = Host.class.getDeclaredField("closed");
      field.setAccessible(true);
      return OrtSessionFFM.adopt(owner.runtime(), false, address, null,
          new OfficialOrt.Session(this, address.address(), 0, field));
    }

    @Override
    public void close() {
      closed = true;
      owner.close();
    }
  }

  /** An adopted session's close also waits for the items of its pipelines; where it has not enough time, all of them are open. */
  private static void pipelinesAreClosedInTime() throws Exception {
    Semaphore arrived = new Semaphore(0), admitted = new Semaphore(0);
    OrtRuntimeFFM runtime = runtimeWithFailures(() -> {
      arrived.release();
      admitted.acquireUninterruptibly();
    });
    Host host = new Host(Models.session(runtime, "reshape"));
    OrtSessionFFM session = host.adopt();
    OrtPipelineFFM idle = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
    OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
    submit(pipeline, 3);
    arrived.acquire();
    require(!session.close(Duration.ofMillis(1)), "an item is in flight");
    require(fails(OrtFFMException.class, idle::next).status() == OrtStatus.NOT_FOUND, "it is open, and has no item");
    require(pipeline.next(Duration.ofMillis(1)).isEmpty(), "it is open, and its item in flight");
    require(!pipeline.close(Duration.ofMillis(1)), "an item is in flight");
    submit(pipeline, 2);
    admitted.release();
    require(fails(OrtPipelineFFM.ItemException.class, pipeline::next).tag().equals(3L), "the item that was stopped");
    submit(pipeline, 3);
    arrived.acquire(); // the second item has run
    AtomicBoolean isClosed = new AtomicBoolean();
    Thread.ofVirtual().start(() -> isClosed.set(pipeline.close(Duration.ofMillis(50)))).join();
    require(!isClosed.get(), "the third one is in flight");
    submit(pipeline, 2);
    admitted.release();
    require(session.handle().awaitQuiet(Deadline.NEVER), "all the time that it takes"); // the items are kept
    for (long tag : new long[] {2, 3, 2}) {
      if (tag == 3) {
        require(fails(OrtPipelineFFM.ItemException.class, pipeline::next).tag().equals(tag), "what it failed with is kept");
        continue;
      }
      try (OrtPipelineFFM.Item item = pipeline.next()) {
        require(item.tag().equals(tag) && item.outputs().get("y").toFloatArray()[3] == 4, "item " + tag);
      }
    }
    submit(pipeline, 2);
    require(session.close(Duration.ofDays(1)), "all the time that it takes");
    fails(IllegalStateException.class, pipeline::next);
    fails(IllegalStateException.class, idle::next);
    require(pipeline.close(Duration.ZERO), "it is closed");
    host.close();
    runtime.close();
  }

  /** Whichever thread's close returns, nothing of an adopted session is at work then. */
  private static void adoptedSessionIsClosedTwice() throws Exception {
    OrtSession official = official("loop");
    OrtSessionFFM session = OrtSessionFFM.createFromOrtSession(official);
    try (OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(session.runtime(), DeviceSpec.CPU)) {
      binding.bindInput(0, new long[] {ENDLESS});
      binding.bindInput(1, new float[] {1}, 1);
      binding.runWithBindings(stream, null);
      require(!session.close(Duration.ofMillis(1)), "a run is in flight");
      session.createBinding().close(); // it is open
      Thread first = Thread.ofPlatform().start(session::close);
      Wait.until("the close begins", () -> !isOpen(session));
      AtomicBoolean isClosed = new AtomicBoolean();
      Thread second = Thread.ofVirtual().start(() -> {
        session.close();
        isClosed.set(true);
      });
      for (int i = 0; i < 20; i++) require(!session.close(Duration.ofMillis(1)), "another thread closes it");
      require(!isClosed.get(), "a run is in flight");
      binding.cancel();
      require(session.close(Duration.ofDays(1)), "all the time that it takes");
      official.close();
      first.join();
      second.join();
      fails(OrtFFMException.class, stream::synchronize);
    }
  }

  private static boolean isOpen(OrtSessionFFM session) {
    try {
      session.createBinding().close();
      return true;
    } catch (IllegalStateException closed) {
      return false;
    }
  }

  /** Nothing is closed by a line that ONNX Runtime logs in the middle of its work. */
  private static void closedInALogLine() throws Exception {
    List<AutoCloseable> objects = new CopyOnWriteArrayList<>();
    List<Throwable> thrown = new CopyOnWriteArrayList<>();
    OrtRuntimeFFM runtime = runtimeWithFailures(() -> {
      for (AutoCloseable object : objects) {
        try {
          object.close();
        } catch (Exception e) {
          thrown.add(e);
        }
      }
    });
    Host host = new Host(Models.session(runtime, "reshape"));
    try (OrtSessionFFM session = host.adopt();
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options());
        OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(session.runtime(), DeviceSpec.CPU)) {
      binding.bindInput(0, new float[] {1, 2, 3, 4}, 4);
      binding.bindInput(1, new long[] {3, 2}, 2);
      objects.addAll(List.of(session, pipeline, stream));
      submit(pipeline, 3); // on the pipeline's own thread
      fails(OrtFFMException.class, pipeline::next);
      requireRefused(thrown, 3);
      binding.runWithBindings(stream, null); // on the stream's own thread
      fails(OrtFFMException.class, stream::synchronize);
      requireRefused(thrown, 3);
      objects.add(binding);
      fails(OrtFFMException.class, binding::runWithBindings);
      requireRefused(thrown, 4);
      fails(ExecutionException.class, binding.runAsync()::get);
      requireRefused(thrown, 4);
      objects.clear();
      binding.bindInput(1, new long[] {2, 2}, 2);
      binding.runWithBindings(); // all are open
      submit(pipeline, 2);
      pipeline.next().close();
    }
    host.close();
    runtime.close();
  }

  private static void requireRefused(List<Throwable> thrown, int count) {
    require(thrown.size() == count && thrown.stream().allMatch(t -> t instanceof OrtFFMException e
        && e.status() == OrtStatus.INVALID_STATE && e.getMessage().contains("close")), count + " closes are refused, got " + thrown);
    thrown.clear();
  }

  /** A stream that is closed while work is submitted to it ends that work, and what it holds. */
  private static void streamIsClosedInASubmit() throws Exception {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
      Arena arena = Arena.ofShared();
      Thread[] closing = new Thread[1];
      InFlight.Work work = stream.inFlight().submit(stream, new MemorySegment[] {arena.allocate(4)}, () -> {
        closing[0] = Thread.ofPlatform().start(stream::close);
        while (true) {
          try {
            stream.nativeStream();
          } catch (IllegalStateException closed) {
            return;
          }
        }
      }, () -> {});
      closing[0].join();
      require(work.isOver(), "the stream has passed it");
      arena.close();
    }
  }

  /** A Java array has no address. */
  private static void objectsOfArrays() {
    MemorySegment array = MemorySegment.ofArray(new long[16]).asSlice(8);
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      List<Executable> calls = List.of(() -> OrtSessionFFM.wrap(runtime, array, null),
          () -> OrtStreamFFM.wrap(runtime, DeviceSpec.CPU, NativeKind.values()[0], array, null),
          () -> OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().ortApi(array)));
      for (Executable call : calls) {
        OrtFFMException e = fails(OrtFFMException.class, call);
        require(e.status() == OrtStatus.INVALID_ARGUMENT && e.getMessage().contains("native address"), e.getMessage());
      }
    }
  }

  /** ONNX Runtime would read the bytes of an ORT model for as long as the session lives. */
  private static void bytesAreUsedDirectly() throws Exception {
    Path file = Files.createTempFile("iobind", ".ort");
    file.toFile().deleteOnExit();
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      OrtSessionFFM.create(runtime, Models.bytes("lookup rows=1000"), new OrtSessionFFM.Options()
          .config("session.save_model_format", "ORT").config("session.optimized_model_filepath", file.toString())).close();
      OrtSessionFFM.Options directly = new OrtSessionFFM.Options().config("session.use_ort_model_bytes_directly", "1")
          .config("session.use_ort_model_bytes_for_initializers", "1");
      byte[] bytes = Files.readAllBytes(file);
      OrtFFMException e = fails(OrtFFMException.class, () -> OrtSessionFFM.create(runtime, bytes, directly));
      require(e.status() == OrtStatus.INVALID_ARGUMENT && e.getMessage().contains("load the model from a file"), e.getMessage());
      try (OrtSessionFFM session = OrtSessionFFM.create(runtime, file, directly); OrtIoBindingFFM binding = session.createBinding()) {
        binding.bindInput(0, new long[] {777}, 1);
        binding.runWithBindings();
      }
    }
  }

  /** The run goes on while the JVM ends and ONNX Runtime's objects are destroyed. So it fails, and logs that, on a native thread. */
  private static void mainReturnsInARunOnAStream() {
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
    OrtIoBindingFFM binding = Models.session(runtime, "loop").createBinding();
    binding.bindInput(0, new long[] {ENDLESS});
    binding.bindInput(1, new float[] {1}, 1);
    binding.runWithBindings(OrtStreamFFM.create(runtime, DeviceSpec.CPU), null);
  }

  private static void mainReturnsInAPipeline() {
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
    OrtPipelineFFM pipeline = OrtPipelineFFM.create(Models.session(runtime, "loop"), new OrtPipelineFFM.Options());
    pipeline.submit(List.of(OrtValueRef.of(runtime, new long[] {ENDLESS}, MemoryDescriptor.of(OnnxTensorElementType.INT64)),
        OrtValueRef.of(runtime, new float[] {1}, ONE)));
  }

  /** The end of the JVM waits until no call is on its way into Java, and this one is there already. */
  private static void exitsInALogLine() {
    OrtRuntimeFFM runtime = runtimeWithFailures(() -> {
      System.out.println("passed: exitsInALogLine");
      System.exit(0);
    });
    OrtIoBindingFFM binding = Models.session(runtime, "loop").createBinding();
    binding.bindInput(0, new long[] {ENDLESS});
    binding.bindInput(1, new float[] {1}, 1);
    Thread.ofPlatform().daemon().start(() -> {
      while (true) { // until the run has begun, which a cancel before does not reach
        binding.cancel();
        LockSupport.parkNanos(1_000_000);
      }
    });
    binding.runWithBindings();
    throw new AssertionError("the JVM has ended");
  }

  /** A call that holds arenas at every depth of a stack, up to its end. Nothing is closed: an overflow may come in a finally. */
  private static void stackOverflows() throws Exception {
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
    OrtValueRef source = OrtValueRef.wrap(runtime, DeviceSpec.CPU, Arena.ofShared().allocate(4, 4), ONE);
    OrtValueRef target = OrtValueRef.wrap(runtime, DeviceSpec.CPU, Arena.ofShared().allocate(4, 4), ONE);
    source.copyTo(target);
    Thread small = new Thread(null, () -> copyUpToTheEnd(source, target), "small", 384 << 10);
    small.start();
    small.join();
    source.copyTo(target);
  }

  /** A binding is used at every depth of a stack, up to its end. It works afterwards, and its close waits for no call that is gone. */
  private static void bindingOverflows() throws Exception {
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
    OrtSessionFFM session = Models.session(runtime, "scale");
    OrtIoBindingFFM binding = session.createBinding();
    OrtValueRef value = OrtValueRef.of(runtime, new float[] {1}, ONE);
    List<Runnable> calls = List.of(binding::check, () -> binding.bindInput("x", value), binding::runWithBindings,
        () -> binding.readOutput("y", new float[1]), () -> binding.bindInput("x", new float[] {1}, 1));
    for (Runnable call : calls) {
      for (int round = 0; round < 20; round++) {
        binding.bindInput("x", value);
        binding.runWithBindings();
        Thread small = new Thread(null, () -> callUpToTheEnd(call), "small", (384 << 10) + 16 * round);
        small.start();
        small.join();
      }
    }
    require(!binding.isBusy(), "no call is in it");
    binding.bindInput("x", value);
    float[] y = new float[1];
    binding.runWithBindings();
    binding.readOutput("y", y);
    require(y[0] == 2, "it works");
    binding.close();
    value.close();
    session.close();
  }

  private static void callUpToTheEnd(Runnable call) {
    try {
      callUpToTheEnd(call);
    } catch (StackOverflowError end) {
      call.run(); // throws it again, until enough is free
      return;
    }
    call.run();
  }

  private static void copyUpToTheEnd(OrtValueRef source, OrtValueRef target) {
    try {
      copyUpToTheEnd(source, target);
    } catch (StackOverflowError end) {
      source.copyTo(target); // throws it again, until enough is free
      return;
    }
    source.copyTo(target);
  }

  /** The end of the JVM does not wait for a call that Java could not take. */
  private static void callNeverArrives() throws Throwable {
    Linker linker = Linker.nativeLinker();
    MemorySegment notJava = linker.defaultLookup().find("abs").orElseThrow();
    linker.downcallHandle(IobindJava.log(), FunctionDescriptor.ofVoid(ADDRESS, JAVA_INT, ADDRESS))
        .invoke(Callbacks.log(Arena.global(), notJava), 0, MemorySegment.NULL);
  }

  /** The future of a run ends also if the system has no thread left for that. */
  private static void noThreadAtTheEndOfARun() throws Exception {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(); OrtSessionFFM session = Models.session(runtime, "loop");
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput(0, new long[] {TRIPS});
      binding.bindInput(1, new float[] {1}, 1);
      CompletableFuture<Void> run = binding.runAsync();
      var pool = Threads.class.getDeclaredField("POOL");
      pool.setAccessible(true);
      ((java.util.concurrent.ExecutorService) pool.get(null)).shutdown(); // takes no task any more; the run goes on
      run.get(5, TimeUnit.MINUTES);
      OrtStreamFFM stream = OrtStreamFFM.create(runtime, DeviceSpec.CPU);
      Thread.ofVirtual().start(stream::close).join(); // which a thread of the pool would do
      require(stream.close(Duration.ofMinutes(5)), "it is gone");
    }
  }

  /** Who shares ONNX Runtime unregisters an EP's library while a value of its device is open. */
  private static void libraryIsUnregistered(String library) throws Exception {
    OrtEnvironment environment = OrtEnvironment.getEnvironment();
    environment.registerExecutionProviderLibrary("vdev", library);
    OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
    OrtValueRef value = OrtValueRef.allocate(runtime, DeviceSpec.of("vdev"), ONE);
    value.write(new float[] {1});
    OrtValueRef pinned = OrtValueRef.allocate(runtime, DeviceSpec.of("vdev").pinned(), ONE);
    environment.unregisterExecutionProviderLibrary("vdev");
    try (OrtValueRef host = OrtValueRef.of(runtime, new float[] {2}, ONE)) {
      for (Executable call : List.<Executable>of(value::toFloatArray, () -> value.write(new float[] {1}), () -> value.copyTo(host),
          () -> host.copyTo(value), pinned::toFloatArray, () -> pinned.write(new float[] {1}), pinned::asMemorySegment,
          () -> OrtValueRef.allocate(runtime, DeviceSpec.of("vdev"), ONE), () -> value.slice(0, 1), () -> pinned.view(0, ONE))) {
        OrtFFMException e = fails(OrtFFMException.class, call);
        require(e.status() == OrtStatus.WRONG_DEVICE && e.getMessage().contains("unregistered"), e.toString());
      }
    }
    value.close();
    pinned.close();
    try (OrtSessionFFM session = Models.session(runtime, "scale"); OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("x", new float[] {1}, 1);
      binding.runWithBindings(); // the rest goes on
    }
    runtime.close();
  }
}
