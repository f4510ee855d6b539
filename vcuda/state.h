/* The virtual GPUs: memory, streams, events and counters, behind one lock. */
#ifndef VCUDA_STATE_H
#define VCUDA_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda.h"
#include "event_shared.h"
#include "settings.h"
#include "work.h"

enum {
  VCUDA_MAX_STREAMS = 512,              /* at the same time, of all devices together */
  VCUDA_AGENTS = VCUDA_MAX_STREAMS + 1, /* users of memory: the host (0) and the streams */
  VCUDA_QUEUE = 1024,                   /* queued work of a stream; if the queue is full, the caller blocks, as in CUDA */
  VCUDA_TEXT = 512,
};

/* Counters of each device. Those of the last line are current values, which vcuda_reset does not change. */
/* clang-format off */
#define VCUDA_COUNTED(X)                                                                                          \
  X(h2d_bytes) X(h2d_count) X(d2h_bytes) X(d2h_count) X(d2d_bytes) X(d2d_count) X(peer_bytes) X(peer_count)       \
  X(h2h_bytes) X(h2h_count) X(set_bytes) X(set_count) X(pageable_count) X(launches) X(graph_launches)             \
  X(graph_nodes) X(graph_kernels) X(host_functions) X(allocations) X(pinned_allocations) X(events_recorded) X(event_waits)         \
  X(captures) X(sync_stream) X(sync_device) X(sync_event) X(sync_copy) X(sync_pageable) X(sync_free) X(sync_alloc) \
  X(sync_pool) X(sync_queue) X(syncs) X(races) X(errors)
#define VCUDA_LIVE(X) X(live_bytes) X(live_blocks) X(peak_bytes) X(pool_bytes) X(pinned_bytes) X(live_streams) X(live_events) X(live_graphs)
/* clang-format on */

#define VCUDA_NAME_COUNTER(name) VCUDA_COUNT_##name,
typedef enum vcuda_counter { VCUDA_COUNTED(VCUDA_NAME_COUNTER) VCUDA_LIVE(VCUDA_NAME_COUNTER) VCUDA_COUNTERS } vcuda_counter;
#undef VCUDA_NAME_COUNTER

typedef struct vcuda_stream vcuda_stream;
typedef struct vcuda_event vcuda_event;
typedef struct vcuda_capture vcuda_capture;
typedef struct vcuda_graph vcuda_graph;
typedef struct vcuda_node vcuda_node;
typedef struct vcuda_exec vcuda_exec;
typedef struct vcuda_pool vcuda_pool;

/* A block of device memory. */
typedef struct vcuda_block {
  size_t offset;
  size_t size;
  vcuda_pool *pool; /* NULL: allocated by cudaMalloc */
  bool freeing;     /* a cudaFreeAsync is queued */
  bool foreign;     /* its pages belong to another file */
} vcuda_block;

typedef struct vcuda_device {
  int index;
  vcuda_settings settings;
  unsigned char *base; /* start of the addresses that callers get, which the host cannot access */
  unsigned char *twin; /* start of the accessible mapping of the same bytes */
  int file;            /* holds the pages */
  size_t reserved;
  vcuda_block *blocks; /* by offset */
  size_t block_count;
  size_t block_capacity;
  size_t cursor; /* the search for free memory begins here, so that freed addresses are reused late */
  int error;     /* sticky */
  int missed;    /* an unknown kernel was launched: the next wait or copy fails */
  vcuda_stream *null_stream;
  vcuda_pool *pool;  /* the default one */
  vcuda_pool *pools; /* all */
  int64_t counters[VCUDA_COUNTERS];
} vcuda_device;

/* Page-locked host memory: allocated here, or registered. */
typedef struct vcuda_pinned {
  unsigned char *start;
  size_t size;
  size_t mapped; /* bytes of the mapping; 0: the caller owns the memory */
  int device;
} vcuda_pinned;

