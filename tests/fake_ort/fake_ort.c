#include "fake_ort.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "forward.h"

FAKE_ORT_API const OrtApiBase *OrtGetApiBase(void);

typedef enum slot_returns { STATUS, POINTER, PLAIN } slot_returns;

static const struct {
  const char *name;
  slot_returns returns;
  bool hands_out; /* a pointer, through its last parameter */
} slots[] = {
#define SLOT_ROW(name, returns, hands_out) {#name, returns, hands_out},
    FAKE__SLOTS(SLOT_ROW)
#undef SLOT_ROW
};

static const char *const kinds[] = {
#define KIND_ROW(name) #name,
    FAKE__KINDS(KIND_ROW)
#undef KIND_ROW
};

const OrtApi *fake__real;
static const OrtApiBase *real_base;

/* ORT is called from several threads */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t counts[SLOT_COUNT];
static long alive[KIND_COUNT];
typedef struct failure {
  int slot;
  size_t nth;
  int code;
  char text[128];
  bool happened;
} failure;
enum { FAILURES = 4 };
static failure failures[FAILURES];
static size_t failure_count;
static struct {
  int slot; /* -1: none */
  void (*function)(void *context);
  void *context;
} hook = {.slot = -1};

/* ---- counting and failing ---- */

bool fake__enter(int slot, OrtStatus **status) {
  pthread_mutex_lock(&mutex);
  counts[slot]++;
  failure *one = NULL;
  for (size_t i = 0; i < failure_count && one == NULL; i++) {
    one = failures[i].slot == slot && failures[i].nth == counts[slot] ? &failures[i] : NULL;
  }
  if (one != NULL) {
    one->happened = true;
  }
  void (*hooked)(void *) = hook.slot == slot ? hook.function : NULL;
  pthread_mutex_unlock(&mutex);
  if (hooked != NULL) {
    hooked(hook.context);
  }
  if (one != NULL && status != NULL && one->code != ORT_OK) {
    *status = fake__leave(fake__real->CreateStatus((OrtErrorCode)one->code, one->text));
  }
  return one == NULL;
}

OrtStatus *fake__leave(OrtStatus *status) {
  fake__made(KIND_OrtStatus, status);
  return status;
}

static void count_alive(int kind, const void *object, long change) {
  pthread_mutex_lock(&mutex);
  alive[kind] += object == NULL ? 0 : change;
  pthread_mutex_unlock(&mutex);
}

void fake__made(int kind, const void *object) {
  count_alive(kind, object, 1);
}

void fake__gone(int kind, const void *object) {
  count_alive(kind, object, -1);
}

void fake__empty(OrtValue **output) {
  static float end;
  static const int64_t none = 0;
  OrtMemoryInfo *host = NULL;
  OrtValue *made = NULL;
  OrtStatus *failed = fake__real->CreateMemoryInfo_V2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                                      OrtDeviceAllocator, &host);
  if (failed == NULL) {
    failed =
        fake__real->CreateTensorWithDataAsOrtValue(host, &end + 1, 0, &none, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made);
    fake__real->ReleaseMemoryInfo(host);
  }
  if (failed != NULL) {
    fprintf(stderr, "fake ORT: a tensor without elements: %s\n", fake__real->GetErrorMessage(failed));
    abort();
  }
  fake__real->ReleaseValue(*output);
  *output = made;
}

/* ---- the EP's streams and notifications, which ORT lends ---- */

typedef struct fake_notification {
  OrtSyncNotificationImpl impl; /* first: the caller's pointer */
  OrtSyncNotificationImpl *real;
} fake_notification;

typedef struct fake_stream {
  OrtSyncStreamImpl impl; /* first, as above */
  OrtSyncStreamImpl *real;
  struct fake_stream *next;
} fake_stream;

static fake_stream *streams; /* one for each address that the EP ever lent; none is freed */

static OrtSyncNotificationImpl *real_of(OrtSyncNotificationImpl *self) {
  return ((fake_notification *)self)->real;
}

static void ORT_CALL notification_release(OrtSyncNotificationImpl *self) {
  real_of(self)->Release(real_of(self));
  fake__gone(KIND_notification, self);
  free(self);
}

static OrtStatus *ORT_CALL notification_activate(OrtSyncNotificationImpl *self) {
  OrtStatus *status = NULL;
  return fake__enter(SLOT_Activate, &status) ? fake__leave(real_of(self)->Activate(real_of(self))) : status;
}

