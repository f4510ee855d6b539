/** @file graph.h
 *  The nodes of an ONNX model's graph, read from the file's bytes, and the same model with all values of its nodes as
 *  outputs. */
#ifndef IOBIND_TOOL_GRAPH_H
#define IOBIND_TOOL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "formats/fault.h"

/** An output of a node of the graph. */
typedef struct graph_value {
  char *name;
  char *node; /**< "" for a node without a name */
  char *op_type;
  bool is_output; /**< it is an output of the model */
} graph_value;

/** Read the values in the order of the nodes, in which each node comes after those that it needs. Values within the branches
 *  and loops of a node are omitted.
 *  @param values  receives a malloc'ed array; graph_free frees it */
bool graph_read(const void *model, size_t bytes, graph_value **values, size_t *count, tool_fault *fault);

void graph_free(graph_value *values, size_t count);

/** An edited model, malloc'ed. */
typedef struct graph_edited {
  unsigned char *model;
  size_t bytes;
} graph_edited;

/** The model with each value as an output. */
bool graph_add_outputs(const void *model, size_t bytes, const graph_value *values, size_t count, graph_edited *edited,
                       tool_fault *fault);

#endif
