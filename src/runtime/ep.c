/* Registers EP libraries, and searches for them. In this file a failure's reason names neither the function nor the file: the
 * public functions add both. */
#include <stdlib.h>
#include <string.h>

#include "runtime/claim.h"
#include "ep/preload.h"
#include "runtime/runtime.h"
#include "support/options.h"
#include "support/system.h"

static iobind_status no_memory(iobind_error *reason) {
  return iobind__fail(reason, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
}

static void library_free(iobind__ep_library *library) {
  if (library != NULL) {
    free(library->name);
    free(library->path);
    free(library->message);
    free(library);
  }
}

static bool same_file(const char *a, const char *b) {
  char *resolved_a = iobind__file_resolve(a);
  char *resolved_b = iobind__file_resolve(b);
  bool same = resolved_a != NULL && resolved_b != NULL && strcmp(resolved_a, resolved_b) == 0;
  free(resolved_a);
  free(resolved_b);
  return same;
}

static iobind__ep_library *find_library(const iobind_runtime *runtime, const char *name, const char *path) {
  for (size_t i = 0; i < runtime->ep_library_count; i++) {
    iobind__ep_library *known = runtime->ep_libraries[i];
    if (strcmp(known->name, name) == 0 && (strcmp(known->path, path) == 0 || same_file(known->path, path))) {
      return known;
    }
  }
  return NULL;
}

/* How the registration of a library ended. */
typedef struct outcome {
  iobind_status status;
  bool ours; /* iobind has registered it */
  const char *message;
} outcome;

/* Record whether a library works. There is one entry for each name, file and status. With the runtime's mutex held. */
static iobind_status remember(iobind_runtime *runtime, const char *name, const char *path, outcome how, iobind_error *error) {
  iobind__ep_library *known = find_library(runtime, name, path);
  if (known != NULL && known->status == how.status) {
    return IOBIND_OK;
  }
  iobind__ep_library **list = realloc(runtime->ep_libraries, (runtime->ep_library_count + 1) * sizeof *runtime->ep_libraries);
  if (list == NULL) {
    return no_memory(error);
  }
  runtime->ep_libraries = list;
  iobind__ep_library *library = calloc(1, sizeof *library);
  if (library != NULL) {
    *library = (iobind__ep_library){iobind__string_copy(name), iobind__string_copy(path), iobind__string_copy(how.message),
                                    how.status, how.ours};
  }
  if (library == NULL || library->name == NULL || library->path == NULL || library->message == NULL) {
    library_free(library);
    return no_memory(error);
  }
  list[runtime->ep_library_count++] = library;
  return IOBIND_OK;
}

static iobind__ep_library *find_registered(const iobind_runtime *runtime, const char *name) {
  for (size_t i = 0; i < runtime->ep_library_count; i++) {
    if (runtime->ep_libraries[i]->status == IOBIND_OK && strcmp(runtime->ep_libraries[i]->name, name) == 0) {
      return runtime->ep_libraries[i];
    }
  }
  return NULL;
}

static bool has_devices_of(const iobind_runtime *runtime, const char *ep_name) {
  for (size_t i = 0; i < runtime->device_count; i++) {
    const OrtEpDevice *ep_device = runtime->devices[i]->ep_device;
    if (strcmp(IOBIND__API(runtime)->EpDevice_EpName(ep_device), ep_name) == 0) {
      return true;
    }
  }
  return false;
}

/* The name under which iobind has registered this file. "": the host program has, as the metadata of its devices shows. NULL:
 * it is not registered. ORT is not asked, because it would initialise the library a second time before it refuses it. */
static const char *registered_as(const iobind_runtime *runtime, const char *path) {
  for (size_t i = 0; i < runtime->ep_library_count; i++) {
    if (runtime->ep_libraries[i]->status == IOBIND_OK && same_file(runtime->ep_libraries[i]->path, path)) {
      return runtime->ep_libraries[i]->name;
    }
  }
  const OrtApi *api = IOBIND__API(runtime);
  for (size_t i = 0; i < runtime->device_count; i++) {
    const OrtKeyValuePairs *metadata = api->EpDevice_EpMetadata(runtime->devices[i]->ep_device);
    const char *from = metadata == NULL ? NULL : api->GetKeyValue(metadata, "library_path");
    if (from != NULL && same_file(from, path)) {
      return "";
    }
  }
  return NULL;
}

static void unregister(const iobind_runtime *runtime, const char *name) {
  const OrtApi *api = IOBIND__API(runtime);
  iobind__scope scope;
  iobind__guard_enter_anyway(iobind__guard_of_any(), &scope);
  OrtStatus *status = api->UnregisterExecutionProviderLibrary(runtime->env, name);
  iobind__guard_leave(&scope);
  if (status != NULL) {
    iobind_error reason = IOBIND_ERROR_INIT;
    (void)iobind__ort_fail(api, status, &reason, "unregister EP library '%s'", name);
    iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "iobind: %s", reason.message);
  }
}

