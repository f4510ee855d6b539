#include "trace.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct entry {
  int64_t start;
  int64_t duration; /* -1: a counter */
  int64_t bytes;
  int device;
  int row; /* an agent's number */
  char what[48];
} entry;

static entry *entries;
static size_t entry_count;
static size_t entry_capacity;

static entry *add(const vdev_device *device) {
  if (device->settings.trace == 0) {
    return NULL;
  }
  if (entry_count == entry_capacity) {
    size_t capacity = entry_capacity == 0 ? 1024 : 2 * entry_capacity;
    entry *list = realloc(entries, capacity * sizeof *list);
    if (list == NULL) {
      return NULL; /* a trace with a hole is better than a run that fails for it */
    }
    entries = list;
    entry_capacity = capacity;
  }
  return &entries[entry_count++];
}

void vdev_trace_add(vdev_device *device, int agent, const char *what, int64_t bytes, int64_t start, int64_t end) {
  entry *one = add(device);
  if (one != NULL) {
    *one = (entry){.start = start, .duration = end - start, .bytes = bytes, .device = device->index, .row = agent};
    snprintf(one->what, sizeof one->what, "%s", what);
  }
}

void vdev_trace_wait(vdev_device *device, int awaited, int64_t start, int64_t end) {
  if (device->settings.trace != 0) {
    char what[48];
    snprintf(what, sizeof what, "wait for stream %d", awaited);
    vdev_trace_add(device, 0, what, 0, start, end);
  }
}

void vdev_trace_memory(vdev_device *device, const char *what, size_t bytes) {
  entry *one = add(device);
  if (one != NULL) {
    *one = (entry){.start = vdev_now(), .duration = -1, .bytes = device->statistics.live_bytes, .device = device->index};
    snprintf(one->what, sizeof one->what, "%s %zu bytes", what, bytes);
  }
}

static void print_text(FILE *file, const char *text) {
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      fprintf(file, "\\%c", c);
    } else if (c < 0x20) {
      fprintf(file, "\\u%04x", c);
    } else {
      fputc(c, file);
    }
  }
}

bool vdev_trace_save(const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) {
    return false;
  }
  fputs("{\"traceEvents\":[\n", file);
  for (size_t i = 0; i < entry_count; i++) {
    const entry *one = &entries[i];
    fputs(i == 0 ? "{\"name\":\"" : ",\n{\"name\":\"", file);
    if (one->duration < 0) {
      fprintf(file, "memory\",\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"args\":{\"live bytes\":%lld}}", one->device,
              (double)one->start / 1000, (long long)one->bytes);
      continue;
    }
    print_text(file, one->what);
    fprintf(file, "\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"bytes\":%lld}}", one->device,
            one->row, (double)one->start / 1000, (double)one->duration / 1000, (long long)one->bytes);
  }
  fputs("\n]}\n", file);
  bool written = ferror(file) == 0;
  return fclose(file) == 0 && written;
}

void vdev_trace_clear(void) {
  free(entries);
  entries = NULL;
  entry_count = entry_capacity = 0;
}

int vdev_trace_write(const char *path) {
  vdev_lock();
  bool good = path != NULL && vdev_trace_save(path);
  vdev_unlock();
  if (!good) {
    vdev_set_error("'%.200s' cannot be written", path == NULL ? "" : path);
  }
  return good ? 0 : -1;
}
