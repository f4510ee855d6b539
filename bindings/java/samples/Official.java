import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtValueRef;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;

/** Official MODEL: PP-OCR's classifier in a session of the official package, its inputs and outputs bound. */
public class Official {
  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: Official MODEL");
    String model = arguments[0];
    try (OrtSession session = OrtEnvironment.getEnvironment().createSession(model);
        OrtIoBindingFFM binding = new OrtIoBindingFFM(session); Arena arena = Arena.ofShared()) {
      MemorySegment picture = arena.allocate(ValueLayout.JAVA_FLOAT, 3 * 48 * 192);
      binding.bindInput("x", picture, new long[] {1, 3, 48, 192}, OnnxTensorElementType.FLOAT32, DeviceSpec.CPU);
      String scores = binding.session().outputs().getFirst().name();
      binding.bindOutput(scores, new long[] {1, 2}, OnnxTensorElementType.FLOAT32, DeviceSpec.CPU);
      for (int frame = 0; frame < 3; frame++) {
        picture.fill((byte) frame);
        Map<String, OrtValueRef> outputs = binding.runWithBindings();
        System.out.println(outputs.get(scores) + ": upright " + outputs.get(scores).toFloatArray()[0]);
      }
      binding.bindOutput(scores, MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 1, 2), DeviceSpec.CPU);
      binding.runWithBindings();
      MemorySegment result = binding.getBoundOutputCpuValues().get(scores);
      System.out.println("upright " + result.getAtIndex(ValueLayout.JAVA_FLOAT, 0));
    }
  }
}
