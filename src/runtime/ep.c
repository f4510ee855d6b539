/* EP libraries: registering them and looking for them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "support/options.h"
#include "support/system.h"

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

/* Remember what became of a library: once for each name and file. With the runtime's mutex held. */
static iobind_status remember(iobind_runtime *runtime, const char *name, const char *path, iobind_status status, bool ours,
                              const char *message, iobind_error *error) {
  iobind__ep_library *known = find_library(runtime, name, path);
  if (known != NULL && known->status == status) {
    return IOBIND_OK;
  }
  iobind__ep_library **list = realloc(runtime->ep_libraries, (runtime->ep_library_count + 1) * sizeof *runtime->ep_libraries);
  if (list == NULL) {
    return iobind__out_of_memory(error, "runtime_register_ep");
  }
  runtime->ep_libraries = list;
  iobind__ep_library *library = calloc(1, sizeof *library);
  if (library != NULL) {
    *library =
        (iobind__ep_library){iobind__string_copy(name), iobind__string_copy(path), iobind__string_copy(message), status, ours};
  }
  if (library == NULL || library->name == NULL || library->path == NULL || library->message == NULL) {
    library_free(library);
    return iobind__out_of_memory(error, "runtime_register_ep");
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

/* EP libraries that this process has registered, for each copy of ORT. A second copy that registers one as well breaks the
 * first one's devices: a library has one set of its own globals. */
typedef struct claim {
  char *path; /* resolved */
  const OrtApi *api;
  struct claim *next;
} claim;
static claim *claims;
static pthread_mutex_t claims_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Claim a file for this ORT. NOT_SUPPORTED: another copy has it. */
static iobind_status claim_file(iobind_runtime *runtime, const char *path, iobind_error *error) {
  char *resolved = iobind__file_resolve(path);
  claim *one = resolved == NULL ? NULL : malloc(sizeof *one);
  if (one == NULL) {
    free(resolved);
    return iobind__out_of_memory(error, "runtime_register_ep");
  }
  iobind_status status = IOBIND_OK;
  pthread_mutex_lock(&claims_mutex);
  for (const claim *other = claims; other != NULL && status == IOBIND_OK; other = other->next) {
    if (other->api != IOBIND__API(runtime) && strcmp(other->path, resolved) == 0) {
      status = iobind__fail(error, IOBIND_NOT_SUPPORTED,
                            "runtime_register_ep: '%s' is in use by another copy of ONNX Runtime in this process", path);
    }
  }
  if (status == IOBIND_OK) {
    *one = (claim){resolved, IOBIND__API(runtime), claims};
    claims = one;
  }
  pthread_mutex_unlock(&claims_mutex);
  if (status != IOBIND_OK) {
    free(resolved);
    free(one);
  }
  return status;
}

/* Give up the newest claim of this ORT. */
static void unclaim_last(const iobind_runtime *runtime) {
  pthread_mutex_lock(&claims_mutex);
  for (claim **link = &claims; *link != NULL; link = &(*link)->next) {
    claim *one = *link;
    if (one->api == IOBIND__API(runtime)) {
      *link = one->next;
      free(one->path);
      free(one);
      break;
    }
  }
  pthread_mutex_unlock(&claims_mutex);
}

static void unclaim_files(const iobind_runtime *runtime) {
  pthread_mutex_lock(&claims_mutex);
  for (claim **link = &claims; *link != NULL;) {
    claim *one = *link;
    if (one->api == IOBIND__API(runtime)) {
      *link = one->next;
      free(one->path);
      free(one);
    } else {
      link = &one->next;
    }
  }
  pthread_mutex_unlock(&claims_mutex);
}

/* The name under which this file is registered: by us, or by the host program (a device of it says which file it is from);
 * NULL where it is not. ORT must not be asked: it runs the library's start again before it says so. */
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
  OrtStatus *status = api->UnregisterExecutionProviderLibrary(runtime->env, name);
  if (status != NULL) {
    iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "iobind: unregister EP library '%s': %s", name,
                     api->GetErrorMessage(status));
    api->ReleaseStatus(status);
  }
}