static OrtStatus *ORT_CALL notification_wait_on_device(OrtSyncNotificationImpl *self, OrtSyncStream *consumer) {
  OrtStatus *status = NULL;
  return fake__enter(SLOT_WaitOnDevice, &status) ? fake__leave(real_of(self)->WaitOnDevice(real_of(self), consumer)) : status;
}

static OrtStatus *ORT_CALL notification_wait_on_host(OrtSyncNotificationImpl *self) {
  OrtStatus *status = NULL;
  return fake__enter(SLOT_WaitOnHost, &status) ? fake__leave(real_of(self)->WaitOnHost(real_of(self))) : status;
}

static OrtStatus *ORT_CALL create_notification(OrtSyncStreamImpl *self, OrtSyncNotificationImpl **out) {
  OrtStatus *status = NULL;
  if (!fake__enter(SLOT_CreateNotification, &status)) {
    return status;
  }
  OrtSyncStreamImpl *real = ((fake_stream *)self)->real;
  fake_notification *made = calloc(1, sizeof *made);
  if (made == NULL) {
    return fake__leave(fake__real->CreateStatus(ORT_FAIL, "the fake ORT is out of memory"));
  }
  status = fake__leave(real->CreateNotification(real, &made->real));
  if (status != NULL) {
    free(made);
    return status;
  }
  made->impl = *made->real;
  made->impl.Release = notification_release;
  made->impl.Activate = notification_activate;
  made->impl.WaitOnDevice = notification_wait_on_device;
  made->impl.WaitOnHost = notification_wait_on_host;
  fake__made(KIND_notification, made);
  *out = &made->impl;
  return NULL;
}

static const OrtSyncStreamImpl *ORT_CALL get_stream_impl(const OrtSyncStream *stream) {
  if (!fake__enter(SLOT_SyncStream_GetImpl, NULL)) {
    return NULL;
  }
  OrtSyncStreamImpl *real = (OrtSyncStreamImpl *)(uintptr_t)fake__real->GetEpApi()->SyncStream_GetImpl(stream);
  pthread_mutex_lock(&mutex);
  fake_stream *one = streams;
  while (one != NULL && one->real != real) {
    one = one->next;
  }
  if (one == NULL && real != NULL) {
    one = calloc(1, sizeof *one);
    if (one != NULL) {
      *one = (fake_stream){.real = real, .next = streams};
      streams = one;
    }
  }
  if (one != NULL) {
    one->impl = *real;
    one->impl.CreateNotification = create_notification;
  }
  pthread_mutex_unlock(&mutex);
  return one == NULL ? NULL : &one->impl;
}

/* ---- ORT's tables, copied ---- */

static OrtApi table;
static OrtEpApi ep_table;
static OrtModelEditorApi editor_table;
static OrtInteropApi interop_table;

static const OrtEpApi *ORT_CALL get_ep_api(void) {
  return fake__enter(SLOT_GetEpApi, NULL) ? &ep_table : NULL;
}

static OrtStatus *ORT_CALL get_opset(const OrtSession *session, const char *domain, int *opset) {
  OrtStatus *status = NULL;
  return fake__enter(SLOT_SessionGetOpsetForDomain, &status)
             ? fake__leave(fake__real->GetModelEditorApi()->SessionGetOpsetForDomain(session, domain, opset))
             : status;
}

static const OrtModelEditorApi *ORT_CALL get_editor_api(void) {
  return fake__enter(SLOT_GetModelEditorApi, NULL) ? &editor_table : NULL;
}

static const OrtInteropApi *ORT_CALL get_interop_api(void) {
  return fake__enter(SLOT_GetInteropApi, NULL) ? &interop_table : NULL;
}

static const char *ep_name; /* NULL: its own */

static const char *ORT_CALL get_ep_name(const OrtEpDevice *device) {
  if (!fake__enter(SLOT_EpDevice_EpName, NULL)) {
    return NULL;
  }
  const char *name = fake__real->EpDevice_EpName(device);
  return ep_name == NULL || strcmp(name, "CPUExecutionProvider") == 0 ? name : ep_name;
}