/* Add the devices of the library that was recorded last. If that fails, it is recorded as one that does not load. */
static iobind_status add_devices_of_last(iobind_runtime *runtime, iobind_error *reason) {
  size_t before = runtime->device_count;
  iobind_status status = iobind__runtime_refresh_devices(runtime, reason);
  iobind__ep_library *library = runtime->ep_libraries[runtime->ep_library_count - 1];
  if (status == IOBIND_OK) {
    for (size_t i = before; i < runtime->device_count; i++) {
      runtime->devices[i]->ours = library->ours;
    }
    return IOBIND_OK;
  }
  if (library->ours) {
    unregister(runtime, library->name);
    iobind__ep_unclaim(runtime, library->path);
  }
  library->ours = false;
  library->status = status;
  char *message = iobind__string_copy(reason->message);
  if (message != NULL) {
    free(library->message);
    library->message = message;
  }
  return status;
}

/* Claim the file for this ORT, and let ORT load it. *ours: this call has registered it. */
static iobind_status load(iobind_runtime *runtime, const char *name, const char *path, bool *ours, iobind_error *reason) {
  const OrtApi *api = IOBIND__API(runtime);
  iobind__scope scope;
  *ours = false;
  iobind__path_char *native = iobind__path_native(path);
  if (native == NULL) {
    return no_memory(reason);
  }
  iobind_status status = iobind__ep_claim(runtime, path, reason);
  const iobind__ep *ep = iobind__ep_by_file(iobind__path_name(path));
  if (status == IOBIND_OK && ep != NULL && ep->bridged) {
    iobind__preload_for(path);
  }
  iobind__guard_enter_anyway(iobind__guard_of_any(), &scope);
  OrtStatus *refused = status == IOBIND_OK ? api->RegisterExecutionProviderLibrary(runtime->env, name, native) : NULL;
  iobind__guard_leave(&scope);
  free(native);
  if (refused != NULL) {
    iobind__ep_unclaim(runtime, path);
    if (iobind__ort_reason_of(api, refused) == IOBIND__ORT_REGISTERED) {
      api->ReleaseStatus(refused);
      return IOBIND_OK;
    }
    status = iobind__ort_fail(api, refused, reason, "ONNX Runtime");
    iobind__text_leave_out(reason->message, path);
  }
  *ours = status == IOBIND_OK;
  return status;
}

/* With the runtime's mutex held. */
static iobind_status register_locked(iobind_runtime *runtime, const char *name, const char *path, iobind_error *reason) {
  if (find_registered(runtime, name) != NULL) {
    return IOBIND_OK;
  }
  const char *other_name = registered_as(runtime, path);
  if (other_name != NULL) {
    /* a library that iobind registered already has an entry */
    const outcome theirs = {.status = IOBIND_OK, .message = "registered by the host program"};
    return other_name[0] != '\0' ? IOBIND_OK : remember(runtime, name, path, theirs, reason);
  }
  outcome how = {.message = ""};
  how.status = load(runtime, name, path, &how.ours, reason);
  if (how.status != IOBIND_OK) {
    how.message = reason->message;
    iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "iobind: EP library '%s' from '%s': %s", name, path, reason->message);
  }
  iobind_error not_kept = IOBIND_ERROR_INIT;
  if (remember(runtime, name, path, how, &not_kept) != IOBIND_OK) {
    if (how.ours) {
      unregister(runtime, name);
      iobind__ep_unclaim(runtime, path);
    }
    return iobind__error_copy(reason, &not_kept);
  }
  if (how.status != IOBIND_OK) {
    return how.status;
  }
  iobind__ep_claimed(runtime, path);
  return add_devices_of_last(runtime, reason);
}

