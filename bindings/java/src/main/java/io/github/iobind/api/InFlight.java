package io.github.iobind.api;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;

/**
 * The work on a stream that needs something until the stream has passed it: memory of the caller's, held, or a session that
 * somebody else will close. It is over for Java when the caller has been told that it passed: by the stream, an event behind
 * it, or an output that was fetched. Nobody waits for it behind the caller's back, for libiobind would count that as telling him.
 */
final class InFlight {
  private final ArrayDeque<Work> works = new ArrayDeque<>();

  /** One piece of it. */
  final class Work {
    private final OrtEventFFM behind;
    private final Hold hold;
    private final Runnable passed;
    private boolean isOver;

    private Work(OrtEventFFM behind, Hold hold, Runnable passed) {
      this.behind = behind;
      this.hold = hold;
      this.passed = passed;
    }

    boolean isOver() {
      synchronized (works) {
        return isOver;
      }
    }

    /** The caller knows that the stream has passed this work, and with it all before. */
    void passed() {
      InFlight.this.passed(this);
    }

    /** Waits for the work, for a caller who closes what it needs; false if it timed out. */
    boolean await(Deadline deadline) {
      if (isOver()) return true;
      try {
        if (!behind.hasPassed(deadline.left())) return false;
      } catch (IllegalStateException closed) { // another thread has seen it pass
        return isOver();
      } catch (OrtFFMException failed) { // said to whoever asks the stream
        passed();
        return true;
      }
      passed();
      return true;
    }

    private void end() {
      isOver = true;
      try {
        behind.closeSoon(); // a thread that waits for it goes on in a moment
      } finally {
        try {
          if (hold != null) hold.end();
        } finally {
          passed.run();
        }
      }
    }
  }

  /** The last piece of work; null where all is over. */
  Work last() {
    synchronized (works) {
      return works.peekLast();
    }
  }

  /** All work has passed. */
  void passed() {
    passed(last());
  }

  /** This work, and with it all before, has passed; null: nothing has. */
  void passed(Work last) {
    if (last == null) return;
    synchronized (works) {
      if (last.isOver) return;
      Work work;
      do {
        work = works.removeFirst();
        work.end();
      } while (work != last);
    }
  }

  /**
   * Submits work that needs memory, or something else, until it has passed.
   *
   * @param memory null: none
   * @param passed is done then, or where nothing was submitted
   */
  Work submit(OrtStreamFFM stream, MemorySegment[] memory, Runnable submit, Runnable passed) {
    Hold hold = null;
    OrtEventFFM behind = null;
    Work work = null;
    long address = OrtStreamFFM.enter(stream); // a close of the stream waits until the work is listed, which it ends
    try {
      if (memory != null) hold = Hold.begin(memory);
      behind = stream.event();
      try {
        submit.run();
      } finally {
        synchronized (works) { // in the stream's order, whatever other threads submit
          behind.record(this, address); // also where a part was submitted before another failed
          work = new Work(behind, hold, passed);
          works.addLast(work);
        }
      }
      return work;
    } finally {
      if (work == null) {
        if (behind != null) behind.closeSoon();
        if (hold != null) hold.end();
        passed.run();
      }
      OrtStreamFFM.exit(stream);
    }
  }
}
