package io.github.iobind.ffm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.foreign.StructLayout;
import java.util.ArrayList;
import java.util.List;

/** The structs of iobind.h. A test compares every size and offset with what a C compiler makes of the header. */
public final class Layouts {
  /** What an address is an offset in. */
  private static final MemorySegment ALL_MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

  /** {@code iobind_error}. */
  public static final StructLayout ERROR = struct("iobind_error", u32("struct_size"), u32("status"), u32("ort_code"),
      u32("reserved"), MemoryLayout.sequenceLayout(496, JAVA_BYTE).withName("message"));

  /** {@code iobind_runtime_options}. */
  public static final StructLayout RUNTIME_OPTIONS = struct("iobind_runtime_options", u32("struct_size"), u32("flags"),
      pointer("ort_library"), pointer("ort_api_base"), pointer("ort_api"), pointer("ep_libraries"), size("ep_library_count"),
      pointer("log"), pointer("log_context"), u32("log_level"), u32("reserved"));

  /** {@code iobind_runtime_info}. */
  public static final StructLayout RUNTIME_INFO = struct("iobind_runtime_info", u32("struct_size"), u32("ort_api_version"),
      pointer("ort_version"), pointer("ort_library"), pointer("found_by"), size("device_count"), size("ep_count"));

  /** {@code iobind_ep_info}. */
  public static final StructLayout EP_INFO = struct("iobind_ep_info", u32("struct_size"), u32("status"), pointer("name"),
      pointer("path"), pointer("message"));

  /** {@code iobind_preload_options}. */
  public static final StructLayout PRELOAD_OPTIONS = struct("iobind_preload_options", u32("struct_size"), u32("flags"),
      pointer("directory"), u32("cuda"), u32("reserved"));

  /** {@code iobind_device_info}. */
  public static final StructLayout DEVICE_INFO = struct("iobind_device_info", u32("struct_size"), u32("flags"), pointer("spec"),
      pointer("ep_name"), pointer("ep_vendor"), pointer("vendor"), pointer("memory_name"), u32("vendor_id"), u32("device_id"),
      u32("hardware"), u32("ordinal"), size("metadata_count"));

  /** {@code iobind_device_counters}. */
  public static final StructLayout DEVICE_COUNTERS = struct("iobind_device_counters", u32("struct_size"), u32("reserved"),
      size("upload_bytes"), size("upload_count"), size("download_bytes"), size("download_count"), size("local_bytes"),
      size("local_count"), size("allocated_bytes"), size("allocation_count"));

  /** {@code iobind_memory_usage}. */
  public static final StructLayout MEMORY_USAGE = struct("iobind_memory_usage", u32("struct_size"), u32("reserved"), size("bytes"),
      size("count"), size("most_bytes"));

  /** {@code iobind_stream_options}. */
  public static final StructLayout STREAM_OPTIONS = struct("iobind_stream_options", u32("struct_size"), u32("flags"),
      pointer("option_keys"), pointer("option_values"), size("option_count"));

  /** {@code iobind_native}. */
  public static final StructLayout NATIVE = struct("iobind_native", u32("struct_size"), u32("kind"), pointer("handle"),
      size("value"));

  /** {@code iobind_external}. */
  public static final StructLayout EXTERNAL = struct("iobind_external", u32("struct_size"), u32("kind"), pointer("handle"),
      size("bytes"));

  /** {@code iobind_tolerance}. */
  public static final StructLayout TOLERANCE = struct("iobind_tolerance", JAVA_DOUBLE.withName("absolute"),
      JAVA_DOUBLE.withName("relative"));

  /** {@code iobind_difference}. */
  public static final StructLayout DIFFERENCE = struct("iobind_difference", u32("struct_size"), u32("reserved"), size("beyond"),
      size("first"), JAVA_DOUBLE.withName("absolute"), JAVA_DOUBLE.withName("relative"));

  /** {@code iobind_ort}. */
  public static final StructLayout ORT = struct("iobind_ort", u32("struct_size"), u32("api_version"), pointer("api"),
      pointer("env"));

  /** {@code iobind_buffer}. */
  public static final StructLayout BUFFER = struct("iobind_buffer", u32("struct_size"), u32("memory"), u32("dtype"), u32("reserved"),
      pointer("dims"), size("rank"), pointer("data"), size("bytes"), pointer("deleter"), pointer("context"));

  /** {@code iobind_tensor_info}. */
  public static final StructLayout TENSOR_INFO = struct("iobind_tensor_info", u32("struct_size"), u32("dtype"), pointer("dims"),
      size("rank"), size("bytes"), pointer("device"), u32("memory"), u32("host_readable"),
      u32("read_only"), u32("reserved"));

  /** {@code iobind_verify}. */
  public static final StructLayout VERIFY = struct("iobind_verify", u32("runs"), u32("reserved"), JAVA_DOUBLE.withName("absolute"),
      JAVA_DOUBLE.withName("relative"));

