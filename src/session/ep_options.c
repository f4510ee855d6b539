/* The EPs of a session, each with its options. Values are checked before ORT gets them (ep/option.h): some EPs end the
 * process over a wrong one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/create.h"
#include "support/system.h"

/* The options of one EP, in the form for ORT. */
typedef struct ep_choice {
  const iobind_device *device; /* of the EP; with a policy the first of its devices */
  const iobind__ep *ep;        /* NULL: not in the catalogue */
  const iobind__option_table *table;
  bool chosen;         /* by a policy: the device is unknown */
  const char *strange; /* an option that is not in the table; NULL: all are */
  const char *near;    /* a known key that is similar; NULL: none */
  const char **keys;
  const char **values;
  char (*numbers)[24]; /* addresses, printed for ORT */
  size_t count;
} ep_choice;

static void choice_free(ep_choice *choice) {
  free(choice->keys);
  free(choice->values);
  free(choice->numbers);
}

/* A plugin with the name of one of ORT's own EPs has other options: the catalogue's do not apply to it. */
static iobind_status choice_begin(ep_choice *choice, const iobind_session_options *options, const iobind_device *device,
                                  const iobind__ep *ep, iobind_error *error) {
  bool other_kind = ep != NULL && ep->bridged && !device->bridged;
  size_t most = 2 * options->ep_option_count + 4; /* an option may add another one; one for graphs, two for a stream */
  *choice = (ep_choice){.device = device,
                        .ep = ep,
                        .table = ep == NULL || other_kind ? NULL : ep->options,
                        .chosen = options->policy != IOBIND_POLICY_NONE,
                        .keys = calloc(most, sizeof(char *)),
                        .values = calloc(most, sizeof(char *)),
                        .numbers = calloc(most, sizeof *choice->numbers)};
  if (choice->keys == NULL || choice->values == NULL || choice->numbers == NULL) {
    choice_free(choice);
    return iobind__out_of_memory(error, "session_create");
  }
  return IOBIND_OK;
}

static void choice_add(ep_choice *choice, const char *key, const char *value) {
  choice->keys[choice->count] = key;
  choice->values[choice->count++] = value;
}

static size_t choice_find(const ep_choice *choice, const char *key) {
  size_t i = 0;
  while (i < choice->count && strcmp(choice->keys[i], key) != 0) {
    i++;
  }
  return i;
}

static const char *choice_value(const ep_choice *choice, const char *key) {
  size_t i = choice_find(choice, key);
  return i < choice->count ? choice->values[i] : NULL;
}

static void choice_set(ep_choice *choice, const char *key, const char *value) {
  size_t i = choice_find(choice, key);
  if (i == choice->count) {
    choice_add(choice, key, value);
  } else {
    choice->values[i] = value;
  }
}

static iobind_status take_unknown(ep_choice *choice, const char *key, const char *value, iobind_error *error) {
  bool known;
  const char *near;
  IOBIND__TRY(iobind__ep_option_check(choice->ep, key, &known, &near, error));
  iobind__log *log = choice->device->runtime->log;
  if (near != NULL) {
    iobind__log_line(log, IOBIND_LOG_WARNING,
                     "iobind: session_create: EP option '%s' of '%s' is unknown (did you mean '%s'?), and passed on unchanged",
                     key, choice->device->spec, near);
  } else {
    iobind__log_line(log, IOBIND_LOG_INFO, "iobind: session_create: EP option '%s' of '%s' is unknown, and passed on", key,
                     choice->device->spec);
  }
  if (choice->strange == NULL || choice->near == NULL) {
    choice->strange = key;
    choice->near = near;
  }
  choice_add(choice, key, value);
  return IOBIND_OK;
}

