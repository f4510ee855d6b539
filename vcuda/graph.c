/* Graphs: work as nodes with an order, and launches of them. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

struct vcuda_node {
  vcuda_order order; /* with the node's own copy of the arguments */
  vcuda_nodes after;
};

struct vcuda_graph {
  vcuda_node **nodes; /* a node's handle is its address; each node follows the nodes on which it depends */
  size_t count, capacity;
};

struct vcuda_exec {
  int references;
  vcuda_graph *graph;
  vcuda_device *device; /* whose counter includes it */
  vcuda_stream *stream;
  uint64_t sequence;
  uint64_t clocks[VCUDA_AGENTS];
};

/* ---- sets of nodes ---- */

bool vcuda_nodes_add(vcuda_nodes *nodes, size_t node) {
  for (size_t i = 0; i < nodes->count; i++) {
    if (nodes->list[i] == node) return true;
  }
  size_t *list = realloc(nodes->list, (nodes->count + 1) * sizeof *list);
  if (list == NULL) return false;
  nodes->list = list;
  list[nodes->count++] = node;
  return true;
}

bool vcuda_nodes_copy(vcuda_nodes *nodes, const vcuda_nodes *other) {
  nodes->count = 0;
  for (size_t i = 0; i < other->count; i++) {
    if (!vcuda_nodes_add(nodes, other->list[i])) return false;
  }
  return true;
}

/* ---- graphs ---- */

vcuda_graph *vcuda_graph_make(void) {
  return calloc(1, sizeof(vcuda_graph));
}

static void free_node(vcuda_node *node) {
  if (node->order.event != NULL) vcuda_event_drop(node->order.event);
  free(node->after.list);
  free(node);
}

void vcuda_graph_free(vcuda_graph *graph) {
  if (graph == NULL) return;
  for (size_t i = 0; i < graph->count; i++) free_node(graph->nodes[i]);
  free(graph->nodes);
  free(graph);
}

static vcuda_node *make_node(const vcuda_order *order, const vcuda_nodes *after) {
  size_t head = (sizeof(vcuda_node) + 15) / 16 * 16;
  vcuda_node *node = malloc(head + order->bytes + order->tail_bytes);
  if (node == NULL) return NULL;
  memset(node, 0, sizeof *node);
  if (!vcuda_nodes_copy(&node->after, after)) {
    free(node->after.list);
    free(node);
    return NULL;
  }
  unsigned char *arguments = (unsigned char *)node + head;
  node->order = *order;
  if (order->bytes > 0) memcpy(arguments, order->arguments, order->bytes);
  if (order->tail_bytes > 0) memcpy(arguments + order->bytes, order->tail, order->tail_bytes);
  node->order.arguments = arguments;
  node->order.tail = arguments + order->bytes;
  if (order->event != NULL) order->event->references++;
  return node;
}

bool vcuda_graph_add(vcuda_graph *graph, const vcuda_order *order, const vcuda_nodes *after, size_t *index) {
  if (graph->count == graph->capacity) {
    size_t capacity = graph->capacity == 0 ? 32 : 2 * graph->capacity;
    vcuda_node **nodes = realloc(graph->nodes, capacity * sizeof *nodes);
    if (nodes == NULL) return false;
    graph->nodes = nodes;
    graph->capacity = capacity;
  }
  vcuda_node *node = make_node(order, after);
  if (node == NULL) return false;
  *index = graph->count;
  graph->nodes[graph->count++] = node;
  return true;
}

size_t vcuda_graph_size(const vcuda_graph *graph) {
  return graph->count;
}

/* Mark the nodes of `later` and all nodes before them. Each node follows the nodes on which it depends, so one pass backwards is enough. */
bool vcuda_graph_is_before(const vcuda_graph *graph, size_t node, const vcuda_nodes *later) {
  bool *reached = calloc(graph->count + 1, sizeof *reached);
  if (reached == NULL) return false;
  for (size_t i = 0; i < later->count; i++) reached[later->list[i]] = true;
  for (size_t i = graph->count; i-- > node;) {
    for (size_t k = 0; reached[i] && k < graph->nodes[i]->after.count; k++) reached[graph->nodes[i]->after.list[k]] = true;
  }
  bool before = reached[node];
  free(reached);
  return before;
}

cuda_node *vcuda_graph_handles(const vcuda_graph *graph) {
  return graph->nodes;
}

/* Append the nodes of a launched graph after `frontier`. Its last nodes become the new frontier. */
bool vcuda_graph_append(vcuda_graph *graph, const vcuda_exec *exec, vcuda_nodes *frontier) {
  size_t base = graph->count, count = exec->graph->count, index = 0;
  vcuda_nodes ends = {NULL, 0}, after = {NULL, 0};
  bool done = true;
  for (size_t i = 0; i < count && done; i++) {
    const vcuda_node *node = exec->graph->nodes[i];
    done = vcuda_nodes_copy(&after, node->after.count == 0 ? frontier : &node->after);
    for (size_t k = 0; k < node->after.count; k++) after.list[k] += base;
    done = done && vcuda_graph_add(graph, &node->order, &after, &index);
  }
  for (size_t i = 0; i < count && done; i++) { /* the last nodes are those on which no other node depends */
    bool last = true;
    for (size_t other = i + 1; other < count && last; other++) {
      for (size_t k = 0; k < exec->graph->nodes[other]->after.count; k++)
        last = last && exec->graph->nodes[other]->after.list[k] != i;
    }
    if (last) done = vcuda_nodes_add(&ends, base + i);
  }
  if (done && count > 0) done = vcuda_nodes_copy(frontier, &ends);
  free(ends.list);
  free(after.list);
  return done;
}

