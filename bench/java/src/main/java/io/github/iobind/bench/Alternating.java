package io.github.iobind.bench;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * All sides in turn, step by step, each in one thread, whose processor time is taken: what a busy machine disturbs least. Python's
 * thread is one of its own process, which tells its time. Prints a line for each case and side: the median nanoseconds of a step,
 * the median ratio to raw C, and the bytes of managed heap that a step makes, -1 for Python.
 */
public final class Alternating {
  private static final int WARM_UP = 150;
  private static final int ROUNDS = 250;
  private static final int CALLS = 4;
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private Alternating() {}

  /** Takes the steps of a side once. */
  private interface Call {
    void run() throws Throwable;
  }

  /** Measures a side: the nanoseconds of some calls. */
  private interface Clock {
    long measure() throws Throwable;
  }

  private static Clock here(Call call) {
    return () -> {
      long start = THREADS.getCurrentThreadCpuTime();
      for (int i = 0; i < CALLS; i++) call.run();
      return THREADS.getCurrentThreadCpuTime() - start;
    };
  }

  private static Clock there(Python python, int steps) {
    return () -> python.steps(CALLS * steps);
  }

  /** Steps that one call of a side takes. */
  private static int steps(String side) {
    if (side.startsWith("voice_")) return Cases.Voice.STEPS;
    return side.startsWith("decoder_") ? Cases.Decoder.STEPS : Side.STEPS;
  }

  public static void main(String[] arguments) throws Throwable {
    Cases cases = new Cases();
    var bound = new Cases.Bound();
    var naive = new Cases.Naive();
    var grow = new Cases.Grow();
    var data = new Cases.Data();
    bound.open();
    naive.open();
    grow.open();
    data.open();
    var cached = new Cases.Cached();
    var voice = new Cases.Voice();
    var decoder = new Cases.Decoder();
    cached.open();
    voice.open();
    decoder.open();
    Map<String, Clock> sides = new LinkedHashMap<>();
    sides.put("bound_raw", here(() -> cases.bound_raw(bound)));
    sides.put("bound_iobind", here(() -> cases.bound_iobind(bound)));
    sides.put("bound_official", here(() -> cases.bound_official(bound)));
    sides.put("bound_python", there(bound.side.python, Side.STEPS));
    sides.put("naive_raw", here(() -> cases.naive_raw(naive)));
    sides.put("naive_iobind", here(() -> cases.naive_iobind(naive)));
    sides.put("naive_iobindValues", here(() -> cases.naive_iobindValues(naive)));
    sides.put("naive_official", here(() -> cases.naive_official(naive)));
    sides.put("naive_python", there(naive.side.python, Side.STEPS));
    sides.put("grow_raw", here(() -> cases.grow_raw(grow)));
    sides.put("grow_iobind", here(() -> cases.grow_iobind(grow)));
    sides.put("grow_iobindByHand", here(() -> cases.grow_iobindByHand(grow)));
    sides.put("grow_official", here(() -> cases.grow_official(grow)));
    sides.put("grow_python", there(grow.side.python, Side.STEPS));
    sides.put("data_raw", here(() -> cases.data_raw(data)));
    sides.put("data_iobind", here(() -> cases.data_iobind(data)));
    sides.put("data_official", here(() -> cases.data_official(data)));
    sides.put("data_python", there(data.side.python, Side.STEPS));
    sides.put("cached_raw", here(() -> cases.cached_raw(cached)));
    sides.put("cached_iobind", here(() -> cases.cached_iobind(cached)));
    sides.put("cached_iobindSame", here(() -> cases.cached_iobindSame(cached)));
    sides.put("cached_iobindSegments", here(() -> cases.cached_iobindSegments(cached)));
    sides.put("cached_iobindKept", here(() -> cases.cached_iobindKept(cached)));
    sides.put("cached_official", here(() -> cases.cached_official(cached)));
    sides.put("cached_python", there(cached.side.python, Side.STEPS));
    sides.put("voice_raw", here(() -> cases.voice_raw(voice)));
    sides.put("voice_iobind", here(() -> cases.voice_iobind(voice)));
    sides.put("voice_official", here(() -> cases.voice_official(voice)));
    sides.put("voice_python", there(voice.side.python, Cases.Voice.STEPS));
    sides.put("decoder_raw", here(() -> cases.decoder_raw(decoder)));
    sides.put("decoder_iobind", here(() -> cases.decoder_iobind(decoder)));
    sides.put("decoder_official", here(() -> cases.decoder_official(decoder)));
    sides.put("decoder_python", there(decoder.side.python, Cases.Decoder.STEPS));
    System.err.println("ONNX Runtime " + bound.side.runtime.ortVersion() + ", Python's " + bound.side.python.version + ", Java "
        + Runtime.version());
    var times = measure(sides);
    for (Map.Entry<String, List<Double>> side : times.entrySet()) {
      String name = side.getKey();
      List<Double> raw = times.get(name.substring(0, name.indexOf('_')) + "_raw"), ratios = new ArrayList<>();
      for (int i = 0; i < raw.size(); i++) ratios.add(side.getValue().get(i) / raw.get(i));
      System.out.printf("%s %.0f %.3f %d%n", name, median(side.getValue()), median(ratios),
          name.endsWith("_python") ? -1 : heap(name, sides.get(name)));
    }
    bound.close();
    naive.close();
    grow.close();
    data.close();
    cached.close();
    voice.close();
    decoder.close();
  }

  private static Map<String, List<Double>> measure(Map<String, Clock> sides) throws Throwable {
    Map<String, List<Double>> times = new LinkedHashMap<>();
    for (int round = 0; round < WARM_UP + ROUNDS; round++) {
      for (Map.Entry<String, Clock> side : sides.entrySet()) {
        double time = side.getValue().measure() / (double) (CALLS * steps(side.getKey()));
        if (round >= WARM_UP) times.computeIfAbsent(side.getKey(), name -> new ArrayList<>()).add(time);
      }
    }
    return times;
  }

  /** Rounded down, which leaves out what the call of a side itself makes. */
  private static long heap(String name, Clock side) throws Throwable {
    long before = THREADS.getCurrentThreadAllocatedBytes();
    side.measure();
    return (THREADS.getCurrentThreadAllocatedBytes() - before) / (CALLS * steps(name));
  }

  private static double median(List<Double> numbers) {
    List<Double> sorted = new ArrayList<>(numbers);
    Collections.sort(sorted);
    return sorted.get(sorted.size() / 2);
  }
}
