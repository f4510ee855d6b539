/* system.h on Windows, whose own functions take UTF-16: paths are converted here. */
#include "support/system.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* NULL: not UTF-8, or out of memory. */
static wchar_t *to_wide(const char *text) {
  int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  wchar_t *wide = count <= 0 ? NULL : malloc((size_t)count * sizeof *wide);
  if (wide != NULL) {
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, count);
  }
  return wide;
}

static char *from_wide(const wchar_t *wide) {
  int count = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
  char *text = count <= 0 ? NULL : malloc((size_t)count);
  if (text != NULL) {
    WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, count, NULL, NULL);
  }
  return text;
}

/* A Windows path in the form of this library: '/' between the parts, and no prefix for long paths. */
static char *from_native(const wchar_t *native) {
  static const wchar_t share[] = L"\\\\?\\UNC\\";
  static const wchar_t mark[] = L"\\\\?\\";
  bool is_share = wcsncmp(native, share, wcslen(share)) == 0;
  bool is_marked = !is_share && wcsncmp(native, mark, wcslen(mark)) == 0;
  char *path = from_wide(native + (is_share ? wcslen(share) - 2 : is_marked ? wcslen(mark) : 0));
  for (char *c = path; c != NULL && *c != '\0'; c++) {
    if (*c == '\\') {
      *c = '/';
    }
  }
  if (path != NULL && is_share) {
    path[0] = '/'; /* the C of UNC: a share needs a second slash there */
  }
  return path;
}

iobind__path_char *iobind__path_native(const char *path) {
  wchar_t *native = to_wide(path);
  for (wchar_t *c = native; c != NULL && *c != L'\0'; c++) {
    if (*c == L'/') {
      *c = L'\\';
    }
  }
  return native;
}

static void add_error(iobind__text *reason, DWORD code) {
  wchar_t *wide = NULL;
  FormatMessageW(FORMAT_MESSAGE_ALLOCATE_BUFFER | FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0,
                 (wchar_t *)(void *)&wide, 0, NULL);
  char *text = wide == NULL ? NULL : from_wide(wide);
  LocalFree(wide);
  for (size_t end = text == NULL ? 0 : strlen(text); end > 0 && strchr(" \r\n.", text[end - 1]) != NULL; end--) {
    text[end - 1] = '\0';
  }
  iobind__text_add(reason, "%s (Windows error %lu)", text == NULL ? "it cannot be loaded" : text, code);
  free(text);
}

/* The path is made absolute, because otherwise the loader does not search its directory for the libraries that it needs. */
void *iobind__library_open(const char *name, iobind__text *reason) {
  wchar_t *native = iobind__path_native(name);
  HMODULE library = NULL;
  DWORD code = native == NULL ? ERROR_INVALID_NAME : ERROR_SUCCESS;
  if (native != NULL && wcschr(native, L'\\') == NULL) {
    library = LoadLibraryW(native);
  } else if (native != NULL) {
    wchar_t *whole = _wfullpath(NULL, native, 0);
    library = whole == NULL ? NULL : LoadLibraryExW(whole, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    code = GetLastError();
    free(whole);
  }
  if (library == NULL) {
    add_error(reason, code == ERROR_SUCCESS ? GetLastError() : code);
  }
  free(native);
  return library;
}

void *iobind__library_loaded(const char *name) {
  wchar_t *native = iobind__path_native(name);
  HMODULE library = NULL;
  if (native == NULL || !GetModuleHandleExW(0, native, &library)) {
    library = NULL;
  }
  free(native);
  return library;
}

void *iobind__library_symbol(void *library, const char *name) {
  FARPROC function = GetProcAddress(library, name);
  void *address;
  memcpy(&address, &function, sizeof address);
  return address;
}

/* NULL: no library contains the address. */
static HMODULE module_of(const void *address) {
  HMODULE library = NULL;
  DWORD borrowed = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  return GetModuleHandleExW(borrowed, address, &library) ? library : NULL;
}

void iobind__library_stay(void) {
  static const char here = 0;
  HMODULE library = NULL;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     (const wchar_t *)(const void *)&here, &library);
}

bool iobind__library_same(const void *a, const void *b) {
  return module_of(a) != NULL && module_of(a) == module_of(b);
}

