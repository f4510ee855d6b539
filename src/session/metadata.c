/* A model's metadata. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "session/create.h"
#include "support/options.h"

iobind_status iobind__session_take_text(const iobind_session *session, char *text, char **out, const char *what,
                                        iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  *out = iobind__string_copy(text);
  IOBIND__ORT_TRY(api, api->AllocatorFree(session->runtime->cpu_allocator, text), error, "%s", what);
  return *out == NULL ? iobind__out_of_memory(error, what) : IOBIND_OK;
}

static iobind_status take_text(const iobind_session *session, char *text, char **out, iobind_error *error) {
  return iobind__session_take_text(session, text, out, "session_create: metadata", error);
}

static iobind_status read_texts(iobind_session *session, const OrtModelMetadata *metadata, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  OrtAllocator *allocator = session->runtime->cpu_allocator;
  OrtStatus *(ORT_CALL *const getters[])(const OrtModelMetadata *, OrtAllocator *,
                                         char **) = {api->ModelMetadataGetProducerName, api->ModelMetadataGetGraphName,
                                                     api->ModelMetadataGetDomain, api->ModelMetadataGetDescription};
  for (size_t i = 0; i < sizeof session->metadata.texts / sizeof session->metadata.texts[0]; i++) {
    char *text = NULL;
    IOBIND__ORT_TRY(api, getters[i](metadata, allocator, &text), error, "session_create: metadata");
    IOBIND__TRY(take_text(session, text, &session->metadata.texts[i], error));
  }
  IOBIND__ORT_TRY(api, api->ModelMetadataGetVersion(metadata, &session->metadata.model_version), error,
                  "session_create: metadata");
  if (session->metadata.model_version == INT64_MAX) {
    session->metadata.model_version = 0; /* ORT's answer if the model has none */
  }
  return IOBIND_OK;
}

static iobind_status read_entry(iobind_session *session, const OrtModelMetadata *metadata, char *key, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  iobind__entry *entry = &session->metadata.entries[session->metadata.entry_count++];
  char *value = NULL;
  IOBIND__TRY(take_text(session, key, &entry->key, error));
  IOBIND__ORT_TRY(api, api->ModelMetadataLookupCustomMetadataMap(metadata, session->runtime->cpu_allocator, entry->key, &value),
                  error, "session_create: metadata");
  return take_text(session, value, &entry->value, error);
}

static int compare_entries(const void *one, const void *other) {
  return strcmp(((const iobind__entry *)one)->key, ((const iobind__entry *)other)->key);
}

/* The list of keys, and those from `taken` on. */
static void free_keys(const iobind_session *session, char **keys, int64_t taken, int64_t count) {
  const OrtApi *api = IOBIND__API(session->runtime);
  for (int64_t i = taken; i <= count; i++) {
    OrtStatus *failed = api->AllocatorFree(session->runtime->cpu_allocator, i < count ? (void *)keys[i] : (void *)keys);
    iobind__ort_ignore(api, failed);
  }
}

/* ORT lists the keys in any order. */
static iobind_status read_entries(iobind_session *session, const OrtModelMetadata *metadata, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  char **keys = NULL;
  int64_t count = 0;
  IOBIND__ORT_TRY(api, api->ModelMetadataGetCustomMetadataMapKeys(metadata, session->runtime->cpu_allocator, &keys, &count),
                  error, "session_create: metadata");
  if (keys == NULL) {
    return IOBIND_OK;
  }
  session->metadata.entries = calloc((size_t)count, sizeof *session->metadata.entries);
  iobind_status status = session->metadata.entries == NULL ? iobind__out_of_memory(error, "session_create") : IOBIND_OK;
  int64_t taken = 0;
  while (taken < count && status == IOBIND_OK) {
    status = read_entry(session, metadata, keys[taken++], error);
  }
  free_keys(session, keys, taken, count);
  if (status == IOBIND_OK) {
    qsort(session->metadata.entries, session->metadata.entry_count, sizeof *session->metadata.entries, compare_entries);
  }
  return status;
}

iobind_status iobind__session_read_metadata(iobind_session *session, iobind_error *error) {
  const OrtApi *api = IOBIND__API(session->runtime);
  OrtModelMetadata *metadata = NULL;
  IOBIND__ORT_TRY(api, api->SessionGetModelMetadata(session->session, &metadata), error, "session_create: metadata");
  iobind_status status = read_texts(session, metadata, error);
  if (status == IOBIND_OK) {
    status = read_entries(session, metadata, error);
  }
  api->ReleaseModelMetadata(metadata);
  /* an ORT without the model editor, or a model that was not ONNX, does not report the opset: 0 */
  const OrtModelEditorApi *editor = api->GetModelEditorApi();
  int opset = 0;
  OrtStatus *told = editor == NULL ? NULL : editor->SessionGetOpsetForDomain(session->session, "", &opset);
  if (told != NULL) {
    api->ReleaseStatus(told);
    opset = 0;
  }
  session->metadata.opset = opset;
  return status;
}

void iobind__session_free_metadata(iobind_session *session) {
  for (size_t i = 0; i < sizeof session->metadata.texts / sizeof session->metadata.texts[0]; i++) {
    free(session->metadata.texts[i]);
  }
  for (size_t i = 0; i < session->metadata.entry_count; i++) {
    free(session->metadata.entries[i].key);
    free(session->metadata.entries[i].value);
  }
  free(session->metadata.entries);
}

iobind_status iobind_session_get_info(const iobind_session *session, iobind_session_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(session, "session", "session_get_info", error));
  iobind_session_info full = {.input_count = session->input_count,
                              .output_count = session->output_count,
                              .node_count = session->node_count,
                              .opset = session->metadata.opset,
                              .model_version = session->metadata.model_version,
                              .producer = session->metadata.texts[0],
                              .graph_name = session->metadata.texts[1],
                              .domain = session->metadata.texts[2],
                              .description = session->metadata.texts[3],
                              .metadata_count = session->metadata.entry_count,
                              .graph_count = iobind__registry_count(&session->graphs, IOBIND__GRAPH_WHOLE),
                              .kept_graph_count = iobind__registry_count(&session->graphs, IOBIND__GRAPH_KEPT),
                              .device_node_count = session->device_node_count};
  return IOBIND__INFO_WRITE(info, &full, "session_get_info", error);
}

iobind_status iobind_session_get_metadata(const iobind_session *session, size_t index, const char **key, const char **value,
                                          iobind_error *error) {
  if (key != NULL) {
    *key = NULL;
  }
  if (value != NULL) {
    *value = NULL;
  }
  IOBIND__TRY(iobind__null_check(session, "session", "session_get_metadata", error));
  IOBIND__TRY(iobind__null_check(key, "key", "session_get_metadata", error));
  IOBIND__TRY(iobind__null_check(value, "value", "session_get_metadata", error));
  if (index >= session->metadata.entry_count) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "session_get_metadata: the model has %zu entries, got index %zu",
                        session->metadata.entry_count, index);
  }
  *key = session->metadata.entries[index].key;
  *value = session->metadata.entries[index].value;
  return IOBIND_OK;
}
