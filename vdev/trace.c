#include "trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "system.h"

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
      return NULL; /* a trace with a gap is better than a run that fails because of it */
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

/* A trace counts in microseconds. Printed as whole numbers, so that a locale cannot change JSON's decimal point. */
static void print_time(FILE *file, const char *name, int64_t nanoseconds) {
  fprintf(file, ",\"%s\":%lld.%03d", name, (long long)(nanoseconds / 1000), (int)(nanoseconds % 1000));
}

static void print_entry(FILE *file, const entry *one) {
  bool is_counter = one->duration < 0;
  fputs("{\"name\":\"", file);
  print_text(file, is_counter ? "memory" : one->what);
  fprintf(file, "\",\"ph\":\"%s\",\"pid\":%d", is_counter ? "C" : "X", one->device);
  print_time(file, "ts", one->start);
  if (!is_counter) {
    fprintf(file, ",\"tid\":%d", one->row);
    print_time(file, "dur", one->duration);
  }
  fprintf(file, ",\"args\":{\"%s\":%lld}}", is_counter ? "live bytes" : "bytes", (long long)one->bytes);
}

bool vdev_trace_save(const char *path) {
  FILE *file = vdev_file_rewrite(path);
  if (file == NULL) {
    return false;
  }
  fputs("{\"traceEvents\":[", file);
  for (size_t i = 0; i < entry_count; i++) {
    fputs(i == 0 ? "\n" : ",\n", file);
    print_entry(file, &entries[i]);
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