int cudaGraphGetNodes(cuda_graph graph, cuda_node *nodes, size_t *count) {
  VCUDA_ENTER(NULL);
  if (graph == NULL || count == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  for (size_t i = 0; nodes != NULL && i < *count && i < graph->count; i++) nodes[i] = graph->nodes[i];
  *count = graph->count;
  return vcuda_end(&call, CUDA_OK);
}

int cudaGraphNodeGetType(cuda_node node, int *type) {
  VCUDA_ENTER(NULL);
  if (node == NULL || type == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  *type = node->order.kind;
  return vcuda_end(&call, CUDA_OK);
}

int cudaGraphDestroy(cuda_graph graph) {
  VCUDA_ENTER(NULL);
  vcuda_lock();
  vcuda_graph_free(graph);
  vcuda_unlock();
  return vcuda_end(&call, graph == NULL ? CUDA_INVALID_VALUE : CUDA_OK);
}

/* ---- launches ---- */

const vcuda_order *vcuda_exec_order(const vcuda_exec *exec, size_t node) {
  return &exec->graph->nodes[node]->order;
}

size_t vcuda_exec_size(const vcuda_exec *exec) {
  return exec->graph->count;
}

bool vcuda_exec_is_before(const vcuda_exec *exec, size_t node, size_t later) {
  vcuda_nodes ends = {&later, 1};
  return later >= node && vcuda_graph_is_before(exec->graph, node, &ends);
}

void vcuda_exec_hold(vcuda_exec *exec) {
  exec->references++;
}

void vcuda_exec_drop(vcuda_exec *exec) {
  if (--exec->references > 0) return;
  if (exec->stream != NULL) vcuda_stream_drop(exec->stream);
  vcuda_graph_free(exec->graph);
  free(exec);
}

bool vcuda_exec_last(const vcuda_exec *exec, vcuda_stream **stream, uint64_t *sequence, const uint64_t **clocks) {
  *stream = exec->stream;
  *sequence = exec->sequence;
  *clocks = exec->clocks;
  return exec->stream != NULL;
}

void vcuda_exec_launched(vcuda_exec *exec, vcuda_stream *stream, uint64_t sequence) {
  vcuda_stream *before = exec->stream;
  vcuda_stream_hold(stream);
  exec->stream = stream;
  exec->sequence = sequence;
  memcpy(exec->clocks, stream->clocks, sizeof exec->clocks);
  if (before != NULL) vcuda_stream_drop(before);
}

int cudaGraphInstantiate(cuda_exec *exec, cuda_graph graph, unsigned long long flags) {
  VCUDA_ENTER_DEVICE(NULL);
  if (exec == NULL || graph == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  (void)flags;
  vcuda_lock();
  vcuda_exec *made = calloc(1, sizeof *made);
  bool done = made != NULL && (made->graph = vcuda_graph_make()) != NULL;
  for (size_t i = 0; i < graph->count && done; i++) {
    size_t index;
    done = vcuda_graph_add(made->graph, &graph->nodes[i]->order, &graph->nodes[i]->after, &index);
  }
  if (done) {
    made->references = 1;
    made->device = vcuda_device_current();
    vcuda_count(made->device, VCUDA_COUNT_live_graphs, 1);
  } else {
    if (made != NULL) vcuda_graph_free(made->graph);
    free(made);
    made = NULL;
  }
  *exec = made;
  vcuda_unlock();
  return vcuda_end(&call, made == NULL ? CUDA_OUT_OF_MEMORY : CUDA_OK);
}

static void count_nodes(vcuda_device *device, const vcuda_exec *exec) {
  vcuda_count(device, VCUDA_COUNT_graph_launches, 1);
  vcuda_count(device, VCUDA_COUNT_graph_nodes, (int64_t)exec->graph->count);
  for (size_t i = 0; i < exec->graph->count; i++) {
    vcuda_queue_count(device, &exec->graph->nodes[i]->order);
    vcuda_count(device, VCUDA_COUNT_graph_kernels, exec->graph->nodes[i]->order.kind == CUDA_NODE_KERNEL ? 1 : 0);
  }
}

int cudaGraphLaunch(cuda_exec exec, cuda_stream stream) {
  VCUDA_ENTER_DEVICE(stream);
  const vcuda_order order = {.kind = CUDA_NODE_KERNEL, .name = "a graph", .exec = exec};
  int error;
  if (exec == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  vcuda_stream *found = vcuda_stream_find(stream, &error);
  bool captures = found != NULL && found->capture != NULL;
  if (found != NULL) error = vcuda_queue_order(found, &order);
  if (found != NULL && error == CUDA_OK && !captures) count_nodes(found->device, exec);
  vcuda_unlock();
  return vcuda_end(&call, error);
}

int cudaGraphExecDestroy(cuda_exec exec) {
  VCUDA_ENTER(NULL);
  if (exec == NULL) return vcuda_end(&call, CUDA_INVALID_VALUE);
  vcuda_lock();
  vcuda_count(exec->device, VCUDA_COUNT_live_graphs, -1);
  vcuda_exec_drop(exec);
  vcuda_unlock();
  return vcuda_end(&call, CUDA_OK);
}
