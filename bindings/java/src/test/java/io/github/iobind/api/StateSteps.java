package io.github.iobind.api;

import static io.github.iobind.api.Words.index;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.LongStream;

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
      case "reorder" -> reorder(index(name), w.get(2));
      case "rewind" -> rewind(Words.number(name), w.get(2).split(","));
      case "kind" -> kind(index(name), index(w.get(2)), w.get(3), w.size() > 4 ? index(w.get(4)) : -1);
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
    saved.kept().forEach((index, kept) -> replace(to.inputs[index], to.outputs[kept.output()], kept.value()));
  }

  private static void replace(Conformance.Slot input, Conformance.Slot output, Mirror value) {
    output.due = false;
    boolean fits = input.value != null && input.value.typeText().equals(value.typeText());
    if (output.mode == OutputMode.IN_PLACE && fits) {
      input.value.put(0, value.content());
    } else {
      input.value = value.copy();
    }
  }

  private void reorder(int axis, String text) {
    Conformance.Bound of = row.current;
    long[] rows = text.equals("-") ? new long[0] : Arrays.stream(text.split(",")).mapToLong(Words::number).toArray();
    if (!row.settle(() -> of.handle.reorderState(axis, rows))) return;
    for (Conformance.Slot output : of.outputs) {
      if (output.carriedTo < 0) continue;
      Conformance.Slot input = of.inputs[output.carriedTo];
      replace(input, output, rowsOf(output.due ? output.value : input.value, axis, rows));
    }
  }

  private void rewind(long length, String[] axes) {
    Conformance.Bound of = row.current;
    long[] rows = LongStream.range(0, length).toArray();
    if (!row.settle(() -> of.handle.rewindState(length))) return;
    int number = 0;
    for (Conformance.Slot output : of.outputs) {
      if (output.carriedTo < 0) continue;
      Conformance.Slot input = of.inputs[output.carriedTo];
      Mirror state = output.due ? output.value : input.value;
      int axis = index(axes[Math.min(number++, axes.length - 1)]);
      if (state.dims()[axis] != length) replace(input, output, rowsOf(state, axis, rows));
    }
  }

  private void kind(int output, int input, String kind, int axis) {
    OrtSessionFFM session = row.current.session;
    StateKind found = row.settle(() -> StateKind.of(session, output, input));
    if (found != null) Conformance.require("the kind", new StateKind(StateKind.Kind.valueOf(kind.toUpperCase(Locale.ROOT)), axis), found);
  }

  /** Rows of an axis: whole bytes for each element. */
  private static Mirror rowsOf(Mirror value, int axis, long[] rows) {
    long[] dims = value.dims().clone();
    int outer = 1, inner = value.count() == 0 ? 0 : value.byteCount() / value.count();
    for (int i = 0; i < axis; i++) outer *= (int) dims[i];
    for (int i = axis + 1; i < dims.length; i++) inner *= (int) dims[i];
    byte[] from = value.content();
    int before = (int) dims[axis];
    dims[axis] = rows.length;
    Mirror made = Mirror.of(value.type(), dims);
    for (int o = 0; o < outer; o++) {
      for (int r = 0; r < rows.length; r++) {
        int at = (o * before + (int) rows[r]) * inner;
        made.put((o * rows.length + r) * inner, Arrays.copyOfRange(from, at, at + inner));
      }
    }
    return made;
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
