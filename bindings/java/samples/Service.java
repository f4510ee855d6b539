import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtBindingPool;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Service MODEL [DEVICE]: many requests to PP-OCR's classifier, of one or two pictures each, over a few bindings. */
public class Service {
  private static final int PICTURE = 3 * 48 * 192;

  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: Service MODEL [DEVICE]");
    DeviceSpec device = DeviceSpec.of(arguments.length > 1 ? arguments[1] : "cpu");
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device).threads(1, 1));
        var requests = Executors.newVirtualThreadPerTaskExecutor()) {
      String scores = session.outputs().getFirst().name();
      var pool = new OrtBindingPool<Integer>(session, 4, (binding, batch) -> {
        binding.bindInput("x", new float[batch * PICTURE], batch, 3, 48, 192);
        binding.bindOutput(scores, new long[] {batch, 2}, OnnxTensorElementType.FLOAT32, DeviceSpec.CPU);
      });
      List<Future<Float>> answers = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        int batch = 1 + i % 2;
        answers.add(requests.submit(() -> {
          float[] pictures = new float[batch * PICTURE], result = new float[batch * 2];
          try (var lease = pool.lease(batch)) {
            lease.binding().update("x", pictures);
            lease.binding().runWithBindings();
            lease.binding().readOutput(scores, result);
          }
          return result[0] + result[1];
        }));
      }
      float sum = 0;
      for (Future<Float> answer : answers) sum += answer.get();
      System.out.printf("%.2f, %d bindings at most%n", sum, pool.metrics().bindings());
      pool.close();
    }
  }
}
