/* Lists what each run of a binding copies between memory locations, as far as the binding and the placement of nodes show
 * it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding/binding.h"
#include "support/options.h"
#include "support/text.h"

enum { TEXT = 240 };

typedef struct line {
  iobind_audit_entry shown;
  char reason[TEXT];
  char advice[TEXT];
} line;

struct iobind_audit {
  iobind_session *session; /* a reference is held, because it owns names and devices */
  line *entries;
  size_t count;
};

__attribute__((format(printf, 2, 3))) static void write_text(char text[TEXT], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  iobind__text_print(text, TEXT, format, arguments); /* removes control characters: names come from the model */
  va_end(arguments);
}

static void set_places(line *self, const iobind__place *from, const iobind__place *to) {
  self->shown.from = from->device;
  self->shown.to = to->device;
  self->shown.from_memory = (int32_t)from->memory;
  self->shown.to_memory = (int32_t)to->memory;
}

/* Are these memory locations on different sides of a link? */
static bool differ(const iobind__place *from, const iobind__place *to) {
  return from->host != to->host || (!from->host && from->device != to->device);
}

/* The session's first device whose memory the host cannot access; NULL: there is none. */
static const iobind_device *far_device(const iobind_session *session) {
  for (size_t i = 0; i < session->device_count; i++) {
    if (!session->devices[i]->places[IOBIND_MEMORY_DEFAULT].host) {
      return session->devices[i];
    }
  }
  return NULL;
}

/* ---- inputs ---- */

static void describe_live(line *self, const iobind__input_view *view) {
  const iobind__place *from = view->source->place;
  const iobind__place *to = view->tensor->place;
  set_places(self, from, to);
  self->shown.bytes = view->source->bytes;
  self->shown.flags = differ(from, to) ? IOBIND_AUDIT_CROSSES : 0;
  bool waits = iobind__place_is_pageable(from) && (to->device->flags & IOBIND_DEVICE_STREAMS) != 0 &&
               (view->source->bytes < IOBIND__STAGING_MIN_BYTES || view->source->bytes > IOBIND__STAGING_MAX_BYTES);
  write_text(self->reason, "LIVE: copied before each run from '%s' to '%s', where the session reads it%s", from->device->spec,
             to->device->spec, waits ? "; from pageable memory so little, or so much, may wait on a stream too" : "");
  write_text(self->advice, "bind a tensor on '%s' RESIDENT, and write into it when the data change%s", to->device->spec,
             waits ? "; or let the source be a HOST_ACCESSIBLE tensor" : "");
}

static void describe_input(line *self, const iobind_binding *binding, const iobind_session *session, size_t index) {
  iobind__input_view view = iobind__binding_view_input(binding, index);
  const iobind__value *value = &session->inputs[index];
  const iobind_device *far = far_device(session);
  self->shown.kind = IOBIND_AUDIT_INPUT;
  self->shown.name = value->name;
  if (view.tensor == NULL) {
    write_text(self->reason, "not bound");
    write_text(self->advice, "bind it: a binding runs only with all inputs bound");
    return;
  }
  if (view.source != NULL) {
    describe_live(self, &view);
    return;
  }
  set_places(self, view.tensor->place, view.tensor->place);
  if (view.carried_from != IOBIND__NOT_CARRIED) {
    write_text(self->reason, "carried from the output '%s' of the run before", session->outputs[view.carried_from].name);
  } else if (value->place->host && far != NULL) {
    write_text(self->reason, "the session reads it on the host: the first node that uses it runs there");
    write_text(self->advice, "where nodes on '%s' use it too, ORT copies it: look for copy nodes in the run's profile",
               far->spec);
  } else {
    write_text(self->reason, "%s",
               view.mode == IOBIND_INPUT_SNAPSHOT ? "SNAPSHOT: copied when it was bound" : "is where the session reads it");
  }
}

/* ---- outputs ---- */

static iobind_status describe_output(line *self, iobind_binding *binding, const iobind_session *session, size_t index,
                                     iobind_error *error) {
  iobind__output_view view = iobind__binding_view_output(binding, index);
  const iobind__value *value = &session->outputs[index];
  self->shown.kind = IOBIND_AUDIT_OUTPUT;
  self->shown.name = value->name;
  if (view.mode == IOBIND__OUTPUT_NONE) {
    write_text(self->reason, "not fetched");
    return IOBIND_OK;
  }
  const iobind__place *from = value->place;
  const iobind__place *to = view.place;
  set_places(self, from, to);
  bool moves = differ(from, to);
  if (!moves && !view.is_passthrough) {
    write_text(self->reason, "is where the session leaves it");
    return IOBIND_OK;
  }
  bool known;
  IOBIND__TRY(iobind__binding_output_bytes(binding, index, &self->shown.bytes, &known, error));
  self->shown.flags = (moves ? IOBIND_AUDIT_CROSSES : 0) | (known ? 0 : IOBIND_AUDIT_UNKNOWN);
  if (moves) {
    bool pageable = iobind__place_is_pageable(to) && (from->device->flags & IOBIND_DEVICE_STREAMS) != 0;
    write_text(self->reason, "the session leaves it on '%s', it is bound on '%s'%s", from->device->spec, to->device->spec,
               pageable ? "; pageable memory makes a run on a stream wait" : "");
    write_text(self->advice, "bind it on '%s' (no device given), and read it when it is needed", from->device->spec);
  } else {
    write_text(self->reason, "the model hands an input on: copied, so that the output does not share its memory");
    write_text(self->advice, "leave it out (NONE): it is the input");
  }
  return IOBIND_OK;
}

