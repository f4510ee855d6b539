package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The same model, the same inputs, the same ONNX Runtime in Python with its own I/O binding: the same bits on the CPU. */
@Tag("ci")
class PythonTest {
  private static final Path PYTHON = Models.PROJECT.resolve(".runtime/python/bin/python");

  @TempDir
  private Path folder;

  /** A model is a file of .runtime/models, or a test model; open dims get these sizes, in the order in which they are met. */
  @ParameterizedTest
  @CsvSource({"magika.onnx, '3'", "pp-ocr-cls.onnx, '2,48,192'", "pp-ocr-det.onnx, '1,96,160'", "pp-ocr-rec.onnx, '2,48,320'",
      "silero-vad.onnx, '1,512,1'", "matmul, '7,9,9,5'", "matmul dtype=float16, '7,9,9,5'",
      "'reduce axis=1 dims=n,m', '64,1000'",
      "nonzero, '1000'"})
  void sameBits(String model, String sizes) throws Exception {
    assumeTrue(Files.isExecutable(PYTHON), "scripts/get-python has not been run");
    Path file = model.endsWith(".onnx") ? Models.PROJECT.resolve(".runtime/models").resolve(model) : Models.file(folder, model);
    assumeTrue(Files.exists(file), "scripts/get-models has not been run");
    try (OrtRuntimeFFM runtime = OrtRuntimeFFM.create();
        OrtSessionFFM session = OrtSessionFFM.create(runtime, file, new OrtSessionFFM.Options().threads(1, 0));
        OrtIoBindingFFM binding = session.createBinding()) {
      List<Map<String, Object>> inputs = new ArrayList<>(), outputs = new ArrayList<>();
      List<Long> open = new ArrayList<>(Arrays.stream(sizes.split(",")).map(Long::parseLong).toList());
      Random random = new Random(7);
      for (OrtValueInfo input : session.inputs()) {
        long[] shape = input.shape().stream().mapToLong(dim -> dim >= 0 ? dim : open.removeFirst()).toArray();
        byte[] content = content(input, MemoryDescriptor.of(input.type(), shape), random);
        Path data = Files.write(folder.resolve("input" + inputs.size()), content);
        inputs.add(Map.of("name", input.name(), "type", input.type().toString(), "shape", shape, "file", data.toString()));
        OrtValueRef value = OrtValueRef.allocate(runtime, DeviceSpec.CPU, MemoryDescriptor.of(input.type(), shape));
        value.write(0, MemorySegment.ofArray(content), null);
        binding.bindInput(input.name(), value);
        value.close();
      }
      for (OrtValueInfo output : session.outputs()) {
        outputs.add(Map.of("name", output.name(), "file", folder.resolve("output" + outputs.size()).toString()));
      }
      Path job = Files.writeString(folder.resolve("job.json"),
          new Gson().toJson(Map.of("model", file.toString(), "inputs", inputs, "outputs", outputs)));
      Child python = Child.run(Map.of(), PYTHON.toString(), "src/test/python/run_with_iobinding.py", job.toString());
      assertEquals(0, python.exit(), python.output());
      String[] lines = python.output().trim().split("\n");
      assumeTrue(lines[lines.length - 1].equals(runtime.ortVersion()), "Python has ONNX Runtime " + lines[lines.length - 1]);
      binding.runWithBindings();
      for (int i = 0; i < outputs.size(); i++) compare(binding, i, Files.readAllBytes(folder.resolve("output" + i)));
    }
  }

  private static byte[] content(OrtValueInfo input, MemoryDescriptor descriptor, Random random) {
    ByteBuffer bytes = ByteBuffer.allocate((int) descriptor.byteSize()).order(ByteOrder.nativeOrder());
    while (bytes.hasRemaining()) {
      switch (descriptor.type()) {
        case FLOAT32 -> bytes.putFloat(input.name().equals("state") ? 0 : random.nextFloat() - 0.25f);
        case FLOAT16 -> bytes.putShort(Float.floatToFloat16(random.nextFloat()));
        case INT32 -> bytes.putInt(random.nextInt(256));
        case INT64 -> bytes.putLong(16000); // the sample rate
        default -> throw new IllegalArgumentException(input.toString());
      }
    }
    return bytes.array();
  }

  private static void compare(OrtIoBindingFFM binding, int index, byte[] wanted) {
    int line = 0;
    while (wanted[line] != '\n') line++;
    JsonObject info = JsonParser.parseString(new String(wanted, 0, line, StandardCharsets.UTF_8)).getAsJsonObject();
    try (OrtValueRef value = binding.getOutput(index)) {
      assertEquals(info.get("shape").toString(), Arrays.toString(value.shape()).replace(" ", ""));
      assertEquals(info.get("type").getAsString(), value.type().toString());
      byte[] got = new byte[(int) value.descriptor().byteSize()];
      assertTrue(got.length > 0);
      value.read(0, MemorySegment.ofArray(got), null);
      assertArrayEquals(Arrays.copyOfRange(wanted, line + 1, wanted.length), got, "output " + index);
    }
  }
}
