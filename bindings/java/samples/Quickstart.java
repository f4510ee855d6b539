import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.api.OrtValueRef;
import io.github.iobind.api.OutputMode;
import java.nio.file.Path;

/** Quickstart MODEL [DEVICE]: PP-OCR's classifier over a stream of pictures; in a run only the picture and its scores cross the link. */
public class Quickstart {
  public static void main(String[] arguments) {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: Quickstart MODEL [DEVICE]");
    DeviceSpec device = DeviceSpec.of(arguments.length > 1 ? arguments[1] : "cpu");
    var options = new OrtRuntimeFFM.Options().softwareDevices(); // a WebGPU without a GPU will do here
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(options);
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device));
        OrtIoBindingFFM binding = session.createBinding();
        OrtValueRef picture = OrtValueRef.allocate(runtime, device, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, 3,
            48, 192))) {
      float[] pixels = new float[3 * 48 * 192], result = new float[2];
      binding.bindInput("x", picture); // it is on the device, where the session reads it
      binding.bindOutputToDevice(0, DeviceSpec.CPU, OutputMode.REUSE);
      for (int frame = 0; frame < 5; frame++) {
        picture.write(fill(pixels, frame)); // the only upload
        binding.runWithBindings();
        binding.readOutput(0, result);
        System.out.printf("picture %d: upright %.4f, upside down %.4f%n", frame, result[0], result[1]);
      }
      System.out.printf("%s: %d bytes up%n", runtime.device(device).spec(), runtime.counters(device).uploadBytes());
    }
  }

  private static float[] fill(float[] pixels, int frame) {
    for (int i = 0; i < pixels.length; i++) pixels[i] = (i * 7 + frame * 13) % 255 / 127.5f - 1;
    return pixels;
  }
}
