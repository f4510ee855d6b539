#if !defined(_WIN32)
#define _GNU_SOURCE /* dlinfo, realpath */
#endif
#include "commands/libraries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#include <link.h>
#endif

#include "formats/file.h"
#include "formats/needed.h"

enum { TEXT = 512, OLDEST_CUDA = 12, NEWEST_CUDA = 13 };

/* NVIDIA's libraries, and the Python package that has each. */
static const struct nvidia {
  const char *stem;
  const char *package;
} nvidia[] = {{"libcublasLt.so.", "nvidia-cublas"},     {"libcublas.so.", "nvidia-cublas"},
              {"libcudart.so.", "nvidia-cuda-runtime"}, {"libcurand.so.", "nvidia-curand"},
              {"libcufft.so.", "nvidia-cufft"},         {"libnvrtc.so.", "nvidia-cuda-nvrtc"},
              {"libcudnn.so.", "nvidia-cudnn"},         {"libcuda.so.", NULL},
              {"libnvinfer.so.", "tensorrt"},           {"libnvonnxparser.so.", "tensorrt"},
              {"libnvinfer_plugin.so.", "tensorrt"}};
enum { NVIDIA_COUNT = sizeof nvidia / sizeof nvidia[0] };

typedef struct finding {
  char path[TEXT];   /* "": missing */
  char version[64];  /* "": unknown */
  char reason[TEXT]; /* of what is missing */
  char cure[TEXT];
} finding;

static const struct nvidia *nvidia_of(const char *name) {
  for (size_t i = 0; i < NVIDIA_COUNT; i++) {
    if (strncmp(name, nvidia[i].stem, strlen(nvidia[i].stem)) == 0) return &nvidia[i];
  }
  return NULL;
}

/* Is it a library of the system, which every machine has that can run this tool? */
static bool is_system(const char *name) {
  static const char *const stems[] = {"libc.so",  "libm.so",     "libdl.so",     "librt.so", "libpthread.so",
                                      "ld-linux", "libgcc_s.so", "libstdc++.so", "KERNEL32", "msvcrt"};
  for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
    if (strncmp(name, stems[i], strlen(stems[i])) == 0) return true;
  }
  return false;
}

/* By the loader's rules. None is ever closed: the threads and drivers that they started would crash. */
static void *open_library(const char *name) {
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void path_of(void *library, char path[TEXT]) {
#if defined(_WIN32)
  GetModuleFileNameA(library, path, TEXT);
#else
  struct link_map *map = NULL;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL) snprintf(path, TEXT, "%s", map->l_name);
#endif
}

/* "13.0" of 13000, as CUDA writes its versions. */
static bool ask_version(void *library, const char *function, char version[64]) {
  int (*ask)(int *) = NULL;
  int number = 0;
  void *symbol = dlsym(library, function);
  if (symbol == NULL) return false;
  memcpy(&ask, &symbol, sizeof ask);
  if (ask(&number) != 0 || number <= 0) return false;
  snprintf(version, 64, "%d.%d", number / 1000, number % 1000 / 10);
  return true;
}

/* As the library reports it, or else from its file's name: libcudnn.so.9.1.0. */
static void version_of(void *library, const char *name, const char *path, char version[64]) {
  if (strncmp(name, "libcudart.so.", 13) == 0 && ask_version(library, "cudaRuntimeGetVersion", version)) return;
  if (strncmp(name, "libcuda.so.", 11) == 0 && ask_version(library, "cuDriverGetVersion", version)) return;
  char *resolved = realpath(path, NULL);
  const char *ending = resolved == NULL ? NULL : strstr(file_name(resolved), ".so.");
  if (ending != NULL) snprintf(version, 64, "%.63s", ending + 4);
  free(resolved);
}

/* The same library of another version of CUDA, if it is installed; "": it is not. */
static void other_version(const struct nvidia *known, const char *name, char other[64]) {
  int wanted = atoi(name + strlen(known->stem));
  other[0] = 0;
  for (int version = wanted + 2; version >= wanted - 2 && other[0] == 0; version--) {
    char candidate[64];
    snprintf(candidate, sizeof candidate, "%s%d", known->stem, version);
    if (version > 0 && version != wanted && open_library(candidate) != NULL) strcpy(other, candidate);
  }
}

