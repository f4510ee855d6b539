package io.github.iobind.api;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;

/** What a tensor is. */
final class TensorShape {
  private static final long DTYPE = Layouts.offset(Layouts.TENSOR_INFO, "dtype");
  private static final long DIMS = Layouts.offset(Layouts.TENSOR_INFO, "dims");
  private static final long RANK = Layouts.offset(Layouts.TENSOR_INFO, "rank");
  private static final long HOST_READABLE = Layouts.offset(Layouts.TENSOR_INFO, "host_readable");
  private static final long READ_ONLY = Layouts.offset(Layouts.TENSOR_INFO, "read_only");

  final OnnxTensorElementType type;
  final long[] dims;
  final boolean isHostReadable;
  final boolean isReadOnly;
  /** Both as users see them; made when one asks. */
  private MemoryDescriptor descriptor;

  TensorShape(MemorySegment info) {
    type = OnnxTensorElementType.of(info.get(JAVA_INT, DTYPE));
    dims = Layouts.longs(info.get(JAVA_LONG, DIMS), info.get(JAVA_LONG, RANK));
    isHostReadable = info.get(JAVA_INT, HOST_READABLE) != 0;
    isReadOnly = info.get(JAVA_INT, READ_ONLY) != 0;
  }

  TensorShape(MemoryDescriptor descriptor, boolean isHostReadable) {
    this.type = descriptor.type();
    this.dims = descriptor.shape();
    this.isHostReadable = isHostReadable;
    this.isReadOnly = false;
    this.descriptor = descriptor;
  }

  MemoryDescriptor descriptor() {
    MemoryDescriptor known = descriptor;
    if (known == null) descriptor = known = new MemoryDescriptor(type, dims);
    return known;
  }
}
