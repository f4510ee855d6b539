#include "system.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <wchar.h>
#include <windows.h>

size_t vdev_page_size(void) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

void *vdev_pages_reserve(size_t bytes, bool closed) {
  return VirtualAlloc(NULL, bytes, MEM_RESERVE, closed ? PAGE_NOACCESS : PAGE_READWRITE);
}

void vdev_pages_release(void *start, size_t bytes) {
  (void)bytes;
  VirtualFree(start, 0, MEM_RELEASE);
}

bool vdev_pages_use(void *start, size_t bytes) {
  return bytes == 0 || VirtualAlloc(start, bytes, MEM_COMMIT, PAGE_READWRITE) != NULL;
}

bool vdev_shared_by_handle(void) {
  return true;
}

bool vdev_shared_size(const void *handle, size_t *bytes) {
  void *view = vdev_shared_map(handle, 0, 0); /* 0: all of it */
  MEMORY_BASIC_INFORMATION info;
  bool good = view != NULL && VirtualQuery(view, &info, sizeof info) != 0;
  *bytes = good ? info.RegionSize : 0;
  vdev_shared_unmap(view, 0);
  return good;
}

size_t vdev_shared_granularity(void) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwAllocationGranularity;
}

void *vdev_shared_map(const void *handle, size_t offset, size_t bytes) {
  HANDLE mapping = (HANDLE)(uintptr_t)handle;
  errno = EINVAL;
  return MapViewOfFile(mapping, FILE_MAP_READ | FILE_MAP_WRITE, (DWORD)((uint64_t)offset >> 32), (DWORD)offset, bytes);
}

void vdev_shared_unmap(void *view, size_t bytes) {
  (void)bytes;
  if (view != NULL) {
    UnmapViewOfFile(view);
  }
}

bool vdev_pages_twice(size_t bytes, void *views[2]) {
  HANDLE pages = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(bytes >> 32), (DWORD)bytes, NULL);
  views[0] = pages == NULL ? NULL : MapViewOfFile(pages, FILE_MAP_ALL_ACCESS, 0, 0, bytes);
  views[1] = views[0] == NULL ? NULL : MapViewOfFile(pages, FILE_MAP_ALL_ACCESS, 0, 0, bytes);
  if (pages != NULL) {
    CloseHandle(pages); /* the views keep the pages */
  }
  if (views[1] == NULL && views[0] != NULL) {
    UnmapViewOfFile(views[0]);
  }
  errno = ENOMEM;
  return views[1] != NULL;
}

void vdev_pages_untwice(size_t bytes, void *const views[2]) {
  (void)bytes;
  UnmapViewOfFile(views[0]);
  UnmapViewOfFile(views[1]);
}

void vdev_pages_protect(void *start, size_t bytes, vdev_page_access access) {
  static const DWORD modes[] = {
      [VDEV_PAGE_CLOSED] = PAGE_NOACCESS, [VDEV_PAGE_READABLE] = PAGE_READONLY, [VDEV_PAGE_WRITABLE] = PAGE_READWRITE};
  DWORD before;
  VirtualProtect(start, bytes, modes[access], &before);
}

void *vdev_aligned_allocate(size_t alignment, size_t bytes) {
  return _aligned_malloc(bytes, alignment);
}

void vdev_aligned_free(void *memory) {
  _aligned_free(memory);
}

int64_t vdev_system_time(void) {
  LARGE_INTEGER ticks;
  LARGE_INTEGER second;
  QueryPerformanceCounter(&ticks);
  QueryPerformanceFrequency(&second);
  int64_t whole = ticks.QuadPart / second.QuadPart;
  return whole * 1000000000 + ticks.QuadPart % second.QuadPart * 1000000000 / second.QuadPart;
}

double vdev_decimal(const char *text, char **end) {
  _locale_t plain = _create_locale(LC_NUMERIC, "C");
  if (plain == NULL) {
    errno = ENOMEM;
    *end = (char *)(uintptr_t)text;
    return 0;
  }
  double value = _strtod_l(text, end, plain);
  int why = errno;
  _free_locale(plain);
  errno = why;
  return value;
}

enum { LONGEST = 4096 };

/* False, with errno: it is not a path. */
static bool to_wide(const char *path, wchar_t wide[LONGEST]) {
  errno = EINVAL;
  return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, LONGEST) > 0;
}

FILE *vdev_file_create(const char *path) {
  wchar_t wide[LONGEST];
  if (!to_wide(path, wide)) {
    return NULL;
  }
  (void)_wunlink(wide);
  int file = _wopen(wide, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
  FILE *stream = file < 0 ? NULL : _wfdopen(file, L"wb");
  if (stream == NULL && file >= 0) {
    _close(file);
  }
  return stream;
}

FILE *vdev_file_rewrite(const char *path) {
  wchar_t wide[LONGEST];
  return to_wide(path, wide) ? _wfopen(wide, L"wb") : NULL;
}

bool vdev_file_is_writable(const char *path) {
  wchar_t wide[LONGEST];
  int file = !to_wide(path, wide)
                 ? -1
                 : _wopen(wide, _O_WRONLY | _O_CREAT | _O_APPEND | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
  if (file >= 0) {
    _close(file);
  }
  return file >= 0;
}

#endif
