#include "runtime/claim.h"

#include <stdlib.h>
#include <string.h>

#include "support/system.h"

/* ORT's table has more functions than this; no other table in a library has nearly as many. */
enum { LEAST_FUNCTIONS = 200, MOST_TABLES = 8 };

typedef struct claim {
  char *path; /* resolved */
  const OrtApi *api;
  struct claim *next;
} claim;
static claim *claims;

/* Tables outside ORT's own library. EP libraries get them from a library that forwards calls to ORT. */
enum { MOST_FORWARDERS = 16 };
static struct {
  const void *table;
  const OrtApi *api;
} forwarded[MOST_FORWARDERS];
static size_t forwarded_count;

static pthread_mutex_t claims_mutex = PTHREAD_MUTEX_INITIALIZER;

static const void *address_in(const OrtApi *api) {
  const void *address;
  memcpy(&address, &api->GetErrorCode, sizeof address);
  return address;
}

/* With the mutex held. */
static bool is_ours(const OrtApi *api, const void *table) {
  for (size_t i = 0; i < forwarded_count; i++) {
    if (forwarded[i].table == table && forwarded[i].api == api) {
      return true;
    }
  }
  return iobind__library_same(table, address_in(api));
}

/* A loaded EP library stores the table of the ORT that registered it, even if the host program did that. */
static bool serves_another(const OrtApi *api, const char *path) {
  const void *tables[MOST_TABLES];
  size_t count = iobind__library_tables(path, LEAST_FUNCTIONS, tables, MOST_TABLES);
  for (size_t i = 0; i < count; i++) {
    if (!is_ours(api, tables[i])) {
      return true;
    }
  }
  return false;
}

/* Libraries such as CUDA's store no table. They ask libonnxruntime_providers_shared for their host, an object of ORT. Like any
 * C++ object with virtual functions it begins with the address of its function table, which is in ORT's library. All libraries
 * in the process get the same host. */
static bool host_is_another(const OrtApi *api, const char *path) {
  const iobind__ep *ep = iobind__ep_by_file(iobind__path_name(path));
  void *symbol = ep != NULL && ep->bridged ? iobind__symbol_of_any("Provider_GetHost") : NULL;
  if (symbol == NULL) {
    return false;
  }
  const void *const *(*get_host)(void);
  memcpy(&get_host, &symbol, sizeof get_host);
  const void *const *host = get_host();
  return host != NULL && !iobind__library_same(*host, address_in(api));
}

iobind_status iobind__ep_claim(const iobind_runtime *runtime, const char *path, iobind_error *reason) {
  const OrtApi *api = IOBIND__API(runtime);
  char *resolved = iobind__file_resolve(path);
  claim *one = resolved == NULL ? NULL : malloc(sizeof *one);
  if (one == NULL) {
    free(resolved);
    return iobind__fail(reason, IOBIND_ERROR_OUT_OF_MEMORY, "out of host memory");
  }
  pthread_mutex_lock(&claims_mutex);
  bool taken = serves_another(api, resolved) || host_is_another(api, resolved);
  for (const claim *other = claims; other != NULL && !taken; other = other->next) {
    taken = other->api != api && strcmp(other->path, resolved) == 0;
  }
  if (!taken) {
    *one = (claim){resolved, api, claims};
    claims = one;
  }
  pthread_mutex_unlock(&claims_mutex);
  if (!taken) {
    return IOBIND_OK;
  }
  free(resolved);
  free(one);
  return iobind__fail(reason, IOBIND_ERROR_NOT_SUPPORTED,
                      "it is in use by another copy of ONNX Runtime in this process, and serves only one: attach to that copy "
                      "(ort_api_base), or use another file");
}

void iobind__ep_claimed(const iobind_runtime *runtime, const char *path) {
  const OrtApi *api = IOBIND__API(runtime);
  const void *tables[MOST_TABLES];
  pthread_mutex_lock(&claims_mutex);
  size_t count = iobind__library_tables(path, LEAST_FUNCTIONS, tables, MOST_TABLES);
  for (size_t i = 0; i < count; i++) {
    if (!is_ours(api, tables[i]) && forwarded_count < MOST_FORWARDERS) {
      forwarded[forwarded_count].table = tables[i];
      forwarded[forwarded_count++].api = api;
    }
  }
  pthread_mutex_unlock(&claims_mutex);
}

/* Remove this ORT's claim on one file, or on all (NULL). */
static void unclaim(const OrtApi *api, const char *resolved) {
  pthread_mutex_lock(&claims_mutex);
  for (claim **link = &claims; *link != NULL;) {
    claim *one = *link;
    if (one->api == api && (resolved == NULL || strcmp(one->path, resolved) == 0)) {
      *link = one->next;
      free(one->path);
      free(one);
    } else {
      link = &one->next;
    }
  }
  pthread_mutex_unlock(&claims_mutex);
}

void iobind__ep_unclaim(const iobind_runtime *runtime, const char *path) {
  char *resolved = iobind__file_resolve(path);
  if (resolved != NULL) {
    unclaim(IOBIND__API(runtime), resolved);
  }
  free(resolved);
}

void iobind__ep_unclaim_all(const iobind_runtime *runtime) {
  unclaim(IOBIND__API(runtime), NULL);
}
