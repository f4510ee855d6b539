import io.github.iobind.api.CarryMode;
import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import java.nio.file.Path;

/** Recurrent MODEL [DEVICE]: Silero's voice detector over a second of sound; its state never leaves the device. */
public class Recurrent {
  public static void main(String[] arguments) {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: Recurrent MODEL [DEVICE]");
    DeviceSpec device = DeviceSpec.of(arguments.length > 1 ? arguments[1] : "cpu");
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device).threads(1, 1));
        OrtIoBindingFFM binding = session.createBinding()) {
      binding.bindInput("sr", new long[] {16000});
      binding.bindInput("state", new float[2 * 128], 2, 1, 128); // the first state
      binding.carry("stateN", "state", CarryMode.MOVE); // each run's state is the next one's
      binding.bindOutputToDevice("output", DeviceSpec.CPU);
      float[] sound = new float[512], speech = new float[1];
      for (int frame = 0; frame < 16000 / 512; frame++) {
        for (int i = 0; i < 512; i++) {
          double t = (frame * 512 + i) / 16000.0; // a vowel-like buzz in the middle of silence
          sound[i] = frame < 8 || frame > 22 ? 0 : (float) (0.3 * Math.signum(Math.sin(800 * t)) * Math.sin(5000 * t));
        }
        binding.bindInput("input", sound, 1, 512); // real sound: after the last 64 numbers of the frame before
        binding.runWithBindings();
        binding.readOutput("output", speech);
        System.out.printf("%.2f s: speech %.4f%n", frame * 512 / 16000.0, speech[0]);
      }
    }
  }
}
