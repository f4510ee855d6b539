#include <stdlib.h>
#include <string.h>

#include "ort/api.h"
#include "support/system.h"
#include "support/text.h"

#define LIBRARY_NAME IOBIND__LIBRARY_PREFIX "onnxruntime" IOBIND__LIBRARY_SUFFIX
#if defined(__APPLE__) || defined(_WIN32)
static const char *const loader_names[] = {LIBRARY_NAME};
#else
/* the SONAME first: a loaded copy has this name */
static const char *const loader_names[] = {LIBRARY_NAME ".1", LIBRARY_NAME};
#endif
enum { LOADER_NAME_COUNT = sizeof loader_names / sizeof loader_names[0] };

/* ORT's releases need glibc. musl defines no macro, so it is recognised by the lack of glibc's. */
#if defined(__linux__) && !defined(__GLIBC__)
#define OTHER_LIBC \
  ": this libiobind is built for musl and cannot load ORT's releases, which need glibc; expected an ORT built for musl"
#else
#define OTHER_LIBC ""
#endif

/* The build may name a file or a directory where a distribution has ORT. */
#if defined(IOBIND_ORT_LIBRARY)
static const char built_in_path[] = IOBIND_ORT_LIBRARY;
#else
static const char built_in_path[] = "";
#endif

/* Read one number of a version, and advance the text. */
static bool read_number(const char **text, unsigned *number) {
  *number = 0;
  const char *start = *text;
  for (; **text >= '0' && **text <= '9' && *number < 1000000; (*text)++) {
    *number = *number * 10 + (unsigned)(**text - '0');
  }
  return *text != start;
}

static bool read_version(const char *text, unsigned *major, unsigned *minor) {
  return read_number(&text, major) && *text++ == '.' && read_number(&text, minor);
}

/* Get the table of a loaded ORT, in the newest version that both sides know. GetApi is called only once, because ORT prints to
 * stderr if it lacks a version. */
static iobind_status negotiate(const OrtApiBase *base, iobind__ort *ort, const char *where, iobind_error *error) {
  const char *version = base->GetVersionString();
  unsigned major = 0;
  unsigned minor = 0;
  if (version == NULL || !read_version(version, &major, &minor)) {
    return iobind__fail(error, IOBIND_ERROR_VERSION,
                        "runtime_create: %s: expected ONNX Runtime 1.%d or newer, got version '%s'", where, ORT_API_OLDEST,
                        version == NULL ? "(none)" : version);
  }
  if (major != 1 || minor < ORT_API_OLDEST) {
    return iobind__fail(error, IOBIND_ERROR_VERSION,
                        "runtime_create: %s: expected ONNX Runtime 1.%d or newer (major version 1), got %s", where,
                        ORT_API_OLDEST, version);
  }
  ort->minor = minor;
  ort->api_version = minor < ORT_API_NEWEST ? minor : ORT_API_NEWEST;
  ort->api = base->GetApi(ort->api_version);
  if (ort->api == NULL) {
    return iobind__fail(error, IOBIND_ERROR_VERSION,
                        "runtime_create: %s: ONNX Runtime %s does not provide its interface version %u", where, version,
                        ort->api_version);
  }
  ort->version = iobind__string_copy(version);
  return ort->version == NULL ? iobind__out_of_memory(error, "runtime_create") : IOBIND_OK;
}

static iobind_status use_base(const OrtApiBase *base, const char *found_by, iobind__ort *ort, iobind_error *error) {
  IOBIND__TRY(negotiate(base, ort, found_by, error));
  const void *address;
  memcpy(&address, &ort->api->GetErrorCode, sizeof address); /* POSIX: a function's address has the form of an object's */
  ort->path = iobind__library_of(address);
  if (ort->path == NULL) {
    ort->path = iobind__string_copy("");
  }
  ort->found_by = found_by;
  return ort->path == NULL ? iobind__out_of_memory(error, "runtime_create") : IOBIND_OK;
}

static const OrtApiBase *base_of_library(void *library) {
  void *symbol = iobind__library_symbol(library, "OrtGetApiBase");
  OrtGetApiBaseFunction get_base;
  memcpy(&get_base, &symbol, sizeof get_base);
  return symbol == NULL ? NULL : get_base();
}

/* The search for ORT in several steps. */
typedef struct search {
  iobind__ort *ort;   /* filled in by the step that finds it */
  iobind__text tried; /* why the other steps have not found it */
} search;

static bool has_found(const search *self) {
  return self->ort->api != NULL;
}

static const char *separator(const search *self) {
  return self->tried.length == 0 ? "" : "; ";
}

/* Try one file or loader name. If it cannot be loaded, that is noted in `tried`. If it is loaded and is not a usable ORT, the
 * search ends with an error. */