/* Note in all entries so far that captured graphs use the bound memory: binding another tensor needs another graph. */
static void note_frozen(iobind_audit *audit) {
  for (size_t i = 0; i < audit->count; i++) {
    line *self = &audit->entries[i];
    if (self->shown.from != NULL) {
      size_t length = strlen(self->reason);
      snprintf(self->reason + length, TEXT - length, "; frozen: a captured graph uses it where it is");
    }
  }
}

/* ---- nodes ---- */

static bool runs_on_cpu(const iobind_node_info *node) {
  return strcmp(node->ep_name, "CPUExecutionProvider") == 0;
}

static void describe_node(line *self, const iobind_node_info *node, const iobind_device *far) {
  self->shown.kind = IOBIND_AUDIT_NODE;
  self->shown.name = node->name;
  self->shown.flags = IOBIND_AUDIT_UNKNOWN;
  write_text(self->reason, "%s runs on the CPU: '%s' does not take it", node->op_type, far->spec);
  write_text(self->advice,
             "what it shares with '%s' is copied: see the copy nodes in the run's profile; IOBIND_SESSION_STRICT makes "
             "this an error",
             far->spec);
}

/* ---- all ---- */

static iobind_status describe(iobind_audit *audit, iobind_binding *binding, iobind_error *error) {
  const iobind_session *session = audit->session;
  const iobind_device *far = far_device(session);
  size_t most = session->input_count + session->output_count + session->node_count;
  audit->entries = calloc(most + 1, sizeof *audit->entries);
  if (audit->entries == NULL) {
    return iobind__out_of_memory(error, "audit_create");
  }
  for (size_t i = 0; i < session->input_count; i++) {
    describe_input(&audit->entries[audit->count++], binding, session, i);
  }
  for (size_t i = 0; i < session->output_count; i++) {
    IOBIND__TRY(describe_output(&audit->entries[audit->count++], binding, session, i, error));
  }
  if (iobind__graphs_count(binding) > 0) {
    note_frozen(audit);
  }
  for (size_t i = 0; far != NULL && i < session->node_count; i++) {
    if (runs_on_cpu(&session->nodes[i])) {
      describe_node(&audit->entries[audit->count++], &session->nodes[i], far);
    }
  }
  for (size_t i = 0; i < audit->count; i++) {
    audit->entries[i].shown.reason = audit->entries[i].reason;
    audit->entries[i].shown.advice = audit->entries[i].advice;
  }
  return IOBIND_OK;
}

iobind_status iobind_audit_create(iobind_binding *binding, iobind_audit **out, iobind_error *error) {
  if (out != NULL) {
    *out = NULL;
  }
  IOBIND__TRY(iobind__null_check(binding, "binding", "audit_create", error));
  IOBIND__TRY(iobind__null_check(out, "audit", "audit_create", error));
  IOBIND__TRY(iobind__process_check("audit_create", error));
  IOBIND__TRY(iobind__binding_check_idle(binding, "audit_create", error));
  iobind_audit *audit = calloc(1, sizeof *audit);
  if (audit == NULL) {
    return iobind__out_of_memory(error, "audit_create");
  }
  audit->session = iobind__binding_session(binding);
  iobind__ref_retain(&audit->session->ref);
  iobind_status status = describe(audit, binding, error);
  if (status != IOBIND_OK) {
    iobind_audit_destroy(audit);
    return status;
  }
  *out = audit;
  return IOBIND_OK;
}

void iobind_audit_destroy(iobind_audit *audit) {
  if (audit != NULL) {
    iobind_session *session = audit->session;
    free(audit->entries);
    free(audit);
    iobind__ref_release(&session->ref);
  }
}

iobind_status iobind_audit_get_info(const iobind_audit *audit, iobind_audit_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(audit, "audit", "audit_get_info", error));
  iobind_audit_info full = {.entry_count = audit->count};
  for (size_t i = 0; i < audit->count; i++) {
    const iobind_audit_entry *one = &audit->entries[i].shown;
    bool crosses = (one->flags & IOBIND_AUDIT_CROSSES) != 0;
    full.crossing_count += crosses;
    full.crossing_bytes += crosses ? one->bytes : 0;
    full.unknown_count += (one->flags & IOBIND_AUDIT_UNKNOWN) != 0;
  }
  return IOBIND__INFO_WRITE(info, &full, "audit_get_info", error);
}

iobind_status iobind_audit_get_entry(const iobind_audit *audit, size_t index, iobind_audit_entry *entry, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(audit, "audit", "audit_get_entry", error));
  if (index >= audit->count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "audit_get_entry: expected an index below %zu, got %zu", audit->count,
                        index);
  }
  const iobind_audit_entry *shown = &audit->entries[index].shown;
  return IOBIND__INFO_WRITE(entry, shown, "audit_get_entry", error);
}
