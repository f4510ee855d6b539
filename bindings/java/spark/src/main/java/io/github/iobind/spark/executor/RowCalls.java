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
import java.util.stream.IntStream;
import org.apache.spark.sql.Row;

/** A task's calls of its codec. Errors name the row by its number in the partition, from 0, and the inputs, outputs or columns. */
final class RowCalls<I, O> {
  private final RowCodec<I, O> codec;
  private long written;
  private long read;

  RowCalls(RowCodec<I, O> codec) {
    this.codec = codec;
  }

  /** Writes rows into memory for `capacity` rows. */
  void write(List<I> rows, Map<String, MemorySegment> inputs, long capacity) {
    for (int i = 0; i < rows.size(); i++, written++) {
      Map<String, ByteBuffer> parts = RowLayout.part(inputs, i, capacity, false);
      I row = rows.get(i);
      try {
        codec.write(row, parts);
      } catch (RuntimeException e) {
        throw failure("write", written, row, "input", parts, e);
      }
      requireFull(parts);
    }
  }

  /** Bytes that a row does not write are another row's, of an earlier run. */
  private void requireFull(Map<String, ByteBuffer> parts) {
    parts.forEach((name, part) -> {
      if (part.position() == part.capacity()) return;
      throw new IllegalStateException("RowCodec.write: row " + written + ": input '" + name + "': expected " + part.capacity()
          + " bytes, got " + part.position() + ": each row must fill its part, and set its position to the end; after absolute "
          + "puts, or puts into a view such as asFloatBuffer(), call position(limit())");
    });
  }

  /** An exception of a codec, as the failure of the task. */
  private static IllegalStateException failure(String method, long number, Object row, String what, Map<String, ByteBuffer> parts,
      RuntimeException e) {
    boolean isBeyond = e instanceof BufferOverflowException || e instanceof BufferUnderflowException || e instanceof IndexOutOfBoundsException;
    return new IllegalStateException("RowCodec." + method + ": row " + number + ": "
        + (isBeyond ? "access beyond the end: " + positions(what, parts) : nulls(row) + e), e);
  }

  /** The columns of a Spark row that are null; empty for other rows. */
  private static String nulls(Object object) {
    if (!(object instanceof Row row)) return "";
    String[] names = row.schema() == null ? null : row.schema().fieldNames();
    return IntStream.range(0, row.length()).filter(row::isNullAt)
        .mapToObj(i -> "column " + (names == null ? i : "'" + names[i] + "'") + " is null: ").collect(Collectors.joining());
  }

  /** Makes rows from memory for `capacity` rows. */
  void read(List<I> rows, Map<String, MemorySegment> outputs, long capacity, Queue<O> done) {
    for (int i = 0; i < rows.size(); i++, read++) {
      Map<String, ByteBuffer> parts = RowLayout.part(outputs, i, capacity, true);
      I row = rows.get(i);
      O made;
      try {
        made = codec.read(row, parts);
      } catch (RuntimeException e) {
        throw failure("read", read, row, "output", parts, e);
      }
      if (made == null) {
        throw new IllegalStateException("RowCodec.read: row " + read + ": expected a row, got null: filter rows out "
            + "after mapPartitions");
      }
      done.add(made);
    }
  }

  private static String positions(String what, Map<String, ByteBuffer> parts) {
    return new TreeMap<>(parts).entrySet().stream()
        .map(part -> what + " '" + part.getKey() + "' is at " + part.getValue().position() + " of " + part.getValue().capacity() + " bytes")
        .collect(Collectors.joining(", "));
  }
}