/* Add the devices of the library that was remembered last. Where that fails, it is remembered as one that does not load. */
static iobind_status add_devices_of_last(iobind_runtime *runtime, iobind_error *error) {
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status status = iobind__runtime_refresh_devices(runtime, &reason);
  if (status == IOBIND_OK) {
    return IOBIND_OK;
  }
  iobind__ep_library *library = runtime->ep_libraries[runtime->ep_library_count - 1];
  if (library->ours) {
    unregister(runtime, library->name);
    unclaim_last(runtime);
  }
  library->ours = false;
  library->status = status;
  char *message = iobind__string_copy(reason.message);
  if (message != NULL) {
    free(library->message);
    library->message = message;
  }
  return iobind__error_copy(error, &reason);
}

/* With the runtime's mutex held. */
static iobind_status register_locked(iobind_runtime *runtime, const char *name, const char *path, iobind_error *error) {
  if (find_registered(runtime, name) != NULL) {
    return IOBIND_OK;
  }
  const char *other_name = registered_as(runtime, path);
  if (other_name != NULL) {
    /* the host's is listed, ours is already */
    return other_name[0] != '\0' ? IOBIND_OK
                                 : remember(runtime, name, path, IOBIND_OK, false, "registered by the host program", error);
  }
  iobind__path_char *native = iobind__path_native(path);
  if (native == NULL) {
    return iobind__out_of_memory(error, "runtime_register_ep");
  }
  const OrtApi *api = IOBIND__API(runtime);
  iobind_error reason = IOBIND_ERROR_INIT;
  bool ours = true;
  iobind_status status = claim_file(runtime, path, &reason);
  OrtStatus *ort_status = status == IOBIND_OK ? api->RegisterExecutionProviderLibrary(runtime->env, name, native) : NULL;
  free(native);
  if (ort_status != NULL) {
    ours = false;
    unclaim_last(runtime);
    if (iobind__ort_reason_of(api, ort_status) != IOBIND__ORT_REGISTERED) {
      status = iobind__ort_fail(api, ort_status, &reason, "register_ep: '%s' from '%s'", name, path);
    } else {
      api->ReleaseStatus(ort_status);
    }
  }
  if (status != IOBIND_OK) {
    iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "iobind: %s", reason.message);
  }
  iobind_status kept = remember(runtime, name, path, status, ours && status == IOBIND_OK, reason.message, error);
  if (kept != IOBIND_OK) {
    if (ours && status == IOBIND_OK) {
      unregister(runtime, name);
      unclaim_last(runtime);
    }
    return kept;
  }
  if (status != IOBIND_OK) {
    return iobind__error_copy(error, &reason);
  }
  return add_devices_of_last(runtime, error);
}

iobind_status iobind_runtime_register_ep(iobind_runtime *runtime, const char *name, const char *path, iobind_error *error) {
  if (runtime == NULL || path == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "runtime_register_ep: %s is NULL",
                        runtime == NULL ? "runtime" : "path");
  }
  if (!iobind__file_exists(path)) {
    return iobind__fail(error, IOBIND_NOT_FOUND, "runtime_register_ep: '%s': no such file", path);
  }
  const iobind__ep *ep = iobind__ep_by_file(iobind__path_name(path));
  pthread_mutex_lock(&runtime->mutex);
  iobind_status status = register_locked(runtime,
                                         name != NULL ? name
                                         : ep != NULL ? ep->name
                                                      : iobind__path_name(path),
                                         path, error);
  pthread_mutex_unlock(&runtime->mutex);
  return status;
}

