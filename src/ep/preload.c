#include "ep/preload.h"

#include <stdlib.h>
#include <string.h>

#include "ep/ep.h"
#include "iobind/interop.h"
#include "support/needed.h"
#include "support/options.h"
#include "support/process.h"
#include "support/system.h"

enum { RUNTIME = 5 }; /* of CUDA, among the libraries */

/* In the order in which they are loaded: each before those that need it. */
static const struct nvidia_library {
  const char *stem;
  const char *component; /* the wheel's directory with CUDA 12 */
  int versions[2];       /* with CUDA 12 and 13 */
  bool needed;           /* missing is an error where it is asked for */
  bool cudnn;
  bool windows; /* searched on Windows, too */
} libraries[] = {
    {"cublasLt", "cublas", {12, 13}, .needed = true, .windows = true},
    {"cublas", "cublas", {12, 13}, .needed = true, .windows = true},
    {"nvrtc", "cuda_nvrtc", {12, 13}, .needed = false},
    {"curand", "curand", {10, 10}, .needed = true},
    {"cufft", "cufft", {11, 12}, .windows = true},
    [RUNTIME] = {"cudart", "cuda_runtime", {12, 13}, .needed = true, .windows = true},
    {"cudnn", "cudnn", {9, 9}, .needed = true, .cudnn = true, .windows = true},
};
enum { LIBRARY_COUNT = sizeof libraries / sizeof libraries[0], OLDEST_CUDA = 12, NEWEST_CUDA = 13 };

#if defined(_WIN32)
enum { ON_WINDOWS = true };
static const char ep_file_name[] = "%s/%s.dll";
#define SITE_PACKAGES "Lib/site-packages"
#else
enum { ON_WINDOWS = false };
static const char ep_file_name[] = "%s/lib%s.so";
#endif

/* Directories to search. `sites` hold Python packages, `plain` the libraries themselves, `orts` ORT and its EPs. */
typedef struct search {
  char **sites;
  size_t site_count;
  char **plain;
  size_t plain_count;
  char **orts;
  size_t ort_count;
  bool torch; /* PyTorch's own libraries come first */
  bool failed;
} search;

static void add_directory(search *self, char ***list, size_t *count, const char *directory) {
  if (!iobind__directory_exists(directory)) {
    return;
  }
  char **grown = realloc(*list, (*count + 1) * sizeof *grown);
  char *copy = grown == NULL ? NULL : iobind__string_copy(directory);
  *list = grown == NULL ? *list : grown;
  self->failed = self->failed || copy == NULL;
  if (copy != NULL) {
    grown[(*count)++] = copy;
  }
}

static void add_site(search *self, const char *directory) {
  add_directory(self, &self->sites, &self->site_count, directory);
}

static void add_plain(search *self, const char *directory) {
  add_directory(self, &self->plain, &self->plain_count, directory);
}

static void add_ort(search *self, const char *directory) {
  add_directory(self, &self->orts, &self->ort_count, directory);
}

/* The packages of all Pythons below a prefix. */
static void add_prefix(search *self, const char *prefix, const char *below) {
  iobind__text directory = {0};
  char **names = NULL;
#if defined(_WIN32)
  iobind__text_add(&directory, "%s/%s" SITE_PACKAGES, prefix, below);
  add_site(self, iobind__text_get(&directory));
#else
  iobind__text_add(&directory, "%s/%slib", prefix, below);
  self->failed = self->failed || directory.failed || !iobind__directory_list(iobind__text_get(&directory), &names);
  for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
    if (strncmp(names[i], "python3", strlen("python3")) == 0) {
      iobind__text site = {0};
      iobind__text_add(&site, "%s/%s/site-packages", iobind__text_get(&directory), names[i]);
      add_site(self, iobind__text_get(&site));
      self->failed = self->failed || site.failed;
      iobind__text_free(&site);
    }
  }
#endif
  iobind__directory_free(names);
  iobind__text_free(&directory);
}

static void add_environment(search *self, const char *variable, const char *below) {
  char *prefix = NULL;
  self->failed = !iobind__environment_get(variable, &prefix) || self->failed;
  if (prefix != NULL && prefix[0] != '\0') {
    add_prefix(self, prefix, below);
  }
  free(prefix);
}

