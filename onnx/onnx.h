/** @file onnx.h
 *  Writes ONNX models into memory, without a protobuf library: for tests, for the tool, and for execution providers that
 *  hand a part of a graph to another session.
 *
 *  A model is written from the outside in: a `begin` opens a message, the calls between fill it, its `end` closes it.
 *
 *      onnx_writer writer = ONNX_WRITER_INIT;
 *      onnx_model_begin(&writer, NULL);
 *      onnx_opset(&writer, "", 21);
 *      onnx_graph_begin(&writer, "graph");
 *      onnx_input(&writer, "x", &type);
 *      onnx_output(&writer, "y", &type);
 *      onnx_node_begin(&writer, "Identity", "", "");
 *      onnx_node_input(&writer, "x");
 *      onnx_node_output(&writer, "y");
 *      onnx_node_end(&writer);
 *      onnx_graph_end(&writer);
 *      onnx_model_end(&writer);
 *      status = onnx_writer_finish(&writer, &bytes, &size);
 *
 *  Every call returns the status. The first error stays: later calls do nothing and return it, so it is enough to look at
 *  the status of onnx_writer_finish. Within a message the calls may come in any order; the order of inputs, outputs, nodes
 *  and attributes is kept. Text is NUL-terminated UTF-8 and copied. Not written: sparse tensors, model-local functions.
 *  A writer is used by one thread at a time. */
#ifndef ONNX_H
#define ONNX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum onnx_status {
  ONNX_OK = 0,
  ONNX_OUT_OF_MEMORY = 1,
  ONNX_TOO_LARGE = 2, /**< more bytes than the writer's limit, or more than ONNX_MAX_DEPTH open messages */
  ONNX_MISPLACED = 3, /**< a call that does not belong in the open message, or one `end` too many or too few */
  ONNX_INVALID = 4,   /**< an argument is wrong: NULL text, a negative dim, data that do not fit the dims */
  ONNX_STATUS_FORCE32 = 0x7FFFFFFF
} onnx_status;

/** Element types, with ONNX's numbers. ONNX Runtime's C interface has other numbers for the last three: UINT2 24, INT2 25,
 *  FLOAT8E8M0 26. */
typedef enum onnx_dtype {
  ONNX_UNDEFINED = 0,
  ONNX_FLOAT32 = 1,
  ONNX_UINT8 = 2,
  ONNX_INT8 = 3,
  ONNX_UINT16 = 4,
  ONNX_INT16 = 5,
  ONNX_INT32 = 6,
  ONNX_INT64 = 7,
  ONNX_STRING = 8,
  ONNX_BOOL = 9,
  ONNX_FLOAT16 = 10,
  ONNX_FLOAT64 = 11,
  ONNX_UINT32 = 12,
  ONNX_UINT64 = 13,
  ONNX_COMPLEX64 = 14,
  ONNX_COMPLEX128 = 15,
  ONNX_BFLOAT16 = 16,
  ONNX_FLOAT8E4M3FN = 17,
  ONNX_FLOAT8E4M3FNUZ = 18,
  ONNX_FLOAT8E5M2 = 19,
  ONNX_FLOAT8E5M2FNUZ = 20,
  ONNX_UINT4 = 21,
  ONNX_INT4 = 22,
  ONNX_FLOAT4E2M1 = 23,
  ONNX_FLOAT8E8M0 = 24,
  ONNX_UINT2 = 25,
  ONNX_INT2 = 26,
  ONNX_DTYPE_FORCE32 = 0x7FFFFFFF
} onnx_dtype;

/** The most messages that can be open, which is what protobuf's readers accept. A subgraph adds three. */
#define ONNX_MAX_DEPTH 100

/** A model that grows in memory. The caller owns this struct, on the stack or elsewhere. The fields belong to the writer,
 *  except `limit`, which may be lowered before the first call. */