/* A set of nodes of one graph, by index. */
typedef struct vcuda_nodes {
  size_t *list;
  size_t count;
} vcuda_nodes;

typedef struct vcuda_work vcuda_work;

struct vcuda_stream {
  vcuda_stream *next; /* in the list of all */
  vcuda_device *device;
  int references; /* of the handle, the worker, and events and work that use it */
  int agent;
  unsigned flags;
  int priority;
  bool closed;                   /* destroyed by its owner; its queued work still runs */
  uint64_t submitted;            /* sequence number of the last work */
  uint64_t completed;            /* sequence number of the last completed work */
  uint64_t clocks[VCUDA_AGENTS]; /* clocks at the end of the stream */
  vcuda_work *first;
  vcuda_work *last;
  size_t queued;
  pthread_cond_t wake; /* for its worker */
  bool started;
  vcuda_capture *capture;
  vcuda_nodes frontier; /* during a capture: the nodes on which the next node depends */
};

struct vcuda_event {
  vcuda_event *next; /* in the list of all */
  vcuda_device *device;
  int references; /* of the handle and queued records */
  unsigned flags;
  bool closed;
  vcuda_stream *stream; /* of the last record; NULL: never recorded */
  uint64_t sequence;
  int64_t time; /* when the last record was reached */
  uint64_t time_sequence;
  vcuda_capture *capture; /* of the last record; NULL: not captured */
  vcuda_nodes frontier;
  uint64_t clocks[VCUDA_AGENTS];
  vcuda_event_shared *shared; /* NULL: not shared with other processes */
  uint64_t number;            /* of this process's last record of a shared event */
};

/* An access with which later ones may race. */
typedef struct vcuda_access {
  uintptr_t start;
  uintptr_t end;
  uint64_t clock;
  uint64_t launch; /* of a graph; 0: none */
  size_t node;
  const char *what;
  int agent;
  bool write;
} vcuda_access;

typedef struct vcuda_state {
  pthread_mutex_t mutex;
  pthread_cond_t done; /* some work is complete, or pool memory is free */
  vcuda_device devices[VCUDA_MAX_DEVICES];
  int device_count;
  vcuda_stream *streams;
  vcuda_event *events;
  bool agents[VCUDA_AGENTS]; /* true: in use */
  int agent_limit;           /* no agent of this number or above has ever existed */
  uint64_t agent_clocks[VCUDA_AGENTS];
  uint64_t host_clocks[VCUDA_AGENTS];
  vcuda_access *accesses;
  size_t access_count;
  size_t access_capacity;
  vcuda_pinned *pinned; /* by address */
  size_t pinned_count;
  size_t pinned_capacity;
  vcuda_capture *captures; /* active ones */
  uint64_t last_capture;
  uint64_t last_launch;
  char last_race[VCUDA_TEXT];
  char last_message[VCUDA_TEXT];
} vcuda_state;

extern vcuda_state vcuda_global;

static inline void vcuda_lock(void) {
  pthread_mutex_lock(&vcuda_global.mutex);
}
static inline void vcuda_unlock(void) {
  pthread_mutex_unlock(&vcuda_global.mutex);
}

/* ---- device.c ---- */

void vcuda_start(void);           /* reads the environment and creates the devices; later calls do nothing */
bool vcuda_trace_is_wanted(void); /* does the environment request a trace? */
vcuda_device *vcuda_device_at(int index);
vcuda_device *vcuda_device_current(void); /* NULL: there are no devices */
static inline void vcuda_count(vcuda_device *device, vcuda_counter counter, int64_t more) {
  device->counters[counter] += more;
}
void vcuda_count_sync(vcuda_device *device, vcuda_counter counter); /* increments this counter and the sum of all waits */

/* ---- call.c: the beginning and end of every public function; launch.c ---- */

