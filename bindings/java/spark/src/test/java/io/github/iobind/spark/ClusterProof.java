package io.github.iobind.spark;

import io.github.iobind.api.DeviceCounters;
import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OutputMode;
import io.github.iobind.spark.executor.SparkBindings;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;

/**
 * ClusterProof MODEL FOLDER [PICTURES]: PP-OCR's classifier over pictures on a cluster of tests/spark/cluster.py, where tasks fail, an
 * executor is killed and a slow task is run twice. Each row comes once, as one process has it; what a task sends goes to the device
 * of its own; nothing is left on the devices. Prints a line for each way, and fails where one is wrong.
 */
public final class ClusterProof {
  private static final int PIXELS = 48 * 192;
  private static final int PARTITIONS = 8;
  private static final int FAILS = 1;
  private static final int DIES = 3;
  private static final int IS_SLOW = 5;

  private ClusterProof() {}

  /** A picture by its number, and what the classifier says of it as a line of text. */
  private static final class Pictures implements RowCodec<Long, String> {
    private static final long serialVersionUID = 1;

    static void write(long number, ByteBuffer x) {
      Random random = new Random(number);
      for (int i = 0; i < 3 * PIXELS; i++) x.putFloat((random.nextInt(255) + i / 99 * number % 7) / 127.5f - 1);
    }

    @Override
    public void write(Long row, Map<String, ByteBuffer> inputs) {
      write(row.longValue(), inputs.get("x"));
    }

    @Override
    public String read(Long row, Map<String, ByteBuffer> outputs) {
      ByteBuffer scores = outputs.values().iterator().next();
      return row + " " + scores.getFloat() + " " + scores.getFloat();
    }
  }

  /** What happens to a task once, before its first row goes on. */
  private record Trouble(String folder) implements Serializable {
    void come() {
      int partition = TaskContext.getPartitionId(), attempt = TaskContext.get().attemptNumber();
      touch(partition + "-" + attempt);
      if (attempt > 0) return;
      if (partition == FAILS) throw new IllegalStateException("a task that fails once");
      if (partition == DIES) Runtime.getRuntime().halt(1); // the executor
      long until = System.nanoTime() + 120_000_000_000L;
      while (partition == IS_SLOW && !new File(folder, partition + "-1").exists() && System.nanoTime() < until) pause();
    }

    private static void pause() {
      try {
        Thread.sleep(100);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }

    private void touch(String name) {
      try {
        new File(folder).mkdirs();
        new File(folder, name).createNewFile();
      } catch (IOException e) {
        throw new IllegalStateException(e);
      }
    }

    void requireAll() {
      for (int partition : new int[] {FAILS, DIES, IS_SLOW}) {
        require(new File(folder, partition + "-1").exists(), "partition " + partition + " was tried once only: " + Arrays.toString(new File(folder).list()));
      }
    }
  }

  private static void require(boolean isTrue, String message) {
    if (!isTrue) throw new IllegalStateException(message);
  }

  /** Rows as the function gives them, with trouble before the first and, as the last, "task", its GPU, and bytes up to each GPU. */
  private static MapPartitionsFunction<Long, String> counted(MapPartitionsFunction<Long, String> function, Trouble trouble) {
    return rows -> {
      long[] before = uploaded();
      Iterator<String> results = function.call(rows);
      return new Iterator<>() {
        private boolean isFirst = true;
        private boolean isDone;

        @Override
        public boolean hasNext() {
          return !isDone;
        }

        @Override
        public String next() {
          if (!results.hasNext()) {
            isDone = true;
            long[] now = uploaded();
            return "task " + TaskContext.get().resourcesJMap().get("gpu").addresses()[0] + " " + (now[0] - before[0]) + " " + (now[1] - before[1]);
          }
          String row = results.next();
          if (isFirst) trouble.come();
          isFirst = false;
          return row;
        }
      };
    };
  }

  private static long[] uploaded() {
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      return LongStream.range(0, 2).map(i -> counters(runtime, i).uploadBytes()).toArray();
    }
  }

  private static DeviceCounters counters(OrtRuntimeFFM runtime, long device) {
    return runtime.counters(DeviceSpec.of("vdev:" + device));
  }

