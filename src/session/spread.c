#include "session/spread.h"

static bool are_all(const iobind__few *few, int64_t value) {
  bool are = true;
  for (size_t i = 0; are && i < few->count; i++) {
    are = few->values[i] == value;
  }
  return are;
}

/* Does the Slice begin with the first row, and leave none out? */
static bool keeps_first(const iobind__topology *graph, uint32_t node) {
  iobind__few few;
  uint32_t steps = iobind__topology_input(graph, node, 4);
  bool begins = iobind__topology_constant(graph, iobind__topology_input(graph, node, 1), &few) && are_all(&few, 0);
  return begins && (steps == 0 || (iobind__topology_constant(graph, steps, &few) && are_all(&few, 1)));
}

static uint8_t spread_of_any(const iobind__topology *graph, uint32_t node, const uint8_t *spread) {
  uint32_t count = iobind__topology_node(graph, node)->input_count;
  bool found = false;
  for (uint32_t i = 0; !found && i < count; i++) {
    found = spread[iobind__topology_input(graph, node, i)] != IOBIND__SPREAD_NONE;
  }
  return found ? IOBIND__SPREAD_MIXED : IOBIND__SPREAD_NONE;
}

/* The spread of a node's outputs, by that of its inputs. The output of attention has no rows, and an operator that writes into a cache has its
 * own cache. */
static uint8_t spread_by(const iobind__topology *graph, uint32_t node, const uint8_t *spread) {
  uint8_t first = spread[iobind__topology_input(graph, node, 0)];
  switch (iobind__topology_node(graph, node)->op) {
    case IOBIND__OP_IDENTITY:
    case IOBIND__OP_CAST:
    case IOBIND__OP_RESHAPE:
    case IOBIND__OP_SQUEEZE:
    case IOBIND__OP_UNSQUEEZE:
    case IOBIND__OP_TRANSPOSE:
    case IOBIND__OP_EXPAND: return first;
    case IOBIND__OP_SLICE: return first == IOBIND__SPREAD_NONE || keeps_first(graph, node) ? first : IOBIND__SPREAD_MIXED;
    case IOBIND__OP_SHAPE:
    case IOBIND__OP_ATTENTION:
    case IOBIND__OP_GROUP_QUERY_ATTENTION:
    case IOBIND__OP_TENSOR_SCATTER: return IOBIND__SPREAD_NONE;
    default: return spread_of_any(graph, node, spread);
  }
}

/* Nodes may come in any order. */
void iobind__spread_find(const iobind__topology *graph, uint8_t *spread) {
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (uint32_t wire = 1; wire < iobind__topology_wire_count(graph); wire++) {
      uint32_t node = iobind__topology_wire(graph, wire)->node;
      uint8_t found = node == IOBIND__NO_INDEX ? IOBIND__SPREAD_NONE : spread_by(graph, node, spread);
      if (found > spread[wire]) {
        spread[wire] = found;
        has_changed = true;
      }
    }
  }
}

/* They read by name, or through an input of the node that has such a graph. */
bool iobind__spread_is_attended_inside(const iobind__topology *graph, const uint8_t *spread) {
  const uint32_t *read = (const uint32_t *)(const void *)graph->inner.data;
  bool is_read = false;
  for (size_t i = 0; !is_read && i < graph->inner.length / sizeof *read; i++) {
    is_read = spread[read[i]] != IOBIND__SPREAD_NONE;
  }
  for (uint32_t i = 0; !is_read && i < iobind__topology_node_count(graph); i++) {
    is_read = iobind__topology_node(graph, i)->has_graphs && spread_of_any(graph, i, spread) != IOBIND__SPREAD_NONE;
  }
  return is_read && (graph->attends_inside || graph->is_too_deep);
}
