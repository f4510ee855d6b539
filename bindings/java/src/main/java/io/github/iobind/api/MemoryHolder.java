package io.github.iobind.api;

/** The use of a device's memory that iobind has allocated. */
public enum MemoryHolder {
  /** Any of these. */
  ANY,
  /** Values that the program has created, or that a call has returned. */
  CALLER,
  /** A binding: copies of LIVE and SNAPSHOT inputs, buffers of carried states. */
  BINDING,
  /** A captured graph: its outputs. */
  GRAPH,
  /** A pipeline: inputs and outputs of its slots. */
  PIPELINE,
  /** A stream: its staging buffers, in host-accessible memory. */
  STREAM
}
