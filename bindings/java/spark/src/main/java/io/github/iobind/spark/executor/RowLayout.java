package io.github.iobind.spark.executor;

import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.api.OrtValueInfo;
import io.github.iobind.api.OutputMode;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;

/** How rows form the inputs of a model: the first dim is the number of rows, the others are those of a row. */
final class RowLayout {
  private final List<OrtValueInfo> inputs;
  private final List<OrtValueInfo> outputs;
  /** The host memory that a prepared binding reads in each run. */
  private final Map<OrtIoBindingFFM, Map<String, MemorySegment>> staging = Collections.synchronizedMap(new WeakHashMap<>());

  /** The dims of an input, the first of which, the number of rows, may be -1. */
  private final Map<String, long[]> shapes = new HashMap<>();

  RowLayout(OrtSessionFFM session, Map<String, List<Long>> rows) {
    inputs = session.inputs();
    outputs = session.outputs();
    for (String name : rows.keySet()) session.inputIndex(name); // whose error lists the inputs
    for (OrtValueInfo input : inputs) {
      if (input.kind() != OrtValueInfo.Kind.TENSOR || input.type().bits() < 8 || !input.hasShape() || input.shape().isEmpty()) {
        throw new IllegalArgumentException("input '" + input.name() + "': expected a tensor of whole bytes whose first dim counts rows, got "
            + input.type() + " " + input.shape());
      }
      shapes.put(input.name(), shape(input, rows.get(input.name())));
    }
  }

  private static long[] shape(OrtValueInfo input, List<Long> row) {
    long[] shape = input.shape().stream().mapToLong(Long::longValue).toArray();
    if (row != null && row.size() != shape.length - 1) {
      throw new IllegalArgumentException("input '" + input.name() + "': the model declares " + input.shape()
          + ", which does not fit the row shape " + row);
    }
    for (int i = 1; i < shape.length; i++) {
      if (shape[i] < 0 && row == null) {
        throw new IllegalArgumentException("input '" + input.name() + "': dim " + i + " of " + input.shape()
            + " is open: set the shape of a row by row(\"" + input.name() + "\", ...)");
      }
      if (row != null) shape[i] = row.get(i - 1); // binding refuses dims that do not fit the model
    }
    return shape;
  }

  /** The number of rows in a run that has `rows` rows to compute: the model's number if it is fixed. */
  long capacity(long rows) {
    for (OrtValueInfo input : inputs) {
      long fixed = input.shape().getFirst();
      if (fixed >= 0 && fixed < rows) {
        throw new IllegalArgumentException("input '" + input.name() + "' takes " + fixed + " rows, got a batch of " + rows);
      }
      if (fixed >= 0) return fixed;
    }
    return rows;
  }

  private MemoryDescriptor descriptor(OrtValueInfo input, long rows) {
    long[] shape = shapes.get(input.name()).clone();
    shape[0] = rows;
    return MemoryDescriptor.of(input.type(), shape);
  }

  /** Binds host memory for `rows` rows, which each run reads, and outputs in host memory. */
  void prepare(OrtIoBindingFFM binding, long rows) {
    Map<String, MemorySegment> memory = new HashMap<>();
    for (OrtValueInfo input : inputs) {
      MemorySegment segment = allocate(Arena.ofAuto(), input, rows);
      binding.bindInput(input.name(), segment, descriptor(input, rows));
      memory.put(input.name(), segment);
    }
    for (int i = 0; i < outputs.size(); i++) binding.bindOutputToDevice(i, DeviceSpec.CPU, OutputMode.REUSE);
    staging.put(binding, memory);
  }

  Map<String, MemorySegment> staging(OrtIoBindingFFM binding) {
    return staging.get(binding);
  }

  private MemorySegment allocate(Arena arena, OrtValueInfo input, long rows) {
    return arena.allocate(Math.max(1, descriptor(input, rows).byteSize()), 64).asSlice(0, descriptor(input, rows).byteSize());
  }

  /** Host memory for `rows` rows. */
  Map<String, MemorySegment> allocate(Arena arena, long rows) {
    Map<String, MemorySegment> memory = new HashMap<>();
    for (OrtValueInfo input : inputs) memory.put(input.name(), allocate(arena, input, rows));
    return memory;
  }

  /** Descriptors of the inputs for `rows` rows. */
  Map<String, MemoryDescriptor> descriptors(long rows) {
    Map<String, MemoryDescriptor> result = new LinkedHashMap<>();
    for (OrtValueInfo input : inputs) result.put(input.name(), descriptor(input, rows));
    return result;
  }

  /** A row's part of memory for `rows` rows. */
  static Map<String, ByteBuffer> part(Map<String, MemorySegment> memory, long row, long rows, boolean isReadOnly) {
    Map<String, ByteBuffer> parts = new HashMap<>();
    memory.forEach((name, segment) -> {
      long bytes = segment.byteSize() / rows;
      ByteBuffer buffer = segment.asSlice(row * bytes, bytes).asByteBuffer();
      parts.put(name, (isReadOnly ? buffer.asReadOnlyBuffer() : buffer).order(ByteOrder.nativeOrder()));
    });
    return Collections.unmodifiableMap(parts); // a buffer that a codec puts into the map would be ignored
  }

  /** An output whose first dim does not count the rows cannot be cut into them. */
  static void requireRows(String output, long[] shape, long rows) {
    if (shape.length == 0 || shape[0] != rows) {
      throw new IllegalArgumentException("output '" + output + "': expected " + rows + " rows in the first dim, got "
          + Arrays.toString(shape));
    }
  }
}
