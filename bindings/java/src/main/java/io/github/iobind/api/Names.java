package io.github.iobind.api;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The names of a session's inputs, or outputs. */
final class Names {
  /** So many are looked through before the map. */
  private static final int FIRST = 4;
  private final String what;
  private final Map<String, Integer> indexes = new LinkedHashMap<>();
  /** Of the first names the object that was asked for last: mostly one constant, which is found without its hash. */
  private final String[] asked;

  Names(String what, List<OrtValueInfo> values) {
    this.what = what;
    for (OrtValueInfo value : values) indexes.put(value.name(), indexes.size());
    asked = new String[Math.min(values.size(), FIRST)];
  }

  int index(String name) {
    for (int i = 0; i < asked.length; i++) {
      if (asked[i] == name && name != null) return i;
    }
    Integer index = indexes.get(name);
    if (index == null) {
      throw new OrtFFMException(OrtStatus.NOT_FOUND, "no " + what + " '" + name + "': the session has " + indexes.keySet());
    }
    if (index < asked.length) asked[index] = name;
    return index;
  }
}