/* A program asks for the table in one version, which is then the only one. */
static const OrtApi *ORT_CALL get_api(uint32_t version) {
  const OrtApi *real = fake__enter(SLOT_GetApi, NULL) ? real_base->GetApi(version) : NULL;
  if (real != NULL && fake__real == NULL) {
    fake__real = real;
    table = *real;
    ep_table = *real->GetEpApi();
    editor_table = *real->GetModelEditorApi();
    interop_table = *real->GetInteropApi();
    fake__fill(&table);
    fake__fill_interop(&interop_table);
    table.GetInteropApi = get_interop_api;
    table.GetEpApi = get_ep_api;
    table.EpDevice_EpName = get_ep_name;
    table.GetModelEditorApi = get_editor_api;
    ep_table.SyncStream_GetImpl = get_stream_impl;
    editor_table.SessionGetOpsetForDomain = get_opset;
  }
  return real == NULL ? NULL : &table;
}

static const char *ORT_CALL get_version(void) {
  return fake__enter(SLOT_GetVersionString, NULL) ? real_base->GetVersionString() : NULL;
}

const OrtApiBase *OrtGetApiBase(void) {
  static const OrtApiBase base = {get_api, get_version};
  const char *path = getenv("FAKE_ORT_REAL");
  if (real_base == NULL && path != NULL) {
    char file[1024];
    struct stat status;
    bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    snprintf(file, sizeof file, "%s%s", path, is_folder ? "/libonnxruntime.so" : "");
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library == NULL ? NULL : dlsym(library, "OrtGetApiBase");
    OrtGetApiBaseFunction get_base;
    memcpy(&get_base, &symbol, sizeof get_base);
    real_base = symbol == NULL ? NULL : get_base();
  }
  if (real_base == NULL) {
    fprintf(stderr, "fake ORT: FAKE_ORT_REAL is %s: expected the file or folder of an ONNX Runtime\n",
            path == NULL ? "not set" : path);
    return NULL;
  }
  return &base;
}

/* ---- what a test asks ---- */

static int find_slot(const char *name) {
  for (int i = 0; i < SLOT_COUNT; i++) {
    if (strcmp(slots[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

const char *fake_ort_slot(size_t index) {
  return index < SLOT_COUNT ? slots[index].name : NULL;
}

size_t fake_ort_count(const char *slot) {
  int found = find_slot(slot);
  pthread_mutex_lock(&mutex);
  size_t count = found < 0 ? 0 : counts[found];
  pthread_mutex_unlock(&mutex);
  return count;
}

bool fake_ort_can_fail(const char *slot) {
  int found = find_slot(slot);
  return found >= 0 && slots[found].returns != PLAIN;
}

bool fake_ort_returns_status(const char *slot) {
  int found = find_slot(slot);
  return found >= 0 && slots[found].returns == STATUS;
}

static bool add_failure(int slot, size_t nth, int code, const char *text) {
  pthread_mutex_lock(&mutex);
  bool room = failure_count < FAILURES;
  if (room) {
    failure *one = &failures[failure_count++];
    *one = (failure){.slot = slot, .nth = nth, .code = code};
    snprintf(one->text, sizeof one->text, "%s", text);
  }
  pthread_mutex_unlock(&mutex);
  return room;
}

bool fake_ort_fail(const char *slot, size_t nth, int code, const char *text) {
  int found = find_slot(slot);
  bool useless = code == ORT_OK && found >= 0 && slots[found].returns == STATUS && !slots[found].hands_out;
  return fake_ort_can_fail(slot) && !useless && add_failure(found, nth, code, text);
}

bool fake_ort_leave_out(const char *slot, size_t nth) {
  int found = find_slot(slot);
  return found >= 0 && slots[found].returns == STATUS && add_failure(found, nth, ORT_OK, "");
}

void fake_ort_hook(const char *slot, void (*function)(void *context), void *context) {
  pthread_mutex_lock(&mutex);
  hook.slot = function == NULL ? -1 : find_slot(slot);
  hook.function = function;
  hook.context = context;
  pthread_mutex_unlock(&mutex);
}

void fake_ort_name_eps(const char *name) {
  ep_name = name;
}

bool fake_ort_has_failed(void) {
  pthread_mutex_lock(&mutex);
  bool happened = failure_count > 0 && failures[0].happened;
  pthread_mutex_unlock(&mutex);
  return happened;
}

void fake_ort_reset(void) {
  pthread_mutex_lock(&mutex);
  memset(counts, 0, sizeof counts);
  failure_count = 0;
  hook.slot = -1;
  pthread_mutex_unlock(&mutex);
}

const char *fake_ort_kind(size_t index) {
  return index < KIND_COUNT ? kinds[index] : NULL;
}

long fake_ort_alive(size_t index) {
  pthread_mutex_lock(&mutex);
  long count = index < KIND_COUNT ? alive[index] : 0;
  pthread_mutex_unlock(&mutex);
  return count;
}
