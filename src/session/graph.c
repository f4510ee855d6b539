/* May a session capture graphs? Checked when it is created: its device, its options, its model, and where its outputs are. */
#include <string.h>

#include "session/create.h"

/* The one device besides the CPU, if its EP captures graphs and this ORT lets it. */
static iobind_status find_device(const iobind_runtime *runtime, const iobind_session_options *options, iobind_device **out,
                                 iobind_error *error) {
  iobind_device *device = NULL;
  size_t count = 0;
  for (size_t i = 0; options->devices != NULL && i < options->device_count; i++) {
    if (options->devices[i] != NULL && options->devices[i] != runtime->cpu) {
      device = options->devices[i];
      count++;
    }
  }
  if (count != 1) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "session_create: graph_limit: expected exactly one device besides the CPU, got %zu", count);
  }
  if (device->ep == NULL || device->ep->graph_option == NULL) {
    char names[IOBIND__EP_NAMES];
    iobind__ep_list_capturing(names);
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                        "session_create: graph_limit: '%s': expected a device of an EP that captures graphs: %s", device->spec,
                        names);
  }
  if (iobind__device_has(device, IOBIND__QUIRK_CAPTURES_NOTHING)) {
    return iobind__fail(
        error, IOBIND_ERROR_VERSION,
        "session_create: graph_limit: '%s': expected ORT 1.%u or newer, got %s: older ones have no graph capture "
        "for EP plugins",
        device->spec, iobind__quirk_ends(device->ep, IOBIND__QUIRK_CAPTURES_NOTHING), runtime->ort.version);
  }
  *out = device;
  return IOBIND_OK;
}

/* Sessions share the environment's allocators of ORT: another session could get the scratch memory that a graph writes. */
static iobind_status check_config(const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < options->config_count; i++) {
    const char *key = options->config_keys == NULL ? NULL : options->config_keys[i];
    const char *value = options->config_values == NULL ? NULL : options->config_values[i];
    if (key != NULL && value != NULL && strcmp(key, "session.use_env_allocators") == 0 && strcmp(value, "0") != 0) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "session_create: graph_limit: config entry '%s' is refused: other sessions would share the memory that a "
          "captured graph writes",
          key);
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__session_check_graph_key(const char *what, const char *key, iobind_error *error) {
  return iobind__ep_is_graph_option(key)
             ? iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                            "session_create: %s '%s' is refused: set graph_limit instead: then iobind checks the graphs", what,
                            key)
             : IOBIND_OK;
}

iobind_status iobind__session_check_graph(const iobind_runtime *runtime, const iobind_session_options *options,
                                          const iobind__source *from, iobind_device **device, iobind_error *error) {
  *device = NULL;
  if (options->graph_limit == 0) {
    return IOBIND_OK;
  }
  iobind_device *found = NULL;
  IOBIND__TRY(find_device(runtime, options, &found, error));
  IOBIND__TRY(check_config(options, error));
  IOBIND__TRY(iobind__source_check_capturable(from, error));
  *device = found;
  return IOBIND_OK;
}

iobind_status iobind__session_check_graph_outputs(const iobind_session *session, iobind_error *error) {
  if (session->outputs_guessed) {
    return iobind__fail(
        error, IOBIND_ERROR_NOT_SUPPORTED,
        "session_create: graph_limit: the model has an output that no node makes, a constant or an input that is "
        "passed through: a replay does not write it");
  }
  for (size_t i = 0; i < session->output_count; i++) {
    if (session->outputs[i].place->host) {
      return iobind__fail(
          error, IOBIND_ERROR_NOT_SUPPORTED,
          "session_create: graph_limit: output '%s' is left in host memory: a node on the CPU makes it, which a "
          "replay does not run",
          session->outputs[i].name);
    }
  }
  return IOBIND_OK;
}
