package io.github.iobind.api;

import static io.github.iobind.api.Words.index;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The steps of conformance rows on saved states. */
final class StateSteps {
  private final Conformance row;
  private final Map<String, Saved> states = new HashMap<>();

  /** What a state holds for an input. */
  private record Kept(int output, Mirror value, DeviceSpec place) {}

  /** A state, and what it must hold, by the index of the input. */
  private record Saved(OrtStateFFM handle, Map<Integer, Kept> kept) {}

  StateSteps(Conformance row) {
    this.row = row;
  }

  void run(List<String> w) {
    String name = w.get(1);
    switch (w.getFirst()) {
      case "save" -> save(name);
      case "restore" -> restore(states.get(name));
      case "state" -> look(name, states.get(w.get(2)), index(w.get(3)));
      case "drop-state" -> states.remove(name).handle().close();
      case "write-state" -> row.settle(() -> states.get(name).handle().save(file(w.get(2))));
      case "read-state" -> read(name, file(w.get(2)), states.get(w.get(3)));
      default -> drop(file(name));
    }
  }

  void clear() {
    for (Saved saved : states.values()) saved.handle().close();
    states.clear();
  }

  private void put(String name, OrtStateFFM handle, Map<Integer, Kept> kept) {
    Saved before = states.put(name, new Saved(handle, kept));
    if (before != null) before.handle().close();
    List<String> names = kept.keySet().stream().map(index -> row.current.session.inputs().get(index).name()).toList();
    Conformance.require("the inputs of the state", names, List.copyOf(handle.inputs()));
    Conformance.require("bytes of the state", kept.values().stream().mapToLong(one -> one.value().byteCount()).sum(), handle.bytes());
  }

  private void save(String name) {
    Conformance.Bound of = row.current;
    OrtStateFFM handle = row.settle(() -> of.handle.saveState());
    if (handle == null) return;
    Map<Integer, Kept> kept = new TreeMap<>();
    for (int i = 0; i < of.outputs.length; i++) {
      Conformance.Slot from = of.outputs[i];
      if (from.carriedTo < 0) continue;
      Mirror value = from.due ? from.value : of.inputs[from.carriedTo].value;
      kept.put(from.carriedTo, new Kept(i, value.copy(), from.place));
    }
    put(name, handle, kept);
  }

  private void restore(Saved saved) {
    Conformance.Bound to = row.current;
    if (!row.settle(() -> to.handle.restoreState(saved.handle()))) return;
    saved.kept().forEach((index, kept) -> {
      Conformance.Slot input = to.inputs[index], output = to.outputs[kept.output()];
      output.due = false;
      boolean fits = input.value != null && input.value.typeText().equals(kept.value().typeText());
      if (output.mode == OutputMode.IN_PLACE && fits) {
        input.value.put(0, kept.value().content());
      } else {
        input.value = kept.value().copy();
      }
    });
  }

  private void look(String name, Saved saved, int index) {
    OrtValueRef handle = row.settle(() -> saved.handle().get(row.current.session.inputs().get(index).name()));
    if (handle != null) row.keep(name, handle, saved.kept().get(index).value(), saved.kept().get(index).place());
  }

  /** A file of the row's own. */
  private static Path file(String name) {
    return Path.of(System.getProperty("java.io.tmpdir"), "iobind-state-" + ProcessHandle.current().pid() + "-" + name);
  }

  private void read(String name, Path file, Saved like) {
    OrtSessionFFM session = row.current.session;
    OrtStateFFM handle = row.settle(() -> session.loadState(file));
    if (handle == null) return;
    Map<Integer, Kept> kept = new TreeMap<>();
    like.kept().forEach((index, one) -> kept.put(index,
        new Kept(one.output(), one.value().copy(), session.inputs().get(index).device())));
    put(name, handle, kept);
  }

  private static void drop(Path file) {
    try {
      Files.delete(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
