package io.github.iobind.api;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads the conformance rows of the C tests; tests/conformance/README.md says what the columns mean. */
final class CaseFile {
  /** One row, its value put in. */
  record Row(String name, String needs, String model, String steps, int line) {}

  private CaseFile() {}

  static List<Row> read(Path path) throws IOException {
    List<Row> rows = new ArrayList<>();
    Map<String, String> lists = new HashMap<>();
    boolean headerSeen = false;
    int number = 0;
    for (String line : Files.readAllLines(path)) {
      number++;
      if (line.isEmpty() || line.startsWith("#")) continue;
      String[] columns = line.split("\t", -1);
      if (line.startsWith("=")) {
        lists.put(columns[0], columns[1]);
      } else if (!headerSeen) {
        headerSeen = true;
      } else {
        for (String value : values(columns[1], lists)) {
          UnaryOperator<String> put = text -> substitute(text, value);
          rows.add(new Row(put.apply(columns[0]), put.apply(columns[2]), put.apply(columns[3]), put.apply(columns[4]), number));
        }
      }
    }
    return rows;
  }

  private static List<String> values(String each, Map<String, String> lists) {
    if (each.isEmpty()) return List.of("");
    List<String> values = new ArrayList<>();
    for (String word : each.trim().split(" +")) {
      if (word.startsWith("=")) {
        values.addAll(values(lists.get(word), lists));
      } else {
        values.add(word);
      }
    }
    return values;
  }

  private static String substitute(String text, String value) {
    String[] parts = value.split(":", -1);
    return Pattern.compile("@([1-9])?").matcher(text).replaceAll(m -> {
      String part = m.group(1) == null ? value : Integer.parseInt(m.group(1)) <= parts.length
          ? parts[Integer.parseInt(m.group(1)) - 1] : "";
      return Matcher.quoteReplacement(part);
    });
  }

  /** Cuts a step into words at blanks; 'quotes' hold a word with blanks together. */
  static List<String> words(String step) {
    List<String> words = new ArrayList<>();
    Matcher matcher = Pattern.compile("'([^']*)'|(\\S+)").matcher(step);
    while (matcher.find()) words.add(matcher.group(1) != null ? matcher.group(1) : matcher.group(2));
    return words;
  }
}
