import io.github.iobind.api.CarryMode;
import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.InputMode;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.api.OrtValueRef;
import java.nio.file.Path;
import java.util.Arrays;

/** KvCache MODEL [DEVICE]: a cache that grows by one entry a step, from nothing; only the new entry crosses the link. */
public class KvCache {
  public static void main(String[] arguments) {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: KvCache MODEL [DEVICE]");
    DeviceSpec device = DeviceSpec.of(arguments.length > 1 ? arguments[1] : "cpu");
    MemoryDescriptor nothing = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, 2, 0, 4);
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device));
        OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef start = OrtValueRef.allocate(runtime, device, nothing)) {
      binding.bindInput("first", start, InputMode.RESIDENT);
      binding.carry("joined", "first", CarryMode.MOVE);
      long before = runtime.counters(device).uploadBytes();
      float[] entry = new float[8];
      for (int step = 0; step < 100; step++) {
        Arrays.fill(entry, step);
        binding.bindInput("second", entry, 1, 2, 1, 4);
        binding.runWithBindings();
      }
      try (OrtValueRef cache = binding.takeOutput("joined")) {
        float[] all = cache.toFloatArray();
        System.out.printf("cache %s on %s, last entry %.1f%n", cache.descriptor(), cache.device(), all[all.length - 1]);
      }
      System.out.printf("%d bytes up in 100 steps%n", runtime.counters(device).uploadBytes() - before);
    }
  }
}
