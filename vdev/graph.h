/* One of ORT's graphs as ONNX bytes, for a session of its own. */
#ifndef VDEV_GRAPH_H
#define VDEV_GRAPH_H

#include "onnx.h"
#include "status.h"

/* Write the graph that ORT made of a claimed group. Constants larger than 64 KiB are written as references to external data of
 * the name of the constant, to be given with AddExternalInitializers. */
OrtStatus *vdev_graph_write(const OrtGraph *graph, onnx_writer *writer);

enum { VDEV_INLINE_BYTES = 1 << 16 };

#endif
