package io.github.iobind.bench;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Rounds of JMH, each with every case and side in turn, so that what slows the machine slows all of them: {@code Main [ROUNDS
 * [PATTERN]]}. Prints the medians over the rounds, the median of the rounds' ratios to raw C, and the ratio of the best times,
 * which a busy machine disturbs least.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 5;
    Map<String, List<Double>> medians = new TreeMap<>(), bests = new TreeMap<>();
    for (int round = 0; round < rounds; round++) {
      var options = new OptionsBuilder().include(arguments.length > 1 ? arguments[1] : "Cases").forks(1).warmupIterations(3)
          .warmupTime(TimeValue.milliseconds(400)).measurementIterations(10).measurementTime(TimeValue.milliseconds(150))
          .verbosity(VerboseMode.SILENT).shouldFailOnError(true).build();
      for (RunResult result : new Runner(options).run()) {
        Result<?> primary = result.getPrimaryResult();
        medians.computeIfAbsent(primary.getLabel(), l -> new ArrayList<>()).add(primary.getStatistics().getPercentile(50));
        bests.computeIfAbsent(primary.getLabel(), l -> new ArrayList<>()).add(primary.getStatistics().getMin());
      }
      System.err.println("round " + (round + 1) + " of " + rounds);
    }
    System.out.printf("%-20s %10s %9s %9s   ratio to raw C in each round%n", "case_side", "median ns", "to raw C", "best to");
    medians.forEach((label, all) -> {
      String raw = label.substring(0, label.indexOf('_')) + "_raw";
      if (!medians.containsKey(raw)) return;
      List<Double> ratios = new ArrayList<>();
      for (int i = 0; i < all.size(); i++) ratios.add(all.get(i) / medians.get(raw).get(i));
      System.out.printf("%-20s %10.0f %9.2f %9.2f  %s%n", label, median(all), median(ratios),
          Collections.min(bests.get(label)) / Collections.min(bests.get(raw)),
          ratios.stream().map(" %.2f"::formatted).collect(Collectors.joining()));
    });
  }

  private static double median(List<Double> numbers) {
    List<Double> sorted = numbers.stream().sorted().toList();
    return sorted.get(sorted.size() / 2);
  }
}
