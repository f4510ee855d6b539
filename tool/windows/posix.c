#include "posix.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#undef fclose

/* Without this, the C library would convert line ends. */
__attribute__((constructor)) static void open_files_as_they_are(void) {
  _fmode = _O_BINARY;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  void (*former)(int) = signal(number, action != NULL ? action->sa_handler : SIG_DFL);
  if (former == SIG_ERR) return -1;
  if (action == NULL) signal(number, former);
  if (before != NULL) *before = (struct sigaction){.sa_handler = former};
  return 0;
}

long sysconf(int name) {
  SYSTEM_INFO system;
  GetSystemInfo(&system);
  if (name == _SC_PAGESIZE) return (long)system.dwPageSize;
  MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
  return GlobalMemoryStatusEx(&memory) ? (long)(memory.ullTotalPhys / system.dwPageSize) : -1;
}

char *mkdtemp(char *name) {
  return _mktemp(name) == NULL || _mkdir(name) != 0 ? NULL : name;
}

char *strndup(const char *text, size_t length) {
  size_t kept = strnlen(text, length);
  char *copy = malloc(kept + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, kept);
  copy[kept] = '\0';
  return copy;
}

/* The open streams of open_memstream; only one thread uses them. */
typedef struct memory_stream {
  FILE *stream;
  char **text;
  size_t *length;
  struct memory_stream *next;
} memory_stream;
static memory_stream *memory_streams;

FILE *open_memstream(char **text, size_t *length) {
  wchar_t directory[MAX_PATH + 1];
  wchar_t path[MAX_PATH + 1];
  memory_stream *one = malloc(sizeof *one);
  if (one == NULL) return NULL;
  DWORD size = GetTempPathW(MAX_PATH + 1, directory);
  bool named = size > 0 && size <= MAX_PATH && GetTempFileNameW(directory, L"iob", 0, path) != 0;
  FILE *stream =
      named ? _wfopen(path, L"w+bTD") : NULL; /* T: kept in memory where there is room; D: removed when it is closed */
  if (stream == NULL) {
    free(one);
    return NULL;
  }
  *one = (memory_stream){stream, text, length, memory_streams};
  memory_streams = one;
  return stream;
}

/* All that was written, NUL-terminated. 0, or EOF with errno set. */
static int take_text(const memory_stream *one) {
  long end = fseek(one->stream, 0, SEEK_END) == 0 ? ftell(one->stream) : -1;
  *one->text = end < 0 ? NULL : malloc((size_t)end + 1);
  if (*one->text == NULL) return EOF;
  rewind(one->stream);
  *one->length = fread(*one->text, 1, (size_t)end, one->stream);
  (*one->text)[*one->length] = '\0';
  return *one->length == (size_t)end ? 0 : EOF;
}

int posix_fclose(FILE *stream) {
  int failure = 0;
  for (memory_stream **link = &memory_streams; *link != NULL; link = &(*link)->next) {
    memory_stream *one = *link;
    if (one->stream == stream) {
      failure = take_text(one);
      *link = one->next;
      free(one);
      break;
    }
  }
  return fclose(stream) != 0 ? EOF : failure;
}

int posix_rename(const char *from, const char *to) {
  if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING)) return 0;
  DWORD code = GetLastError();
  errno = code == ERROR_ACCESS_DENIED || code == ERROR_SHARING_VIOLATION ? EACCES : code == ERROR_PATH_NOT_FOUND ? ENOENT : EIO;
  return -1;
}

void *dlopen(const char *name, int flags) {
  (void)flags;
  return LoadLibraryA(name);
}

void *dlsym(void *library, const char *name) {
  FARPROC function = GetProcAddress(library, name);
  void *address;
  memcpy(&address, &function, sizeof address);
  return address;
}

char *dlerror(void) {
  static char text[256];
  DWORD code = GetLastError();
  DWORD length =
      FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, text, sizeof text, NULL);
  while (length > 0 && strchr(" \r\n.", text[length - 1]) != NULL) length--;
  snprintf(text + length, sizeof text - length, "%s (Windows error %lu)", length == 0 ? "it cannot be loaded" : "", code);
  return text;
}

int posix_isatty(int descriptor) {
  HANDLE console = (HANDLE)_get_osfhandle(descriptor);
  DWORD mode = 0;
  return _isatty(descriptor) && GetConsoleMode(console, &mode) &&
         SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}
