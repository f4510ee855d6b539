package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.IobindBatch;
import io.github.iobind.ffm.IobindFlow;
import io.github.iobind.ffm.IobindInterop;
import io.github.iobind.ffm.IobindJava;
import io.github.iobind.ffm.IobindStates;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.PaddingLayout;
import java.lang.foreign.StructLayout;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
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
    Set<String> used = new TreeSet<>(abi.getAsJsonObject("structs").keySet());
    used.removeAll(STRUCTS_LEFT_OUT);
    assertEquals(used,
        Layouts.ALL.stream().map(layout -> layout.name().orElseThrow()).collect(Collectors.toCollection(TreeSet::new)));
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

  /** The struct of libiobind_java has as many pointers as its header says, and in its order. */
  @Test
  void callback() throws Exception {
    String header = Files.readString(Models.PROJECT.resolve("bindings/java/native/callback.h"));
    String body = header.replaceAll("(?s).*typedef struct iobind_java_callback \\{(.*?)\\} iobind_java_callback;.*", "$1");
    List<String> expected = Pattern.compile("(\\w+);").matcher(body).results().map(match -> match.group(1)).toList();
    assertEquals(expected, IobindJava.CALLBACK.memberLayouts().stream().map(member -> member.name().orElseThrow()).toList());
    assertEquals(expected.size() * 8L, IobindJava.CALLBACK.byteSize());
    assertTrue(header.contains("IOBIND_JAVA_ENDED = " + IobindJava.ENDED + " "), header);
  }

  /** The functions that this package does without, and why. A new one of the header is called, or it is listed here. */
  private static final Map<String, String> LEFT_OUT = new TreeMap<>(Map.of(
      "iobind_get_host_api_base", "the official package's ORT is a library that the search finds",
      "iobind_get_version", "iobind_get_version_string says the same",
      "iobind_status_get_name", "OrtStatus has the names",
      "iobind_device_check", "a device that is found by its spec has passed the same check",
      "iobind_session_find_input", "OrtSessionFFM has the names in a map",
      "iobind_session_find_output", "as iobind_session_find_input",
      "iobind_state_retain", "Java has one reference to a state, and counts the calls in it"));

  static {
    for (String name : List.of("iobind_runtime_adopt_device", "iobind_tensor_get_native")) {
      LEFT_OUT.put(name, "the JVM has no objects of Direct3D; a device of DirectML makes its own");
    }
  }

  static {
    for (String name : List.of("iobind_catalogue_get_ep", "iobind_catalogue_get_option", "iobind_catalogue_get_conflict")) {
      LEFT_OUT.put(name, "for tools that list options: a session refuses a wrong one, and its message has what is right");
    }
    LEFT_OUT.put("iobind_tensor_copy_rows", "for surfaces of decoders in C; the JVM's pictures are dense arrays or buffers");
  }

  /** The structs of functions that are left out. */
  private static final Set<String> STRUCTS_LEFT_OUT = Set.of("iobind_native_device", "iobind_rows", "iobind_catalogue_info",
      "iobind_option_info", "iobind_conflict_info");

  @Test
  void functions() throws Exception {
    Map<String, FunctionDescriptor> called = Iobind.functions();
    Set<String> known = new TreeSet<>(called.keySet());
    assertTrue(Collections.disjoint(known, LEFT_OUT.keySet()), "a function that is called is not left out");
    known.addAll(LEFT_OUT.keySet());
    assertEquals(new TreeSet<>(abi.getAsJsonObject("functions").keySet()), known);
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

  /** A handle that nothing uses is none that users have. */
  @Test
  void everyFunctionIsUsed() throws Exception {
    StringBuilder sources = new StringBuilder();
    for (String folder : List.of("src/main/java/io/github/iobind/api", "src/test/java/io/github/iobind/api")) {
      try (Stream<Path> files = Files.list(Path.of(folder))) {
        for (Path file : files.toList()) sources.append(Files.readString(file));
      }
    }
    Set<String> unused = new TreeSet<>();
    for (Class<?> of : List.of(Iobind.class, IobindBatch.class, IobindFlow.class, IobindInterop.class, IobindJava.class, IobindStates.class)) {
      for (Method method : of.getDeclaredMethods()) {
        if (!Modifier.isPublic(method.getModifiers()) || List.of("functions", "holding").contains(method.getName())) continue;
        Pattern call = Pattern.compile("\\b" + of.getSimpleName() + "(\\.|::)" + method.getName() + "\\b");
        if (!call.matcher(sources).find()) unused.add(method.getName());
      }
    }
    assertEquals(Set.of(), unused);
  }

  /** The bytes of a parameter such as "const int64_t *dims" or "iobind_dtype dtype". */
  private static long size(String type) {
    return type.contains("*") || type.matches("(size_t|u?int64_t|iobind_deleter|iobind_log_function)\\b.*") ? 8 : 4;
  }

  @Test
  void numbers() throws Exception {
    enumIs("iobind_status", "IOBIND_ERROR_", OrtStatus.values());
    enumIs("iobind_dtype", "IOBIND_DTYPE_", OnnxTensorElementType.values());
    enumIs("iobind_input_mode", "IOBIND_INPUT_", InputMode.values());
    enumIs("iobind_carry_mode", "IOBIND_CARRY_", CarryMode.values());
    enumIs("iobind_length_role", "IOBIND_LENGTH_", LengthRole.values());
    enumIs("iobind_state_kind", "IOBIND_STATE_", StateKind.Kind.values());
    enumIs("iobind_holder", "IOBIND_HOLDER_", MemoryHolder.values());
    enumIs("iobind_audit_kind", "IOBIND_AUDIT_", BindingAudit.Kind.values());
    enumIs("iobind_policy", "IOBIND_POLICY_", OrtSessionFFM.Policy.values());
    enumIs("iobind_log_level", "IOBIND_LOG_", OrtRuntimeFFM.LogLevel.values());
    enumIs("iobind_value_kind", "IOBIND_VALUE_", OrtValueInfo.Kind.values());
    enumIs("iobind_placement", "IOBIND_PLACE_", OrtPipelineFFM.Placement.values());
    enumIs("iobind_hardware", "IOBIND_HARDWARE_", DeviceInfo.Hardware.values());
    JsonObject kinds = abi.getAsJsonObject("enums").getAsJsonObject("iobind_native_kind").getAsJsonObject("values");
    for (NativeKind kind : NativeKind.values()) assertEquals(kinds.get("IOBIND_NATIVE_" + kind).getAsInt(), kind.number());
    assertEquals(NativeKind.values().length + 1, kinds.size());
    JsonObject external = abi.getAsJsonObject("enums").getAsJsonObject("iobind_external_kind").getAsJsonObject("values");
    for (ExternalKind kind : ExternalKind.values()) assertEquals(external.get("IOBIND_EXTERNAL_" + kind).getAsInt(), kind.number());
    assertEquals(ExternalKind.values().length + 1, external.size());
    JsonObject memory = abi.getAsJsonObject("enums").getAsJsonObject("iobind_memory").getAsJsonObject("values");
    assertEquals(Place.DEFAULT, memory.get("IOBIND_MEMORY_DEFAULT").getAsInt());
    assertEquals(Place.HOST_ACCESSIBLE, memory.get("IOBIND_MEMORY_HOST_ACCESSIBLE").getAsInt());
    assertEquals(3, memory.size()); // with the one that makes it 32 bits wide
    JsonObject placing = abi.getAsJsonObject("enums").getAsJsonObject("iobind_output_mode").getAsJsonObject("values");
    for (OutputMode mode : List.of(OutputMode.FRESH, OutputMode.REUSE, OutputMode.NONE)) {
      assertEquals(placing.get("IOBIND_OUTPUT_" + mode).getAsInt(), BoundMemory.placing(mode), mode.toString());
    }
    assertEquals(4, placing.size());
    JsonObject access = abi.getAsJsonObject("enums").getAsJsonObject("iobind_access").getAsJsonObject("values");
    assertEquals(Constants.ACCESS_READ, access.get("IOBIND_ACCESS_READ").getAsInt());
    assertEquals(Constants.ACCESS_WRITE, access.get("IOBIND_ACCESS_WRITE").getAsInt());
    assertEquals(3, access.size());
    // and iobind_option_kind, of a function that is left out
    assertEquals(abi.getAsJsonObject("enums").size(), enums + 6, "enums of the header, and those compared here");
    Map<String, Long> expected = new TreeMap<>(), got = new TreeMap<>();
    abi.getAsJsonObject("constants").asMap().forEach((name, value) -> expected.put(name, value.getAsLong()));
    for (DeviceInfo.Capability capability : DeviceInfo.Capability.values()) {
      got.put("IOBIND_DEVICE_" + capability.name(), 1L << capability.ordinal());
    }
    for (Field field : Constants.class.getFields()) {
      if (!field.getName().startsWith("ACCESS_")) got.put("IOBIND_" + field.getName(), field.getLong(null));
    }
    got.put("IOBIND_MAX_RANK", (long) MemoryDescriptor.MAX_RANK);
    assertEquals(expected, got);
  }

  private int enums;

  private void enumIs(String name, String prefix, Enum<?>[] values) {
    enums++;
    JsonObject expected = abi.getAsJsonObject("enums").getAsJsonObject(name).getAsJsonObject("values");
    JsonObject got = new JsonObject();
    for (Enum<?> value : values) got.addProperty(value == OrtStatus.OK ? "IOBIND_OK" : prefix + value.name(), value.ordinal());
    expected.keySet().stream().filter(key -> !key.endsWith("_FORCE32")).forEach(key ->
        assertEquals(expected.get(key).getAsInt(), got.has(key) ? got.get(key).getAsInt() : -1, name + "." + key));
    assertEquals(expected.size() - 1, values.length, name);
  }
}