/* @param cuda  the major version that the EP is built for; 0: unknown */
static void find_cure(const char *name, int cuda, finding *found) {
  const struct nvidia *known = nvidia_of(name);
  char other[64];
  if (known == NULL) {
    snprintf(found->cure, TEXT, "install the package that contains it, or add its directory to LD_LIBRARY_PATH");
    return;
  }
  if (known->package == NULL) {
    snprintf(found->cure, TEXT, "install NVIDIA's driver, %s or newer; CUDA's packages do not contain it",
             cuda >= 13 ? "580" : "525");
    return;
  }
  other_version(known, name, other);
  if (other[0] != 0) {
    snprintf(found->reason, TEXT, "found %s, another version; this ONNX Runtime is built for CUDA %d", other, cuda);
  }
  bool suffix = strcmp(known->package, "nvidia-cudnn") == 0 || (cuda == OLDEST_CUDA && strcmp(known->package, "tensorrt") != 0);
  char package[64];
  snprintf(package, sizeof package, suffix ? "%s-cu%d" : "%s", known->package, cuda);
  snprintf(found->cure, TEXT, "pip install %s", package);
}

static void find_library(const char *name, int cuda, finding *found) {
  *found = (finding){.path = ""};
  void *library = open_library(name);
  if (library != NULL) {
    path_of(library, found->path);
    version_of(library, name, found->path, found->version);
  } else {
    const char *reason = dlerror();
    snprintf(found->reason, TEXT, "%s", reason == NULL ? "it cannot be loaded" : reason);
    find_cure(name, cuda, found);
  }
}

static int cuda_of(char *const *needed) {
  for (size_t i = 0; needed[i] != NULL; i++) {
    if (strncmp(needed[i], "libcudart.so.", 13) == 0) return atoi(needed[i] + 13);
  }
  return 0;
}

static void add_columns(report_table *table, bool shown) {
  report_column(table, "ep", shown ? "EP" : NULL, REPORT_LEFT);
  report_column(table, "name", shown ? "NEEDS" : NULL, REPORT_LEFT);
  report_column(table, "version", shown ? "VERSION" : NULL, REPORT_LEFT);
  report_column(table, "path", shown ? "FOUND" : NULL, REPORT_LEFT);
  report_column(table, "first_use", NULL, REPORT_LEFT);
  report_column(table, "reason", NULL, REPORT_LEFT);
  report_column(table, "cure", NULL, REPORT_LEFT);
}

static json_t *text_or_null(const char *text) {
  return text[0] == 0 ? json_null() : report_string(text);
}

static void add_row(report_table *table, const char *ep, const char *name, const finding *found, bool first_use) {
  bool missing = found->path[0] == 0;
  report_row(table);
  report_cell(table, report_string(ep), NULL);
  report_cell(table, report_string(name), NULL);
  report_cell(table, text_or_null(found->version), "%s", found->version[0] == 0 ? "-" : found->version);
  report_cell(table, text_or_null(found->path), "%s%s", missing ? "missing" : found->path,
              first_use ? " (looked for on first use)" : "");
  report_cell_mark(table, missing ? REPORT_BAD : REPORT_GOOD);
  report_cell(table, json_boolean(first_use), NULL);
  report_cell(table, text_or_null(found->reason), NULL);
  report_cell(table, text_or_null(found->cure), NULL);
}

/* An EP whose libraries are listed. */
typedef struct listing {
  tool_report *report;
  report_table *table;
  const char *ep;
  int cuda;   /* the major version that it is built for; 0: unknown */
  bool whole; /* also the libraries of the system */
} listing;

/* One library that the EP needs, or opens on its first use. */
static void look_at(const listing *self, const char *name, bool first_use) {
  finding found;
  find_library(name, self->cuda, &found);
  bool told = strncmp(found.reason, name, strlen(name)) == 0; /* "NAME: cannot open", and no more */
  if (found.path[0] == 0 || self->whole || !is_system(name)) add_row(self->table, self->ep, name, &found, first_use);
  if (found.path[0] == 0) {
    report_note(self->report, "%s: %s is missing%s%s%s: %s", self->ep, name, first_use ? ", for convolutions and others" : "",
                told ? "" : ": ", told ? "" : found.reason, found.cure);
  }
}

/* The libraries that CUDA's EP opens by name on their first use, unless it is linked to them. */
static const char *const on_first_use[2][2] = {{"libcudnn.so.9", "libcufft.so.11"}, {"libcudnn.so.9", "libcufft.so.12"}};