iobind_status iobind_runtime_get_ep(const iobind_runtime *runtime, size_t index, iobind_ep_info *info, iobind_error *error) {
  if (runtime == NULL) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "runtime_get_ep: runtime is NULL");
  }
  iobind_runtime *mutable_runtime = (iobind_runtime *)(uintptr_t)runtime; /* its lock is not part of what is const */
  pthread_mutex_lock(&mutable_runtime->mutex);
  size_t count = runtime->ep_library_count;
  const iobind__ep_library *library = index < count ? runtime->ep_libraries[index] : NULL;
  pthread_mutex_unlock(&mutable_runtime->mutex);
  if (library == NULL) {
    return iobind__fail(error, IOBIND_NOT_FOUND, "runtime_get_ep: expected an index below %zu, got %zu", count, index);
  }
  iobind_ep_info full = {
      .status = (int32_t)library->status, .name = library->name, .path = library->path, .message = library->message};
  return iobind__info_write(info, "info", &full, sizeof full, sizeof full, "runtime_get_ep", error);
}

/* Register a file that the search found. A library that does not load is remembered, not an error; one whose EP is there
 * already is left alone. */
static iobind_status register_found(iobind_runtime *runtime, const iobind__ep *ep, const char *path, iobind_error *error) {
  pthread_mutex_lock(&runtime->mutex);
  iobind_error reason = IOBIND_ERROR_INIT;
  iobind_status status = IOBIND_OK;
  if (find_registered(runtime, ep->name) == NULL && registered_as(runtime, path) == NULL &&
      has_devices_of(runtime, ep->ep_name)) {
    status = remember(runtime, ep->name, "", IOBIND_OK, false, "its EP is registered from another file", &reason);
  } else {
    status = register_locked(runtime, ep->name, path, &reason);
  }
  pthread_mutex_unlock(&runtime->mutex);
  if (status == IOBIND_OK || status == IOBIND_RUNTIME || status == IOBIND_NOT_SUPPORTED) {
    return IOBIND_OK;
  }
  return iobind__error_copy(error, &reason);
}

/* Register the EP libraries that a folder holds, or that folders inside it hold, by the file names of the catalogue. */
static iobind_status register_folder(iobind_runtime *runtime, const char *folder, bool nested, iobind_error *error) {
  char **names = NULL;
  if (!iobind__folder_list(folder, &names)) {
    return iobind__out_of_memory(error, "runtime_create");
  }
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; names != NULL && names[i] != NULL && status == IOBIND_OK; i++) {
    if (names[i][0] == '.') {
      continue;
    }
    iobind__text path = {0};
    iobind__text_add(&path, "%s/%s", folder, names[i]);
    const iobind__ep *ep = iobind__ep_by_file(names[i]);
    if (path.failed) {
      status = iobind__out_of_memory(error, "runtime_create");
    } else if (ep != NULL && !ep->on_demand && iobind__file_exists(path.data)) {
      status = register_found(runtime, ep, path.data, error);
    } else if (nested && iobind__folder_exists(path.data)) {
      status = register_folder(runtime, path.data, false, error);
    }
    iobind__text_free(&path);
  }
  iobind__folder_free(names);
  return status;
}

/* One entry: "FILE", "NAME=FILE" or a folder. */
static iobind_status register_entry(iobind_runtime *runtime, const char *entry, iobind_error *error) {
  if (iobind__folder_exists(entry)) {
    return register_folder(runtime, entry, true, error);
  }
  const char *equals = iobind__file_exists(entry) ? NULL : strchr(entry, '=');
  if (equals == NULL) {
    return iobind_runtime_register_ep(runtime, NULL, entry, error);
  }
  char name[64];
  size_t length = (size_t)(equals - entry);
  if (length == 0 || length >= sizeof name) {
    return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "runtime_create: EP library '%s': expected FILE, NAME=FILE or a folder",
                        entry);
  }
  memcpy(name, entry, length);
  name[length] = '\0';
  return iobind_runtime_register_ep(runtime, name, equals + 1, error);
}

