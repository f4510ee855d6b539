package io.github.iobind.api;

import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;

/**
 * The outputs of one run, by name. What nobody asks for is not fetched, so that a run whose outputs are ignored costs nothing
 * more. It ends with the next run, of which it must not show the outputs. It can be another run's only if nobody has looked into it.
 */
final class RunOutputs extends AbstractMap<String, OrtValueRef> {
  private final OrtIoBindingFFM binding;
  private long run;
  private boolean isUsed;
  /** Those that were fetched; null: none was. */
  private OrtValueRef[] values;

  RunOutputs(OrtIoBindingFFM binding) {
    this.binding = binding;
  }

  void begin(long itsRun) {
    run = itsRun;
  }

  boolean isUsed() {
    return isUsed;
  }

  private List<OrtValueInfo> infos() {
    isUsed = true;
    binding.requireRun(run);
    return binding.session().outputs();
  }

  private boolean isGiven(int index) {
    return binding.outputs[index].mode != OutputMode.NONE;
  }

  /** The index of a name; -1: there is no such output, or the run does not give it. */
  private int index(Object name) {
    List<OrtValueInfo> infos = infos();
    for (int i = 0; i < infos.size(); i++) {
      if (infos.get(i).name().equals(name)) return isGiven(i) ? i : -1;
    }
    return -1;
  }

  private OrtValueRef value(int index) {
    if (values == null) values = new OrtValueRef[infos().size()];
    if (values[index] == null) values[index] = binding.lendOutput(index);
    return values[index];
  }

  @Override
  public OrtValueRef get(Object name) {
    int index = index(name);
    return index < 0 ? null : value(index);
  }

  @Override
  public boolean containsKey(Object name) {
    return index(name) >= 0;
  }

  @Override
  public Set<Map.Entry<String, OrtValueRef>> entrySet() {
    return new AbstractSet<>() {
      @Override
      public int size() {
        int count = 0;
        for (int i = 0; i < infos().size(); i++) count += isGiven(i) ? 1 : 0;
        return count;
      }

      @Override
      public Iterator<Map.Entry<String, OrtValueRef>> iterator() {
        return new Entries();
      }
    };
  }

  private final class Entries implements Iterator<Map.Entry<String, OrtValueRef>> {
    private int next;

    @Override
    public boolean hasNext() {
      int count = infos().size();
      while (next < count && !isGiven(next)) next++;
      return next < count;
    }

    @Override
    public Map.Entry<String, OrtValueRef> next() {
      if (!hasNext()) throw new NoSuchElementException();
      int index = next++;
      return Map.entry(infos().get(index).name(), value(index));
    }
  }
}
