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

/**
 * Graphs MODEL DEVICE: runs that are replays of captured graphs: two shapes by turns, inputs written in place, and a state that stays
 * on the device. The model adds x and y, of any length, to z.
 */
public class Graphs {
  public static void main(String[] arguments) {
    if (arguments.length < 2) throw new IllegalArgumentException("usage: Graphs MODEL DEVICE");
    DeviceSpec device = DeviceSpec.of(arguments[1]);
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device).graphs(2))) { // of each binding
      twoShapes(runtime, session, device);
      state(runtime, session, device);
    }
  }

  private static OrtValueRef tensor(OrtRuntimeFFM runtime, DeviceSpec device, int length) {
    return OrtValueRef.allocate(runtime, device, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, length));
  }

  private static float[] filled(int length, float value) {
    float[] values = new float[length];
    Arrays.fill(values, value);
    return values;
  }

  /** Each length has a tensor of its own, and so a graph; bound again, it is replayed. */
  private static void twoShapes(OrtRuntimeFFM runtime, OrtSessionFFM session, DeviceSpec device) {
    try (OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef small = tensor(runtime, device, 16);
        OrtValueRef large = tensor(runtime, device, 48)) {
      float sum = 0;
      for (int turn = 0; turn < 10; turn++) {
        OrtValueRef x = turn % 2 == 0 ? small : large;
        int length = turn % 2 == 0 ? 16 : 48;
        x.write(filled(length, turn)); // in place
        binding.bindInput("x", x, InputMode.RESIDENT);
        binding.bindInput("y", x, InputMode.RESIDENT);
        binding.runWithBindings();
        sum += binding.getOutput("z").toFloatArray()[length - 1];
      }
      System.out.printf("10 runs of two shapes: %.0f in all%n", sum);
    }
  }

  /** z becomes the next x, from one buffer to the other and back: two graphs. y is new in each step. */
  private static void state(OrtRuntimeFFM runtime, OrtSessionFFM session, DeviceSpec device) {
    try (OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef x = tensor(runtime, device, 48);
        OrtValueRef y = tensor(runtime, device, 48)) {
      x.write(filled(48, 0));
      binding.bindInput("x", x, InputMode.RESIDENT);
      binding.bindInput("y", y, InputMode.RESIDENT);
      binding.carry("z", "x", CarryMode.SWAP);
      for (int step = 1; step <= 10; step++) {
        y.write(filled(48, step));
        binding.runWithBindings(); // also the first one happens once
      }
      System.out.printf("10 steps of a state: %.0f%n", binding.getOutput("z").toFloatArray()[47]);
    }
  }
}