static iobind_status try_name(search *self, const char *name, const char *found_by, iobind_error *error) {
  iobind__text reason = {0};
  void *library = iobind__library_open(name, &reason);
  if (library == NULL) {
    iobind__text_add(&self->tried, "%s%s: %s", separator(self), found_by, iobind__text_get(&reason));
    iobind__text_free(&reason);
    return IOBIND_OK;
  }
  const OrtApiBase *base = base_of_library(library);
  if (base == NULL) {
    return iobind__fail(error, IOBIND_ERROR_VERSION,
                        "runtime_create: '%s' (%s) is not ONNX Runtime: it exports no OrtGetApiBase", name, found_by);
  }
  return use_base(base, found_by, self->ort, error);
}

/* Is this the library with a version in its name, "libonnxruntime.so.1.31.1"? Python's package has only that file. */
static bool has_version(const char *name) {
  static const char prefix[] = LIBRARY_NAME ".";
  return strncmp(name, prefix, sizeof prefix - 1) == 0 && strspn(name + sizeof prefix - 1, "0123456789.") > 0 &&
         name[sizeof prefix - 1 + strspn(name + sizeof prefix - 1, "0123456789.")] == '\0';
}

static iobind_status try_name_in(search *self, const char *directory, const char *name, const char *found_by,
                                 iobind_error *error) {
  iobind__text path = {0};
  iobind__text_add(&path, "%s/%s", directory, name);
  iobind_status status = IOBIND_OK;
  if (path.failed) {
    status = iobind__out_of_memory(error, "runtime_create");
  } else if (iobind__file_exists(path.data)) {
    status = try_name(self, path.data, found_by, error);
  }
  iobind__text_free(&path);
  return status;
}

/* Try the library in a directory, under each name that it may have. */
static iobind_status try_directory(search *self, const char *directory, const char *found_by, iobind_error *error) {
  for (size_t i = 0; i < LOADER_NAME_COUNT && !has_found(self); i++) {
    IOBIND__TRY(try_name_in(self, directory, loader_names[i], found_by, error));
  }
  char **names = NULL;
  if (!has_found(self) && !iobind__directory_list(directory, &names)) {
    return iobind__out_of_memory(error, "runtime_create");
  }
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; names != NULL && names[i] != NULL && !has_found(self) && status == IOBIND_OK; i++) {
    if (has_version(names[i])) {
      status = try_name_in(self, directory, names[i], found_by, error);
    }
  }
  iobind__directory_free(names);
  IOBIND__TRY(status);
  if (!has_found(self)) {
    iobind__text_add(&self->tried, "%s%s: no usable %s in '%s'", separator(self), found_by, LIBRARY_NAME, directory);
  }
  return IOBIND_OK;
}

/* Try a path of the user: a file or a directory, relative to the current directory. If it is a bare name and does not exist,
 * the loader searches for it. */
static iobind_status try_file_or_directory(search *self, const char *path, const char *found_by, iobind_error *error) {
  bool exists = iobind__path_exists(path);
  if (iobind__directory_exists(path)) {
    return try_directory(self, path, found_by, error);
  }
  if (exists && !iobind__file_exists(path)) {
    iobind__text_add(&self->tried, "%s: '%s': expected a file or a directory, got neither", found_by,
                     path); /* opening a pipe would block */
    return IOBIND_OK;
  }
  if (!exists && !iobind__path_has_directory(path)) {
    return try_name(self, path, found_by, error);
  }
  char *absolute = iobind__path_absolute(path); /* the loader would search for a path without a directory */
  iobind_status status =
      absolute == NULL ? iobind__out_of_memory(error, "runtime_create") : try_name(self, absolute, found_by, error);
  free(absolute);
  return status;
}

static iobind_status try_loaded(search *self, iobind_error *error) {
  for (size_t i = 0; i < LOADER_NAME_COUNT && !has_found(self); i++) {
    void *library = iobind__library_loaded(loader_names[i]);
    const OrtApiBase *base = library == NULL ? NULL : base_of_library(library);
    if (base != NULL) {
      return use_base(base, "already loaded in the process", self->ort, error);
    }
  }
  return IOBIND_OK;
}

