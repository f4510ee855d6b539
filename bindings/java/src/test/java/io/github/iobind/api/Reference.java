package io.github.iobind.api;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.DoubleUnaryOperator;
import java.util.function.IntToDoubleFunction;
import java.util.stream.LongStream;

/** What the test models compute, in plain Java. */
final class Reference {
  private final Map<String, String> parameters = new HashMap<>();
  private final String model;
  private final List<Mirror> inputs;
  private final List<Mirror> outputs = new ArrayList<>();

  private Reference(String spec, List<Mirror> inputs) {
    String[] words = spec.split(" ");
    model = words[0];
    for (int i = 1; i < words.length; i++) parameters.put(words[i].split("=")[0], words[i].split("=", 2)[1]);
    this.inputs = inputs;
  }

  /** The outputs of a model by its spec. */
  static List<Mirror> run(String spec, List<Mirror> inputs) {
    Reference reference = new Reference(spec, inputs);
    reference.run();
    return reference.outputs;
  }

  private long parameter(String key, String fallback) {
    return Long.parseLong(parameters.getOrDefault(key, fallback));
  }

  private static OnnxTensorElementType type(String name) {
    return OnnxTensorElementType.valueOf(name.toUpperCase(Locale.ROOT));
  }

  private Mirror make(OnnxTensorElementType type, long... dims) {
    Mirror output = Mirror.of(type, dims);
    Arrays.fill(output.bytes(), (byte) 0);
    outputs.add(output);
    return output;
  }

  private void fill(Mirror output, IntToDoubleFunction element) {
    for (int i = 0; i < output.count(); i++) output.set(i, element.applyAsDouble(i));
  }

  private void same(Mirror x) {
    outputs.add(x.copy());
  }

  private void each(Mirror x, DoubleUnaryOperator f) {
    fill(make(x.type(), x.dims()), i -> f.applyAsDouble(x.get(i)));
  }

  /** Elements behind one step of an axis. */
  private static int stride(long[] dims, int axis) {
    return Mirror.count(Arrays.copyOfRange(dims, axis + 1, dims.length));
  }

  private void run() {
    Mirror x = inputs.isEmpty() ? null : inputs.get(0), y = inputs.size() > 1 ? inputs.get(1) : null;
    switch (model) {
      case "identity" -> same(x);
      case "add" -> fill(make(x.type(), x.dims()), i -> x.get(i) + y.get(i));
      case "scale" -> {
        long factor = parameter("factor", "2");
        each(x, e -> factor * e);
      }
      case "unused" -> each(x, e -> 2 * e);
      case "multi" -> {
        each(x, e -> 2 * e);
        each(x, e -> e * e);
        same(x);
      }
      case "passthrough" -> {
        same(x);
        each(x, e -> 2 * e);
      }
      case "if" -> {
        boolean taken = x.get(0) != 0;
        each(y, e -> taken ? 2 * e : e * e);
      }
      case "loop" -> each(y, e -> e + x.get(0));
      case "cast" -> fill(make(type(parameters.getOrDefault("to", "float16")), x.dims()), x::get);
      case "matmul" -> {
        int inner = (int) x.dims()[1], columns = (int) y.dims()[1];
        fill(make(x.type(), x.dims()[0], columns), i -> {
          double sum = 0;
          for (int k = 0; k < inner; k++) sum += x.get(i / columns * inner + k) * y.get(k * columns + i % columns);
          return sum;
        });
      }
      case "outer" -> {
        int columns = (int) y.dims()[1];
        fill(make(x.type(), x.dims()[0], columns), i -> x.get(i / columns) * y.get(i % columns));
      }
      case "reduce" -> reduce(x, (int) parameter("axis", "0"));
      case "transpose" -> transpose(x);
      case "concat" -> concat(x, y, (int) parameter("axis", "0"));
      case "grow" -> {
        Mirror row = inputs.get(2), turned = Mirror.of(row.type(), row.dims()[1], row.dims()[0]);
        for (int i = 0; i < row.count(); i++) turned.set(i % 3 * (int) row.dims()[0] + i / 3, row.get(i));
        concat(x, row, 0);
        concat(y, turned, 1);
      }
      case "lookup" -> {
        int columns = (int) parameter("columns", "4");
        fill(make(OnnxTensorElementType.FLOAT32, x.dims()[0], columns),
            i -> ((long) x.get(i / columns) * columns + i % columns) % 8191);
      }
      case "nonzero" -> nonzero(x);
      case "reshape" -> {
        Mirror output = make(x.type(), dims(y));
        output.put(0, x.content());
      }
      case "expand" -> fill(make(x.type(), dims(y)), i -> x.get(i % x.count()));
      case "shape" -> fill(make(OnnxTensorElementType.INT64, x.dims().length), i -> x.dims()[i]);
      case "constant" -> {
        String dims = parameters.getOrDefault("dims", "2,3");
        fill(make(type(parameters.getOrDefault("dtype", "float32")),
            Arrays.stream(dims.split(",")).mapToLong(Long::parseLong).toArray()), i -> i + 1);
      }
      case "decoder" -> decoder(x, y, inputs.get(2));
      default -> throw new IllegalArgumentException("no reference for '" + model + "'");
    }
  }