/* Options that the device sets cannot name another device. */
static iobind_status check_device(const ep_choice *choice, const iobind__option *option, const char *value,
                                  iobind_error *error) {
  const OrtApi *api = IOBIND__API(choice->device->runtime);
  const OrtKeyValuePairs *own = api->EpDevice_EpOptions(choice->device->ep_device);
  const char *set = own == NULL ? NULL : api->GetKeyValue(own, option->key);
  if (choice->chosen) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_ARGUMENT,
        "session_create: EP option '%s': the policy chooses the device; pass a device, such as '%s', instead of the policy",
        option->key, choice->device->spec);
  }
  if (set == NULL || iobind__option_same(option, set, value)) {
    return IOBIND_OK;
  }
  return iobind__fail(
      error, IOBIND_ERROR_INVALID_ARGUMENT,
      "session_create: EP option '%s': expected %s, which '%s' sets by itself, got '%s'; use the device '%s:%s' for that value",
      option->key, set, choice->device->spec, value, choice->ep->name, value);
}

/* One option that the table has. */
static iobind_status take_known(ep_choice *choice, const iobind__option *option, const char *value, iobind_error *error) {
  if (!iobind__option_takes(choice->table, option, value)) {
    char range[IOBIND__OPTION_RANGE];
    iobind__option_range(choice->table, option, range);
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_create: EP option '%s' of %s: expected %s, got '%.64s'",
                        option->key, choice->ep->name, range, value);
  }
  if (option->unused != NULL && !iobind__option_same(option, value, option->preset)) {
    return iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED, "session_create: EP option '%s' of %s: %s", option->key,
                        choice->ep->name, option->unused);
  }
  if (option->of_device) {
    IOBIND__TRY(check_device(choice, option, value, error));
  }
  uint64_t address;
  if (option->kind == IOBIND__OPTION_ADDRESS && iobind__option_address(value, &address)) {
    char *number = choice->numbers[choice->count];
    snprintf(number, sizeof choice->numbers[0], "%llu",
             (unsigned long long)address); /* not every EP can read the output of %p */
    value = number;
  }
  choice_add(choice, option->key, value);
  return IOBIND_OK;
}

/* Options that require each other. */
static iobind_status choice_complete(ep_choice *choice, iobind_error *error) {
  size_t given = choice->table == NULL ? 0 : choice->count;
  for (size_t i = 0; i < given; i++) {
    const iobind__option *option = iobind__option_find(choice->table, choice->keys[i]);
    if (option != NULL && option->brings != NULL && choice_value(choice, option->brings) == NULL) {
      choice_add(choice, option->brings, "1");
    }
    if (option != NULL && option->needs != NULL && choice_value(choice, option->needs) == NULL &&
        !iobind__option_same(option, choice->values[i], option->preset)) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                          "session_create: EP option '%s' of %s has no effect without '%s': set both or none", option->key,
                          choice->ep->name, option->needs);
    }
  }
  return IOBIND_OK;
}

/* Options that exclude each other. */
static iobind_status choice_check_pairs(const ep_choice *choice, iobind_error *error) {
  const iobind__option_pair *pair = choice->ep == NULL || choice->table == NULL
                                        ? NULL
                                        : iobind__option_meet(choice->table, choice->keys, choice->values, choice->count);
  if (pair == NULL) {
    return IOBIND_OK;
  }
  const char *other = choice_value(choice, pair->other);
  return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                      "session_create: EP options '%s' and '%s=%s'%s of %s exclude each other: %s", pair->key, pair->other,
                      other == NULL ? pair->other_value : other, other == NULL ? ", its preset," : "", choice->ep->name,
                      pair->reason);
}

/* The session's stream, for an EP that gets it by an option. If the caller set that option, the stream orders work with the caller's. */
static void choice_add_stream(ep_choice *choice, const iobind_stream *stream) {
  if (stream == NULL || choice->ep == NULL || stream->device->ep != choice->ep ||
      !iobind__device_has(stream->device, IOBIND__QUIRK_REFUSES_RUN_STREAM)) {
    return;
  }
  char *number = choice->numbers[choice->count];
  snprintf(number, sizeof choice->numbers[0], "%llu", (unsigned long long)(uintptr_t)iobind__stream_handle(stream));
  const iobind__option *option = iobind__option_find(choice->table, choice->ep->stream_option);
  bool given = choice_value(choice, option->key) != NULL;
  choice_set(choice, option->key, number);
  if (!given) {
    choice_set(choice, option->brings, "1"); /* without it the EP computes on another stream */
  }
}

