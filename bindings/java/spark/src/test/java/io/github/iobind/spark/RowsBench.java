package io.github.iobind.spark;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** RowsBench MODEL TABLE BATCH ROUNDS: for bench/spark, prints what a row of pictures costs in each round, in processor milliseconds. */
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
    String model = arguments[0];
    int batch = Integer.parseInt(arguments[2]);
    var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    try (SparkSession spark = SparkSession.builder().getOrCreate()) {
      Dataset<Row> table = spark.read().parquet(arguments[1]);
      long count = table.count();
      SessionSpec spec = SessionSpec.of(model).row("x", 3, 48, 192);
      Dataset<Float> scores = table.mapPartitions(SparkModels.byBatch(spec, batch, new Pictures()), Encoders.FLOAT());
      for (int round = 0; round <= Integer.parseInt(arguments[3]); round++) {
        long begin = system.getProcessCpuTime();
        scores.write().format("noop").mode("overwrite").save();
        if (round > 0) System.out.println((system.getProcessCpuTime() - begin) / 1e6 / count); // the first makes the session
      }
    }
  }
}