char *iobind__library_of(const void *address) {
  HMODULE library = module_of(address);
  if (library == NULL) {
    return NULL;
  }
  enum { LONGEST = 32768 };
  wchar_t *native = malloc(LONGEST * sizeof *native);
  DWORD length = native == NULL ? 0 : GetModuleFileNameW(library, native, LONGEST);
  char *path = length == 0 || length == LONGEST ? NULL : from_native(native);
  free(native);
  char *resolved = path == NULL ? NULL : iobind__file_resolve(path);
  free(path);
  return resolved;
}

char *iobind__file_resolve(const char *path) {
  wchar_t *native = iobind__path_native(path);
  HANDLE file = native == NULL ? INVALID_HANDLE_VALUE
                               : CreateFileW(native, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                             OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
  free(native);
  if (file == INVALID_HANDLE_VALUE) {
    return NULL;
  }
  DWORD size = GetFinalPathNameByHandleW(file, NULL, 0, FILE_NAME_NORMALIZED);
  wchar_t *final = size == 0 ? NULL : malloc(size * sizeof *final);
  DWORD length = final == NULL ? 0 : GetFinalPathNameByHandleW(file, final, size, FILE_NAME_NORMALIZED);
  CloseHandle(file);
  char *resolved = length == 0 || length >= size ? NULL : from_native(final);
  free(final);
  return resolved;
}

char *iobind__path_absolute(const char *path) {
  wchar_t *native = iobind__path_native(path);
  wchar_t *whole = native == NULL ? NULL : _wfullpath(NULL, native, 0);
  char *absolute = whole == NULL ? NULL : from_native(whole);
  free(whole);
  free(native);
  return absolute;
}

bool iobind__path_has_directory(const char *path) {
  return iobind__path_name(path) != path;
}

static DWORD attributes_of(const char *path) {
  wchar_t *native = iobind__path_native(path);
  DWORD attributes = native == NULL ? INVALID_FILE_ATTRIBUTES : GetFileAttributesW(native);
  free(native);
  return attributes;
}

bool iobind__file_exists(const char *path) {
  return (attributes_of(path) & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) == 0; /* INVALID_FILE_ATTRIBUTES */
}

bool iobind__path_exists(const char *path) {
  return attributes_of(path) != INVALID_FILE_ATTRIBUTES;
}

bool iobind__directory_exists(const char *path) {
  DWORD attributes = attributes_of(path);
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

const char *iobind__path_name(const char *path) {
  const char *name = path;
  for (const char *c = path; *c != '\0'; c++) {
    if (*c == '/' || *c == '\\' || (*c == ':' && c == path + 1)) {
      name = c + 1;
    }
  }
  return name;
}

FILE *iobind__file_open(const char *path) {
  wchar_t *native = iobind__path_native(path);
  FILE *file = native == NULL ? NULL : _wfopen(native, L"rb");
  free(native);
  return file;
}

bool iobind__file_stamp_get(const char *path, iobind__file_stamp *stamp) {
  WIN32_FILE_ATTRIBUTE_DATA found;
  wchar_t *native = iobind__path_native(path);
  bool is_read = native != NULL && GetFileAttributesExW(native, GetFileExInfoStandard, &found) != 0;
  free(native);
  if (!is_read) {
    return false;
  }
  uint64_t ticks = (uint64_t)found.ftLastWriteTime.dwHighDateTime << 32 | found.ftLastWriteTime.dwLowDateTime;
  const uint64_t from_1601_to_1970 = 116444736000000000; /* in units of 100 ns */
  const int64_t written = (int64_t)(ticks - from_1601_to_1970) * 100;
  *stamp = (iobind__file_stamp){
      .bytes = (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow, .written = written, .changed = written};
  return true;
}

FILE *iobind__file_create(const char *path) {
  wchar_t *native = iobind__path_native(path);
  FILE *file = native == NULL ? NULL : _wfopen(native, L"wbx");
  free(native);
  return file;
}

bool iobind__file_finish(FILE *file) {
  bool written = fflush(file) == 0 && _commit(_fileno(file)) == 0;
  return fclose(file) == 0 && written;
}

bool iobind__file_replace(const char *from, const char *to) {
  wchar_t *native_from = iobind__path_native(from);
  wchar_t *native_to = iobind__path_native(to);
  bool replaced = native_from != NULL && native_to != NULL &&
                  MoveFileExW(native_from, native_to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0;
  free(native_from);
  free(native_to);
  return replaced;
}

int iobind__descriptor_duplicate(int descriptor) {
  (void)descriptor;
  return -1;
}

void iobind__descriptor_close(int descriptor) {
  (void)descriptor;
}

void iobind__file_remove(const char *path) {
  wchar_t *native = iobind__path_native(path);
  if (native != NULL) {
    (void)_wremove(native);
  }
  free(native);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names that the search finds, unsorted. False: out of memory. */
static bool list_names(HANDLE search, WIN32_FIND_DATAW *found, char ***names, size_t *count) {
  do {
    char **longer = realloc(*names, (*count + 2) * sizeof *longer);
    if (longer == NULL) {
      return false;
    }
    *names = longer;
    longer[*count] = from_wide(found->cFileName);
    if (longer[*count] == NULL) {
      return false;
    }
    longer[++*count] = NULL;
  } while (FindNextFileW(search, found));
  return true;
}

bool iobind__directory_list(const char *directory, char ***names) {
  *names = NULL;
  iobind__text pattern = {0};
  iobind__text_add(&pattern, "%s/*", directory);
  wchar_t *native = pattern.failed ? NULL : iobind__path_native(pattern.data);
  iobind__text_free(&pattern);
  if (native == NULL) {
    return false;
  }
  WIN32_FIND_DATAW found;
  HANDLE search = FindFirstFileW(native, &found);
  free(native);
  if (search == INVALID_HANDLE_VALUE) {
    return true;
  }
  size_t count = 0;
  bool whole = list_names(search, &found, names, &count);
  FindClose(search);
  if (!whole) {
    iobind__directory_free(*names);
    *names = NULL;
    return false;
  }
  qsort(*names, count, sizeof **names, compare_names);
  return true;
}

uint64_t iobind__clock_ns(void) {
  LARGE_INTEGER rate;
  LARGE_INTEGER now;
  QueryPerformanceFrequency(&rate);
  QueryPerformanceCounter(&now);
  uint64_t seconds = (uint64_t)(now.QuadPart / rate.QuadPart);
  uint64_t rest = (uint64_t)(now.QuadPart % rate.QuadPart);
  return seconds * 1000000000 + rest * 1000000000 / (uint64_t)rate.QuadPart;
}

int64_t iobind__clock_of_day(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void iobind__clock_sleep(uint64_t ns) {
  enum { NS_OF_MS = 1000000 };
  Sleep((DWORD)((ns + NS_OF_MS - 1) / NS_OF_MS));
}

void iobind__condition_init(pthread_cond_t *condition) {
  pthread_cond_init(condition, NULL);
}

/* These threads wait by the time of day. A waiter that wakes too early checks the monotonic clock and waits again. */
bool iobind__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until) {
  if (until == UINT64_MAX) {
    return pthread_cond_wait(condition, mutex) == 0;
  }
  const uint64_t now = iobind__clock_ns();
  if (until <= now) {
    return false;
  }
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  const uint64_t rest = until - now + (uint64_t)time.tv_nsec;
  time.tv_sec += (time_t)(rest / 1000000000);
  time.tv_nsec = (long)(rest % 1000000000);
  return pthread_cond_timedwait(condition, mutex, &time) != ETIMEDOUT || iobind__clock_ns() < until;
}

bool iobind__environment_get(const char *name, char **value) {
  *value = NULL;
  wchar_t *wide_name = to_wide(name);
  if (wide_name == NULL) {
    return false;
  }
  const wchar_t *set = _wgetenv(wide_name);
  free(wide_name);
  if (set != NULL) {
    *value = from_wide(set);
  }
  return set == NULL || *value != NULL;
}

bool iobind__environment_has(const char *name) {
  return getenv(name) != NULL;
}

/* Both the C runtime's copy and the process's own, because ONNX Runtime reads the latter. */
void iobind__environment_default(const char *name, const char *value) {
  wchar_t *wide_name = to_wide(name);
  wchar_t *wide_value = to_wide(value);
  if (wide_name != NULL && wide_value != NULL && _wgetenv(wide_name) == NULL) {
    _wputenv_s(wide_name, wide_value);
  }
  free(wide_name);
  free(wide_value);
}

#endif