/* The options "KEY" or "NAME.KEY" that apply to an EP; `first`: also those without a name. */
static iobind_status choice_gather(ep_choice *choice, const iobind_session_options *options, bool first, iobind_error *error) {
  for (size_t i = 0; i < options->ep_option_count; i++) {
    const char *key;
    const iobind__ep *named = iobind__ep_of_option(options->ep_keys[i], &key);
    if (named != NULL ? named != choice->ep : !first) {
      continue;
    }
    IOBIND__TRY(iobind__session_check_graph_key("EP option", key, error));
    if (choice_value(choice, key) != NULL) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "session_create: EP option '%s' is given twice", key);
    }
    const iobind__option *option = choice->table == NULL ? NULL : iobind__option_find(choice->table, key);
    if (option != NULL) {
      IOBIND__TRY(take_known(choice, option, options->ep_values[i], error));
    } else if (choice->table != NULL) {
      IOBIND__TRY(take_unknown(choice, key, options->ep_values[i], error));
    } else {
      choice_add(choice, key, options->ep_values[i]);
    }
  }
  IOBIND__TRY(choice_complete(choice, error));
  choice_add_stream(choice, options->stream);
  const char *graphs = choice->ep == NULL ? NULL : choice->ep->graph_option;
  if (graphs != NULL && (options->graph_limit > 0 || choice->ep->graph_by_settings)) {
    choice_add(choice, graphs, options->graph_limit > 0 ? "1" : "0");
  }
  return choice_check_pairs(choice, error);
}

/* ---- ORT's own EPs ---------------------------------------------------------------------------------------------- */

/* ORT loads such an EP from the directory of its own library: is the library in use that file? */
static bool lies_beside_ort(const iobind_device *device) {
  const iobind_runtime *runtime = device->runtime;
  iobind__runtime_lock(runtime);
  const char *path = iobind__device_library(device);
  iobind__runtime_unlock(runtime);
  char *library = path == NULL ? NULL : iobind__file_resolve(path);
  char *ort = iobind__file_resolve(runtime->ort.path);
  bool beside = false;
  if (library != NULL && ort != NULL) {
    size_t directory = (size_t)(iobind__path_name(library) - library);
    beside = directory == (size_t)(iobind__path_name(ort) - ort) && memcmp(library, ort, directory) == 0;
  }
  free(library);
  free(ort);
  return beside;
}

static iobind_status refuse(const ep_choice *choice, OrtStatus *refused, iobind_error *error) {
  const OrtApi *api = IOBIND__API(choice->device->runtime);
  if (choice->strange == NULL || !iobind__ort_says(api, refused, choice->strange)) {
    return iobind__ort_error_set(api, refused, IOBIND_ERROR_INVALID_ARGUMENT, error, "session_create: EP options of '%s'",
                                 choice->device->spec);
  }
  bool near = choice->near != NULL;
  return iobind__ort_error_set(
      api, refused, IOBIND_ERROR_INVALID_ARGUMENT, error, "session_create: EP option '%.64s' of '%s' is unknown%s%s%s",
      choice->strange, choice->device->spec, near ? ": did you mean '" : "", near ? choice->near : "", near ? "'?" : "");
}