  /** For mapPartitions: the bytes that are on the devices of this executor when its sessions are closed. */
  private static Iterator<Long> left(Iterator<Long> rows) throws InterruptedException {
    Thread.sleep(1000); // so that each executor gets one of the tasks
    SparkModels.release();
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create()) {
      return List.of(counters(runtime, 0).allocatedBytes() + counters(runtime, 1).allocatedBytes()).iterator();
    }
  }

  /** A binding of the task's own, whose picture stays where the model runs. */
  private static MapPartitionsFunction<Long, String> byBinding(SessionSpec spec) {
    return SparkBindings.byBinding(spec, (binding, rows) -> {
      float[] picture = new float[3 * PIXELS], scores = new float[2];
      ByteBuffer bytes = ByteBuffer.allocate(4 * picture.length);
      binding.bindInput("x", picture, 1, 3, 48, 192);
      binding.bindOutputToDevice(0, DeviceSpec.CPU, OutputMode.REUSE);
      return new Iterator<>() {
        @Override
        public boolean hasNext() {
          return rows.hasNext();
        }

        @Override
        public String next() {
          long row = rows.next();
          Pictures.write(row, bytes.clear());
          bytes.flip().asFloatBuffer().get(picture);
          binding.update("x", picture);
          binding.runWithBindings();
          binding.readOutput(0, scores);
          return row + " " + scores[0] + " " + scores[1];
        }
      };
    });
  }

  /** Rows and tasks of a job, compared with what one process has. */
  private static String compare(List<String> lines, Map<Long, float[]> wanted, double tolerance, boolean isOnGpu) {
    Map<Long, String> seen = new HashMap<>();
    long[] tasks = new long[2];
    for (String line : lines) {
      String[] words = line.split(" ");
      if (words[0].equals("task")) {
        int gpu = Integer.parseInt(words[1]);
        long own = Long.parseLong(words[2 + gpu]), other = Long.parseLong(words[3 - gpu]);
        tasks[gpu]++;
        // a task that was the second on its executor began with the counters of the one before
        require(other == 0 && (isOnGpu ? own >= 4L * 3 * PIXELS * (wanted.size() / PARTITIONS) : own == 0), line);
        continue;
      }
      long number = Long.parseLong(words[0]);
      require(seen.put(number, line) == null, "row " + number + " came twice");
      for (int i = 0; i < 2; i++) {
        float got = Float.parseFloat(words[1 + i]);
        require(Math.abs(got - wanted.get(number)[i]) <= tolerance, line + ", expected " + Arrays.toString(wanted.get(number)));
      }
    }
    require(seen.size() == wanted.size(), "expected " + wanted.size() + " rows, got " + seen.size());
    require(tasks[0] > 0 && tasks[1] > 0, "one device had all tasks");
    return seen.size() + " rows, " + tasks[0] + " tasks on gpu 0, " + tasks[1] + " on gpu 1";
  }

  /**
   * Runs.
   *
   * @param arguments a model, a folder for marks, the number of pictures
   * @throws Exception what is wrong
   */
  public static void main(String[] arguments) throws Exception {
    long count = arguments.length > 2 ? Long.parseLong(arguments[2]) : 240;
    SessionSpec cpu = SessionSpec.of(arguments[0]), gpu = SessionSpec.of(arguments[0]).device("vdev:{gpu}");
    for (SessionSpec spec : List.of(cpu, gpu)) spec.row("x", 3, 48, 192);
    Map<Long, float[]> wanted = new HashMap<>();
    SparkModels.byBatch(cpu, 8, new Pictures()).call(LongStream.range(0, count).boxed().iterator()).forEachRemaining(line -> {
      String[] words = line.split(" ");
      wanted.put(Long.parseLong(words[0]), new float[] {Float.parseFloat(words[1]), Float.parseFloat(words[2])});
    });
    Map<String, MapPartitionsFunction<Long, String>> ways = new LinkedHashMap<>();
    ways.put("batch-cpu", SparkModels.byBatch(cpu, 8, new Pictures()));
    ways.put("batch", SparkModels.byBatch(gpu, 8, new Pictures()));
    ways.put("pipeline", SparkModels.byPipeline(gpu, 4, 3, new Pictures()));
    ways.put("binding", byBinding(gpu));
    try (SparkSession spark = SparkSession.builder().getOrCreate()) {
      for (var way : ways.entrySet()) {
        Trouble trouble = new Trouble(arguments[1] + "/" + way.getKey());
        boolean isOnGpu = !way.getKey().endsWith("cpu");
        List<String> lines = new ArrayList<>(spark.range(0, count, 1, PARTITIONS).as(Encoders.LONG())
            .mapPartitions(counted(way.getValue(), trouble), Encoders.STRING()).collectAsList());
        String said = compare(lines, wanted, isOnGpu ? 1e-5 : 0, isOnGpu);
        trouble.requireAll();
        System.out.println(way.getKey() + ": " + said);
      }
      List<Long> left = spark.range(0, 4, 1, 4).as(Encoders.LONG()).mapPartitions((MapPartitionsFunction<Long, Long>) ClusterProof::left,
          Encoders.LONG()).collectAsList();
      require(left.equals(List.of(0L, 0L, 0L, 0L)), "left on the devices: " + left);
      System.out.println("left: 0 bytes");
    }
  }
}
