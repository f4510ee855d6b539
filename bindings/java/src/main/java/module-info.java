/** I/O binding for ONNX Runtime over libiobind, by the Foreign Function and Memory API. */
module io.github.iobind {
  requires static org.jspecify;
  exports io.github.iobind.api;
}
