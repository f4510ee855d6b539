package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Constants;
import io.github.iobind.ffm.Iobind;
import io.github.iobind.ffm.Layouts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.Consumer;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/**
 * A reference to a tensor: typed, shaped memory on a device or on the host. The memory is freed with its last reference.
 * {@link #close} releases this one; bindings and views have their own.
 *
 * <p>Several threads may read a value concurrently if none writes it. Offsets and sizes are in bytes.
 */
public final class OrtValueRef implements AutoCloseable {
  private static final long DEVICE = Layouts.offset(Layouts.TENSOR_INFO, "device");
  private static final long MEMORY = Layouts.offset(Layouts.TENSOR_INFO, "memory");
  private static final long BYTES = Layouts.offset(Layouts.TENSOR_INFO, "bytes");
  private static final java.util.function.LongConsumer RELEASE = Iobind::tensorRelease;

  private final Handle handle;
  /** The caller's memory that this value lies in; null where it is libiobind's. */
  private final MemorySegment backing;
  /** Read on first use; it is the same whoever reads it. */
  private TensorShape shape;
  /** Of the view; set once, before a look at whether the value was closed meanwhile. */
  private volatile Arena viewArena;
  private MemorySegment view;

  OrtValueRef(long address, MemorySegment backing) {
    this(address, backing, 0);
  }

  private OrtValueRef(long address, MemorySegment backing, long bytes) {
    this(OrtValueRef.class, address, backing, bytes);
  }

  private OrtValueRef(Class<?> type, long address, MemorySegment backing, long bytes) {
    this.handle = Handle.of(this, type, address, RELEASE, bytes);
    this.backing = backing;
  }

  /** A value whose description is asked for at once, by the caller's scratch. */
  OrtValueRef(long address, MemorySegment backing, Scratch scratch) {
    this(address, backing, scratch.tensorInfo(address));
  }

  private OrtValueRef(long address, MemorySegment backing, MemorySegment info) {
    this(address, backing, info.get(JAVA_LONG, BYTES));
    shape = new TensorShape(info);
  }

  // ---- making

  /**
   * Allocates a value; its content is undefined, strings are empty.
   *
   * @param runtime the runtime
   * @param spec the device; "/pinned" for its host-accessible memory
   * @param descriptor element type and shape
   * @return the value
   * @throws OrtFFMException OUT_OF_MEMORY; NOT_SUPPORTED: the device has no such memory, or cannot hold that type; DTYPE
   */
  public static OrtValueRef allocate(OrtRuntimeFFM runtime, DeviceSpec spec, MemoryDescriptor descriptor) {
    return allocate(OrtValueRef.class, runtime, spec, descriptor);
  }

