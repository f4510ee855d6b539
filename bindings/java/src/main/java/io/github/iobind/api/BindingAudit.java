package io.github.iobind.api;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.IobindFlow;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The bytes that each run of a binding moves.
 *
 * @param crossingBytes bytes that cross a link in each run, the sum over the crossing entries
 * @param crossingCount how many entries cross
 * @param unknownCount how many entries move data of unknown size; if not 0, the sum is a lower bound
 * @param entries inputs in the model's order, then outputs, then nodes
 */
public record BindingAudit(long crossingBytes, long crossingCount, long unknownCount, List<Entry> entries) {
  /** The kind of an entry. */
  public enum Kind {
    /** An input. */
    INPUT,
    /** An output. */
    OUTPUT,
    /** A node that runs on the CPU although the session has a device. */
    NODE
  }

  /**
   * The data that one input, output or node moves.
   *
   * @param kind what it is
   * @param name its name
   * @param from the source device; null for a node, or if it is not bound
   * @param to the target device; null as {@code from}
   * @param bytes moved in each run, also within one memory; 0: nothing, or unknown
   * @param crosses whether the data cross between host and device memory, or between two devices
   * @param isUnknown whether data of unknown size are moved
   * @param reason the reason, in one line
   * @param advice how to avoid it; "" if there is nothing to do
   */
  public record Entry(Kind kind, String name, @Nullable DeviceSpec from, @Nullable DeviceSpec to, long bytes, boolean crosses,
      boolean isUnknown, String reason, String advice) {}

  static BindingAudit read(Scratch scratch, long audit) {
    var layout = Layouts.AUDIT_INFO;
    MemorySegment info = scratch.struct(layout);
    scratch.check(IobindFlow.auditGetInfo(audit, info, scratch.error()));
    long count = Layouts.getLong(info, layout, "entry_count"), bytes = Layouts.getLong(info, layout, "crossing_bytes");
    long crossing = Layouts.getLong(info, layout, "crossing_count"), unknown = Layouts.getLong(info, layout, "unknown_count");
    List<Entry> entries = new ArrayList<>();
    for (long i = 0; i < count; i++) {
      MemorySegment entry = scratch.struct(Layouts.AUDIT_ENTRY);
      scratch.check(IobindFlow.auditGetEntry(audit, i, entry, scratch.error()));
      entries.add(read(entry));
    }
    return new BindingAudit(bytes, crossing, unknown, List.copyOf(entries));
  }

  private static Entry read(MemorySegment entry) {
    var layout = Layouts.AUDIT_ENTRY;
    int flags = Layouts.getInt(entry, layout, "flags");
    return new Entry(Kind.values()[Layouts.getInt(entry, layout, "kind")], Layouts.getString(entry, layout, "name"),
        place(entry, "from"), place(entry, "to"), Layouts.getLong(entry, layout, "bytes"),
        (flags & Constants.AUDIT_CROSSES) != 0, (flags & Constants.AUDIT_UNKNOWN) != 0,
        Texts.inJava(Layouts.getString(entry, layout, "reason")), Texts.inJava(Layouts.getString(entry, layout, "advice")));
  }

  private static DeviceSpec place(MemorySegment entry, String field) {
    long device = Layouts.getLong(entry, Layouts.AUDIT_ENTRY, field);
    int memory = Layouts.getInt(entry, Layouts.AUDIT_ENTRY, field + "_memory");
    return device == 0 ? null : OrtRuntimeFFM.place(device, memory).spec();
  }
}