/* Some EPs end the process over an option that they refuse, but can check it before. */
static iobind_status ask(ep_choice *choice, iobind_error *error) {
  const OrtApi *api = IOBIND__API(choice->device->runtime);
  if (choice->count == 0 || !choice->device->bridged || choice->ep->ask == NULL) {
    return IOBIND_OK;
  }
  bool answered = false;
  OrtStatus *refused =
      lies_beside_ort(choice->device) ? choice->ep->ask(api, choice->keys, choice->values, choice->count, &answered) : NULL;
  if (answered) {
    return refused == NULL ? IOBIND_OK : refuse(choice, refused, error);
  }
  iobind__ort_ignore(api, refused);
  if (!choice->strange) { /* the table decides alone */
    return IOBIND_OK;
  }
  return iobind__fail(
      error, IOBIND_ERROR_NOT_SUPPORTED,
      "session_create: '%s' has an EP option that iobind does not know, and may end the process because of it: it cannot be "
      "asked first, because its library is not beside ONNX Runtime's",
      choice->device->spec);
}

/* Add the device's number among those of its EP, for an EP to which ORT passes no device. */
static void choice_add_device(ep_choice *choice) {
  const OrtApi *api = IOBIND__API(choice->device->runtime);
  const OrtKeyValuePairs *own = api->EpDevice_EpOptions(choice->device->ep_device);
  for (size_t i = 0; own != NULL && i < choice->table->count; i++) {
    const iobind__option *option = &choice->table->options[i];
    const char *value = option->of_device ? api->GetKeyValue(own, option->key) : NULL;
    if (value != NULL && choice_value(choice, option->key) == NULL) {
      choice_add(choice, option->key, value);
    }
  }
}

/* The EP that options with its name place before the device's EP; NULL: none. */
static const iobind__ep *ep_before(const iobind_device *device) {
  return device->ep != NULL && device->bridged ? iobind__ep_before(device->ep) : NULL;
}

