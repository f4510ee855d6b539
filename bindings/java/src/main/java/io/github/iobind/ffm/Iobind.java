package io.github.iobind.ffm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The functions of iobind.h, one method each, in the header's order and with its names. Objects, errors and out pointers are
 * addresses, so that a call makes no Java object; memory of the caller's is a MemorySegment, which the call keeps alive.
 */
public final class Iobind {
  private static final Linker LINKER = Linker.nativeLinker();
  static final MemoryLayout SIZE = JAVA_LONG;
  static final MemoryLayout OBJECT = JAVA_LONG;
  static final MemoryLayout MEMORY = ADDRESS;
  static final MemoryLayout ENUM = JAVA_INT;

  /** Every function that is called; a test compares them with the header. */
  private static final Map<String, FunctionDescriptor> FUNCTIONS = new LinkedHashMap<>();

  /** How functions are called that are given more than they take. */
  private static final List<FunctionDescriptor> HOLDING = new ArrayList<>();

  private Iobind() {}

  /** The descriptors of calls that hold segments, beside those of {@link #functions}. */
  public static List<FunctionDescriptor> holding() {
    return Collections.unmodifiableList(HOLDING);
  }

  /** The functions of libiobind that this package calls, by name. */
  public static Map<String, FunctionDescriptor> functions() {
    IobindBatch.load();
    IobindFlow.load();
    IobindInterop.load();
    IobindStates.load();
    return Collections.unmodifiableMap(FUNCTIONS);
  }

  static MethodHandle find(String name, FunctionDescriptor descriptor) {
    MemorySegment symbol = symbol(name);
    FUNCTIONS.put(name, descriptor);
    return LINKER.downcallHandle(symbol, descriptor);
  }

  static MemorySegment symbol(String name) {
    return NativeLibrary.symbols().find(name).orElseThrow(() -> new UnsatisfiedLinkError(
        "libiobind (" + NativeLibrary.origin() + ") has no " + name + ": it is older than this package"));
  }

  /** A function that returns a status. */
  static MethodHandle status(String name, MemoryLayout... arguments) {
    return find(name, FunctionDescriptor.of(JAVA_INT, arguments));
  }

  /**
   * A function that returns a status, called with more than it takes, which no calling convention of C minds: the arenas of these
   * segments cannot be closed during the call.
   */
  private static MethodHandle holding(int segments, String name, MemoryLayout... arguments) {
    FunctionDescriptor descriptor = FunctionDescriptor.of(JAVA_INT, arguments);
    FUNCTIONS.put(name, descriptor);
    FunctionDescriptor called = descriptor.appendArgumentLayouts(Collections.nCopies(segments, MEMORY).toArray(MemoryLayout[]::new));
    HOLDING.add(called);
    return LINKER.downcallHandle(symbol(name), called);
  }

  static MethodHandle action(String name, MemoryLayout... arguments) {
    return find(name, FunctionDescriptor.ofVoid(arguments));
  }

  /** What a native call throws is no exception of its function: a closed segment, or a defect. */
  static RuntimeException thrown(Throwable t) {
    if (t instanceof RuntimeException e) return e;
    if (t instanceof Error e) throw e;
    return new IllegalStateException(t);
  }

  // ---- version

  private static final MethodHandle GET_VERSION_STRING = find("iobind_get_version_string", FunctionDescriptor.of(JAVA_LONG));

