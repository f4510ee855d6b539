package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Who closes an object, who destroys it, and who waits for what: over an object that is not native. */
class HandleTest {
  private static final Deadline NOW = Deadline.in(Duration.ZERO);
  private static final Deadline LATE = Deadline.in(Duration.ofDays(1000));

  private final CompletableFuture<Thread> destroyer = new CompletableFuture<>();
  private final AtomicInteger destroyed = new AtomicInteger();
  private final AtomicBoolean isWorking = new AtomicBoolean();

  private void destroy(long address) {
    destroyed.incrementAndGet();
    destroyer.complete(Thread.currentThread());
  }

  private Handle slow() {
    return Handle.slow(this, 7, this::destroy, (address, deadline) -> !isWorking.get());
  }

  private Handle fast() {
    return Handle.of(this, 7, this::destroy);
  }

  private static OrtFFMException refused(Handle handle) {
    OrtFFMException e = assertThrows(OrtFFMException.class, handle::close);
    assertEquals(OrtStatus.INVALID_STATE, e.status());
    assertEquals(OrtStatus.INVALID_STATE, assertThrows(OrtFFMException.class, () -> handle.closeBy(NOW)).status());
    return e;
  }

  /** What is thrown in a callback of native code is dropped. */
  private static void inCallback(Runnable action) {
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    Threads.callback(() -> {
      try {
        action.run();
      } catch (Throwable t) {
        thrown.set(t);
      }
    });
    if (thrown.get() != null) throw new AssertionError(thrown.get());
  }

  @Test
  void timesOfAnyLength() {
    assertTrue(Deadline.in(Duration.ofSeconds(Long.MIN_VALUE)).isOver());
    assertTrue(Deadline.in(Duration.ofNanos(-1)).isOver());
    assertTrue(Deadline.in(Duration.ZERO).isOver());
    assertFalse(Deadline.in(Duration.ofSeconds(Long.MAX_VALUE)).isOver());
    assertFalse(Deadline.in(Duration.ofNanos(Long.MAX_VALUE)).isOver());
    assertEquals(Long.MAX_VALUE, Deadline.NEVER.left());
    assertTrue(fast().closeBy(NOW)); // what nothing is in takes no time
  }

  /** What a close with a time could not close is open, and works. */
  @Test
  void aCloseThatIsNotGivenEnoughTime() {
    Handle handle = slow();
    handle.enter();
    assertFalse(handle.closeBy(NOW)); // a call
    handle.exit();
    isWorking.set(true);
    assertFalse(handle.closeBy(NOW)); // work
    assertFalse(handle.awaitQuiet(NOW));
    handle.enterAlone();
    handle.isLeaving = true;
    handle.exitAlone();
    isWorking.set(false);
    assertTrue(handle.awaitQuiet(NOW));
    assertEquals(0, destroyed.get());
    assertTrue(handle.closeBy(NOW));
    assertTrue(handle.closeBy(NOW));
    assertTrue(handle.awaitQuiet(NOW));
    assertThrows(IllegalStateException.class, handle::enter);
    assertFalse(handle.tryEnter());
    assertEquals(1, destroyed.get());
  }

  /** A call that comes while the work is waited for may bring new work: that is waited for, too. */
  @Test
  void workThatComesMeanwhile() {
    AtomicInteger waits = new AtomicInteger();
    Handle[] own = new Handle[1];
    Handle handle = own[0] = Handle.slow(this, 7, this::destroy, (address, deadline) -> {
      if (waits.incrementAndGet() < 3) {
        own[0].enter();
        own[0].exit();
      }
      return true;
    });
    assertTrue(handle.closeBy(LATE));
    assertEquals(3, waits.get());
    Handle other = own[0] = Handle.slow(this, 7, this::destroy, (address, deadline) -> {
      own[0].enter();
      own[0].exit();
      return true;
    });
    assertFalse(other.closeBy(NOW)); // not for ever
    assertFalse(other.isClosed());
  }

  /** What cannot be waited for, for lack of memory, is the caller's failure, and the object is open. */
  @Test
  void aWaitThatFails() {
    Handle handle = Handle.slow(this, 7, this::destroy, (address, deadline) -> {
      if (isWorking.get()) throw new OrtFFMException(OrtStatus.OUT_OF_MEMORY, "no event");
      return true;
    });
    isWorking.set(true);
    assertThrows(OrtFFMException.class, () -> handle.closeBy(LATE));
    handle.enterAlone();
    handle.isLeaving = true;
    handle.exitAlone();
    isWorking.set(false);
    assertTrue(handle.closeBy(LATE));
  }