static iobind_status append_before(const iobind_session_options *options, const iobind_device *device, OrtSessionOptions *out,
                                   iobind_error *error) {
  const OrtApi *api = IOBIND__API(device->runtime);
  const iobind__ep *ep = ep_before(device);
  ep_choice choice;
  if (ep == NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(choice_begin(&choice, options, device, ep, error));
  iobind_status status = choice_gather(&choice, options, false, error);
  if (status == IOBIND_OK && choice.count > 0) {
    choice_add_device(&choice);
    OrtStatus *refused = ep->append(api, out, choice.keys, choice.values, choice.count);
    if (refused != NULL) {
      status = iobind__ort_fail(api, refused, error, "session_create: %s before '%s'", ep->ep_name, device->spec);
    }
  }
  choice_free(&choice);
  return status;
}

/* ---- devices and policies ------------------------------------------------------------------------------------------------ */

/* An option for an EP that the session does not use would be ignored silently. */
static iobind_status check_options_used(const iobind_session_options *options, iobind_error *error) {
  for (size_t i = 0; i < options->ep_option_count; i++) {
    const char *rest;
    const iobind__ep *named = iobind__ep_of_option(options->ep_keys[i], &rest);
    bool used = false;
    for (size_t d = 0; d < options->device_count && !used; d++) {
      const iobind_device *device = options->devices[d];
      bool fits = named == NULL || device->ep == named || named == ep_before(device);
      used = device != device->runtime->cpu && fits;
    }
    if (!used) {
      return iobind__fail(
          error, IOBIND_ERROR_INVALID_ARGUMENT,
          "session_create: EP option '%s': no device of the session has an EP that takes it (the CPU takes none)",
          options->ep_keys[i]);
    }
  }
  return IOBIND_OK;
}

/* The devices from the i-th on that are of its EP; none if an earlier device is: then it was appended with that one. */
static size_t group_devices(const iobind_session_options *options, size_t i, const OrtEpDevice **group) {
  const OrtApi *api = IOBIND__API(options->devices[i]->runtime);
  const char *ep_name = api->EpDevice_EpName(options->devices[i]->ep_device);
  size_t count = 0;
  for (size_t d = 0; d < options->device_count; d++) {
    const OrtEpDevice *ep_device = options->devices[d]->ep_device;
    if (strcmp(api->EpDevice_EpName(ep_device), ep_name) == 0) {
      if (d < i) {
        return 0;
      }
      group[count++] = ep_device;
    }
  }
  return count;
}

/* ORT accepts an EP once, with all its devices; the EP decides whether it can use several. `group`: without options. */
static iobind_status append_group(const iobind_session_options *options, iobind_device *device, iobind__appended group,
                                  bool first, OrtSessionOptions *out, iobind_error *error) {
  ep_choice choice;
  IOBIND__TRY(append_before(options, device, out, error));
  IOBIND__TRY(choice_begin(&choice, options, device, device->ep, error));
  iobind_status status = choice_gather(&choice, options, first, error);
  status = status == IOBIND_OK ? ask(&choice, error) : status;
  if (status == IOBIND_OK && iobind__driver_of(device)->check_ready != NULL) {
    status = iobind__driver_of(device)->check_ready(device, error);
  }
  if (status == IOBIND_OK) {
    group.keys = choice.keys;
    group.values = choice.values;
    group.count = choice.count;
    status = iobind__named(iobind__device_driver_of(device)->append(device, &group, out, error), error, "session_create");
  }
  choice_free(&choice);
  return status;
}

static iobind_status append_devices(iobind_runtime *runtime, const iobind_session_options *options, OrtSessionOptions *out,
                                    iobind_error *error) {
  IOBIND__TRY(check_options_used(options, error));
  const OrtEpDevice **group = calloc(options->device_count + 1, sizeof(OrtEpDevice *));
  iobind_status status = group == NULL ? iobind__out_of_memory(error, "session_create") : IOBIND_OK;
  bool first = true;
  for (size_t i = 0; i < options->device_count && status == IOBIND_OK; i++) {
    iobind_device *device = options->devices[i];
    size_t device_count = device == runtime->cpu ? 0 : group_devices(options, i, group); /* ORT adds the CPU last by itself */
    if (device_count > 0) {
      status = append_group(options, device, (iobind__appended){.ep_devices = group, .device_count = device_count}, first, out,
                            error);
      first = false;
    }
  }
  free(group);
  return status;
}

/* The first device of an EP, or (NULL) of the only EP besides the CPU's that there is. */
static const iobind_device *device_of_ep(const iobind_runtime *runtime, const iobind__ep *ep, bool *several) {
  const iobind_device *found = NULL;
  size_t count = iobind__runtime_device_count(runtime);
  *several = false;
  for (size_t i = 1; i < count; i++) {
    const iobind_device *device = iobind_runtime_get_device(runtime, i);
    if (ep != NULL ? device->ep == ep : device->ep != NULL) {
      *several = *several || (found != NULL && found->ep != device->ep);
      found = found == NULL ? device : found;
    }
  }
  return found;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text);
  size_t size = strlen(end);
  return length > size && text[length - size - 1] == '.' && strcmp(text + length - size, end) == 0;
}

/* ORT keeps the options of an EP as entries of the session, "ep.NAME.KEY", and only ORT knows the NAME of each EP: they are taken from
 * options to which the EP was appended. */
static iobind_status copy_entries(const ep_choice *choice, const OrtSessionOptions *from, OrtSessionOptions *out,
                                  iobind_error *error) {
  const OrtApi *api = IOBIND__API(choice->device->runtime);
  OrtKeyValuePairs *entries = NULL;
  const char *const *keys = NULL;
  const char *const *values = NULL;
  size_t count = 0;
  IOBIND__ORT_TRY(api, api->GetSessionOptionsConfigEntries(from, &entries), error, "session_create: policy");
  api->GetKeyValuePairs(entries, &keys, &values, &count);
  OrtStatus *failed = NULL;
  for (size_t i = 0; i < count * choice->count && failed == NULL; i++) {
    const char *entry = keys[i / choice->count];
    if (strncmp(entry, "ep.", strlen("ep.")) == 0 && ends_with(entry, choice->keys[i % choice->count])) {
      failed = api->AddSessionConfigEntry(out, entry, values[i / choice->count]);
    }
  }
  api->ReleaseKeyValuePairs(entries);
  IOBIND__ORT_TRY(api, failed, error, "session_create: policy");
  return IOBIND_OK;
}

