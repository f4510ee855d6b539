package io.github.iobind.spark;

import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** RowsBench MODEL TABLE BATCH ROUNDS: for bench/spark, prints what a row of pictures costs in each round, in milliseconds. */
public final class RowsBench {
  private RowsBench() {}

  /** A picture of bytes, row by row, red, green and blue, to planes of floats from -1 to 1. */
  private static final class Pictures implements RowCodec<Row, Float> {
    private static final long serialVersionUID = 1;

    @Override
    public void write(Row row, Map<String, ByteBuffer> inputs) {
      byte[] picture = row.<byte[]>getAs("picture");
      ByteBuffer x = inputs.get("x");
      for (int colour = 0; colour < 3; colour++) {
        for (int i = colour; i < picture.length; i += 3) x.putFloat((picture[i] & 0xFF) / 127.5f - 1);
      }
    }

    @Override
    public Float read(Row row, Map<String, ByteBuffer> outputs) {
      return outputs.values().iterator().next().getFloat();
    }
  }

  /**
   * Runs.
   *
   * @param arguments see the class
   * @throws Exception what is wrong
   */
  public static void main(String[] arguments) throws Exception {
    SessionSpec spec = SessionSpec.of(arguments[0]).row("x", 3, 48, 192);
    try (SparkSession spark = SparkSession.builder().getOrCreate()) {
      Dataset<Row> table = spark.read().parquet(arguments[1]);
      long count = table.count();
      Dataset<Float> scores = table.mapPartitions(SparkModels.byBatch(spec, Integer.parseInt(arguments[2]), new Pictures()), Encoders.FLOAT());
      for (int round = 0; round <= Integer.parseInt(arguments[3]); round++) {
        long begin = System.nanoTime();
        scores.write().format("noop").mode("overwrite").save();
        if (round > 0) System.out.println((System.nanoTime() - begin) / 1e6 / count); // the first makes the session
      }
    }
  }
}
