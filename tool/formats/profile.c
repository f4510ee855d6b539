#define _POSIX_C_SOURCE 200809L /* strdup */

#include "formats/profile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* In arguments ORT writes numbers as text. */
static uint64_t number_of(const json_t *value) {
  if (json_is_integer(value)) return (uint64_t)json_integer_value(value);
  return json_is_string(value) ? strtoull(json_string_value(value), NULL, 10) : 0;
}

/* The event of a copy node's kernel: there is one for each run of it. */
static bool is_copy(const json_t *event, const char **op_type) {
  const char *category = json_string_value(json_object_get(event, "cat"));
  const char *name = json_string_value(json_object_get(event, "name"));
  *op_type = json_string_value(json_object_get(json_object_get(event, "args"), "op_name"));
  bool node = category != NULL && strcmp(category, "Node") == 0 && name != NULL && strstr(name, "_kernel_time") != NULL;
  return node && *op_type != NULL && (strcmp(*op_type, "MemcpyToHost") == 0 || strcmp(*op_type, "MemcpyFromHost") == 0);
}

static char *node_name(const json_t *event) {
  char *name = strdup(json_string_value(json_object_get(event, "name")));
  char *end = name == NULL ? NULL : strstr(name, "_kernel_time");
  if (end != NULL) *end = '\0';
  return name;
}

/* The entry of an event's node, created on its first run; NULL: out of memory. */
static profile_copy *find_copy(profile_copy **copies, size_t *count, const json_t *event, const char *op_type) {
  int64_t node = (int64_t)number_of(json_object_get(json_object_get(event, "args"), "node_index"));
  for (size_t i = 0; i < *count; i++) {
    if ((*copies)[i].node == node) return &(*copies)[i];
  }
  profile_copy *larger = realloc(*copies, (*count + 1) * sizeof *larger);
  if (larger == NULL) return NULL;
  *copies = larger;
  profile_copy *made = &larger[*count];
  *made = (profile_copy){.name = node_name(event), .to_host = strcmp(op_type, "MemcpyToHost") == 0, .node = node};
  if (made->name == NULL) return NULL;
  (*count)++;
  return made;
}

bool profile_read(int descriptor, const char *path, profile_copy **copies, size_t *count, tool_fault *fault) {
  *copies = NULL;
  *count = 0;
  json_error_t error;
  json_t *events = json_loadfd(descriptor, 0, &error);
  if (!json_is_array(events)) {
    json_decref(events);
    return fault_set(fault, "%s: is not a profile of ONNX Runtime: %s", path,
                     events == NULL ? error.text : "expected a list of events");
  }
  bool good = true;
  size_t index;
  const json_t *event;
  json_array_foreach(events, index, event) {
    const char *op_type;
    if (!is_copy(event, &op_type)) continue;
    profile_copy *copy = find_copy(copies, count, event, op_type);
    if (copy == NULL) {
      good = fault_set(fault, "out of memory");
      break;
    }
    copy->bytes += number_of(json_object_get(json_object_get(event, "args"), "output_size"));
    copy->nanoseconds += 1000 * number_of(json_object_get(event, "dur"));
    copy->count++;
  }
  json_decref(events);
  if (!good) {
    profile_free(*copies, *count);
    *copies = NULL;
    *count = 0;
  }
  return good;
}

void profile_free(profile_copy *copies, size_t count) {
  for (size_t i = 0; i < count; i++) free(copies[i].name);
  free(copies);
}