/* With a policy ORT chooses the EP, which finds its options among the session's entries. */
static iobind_status add_entries_of(const iobind_session_options *options, const iobind_device *device, bool first,
                                    OrtSessionOptions *out, iobind_error *error) {
  iobind_runtime *runtime = device->runtime;
  const OrtApi *api = IOBIND__API(runtime);
  ep_choice choice;
  OrtSessionOptions *scratch = NULL;
  IOBIND__TRY(choice_begin(&choice, options, device, device->ep, error));
  iobind_status status = choice_gather(&choice, options, first, error);
  status = status == IOBIND_OK ? ask(&choice, error) : status;
  if (status == IOBIND_OK && choice.count > 0) {
    const OrtEpDevice *const group[] = {device->ep_device};
    OrtStatus *failed = api->CreateSessionOptions(&scratch);
    if (failed == NULL) {
      failed = api->SessionOptionsAppendExecutionProvider_V2(scratch, runtime->env, group, 1, choice.keys, choice.values,
                                                             choice.count);
    }
    status = failed == NULL ? copy_entries(&choice, scratch, out, error)
                            : iobind__ort_fail(api, failed, error, "session_create: device '%s'", device->spec);
  }
  if (scratch != NULL) {
    api->ReleaseSessionOptions(scratch);
  }
  choice_free(&choice);
  return status;
}

static iobind_status check_policy_option(const iobind_runtime *runtime, const char *key, iobind_error *error) {
  const char *rest;
  bool several;
  const iobind__ep *named = iobind__ep_of_option(key, &rest);
  const iobind_device *device = device_of_ep(runtime, named, &several);
  if (device == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "session_create: EP option '%s': no device has an EP that takes it (the CPU takes none)", key);
  }
  if (named == NULL && several) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "session_create: EP option '%s': the policy may choose any of several EPs: expected NAME.KEY, such as "
                        "'%s.%s'",
                        key, device->ep->name, key);
  }
  return IOBIND_OK;
}

/* Only these two of ORT's policies choose a GPU. The others must not wait for one, because that breaks a capture there. */
static iobind_status check_gpu_of_policy(const iobind_runtime *runtime, const iobind_session_options *options,
                                         iobind_error *error) {
  bool gpu = options->policy == IOBIND_POLICY_PREFER_GPU || options->policy == IOBIND_POLICY_MAX_PERFORMANCE;
  size_t count = gpu ? iobind__runtime_device_count(runtime) : 0;
  for (size_t i = 1; i < count; i++) {
    const iobind_device *device = iobind_runtime_get_device(runtime, i);
    if (iobind__driver_of(device)->check_ready != NULL) {
      return iobind__driver_of(device)->check_ready(device, error);
    }
  }
  return IOBIND_OK;
}

static iobind_status add_entries(const iobind_runtime *runtime, const iobind_session_options *options, OrtSessionOptions *out,
                                 iobind_error *error) {
  for (size_t i = 0; i < options->ep_option_count; i++) {
    IOBIND__TRY(check_policy_option(runtime, options->ep_keys[i], error));
  }
  IOBIND__TRY(check_gpu_of_policy(runtime, options, error));
  size_t count = options->ep_option_count == 0 ? 0 : iobind__runtime_device_count(runtime);
  for (size_t i = 1; i < count; i++) {
    bool several;
    const iobind_device *device = iobind_runtime_get_device(runtime, i);
    if (device->ep != NULL && device_of_ep(runtime, device->ep, &several) == device) {
      IOBIND__TRY(add_entries_of(options, device, true, out, error));
    }
  }
  return IOBIND_OK;
}

iobind_status iobind__session_append_eps(iobind_runtime *runtime, const iobind_session_options *options, OrtSessionOptions *out,
                                         iobind_error *error) {
  return options->policy == IOBIND_POLICY_NONE ? append_devices(runtime, options, out, error)
                                               : add_entries(runtime, options, out, error);
}
