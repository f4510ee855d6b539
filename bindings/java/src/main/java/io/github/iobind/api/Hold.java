package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/**
 * Memory of the caller's that native code is at work in: as long as it is held, its arenas refuse to be closed. Java holds the
 * arenas of the segments that a native call was given, and nothing else; so what holds is a call, of a C function that calls
 * back once, whose callback does the work.
 */
final class Hold {
  private static final int WIDTH = 4;
  /** So many arenas are held by one thread. */
  private static final int MOST = 128;
  private static final MemorySegment CALLBACK;
  private static final MemorySegment.Scope GLOBAL = MemorySegment.NULL.scope();
  static final FunctionDescriptor BSEARCH = FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS, ADDRESS,
      ADDRESS, ADDRESS, ADDRESS);
  /** So many frames of {@link #requireStack} take more than what is between a call of bsearch and the work: some 10 kB. */
  private static final int FRAMES = 256;
  /** C's bsearch in one element: it compares once. The segments stand behind its parameters, where it does not look. */
  private static final MethodHandle CALL;
  private static final ThreadLocal<Runnable> WORK = new ThreadLocal<>();

  static {
    Linker linker = Linker.nativeLinker();
    try {
      MethodHandle target = MethodHandles.lookup().findStatic(Hold.class, "compare",
          MethodType.methodType(int.class, MemorySegment.class, MemorySegment.class));
      CALLBACK = linker.upcallStub(target, FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS), Arena.global());
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
    CALL = linker.downcallHandle(linker.defaultLookup().find("bsearch").orElseThrow(), BSEARCH);
  }

  private Hold() {}

  @SuppressWarnings("unused") // called by bsearch; the work catches what it throws
  private static int compare(MemorySegment key, MemorySegment element) {
    WORK.get().run();
    return 0;
  }

  /**
   * Throws a StackOverflowError if little of the stack is left. One that is thrown between native code and the work, where nobody
   * can catch it, would end the process.
   */
  private static int requireStack(int frames) {
    return frames == 0 ? 0 : 1 + requireStack(frames - 1);
  }

  /** Throws a StackOverflowError where a call, and what ends it, may not find enough of the stack. */
  static void requireStack() {
    requireStack(FRAMES);
  }

  /** One segment of each arena that can be closed; null where there is none. */
  static MemorySegment[] arenas(MemorySegment... memory) {
    MemorySegment[] found = null;
    int count = 0;
    for (MemorySegment segment : memory) {
      if (segment == null || isOf(segment.scope(), found, count)) continue;
      if (found == null) found = new MemorySegment[memory.length];
      found[count++] = segment;
    }
    return found == null || count == found.length ? found : Arrays.copyOf(found, count);
  }

  /** Whether a segment is of the global arena, which is never closed. */
  static boolean isGlobal(MemorySegment segment) {
    return segment.scope().equals(GLOBAL);
  }

  /** Whether two segments, which may be null, are of one arena: holding the one holds the other. */
  static boolean isOneArena(MemorySegment a, MemorySegment b) {
    return a != null && b != null && a.scope().equals(b.scope());
  }

  /** Whether an arena is the global one, or that of one of these segments. */
  private static boolean isOf(MemorySegment.Scope scope, MemorySegment[] known, int count) {
    if (scope.equals(GLOBAL)) return true;
    for (int i = 0; i < count; i++) {
      if (scope.equals(known[i].scope())) return true;
    }
    return false;
  }

  /** Refuses memory that only its own thread may touch, where another one works in it. */
  static void requireShared(String what, MemorySegment[] memory) {
    if (memory == null) return;
    for (MemorySegment segment : memory) {
      if (!segment.isAccessibleBy(Threads.other())) {
        throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what
            + ": the memory is of a confined arena, which could be closed in the middle: take Arena.ofShared()");
      }
    }
  }

  /** Does something while the memory is held; throws what that throws. */
  static void during(MemorySegment[] memory, Runnable work) {
    if (memory == null) {
      work.run();
    } else if (memory.length <= MOST) {
      during(memory, 0, work);
    } else {
      duringMany(memory, work);
    }
  }

  /** As {@link #during(MemorySegment[], Runnable)}, for more arenas than one thread's stack is to hold, a call in a call. */
  private static void duringMany(MemorySegment[] memory, Runnable work) {
    List<Hold> holds = new ArrayList<>();
    try {
      for (int from = 0; from < memory.length; from += MOST) {
        MemorySegment[] part = Arrays.copyOfRange(memory, from, Math.min(memory.length, from + MOST));
        during(part, 0, () -> {}); // refuses what is closed, or another thread's
        MemorySegment[] shared =
            Arrays.stream(part).filter(one -> one.isAccessibleBy(Threads.other())).toArray(MemorySegment[]::new);
        if (shared.length > 0) holds.add(begin(shared)); // only this thread, which is here, can close a confined one
      }
      work.run();
    } finally {
      holds.forEach(Hold::end);
    }
  }

  private static void during(MemorySegment[] memory, int from, Runnable work) {
    if (from >= memory.length) {
      work.run();
      return;
    }
    requireStack();
    Throwable[] failure = new Throwable[1];
    Runnable outer = WORK.get();
    WORK.set(() -> {
      try {
        during(memory, from + WIDTH, work);
      } catch (Throwable t) { // native code cannot take it
        failure[0] = t;
      }
    });
    try {
      MemorySegment any = MemorySegment.ofAddress(Long.BYTES);
      MemorySegment ignored = (MemorySegment) CALL.invokeExact(any, any, 1L, 1L, CALLBACK, at(memory, from),
          at(memory, from + 1), at(memory, from + 2), at(memory, from + 3));
    } catch (Throwable t) {
      failure[0] = t; // an arena is closed, or another thread's
    } finally {
      WORK.set(outer);
    }
    if (failure[0] instanceof RuntimeException e) throw e;
    if (failure[0] instanceof Error e) throw e;
  }

  /** A segment that is not there is none to hold. */
  static MemorySegment at(MemorySegment[] memory, int index) {
    return memory != null && index < memory.length ? memory[index] : MemorySegment.NULL;
  }

  // ---- for longer than a call

  private final CompletableFuture<Void> end = new CompletableFuture<>();
  private final CompletableFuture<Void> ended = new CompletableFuture<>();

  /** Has a thread hold the memory from now on until {@link #end}. */
  static Hold begin(MemorySegment[] memory) {
    Hold hold = new Hold();
    CompletableFuture<Void> held = new CompletableFuture<>();
    Threads.execute(() -> {
      try {
        during(memory, () -> {
          held.complete(null);
          hold.end.join();
        });
      } catch (Throwable t) {
        held.completeExceptionally(t);
      } finally {
        hold.ended.complete(null);
      }
    });
    try {
      held.join();
      return hold;
    } catch (CompletionException e) {
      if (e.getCause() instanceof RuntimeException cause) throw cause;
      throw e;
    }
  }

  /** Lets the memory go: its arenas can be closed when this returns. Any number of times. */
  void end() {
    end.complete(null);
    ended.join();
  }
}
