import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtEpDevice;
import ai.onnxruntime.OrtSession;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** VirtualDevice LIBRARY MODEL: the sum of two tensors on the virtual accelerator, with the official package alone. */
public class VirtualDevice {
  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 2) throw new IllegalArgumentException("usage: VirtualDevice LIBRARY MODEL");
    OrtEnvironment environment = OrtEnvironment.getEnvironment();
    environment.registerExecutionProviderLibrary("vdev", Path.of(arguments[0]).toAbsolutePath().toString());
    List<OrtEpDevice> devices = environment.getEpDevices().stream()
        .filter(device -> device.getEpName().equals("VirtualDeviceExecutionProvider")).limit(1).toList();
    try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
      options.addExecutionProvider(devices, Map.of("race", "fail"));
      try (OrtSession session = environment.createSession(arguments[1], options);
          OnnxTensor x = OnnxTensor.createTensor(environment, FloatBuffer.wrap(new float[] {1, 2, 3, 4}), new long[] {4});
          OrtSession.Result result = session.run(Map.of("x", x, "y", x))) {
        System.out.println(Arrays.toString((float[]) result.get("z").orElseThrow().getValue()));
      }
    }
    environment.unregisterExecutionProviderLibrary("vdev"); // after all objects of the device are closed
  }
}
