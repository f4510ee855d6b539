package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.StructLayout;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Structs, functions and numbers are those that a C compiler makes of the header: tests/abi/abi.json has them. */
class LayoutsTest {
  private static JsonObject abi;

  @BeforeAll
  static void read() throws Exception {
    abi = JsonParser.parseString(Files.readString(Models.PROJECT.resolve("tests/abi/abi.json"))).getAsJsonObject();
  }

  @Test
  void structs() {
    for (StructLayout layout : Layouts.ALL) {
      String name = layout.name().orElseThrow();
      JsonObject struct = abi.getAsJsonObject("structs").getAsJsonObject(name);
      List<String> expected = new ArrayList<>(), got = new ArrayList<>();
      for (JsonElement element : struct.getAsJsonArray("fields")) {
        JsonObject field = element.getAsJsonObject();
        expected.add(field.get("name").getAsString() + " at " + field.get("offset") + " of " + field.get("size"));
      }
      long offset = 0;
      for (MemoryLayout member : layout.memberLayouts()) {
        if (!(member instanceof PaddingLayout)) {
          got.add(member.name().orElseThrow() + " at " + offset + " of " + member.byteSize());
        }
        offset += member.byteSize();
      }
      assertEquals(expected, got, name);
      assertEquals(struct.get("size").getAsLong(), layout.byteSize(), name);
      assertEquals(struct.get("align").getAsLong(), layout.byteAlignment(), name);
    }
  }

  @Test
  void functions() {
    Map<String, FunctionDescriptor> called = Iobind.functions();
    assertTrue(called.size() > 50, () -> called.keySet().toString());
    called.forEach((name, descriptor) -> {
      JsonObject function = abi.getAsJsonObject("functions").getAsJsonObject(name);
      List<Long> expected = new ArrayList<>(), got = new ArrayList<>();
      JsonArray parameters = function.getAsJsonArray("parameters");
      for (JsonElement parameter : parameters) expected.add(size(parameter.getAsString()));
      for (MemoryLayout argument : descriptor.argumentLayouts()) got.add(argument.byteSize());
      assertEquals(expected, got, name + parameters);
      String returns = function.get("returns").getAsString();
      assertEquals(returns.equals("void") ? 0 : size(returns), descriptor.returnLayout().map(MemoryLayout::byteSize).orElse(0L),
          name);
    });
  }

  /** The bytes of a parameter such as "const int64_t *dims" or "iobind_dtype dtype". */
  private static long size(String type) {
    return type.contains("*") || type.matches("(size_t|u?int64_t|iobind_deleter|iobind_log_function)\\b.*") ? 8 : 4;
  }

  @Test
  void numbers() {
    enumIs("iobind_status", "IOBIND_", OrtStatus.values());
    enumIs("iobind_dtype", "IOBIND_", OnnxTensorElementType.values());
    enumIs("iobind_input_mode", "IOBIND_INPUT_", InputMode.values());
    enumIs("iobind_output_mode", "IOBIND_OUTPUT_", OutputMode.values());
    enumIs("iobind_carry_mode", "IOBIND_CARRY_", CarryMode.values());
    enumIs("iobind_audit_kind", "IOBIND_AUDIT_", BindingAudit.Kind.values());
    enumIs("iobind_policy", "IOBIND_POLICY_", OrtSessionFFM.Policy.values());
    enumIs("iobind_log_level", "IOBIND_LOG_", OrtRuntimeFFM.LogLevel.values());
    enumIs("iobind_value_kind", "IOBIND_VALUE_", ValueInfo.Kind.values());
    enumIs("iobind_hardware", "IOBIND_HARDWARE_", DeviceInfo.Hardware.values());
    JsonObject constants = abi.getAsJsonObject("constants");
    for (DeviceInfo.Capability capability : DeviceInfo.Capability.values()) {
      assertEquals(1L << capability.ordinal(), constants.get("IOBIND_DEVICE_" + capability.name()).getAsLong(),
          capability.name());
    }
    assertEquals(MemoryDescriptor.MAX_RANK, constants.get("IOBIND_MAX_RANK").getAsInt());
  }

  private static void enumIs(String name, String prefix, Enum<?>[] values) {
    JsonObject expected = abi.getAsJsonObject("enums").getAsJsonObject(name).getAsJsonObject("values");
    JsonObject got = new JsonObject();
    for (Enum<?> value : values) got.addProperty(prefix + value.name(), value.ordinal());
    expected.keySet().stream().filter(key -> !key.endsWith("_FORCE32")).forEach(key ->
        assertEquals(expected.get(key).getAsInt(), got.has(key) ? got.get(key).getAsInt() : -1, name + "." + key));
    assertEquals(expected.size() - 1, values.length, name);
  }
}
