/* The nodes of a model's graph and the values that join them, as far as the kinds of states need them. Weights are skipped. */
#ifndef IOBIND_SESSION_TOPOLOGY_H
#define IOBIND_SESSION_TOPOLOGY_H

#include "session/protobuf.h"
#include "support/bytes.h"

/* The operators that are distinguished. */
typedef enum iobind__op {
  IOBIND__OP_OTHER,
  IOBIND__OP_IDENTITY,
  IOBIND__OP_CAST,
  IOBIND__OP_RESHAPE,
  IOBIND__OP_SQUEEZE,
  IOBIND__OP_UNSQUEEZE,
  IOBIND__OP_SLICE,
  IOBIND__OP_TRANSPOSE,
  IOBIND__OP_EXPAND,
  IOBIND__OP_SHAPE,
  IOBIND__OP_GATHER,
  IOBIND__OP_CONCAT,
  IOBIND__OP_ATTENTION,
  IOBIND__OP_GROUP_QUERY_ATTENTION,
  IOBIND__OP_TENSOR_SCATTER,
  IOBIND__OP_GRU,
  IOBIND__OP_LSTM,
  IOBIND__OP_RNN,
  IOBIND__OP_CONSTANT,
  IOBIND__OP_FOREIGN /* of another domain than ONNX's, or a function of the model */
} iobind__op;

#define IOBIND__NO_INDEX UINT32_MAX

typedef struct iobind__vertex {
  iobind__op op;
  uint32_t first; /* of its inputs in `edges` */
  uint32_t input_count;
  bool has_graphs;       /* control flow */
  iobind__field message; /* where its attributes are */
} iobind__vertex;

/* A value, and the node that makes it. */
typedef struct iobind__wire {
  uint64_t name;          /* offset in `names` */
  uint32_t node;          /* IOBIND__NO_INDEX: none makes it */
  uint32_t slot;          /* which of the node's outputs it is */
  iobind__field constant; /* an initializer; its number is 0 if it is none */
} iobind__wire;

/* Growing arrays. */
typedef struct iobind__topology {
  iobind__model_bytes *model;
  iobind__bytes nodes; /* iobind__vertex */
  iobind__bytes wires; /* iobind__wire; the first one stands for a missing input */
  iobind__bytes edges; /* uint32_t: wires that nodes read */
  iobind__bytes inner; /* uint32_t: wires that nodes inside of nodes read */
  iobind__bytes names;
  uint32_t *table; /* wires by the hash of their names */
  size_t table_size;
  bool is_too_deep;    /* graphs inside of graphs, of which not all were read */
  bool attends_inside; /* a node inside of a node is an attention */
  bool failed;         /* out of memory */
} iobind__topology;

/* Read the main graph, and of graphs inside of its nodes only the values that they read. Empty after a failure, or if it is not an ONNX model. */
iobind_status iobind__topology_read(iobind__model_bytes *model, iobind__topology *self, iobind_error *error);
void iobind__topology_free(iobind__topology *self);

/* The wire of a name; IOBIND__NO_INDEX: the graph has none. */
uint32_t iobind__topology_find(const iobind__topology *self, const char *name);

static inline size_t iobind__topology_node_count(const iobind__topology *self) {
  return self->nodes.length / sizeof(iobind__vertex);
}

static inline size_t iobind__topology_wire_count(const iobind__topology *self) {
  return self->wires.length / sizeof(iobind__wire);
}

static inline const iobind__vertex *iobind__topology_node(const iobind__topology *self, uint32_t index) {
  return (const iobind__vertex *)(const void *)self->nodes.data + index;
}

static inline const iobind__wire *iobind__topology_wire(const iobind__topology *self, uint32_t index) {
  return (const iobind__wire *)(const void *)self->wires.data + index;
}

/* The wire that a node reads; 0: the input is missing. */
static inline uint32_t iobind__topology_input(const iobind__topology *self, uint32_t node, uint32_t slot) {
  const iobind__vertex *of = iobind__topology_node(self, node);
  return slot < of->input_count ? ((const uint32_t *)(const void *)self->edges.data)[of->first + slot] : 0;
}

/* A few whole numbers. */
enum { IOBIND__FEW = 16 };
typedef struct iobind__few {
  size_t count;
  int64_t values[IOBIND__FEW];
} iobind__few;

/* The value of an attribute: one number or several. False: the node does not have it, or there are too many. */
bool iobind__topology_attribute(const iobind__topology *self, uint32_t node, const char *name, iobind__few *out);
bool iobind__topology_attribute_is(const iobind__topology *self, uint32_t node, const char *name, const char *text);

/* The elements of a constant of int64 of at most one dim. False: it is none, or not in the model's file. */
bool iobind__topology_constant(const iobind__topology *self, uint32_t wire, iobind__few *out);

#endif