typedef struct onnx_writer {
  unsigned char *bytes;
  size_t size;
  size_t capacity;
  size_t limit;   /**< the most bytes to write; 0: 2^31 - 1, the most that protobuf reads */
  int32_t status; /**< onnx_status: the first error */
  uint32_t depth;
  struct {
    size_t start; /**< offset of the message's content */
    int32_t kind;
    uint32_t count; /**< graphs written so far, in a graph attribute */
  } open[ONNX_MAX_DEPTH];
} onnx_writer;
#define ONNX_WRITER_INIT   \
  {                        \
    NULL, 0, 0, 0, 0, 0, { \
      { 0, 0, 0 }          \
    }                      \
  }

/** Get the model that was written: the writer owns it until onnx_writer_release. On an error *bytes is NULL.
 *  @return OK; MISPLACED a message is still open, or no model was written; otherwise the first error */
onnx_status onnx_writer_finish(onnx_writer *writer, const void **bytes, size_t *size);

/** Free the memory; the writer is as after ONNX_WRITER_INIT, with the same limit. */
void onnx_writer_release(onnx_writer *writer);

/** A word for a status, such as "out of memory"; lives forever. */
const char *onnx_status_text(int32_t status);

/* ---- model and graph ---------------------------------------------------------------------------------------------- */

/** What a model says about itself. A field that is zero has its default. */
typedef struct onnx_model {
  int64_t ir_version; /**< 0: 10, the first with 4-bit types */
  int64_t model_version;
  const char *producer; /**< NULL: not written; so are the other texts */
  const char *producer_version;
  const char *domain;
  const char *description;
} onnx_model;

/** Open the model, the outermost message.
 *  @param model  may be NULL: all defaults */
onnx_status onnx_model_begin(onnx_writer *writer, const onnx_model *model);

/** Close the model. */
onnx_status onnx_model_end(onnx_writer *writer);

/** Import a set of operators into the model; every domain in use needs one.
 *  @param domain  "" is ONNX's own */
onnx_status onnx_opset(onnx_writer *writer, const char *domain, int64_t version);

/** Add a metadata entry to the model. */
onnx_status onnx_metadata(onnx_writer *writer, const char *key, const char *value);

/** Open the model's graph, or a graph of the attribute that is open. */
onnx_status onnx_graph_begin(onnx_writer *writer, const char *name);

/** Close the graph. */
onnx_status onnx_graph_end(onnx_writer *writer);

/* ---- values ------------------------------------------------------------------------------------------------------- */

typedef enum onnx_type_kind {
  ONNX_KIND_TENSOR = 0,
  ONNX_KIND_SPARSE_TENSOR = 1,
  ONNX_KIND_SEQUENCE = 2,
  ONNX_KIND_MAP = 3,
  ONNX_KIND_OPTIONAL = 4,
  ONNX_KIND_FORCE32 = 0x7FFFFFFF
} onnx_type_kind;

/** The type of a value. */
typedef struct onnx_type {
  int32_t kind;     /**< onnx_type_kind */
  int32_t dtype;    /**< tensors: of the elements; maps: of the keys */
  int32_t no_shape; /**< tensors: 1 if nothing is known, not even the rank */
  uint32_t reserved;
  const int64_t *dims;        /**< tensors: `rank` dims, a negative one is open */
  const char *const *symbols; /**< tensors: `rank` names of open dims, NULL or "" for one without a name; may be NULL */
  size_t rank;
  const struct onnx_type *element; /**< sequences, optionals: the type of the elements; maps: the type of the values */
} onnx_type;

/** Add an input to the graph.
 *  @param type  NULL: not written, which is right in a subgraph */
onnx_status onnx_input(onnx_writer *writer, const char *name, const onnx_type *type);

/** Add an output to the graph; as onnx_input. */
onnx_status onnx_output(onnx_writer *writer, const char *name, const onnx_type *type);

/** Say the type of a value within the graph; as onnx_input. */
onnx_status onnx_value(onnx_writer *writer, const char *name, const onnx_type *type);

