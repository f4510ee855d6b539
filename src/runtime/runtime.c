#define _POSIX_C_SOURCE 200809L /* recursive mutexes */
#include "runtime/runtime.h"

#include <stdlib.h>

#include "ep/ranges.h"
#include "iobind/interop.h"
#include "support/options.h"
#include "support/system.h"

static iobind_runtime *all_runtimes;
static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_changed = PTHREAD_COND_INITIALIZER; /* a runtime left the list */

static void runtime_free(iobind_runtime *runtime) {
  const OrtApi *api = runtime->ort.api;
  iobind__scope scope;
  iobind__runtime_free_devices(runtime);
  iobind__guard_enter_anyway(iobind__guard_of_any(), &scope);
  iobind__runtime_free_eps(runtime);
  if (runtime->cpu_info != NULL) {
    api->ReleaseMemoryInfo(runtime->cpu_info);
  }
  if (runtime->env != NULL && !runtime->keeps_ort) {
    api->ReleaseEnv(runtime->env);
  }
  iobind__guard_leave(&scope);
  iobind__log_close(runtime->log);
  iobind__ort_free(&runtime->ort);
  pthread_mutex_destroy(&runtime->mutex);
  pthread_mutex_destroy(&runtime->uses_mutex);
  pthread_mutex_destroy(&runtime->serial_mutex);
  free(runtime);
}

static void runtime_destroy(iobind__ref *ref) {
  iobind_runtime *runtime = (iobind_runtime *)ref;
  pthread_mutex_lock(&all_mutex);
  iobind_runtime **link = &all_runtimes;
  while (*link != runtime) {
    link = &(*link)->next;
  }
  *link = runtime->next;
  /* with the lock held: the next runtime of the same ORT must be created after its environment is released */
  runtime_free(runtime);
  pthread_cond_broadcast(&all_changed);
  pthread_mutex_unlock(&all_mutex);
}

/* The runtime of this ORT, with a reference for the caller; NULL if there is none. Blocks while one is being destroyed. With
 * all_mutex held. */
static iobind_runtime *find_existing(const OrtApi *api) {
  iobind_runtime *runtime = all_runtimes;
  while (runtime != NULL) {
    if (runtime->ort.api != api) {
      runtime = runtime->next;
    } else if (iobind__ref_try_retain(&runtime->ref)) {
      return runtime;
    } else {
      pthread_cond_wait(&all_changed, &all_mutex);
      runtime = all_runtimes;
    }
  }
  return NULL;
}

static iobind_status open_environment(iobind_runtime *runtime, const iobind_runtime_options *options, iobind_error *error) {
  const OrtApi *api = IOBIND__API(runtime);
  runtime->log = iobind__log_create(api, options->log, options->log_context, options->log_level);
  if (runtime->log == NULL) {
    return iobind__out_of_memory(error, "runtime_create");
  }
  const char *refused = iobind__ranges_open();
  if (refused != NULL) {
    iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "%s", refused);
  }
  /* without a callback ORT should log as little as possible: errors are returned as statuses, too */
  OrtLoggingLevel level = options->log == NULL ? ORT_LOGGING_LEVEL_ERROR : iobind__log_ort_level(options->log_level);
  IOBIND__ORT_TRY(api, api->CreateEnvWithCustomLogger(iobind__log_from_ort, runtime->log, level, "iobind", &runtime->env),
                  error, "runtime_create: environment");
  IOBIND__ORT_TRY(api,
                  api->CreateMemoryInfo_V2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                           OrtDeviceAllocator, &runtime->cpu_info),
                  error, "runtime_create: host memory");
  IOBIND__ORT_TRY(api, api->GetAllocatorWithDefaultOptions(&runtime->cpu_allocator), error, "runtime_create: host memory");
  return IOBIND_OK;
}

static void init_mutexes(iobind_runtime *runtime) {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&runtime->serial_mutex, &recursive);
  pthread_mutexattr_destroy(&recursive);
  pthread_mutex_init(&runtime->mutex, NULL);
  pthread_mutex_init(&runtime->uses_mutex, NULL);
}

static iobind_status build(const iobind_runtime_options *options, iobind__ort *ort, iobind_runtime **out, iobind_error *error) {
  iobind_runtime *runtime = calloc(1, sizeof *runtime);
  if (runtime == NULL) {
    iobind__ort_free(ort);
    return iobind__out_of_memory(error, "runtime_create");
  }
  iobind__ref_init(&runtime->ref, runtime_destroy);
  init_mutexes(runtime);
  runtime->ort = *ort;
  runtime->pools = (options->flags & IOBIND_RUNTIME_POOLS) != 0;
  iobind_status status = open_environment(runtime, options, error);
  if (status == IOBIND_OK) {
    if ((options->flags & IOBIND_RUNTIME_SOFTWARE_DEVICES) != 0) {
      iobind__software_devices_enable(runtime);
    }
    pthread_mutex_lock(&runtime->mutex);
    iobind_error reason = IOBIND_ERROR_INIT;
    status = iobind__runtime_refresh_devices(runtime, &reason);
    pthread_mutex_unlock(&runtime->mutex);
    if (status != IOBIND_OK) {
      iobind__error_set(error, status, reason.ort_code, "runtime_create: %s", reason.message);
    }
  }
  if (status == IOBIND_OK) {
    status = iobind__runtime_register_given(runtime, options->ep_libraries, options->ep_library_count, error);
  }
  if (status == IOBIND_OK && (options->flags & IOBIND_RUNTIME_NO_EP_SEARCH) == 0) {
    status = iobind__runtime_search_eps(runtime, error);
  }
  if (status != IOBIND_OK) {
    runtime_free(runtime);
    return status;
  }
  *out = runtime;
  return IOBIND_OK;
}