/* Python's packages as far as they can be found from here, and what scripts/get-onnxruntime --cuda-libraries has fetched.
 * @param beside  a file of ORT's: in Python's package it is two directories below the other packages; NULL: ORT_NATIVE_LIB_PATH */
static void find_directories(search *self, const char *beside) {
  char *own = iobind__library_own_directory();
  char *named = NULL;
  if (beside == NULL && !iobind__environment_get("ORT_NATIVE_LIB_PATH", &named)) {
    self->failed = true;
  }
  beside = beside == NULL ? named : beside;
  if (beside != NULL) {
    bool directory = iobind__directory_exists(beside);
    iobind__text ort = {0};
    iobind__text_add(&ort, "%.*s", (int)(directory ? strlen(beside) : (size_t)(iobind__path_name(beside) - beside)), beside);
    add_ort(self, iobind__text_get(&ort));
    iobind__text_add(&ort, "/../..");
    add_site(self, iobind__text_get(&ort));
    self->failed = self->failed || ort.failed;
    iobind__text_free(&ort);
  }
  free(named);
  add_environment(self, "VIRTUAL_ENV", "");
  add_environment(self, "CONDA_PREFIX", "");
  add_environment(self, "HOME", ".local/");
  for (size_t i = 0; i < self->site_count; i++) {
    iobind__text ort = {0};
    iobind__text_add(&ort, "%s/onnxruntime/capi", self->sites[i]);
    add_ort(self, iobind__text_get(&ort));
    self->failed = self->failed || ort.failed;
    iobind__text_free(&ort);
  }
  self->failed = self->failed || own == NULL;
  if (own != NULL) {
    iobind__text fetched = {0};
    iobind__text_add(&fetched, "%s/iobind/cuda", own);
    add_plain(self, iobind__text_get(&fetched));
    self->failed = self->failed || fetched.failed;
    iobind__text_free(&fetched);
  }
  free(own);
}

static void search_free(search *self) {
  for (size_t i = 0; i < self->site_count; i++) {
    free(self->sites[i]);
  }
  for (size_t i = 0; i < self->plain_count; i++) {
    free(self->plain[i]);
  }
  for (size_t i = 0; i < self->ort_count; i++) {
    free(self->orts[i]);
  }
  free(self->sites);
  free(self->plain);
  free(self->orts);
}

static void add_file_name(iobind__text *text, const struct nvidia_library *library, int cuda) {
  int version = library->versions[cuda - OLDEST_CUDA];
  iobind__text_add(text, ON_WINDOWS ? "%s64_%d.dll" : "lib%s.so.%d", library->stem, version);
}

/* Load one file of a directory. False: it is not there, or does not load. */
static bool load_from(search *self, const char *directory, const char *below, const struct nvidia_library *library, int cuda) {
  iobind__text path = {0};
  iobind__text reason = {0};
  iobind__text_add(&path, "%s/%s", directory, below);
  add_file_name(&path, library, cuda);
  self->failed = self->failed || path.failed;
  bool loaded = iobind__file_exists(iobind__text_get(&path)) && iobind__library_open(path.data, &reason) != NULL;
  iobind__text_free(&path);
  iobind__text_free(&reason);
  return loaded;
}

/* With CUDA 12 each component has its own directory; with 13 all but cuDNN share one. */
static bool load_from_wheels(search *self, const char *site, const struct nvidia_library *library, int cuda) {
  iobind__text below = {0};
  if (cuda >= NEWEST_CUDA && !library->cudnn) {
    iobind__text_add(&below, "nvidia/cu%d/%s", cuda, ON_WINDOWS ? "bin/x86_64/" : "lib/");
  } else {
    iobind__text_add(&below, "nvidia/%s/%s", library->component, ON_WINDOWS ? "bin/" : "lib/");
  }
  bool loaded = load_from(self, site, iobind__text_get(&below), library, cuda);
  iobind__text_free(&below);
  return loaded;
}

static bool load_one(search *self, const struct nvidia_library *library, int cuda) {
  bool loaded = false;
  for (size_t i = 0; self->torch && i < self->site_count && !loaded; i++) {
    loaded = load_from(self, self->sites[i], "torch/lib/", library, cuda);
  }
  for (size_t i = 0; i < self->site_count && !loaded; i++) {
    loaded = load_from_wheels(self, self->sites[i], library, cuda);
  }
  for (size_t i = 0; i < self->plain_count && !loaded; i++) {
    loaded = load_from(self, self->plain[i], "", library, cuda);
  }
  return loaded;
}