  /** {@code iobind_session_options}. */
  public static final StructLayout SESSION_OPTIONS = struct("iobind_session_options", u32("struct_size"), u32("flags"),
      pointer("devices"), size("device_count"), u32("policy"), u32("optimization"), u32("intra_op_threads"),
      u32("inter_op_threads"), pointer("ep_keys"), pointer("ep_values"), size("ep_option_count"), pointer("config_keys"),
      pointer("config_values"), size("config_count"), pointer("dim_names"), pointer("dim_values"), size("dim_count"),
      pointer("profile"), size("graph_limit"), pointer("stream"), VERIFY.withName("verify"));

  /** {@code iobind_session_info}. */
  public static final StructLayout SESSION_INFO = struct("iobind_session_info", u32("struct_size"), u32("reserved"),
      size("input_count"), size("output_count"), size("node_count"), size("opset"), size("model_version"), pointer("producer"),
      pointer("graph_name"), pointer("domain"), pointer("description"), size("metadata_count"), size("graph_count"),
      size("kept_graph_count"), size("device_node_count"));

  /** {@code iobind_value_info}. */
  public static final StructLayout VALUE_INFO = struct("iobind_value_info", u32("struct_size"), u32("kind"), pointer("name"),
      u32("dtype"), u32("has_shape"), pointer("dims"), pointer("symbols"), size("rank"), pointer("device"), u32("memory"),
      u32("reserved"), pointer("memory_name"));

  /** {@code iobind_node_info}. */
  public static final StructLayout NODE_INFO = struct("iobind_node_info", u32("struct_size"), u32("reserved"), pointer("name"),
      pointer("domain"), pointer("op_type"), pointer("ep_name"));

  /** {@code iobind_run_options}. */
  public static final StructLayout RUN_OPTIONS = struct("iobind_run_options", u32("struct_size"), u32("flags"),
      u32("log_level"), u32("reserved"), pointer("tag"), pointer("config_keys"), pointer("config_values"),
      size("config_count"));

  /** {@code iobind_run_request}. */
  public static final StructLayout RUN_REQUEST = struct("iobind_run_request", u32("struct_size"), u32("reserved"),
      pointer("inputs"), size("input_count"), pointer("targets"), size("target_count"), pointer("placements"), size("placement_count"),
      pointer("options"));

  /** {@code iobind_state_info}. */
  public static final StructLayout STATE_INFO = struct("iobind_state_info", u32("struct_size"), u32("reserved"),
      size("pair_count"), size("bytes"), pointer("device_spec"), pointer("ort_version"));

  /** {@code iobind_state_pair}. */
  public static final StructLayout STATE_PAIR = struct("iobind_state_pair", u32("struct_size"), u32("reserved"), size("output"),
      size("input"), pointer("tensor"));

  /** {@code iobind_state_kind_info}. */
  public static final StructLayout STATE_KIND_INFO = struct("iobind_state_kind_info", u32("struct_size"), u32("kind"),
      size("axis"), u32("mode"), u32("reserved"));

  /** {@code iobind_batch_pair}. */
  public static final StructLayout BATCH_PAIR = struct("iobind_batch_pair", size("output"), size("input"));

  /** {@code iobind_batch_options}. */
  public static final StructLayout BATCH_OPTIONS = struct("iobind_batch_options", u32("struct_size"), u32("flags"), size("most_rows"),
      pointer("pairs"), size("pair_count"), pointer("input_axes"), size("input_axis_count"), pointer("output_axes"),
      size("output_axis_count"), pointer("first"), JAVA_DOUBLE.withName("tolerance"));

  /** {@code iobind_batch_info}. */
  public static final StructLayout BATCH_INFO = struct("iobind_batch_info", u32("struct_size"), u32("reserved"), size("row_count"),
      size("width"), size("steps"), size("moved_rows"), size("bytes"));

  /** {@code iobind_batch_wait}. */
  public static final StructLayout BATCH_WAIT = struct("iobind_batch_wait", u32("struct_size"), u32("reserved"), size("rows"),
      size("longest_ns"), size("timeout_ns"));

  /** {@code iobind_pipeline_options}. */
  public static final StructLayout PIPELINE_OPTIONS = struct("iobind_pipeline_options", u32("struct_size"), u32("flags"),
      size("slots"), pointer("constants"), size("constant_count"), pointer("placements"), size("placement_count"),
      pointer("run_options"));

  /** {@code iobind_pipeline_request}. */
  public static final StructLayout PIPELINE_REQUEST = struct("iobind_pipeline_request", u32("struct_size"), u32("reserved"),
      pointer("inputs"), size("input_count"), pointer("events"), size("event_count"), pointer("tag"));

  /** {@code iobind_pipeline_item}. */
  public static final StructLayout PIPELINE_ITEM = struct("iobind_pipeline_item", u32("struct_size"), u32("reserved"),
      size("index"), size("submit_ns"), size("upload_ns"), size("run_ns"), size("download_ns"), pointer("tag"));

  /** {@code iobind_audit_info}. */
  public static final StructLayout AUDIT_INFO = struct("iobind_audit_info", u32("struct_size"), u32("reserved"),
      size("entry_count"), size("crossing_bytes"), size("crossing_count"), size("unknown_count"));

