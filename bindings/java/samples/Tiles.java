import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.NativeMemory;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtPipelineFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.api.OrtValueRef;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.List;

/**
 * Tiles MODEL [DEVICE]: a page that is larger than the model's input, tile by tile: while one tile is computed the next one
 * goes to the device and the one before comes back. The result is one piece of memory, each tile where it belongs.
 */
public class Tiles {
  private static final int TILES = 12, SLOTS = 3, WIDTH = 64, HEIGHT = 64, PIXELS = WIDTH * HEIGHT;

  public static void main(String[] arguments) {
    if (arguments.length < 1) throw new IllegalArgumentException("usage: Tiles MODEL [DEVICE]");
    DeviceSpec device = DeviceSpec.of(arguments.length > 1 ? arguments[1] : "cpu");
    MemoryDescriptor shape = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, HEIGHT, WIDTH);
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device));
        OrtPipelineFFM pipeline = OrtPipelineFFM.create(session, new OrtPipelineFFM.Options().slots(SLOTS));
        OrtValueRef tile = OrtValueRef.allocate(runtime, DeviceSpec.CPU, shape);
        NativeMemory memory = NativeMemory.allocate(runtime, DeviceSpec.CPU, TILES * shape.byteSize());
        Arena arena = Arena.ofConfined()) {
      MemorySegment page = memory.asMemorySegment(arena);
      float[] pixels = new float[PIXELS];
      for (int i = 0; i < TILES; i++) {
        if (i >= SLOTS) pull(pipeline, page); // every slot holds a tile
        for (int k = 0; k < PIXELS; k++) pixels[k] = i * PIXELS + k;
        tile.write(pixels);
        pipeline.submit(List.of(tile)); // copied at once: the tile is ours again
      }
      for (int i = 0; i < SLOTS; i++) pull(pipeline, page);
      double sum = 0;
      for (long i = 0; i < TILES * PIXELS; i++) sum += page.getAtIndex(ValueLayout.JAVA_FLOAT, i);
      System.out.printf("%d tiles on %s, sum %.1f%n", TILES, runtime.device(device).spec(), sum);
    }
  }

  /** Waits for the oldest tile and puts it where it belongs. */
  private static void pull(OrtPipelineFFM pipeline, MemorySegment page) {
    try (OrtPipelineFFM.Item item = pipeline.next()) {
      OrtValueRef result = item.outputs().get("y");
      long bytes = result.descriptor().byteSize();
      result.read(0, page.asSlice(item.index() * bytes, bytes), null);
    }
  }
}