/* `name` NULL: the catalogue's name for that file; if it has none, the file's name. */
static iobind_status register_file(iobind_runtime *runtime, const char *name, const char *path, iobind_error *reason) {
  if (!iobind__file_exists(path)) {
    return iobind__fail(reason, IOBIND_ERROR_NOT_FOUND, "no such file");
  }
  char *absolute = iobind__path_absolute(path); /* ORT takes a relative path as relative to its own directory */
  if (absolute == NULL) {
    return no_memory(reason);
  }
  const iobind__ep *ep = iobind__ep_by_file(iobind__path_name(path));
  const char *default_name = ep != NULL ? ep->name : iobind__path_name(path);
  pthread_mutex_lock(&runtime->mutex);
  iobind_status status = register_locked(runtime, name != NULL ? name : default_name, absolute, reason);
  pthread_mutex_unlock(&runtime->mutex);
  free(absolute);
  return status;
}

iobind_status iobind_runtime_register_ep(iobind_runtime *runtime, const char *name, const char *path, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "runtime_register_ep", error));
  IOBIND__TRY(iobind__null_check(path, "path", "runtime_register_ep", error));
  IOBIND__TRY(iobind__process_check("runtime_register_ep", error));
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status status = register_file(runtime, name, path, &reason);
  if (status != IOBIND_OK) {
    iobind__error_set(error, status, reason.ort_code, "runtime_register_ep: '%s': %s", path, reason.message);
  }
  return status;
}

iobind_status iobind_runtime_get_ep(const iobind_runtime *runtime, size_t index, iobind_ep_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "runtime_get_ep", error));
  iobind__runtime_lock(runtime);
  size_t count = runtime->ep_library_count;
  const iobind__ep_library *library = index < count ? runtime->ep_libraries[index] : NULL;
  iobind__runtime_unlock(runtime);
  if (library == NULL) {
    return iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "runtime_get_ep: expected an index below %zu, got %zu", count, index);
  }
  iobind_ep_info full = {
      .status = (int32_t)library->status, .name = library->name, .path = library->path, .message = library->message};
  return IOBIND__INFO_WRITE(info, &full, "runtime_get_ep", error);
}

/* Does the status belong to the library, which iobind or ORT may have refused? Otherwise the search itself has failed. */
static bool is_remembered(iobind_status status, const iobind_error *reason) {
  return status == IOBIND_OK || status == IOBIND_ERROR_NOT_SUPPORTED || reason->ort_code != 0;
}

/* Register a file that the search found. If it does not load, that is recorded, and the search goes on. If its EP is already
 * registered from another file, only that is recorded. */
static iobind_status register_found(iobind_runtime *runtime, const iobind__ep *ep, const char *path, iobind_error *reason) {
  pthread_mutex_lock(&runtime->mutex);
  iobind_status status = IOBIND_OK;
  if (find_registered(runtime, ep->name) == NULL && registered_as(runtime, path) == NULL &&
      has_devices_of(runtime, ep->ep_name)) {
    const outcome other = {.status = IOBIND_OK, .message = "its EP is registered from another file"};
    status = remember(runtime, ep->name, "", other, reason);
  } else {
    status = register_locked(runtime, ep->name, path, reason);
  }
  pthread_mutex_unlock(&runtime->mutex);
  return is_remembered(status, reason) ? IOBIND_OK : status;
}