  /** {@code iobind_get_version_string}. */
  public static long getVersionString() {
    try {
      return (long) GET_VERSION_STRING.invokeExact();
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DTYPE_GET_BITS = status("iobind_dtype_get_bits", ENUM);

  /** {@code iobind_dtype_get_bits}. */
  public static int dtypeGetBits(int dtype) {
    try {
      return (int) DTYPE_GET_BITS.invokeExact(dtype);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DTYPE_GET_NAME = find("iobind_dtype_get_name", FunctionDescriptor.of(JAVA_LONG, ENUM));

  /** {@code iobind_dtype_get_name}. */
  public static long dtypeGetName(int dtype) {
    try {
      return (long) DTYPE_GET_NAME.invokeExact(dtype);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DTYPE_GET_BYTES = status("iobind_dtype_get_bytes", ENUM, OBJECT, SIZE, OBJECT, OBJECT);

  /** {@code iobind_dtype_get_bytes}. */
  public static int dtypeGetBytes(int dtype, long dims, long rank, long bytes, long error) {
    try {
      return (int) DTYPE_GET_BYTES.invokeExact(dtype, dims, rank, bytes, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- runtime

  private static final MethodHandle RUNTIME_CREATE = status("iobind_runtime_create", MEMORY, OBJECT, OBJECT);

  /** {@code iobind_runtime_create}. */
  public static int runtimeCreate(MemorySegment options, long runtime, long error) {
    try {
      return (int) RUNTIME_CREATE.invokeExact(options, runtime, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle RUNTIME_DESTROY = action("iobind_runtime_destroy", OBJECT);

  /** {@code iobind_runtime_destroy}. */
  public static void runtimeDestroy(long runtime) {
    try {
      RUNTIME_DESTROY.invokeExact(runtime);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle RUNTIME_GET_INFO = status("iobind_runtime_get_info", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_runtime_get_info}. */
  public static int runtimeGetInfo(long runtime, MemorySegment info, long error) {
    try {
      return (int) RUNTIME_GET_INFO.invokeExact(runtime, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle RUNTIME_REGISTER_EP = status("iobind_runtime_register_ep", OBJECT, MEMORY, MEMORY, OBJECT);

  /** {@code iobind_runtime_register_ep}. */
  public static int runtimeRegisterEp(long runtime, MemorySegment name, MemorySegment path, long error) {
    try {
      return (int) RUNTIME_REGISTER_EP.invokeExact(runtime, name, path, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle RUNTIME_GET_EP = status("iobind_runtime_get_ep", OBJECT, SIZE, MEMORY, OBJECT);

  /** {@code iobind_runtime_get_ep}. */
  public static int runtimeGetEp(long runtime, long index, MemorySegment info, long error) {
    try {
      return (int) RUNTIME_GET_EP.invokeExact(runtime, index, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- devices

  private static final MethodHandle RUNTIME_GET_DEVICE = find("iobind_runtime_get_device", FunctionDescriptor.of(JAVA_LONG,
      OBJECT, SIZE));

  /** {@code iobind_runtime_get_device}. */
  public static long runtimeGetDevice(long runtime, long index) {
    try {
      return (long) RUNTIME_GET_DEVICE.invokeExact(runtime, index);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle RUNTIME_FIND_DEVICE = status("iobind_runtime_find_device", OBJECT, MEMORY, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_runtime_find_device}. */
  public static int runtimeFindDevice(long runtime, MemorySegment spec, long device, long memory, long error) {
    try {
      return (int) RUNTIME_FIND_DEVICE.invokeExact(runtime, spec, device, memory, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DEVICE_GET_INFO = status("iobind_device_get_info", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_device_get_info}. */
  public static int deviceGetInfo(long device, MemorySegment info, long error) {
    try {
      return (int) DEVICE_GET_INFO.invokeExact(device, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DEVICE_GET_METADATA = status("iobind_device_get_metadata", OBJECT, SIZE, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_device_get_metadata}. */
  public static int deviceGetMetadata(long device, long index, long key, long value, long error) {
    try {
      return (int) DEVICE_GET_METADATA.invokeExact(device, index, key, value, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DEVICE_GET_COUNTERS = status("iobind_device_get_counters", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_device_get_counters}. */
  public static int deviceGetCounters(long device, MemorySegment counters, long error) {
    try {
      return (int) DEVICE_GET_COUNTERS.invokeExact(device, counters, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DEVICE_GET_MEMORY = status("iobind_device_get_memory", OBJECT, ENUM, MEMORY, OBJECT);

  /** {@code iobind_device_get_memory}. */
  public static int deviceGetMemory(long device, int holder, MemorySegment usage, long error) {
    try {
      return (int) DEVICE_GET_MEMORY.invokeExact(device, holder, usage, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle DEVICE_TRIM = status("iobind_device_trim", OBJECT, OBJECT);

  /** {@code iobind_device_trim}. */
  public static int deviceTrim(long device, long error) {
    try {
      return (int) DEVICE_TRIM.invokeExact(device, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- streams and events

  private static final MethodHandle STREAM_CREATE = status("iobind_stream_create", OBJECT, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_stream_create}. */
  public static int streamCreate(long device, MemorySegment options, long stream, long error) {
    try {
      return (int) STREAM_CREATE.invokeExact(device, options, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_DESTROY = action("iobind_stream_destroy", OBJECT);

  /** {@code iobind_stream_destroy}. */
  public static void streamDestroy(long stream) {
    try {
      STREAM_DESTROY.invokeExact(stream);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_SYNCHRONIZE = status("iobind_stream_synchronize", OBJECT, OBJECT);

  /** {@code iobind_stream_synchronize}. */
  public static int streamSynchronize(long stream, long error) {
    try {
      return (int) STREAM_SYNCHRONIZE.invokeExact(stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle STREAM_WAIT = status("iobind_stream_wait", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_stream_wait}. */
  public static int streamWait(long stream, long event, long error) {
    try {
      return (int) STREAM_WAIT.invokeExact(stream, event, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EVENT_CREATE = status("iobind_event_create", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_event_create}. */
  public static int eventCreate(long device, long event, long error) {
    try {
      return (int) EVENT_CREATE.invokeExact(device, event, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EVENT_DESTROY = action("iobind_event_destroy", OBJECT);

  /** {@code iobind_event_destroy}. */
  public static void eventDestroy(long event) {
    try {
      EVENT_DESTROY.invokeExact(event);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EVENT_RECORD = status("iobind_event_record", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_event_record}. */
  public static int eventRecord(long event, long stream, long error) {
    try {
      return (int) EVENT_RECORD.invokeExact(event, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EVENT_WAIT = status("iobind_event_wait", OBJECT, SIZE, OBJECT);

  /** {@code iobind_event_wait}. */
  public static int eventWait(long event, long nanos, long error) {
    try {
      return (int) EVENT_WAIT.invokeExact(event, nanos, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle EVENT_QUERY = status("iobind_event_query", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_event_query}. */
  public static int eventQuery(long event, long done, long error) {
    try {
      return (int) EVENT_QUERY.invokeExact(event, done, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- tensors

  private static final MethodHandle TENSOR_CREATE = status("iobind_tensor_create", OBJECT, ENUM, ENUM, OBJECT, SIZE, OBJECT,
      OBJECT);

  /** {@code iobind_tensor_create}. */
  public static int tensorCreate(long device, int memory, int dtype, long dims, long rank, long tensor, long error) {
    try {
      return (int) TENSOR_CREATE.invokeExact(device, memory, dtype, dims, rank, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_WRAP = holding(1, "iobind_tensor_wrap", OBJECT, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_tensor_wrap}, for a buffer in the memory of {@code held}, whose arena cannot be closed during the call. */
  public static int tensorWrap(long device, MemorySegment buffer, long tensor, long error, MemorySegment held) {
    try {
      return (int) TENSOR_WRAP.invokeExact(device, buffer, tensor, error, held);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_VIEW = status("iobind_tensor_view", OBJECT, SIZE, ENUM, OBJECT, SIZE, OBJECT,
      OBJECT);

  /** {@code iobind_tensor_view}. */
  public static int tensorView(long tensor, long offset, int dtype, long dims, long rank, long view, long error) {
    try {
      return (int) TENSOR_VIEW.invokeExact(tensor, offset, dtype, dims, rank, view, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_SLICE = status("iobind_tensor_slice", OBJECT, SIZE, SIZE, OBJECT, OBJECT);

  /** {@code iobind_tensor_slice}. */
  public static int tensorSlice(long tensor, long start, long count, long view, long error) {
    try {
      return (int) TENSOR_SLICE.invokeExact(tensor, start, count, view, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_RETAIN = find("iobind_tensor_retain", FunctionDescriptor.of(JAVA_LONG, OBJECT));

  /** {@code iobind_tensor_retain}. */
  public static long tensorRetain(long tensor) {
    try {
      return (long) TENSOR_RETAIN.invokeExact(tensor);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_RELEASE = action("iobind_tensor_release", OBJECT);

  /** {@code iobind_tensor_release}. */
  public static void tensorRelease(long tensor) {
    try {
      TENSOR_RELEASE.invokeExact(tensor);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_GET_INFO = status("iobind_tensor_get_info", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_tensor_get_info}. */
  public static int tensorGetInfo(long tensor, long info, long error) {
    try {
      return (int) TENSOR_GET_INFO.invokeExact(tensor, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_GET_ADDRESS = find("iobind_tensor_get_address", FunctionDescriptor.of(JAVA_LONG, OBJECT));

  /** {@code iobind_tensor_get_address}. */
  public static long tensorGetAddress(long tensor) {
    try {
      return (long) TENSOR_GET_ADDRESS.invokeExact(tensor);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_MAP = status("iobind_tensor_map", OBJECT, ENUM, ENUM, OBJECT, OBJECT);

  /** {@code iobind_tensor_map}. */
  public static int tensorMap(long tensor, int dtype, int access, long data, long error) {
    try {
      return (int) TENSOR_MAP.invokeExact(tensor, dtype, access, data, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_WRITE = status("iobind_tensor_write", OBJECT, SIZE, MEMORY, SIZE, OBJECT, OBJECT);

  /** {@code iobind_tensor_write}. */
  public static int tensorWrite(long tensor, long offset, MemorySegment data, long bytes, long stream, long error) {
    try {
      return (int) TENSOR_WRITE.invokeExact(tensor, offset, data, bytes, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_READ = status("iobind_tensor_read", OBJECT, SIZE, MEMORY, SIZE, OBJECT, OBJECT);

  /** {@code iobind_tensor_read}. */
  public static int tensorRead(long tensor, long offset, MemorySegment data, long bytes, long stream, long error) {
    try {
      return (int) TENSOR_READ.invokeExact(tensor, offset, data, bytes, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_COPY = status("iobind_tensor_copy", MEMORY, MEMORY, SIZE, OBJECT, OBJECT);

  /** {@code iobind_tensor_copy}. */
  public static int tensorCopy(MemorySegment sources, MemorySegment targets, long count, long stream, long error) {
    try {
      return (int) TENSOR_COPY.invokeExact(sources, targets, count, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_COMPARE = status("iobind_tensor_compare", OBJECT, OBJECT, MEMORY, MEMORY, OBJECT);

  /** {@code iobind_tensor_compare}. */
  public static int tensorCompare(long tensor, long right, MemorySegment tolerance, MemorySegment difference, long error) {
    try {
      return (int) TENSOR_COMPARE.invokeExact(tensor, right, tolerance, difference, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_GET_STRING = status("iobind_tensor_get_string", OBJECT, SIZE, MEMORY, SIZE, OBJECT,
      OBJECT);

  /** {@code iobind_tensor_get_string}. */
  public static int tensorGetString(long tensor, long index, MemorySegment buffer, long capacity, long needed, long error) {
    try {
      return (int) TENSOR_GET_STRING.invokeExact(tensor, index, buffer, capacity, needed, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle TENSOR_SET_STRING = status("iobind_tensor_set_string", OBJECT, SIZE, MEMORY, OBJECT);

  /** {@code iobind_tensor_set_string}. */
  public static int tensorSetString(long tensor, long index, MemorySegment text, long error) {
    try {
      return (int) TENSOR_SET_STRING.invokeExact(tensor, index, text, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- sessions

  private static final MethodHandle SESSION_CREATE = status("iobind_session_create", OBJECT, MEMORY, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_session_create}. */
  public static int sessionCreate(long runtime, MemorySegment path, MemorySegment options, long session, long error) {
    try {
      return (int) SESSION_CREATE.invokeExact(runtime, path, options, session, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_CREATE_FROM_MEMORY = status("iobind_session_create_from_memory", OBJECT, MEMORY,
      SIZE, MEMORY, OBJECT, OBJECT);

  /** {@code iobind_session_create_from_memory}. */
  public static int sessionCreateFromMemory(long runtime, MemorySegment model, long bytes, MemorySegment options, long session,
      long error) {
    try {
      return (int) SESSION_CREATE_FROM_MEMORY.invokeExact(runtime, model, bytes, options, session, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_CREATE_TENSOR = status("iobind_session_create_tensor", OBJECT, OBJECT, ENUM, ENUM,
      OBJECT, SIZE, OBJECT, OBJECT);

  /** {@code iobind_session_create_tensor}. */
  public static int sessionCreateTensor(long session, long device, int memory, int dtype, long dims, long rank, long tensor,
      long error) {
    try {
      return (int) SESSION_CREATE_TENSOR.invokeExact(session, device, memory, dtype, dims, rank, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_END_PROFILE = status("iobind_session_end_profile", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_session_end_profile}. */
  public static int sessionEndProfile(long session, long path, long error) {
    try {
      return (int) SESSION_END_PROFILE.invokeExact(session, path, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_DESTROY = action("iobind_session_destroy", OBJECT);

  /** {@code iobind_session_destroy}. */
  public static void sessionDestroy(long session) {
    try {
      SESSION_DESTROY.invokeExact(session);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_INFO = status("iobind_session_get_info", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_session_get_info}. */
  public static int sessionGetInfo(long session, MemorySegment info, long error) {
    try {
      return (int) SESSION_GET_INFO.invokeExact(session, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_METADATA = status("iobind_session_get_metadata", OBJECT, SIZE, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_session_get_metadata}. */
  public static int sessionGetMetadata(long session, long index, long key, long value, long error) {
    try {
      return (int) SESSION_GET_METADATA.invokeExact(session, index, key, value, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_INPUT = status("iobind_session_get_input", OBJECT, SIZE, MEMORY, OBJECT);

  /** {@code iobind_session_get_input}. */
  public static int sessionGetInput(long session, long index, MemorySegment info, long error) {
    try {
      return (int) SESSION_GET_INPUT.invokeExact(session, index, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_OUTPUT = status("iobind_session_get_output", OBJECT, SIZE, MEMORY, OBJECT);

  /** {@code iobind_session_get_output}. */
  public static int sessionGetOutput(long session, long index, MemorySegment info, long error) {
    try {
      return (int) SESSION_GET_OUTPUT.invokeExact(session, index, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_GET_NODE = status("iobind_session_get_node", OBJECT, SIZE, MEMORY, OBJECT);

  /** {@code iobind_session_get_node}. */
  public static int sessionGetNode(long session, long index, MemorySegment info, long error) {
    try {
      return (int) SESSION_GET_NODE.invokeExact(session, index, info, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle SESSION_RUN = status("iobind_session_run", OBJECT, MEMORY, MEMORY, SIZE, OBJECT);

  /** {@code iobind_session_run}. */
  public static int sessionRun(long session, MemorySegment request, MemorySegment outputs, long count, long error) {
    try {
      return (int) SESSION_RUN.invokeExact(session, request, outputs, count, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  // ---- bindings

  private static final MethodHandle BINDING_CREATE = status("iobind_binding_create", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_binding_create}. */
  public static int bindingCreate(long session, long binding, long error) {
    try {
      return (int) BINDING_CREATE.invokeExact(session, binding, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_DESTROY = action("iobind_binding_destroy", OBJECT);

  /** {@code iobind_binding_destroy}. */
  public static void bindingDestroy(long binding) {
    try {
      BINDING_DESTROY.invokeExact(binding);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_SET_INPUT = status("iobind_binding_set_input", OBJECT, SIZE, ENUM, OBJECT, OBJECT,
      OBJECT);

  /** {@code iobind_binding_set_input}. */
  public static int bindingSetInput(long binding, long index, int mode, long tensor, long event, long error) {
    try {
      return (int) BINDING_SET_INPUT.invokeExact(binding, index, mode, tensor, event, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_WRITE_INPUT = status("iobind_binding_write_input", OBJECT, SIZE, MEMORY, SIZE,
      OBJECT, OBJECT);

  /** {@code iobind_binding_write_input}. */
  public static int bindingWriteInput(long binding, long index, MemorySegment data, long bytes, long stream, long error) {
    try {
      return (int) BINDING_WRITE_INPUT.invokeExact(binding, index, data, bytes, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_SET_OUTPUT = status("iobind_binding_set_output", OBJECT, SIZE, OBJECT, ENUM, OBJECT);

  /** {@code iobind_binding_set_output}. */
  public static int bindingSetOutput(long binding, long index, long tensor, int flags, long error) {
    try {
      return (int) BINDING_SET_OUTPUT.invokeExact(binding, index, tensor, flags, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_PLACE_OUTPUT = status("iobind_binding_place_output", OBJECT, SIZE, ENUM, OBJECT, ENUM,
      OBJECT);

  /** {@code iobind_binding_place_output}. */
  public static int bindingPlaceOutput(long binding, long index, int mode, long device, int memory, long error) {
    try {
      return (int) BINDING_PLACE_OUTPUT.invokeExact(binding, index, mode, device, memory, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_SET_RUN_OPTIONS = status("iobind_binding_set_run_options", OBJECT, MEMORY, OBJECT);

  /** {@code iobind_binding_set_run_options}. */
  public static int bindingSetRunOptions(long binding, MemorySegment options, long error) {
    try {
      return (int) BINDING_SET_RUN_OPTIONS.invokeExact(binding, options, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_CHECK = status("iobind_binding_check", OBJECT, OBJECT);

  /** {@code iobind_binding_check}. */
  public static int bindingCheck(long binding, long error) {
    try {
      return (int) BINDING_CHECK.invokeExact(binding, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_RUN = status("iobind_binding_run", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_binding_run}. */
  public static int bindingRun(long binding, long stream, long error) {
    try {
      return (int) BINDING_RUN.invokeExact(binding, stream, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  /** How many segments {@link #bindingRun(long, long, long, MemorySegment, MemorySegment)} holds. */
  public static final int HOLDS = 2;

  private static final MethodHandle BINDING_RUN_HOLDING = holding(HOLDS, "iobind_binding_run", OBJECT, OBJECT, OBJECT);

  /** {@code iobind_binding_run}, whose run works in memory of these arenas. */
  public static int bindingRun(long binding, long stream, long error, MemorySegment held, MemorySegment alsoHeld) {
    try {
      return (int) BINDING_RUN_HOLDING.invokeExact(binding, stream, error, held, alsoHeld);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_ANNOUNCE_RUN = status("iobind_binding_announce_run", OBJECT, JAVA_INT, OBJECT);

  /** {@code iobind_binding_announce_run}. */
  public static int bindingAnnounceRun(long binding, int comes, long error) {
    try {
      return (int) BINDING_ANNOUNCE_RUN.invokeExact(binding, comes, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_CANCEL = status("iobind_binding_cancel", OBJECT, OBJECT);

  /** {@code iobind_binding_cancel}. */
  public static int bindingCancel(long binding, long error) {
    try {
      return (int) BINDING_CANCEL.invokeExact(binding, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_GET_OUTPUT = status("iobind_binding_get_output", OBJECT, SIZE, OBJECT, OBJECT, OBJECT);

  /** {@code iobind_binding_get_output}. */
  public static int bindingGetOutput(long binding, long index, long stream, long tensor, long error) {
    try {
      return (int) BINDING_GET_OUTPUT.invokeExact(binding, index, stream, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_TAKE_OUTPUT = status("iobind_binding_take_output", OBJECT, SIZE, OBJECT, OBJECT);

  /** {@code iobind_binding_take_output}. */
  public static int bindingTakeOutput(long binding, long index, long tensor, long error) {
    try {
      return (int) BINDING_TAKE_OUTPUT.invokeExact(binding, index, tensor, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_CARRY = status("iobind_binding_carry", OBJECT, SIZE, SIZE, ENUM, OBJECT);

  /** {@code iobind_binding_carry}. */
  public static int bindingCarry(long binding, long output, long input, int mode, long error) {
    try {
      return (int) BINDING_CARRY.invokeExact(binding, output, input, mode, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_RESET_GRAPHS = status("iobind_binding_reset_graphs", OBJECT, OBJECT);

  /** {@code iobind_binding_reset_graphs}. */
  public static int bindingResetGraphs(long binding, long error) {
    try {
      return (int) BINDING_RESET_GRAPHS.invokeExact(binding, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }

  private static final MethodHandle BINDING_CLEAR = status("iobind_binding_clear", OBJECT, OBJECT);

  /** {@code iobind_binding_clear}. */
  public static int bindingClear(long binding, long error) {
    try {
      return (int) BINDING_CLEAR.invokeExact(binding, error);
    } catch (Throwable t) {
      throw thrown(t);
    }
  }
}