/* By the loader's own rules. */
static bool load_by_name(const struct nvidia_library *library, int cuda) {
  iobind__text name = {0};
  iobind__text reason = {0};
  add_file_name(&name, library, cuda);
  bool loaded = !name.failed && iobind__library_open(name.data, &reason) != NULL;
  iobind__text_free(&name);
  iobind__text_free(&reason);
  return loaded;
}

/* The major version of CUDA that an EP's library needs; 0: its file does not show it. */
static int needed_cuda(char *const *needed) {
  int cuda = 0;
  for (int version = OLDEST_CUDA; version <= NEWEST_CUDA; version++) {
    iobind__text runtime = {0};
    add_file_name(&runtime, &libraries[RUNTIME], version);
    for (size_t i = 0; needed[i] != NULL; i++) {
      cuda = strcmp(needed[i], iobind__text_get(&runtime)) == 0 ? version : cuda;
    }
    iobind__text_free(&runtime);
  }
  return cuda;
}

/* That of the first EP in the directory of an ORT; the newest if there is none. */
static int wanted_cuda(search *known) {
  int cuda = 0;
  for (size_t i = 0; i < known->ort_count && cuda == 0; i++) {
    char **needed = NULL;
    iobind__text path = {0};
    iobind__text_add(&path, ep_file_name, known->orts[i], iobind__ep_cuda.library);
    known->failed = !iobind__needed_list(iobind__text_get(&path), &needed) || path.failed || known->failed;
    cuda = needed == NULL ? 0 : needed_cuda(needed);
    iobind__needed_free(needed);
    iobind__text_free(&path);
  }
  return cuda == 0 ? NEWEST_CUDA : cuda;
}

/* Which CUDA to load: the newest whose runtime is found. */
static int newest_cuda(search *self, bool loader, search *known) {
  const struct nvidia_library *runtime = &libraries[RUNTIME];
  for (int cuda = NEWEST_CUDA; cuda >= OLDEST_CUDA; cuda--) {
    if (load_one(self, runtime, cuda) || (loader && load_by_name(runtime, cuda))) {
      return cuda;
    }
  }
  return wanted_cuda(known);
}

static void preload_microsoft(iobind__text *missing) {
  static const char *const names[] = {"vcruntime140.dll", "msvcp140.dll", "vcruntime140_1.dll"};
  for (size_t i = 0; ON_WINDOWS && i < sizeof names / sizeof names[0]; i++) {
    iobind__text reason = {0};
    if (iobind__library_open(names[i], &reason) == NULL) {
      iobind__text_add(missing, "%s%s", missing->length == 0 ? "" : ", ", names[i]);
    }
    iobind__text_free(&reason);
  }
}

static void preload_nvidia(search *self, const iobind_preload_options *options, bool loader, int cuda, iobind__text *missing) {
  for (size_t i = 0; i < LIBRARY_COUNT; i++) {
    const struct nvidia_library *library = &libraries[i];
    uint32_t unwanted = library->cudnn ? IOBIND_PRELOAD_NO_CUDNN : IOBIND_PRELOAD_NO_CUDA;
    if ((options->flags & unwanted) != 0 || (ON_WINDOWS && !library->windows)) {
      continue;
    }
    if (!load_one(self, library, cuda) && !(loader && load_by_name(library, cuda)) && library->needed) {
      iobind__text_add(missing, "%s", missing->length == 0 ? "" : ", ");
      add_file_name(missing, library, cuda);
    }
  }
}

/* The caller's directory, which may begin at that of ORT's package. */
static iobind_status add_given(search *self, const search *known, const char *directory, iobind_error *error) {
  iobind__text path = {0};
  iobind__text_add(&path, "%s", directory);
  for (size_t i = 0; i < known->ort_count && !iobind__directory_exists(iobind__text_get(&path)); i++) {
    iobind__text_free(&path);
    iobind__text_add(&path, "%s/../%s", known->orts[i], directory);
  }
  bool found = iobind__directory_exists(iobind__text_get(&path));
  add_plain(self, iobind__text_get(&path));
  add_site(self, iobind__text_get(&path));
  bool failed = self->failed || known->failed || path.failed;
  iobind__text_free(&path);
  if (failed) {
    return iobind__out_of_memory(error, "preload");
  }
  return found ? IOBIND_OK
               : iobind__fail(
                     error, IOBIND_ERROR_NOT_FOUND,
                     "preload: directory: expected a directory, absolute or relative to ONNX Runtime's package, got '%s'",
                     directory);
}

