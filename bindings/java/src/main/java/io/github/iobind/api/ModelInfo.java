package io.github.iobind.api;

import io.github.iobind.ffm.Layouts;
import java.lang.foreign.MemorySegment;

/**
 * A model's description; a text is "" if the model has none.
 *
 * @param opset the version of the ONNX domain's operators; 0 if ONNX Runtime does not report it
 * @param version the model's version
 * @param producer the program that made it
 * @param graphName the graph's name
 * @param domain the model's domain
 * @param description the model's description
 */
public record ModelInfo(long opset, long version, String producer, String graphName, String domain, String description) {
  static ModelInfo of(MemorySegment info) {
    var layout = Layouts.SESSION_INFO;
    return new ModelInfo(Layouts.getLong(info, layout, "opset"), Layouts.getLong(info, layout, "model_version"),
        Layouts.getString(info, layout, "producer"), Layouts.getString(info, layout, "graph_name"),
        Layouts.getString(info, layout, "domain"), Layouts.getString(info, layout, "description"));
  }
}