static iobind_status check_options(const iobind_runtime_options *options, iobind_error *error) {
  IOBIND__TRY(iobind__flags_check(options->flags,
                                  IOBIND_RUNTIME_TELEMETRY | IOBIND_RUNTIME_NO_EP_SEARCH | IOBIND_RUNTIME_SOFTWARE_DEVICES |
                                      IOBIND_RUNTIME_POOLS,
                                  "runtime_create", error));
  if (options->log_level < IOBIND_LOG_DEFAULT || options->log_level > IOBIND_LOG_ERROR) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "runtime_create: log_level: expected 0 .. %d, got %d",
                        IOBIND_LOG_ERROR, options->log_level);
  }
  if (options->ep_library_count > 0 && options->ep_libraries == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "runtime_create: ep_libraries is NULL, ep_library_count is %zu",
                        options->ep_library_count);
  }
  return IOBIND_OK;
}

/* Called in a child of fork. A runtime that another thread was creating counts. */
static bool has_runtimes(void) {
  if (pthread_mutex_trylock(&all_mutex) != 0) {
    return true;
  }
  bool has = all_runtimes != NULL;
  pthread_mutex_unlock(&all_mutex);
  return has;
}

/* The runtime of an ORT that is already in use, with a reference for the caller, or a new one. With all_mutex held. */
static iobind_status find_or_build(const iobind_runtime_options *options, bool *existing, iobind_runtime **out,
                                   iobind_error *error) {
  iobind__ort ort;
  if ((options->flags & IOBIND_RUNTIME_TELEMETRY) == 0) {
    iobind__environment_default("ORT_DISABLE_TELEMETRY", "1");
  }
  IOBIND__TRY(iobind__ort_find(options->ort_library, options->ort_api_base, options->ort_api, &ort, error));
  *out = find_existing(ort.api);
  *existing = *out != NULL;
  if (*existing) {
    iobind__ort_free(&ort);
    return IOBIND_OK;
  }
  IOBIND__TRY(build(options, &ort, out, error));
  (*out)->next = all_runtimes;
  all_runtimes = *out;
  return IOBIND_OK;
}

/* Add a user of an existing runtime. Its devices may already have memory, so their allocators cannot change. */
static iobind_status join(iobind_runtime *runtime, const iobind_runtime_options *options, iobind_error *error) {
  if ((options->flags & IOBIND_RUNTIME_POOLS) != 0 && !runtime->pools) {
    return iobind__fail(
        error, IOBIND_ERROR_INVALID_STATE,
        "runtime_create: this ONNX Runtime is in use without IOBIND_RUNTIME_POOLS: expected it in the first call");
  }
  return iobind__runtime_register_given(runtime, options->ep_libraries, options->ep_library_count, error);
}

iobind_status iobind_runtime_create(const iobind_runtime_options *given, iobind_runtime **out, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(out, "runtime", "runtime_create", error));
  *out = NULL;
  iobind_runtime_options options;
  IOBIND__TRY(IOBIND__OPTIONS_READ(&options, given, "runtime_create", error));
  IOBIND__TRY(check_options(&options, error));
  IOBIND__TRY(iobind__process_check("runtime_create", error));
  iobind__process_watch(has_runtimes);
  iobind__library_stay(); /* ORT may call the log, and fork the child handler, until the process ends */
  iobind_runtime *runtime = NULL;
  bool existing = false;
  pthread_mutex_lock(&all_mutex);
  iobind_status status = find_or_build(&options, &existing, &runtime, error);
  pthread_mutex_unlock(&all_mutex);
  if (status == IOBIND_OK && existing) {
    status = join(runtime, &options, error);
    if (status != IOBIND_OK) {
      iobind__ref_release(&runtime->ref);
    }
  }
  if (status == IOBIND_OK) {
    *out = runtime;
  }
  return status;
}

void iobind_runtime_destroy(iobind_runtime *runtime) {
  if (runtime != NULL) {
    iobind__ref_release(&runtime->ref);
  }
}

iobind_status iobind_runtime_get_info(const iobind_runtime *runtime, iobind_runtime_info *info, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "runtime_get_info", error));
  iobind__runtime_lock(runtime);
  iobind_runtime_info full = {.ort_api_version = runtime->ort.api_version,
                              .ort_version = runtime->ort.version,
                              .ort_library = runtime->ort.path,
                              .found_by = runtime->ort.found_by,
                              .device_count = runtime->device_count,
                              .ep_count = runtime->ep_library_count};
  iobind__runtime_unlock(runtime);
  return IOBIND__INFO_WRITE(info, &full, "runtime_get_info", error);
}

iobind_status iobind_runtime_get_ort(const iobind_runtime *runtime, iobind_ort *ort, iobind_error *error) {
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "runtime_get_ort", error));
  iobind_ort full = {.api_version = runtime->ort.api_version, .api = runtime->ort.api, .env = runtime->env};
  return IOBIND__INFO_WRITE(ort, &full, "runtime_get_ort", error);
}
