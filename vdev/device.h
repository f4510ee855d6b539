/* The virtual devices: memory, streams, clock and their statistics, behind one lock. */
#ifndef VDEV_DEVICE_H
#define VDEV_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "settings.h"
#include "span.h"
#include "vdev.h"

enum {
  VDEV_MAX_STREAMS = 512,             /* at the same time, of all devices together; ORT keeps some for each session */
  VDEV_AGENTS = VDEV_MAX_STREAMS + 1, /* those who can touch memory: the host (0) and the streams */
};

/* Each of these moves one thing at a time: a link one copy in each direction, the device one kernel. */
typedef enum vdev_engine { VDEV_UPLOAD, VDEV_DOWNLOAD, VDEV_LOCAL, VDEV_COMPUTE, VDEV_ENGINES } vdev_engine;

/* A block of device memory. */
typedef struct vdev_block {
  vdev_span span; /* first; its addresses are offsets */
  size_t size;
  unsigned char *bytes;    /* in the device's second range; of imported memory elsewhere */
  bool imported;           /* the bytes are another process's, too: see vdev_memory_import */
  bool live;               /* false: freed, and kept until the streams have passed `passed` */
  uint64_t *passed;        /* a sequence number for each stream; NULL while live */
  struct vdev_block *next; /* the next block that was freed */
} vdev_block;

/* Host-accessible memory. */
typedef struct vdev_pinned {
  vdev_span span;       /* first */
  unsigned char *start; /* what callers see */
  unsigned char *alias; /* the same bytes at another address, so that the host can be kept off `start`; NULL: it cannot */
  size_t size;
} vdev_pinned;

/* One access that later ones must be ordered after. */
typedef struct vdev_access {
  uintptr_t start;
  uintptr_t end;
  uint64_t clock;
  int agent;
  bool write;
  char what[48];
} vdev_access;

typedef struct vdev_device {
  int index;
  vdev_settings settings;
  unsigned char *base; /* the addresses that callers see: the host cannot touch them */
  unsigned char *twin; /* the address of the bytes themselves */
  size_t reserved;
  vdev_spans blocks;
  vdev_block *oldest_freed; /* streams pass them in the order of their release */
  vdev_block *newest_freed;
  struct vdev_capture *capture;      /* the graph that a thread is recording on it; NULL: none */
  int64_t engine_free[VDEV_ENGINES]; /* modelled time at which each is free again */
  struct {
    int64_t bytes[VDEV_ENGINES];
    int64_t count[VDEV_ENGINES];
    int64_t busy[VDEV_ENGINES]; /* modelled nanoseconds */
    int64_t peer_bytes, peer_count;
    int64_t allocations, live_bytes, live_blocks, peak_bytes, pinned_bytes, races, errors;
    int64_t graph_captures, graph_replays, graph_launches;
  } statistics;
} vdev_device;

typedef struct vdev_operation vdev_operation;

struct vdev_stream {
  vdev_device *device;
  int agent;
  uint64_t serial;              /* no other stream ever has the same */
  uint64_t clocks[VDEV_AGENTS]; /* what is ordered before the end of the stream */
  uint64_t submitted;           /* sequence number of the last operation */
  uint64_t completed;
  int64_t tail; /* modelled end of the last operation */
  vdev_operation *first;
  vdev_operation *last;
  bool running_inline; /* a caller is running one of its operations */
  bool stopping;
  bool started; /* the worker */
  pthread_t worker;
  char error[VDEV_TEXT];    /* the failure of work after its submission; kept until a wait reports it */
  uint64_t error_sequence;  /* of that work */
  const void *error_owner;  /* whose work it was */
  uint64_t error_run;       /* of what run; 0: of none */
  uint64_t last_run;        /* the last run that has submitted work; 0: none has */
  char reported[VDEV_TEXT]; /* the last one that a wait has reported */
  uint64_t reported_sequence;
  uint64_t reported_count;
};

struct vdev_event {
  vdev_span span; /* first; the event's own address */
  vdev_device *device;
  uint64_t sequence;
  uint64_t reported_count; /* of the stream when it was recorded */
  int64_t time;
  int agent;                    /* whose stream; 0: never recorded */
  int agent_limit;              /* clocks[agent_limit] and later ones are not set: no such agents existed */
  uint64_t clocks[VDEV_AGENTS]; /* what is ordered before the event */
};

typedef struct vdev_state {
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* an operation completed, or was submitted */
  int device_count;
  vdev_device devices[VDEV_MAX_DEVICES];
  vdev_stream *streams[VDEV_MAX_STREAMS];
  int agent_limit;                    /* no agent of this number or above has ever existed */
  uint64_t agent_clocks[VDEV_AGENTS]; /* how far each agent number ever came, because numbers are reused */
  uint64_t agent_sequences[VDEV_AGENTS];
  uint64_t host_clocks[VDEV_AGENTS];
  int64_t host_time;    /* virtual clock: how far the host is */
  int64_t clock_offset; /* added to the real clock, so that time continues from the virtual clock's */
  vdev_access *accesses;
  size_t access_count;
  size_t access_capacity;
  char last_race[VDEV_TEXT];
  char last_refusal[VDEV_TEXT]; /* why the last allocation failed: ORT does not pass it on */
  vdev_spans pinned;
  vdev_spans events;      /* of the native interface: they may outlive the devices */
  size_t protected_count; /* pinned blocks with an alias */
} vdev_state;

extern vdev_state vdev_global;

static inline void vdev_lock(void) {
  pthread_mutex_lock(&vdev_global.mutex);
}
static inline void vdev_unlock(void) {
  pthread_mutex_unlock(&vdev_global.mutex);
}

/* device.c: create the devices of the settings. False: there is no address space, and no device. */
bool vdev_start(const vdev_settings *settings);
void vdev_stop(void); /* the library is unloaded: no tensor or session is left */
bool vdev_is_virtual_clock(void);
int64_t vdev_now(void);                             /* with the lock held: the real clock's or the virtual host time */
int64_t vdev_later(int64_t time, int64_t duration); /* sums cannot overflow in practice: a step is at most 11 days */
void vdev_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An operation fails: count it, and write why, after the device's name, into `reason` (VDEV_TEXT bytes). Returns false. With
 * the lock held. */
bool vdev_refuse(vdev_device *device, char *reason, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Every operation passes here before it does anything. False: it is to fail, and `reason` says why. With the lock held. */
bool vdev_admit(vdev_device *device, const vdev_subject *subject, vdev_effect *effect, char *reason);

#endif
