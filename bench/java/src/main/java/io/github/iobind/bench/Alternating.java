package io.github.iobind.bench;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * All sides of this process in turn, step by step, in one thread, whose processor time is taken: what a busy machine disturbs
 * least. Prints the medians and the median ratio to raw C.
 */
public final class Alternating {
  private static final int WARM_UP = 150;
  private static final int ROUNDS = 250;
  private static final int CALLS = 4;

  private Alternating() {}

  /** One measured call. */
  private interface Call {
    void run() throws Throwable;
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
    Map<String, Call> calls = new LinkedHashMap<>();
    calls.put("bound_raw", () -> cases.bound_raw(bound));
    calls.put("bound_iobind", () -> cases.bound_iobind(bound));
    calls.put("bound_official", () -> cases.bound_official(bound));
    calls.put("naive_raw", () -> cases.naive_raw(naive));
    calls.put("naive_iobind", () -> cases.naive_iobind(naive));
    calls.put("naive_iobindValues", () -> cases.naive_iobindValues(naive));
    calls.put("naive_official", () -> cases.naive_official(naive));
    calls.put("grow_raw", () -> cases.grow_raw(grow));
    calls.put("grow_iobind", () -> cases.grow_iobind(grow));
    calls.put("grow_iobindByHand", () -> cases.grow_iobindByHand(grow));
    calls.put("grow_official", () -> cases.grow_official(grow));
    calls.put("data_raw", () -> cases.data_raw(data));
    calls.put("data_iobind", () -> cases.data_iobind(data));
    calls.put("data_official", () -> cases.data_official(data));
    var times = measure(calls);
    System.out.printf("%-20s %9s %9s%n", "case_side", "CPU ns", "to raw C");
    times.forEach((name, all) -> {
      List<Double> raw = times.get(name.substring(0, name.indexOf('_')) + "_raw"), ratios = new ArrayList<>();
      for (int i = 0; i < all.size(); i++) ratios.add(all.get(i) / raw.get(i));
      System.out.printf("%-20s %9.0f %9.2f%n", name, median(all), median(ratios));
    });
    bound.close();
    naive.close();
    grow.close();
    data.close();
  }

  private static Map<String, List<Double>> measure(Map<String, Call> calls) throws Throwable {
    var threads = ManagementFactory.getThreadMXBean();
    Map<String, List<Double>> times = new LinkedHashMap<>();
    for (int round = 0; round < WARM_UP + ROUNDS; round++) {
      for (Map.Entry<String, Call> call : calls.entrySet()) {
        long start = threads.getCurrentThreadCpuTime();
        for (int i = 0; i < CALLS; i++) call.getValue().run();
        double time = (threads.getCurrentThreadCpuTime() - start) / (double) (CALLS * Side.STEPS);
        if (round >= WARM_UP) times.computeIfAbsent(call.getKey(), name -> new ArrayList<>()).add(time);
      }
    }
    return times;
  }

  private static double median(List<Double> numbers) {
    List<Double> sorted = new ArrayList<>(numbers);
    Collections.sort(sorted);
    return sorted.get(sorted.size() / 2);
  }
}
