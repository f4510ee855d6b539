package io.github.iobind.api;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An input or output of a session.
 *
 * @param name its name in the model
 * @param kind its kind; the following components are set for tensors only
 * @param type the element type
 * @param hasShape whether the model defines the rank
 * @param shape the dims; -1: open
 * @param symbols the names of open dims; "" for a fixed or unnamed dim
 * @param device from which the session reads the input, or on which it leaves the output; null if it is not a tensor
 * @param memoryName ONNX Runtime's name of that memory
 */
public record OrtValueInfo(String name, Kind kind, OnnxTensorElementType type, boolean hasShape, List<Long> shape,
    List<String> symbols, @Nullable DeviceSpec device, String memoryName) {
  /** The kind of an input or output. */
  public enum Kind {
    /** Another kind. */
    UNKNOWN,
    /** A tensor, the only kind that can be bound. */
    TENSOR,
    /** A sequence. */
    SEQUENCE,
    /** A map. */
    MAP,
    /** An opaque type. */
    OPAQUE,
    /** A sparse tensor. */
    SPARSE,
    /** An optional value. */
    OPTIONAL
  }
}
