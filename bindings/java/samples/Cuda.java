import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtFFMException;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.api.OrtStreamFFM;
import io.github.iobind.api.OrtValueRef;
import java.nio.file.Path;
import java.util.Arrays;

/** Cuda MODEL: doubles four numbers on CUDA, with options of the execution provider; upload, run and download on one stream. */
public class Cuda {
  public static void main(String[] arguments) {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: Cuda MODEL");
    DeviceSpec cuda = DeviceSpec.cuda(0);
    MemoryDescriptor four = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, 4);
    var options = new OrtSessionFFM.Options().devices(cuda).ep("gpu_mem_limit", "1000000000")
        .ep("arena_extend_strategy", "kSameAsRequested").ep("use_tf32", "0");
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]), options);
        OrtIoBindingFFM binding = session.createBinding();
        OrtStreamFFM stream = OrtStreamFFM.create(runtime, cuda);
        OrtValueRef pinned = OrtValueRef.allocate(runtime, cuda.pinned(), four);
        OrtValueRef x = OrtValueRef.allocate(runtime, cuda, four);
        OrtValueRef y = OrtValueRef.allocate(runtime, cuda, four)) {
      binding.bindInput("x", x);
      binding.bindOutput("y", y);
      pinned.write(new float[] {1, 2, 3, 4});
      OrtValueRef.copy(new OrtValueRef[] {pinned}, new OrtValueRef[] {x}, stream);
      binding.runWithBindings(stream, null);
      OrtValueRef.copy(new OrtValueRef[] {y}, new OrtValueRef[] {pinned}, stream);
      stream.synchronize(); // only here the host waits
      System.out.println(Arrays.toString(pinned.toFloatArray()));

      try {
        OrtSessionFFM.create(runtime, Path.of(arguments[0]), options.ep("gpu_mem_limit", "1G")).close();
      } catch (OrtFFMException e) {
        System.out.println(e.getMessage());
      }
    }
  }
}