/* 0, or the error that the call returns at once: 800 inside a host function; if `device`, the sticky error of the current device. */
int vcuda_begin(vcuda_call *call, const char *name, const void *stream, bool device);
int vcuda_end(const vcuda_call *call, int error); /* traces the call, sets the thread's last error, and returns `error` */
int vcuda_fault(vcuda_device *device, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* sticky; locked */
int64_t vcuda_now(void);                   /* nanoseconds */

#define VCUDA_ENTER_AS(stream, device)                              \
  vcuda_call call;                                                  \
  const int refused = vcuda_begin(&call, __func__, stream, device); \
  if (refused != CUDA_OK) return vcuda_end(&call, refused)
#define VCUDA_ENTER(stream) VCUDA_ENTER_AS(stream, false)
#define VCUDA_ENTER_DEVICE(stream) VCUDA_ENTER_AS(stream, true) /* for calls that return a sticky error at once */

/* The result of a call that works even on a failed device, such as a free: `error`, or the device's sticky error. Locked. */
static inline int vcuda_sticky(const vcuda_device *device, int error) {
  return error == CUDA_OK ? device->error : error;
}

/* A caller may ignore the failure of a launch, so the next wait or copy fails as well, once. */
int vcuda_take_missed(vcuda_device *device);
/* Is it a known variable of device code? */
bool vcuda_is_variable(const void *symbol);

/* ---- memory.c, pinned.c, pool.c; with the lock held ---- */

typedef enum vcuda_place_kind { VCUDA_PAGEABLE, VCUDA_PINNED, VCUDA_DEVICE } vcuda_place_kind;
typedef struct vcuda_place {
  vcuda_place_kind kind;
  vcuda_device *device; /* of device memory */
  unsigned char *twin;  /* the accessible address; NULL: the range is not inside one live block */
  char why[160];        /* the reason, if `twin` is NULL */
} vcuda_place;

bool vcuda_memory_reserve(vcuda_device *device);
void *vcuda_memory_allocate(vcuda_device *device, size_t bytes, vcuda_pool *pool);
/* Make a block of the pages of another file, from `start` on. NULL: the pages cannot be mapped, or there is no free address range. */
void *vcuda_memory_adopt(vcuda_device *device, int file, size_t start, size_t bytes);
vcuda_block *vcuda_memory_block(vcuda_device *device, const void *address); /* the block that begins at the address */
void vcuda_memory_release(vcuda_device *device, vcuda_block *block);
vcuda_device *vcuda_memory_owner(const void *address);
void vcuda_pools_yield(vcuda_device *device); /* return memory that the pools keep, for other allocations */
void vcuda_memory_locate(const void *address, size_t bytes, vcuda_place *place);
vcuda_pinned *vcuda_pinned_find(const void *address); /* the memory that contains the address */

/* ---- queue.c, event.c; with the lock held ---- */

/* Work, before it is queued or captured. */
typedef struct vcuda_order {
  int kind; /* CUDA_NODE_... */
  const char *name;
  void (*run)(void *arguments);
  const void *arguments;
  size_t bytes;
  const void *tail; /* appended to the arguments */
  size_t tail_bytes;
  vcuda_event *event;  /* CUDA_NODE_RECORD: the event to record; CUDA_NODE_EMPTY: the event to wait for */
  vcuda_exec *exec;    /* a graph to launch */
  vcuda_counter moved; /* CUDA_NODE_COPY, _SET: the counter of the bytes; that of the operations is the next one */
  int64_t moved_bytes;
} vcuda_order;

/* The stream of a handle; NULL: *error says why. The error of a handle that is not a live stream is 400. */
vcuda_stream *vcuda_stream_find(const void *handle, int *error);
vcuda_stream *vcuda_stream_make(vcuda_device *device, unsigned flags);
void vcuda_stream_hold(vcuda_stream *stream);
void vcuda_stream_drop(vcuda_stream *stream);
void vcuda_event_drop(vcuda_event *event);
bool vcuda_stream_is_null(const vcuda_stream *stream);

int vcuda_queue_order(vcuda_stream *stream, const vcuda_order *order); /* into its queue, or into the graph that it captures */
int vcuda_queue_push(vcuda_stream *stream, const vcuda_order *order);  /* into its queue */
void vcuda_queue_count(vcuda_device *device, const vcuda_order *order);
int vcuda_queue_wait(vcuda_stream *stream); /* block until all work is complete; returns the device's error */
int vcuda_queue_wait_for(vcuda_stream *stream, uint64_t sequence, const uint64_t *clocks);
void vcuda_queue_let_pass(vcuda_stream *stream); /* the same, but the race detector does not count it as a wait */
int vcuda_queue_wait_all(vcuda_device *device);

/* ---- race.c; with the lock held ---- */

void vcuda_clocks_join(uint64_t *clocks, const uint64_t *other);
/* Check and record an access. False: it races, and the setting "race" is "fail". */
bool vcuda_race_access(vcuda_device *device, const vcuda_access *access, const uint64_t *clocks, const vcuda_exec *exec);
void vcuda_race_forget(const void *start, size_t bytes);
void vcuda_race_prune(void);

/* ---- capture.c, graph.c; with the lock held ---- */

int vcuda_capture_order(vcuda_stream *stream, const vcuda_order *order);
int vcuda_capture_refuses_unsafe(void); /* a call that may block, such as cudaMalloc: 0, or 900 and the captures are broken */
int vcuda_capture_refuses_stream(vcuda_stream *stream);       /* a wait for a stream or a query of it: 0, 900, 906 */
int vcuda_capture_refuses_device(const vcuda_device *device); /* the same for the whole device */
int vcuda_capture_refuses_legacy(const vcuda_stream *stream); /* use of the NULL stream: 0 or 906 */
int vcuda_capture_refuses_event(const vcuda_event *event);    /* a wait for an event or a query of it: 0 or 907 */
int vcuda_capture_wait(vcuda_stream *stream, vcuda_event *event, bool external); /* -1: no capture is involved */
void vcuda_capture_record(vcuda_stream *stream, vcuda_event *event);
void vcuda_capture_forget_event(vcuda_event *event);
void vcuda_capture_break(vcuda_capture *capture);
bool vcuda_nodes_add(vcuda_nodes *nodes, size_t node);
bool vcuda_nodes_copy(vcuda_nodes *nodes, const vcuda_nodes *other);

vcuda_graph *vcuda_graph_make(void);
void vcuda_graph_free(vcuda_graph *graph);
bool vcuda_graph_add(vcuda_graph *graph, const vcuda_order *order, const vcuda_nodes *after, size_t *index);
size_t vcuda_graph_size(const vcuda_graph *graph);
bool vcuda_graph_is_before(const vcuda_graph *graph, size_t node, const vcuda_nodes *later); /* or one of them */
cuda_node *vcuda_graph_handles(const vcuda_graph *graph);
bool vcuda_graph_append(vcuda_graph *graph, const vcuda_exec *exec, vcuda_nodes *frontier);
const vcuda_order *vcuda_exec_order(const vcuda_exec *exec, size_t node);
size_t vcuda_exec_size(const vcuda_exec *exec);
bool vcuda_exec_is_before(const vcuda_exec *exec, size_t node, size_t later);
void vcuda_exec_hold(vcuda_exec *exec);
void vcuda_exec_drop(vcuda_exec *exec);
bool vcuda_exec_last(const vcuda_exec *exec, vcuda_stream **stream, uint64_t *sequence, const uint64_t **clocks);
void vcuda_exec_launched(vcuda_exec *exec, vcuda_stream *stream, uint64_t sequence);

/* ---- trace.c ---- */

void vcuda_trace_call(const vcuda_call *call, int error);
void vcuda_trace_work(const vcuda_stream *stream, const char *name, int64_t start, int64_t end);
bool vcuda_trace_is_on(void);
void vcuda_trace_follow_settings(void); /* with the lock held */

#endif