  /** Who closes an object that another thread closes is told that it is closed when it is gone, and not before. */
  @Test
  void twoThreadsClose() throws Exception {
    CountDownLatch destroying = new CountDownLatch(1), gate = new CountDownLatch(1);
    Handle handle = Handle.slow(this, 7, address -> {
      destroying.countDown();
      try {
        gate.await();
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
      destroy(address);
    }, Handle.Work.NONE);
    Thread first = Thread.ofPlatform().start(handle::close);
    destroying.await();
    assertFalse(handle.closeBy(NOW));
    assertFalse(handle.awaitQuiet(NOW));
    Thread second = Thread.ofVirtual().start(handle::close);
    AtomicBoolean wasGone = new AtomicBoolean();
    Thread third = Thread.ofPlatform().start(() -> wasGone.set(handle.closeBy(LATE) && destroyed.get() == 1));
    gate.countDown();
    for (Thread thread : new Thread[] {first, second, third}) thread.join();
    assertTrue(wasGone.get());
    assertEquals(1, destroyed.get());
  }

  @Test
  void aPlatformThreadDestroysWhatItCloses() {
    slow().close();
    assertSame(Thread.currentThread(), destroyer.join());
  }

  @Test
  void aPlatformThreadDestroysWhatItClosesInTime() {
    slow().closeBy(LATE);
    assertSame(Thread.currentThread(), destroyer.join());
  }

  /** A virtual thread would keep its carrier. */
  @Test
  void aVirtualThreadHasItDestroyed() throws Exception {
    Handle handle = slow();
    Thread.ofVirtual().start(handle::close).join();
    assertFalse(destroyer.join().isVirtual());
    assertEquals(1, destroyed.get());
  }

  /** Nor does a thread destroy what it only leaves, or gives up: it would wait. */
  @Test
  void aThreadThatDoesNotWaitHasItDestroyed() {
    slow().closeSoon();
    assertNotEquals(Thread.currentThread(), destroyer.join());
  }

  @Test
  void aThreadThatLeavesHasItDestroyed() throws Exception {
    Handle handle = slow();
    handle.enter();
    Thread closing = Thread.ofPlatform().start(handle::close);
    Wait.until("the close begins", handle::isClosed);
    assertThrows(IllegalStateException.class, handle::enter);
    handle.enterLate();
    handle.exit();
    assertEquals(0, destroyed.get());
    handle.exit();
    closing.join();
    assertNotEquals(Thread.currentThread(), destroyer.join());
    assertEquals(1, destroyed.get());
  }

  /** An object whose destruction fails is gone all the same. */
  @Test
  void aDestructionThatFails() {
    Handle handle = Handle.of(this, 7, address -> {
      throw new IllegalArgumentException("by the program");
    });
    assertThrows(IllegalArgumentException.class, handle::close);
    assertTrue(handle.isClosed());
    handle.close();
    assertTrue(handle.closeBy(LATE));
  }

  @Test
  void callbacksDoNotWait() {
    Handle slow = slow(), fast = fast(), used = fast();
    used.enter();
    inCallback(() -> {
      assertTrue(refused(slow).getMessage().contains("Handle")); // the owner's name; it has work, which may be what called back
      refused(used);
      fast.close();
      fast.close();
      Handle given = slow();
      given.closeSoon();
    });
    slow.enter();
    slow.exit();
    used.exit();
    used.close();
    slow.close();
    inCallback(slow::close); // it is gone
  }

  /** A listener is called by Java: it waits for no call, which may be the one that called it, and for work it may. */
  @Test
  void listenersWaitForNoCall() {
    Handle used = fast(), slow = slow();
    used.enter();
    AtomicReference<OrtFFMException> refusal = new AtomicReference<>();
    Threads.tell(() -> {
      refusal.set(refused(used));
      slow.close();
    });
    assertTrue(refusal.get().getMessage().contains("a call is in it"));
    assertTrue(slow.isClosed());
    used.exit();
    used.close();
  }

  /** What an object used may close it once more while it is destroyed; that waits for nothing, which would be for itself. */
  @Test
  @Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void aDestructionThatClosesAgain() {
    Handle[] own = new Handle[1];
    AtomicInteger closes = new AtomicInteger();
    Runnable close = () -> {
      own[0].close();
      assertTrue(own[0].closeBy(NOW));
      closes.incrementAndGet();
    };
    own[0] = Handle.of(this, 7, address -> close.run()); // a callback that this package does not know
    own[0].close();
    own[0] = Handle.of(this, 7, address -> inCallback(close));
    own[0].close();
    assertEquals(2, closes.get());
    own[0].close();
  }
}
