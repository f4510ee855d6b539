package io.github.iobind.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.OrtFFMException;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.spark.executor.SparkBindings;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What a task does, in a JVM without Spark's own. With Spark: make test-spark. */
class SparkModelsTest {
  @TempDir
  private static Path folder;

  /** A row is a number; the model doubles each of four of them. */
  private static final class Fours implements RowCodec<Integer, String> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(Integer row, Map<String, ByteBuffer> inputs) {
      ByteBuffer x = inputs.values().iterator().next();
      assertEquals(16, x.remaining());
      for (int i = 0; i < 4; i++) x.putFloat(row + i);
    }

    @Override
    public String read(Integer row, Map<String, ByteBuffer> outputs) {
      ByteBuffer y = outputs.values().iterator().next();
      assertTrue(y.isReadOnly() && y.remaining() == 16);
      return row + ": " + y.getFloat() + " to " + y.getFloat(12);
    }
  }

  private static SessionSpec spec(String model) throws Exception {
    Path file = folder.resolve("m.onnx");
    List<String> command = new ArrayList<>(List.of(System.getProperty("iobind.build") + "/bin/make-model"));
    command.addAll(List.of(model.split(" ")));
    command.add(file.toString());
    assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
    return SessionSpec.of(file.toString());
  }

  /** As Spark sends it. */
  @SuppressWarnings("unchecked")
  private static <T> T sent(T object) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(object);
    }
    try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      return (T) in.readObject();
    }
  }

  private static <O> List<O> rows(MapPartitionsFunction<Integer, O> function, int count) throws Exception {
    List<O> rows = new ArrayList<>();
    function.call(IntStream.range(0, count).boxed().iterator()).forEachRemaining(rows::add);
    return rows;
  }

  private static List<String> expected(int count) {
    return IntStream.range(0, count).mapToObj(i -> i + ": " + 2f * i + " to " + 2f * (i + 3)).toList();
  }

  @AfterEach
  void release() {
    SparkModels.release();
  }

  @ParameterizedTest
  @CsvSource({"cpu,3,0", "cpu,3,2", "cpu,100,0", "vdev,3,0", "vdev,3,3", "vdev,1,2"})
  void everyRowInOrder(String device, int batch, int slots) throws Exception {
    SessionSpec spec = spec("scale dims=n,4").device(device);
    for (int count : new int[] {0, 1, 10}) {
      var function = slots == 0 ? SparkModels.byBatch(spec, batch, new Fours()) : SparkModels.byPipeline(spec, batch, slots, new Fours());
      assertEquals(expected(count), rows(sent(function), count));
    }
    SparkModels.release();
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      assertEquals(0, runtime.counters(DeviceSpec.of(device)).allocatedBytes());
    }
  }

  /** A model whose first dim is fixed gets whole batches; what is beyond the rows is not read. */
  @ParameterizedTest
  @CsvSource({"cpu,0", "vdev,2"})
  void aFixedNumberOfRows(String device, int slots) throws Exception {
    SessionSpec spec = spec("scale dims=4,4").device(device);
    var function = slots == 0 ? SparkModels.byBatch(spec, 4, new Fours()) : SparkModels.byPipeline(spec, 4, slots, new Fours());
    assertEquals(expected(10), rows(function, 10));
    var more = SparkModels.byBatch(spec, 5, new Fours());
    assertTrue(assertThrows(IllegalArgumentException.class, () -> rows(more, 5)).getMessage().endsWith("takes 4 rows, got a batch of 5"));
  }

  @Test
  void byBinding() throws Exception {
    SparkBindings.Task<Integer, Float> task = (binding, rows) -> {
      Iterator<Integer> in = rows;
      float[] y = new float[4];
      return new Iterator<>() {
        @Override
        public boolean hasNext() {
          return in.hasNext();
        }

        @Override
        public Float next() {
          binding.bindInput(0, new float[] {in.next(), 1, 2, 3}, 1, 4);
          binding.bindOutputToDevice(0, DeviceSpec.CPU, io.github.iobind.api.OutputMode.REUSE);
          binding.runWithBindings();
          binding.readOutput(0, y);
          return y[0];
        }
      };
    };
    assertEquals(List.of(0f, 2f, 4f), rows(SparkBindings.byBinding(spec("scale dims=n,4").device("vdev"), task), 3));
  }

  @Test
  void whatIsWrongIsSaid() throws Exception {
    SessionSpec open = spec("scale dims=n,w");
    var shape = SparkModels.byBatch(open, 2, new Fours());
    assertTrue(assertThrows(IllegalArgumentException.class, () -> rows(shape, 1)).getMessage()
        .matches("input '\\w+': dim 1 of .* is open: set the shape of a row by row\\(.*"), "by row");
    assertEquals(expected(3), rows(SparkModels.byBatch(sent(open).freeDimension("w", 4), 2, new Fours()), 3));
    assertEquals(expected(3), rows(SparkModels.byBatch(sent(open).row("x", 4), 2, new Fours()), 3));
    assertThrows(IllegalArgumentException.class, () -> rows(SparkModels.byBatch(sent(open).row("x", 4, 1), 2, new Fours()), 3));
    assertThrows(OrtFFMException.class, () -> rows(SparkModels.byBatch(sent(open).row("none", 4), 2, new Fours()), 3));
    var gpu = SparkModels.byBatch(spec("scale dims=n,4").device("cuda:{gpu}"), 2, new Fours());
    assertTrue(assertThrows(IllegalStateException.class, () -> rows(gpu, 1)).getMessage()
        .startsWith("device 'cuda:{gpu}': the task has no resource 'gpu', only cores: set spark.task.resource.gpu.amount"));
    assertThrows(OrtFFMException.class, () -> rows(SparkModels.byBatch(spec("scale dims=n,4").device("vdev:7"), 2, new Fours()), 1));
    assertEquals("vdev:1", SessionSpec.of("m").device("vdev:{gpu}").device(Map.of("gpu", List.of("1", "0"))));
  }

  /** What a codec does wrong is told with its method and the row. */
  @ParameterizedTest
  @CsvSource({"cpu,0", "vdev,2"})
  void mistakesOfACodec(String device, int slots) throws Exception {
    SessionSpec spec = spec("add dims=n,4").device(device);
    mistake(spec, slots, new Mistaken(5, 4, true),
        "RowCodec.write: row 3: access beyond the end: input 'x' is at 16 of 16 bytes, input 'y' is at 0 of 16 bytes");
    mistake(spec, slots, new Mistaken(4, 5, true),
        "RowCodec.read: row 3: access beyond the end: output 'z' is at 16 of 16 bytes");
    mistake(spec, slots, new Mistaken(3, 4, true), "RowCodec.write: row 3: input 'x': expected 16 bytes, got 12: each row must fill its part, "
        + "and set its position to the end; after absolute puts, or puts into a view such as asFloatBuffer(), call position(limit())");
    mistake(spec, slots, new Mistaken(4, 4, false),
        "RowCodec.read: row 3: expected a row, got null: filter rows out after mapPartitions");
  }

  private static void mistake(SessionSpec spec, int slots, Mistaken codec, String message) {
    var function = slots == 0 ? SparkModels.byBatch(spec, 2, codec) : SparkModels.byPipeline(spec, 2, slots, codec);
    assertEquals(message, assertThrows(IllegalStateException.class, () -> rows(function, 6)).getMessage());
  }

  /** What a codec throws is told with the row, and the columns that are null. */
  @Test
  void whatACodecThrows() throws Exception {
    SessionSpec spec = spec("scale dims=n,4");
    StructType type = new StructType(new StructField[] {new StructField("id", LongType$.MODULE$, true, Metadata.empty()),
        new StructField("four", LongType$.MODULE$, true, Metadata.empty())});
    Row good = new GenericRowWithSchema(new Object[] {null, new byte[16]}, type), bad = new GenericRowWithSchema(new Object[] {2L, null}, type);
    var function = SparkModels.byBatch(spec, 2, new Bytes());
    String message = assertThrows(IllegalStateException.class, () -> function.call(List.of(good, good, good, bad).iterator())
        .forEachRemaining(row -> {})).getMessage();
    assertTrue(message.startsWith("RowCodec.write: row 3: column 'four' is null: java.lang.NullPointerException"), message);
    Row unnamed = RowFactory.create(1L, null);
    message = assertThrows(IllegalStateException.class, () -> function.call(List.of(unnamed).iterator()).hasNext()).getMessage();
    assertTrue(message.startsWith("RowCodec.write: row 0: column 1 is null: java.lang.NullPointerException"), message);
    var replaces = SparkModels.byBatch(spec, 2, new Replaces());
    message = assertThrows(IllegalStateException.class, () -> rows(replaces, 1)).getMessage();
    assertTrue(message.startsWith("RowCodec.write: row 0: java.lang.UnsupportedOperationException"), message);
  }

  /** The bytes of the second column. */
  private record Bytes() implements RowCodec<Row, Float> {
    @Override
    public void write(Row row, Map<String, ByteBuffer> inputs) {
      inputs.get("x").put((byte[]) row.get(1));
    }

    @Override
    public Float read(Row row, Map<String, ByteBuffer> outputs) {
      return outputs.get("y").getFloat();
    }
  }

  /** A buffer of its own, which nobody would read. */
  private record Replaces() implements RowCodec<Integer, Float> {
    @Override
    public void write(Integer row, Map<String, ByteBuffer> inputs) {
      inputs.put("x", ByteBuffer.allocate(16));
    }

    @Override
    public Float read(Integer row, Map<String, ByteBuffer> outputs) {
      return outputs.get("y").getFloat();
    }
  }

  /** Of the row 3 it writes, reads and gives what it is told; of the others what is right. */
  private record Mistaken(int writes, int reads, boolean hasRow) implements RowCodec<Integer, Float> {
    @Override
    public void write(Integer row, Map<String, ByteBuffer> inputs) {
      for (int i = 0; i < (row == 3 ? writes : 4); i++) inputs.get("x").putFloat(row);
      ByteBuffer y = inputs.get("y");
      y.asFloatBuffer().put(new float[4]);
      y.position(y.limit());
    }

    @Override
    public Float read(Integer row, Map<String, ByteBuffer> outputs) {
      float sum = 0;
      ByteBuffer z = outputs.get("z");
      for (int i = 0; i < (row == 3 ? reads : 4); i++) sum += i % 2 == 0 ? z.getFloat(4 * i) : z.position(4 * i).getFloat();
      return row == 3 && !hasRow ? null : (Float) sum;
    }
  }

  /** What a spec has is changed only by its setters, which take no null. */
  @Test
  void aSpecsMaps() {
    SessionSpec spec = SessionSpec.of("m").ep("a", "1").config("b", "2").freeDimension("c", 3).row("d", 4);
    for (Map<?, ?> map : List.of(spec.epOptions(), spec.configEntries(), spec.dims(), spec.rows())) {
      assertEquals(1, map.size());
      assertThrows(UnsupportedOperationException.class, map::clear);
    }
    assertThrows(UnsupportedOperationException.class, () -> spec.rows().get("d").clear());
    assertEquals("value", assertThrows(NullPointerException.class, () -> spec.ep("a", null)).getMessage());
    assertEquals("value", assertThrows(NullPointerException.class, () -> spec.config("a", null)).getMessage());
    assertEquals("name", assertThrows(NullPointerException.class, () -> spec.freeDimension(null, 3)).getMessage());
    assertEquals("input", assertThrows(NullPointerException.class, () -> spec.row(null, 3)).getMessage());
  }

  @Test
  void oneSessionForEqualSpecs() throws Exception {
    SessionSpec spec = spec("scale dims=n,4").device("vdev").config("session.x", "1");
    assertEquals(spec, sent(spec));
    assertEquals(spec.hashCode(), sent(spec).hashCode());
    assertNotEquals(spec, sent(spec).threads(2));
    assertFalse(spec.toString().isEmpty());
  }

  /** Every piece of Java in the document stands in a program that is compiled. */
  @Test
  void theDocument() throws Exception {
    String program = flat(Files.readString(Path.of("src/test/java/io/github/iobind/spark/RowsBench.java")));
    List<String> pieces = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(Path.of("../../../docs/spark.md"))).results()
        .map(piece -> flat(piece.group(1))).toList();
    assertEquals(2, pieces.size());
    for (String piece : pieces) assertTrue(program.contains(piece), piece);
  }

  private static String flat(String text) {
    return text.lines().map(String::strip).collect(Collectors.joining("\n"));
  }

  /** What an older JVM loads first was compiled for it, and says what is missing. */
  @Test
  void anOlderJavaIsTold() throws Exception {
    for (Class<?> type : List.of(SessionSpec.class, RowCodec.class, SparkModels.class, Runs.class)) {
      try (InputStream in = type.getResourceAsStream(type.getSimpleName() + ".class"); DataInputStream data = new DataInputStream(in)) {
        assertEquals(0xCAFEBABE, data.readInt());
        assertEquals(61, data.readInt(), type + ": Java 17's");
      }
    }
    assertTrue(assertThrows(UnsupportedOperationException.class, () -> Runs.requireJava(17)).getMessage()
        .startsWith("iobind-spark: expected a JVM of version 22 or newer (Spark 4.2 supports 25), got 17 at "));
    Runs.requireJava(22);
  }
}