iobind_status iobind__runtime_register_given(iobind_runtime *runtime, const char *const *entries, size_t count,
                                             iobind_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (entries[i] == NULL) {
      return iobind__fail(error, IOBIND_INVALID_ARGUMENT, "runtime_create: ep_libraries[%zu] is NULL", i);
    }
    IOBIND__TRY(register_entry(runtime, entries[i], error));
  }
  return IOBIND_OK;
}

/* What IOBIND_EP_LIBRARIES names but does not load is remembered, so that a program is not stopped by its environment. */
static iobind_status register_environment(iobind_runtime *runtime, iobind_error *error) {
  char *list = NULL;
  if (!iobind__environment_get("IOBIND_EP_LIBRARIES", &list)) {
    return iobind__out_of_memory(error, "runtime_create");
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
    iobind_error reason = IOBIND_ERROR_INIT;
    iobind_status registered = register_entry(runtime, entry, &reason);
    if (registered == IOBIND_OUT_OF_MEMORY) {
      status = iobind__out_of_memory(error, "runtime_create");
    } else if (registered != IOBIND_OK && registered != IOBIND_RUNTIME && registered != IOBIND_NOT_SUPPORTED) {
      /* a library that ORT refused is remembered already */
      iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "iobind: IOBIND_EP_LIBRARIES: %s", reason.message);
      pthread_mutex_lock(&runtime->mutex);
      status = remember(runtime, entry, entry, registered, false, reason.message, error);
      pthread_mutex_unlock(&runtime->mutex);
    }
  }
  free(list);
  return status;
}

iobind_status iobind__runtime_search_eps(iobind_runtime *runtime, iobind_error *error) {
  IOBIND__TRY(register_environment(runtime, error));
  iobind_status status = IOBIND_OK;
  static const char *const below_own[] = {"", "/iobind/ep", "/../lib/iobind/ep"};
  char *own = iobind__library_own_folder();
  for (size_t i = 0; own != NULL && i < sizeof below_own / sizeof below_own[0] && status == IOBIND_OK; i++) {
    iobind__text folder = {0};
    iobind__text_add(&folder, "%s%s", own, below_own[i]);
    status = folder.failed ? iobind__out_of_memory(error, "runtime_create")
                           : register_folder(runtime, folder.data, below_own[i][0] != '\0', error);
    iobind__text_free(&folder);
  }
  free(own);
  /* ORT's GPU package brings its EP library along */
  char *slash = status == IOBIND_OK ? strrchr(runtime->ort.path, '/') : NULL;
  if (slash != NULL) {
    *slash = '\0';
    status = register_folder(runtime, runtime->ort.path, false, error);
    *slash = '/';
  }
  return status;
}

/* Where the files of an installation lie: beside libiobind, or beside the program's folder of libraries. */
static const char *const library_folders[] = {"", "/../lib"};

iobind_status iobind__runtime_demand_ep(iobind_runtime *runtime, const iobind__ep *ep, iobind_error *error) {
  iobind_status status = IOBIND_OK;
  char *own = iobind__library_own_folder();
  for (size_t i = 0; own != NULL && i < sizeof library_folders / sizeof library_folders[0] && status == IOBIND_OK; i++) {
    iobind__text path = {0};
    iobind__text_add(&path, "%s%s/" IOBIND__LIBRARY_PREFIX "%s" IOBIND__LIBRARY_SUFFIX, own, library_folders[i], ep->library);
    if (path.failed) {
      status = iobind__out_of_memory(error, "find_device");
    } else if (iobind__file_exists(path.data)) {
      status = register_found(runtime, ep, path.data, error);
    }
    iobind__text_free(&path);
  }
  free(own);
  return status;
}

void iobind__runtime_free_eps(iobind_runtime *runtime) {
  /* the last registered goes first: an EP may build on one registered before it */
  for (size_t i = runtime->ep_library_count; i-- > 0;) {
    iobind__ep_library *library = runtime->ep_libraries[i];
    if (library->ours && library->status == IOBIND_OK) {
      unregister(runtime, library->name);
    }
    library_free(library);
  }
  free(runtime->ep_libraries);
  unclaim_files(runtime);
}
