package io.github.iobind.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.github.iobind.ffm.Iobind;
import java.lang.foreign.AddressLayout;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What GraalVM's native-image is told about this package is what the package does. */
class NativeImageTest {
  private static final Path FILE = Path.of(
      "target/classes/META-INF/native-image/io.github.iobind/onnxruntime-io-binding-ffm/reachability-metadata.json");
  private static final Gson GSON = new GsonBuilder().setPrettyPrinting().create();

  private static String name(MemoryLayout layout) {
    if (layout instanceof AddressLayout) return "void*";
    return layout.byteSize() == Integer.BYTES ? "jint" : "jlong";
  }

  private static String text(FunctionDescriptor function) {
    return function.returnLayout().map(NativeImageTest::name).orElse("void")
        + function.argumentLayouts().stream().map(NativeImageTest::name).collect(Collectors.joining(", ", "(", ")"));
  }

  private static String text(JsonElement function) {
    JsonObject object = function.getAsJsonObject();
    return object.get("returnType").getAsString() + object.getAsJsonArray("parameterTypes").asList().stream()
        .map(JsonElement::getAsString).collect(Collectors.joining(", ", "(", ")"));
  }

  @Test
  void downcalls() throws Exception {
    JsonObject foreign = JsonParser.parseString(Files.readString(FILE)).getAsJsonObject().getAsJsonObject("foreign");
    Set<String> expected = new TreeSet<>(), got = new TreeSet<>();
    for (FunctionDescriptor function : Iobind.functions().values()) expected.add(text(function));
    for (FunctionDescriptor function : Iobind.holding()) expected.add(text(function));
    expected.add(text(Hold.BSEARCH));
    for (JsonElement call : foreign.getAsJsonArray("downcalls")) got.add(text(call));
    JsonArray wanted = new JsonArray();
    for (String call : expected) {
      JsonObject object = new JsonObject();
      object.addProperty("returnType", call.substring(0, call.indexOf('(')));
      JsonArray parameters = new JsonArray();
      String inside = call.substring(call.indexOf('(') + 1, call.length() - 1);
      if (!inside.isEmpty()) for (String parameter : inside.split(", ")) parameters.add(parameter);
      object.add("parameterTypes", parameters);
      wanted.add(object);
    }
    assertEquals(expected, got, () -> "the file should have: " + GSON.toJson(wanted));
  }

  /** Every class, method and field that is looked up by its name is there. */
  @Test
  void reflection() throws Exception {
    Set<String> upcalls = new HashSet<>();
    for (JsonElement element : JsonParser.parseString(Files.readString(FILE)).getAsJsonObject().getAsJsonArray("reflection")) {
      JsonObject type = element.getAsJsonObject();
      if (type.get("type").getAsString().startsWith("ai.")) continue; // OfficialTest needs those
      Class<?> found = Class.forName(type.get("type").getAsString());
      if (type.has("fields")) {
        for (JsonElement field : type.getAsJsonArray("fields")) {
          found.getDeclaredField(field.getAsJsonObject().get("name").getAsString());
        }
      }
      if (!type.has("methods")) continue;
      for (JsonElement method : type.getAsJsonArray("methods")) {
        JsonArray parameters = method.getAsJsonObject().getAsJsonArray("parameterTypes");
        Class<?>[] types = new Class<?>[parameters.size()];
        for (int i = 0; i < types.length; i++) {
          String parameter = parameters.get(i).getAsString();
          types[i] = parameter.equals("int") ? int.class : parameter.equals("long") ? long.class : Class.forName(parameter);
        }
        upcalls.add(found.getDeclaredMethod(method.getAsJsonObject().get("name").getAsString(), types).getName());
      }
    }
    assertEquals(Set.of("compare", "released", "forward"), upcalls);
  }
}
