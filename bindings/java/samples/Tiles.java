import io.github.iobind.api.DeviceSpec;
import io.github.iobind.api.MemoryDescriptor;
import io.github.iobind.api.NativeMemory;
import io.github.iobind.api.OnnxTensorElementType;
import io.github.iobind.api.OrtIoBindingFFM;
import io.github.iobind.api.OrtRuntimeFFM;
import io.github.iobind.api.OrtSessionFFM;
import io.github.iobind.api.OrtValueRef;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;

/**
 * Tiles MODEL [DEVICE]: a page that is larger than the model's input, tile by tile: while one tile is computed the next one is
 * made ready. The result is written into one piece of memory, each tile where it belongs.
 */
public class Tiles {
  private static final int TILES = 12, WIDTH = 64, HEIGHT = 64, PIXELS = WIDTH * HEIGHT;

  public static void main(String[] arguments) {
    DeviceSpec device = DeviceSpec.of(arguments.length > 1 ? arguments[1] : "cpu");
    MemoryDescriptor tile = MemoryDescriptor.of(OnnxTensorElementType.FLOAT32, HEIGHT, WIDTH);
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create(new OrtRuntimeFFM.Options().softwareDevices());
        OrtSessionFFM session = OrtSessionFFM.create(runtime, Path.of(arguments[0]),
            new OrtSessionFFM.Options().devices(device));
        OrtIoBindingFFM one = session.createBinding(); OrtIoBindingFFM other = session.createBinding();
        NativeMemory page = NativeMemory.allocate(runtime, DeviceSpec.CPU, (long) TILES * tile.byteSize());
        Arena arena = Arena.ofConfined()) {
      CompletableFuture<Void> before = CompletableFuture.completedFuture(null);
      OrtIoBindingFFM[] slots = {one, other};
      float[] pixels = new float[PIXELS];
      for (int i = 0; i < TILES; i++) {
        OrtIoBindingFFM slot = slots[i % 2];
        for (int k = 0; k < PIXELS; k++) pixels[k] = i * PIXELS + k;
        slot.bindInput("x", pixels, HEIGHT, WIDTH); // goes to the device while the other slot computes
        try (OrtValueRef part = page.value(i * tile.byteSize(), tile)) {
          slot.bindOutput("y", part);
        }
        before.join();
        before = slot.runAsync();
      }
      before.join();
      MemorySegment result = page.asMemorySegment(arena);
      double sum = 0;
      for (long i = 0; i < TILES * PIXELS; i++) sum += result.getAtIndex(ValueLayout.JAVA_FLOAT, i);
      System.out.printf("%d tiles on %s, sum %.1f%n", TILES, runtime.device(device).spec(), sum);
    }
  }
}