  private static long[] dims(Mirror shape) {
    return LongStream.range(0, shape.count()).map(i -> (long) shape.get((int) i)).toArray();
  }

  private void reduce(Mirror x, int axis) {
    int inner = stride(x.dims(), axis), steps = (int) x.dims()[axis];
    long[] dims = new long[x.dims().length - 1];
    for (int i = 0; i < dims.length; i++) dims[i] = x.dims()[i < axis ? i : i + 1];
    fill(make(x.type(), dims), i -> {
      double sum = 0;
      for (int k = 0; k < steps; k++) sum += x.get((i / inner * steps + k) * inner + i % inner);
      return sum;
    });
  }

  private void transpose(Mirror x) {
    int[] order = Arrays.stream(parameters.getOrDefault("order", "1,0").split(",")).mapToInt(Integer::parseInt).toArray();
    long[] dims = Arrays.stream(order).mapToLong(axis -> x.dims()[axis]).toArray();
    fill(make(x.type(), dims), i -> {
      int from = 0, rest = i;
      for (int k = 0; k < dims.length; k++) {
        int step = stride(dims, k);
        from += rest / step * stride(x.dims(), order[k]);
        rest %= step;
      }
      return x.get(from);
    });
  }

  private void concat(Mirror first, Mirror second, int axis) {
    long[] dims = first.dims().clone();
    dims[axis] += second.dims()[axis];
    int inner = stride(dims, axis), split = (int) first.dims()[axis], steps = (int) dims[axis];
    fill(make(first.type(), dims), i -> {
      int row = i / inner / steps, step = i / inner % steps, column = i % inner;
      return step < split ? first.get((row * split + step) * inner + column)
          : second.get((row * (steps - split) + step - split) * inner + column);
    });
  }

  private void nonzero(Mirror x) {
    List<Integer> found = new ArrayList<>();
    for (int i = 0; i < x.count(); i++) {
      if (x.get(i) != 0) found.add(i);
    }
    int rank = x.dims().length;
    Mirror output = make(OnnxTensorElementType.INT64, rank, found.size());
    fill(output, i -> found.get(i % found.size()) / stride(x.dims(), i / found.size()) % (int) x.dims()[i / found.size()]);
  }

  /** The decoder's table: numbers of eighths, so that all that it computes without a softmax is exact. */
  private static double table(double token, int column) {
    return (((long) token * 7 + column * 5) % 13 - 6) / 8.0;
  }

  /** {@code past}, and a row for each new token: the table's, times {@code factor}. */
  private static Mirror append(Mirror tokens, Mirror past, double factor) {
    int width = (int) past.dims()[1], before = past.count();
    Mirror all = Mirror.of(past.type(), past.dims()[0] + tokens.dims()[0], width);
    for (int i = 0; i < all.count(); i++) {
      all.set(i, i < before ? past.get(i) : factor * table(tokens.get((i - before) / width), i % width));
    }
    return all;
  }

  private void decoder(Mirror tokens, Mirror pastKey, Mirror pastValue) {
    if (parameter("softmax", "1") != 0) throw new IllegalArgumentException("no reference for a decoder with a softmax");
    int vocab = (int) parameter("vocab", "16");
    Mirror keys = append(tokens, pastKey, 1), values = append(tokens, pastValue, 0.5);
    int width = (int) keys.dims()[1], total = (int) keys.dims()[0];
    Mirror logits = make(keys.type(), tokens.dims()[0], vocab);
    outputs.add(keys);
    outputs.add(values);
    Mirror weights = make(keys.type(), tokens.dims()[0], total);
    fill(weights, i -> {
      double sum = 0;
      for (int k = 0; k < width; k++) sum += table(tokens.get(i / total), k) * keys.get(i % total * width + k);
      return sum;
    });
    fill(logits, i -> {
      double sum = 0;
      for (int k = 0; k < width * total; k++) {
        sum += weights.get(i / vocab * total + k / width) * values.get(k) * table(i % vocab + 1, k % width);
      }
      return sum;
    });
  }
}