  /** @param type what users know the value as */
  static OrtValueRef allocate(Class<?> type, OrtRuntimeFFM runtime, DeviceSpec spec, MemoryDescriptor descriptor) {
    Place place = runtime.resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      runtime.enter();
      try {
        long address = create(scratch, place, descriptor);
        OrtValueRef value = new OrtValueRef(type, address, null, descriptor.byteSize());
        value.shape = new TensorShape(descriptor, place.isHostReadable());
        return value;
      } finally {
        runtime.exit();
      }
    }
  }

  /**
   * Allocates a value in a session's own memory, such as its arena on CUDA, which {@code gpu_mem_limit} limits. The value
   * retains the session.
   *
   * @param session the session
   * @param spec one of its devices, as for the other {@code allocate}
   * @param descriptor element type and shape
   * @return the value
   * @throws OrtFFMException as the other {@code allocate}, also for strings; WRONG_DEVICE: not a device of the session
   */
  public static OrtValueRef allocate(OrtSessionFFM session, DeviceSpec spec, MemoryDescriptor descriptor) {
    Place place = session.runtime().resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      long address = session.enter();
      try {
        scratch.check(Iobind.sessionCreateTensor(address, place.device(), place.memory(), descriptor.type().number(),
            scratch.dims(descriptor.shape()), descriptor.shape().length, scratch.out(0), scratch.error()));
        return new OrtValueRef(scratch.getLong(0), null, scratch);
      } finally {
        session.exit();
      }
    }
  }

  static long create(Scratch scratch, Place place, MemoryDescriptor descriptor) {
    long[] dims = descriptor.shape();
    scratch.check(Iobind.tensorCreate(place.device(), place.memory(), descriptor.type().number(), scratch.dims(dims),
        dims.length, scratch.out(0), scratch.error()));
    return scratch.getLong(0);
  }

  /**
   * Creates a value over the caller's memory, without a copy: host memory on the CPU, device memory on a device. Use of the
   * value after the segment's arena was closed throws an IllegalStateException; while a run or a copy uses the memory, the
   * arena cannot be closed. A value over read-only memory can only be read.
   *
   * @param runtime the runtime
   * @param spec the device of the memory
   * @param segment native memory, of at least the value's size
   * @param descriptor element type and shape
   * @return the value
   * @throws OrtFFMException INVALID_ARGUMENT: the segment is too small, or a Java array's; DTYPE: strings
   */
  public static OrtValueRef wrap(OrtRuntimeFFM runtime, DeviceSpec spec, MemorySegment segment, MemoryDescriptor descriptor) {
    return wrap(runtime, spec, segment, descriptor, null);
  }

  /**
   * Creates a value over the caller's memory, with a callback when it is no longer used; this is mostly for device memory of
   * another library.
   *
   * @param runtime the runtime
   * @param spec the device of the memory
   * @param segment native memory, of at least the value's size; on a device without addresses the handle of its execution
   *     provider (a WGPUBuffer), reinterpreted to that size
   * @param descriptor element type and shape
   * @param released called once, on any thread, when no value, binding or run uses the memory any more; it must not call this
   *     package. null: no callback
   * @return the value
   * @throws OrtFFMException as {@link #wrap(OrtRuntimeFFM, DeviceSpec, MemorySegment, MemoryDescriptor)}; after an error
   *     {@code released} is not called
   */
  public static OrtValueRef wrap(OrtRuntimeFFM runtime, DeviceSpec spec, MemorySegment segment, MemoryDescriptor descriptor,
      @Nullable Runnable released) {
    Place place = runtime.resolve(spec);
    try (Scratch scratch = Scratch.take()) {
      runtime.enter();
      try {
        return new OrtValueRef(Wraps.create(scratch, place, segment, descriptor, released), segment);
      } finally {
        runtime.exit();
      }
    }
  }

  /** Refuses a Java array's segment, which native code cannot keep. */
  static void requireNative(MemorySegment segment, String what, String other) {
    if (segment.isNative()) return;
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT,
        what + "expected native memory, got a Java array's segment: " + other + ", or allocate in an Arena");
  }

  /**
   * Creates a value on the host with the content of a Java array.
   *
   * @param runtime the runtime
   * @param array a {@code float[]}, {@code double[]}, {@code long[]}, {@code int[]}, {@code short[]}, {@code byte[]} or
   *     {@code String[]}
   * @param descriptor element type and shape; the array must have the Java type of the element type
   * @return the value
   * @throws OrtFFMException DTYPE: the array is of another type; SHAPE: it has another number of elements
   */
  public static OrtValueRef of(OrtRuntimeFFM runtime, Object array, MemoryDescriptor descriptor) {
    OrtValueRef value = allocate(runtime, DeviceSpec.CPU, descriptor);
    try {
      if (array instanceof String[] strings) {
        value.writeStrings(strings);
      } else {
        value.write(array);
      }
      return value;
    } catch (RuntimeException e) {
      value.close();
      throw e;
    }
  }

  /**
   * A value over a part of this one, without a copy. It retains the memory.
   *
   * @param offset bytes from the start; anything but 0 needs a device that is ADDRESSABLE
   * @param descriptor element type and shape of the part
   * @return the view
   * @throws OrtFFMException INVALID_ARGUMENT: the part is not inside; NOT_SUPPORTED: the device cannot address it
   */
  public OrtValueRef view(long offset, MemoryDescriptor descriptor) {
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        long[] dims = descriptor.shape();
        scratch.check(Iobind.tensorView(address, offset, descriptor.type().number(), scratch.dims(dims), dims.length,
            scratch.out(0), scratch.error()));
        return new OrtValueRef(scratch.getLong(0), backing);
      } finally {
        exit();
      }
    }
  }

  /**
   * A view of entries of the leading axis.
   *
   * @param start the first entry
   * @param count how many
   * @return the view
   * @throws OrtFFMException SHAPE: a scalar, or outside the axis; NOT_SUPPORTED: the device cannot address it
   */
  public OrtValueRef slice(long start, long count) {
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        scratch.check(Iobind.tensorSlice(address, start, count, scratch.out(0), scratch.error()));
        return new OrtValueRef(scratch.getLong(0), backing);
      } finally {
        exit();
      }
    }
  }

  /**
   * Another reference to the same tensor, which is closed separately.
   *
   * @return the reference
   */
  public OrtValueRef retain() {
    long address = enter();
    try {
      return new OrtValueRef(Iobind.tensorRetain(address), backing);
    } finally {
      exit();
    }
  }

  // ---- what it is

  private TensorShape shapeNow() {
    TensorShape known = shape;
    if (known != null && !handle.isClosed()) return known;
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        known = new TensorShape(scratch.tensorInfo(address));
        shape = known;
        return known;
      } finally {
        exit();
      }
    }
  }

  /**
   * Element type and shape.
   *
   * @return both
   */
  public MemoryDescriptor descriptor() {
    return shapeNow().descriptor();
  }

  /**
   * The shape.
   *
   * @return the dims, in elements; none for a scalar
   */
  public long[] shape() {
    return shapeNow().dims.clone();
  }

  /**
   * The element type.
   *
   * @return the type
   */
  public OnnxTensorElementType type() {
    return shapeNow().type;
  }

  /**
   * Where the memory is.
   *
   * @return the device, with "/pinned" for its host-accessible memory
   */
  public DeviceSpec device() {
    return place().spec();
  }

  private Place place() {
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        MemorySegment info = scratch.tensorInfo(address);
        return OrtRuntimeFFM.place(info.get(JAVA_LONG, DEVICE), info.get(JAVA_INT, MEMORY));
      } finally {
        exit();
      }
    }
  }

  /**
   * The address of the data, on any device, for other libraries that work there, such as a CUDA kernel. The host accesses the
   * data by {@link #asMemorySegment()}.
   *
   * @return a segment of no bytes, valid as long as the value; {@link MemorySegment#NULL} if it has 0 bytes or is of strings
   */
  public MemorySegment nativeAddress() {
    return MemorySegment.ofAddress(address());
  }

  /**
   * Whether the host can read and write the memory directly.
   *
   * @return whether {@link #asMemorySegment()} works
   */
  public boolean isHostReadable() {
    TensorShape now = shapeNow();
    return now.isHostReadable && now.type != OnnxTensorElementType.STRING;
  }

  // ---- content

  /**
   * The memory itself, without a copy. The call blocks while work in flight uses the memory; after later work, call it again
   * before an access. The segment is valid until this reference is closed; later access throws an IllegalStateException. If the
   * value is forgotten instead, the segment retains the memory until it is collected as well. A segment over the caller's
   * memory has the scope of that memory, and is read-only if that is. Closing a value whose segment was requested takes some 20
   * microseconds; in a loop use {@link #asMemorySegment(Arena)} or {@link #read(Object)}.
   *
   * @return a segment of exactly the value's bytes, for any thread
   * @throws OrtFFMException WRONG_DEVICE: the host cannot read the memory: {@link #read(Object)} copies it; DTYPE: strings
   */
  public MemorySegment asMemorySegment() {
    mapForView();
    synchronized (handle) {
      if (view == null) {
        Arena arena = Arena.ofShared();
        view = segment(arena, address -> new ViewReference(address)::giveBack);
        viewArena = arena;
      }
      if (handle.isClosed()) {
        closeView();
        throw handle.closed();
      }
      return view;
    }
  }

  /**
   * The memory itself, without a copy, until an arena is closed. It blocks as {@link #asMemorySegment()} does. The segment
   * retains the memory until then, also if this reference is closed. For a value over your own memory, the segment is valid
   * until that memory's own arena is closed, whatever {@code arena} is.
   *
   * @param arena the scope of the segment; a confined arena is cheap
   * @return a segment of exactly the value's bytes
   * @throws OrtFFMException as {@link #asMemorySegment()}
   */
  public MemorySegment asMemorySegment(Arena arena) {
    mapForView();
    return segment(arena, address -> ignored -> Iobind.tensorRelease(address));
  }

  /** @param cleanup what gives back the segment's reference to the tensor, when the arena is closed */
  private MemorySegment segment(Arena arena, LongFunction<Consumer<MemorySegment>> cleanup) {
    TensorShape now = shapeNow();
    long address = enter();
    try {
      if (backing != null) return memory(Iobind.tensorGetAddress(address), now.descriptor().byteSize(), backing);
      MemorySegment memory = MemorySegment.ofAddress(Iobind.tensorGetAddress(address));
      Iobind.tensorRetain(address);
      Consumer<MemorySegment> giveBack = cleanup.apply(address);
      try {
        MemorySegment segment = memory.reinterpret(now.descriptor().byteSize(), arena, giveBack);
        return now.isReadOnly ? segment.asReadOnly() : segment;
      } catch (RuntimeException e) { // the arena is closed, or another thread's
        giveBack.accept(memory);
        throw e;
      }
    } finally {
      exit();
    }
  }

  /** Waits for the work in flight that uses memory which the caller is about to get a segment of. */
  private void mapForView() {
    TensorShape now = hostShape();
    int access = isReadOnly() ? Constants.ACCESS_READ : Constants.ACCESS_WRITE;
    long address = enter();
    try {
      map(address, now, access);
    } finally {
      exit();
    }
  }

  /** The address of memory that the host reads, or writes, now: after all work in flight that uses it. Within a call in this value. */
  private static long map(long address, TensorShape shape, int access) {
    try (Scratch scratch = Scratch.take()) {
      scratch.check(Iobind.tensorMap(address, shape.type.number(), access, scratch.out(0), scratch.error()));
      return scratch.getLong(0);
    }
  }

  private TensorShape hostShape() {
    TensorShape now = shapeNow();
    if (now.type == OnnxTensorElementType.STRING) {
      throw new OrtFFMException(OrtStatus.DTYPE, "strings have no memory to look at: readStrings copies them");
    }
    if (!now.isHostReadable) {
      throw new OrtFFMException(OrtStatus.WRONG_DEVICE, now.descriptor() + " is in memory of " + place().spec()
          + ", which the host cannot read: read copies it");
    }
    return now;
  }

  /**
   * Writes native memory or a Java array's segment into this value.
   *
   * @param offset in the value, in bytes
   * @param source the bytes
   * @param stream the device's stream on which the copy is ordered; {@code source} must then be native memory, and remain valid
   *     until the copy is complete. null: complete on return
   * @throws OrtFFMException INVALID_ARGUMENT: the part does not lie inside, or the target is read-only, or a copy on a stream
   *     uses memory of a confined arena; DTYPE: strings; WRONG_DEVICE: another device's stream
   */
  public void write(long offset, MemorySegment source, @Nullable OrtStreamFFM stream) {
    if (!source.isNative()) {
      requireNoStream(stream);
      try (Arena arena = Arena.ofConfined()) {
        write(offset, arena.allocate(Math.max(1, source.byteSize()), 16).asSlice(0, source.byteSize()).copyFrom(source), null);
        return;
      }
    }
    requireWritable("write");
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        long streamAddress = OrtStreamFFM.enter(stream);
        try {
          OrtStreamFFM.copy(stream, held(stream, source), () -> scratch.check(
              Iobind.tensorWrite(address, offset, source, source.byteSize(), streamAddress, scratch.error())));
        } finally {
          OrtStreamFFM.exit(stream);
        }
      } finally {
        exit();
      }
    }
  }

  /**
   * Reads this value into native memory or a Java array's segment.
   *
   * @param offset in the value, in bytes
   * @param target receives the bytes
   * @param stream the device's stream on which the copy is ordered; {@code target} must then be native memory, and is written
   *     when the copy is complete. null: complete on return
   * @throws OrtFFMException as {@link #write(long, MemorySegment, OrtStreamFFM)}
   */
  public void read(long offset, MemorySegment target, @Nullable OrtStreamFFM stream) {
    if (target.isReadOnly()) throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "read: the target is read-only memory");
    if (!target.isNative()) {
      requireNoStream(stream);
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment copy = arena.allocate(Math.max(1, target.byteSize()), 16).asSlice(0, target.byteSize());
        read(offset, copy, null);
        target.copyFrom(copy);
        return;
      }
    }
    try (Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        long streamAddress = OrtStreamFFM.enter(stream);
        try {
          OrtStreamFFM.copy(stream, held(stream, target), () -> scratch.check(
              Iobind.tensorRead(address, offset, target, target.byteSize(), streamAddress, scratch.error())));
        } finally {
          OrtStreamFFM.exit(stream);
        }
      } finally {
        exit();
      }
    }
  }

  /** What a copy holds beside the segments that its own call is given. */
  private MemorySegment[] held(OrtStreamFFM stream, MemorySegment other) {
    return stream == null ? Hold.arenas(backing) : Hold.arenas(backing, other);
  }

  private static void requireNoStream(OrtStreamFFM stream) {
    if (stream != null) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "a copy on a stream needs native memory, not a Java array's");
    }
  }

  /**
   * Writes the whole value from a Java array.
   *
   * @param array of the component type that {@link OnnxTensorElementType#component} gives for the value's type
   * @throws OrtFFMException DTYPE: an array of another type; SHAPE: another number of elements
   */
  public void write(Object array) {
    TensorShape now = shapeNow();
    MemorySegment source = JavaArrays.segment(array, now.descriptor(), JavaArrays.Use.WRITE, null);
    if (!now.isHostReadable) {
      write(0, source, null);
      return;
    }
    requireWritable("write");
    long address = enter();
    try {
      memory(map(address, now, Constants.ACCESS_WRITE), source.byteSize(), backing).copyFrom(source);
    } finally {
      exit();
    }
  }

  /**
   * Reads the whole value into a Java array.
   *
   * @param array as for {@link #write(Object)}
   * @throws OrtFFMException as {@link #write(Object)}; INVALID_ARGUMENT: a buffer is read-only
   */
  public void read(Object array) {
    if (array instanceof boolean[] booleans) {
      boolean[] all = toBooleanArray();
      if (all.length != booleans.length) {
        throw new OrtFFMException(OrtStatus.SHAPE, "read: expected " + all.length + " booleans, got " + booleans.length);
      }
      System.arraycopy(all, 0, booleans, 0, all.length);
      return;
    }
    TensorShape now = shapeNow();
    MemorySegment target = JavaArrays.segment(array, now.descriptor(), JavaArrays.Use.READ, null);
    if (!now.isHostReadable) {
      read(0, target, null);
      return;
    }
    long address = enter();
    try {
      target.copyFrom(memory(map(address, now, Constants.ACCESS_READ), target.byteSize(), backing));
    } finally {
      exit();
    }
  }

  /** Memory at an address that the host reads: where it is the caller's, of his arena, which can say that it is closed. */
  static MemorySegment memory(long address, long bytes, MemorySegment backing) {
    if (backing == null) return Layouts.memory(address, bytes);
    return backing.asSlice(bytes == 0 ? 0 : address - backing.address(), bytes);
  }

  /** Whether the memory, the caller's or another library's, is for reading only. */
  boolean isReadOnly() {
    return (backing != null && backing.isReadOnly()) || shapeNow().isReadOnly;
  }

  /** Refuses memory that is for reading only. */
  void requireWritable(String what) {
    if (isReadOnly()) throw readOnly(what);
  }

  static OrtFFMException readOnly(String what) {
    return new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what + ": the value lies in memory that is read-only");
  }

  /**
   * Reads a value of type FLOAT32, FLOAT16 or BFLOAT16; the conversion is exact.
   *
   * @return its elements, row-major
   * @throws OrtFFMException DTYPE: another type; SHAPE: more elements than a Java array has
   */
  public float[] toFloatArray() {
    float[] array = new float[JavaArrays.length(descriptor())];
    if (type() != OnnxTensorElementType.FLOAT16 && type() != OnnxTensorElementType.BFLOAT16) {
      read(array);
      return array;
    }
    boolean isHalf = type() == OnnxTensorElementType.FLOAT16;
    short[] bits = new short[array.length];
    read(bits);
    for (int i = 0; i < array.length; i++) {
      array[i] = isHalf ? Float.float16ToFloat(bits[i]) : Float.intBitsToFloat(bits[i] << 16);
    }
    return array;
  }

  /**
   * Writes a value of type FLOAT32, FLOAT16 or BFLOAT16 from floats, rounded to the nearest, ties to even.
   *
   * @param floats as many as the value has elements
   * @throws OrtFFMException as {@link #write(Object)}
   */
  public void writeFloats(float... floats) {
    OnnxTensorElementType type = type();
    if (type != OnnxTensorElementType.FLOAT16 && type != OnnxTensorElementType.BFLOAT16) {
      write(floats);
      return;
    }
    short[] bits = new short[floats.length];
    for (int i = 0; i < bits.length; i++) {
      bits[i] = type == OnnxTensorElementType.FLOAT16 ? Float.floatToFloat16(floats[i]) : JavaArrays.bfloat16(floats[i]);
    }
    write(bits);
  }

  /**
   * Reads a value of type BOOL.
   *
   * @return its elements, row-major
   * @throws OrtFFMException DTYPE: another type; SHAPE: more elements than a Java array has
   */
  public boolean[] toBooleanArray() {
    if (type() != OnnxTensorElementType.BOOL) {
      throw new OrtFFMException(OrtStatus.DTYPE, "toBooleanArray: expected a value of bool, got " + descriptor());
    }
    byte[] bytes = new byte[JavaArrays.length(descriptor())];
    read(bytes);
    boolean[] array = new boolean[bytes.length];
    for (int i = 0; i < array.length; i++) array[i] = bytes[i] != 0;
    return array;
  }

  /**
   * Reads a value of type INT64 or UINT64.
   *
   * @return its elements, row-major
   * @throws OrtFFMException DTYPE: another type
   */
  public long[] toLongArray() {
    long[] array = new long[JavaArrays.length(descriptor())];
    read(array);
    return array;
  }

  /**
   * Sets all elements of a value of strings.
   *
   * @param strings as many as the value has elements
   * @throws OrtFFMException DTYPE: not strings; SHAPE: another number; INVALID_ARGUMENT: one is null, or has a NUL or half of a
   *     surrogate pair, which ONNX Runtime cannot keep
   */
  public void writeStrings(String... strings) {
    if (strings.length != descriptor().elementCount()) {
      throw new OrtFFMException(OrtStatus.SHAPE,
          "expected " + descriptor().elementCount() + " strings for " + descriptor() + ", got " + strings.length);
    }
    try (Arena arena = Arena.ofConfined()) { // all are looked at before one is written
      for (int i = 0; i < strings.length; i++) Texts.allocate(arena, strings[i], "string " + i);
    }
    for (int i = 0; i < strings.length; i++) writeString(i, strings[i]);
  }

  void writeString(long index, String text) {
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment bytes = Texts.allocate(arena, text, "string " + index);
      long address = enter();
      try {
        scratch.check(Iobind.tensorSetString(address, index, bytes, scratch.error()));
      } finally {
        exit();
      }
    }
  }

  /**
   * Reads a value of strings.
   *
   * @return its elements, row-major
   * @throws OrtFFMException DTYPE: not strings
   */
  public String[] readStrings() {
    String[] strings = new String[JavaArrays.length(descriptor())];
    Arrays.setAll(strings, this::readString);
    if (strings.length == 0 && type() != OnnxTensorElementType.STRING) readString(0);
    return strings;
  }

  String readString(long index) {
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      long address = enter();
      try {
        MemorySegment buffer = MemorySegment.NULL;
        scratch.check(Iobind.tensorGetString(address, index, buffer, 0, scratch.out(0), scratch.error()));
        long needed = scratch.getLong(0);
        if (needed == 0) return "";
        buffer = arena.allocate(needed);
        scratch.check(Iobind.tensorGetString(address, index, buffer, needed, scratch.out(0), scratch.error()));
        return new String(buffer.toArray(java.lang.foreign.ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
      } finally {
        exit();
      }
    }
  }

  // ---- copies

  /**
   * Copies this value into another one, between any two memory locations.
   *
   * @param target of the same type and shape, not overlapping
   * @throws OrtFFMException DTYPE, SHAPE: they differ; INVALID_ARGUMENT: they overlap; NOT_SUPPORTED: strings
   */
  public void copyTo(OrtValueRef target) {
    copy(new OrtValueRef[] {this}, new OrtValueRef[] {target}, null);
  }

  /**
   * Copies this value to a device.
   *
   * @param runtime the runtime
   * @param spec the target device; "/pinned" for its host-accessible memory
   * @return a new value there
   * @throws OrtFFMException as {@link #allocate} and {@link #copyTo(OrtValueRef)}
   */
  public OrtValueRef copyTo(OrtRuntimeFFM runtime, DeviceSpec spec) {
    OrtValueRef target = allocate(runtime, spec, descriptor());
    try {
      copyTo(target);
      return target;
    } catch (RuntimeException e) {
      target.close();
      throw e;
    }
  }

  /**
   * Copies values into others, pair by pair. Pairs with the same two devices are copied together.
   *
   * @param sources the values
   * @param targets as many, each of its source's type and shape
   * @param stream a stream of one of the devices, on which the copies are ordered; null: complete on return
   * @throws OrtFFMException as {@link #copyTo(OrtValueRef)}: the message names the pair; WRONG_DEVICE: a stream of another
   *     device. After a failure the targets are undefined
   */
  public static void copy(OrtValueRef[] sources, OrtValueRef[] targets, @Nullable OrtStreamFFM stream) {
    if (sources.length != targets.length) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, sources.length + " sources and " + targets.length + " targets");
    }
    for (OrtValueRef target : targets) target.requireWritable("copyTo");
    int entered = 0, count = sources.length;
    OrtValueRef[] all = Arrays.copyOf(sources, 2 * count);
    System.arraycopy(targets, 0, all, count, count);
    MemorySegment[] memory = Hold.arenas(Arrays.stream(all).map(OrtValueRef::backing).toArray(MemorySegment[]::new));
    try (Arena arena = Arena.ofConfined(); Scratch scratch = Scratch.take()) {
      MemorySegment addresses = arena.allocate(JAVA_LONG, Math.max(1, 2 * count));
      for (; entered < all.length; entered++) addresses.setAtIndex(JAVA_LONG, entered, all[entered].enter());
      long streamAddress = OrtStreamFFM.enter(stream);
      try {
        OrtStreamFFM.copy(stream, memory, () -> scratch.check(Iobind.tensorCopy(addresses,
            addresses.asSlice((long) count * Long.BYTES), count, streamAddress, scratch.error())));
      } finally {
        OrtStreamFFM.exit(stream);
      }
    } finally {
      while (entered > 0) all[--entered].exit();
    }
  }

  /**
   * Compares this value with a reference, by the limits of its type.
   *
   * @param right of the same type and shape, on the host as this one
   * @return the difference
   * @throws OrtFFMException as {@link OrtDifference#between}
   */
  public OrtDifference compare(OrtValueRef right) {
    return OrtDifference.between(this, right, MemorySegment.NULL);
  }

  // ---- lifetime

  /** Enters a call in this value: it is there until exit, and the caller's memory behind it is checked. */
  long enter() {
    long address = handle.enter();
    if (backing != null && !backing.scope().isAlive()) {
      handle.exit();
      throw new IllegalStateException("the arena of the memory that this OrtValueRef wraps is closed");
    }
    return address;
  }

  void exit() {
    handle.exit();
  }

  MemorySegment backing() {
    return backing;
  }

  /** The address of the native tensor; whoever keeps that tensor knows it again by it. */
  long tensor() {
    return handle.address();
  }

  /** Whether a call in this value would find all that it needs. */
  boolean isUsable() {
    return !handle.isClosed() && (backing == null || backing.scope().isAlive());
  }

  /** Where the memory is: equal for two values over the same memory. */
  long address() {
    long address = enter();
    try {
      return Iobind.tensorGetAddress(address);
    } finally {
      exit();
    }
  }

  /**
   * Releases this reference; later calls are no-ops. The segment of {@link #asMemorySegment()} becomes invalid.
   *
   * @throws IllegalStateException another thread's native call is using that segment; close again after it
   */
  @Override
  public void close() {
    handle.close();
    if (viewArena != null) closeView();
  }

  private void closeView() {
    synchronized (handle) {
      if (viewArena.scope().isAlive()) viewArena.close();
    }
  }

  /** Type, shape and place, or that it or its memory's arena is closed. */
  @Override
  public String toString() {
    try {
      return "OrtValueRef " + descriptor() + " on " + device();
    } catch (IllegalStateException e) {
      return handle.isClosed() ? "OrtValueRef (closed)" : "OrtValueRef (its arena is closed)";
    }
  }
}
