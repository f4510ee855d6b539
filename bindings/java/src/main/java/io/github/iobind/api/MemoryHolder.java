package io.github.iobind.api;

/** Who holds memory of a device that iobind has allocated. */
public enum MemoryHolder {
  /** Any of these. */
  ANY,
  /** The program, by a value that it has made, or that a call has returned. */
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