static iobind_status preload(const iobind_preload_options *options, search *self, search *known, iobind_error *error) {
  bool loader = options->directory == NULL;
  iobind__text missing = {0};
  if (self != known) {
    IOBIND__TRY(add_given(self, known, options->directory, error));
  }
  self->torch = loader;
  if ((options->flags & IOBIND_PRELOAD_NO_MSVC) == 0) {
    preload_microsoft(&missing);
  }
  int cuda = (int)options->cuda;
  if (cuda == 0) { /* to find the newest is to load its runtime; cuDNN is the same for each */
    cuda = (options->flags & IOBIND_PRELOAD_NO_CUDA) != 0 ? NEWEST_CUDA : newest_cuda(self, loader, known);
  }
  preload_nvidia(self, options, loader, cuda, &missing);
  iobind_status status = IOBIND_OK;
  if (self->failed || known->failed || missing.failed) {
    status = iobind__out_of_memory(error, "preload");
  } else if (missing.length > 0) {
    status = iobind__fail(error, IOBIND_ERROR_NOT_FOUND,
                          "preload: not found: %s; `iobind doctor` says where libraries were looked for", missing.data);
  }
  iobind__text_free(&missing);
  return status;
}

iobind_status iobind_preload(const iobind_preload_options *given, iobind_error *error) {
  iobind_preload_options options;
  search known = {0};
  search chosen = {0};
  IOBIND__TRY(IOBIND__OPTIONS_READ(&options, given, "preload", error));
  IOBIND__TRY(iobind__flags_check(options.flags, IOBIND_PRELOAD_NO_CUDA | IOBIND_PRELOAD_NO_CUDNN | IOBIND_PRELOAD_NO_MSVC,
                                  "preload", error));
  IOBIND__TRY(iobind__process_check("preload", error));
  if (options.cuda != 0 && (options.cuda < OLDEST_CUDA || options.cuda > NEWEST_CUDA)) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "preload: cuda: expected 0, %d or %d, got %u", OLDEST_CUDA,
                        NEWEST_CUDA, options.cuda);
  }
  find_directories(&known, NULL);
  bool has_directory = options.directory != NULL && options.directory[0] != '\0';
  iobind_status status = preload(&options, has_directory ? &chosen : &known, &known, error);
  search_free(&known);
  search_free(&chosen);
  return status;
}

/* Does a directory of LD_LIBRARY_PATH have it? If so, the loader must use that one. */
static bool loader_has(const char *name) {
  char *list = NULL;
  bool has = false;
  if (ON_WINDOWS || !iobind__environment_get("LD_LIBRARY_PATH", &list)) {
    return false;
  }
  for (char *directory = list, *end; directory != NULL && !has; directory = end) {
    end = strchr(directory, ':');
    if (end != NULL) {
      *end++ = '\0';
    }
    iobind__text path = {0};
    iobind__text_add(&path, "%s/%s", directory, name);
    has = directory[0] != '\0' && iobind__file_exists(iobind__text_get(&path));
    iobind__text_free(&path);
  }
  free(list);
  return has;
}

void iobind__preload_for(const char *ep_library) {
  char **needed = NULL;
  search self = {.torch = true};
  if (!iobind__needed_list(ep_library, &needed) || needed == NULL) {
    return;
  }
  find_directories(&self, ep_library);
  int cuda = needed_cuda(needed);
  for (size_t i = 0; cuda != 0 && i < LIBRARY_COUNT; i++) {
    iobind__text name = {0};
    add_file_name(&name, &libraries[i], cuda);
    bool there = name.failed || iobind__library_loaded(name.data) != NULL || loader_has(name.data);
    if (!there && !(ON_WINDOWS && !libraries[i].windows)) {
      (void)load_one(&self, &libraries[i], cuda);
    }
    iobind__text_free(&name);
  }
  search_free(&self);
  iobind__needed_free(needed);
}