/* Register the EP libraries in a directory, by the catalogue's file names; with `nested` also those in its subdirectories. */
static iobind_status register_directory(iobind_runtime *runtime, const char *directory, bool nested, iobind_error *reason) {
  char **names = NULL;
  if (!iobind__directory_list(directory, &names)) {
    return no_memory(reason);
  }
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; names != NULL && names[i] != NULL && status == IOBIND_OK; i++) {
    if (names[i][0] == '.') {
      continue;
    }
    iobind__text path = {0};
    iobind__text_add(&path, "%s/%s", directory, names[i]);
    const iobind__ep *ep = iobind__ep_by_file(names[i]);
    if (path.failed) {
      status = no_memory(reason);
    } else if (ep != NULL && !ep->on_demand && iobind__file_exists(path.data)) {
      status = register_found(runtime, ep, path.data, reason);
    } else if (nested && iobind__directory_exists(path.data)) {
      status = register_directory(runtime, path.data, false, reason);
    }
    iobind__text_free(&path);
  }
  iobind__directory_free(names);
  return status;
}

/* An entry is "FILE", "NAME=FILE" or a directory. */
static iobind_status register_entry(iobind_runtime *runtime, const char *entry, iobind_error *reason) {
  if (iobind__directory_exists(entry)) {
    return register_directory(runtime, entry, true, reason);
  }
  const char *equals = iobind__file_exists(entry) ? NULL : strchr(entry, '=');
  if (equals == NULL) {
    return register_file(runtime, NULL, entry, reason);
  }
  char name[64];
  size_t length = (size_t)(equals - entry);
  if (length == 0 || length >= sizeof name) {
    return iobind__fail(reason, IOBIND_ERROR_INVALID_ARGUMENT, "expected FILE, NAME=FILE or a directory");
  }
  memcpy(name, entry, length);
  name[length] = '\0';
  return register_file(runtime, name, equals + 1, reason);
}

iobind_status iobind__runtime_register_given(iobind_runtime *runtime, const char *const *entries, size_t count,
                                             iobind_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (entries[i] == NULL) {
      return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "runtime_create: ep_libraries[%zu] is NULL", i);
    }
    iobind_error reason = IOBIND_ERROR_INIT;
    iobind_status status = register_entry(runtime, entries[i], &reason);
    if (status != IOBIND_OK) {
      iobind__error_set(error, status, reason.ort_code, "runtime_create: EP library '%s': %s", entries[i], reason.message);
      return status;
    }
  }
  return IOBIND_OK;
}

/* If an entry of IOBIND_EP_LIBRARIES does not load, that is only recorded: the environment must not stop a program. */
static iobind_status register_environment(iobind_runtime *runtime, iobind_error *reason) {
  char *list = NULL;
  if (!iobind__environment_get("IOBIND_EP_LIBRARIES", &list)) {
    return no_memory(reason);
  }
  iobind_status status = IOBIND_OK;
  for (char *entry = list, *end; entry != NULL && status == IOBIND_OK; entry = end) {
    end = strchr(entry, IOBIND__PATH_SEPARATOR);
    if (end != NULL) {
      *end++ = '\0';
    }
    if (entry[0] == '\0') {
      continue;
    }
    iobind_error refused = IOBIND_ERROR_INIT;
    iobind_status registered = register_entry(runtime, entry, &refused);
    if (is_remembered(registered, &refused)) {
      continue;
    }
    if (registered == IOBIND_ERROR_OUT_OF_MEMORY) {
      status = iobind__error_copy(reason, &refused);
    } else {
      iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "iobind: IOBIND_EP_LIBRARIES: '%s': %s", entry, refused.message);
      const outcome how = {.status = registered, .message = refused.message};
      pthread_mutex_lock(&runtime->mutex);
      status = remember(runtime, entry, entry, how, reason);
      pthread_mutex_unlock(&runtime->mutex);
    }
  }
  free(list);
  return status;
}