static const char driver_name[] = "libcuda.so.1";

static bool lists(char *const *names, const char *name) {
  for (size_t i = 0; names[i] != NULL; i++) {
    if (strcmp(names[i], name) == 0) return true;
  }
  return false;
}

/* Returns the version of CUDA that the EP is built for, or 0. */
static int look_at_ep(listing self, const char *path) {
  char **needed = path[0] == 0 ? NULL : needed_read(path);
  if (needed == NULL) return 0;
  const bool is_cuda = strcmp(self.ep, "cuda") == 0;
  self.cuda = cuda_of(needed);
  for (size_t i = 0; needed[i] != NULL; i++) {
    look_at(&self, needed[i], false);
  }
  if (is_cuda && self.cuda != 0 && !lists(needed, driver_name)) { /* CUDA's runtime loads it */
    look_at(&self, driver_name, false);
  }
  for (size_t i = 0; is_cuda && self.cuda >= OLDEST_CUDA && self.cuda <= NEWEST_CUDA && i < 2; i++) {
    const char *name = on_first_use[self.cuda - OLDEST_CUDA][i];
    if (!lists(needed, name)) look_at(&self, name, true);
  }
  needed_free(needed);
  return self.cuda;
}

/* @param cuda  the major version that the EP is built for */
static void report_driver(tool_report *report, int cuda) {
  char version[64] = "";
  int devices = 0;
  void *driver = open_library(driver_name);
  if (driver == NULL) return; /* it is listed as missing */
  int (*init)(unsigned) = NULL;
  int (*count)(int *) = NULL;
  void *symbols[] = {dlsym(driver, "cuInit"), dlsym(driver, "cuDeviceGetCount")};
  memcpy(&init, &symbols[0], sizeof init);
  memcpy(&count, &symbols[1], sizeof count);
  int failed = init == NULL ? -1 : init(0);
  if (failed == 0 && count != NULL) failed = count(&devices);
  (void)ask_version(driver, "cuDriverGetVersion", version);
  report_field(report, "driver", "NVIDIA driver", text_or_null(version), "for CUDA %s, %d device%s",
               version[0] == 0 ? "?" : version, devices, devices == 1 ? "" : "s");
  report_field(report, "cuda_devices", NULL, json_integer(devices), NULL);
  if (version[0] != 0 && atoi(version) < cuda) {
    report_note(
        report,
        "cuda: the driver is too old: it is for CUDA %s, and this ONNX Runtime is built for CUDA %d. Install driver %s or newer",
        version, cuda, cuda >= 13 ? "580" : "525");
  } else if (failed != 0 || devices == 0) {
    report_note(report,
                "cuda: the driver finds no device (error %d): is there an NVIDIA GPU, and may this process see it "
                "(CUDA_VISIBLE_DEVICES, the container's settings)?",
                failed);
  }
}

void libraries_report(const tool_state *tool, tool_report *report, bool details) {
  iobind_ep_info info = IOBIND_EP_INFO_INIT;
  bool any = details;
  bool whole = details || tool->json;
  for (size_t i = 0; iobind_runtime_get_ep(tool->runtime, i, &info, NULL) == IOBIND_OK; i++) {
    any = any || info.status != IOBIND_OK || strcmp(info.name, "cuda") == 0;
  }
  report_table *table = report_add_table(report, "libraries", NULL);
  add_columns(table, any);
  int cuda = 0;
  for (size_t i = 0; iobind_runtime_get_ep(tool->runtime, i, &info, NULL) == IOBIND_OK; i++) {
    int built_for = look_at_ep((listing){.report = report, .table = table, .ep = info.name, .whole = whole}, info.path);
    cuda = built_for != 0 ? built_for : cuda;
    const char *name = file_name(info.path);
    if (strcmp(info.name, "cuda") != 0 || !details) continue;
    char path[1024]; /* TensorRT's EP lies beside CUDA's, and ONNX Runtime does not load it as a plugin */
    snprintf(path, sizeof path, "%.*slibonnxruntime_providers_tensorrt.so", (int)(name - info.path), info.path);
    look_at_ep((listing){.report = report, .table = table, .ep = "tensorrt", .whole = whole}, path);
  }
  if (cuda != 0) report_driver(report, cuda);
}