/* Try the directory of libiobind, and the runtime directory beside it. */
static iobind_status try_own_directories(search *self, iobind_error *error) {
  static const struct {
    const char *below;
    const char *found_by;
  } places[] = {{"", "beside libiobind"},
                {"/iobind/onnxruntime", "the runtime directory"},
                {"/../lib/iobind/onnxruntime", "the runtime directory"}};
  char *own = iobind__library_own_directory();
  if (own == NULL) {
    return IOBIND_OK;
  }
  iobind_status status = IOBIND_OK;
  for (size_t i = 0; i < sizeof places / sizeof places[0] && status == IOBIND_OK && !has_found(self); i++) {
    iobind__text directory = {0};
    iobind__text_add(&directory, "%s%s", own, places[i].below);
    status = directory.failed ? iobind__out_of_memory(error, "runtime_create")
                              : try_directory(self, directory.data, places[i].found_by, error);
    iobind__text_free(&directory);
  }
  free(own);
  return status;
}

/* Its result goes before those of the other steps: the message may be cut, and the build's path was chosen deliberately. */
static iobind_status try_built_in(search *self, iobind_error *error) {
  iobind__text before = self->tried;
  self->tried = (iobind__text){0};
  iobind_status status = try_file_or_directory(self, built_in_path, "the default of this build (IOBIND_ORT_LIBRARY)", error);
  iobind__text_add(&self->tried, "; %s", iobind__text_get(&before));
  iobind__text_free(&before);
  return status;
}

static iobind_status run_search(search *self, const char *library, iobind_error *error) {
  if (library != NULL && library[0] == '\0') {
    iobind__text_add(&self->tried, "the given path: it is empty"); /* for the loader, "" is the program itself */
    return IOBIND_OK;
  }
  if (library != NULL) {
    return try_file_or_directory(self, library, "the given path", error);
  }
  char *named = NULL;
  if (!iobind__environment_get("ORT_NATIVE_LIB_PATH", &named)) {
    return iobind__out_of_memory(error, "runtime_create");
  }
  if (named != NULL && named[0] != '\0') {
    iobind_status status = try_file_or_directory(self, named, "ORT_NATIVE_LIB_PATH", error);
    free(named);
    return status;
  }
  free(named);
  IOBIND__TRY(try_loaded(self, error));
  if (!has_found(self)) {
    IOBIND__TRY(try_own_directories(self, error));
  }
  for (size_t i = 0; i < LOADER_NAME_COUNT && !has_found(self); i++) {
    IOBIND__TRY(try_name(self, loader_names[i], "the loader's search", error));
  }
  return has_found(self) || built_in_path[0] == '\0' ? IOBIND_OK : try_built_in(self, error);
}

/* ORT's base, by its table: the library that contains a function of the table exports it. */
static const OrtApiBase *base_of_api(const OrtApi *api) {
  const void *address;
  memcpy(&address, &api->GetErrorCode, sizeof address);
  char *path = iobind__library_of(address);
  void *library = path == NULL ? NULL : iobind__library_loaded(path);
  free(path);
  return library == NULL ? NULL : base_of_library(library);
}

iobind_status iobind__ort_find(const char *library, const void *api_base, const void *api, iobind__ort *ort,
                               iobind_error *error) {
  memset(ort, 0, sizeof *ort);
  if ((library != NULL) + (api_base != NULL) + (api != NULL) > 1) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                        "runtime_create: options: expected one of ort_library, ort_api_base and ort_api, got several");
  }
  iobind_status status;
  if (api_base != NULL) {
    status = use_base(api_base, "handed over", ort, error);
  } else if (api != NULL) {
    const OrtApiBase *base = base_of_api(api);
    status = base != NULL ? use_base(base, "handed over", ort, error)
                          : iobind__fail(error, IOBIND_ERROR_VERSION,
                                         "runtime_create: options: the library of ort_api cannot be found, so its version is "
                                         "unknown: give ort_api_base instead");
    if (status == IOBIND_OK && ort->api != api) {
      status = iobind__fail(error, IOBIND_ERROR_VERSION,
                            "runtime_create: options: ort_api is not the table of its own library (%s): handles of two "
                            "copies of ONNX Runtime must not be mixed",
                            ort->path);
    }
  } else {
    search steps = {.ort = ort};
    status = run_search(&steps, library, error);
    if (status == IOBIND_OK && !has_found(&steps)) {
      bool named = library != NULL || iobind__environment_has("ORT_NATIVE_LIB_PATH");
      status = iobind__fail(error, IOBIND_ERROR_NOT_FOUND, "runtime_create: no ONNX Runtime found" OTHER_LIBC "%s. Tried: %s",
                            named ? "" : ", and ORT_NATIVE_LIB_PATH, which may name the library or its directory, is not set",
                            iobind__text_get(&steps.tried));
    }
    iobind__text_free(&steps.tried);
  }
  if (status != IOBIND_OK) {
    iobind__ort_free(ort);
  }
  return status;
}

void iobind__ort_free(iobind__ort *ort) {
  free(ort->version);
  free(ort->path);
  ort->version = NULL;
  ort->path = NULL;
}