/* Search the directory of libiobind, the runtime directory and the directory of ORT. */
static iobind_status register_directories(iobind_runtime *runtime, iobind_error *reason) {
  iobind_status status = IOBIND_OK;
  static const char *const below_own[] = {"", "/iobind/ep", "/../lib/iobind/ep"};
  char *own = iobind__library_own_directory();
  for (size_t i = 0; own != NULL && i < sizeof below_own / sizeof below_own[0] && status == IOBIND_OK; i++) {
    iobind__text directory = {0};
    iobind__text_add(&directory, "%s%s", own, below_own[i]);
    status =
        directory.failed ? no_memory(reason) : register_directory(runtime, directory.data, below_own[i][0] != '\0', reason);
    iobind__text_free(&directory);
  }
  free(own);
  /* ORT's GPU package contains its EP library */
  char *slash = status == IOBIND_OK ? strrchr(runtime->ort.path, '/') : NULL;
  if (slash != NULL) {
    *slash = '\0';
    status = register_directory(runtime, runtime->ort.path, false, reason);
    *slash = '/';
  }
  return status;
}

iobind_status iobind__runtime_search_eps(iobind_runtime *runtime, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status status = register_environment(runtime, &reason);
  if (status == IOBIND_OK) {
    status = register_directories(runtime, &reason);
  }
  if (status != IOBIND_OK) {
    iobind__error_set(error, status, reason.ort_code, "runtime_create: EP libraries: %s", reason.message);
  }
  return status;
}

/* Relative to the directory of libiobind, or of the program that it is linked into. */
static const char *const library_directories[] = {"", "/../lib"};

static iobind_status demand_in(iobind_runtime *runtime, const iobind__ep *ep, const char *directory, const char *below,
                               iobind_error *reason) {
  iobind_status status = IOBIND_OK;
  iobind__text path = {0};
  iobind__text_add(&path, "%s%s/" IOBIND__LIBRARY_PREFIX "%s" IOBIND__LIBRARY_SUFFIX, directory, below, ep->library);
  if (path.failed) {
    status = no_memory(reason);
  } else if (iobind__file_exists(path.data)) {
    status = register_found(runtime, ep, path.data, reason);
  }
  iobind__text_free(&path);
  return status;
}

/* Search the directories that IOBIND_EP_LIBRARIES names; the files that it names are already registered. */
static iobind_status demand_in_environment(iobind_runtime *runtime, const iobind__ep *ep, iobind_error *reason) {
  char *list = NULL;
  if (!iobind__environment_get("IOBIND_EP_LIBRARIES", &list)) {
    return no_memory(reason);
  }
  iobind_status status = IOBIND_OK;
  for (char *entry = list, *end; entry != NULL && status == IOBIND_OK; entry = end) {
    end = strchr(entry, IOBIND__PATH_SEPARATOR);
    if (end != NULL) {
      *end++ = '\0';
    }
    if (entry[0] != '\0' && iobind__directory_exists(entry)) {
      status = demand_in(runtime, ep, entry, "", reason);
    }
  }
  free(list);
  return status;
}

iobind_status iobind__runtime_demand_ep(iobind_runtime *runtime, const iobind__ep *ep, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status status = demand_in_environment(runtime, ep, &reason);
  char *own = iobind__library_own_directory();
  for (size_t i = 0; own != NULL && i < sizeof library_directories / sizeof library_directories[0] && status == IOBIND_OK;
       i++) {
    status = demand_in(runtime, ep, own, library_directories[i], &reason);
  }
  free(own);
  if (status != IOBIND_OK) {
    iobind__error_set(error, status, reason.ort_code, "runtime_find_device: %s: %s", ep->name, reason.message);
  }
  return status;
}

void iobind__runtime_free_eps(iobind_runtime *runtime) {
  /* in reverse order: an EP may depend on one that was registered before it */
  for (size_t i = runtime->ep_library_count; i-- > 0;) {
    iobind__ep_library *library = runtime->ep_libraries[i];
    if (library->ours && library->status == IOBIND_OK && !runtime->keeps_ort) {
      unregister(runtime, library->name);
    }
    library_free(library);
  }
  free(runtime->ep_libraries);
  iobind__ep_unclaim_all(runtime);
}
