import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.OrtBatchFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.api.OrtValueRef;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Callers MODEL [DEVICE]: Silero's voice detector over a second of sound of eight callers at once, as rows of one run. */
public class Callers {
  private static final int CALLERS = 8;

  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: Callers MODEL [DEVICE]");
    DeviceSpec device = DeviceSpec.of(arguments.length > 1 ? arguments[1] : "cpu");
    var options = new OrtBatchFFM.Options(CALLERS).carry("stateN", "state").steps(CALLERS, Duration.ofMillis(1))
        .inputAxis("input", 0).inputAxis("state", 1).outputAxis("output", 0).outputAxis("stateN", 1); // the model does not name its dims
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device).threads(1, 1));
        OrtBatchFFM batch = OrtBatchFFM.create(session, options)) {
      batch.setShared("sr", new long[] {16000});
      batch.start(); // a thread that makes steps of the rows that are submitted
      try (var threads = Executors.newVirtualThreadPerTaskExecutor()) {
        List<Future<Integer>> found = new ArrayList<>();
        for (int i = 0; i < CALLERS; i++) {
          float volume = 0.3f / (1 + i);
          found.add(threads.submit(() -> listen(batch, volume)));
        }
        for (int i = 0; i < CALLERS; i++) System.out.printf("caller %d: speech in %d windows%n", i, found.get(i).get());
      }
    }
  }

  /** In how many windows of a caller there is speech. */
  private static int listen(OrtBatchFFM batch, float volume) throws Exception {
    int count = 0;
    try (OrtBatchFFM.Row row = batch.join()) {
      for (int window = 0; window < 16000 / 512; window++) {
        row.setInput("input", sound(window, volume), 1, 512); // real sound: after the last 64 numbers of the window before
        row.submit().get();
        try (OrtValueRef speech = row.getOutput("output")) {
          if (speech.toFloatArray()[0] > 0.5) count++;
        }
      }
    }
    return count;
  }

  private static float[] sound(int window, float volume) {
    float[] sound = new float[512];
    for (int i = 0; i < 512; i++) {
      double t = (window * 512 + i) / 16000.0; // a vowel-like buzz in the middle of silence
      sound[i] = window < 8 || window > 22 ? 0 : (float) (volume * Math.signum(Math.sin(800 * t)) * Math.sin(5000 * t));
    }
    return sound;
  }
}