  /** {@code iobind_audit_entry}. */
  public static final StructLayout AUDIT_ENTRY = struct("iobind_audit_entry", u32("struct_size"), u32("kind"), u32("flags"),
      u32("reserved"), pointer("name"), pointer("from"), pointer("to"), u32("from_memory"), u32("to_memory"), size("bytes"),
      pointer("reason"), pointer("advice"));

  /** All of them, for the test. */
  public static final List<StructLayout> ALL = List.of(ERROR, RUNTIME_OPTIONS, RUNTIME_INFO, EP_INFO, PRELOAD_OPTIONS,
      DEVICE_INFO, DEVICE_COUNTERS, MEMORY_USAGE, STREAM_OPTIONS, NATIVE, EXTERNAL, TOLERANCE, DIFFERENCE, ORT, BUFFER, TENSOR_INFO, VERIFY, SESSION_OPTIONS, SESSION_INFO, VALUE_INFO,
      NODE_INFO, RUN_OPTIONS, RUN_REQUEST, STATE_INFO, STATE_PAIR, STATE_KIND_INFO, BATCH_PAIR, BATCH_OPTIONS, BATCH_INFO, BATCH_WAIT,
      PIPELINE_OPTIONS, PIPELINE_REQUEST, PIPELINE_ITEM, AUDIT_INFO, AUDIT_ENTRY);

  private Layouts() {}

  private static MemoryLayout u32(String name) {
    return JAVA_INT.withName(name);
  }

  private static MemoryLayout size(String name) {
    return JAVA_LONG.withName(name);
  }

  private static MemoryLayout pointer(String name) {
    return ADDRESS.withName(name);
  }

  /** Lays the fields out as C does, with the padding that it needs. */
  private static StructLayout struct(String name, MemoryLayout... fields) {
    List<MemoryLayout> elements = new ArrayList<>();
    long offset = 0, alignment = 1;
    for (MemoryLayout field : fields) {
      offset = pad(elements, offset, field.byteAlignment()) + field.byteSize();
      elements.add(field);
      alignment = Math.max(alignment, field.byteAlignment());
    }
    pad(elements, offset, alignment);
    return MemoryLayout.structLayout(elements.toArray(MemoryLayout[]::new)).withName(name);
  }

  private static long pad(List<MemoryLayout> elements, long offset, long alignment) {
    long padding = -offset & (alignment - 1);
    if (padding != 0) elements.add(MemoryLayout.paddingLayout(padding));
    return offset + padding;
  }

  /** A struct of zeros with its size set: all defaults, or ready to be filled. */
  public static MemorySegment allocate(SegmentAllocator allocator, StructLayout layout) {
    MemorySegment struct = allocator.allocate(layout).fill((byte) 0);
    struct.set(JAVA_INT, 0, (int) layout.byteSize());
    return struct;
  }

  /** The offset of a field. */
  public static long offset(StructLayout layout, String field) {
    return layout.byteOffset(MemoryLayout.PathElement.groupElement(field));
  }

  /** A field of 32 bits. */
  public static int getInt(MemorySegment struct, StructLayout layout, String field) {
    return struct.get(JAVA_INT, offset(layout, field));
  }

  /** A field of 64 bits, or a pointer. */
  public static long getLong(MemorySegment struct, StructLayout layout, String field) {
    return struct.get(JAVA_LONG, offset(layout, field));
  }

  /** A field that is a pointer. */
  public static void setPointer(MemorySegment struct, StructLayout layout, String field, MemorySegment value) {
    struct.set(JAVA_LONG, offset(layout, field), value.address());
  }

  /** Sets a field of floating point. */
  public static void setDouble(MemorySegment struct, StructLayout layout, String field, double value) {
    struct.set(JAVA_DOUBLE, offset(layout, field), value);
  }

  /** A field. */
  public static double getDouble(MemorySegment struct, StructLayout layout, String field) {
    return struct.get(JAVA_DOUBLE, offset(layout, field));
  }

  /** The text that a field points to; "" where it points nowhere. */
  public static String getString(MemorySegment struct, StructLayout layout, String field) {
    return string(getLong(struct, layout, field));
  }

  /** Sets a field of 32 bits. */
  public static void setInt(MemorySegment struct, StructLayout layout, String field, int value) {
    struct.set(JAVA_INT, offset(layout, field), value);
  }

  /** Sets a field of 64 bits, or a pointer. */
  public static void setLong(MemorySegment struct, StructLayout layout, String field, long value) {
    struct.set(JAVA_LONG, offset(layout, field), value);
  }

  /** The text at an address; "" where the address is 0. */
  public static String string(long address) {
    return address == 0 ? "" : ALL_MEMORY.getString(address);
  }

  /** Numbers at an address. */
  public static long[] longs(long address, long count) {
    long[] numbers = new long[(int) count];
    for (int i = 0; i < numbers.length; i++) numbers[i] = ALL_MEMORY.get(JAVA_LONG, address + (long) i * Long.BYTES);
    return numbers;
  }

  /** Memory at an address, which lives as long as somebody else says. */
  public static MemorySegment memory(long address, long bytes) {
    return ALL_MEMORY.asSlice(address, bytes);
  }
}
