package io.github.iobind.spark.executor;

import io.github.iobind.spark.RowCodec;
import java.lang.foreign.MemorySegment;
import java.nio.BufferOverflowException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** A task's calls of its codec, whose mistakes are told with the number of the row in the partition, from 0. */
final class RowCalls<I, O> {
  private final RowCodec<I, O> codec;
  private long written;
  private long read;

  RowCalls(RowCodec<I, O> codec) {
    this.codec = codec;
  }

  /** Writes rows into memory for so many. */
  void write(List<I> rows, Map<String, MemorySegment> inputs, long capacity) {
    for (int i = 0; i < rows.size(); i++, written++) {
      Map<String, ByteBuffer> parts = RowLayout.part(inputs, i, capacity, false);
      try {
        codec.write(rows.get(i), parts);
      } catch (BufferOverflowException | IndexOutOfBoundsException e) {
        throw new IllegalStateException("RowCodec.write: row " + written + ": an access beyond an end: " + sizes("input", parts), e);
      }
    }
  }

  /** Makes rows of memory for so many. */
  void read(List<I> rows, Map<String, MemorySegment> outputs, long capacity, Queue<O> done) {
    for (int i = 0; i < rows.size(); i++, read++) {
      Map<String, ByteBuffer> parts = RowLayout.part(outputs, i, capacity, true);
      O made;
      try {
        made = codec.read(rows.get(i), parts);
      } catch (BufferUnderflowException | IndexOutOfBoundsException e) {
        throw new IllegalStateException("RowCodec.read: row " + read + ": an access beyond an end: " + sizes("output", parts), e);
      }
      if (made == null) {
        throw new IllegalStateException("RowCodec.read: row " + read + ": expected a row, got null: what is to be left out is filtered out "
            + "behind mapPartitions");
      }
      done.add(made);
    }
  }

  private static String sizes(String what, Map<String, ByteBuffer> parts) {
    return new TreeMap<>(parts).entrySet().stream()
        .map(part -> what + " '" + part.getKey() + "' has " + part.getValue().limit() + " bytes")
        .collect(Collectors.joining(", "));
  }
}
