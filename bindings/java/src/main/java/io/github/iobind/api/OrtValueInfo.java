package io.github.iobind.api;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An input or output of a session.
 *
 * @param name its name in the model
 * @param kind what it is; what follows is set for tensors alone
 * @param type the element type
 * @param hasShape whether the model says even the rank
 * @param shape the dims, -1 where the model leaves one open
 * @param symbols the names of open dims; "" for a fixed or nameless one
 * @param device where the session wants the input or leaves the output; null for what is not a tensor
 * @param memoryName ONNX Runtime's name of that memory
 */
public record OrtValueInfo(String name, Kind kind, OnnxTensorElementType type, boolean hasShape, List<Long> shape,
    List<String> symbols, @Nullable DeviceSpec device, String memoryName) {
  /** What an input or output is. */
  public enum Kind {
    /** Something else. */
    UNKNOWN,
    /** The one that can be bound. */
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