/** A constant tensor. Its elements are in exactly one of `data`, `strings` and `location`; a tensor of no elements has none. */
typedef struct onnx_tensor {
  const char *name; /**< may be NULL in an attribute */
  int32_t dtype;    /**< onnx_dtype */
  uint32_t reserved;
  const int64_t *dims; /**< `rank` dims of 0 or more */
  size_t rank;
  const void *data;           /**< dense, row-major, little-endian, packed types packed */
  size_t bytes;               /**< size of data: exactly what dtype and dims need */
  const char *const *strings; /**< STRING: one for each element */
  const size_t *lengths;      /**< STRING: bytes of each; NULL: each is NUL-terminated */
  const char *location;       /**< external data: a file beside the model, or another location that the reader knows */
  uint64_t offset;            /**< external data: where they begin in that file, in bytes */
  uint64_t length;            /**< external data: bytes; 0: not written */
} onnx_tensor;

/** Add a constant to the graph. */
onnx_status onnx_initializer(onnx_writer *writer, const onnx_tensor *tensor);

/* ---- nodes -------------------------------------------------------------------------------------------------------- */

/** Open a node of the graph.
 *  @param domain  "" is ONNX's own
 *  @param name    may be "" */
onnx_status onnx_node_begin(onnx_writer *writer, const char *op_type, const char *domain, const char *name);

/** Add an input to the node; "" leaves an optional one out. */
onnx_status onnx_node_input(onnx_writer *writer, const char *name);

/** Add an output to the node; "" leaves an optional one out. */
onnx_status onnx_node_output(onnx_writer *writer, const char *name);

/** Close the node. */
onnx_status onnx_node_end(onnx_writer *writer);

/** Give the node an attribute: a number. */
onnx_status onnx_attribute_int(onnx_writer *writer, const char *name, int64_t value);

/** Give the node an attribute: a number. */
onnx_status onnx_attribute_float(onnx_writer *writer, const char *name, float value);

/** Give the node an attribute: `length` bytes of text. */
onnx_status onnx_attribute_string(onnx_writer *writer, const char *name, const char *text, size_t length);

/** Give the node an attribute: a list of numbers. */
onnx_status onnx_attribute_ints(onnx_writer *writer, const char *name, const int64_t *values, size_t count);

/** Give the node an attribute: a list of numbers. */
onnx_status onnx_attribute_floats(onnx_writer *writer, const char *name, const float *values, size_t count);

/** Give the node an attribute: a list of texts.
 *  @param lengths  bytes of each; NULL: each is NUL-terminated */
onnx_status onnx_attribute_strings(onnx_writer *writer, const char *name, const char *const *texts, const size_t *lengths,
                                   size_t count);

/** Give the node an attribute: a tensor. */
onnx_status onnx_attribute_tensor(onnx_writer *writer, const char *name, const onnx_tensor *tensor);

/** Give the node an attribute: a list of tensors. */
onnx_status onnx_attribute_tensors(onnx_writer *writer, const char *name, const onnx_tensor *tensors, size_t count);

/** Give the node an attribute: a type. */
onnx_status onnx_attribute_type(onnx_writer *writer, const char *name, const onnx_type *type);

/** Give the node an attribute: a list of types. */
onnx_status onnx_attribute_types(onnx_writer *writer, const char *name, const onnx_type *types, size_t count);

/** Open an attribute that holds a subgraph, written by onnx_graph_begin ... onnx_graph_end. */
onnx_status onnx_attribute_graph_begin(onnx_writer *writer, const char *name);

/** Open an attribute that holds a list of subgraphs, none or more. */
onnx_status onnx_attribute_graphs_begin(onnx_writer *writer, const char *name);

/** Close an attribute that was opened.
 *  @return as every call; MISPLACED also if onnx_attribute_graph_begin was not followed by exactly one graph */
onnx_status onnx_attribute_end(onnx_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
