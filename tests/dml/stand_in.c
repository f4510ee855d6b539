/* Mocks of Direct3D, for a system without it, and for the interface that ORT has for DirectML. The virtual accelerator takes the place
 * of the adapter: sessions run there, and its memory is behind the handles. Queues do at once what is submitted, or once a fence that
 * they wait for has its value; only runs do not wait. */
#include "stand_in.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"
#include "place.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static stand_in_record seen;
static size_t fail_at; /* by seen.calls; 0: none */
static const OrtApi *real;
static OrtApi table;

/* ---- objects ---- */

typedef struct object {
  const void *table; /* first, as Direct3D has it */
  long references;
  struct object *device; /* a reference is held; NULL: it is one */
  bool borrows;          /* its memory is ORT's */
  void *memory;          /* a resource's */
  d3d12_resource_desc desc;
  d3d12_heap heap;
  uint64_t value;      /* a fence's */
  int32_t type;        /* a queue's */
  d3d_luid luid;       /* a device's */
  struct copy *copies; /* a list's */
  size_t count;
} object;

typedef struct copy {
  object *to, *from;
  uint64_t to_offset, from_offset, bytes;
} copy;

static bool removed;

/* With the mutex held. */
static d3d_result next_result(void) {
  enum { E_OUT_OF_MEMORY = (int32_t)0x8007000e };
  return ++seen.calls == fail_at ? E_OUT_OF_MEMORY : 0;
}

static object *new_object(const void *functions, object *device) {
  object *made = calloc(1, sizeof *made);
  if (made != NULL) {
    made->table = functions;
    made->references = 1;
    made->device = device;
    pthread_mutex_lock(&mutex);
    if (device != NULL) {
      device->references++;
    }
    seen.objects++;
    pthread_mutex_unlock(&mutex);
  }
  return made;
}

static OrtEnv *begin_env(void) {
  OrtEnv *env = NULL;
  OrtStatus *status = real->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "stand-in", &env); /* the process has one */
  if (status != NULL) {
    abort();
  }
  return env;
}

static const OrtEpDevice *find_vdev(OrtEnv *env) {
  const OrtEpDevice *const *devices = NULL;
  size_t count = 0;
  if (real->GetEpDevices(env, &devices, &count) != NULL) {
    abort();
  }
  for (size_t i = 0; i < count; i++) {
    if (strcmp(real->EpDevice_EpName(devices[i]), "VirtualDeviceExecutionProvider") == 0) {
      return devices[i];
    }
  }
  return NULL;
}

static void *allocate(const object *resource, uint64_t bytes, void *old) {
  if (resource->heap.type != D3D12_HEAP_DEFAULT) {
    free(old);
    return old != NULL ? NULL : calloc(1, bytes);
  }
  OrtEnv *env = begin_env();
  const OrtMemoryInfo *info = real->EpDevice_MemoryInfo(find_vdev(env), OrtDeviceMemoryType_DEFAULT);
  OrtAllocator *allocator = NULL;
  if (real->GetSharedAllocator(env, info, &allocator) != NULL || allocator == NULL) {
    abort();
  }
  void *made = NULL;
  if (old != NULL) {
    allocator->Free(allocator, old);
  } else {
    made = allocator->Alloc(allocator, bytes);
  }
  real->ReleaseEnv(env);
  return made;
}

static uint32_t retain(d3d_object *self) {
  pthread_mutex_lock(&mutex);
  long references = ++((object *)self)->references;
  pthread_mutex_unlock(&mutex);
  return (uint32_t)references;
}

static uint32_t release(d3d_object *self) {
  object *gone = (object *)self;
  pthread_mutex_lock(&mutex);
  long references = --gone->references;
  seen.objects -= references == 0;
  pthread_mutex_unlock(&mutex);
  if (references == 0) {
    if (gone->memory != NULL && !gone->borrows) {
      allocate(gone, 0, gone->memory);
    }
    if (gone->device != NULL) {
      release((d3d_object *)gone->device);
    }
    free(gone->copies);
    free(gone);
  }
  return (uint32_t)references;
}

static d3d_result query(d3d_object *self, const d3d_guid *id, void **out) {
  (void)self, (void)id;
  *out = NULL;
  return -1;
}

static d3d_result get_device(object *self, void **device) {
  *device = self->device;
  retain((d3d_object *)self->device);
  return 0;
}

/* Every table begins with these. */
#define COMMON(name)                       \
  do {                                     \
    (name).slots_0[0] = (d3d_slot)query;   \
    (name).slots_0[1] = (d3d_slot)retain;  \
    (name).slots_0[2] = (d3d_slot)release; \
  } while (0)

static d3d12_device_table device_functions;
static d3d12_resource_table resource_functions;
static d3d12_queue_table queue_functions;
static d3d12_fence_table fence_functions;
static d3d12_allocator_table allocator_functions;
static d3d12_list_table list_functions;
static dml_device_table dml_functions;

/* ---- what a device makes ---- */

static d3d_result give(object *made, void **out) {
  pthread_mutex_lock(&mutex);
  d3d_result result = made == NULL ? -1 : next_result();
  pthread_mutex_unlock(&mutex);
  *out = NULL;
  if (result < 0 && made != NULL) {
    release((d3d_object *)made);
  } else {
    *out = made;
  }
  return result;
}

static d3d_result create_queue(d3d12_device *self, const d3d12_queue_desc *desc, const d3d_guid *id, void **out) {
  object *made = new_object(&queue_functions, (object *)self);
  (void)id;
  if (made != NULL) {
    made->type = desc->type;
  }
  return give(made, out);
}

static d3d_result create_allocator(d3d12_device *self, int32_t type, const d3d_guid *id, void **out) {
  (void)type, (void)id;
  return give(new_object(&allocator_functions, (object *)self), out);
}

static d3d_result create_list(d3d12_device *self, uint32_t mask, int32_t type, d3d12_allocator *allocator, void *pipeline,
                              const d3d_guid *id, void **out) {
  (void)mask, (void)type, (void)allocator, (void)pipeline, (void)id;
  return give(new_object(&list_functions, (object *)self), out);
}

static d3d_result create_fence(d3d12_device *self, uint64_t value, int32_t flags, const d3d_guid *id, void **out) {
  (void)value, (void)flags, (void)id;
  return give(new_object(&fence_functions, (object *)self), out);
}

static d3d_result create_resource(d3d12_device *self, const d3d12_heap *heap, int32_t heap_flags,
                                  const d3d12_resource_desc *desc, int32_t state, const void *clear, const d3d_guid *id,
                                  void **out) {
  object *made = new_object(&resource_functions, (object *)self);
  (void)heap_flags, (void)state, (void)clear, (void)id;
  if (made != NULL) {
    made->heap = *heap;
    made->desc = *desc;
    made->memory = allocate(made, desc->width, NULL);
  }
  return give(made, out);
}

static d3d_result removed_reason(d3d12_device *self) {
  (void)self;
  return removed ? (d3d_result)0x887a0006 : 0;
}

static d3d_luid *get_luid(d3d12_device *self, d3d_luid *luid) {
  *luid = ((object *)self)->luid;
  return luid;
}

/* ---- resources, fences ---- */

static d3d_result resource_device(d3d12_resource *self, const d3d_guid *id, void **out) {
  (void)id;
  return get_device((object *)self, out);
}

static d3d_result map(d3d12_resource *self, uint32_t part, const void *range, void **data) {
  (void)part, (void)range;
  pthread_mutex_lock(&mutex);
  d3d_result result = next_result();
  pthread_mutex_unlock(&mutex);
  *data = ((object *)self)->memory;
  return result;
}

static d3d12_resource_desc *resource_desc(d3d12_resource *self, d3d12_resource_desc *desc) {
  *desc = ((object *)self)->desc;
  return desc;
}

static d3d_result heap_properties(d3d12_resource *self, d3d12_heap *heap, int32_t *flags) {
  *heap = ((object *)self)->heap;
  *flags = 0;
  return 0;
}

static d3d_result fence_device(d3d12_fence *self, const d3d_guid *id, void **out) {
  (void)id;
  return get_device((object *)self, out);
}

static uint64_t completed(d3d12_fence *self) {
  pthread_mutex_lock(&mutex);
  uint64_t value = removed ? UINT64_MAX : ((object *)self)->value;
  pthread_mutex_unlock(&mutex);
  return value;
}

/* ---- queues and lists ---- */

/* What a queue was given while it waits. */
typedef struct submission {
  struct submission *next;
  object *queue;
  enum { LIST, SIGNAL, WAIT } kind;
  object *object; /* a list or a fence */
  uint64_t value;
} submission;

static submission *held; /* of all queues, the oldest first */

static struct {
  object *fence; /* NULL: none */
  uint64_t value;
} later;

static void do_copy(const copy *one);

/* With the mutex held. Does it still have to wait? */
static bool must_wait(const submission *one) {
  for (const submission *before = held; before != NULL && before != one; before = before->next) {
    if (before->queue == one->queue) {
      return true;
    }
  }
  return one->kind == WAIT && one->object->value < one->value;
}

/* With the mutex held. */
static void perform(const submission *one) {
  if (one->kind == SIGNAL) {
    one->object->value = one->value;
  }
  for (size_t i = 0; one->kind == LIST && i < one->object->count; i++) {
    do_copy(&one->object->copies[i]);
    seen.copies++;
  }
}

/* With the mutex held: what need not wait any more is done. */
static void advance(void) {
  submission **link = &held;
  while (*link != NULL) {
    submission *one = *link;
    if (must_wait(one)) {
      link = &one->next;
      continue;
    }
    perform(one);
    *link = one->next;
    free(one);
    link = &held; /* others may have waited for it */
  }
}

/* With the mutex held. */
static void submit(submission one) {
  submission **link = &held;
  while (*link != NULL) {
    link = &(*link)->next;
  }
  *link = malloc(sizeof one);
  if (*link == NULL) {
    abort();
  }
  **link = one;
  advance();
}

static d3d_result await_value(d3d12_fence *self, uint64_t value, void *event) {
  (void)event;
  pthread_mutex_lock(&mutex);
  d3d_result result = next_result();
  if (later.fence != NULL) {
    later.fence->value = later.value;
    later.fence = NULL;
    advance();
  }
  seen.early_waits += ((object *)self)->value < value;
  pthread_mutex_unlock(&mutex);
  return result;
}

static d3d_result host_signal(d3d12_fence *self, uint64_t value) {
  pthread_mutex_lock(&mutex);
  ((object *)self)->value = value;
  advance();
  pthread_mutex_unlock(&mutex);
  return 0;
}

void native_signal_later(d3d12_fence *fence, uint64_t value) {
  pthread_mutex_lock(&mutex);
  later.fence = (object *)fence;
  later.value = value;
  pthread_mutex_unlock(&mutex);
}

static d3d_result queue_device(d3d12_queue *self, const d3d_guid *id, void **out) {
  (void)id;
  return get_device((object *)self, out);
}

static d3d12_queue_desc *queue_desc(d3d12_queue *self, d3d12_queue_desc *desc) {
  *desc = (d3d12_queue_desc){.type = ((object *)self)->type};
  return desc;
}

static OrtValue *bytes_of(const object *resource, uint64_t offset, uint64_t bytes, const OrtMemoryInfo *info) {
  const int64_t dims[1] = {(int64_t)bytes};
  OrtValue *value = NULL;
  if (real->CreateTensorWithDataAsOrtValue(info, (char *)resource->memory + offset, bytes, dims, 1,
                                           ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, &value) != NULL) {
    abort();
  }
  return value;
}

static void do_copy(const copy *one) {
  OrtEnv *env = begin_env();
  const OrtMemoryInfo *device = real->EpDevice_MemoryInfo(find_vdev(env), OrtDeviceMemoryType_DEFAULT);
  OrtMemoryInfo *host = NULL;
  if (real->CreateMemoryInfo_V2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator,
                                &host) != NULL) {
    abort();
  }
  OrtValue *from =
      bytes_of(one->from, one->from_offset, one->bytes, one->from->heap.type == D3D12_HEAP_DEFAULT ? device : host);
  OrtValue *to = bytes_of(one->to, one->to_offset, one->bytes, one->to->heap.type == D3D12_HEAP_DEFAULT ? device : host);
  const OrtValue *source = from;
  OrtStatus *status = real->CopyTensors(env, &source, &to, NULL, 1);
  if (status != NULL) {
    printf("stand-in: %s\n", real->GetErrorMessage(status));
    abort();
  }
  real->ReleaseValue(from);
  real->ReleaseValue(to);
  real->ReleaseMemoryInfo(host);
  real->ReleaseEnv(env);
}

static void execute(d3d12_queue *self, uint32_t count, d3d12_list *const *lists) {
  pthread_mutex_lock(&mutex);
  for (uint32_t i = 0; i < count; i++) {
    submit((submission){.queue = (object *)self, .kind = LIST, .object = (object *)lists[i]});
  }
  pthread_mutex_unlock(&mutex);
}

static d3d_result queue_signal(d3d12_queue *self, d3d12_fence *fence, uint64_t value) {
  pthread_mutex_lock(&mutex);
  d3d_result result = next_result();
  if (result >= 0) {
    submit((submission){.queue = (object *)self, .kind = SIGNAL, .object = (object *)fence, .value = value});
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

static d3d_result queue_wait(d3d12_queue *self, d3d12_fence *fence, uint64_t value) {
  pthread_mutex_lock(&mutex);
  d3d_result result = next_result();
  if (((object *)self)->type == D3D12_COPY) {
    seen.copy_waits++;
  } else {
    seen.run_waits++;
  }
  seen.early_waits += ((object *)fence)->value < value;
  if (result >= 0) {
    submit((submission){.queue = (object *)self, .kind = WAIT, .object = (object *)fence, .value = value});
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

static d3d_result may_fail(void) {
  pthread_mutex_lock(&mutex);
  d3d_result result = next_result();
  pthread_mutex_unlock(&mutex);
  return result;
}

static d3d_result reset_allocator(d3d12_allocator *self) {
  (void)self;
  return may_fail();
}

static d3d_result close_list(d3d12_list *self) {
  (void)self;
  return may_fail();
}

static d3d_result reset_list(d3d12_list *self, d3d12_allocator *allocator, void *pipeline) {
  (void)allocator, (void)pipeline;
  ((object *)self)->count = 0;
  return may_fail();
}

static void copy_region(d3d12_list *self, d3d12_resource *to, uint64_t to_offset, d3d12_resource *from, uint64_t from_offset,
                        uint64_t bytes) {
  object *list = (object *)self;
  copy *longer = realloc(list->copies, (list->count + 1) * sizeof *longer);
  if (longer == NULL) {
    abort();
  }
  list->copies = longer;
  list->copies[list->count++] = (copy){(object *)to, (object *)from, to_offset, from_offset, bytes};
}

static d3d_result parent_device(dml_device *self, const d3d_guid *id, void **out) {
  (void)id;
  return get_device((object *)self, out);
}

static void fill_tables(void) {
  COMMON(device_functions);
  device_functions.CreateCommandQueue = create_queue;
  device_functions.CreateCommandAllocator = create_allocator;
  device_functions.CreateCommandList = create_list;
  device_functions.CreateCommittedResource = create_resource;
  device_functions.CreateFence = create_fence;
  device_functions.GetDeviceRemovedReason = removed_reason;
  device_functions.GetAdapterLuid = get_luid;
  COMMON(resource_functions);
  resource_functions.GetDevice = resource_device;
  resource_functions.Map = map;
  resource_functions.GetDesc = resource_desc;
  resource_functions.GetHeapProperties = heap_properties;
  COMMON(queue_functions);
  queue_functions.GetDevice = queue_device;
  queue_functions.ExecuteCommandLists = execute;
  queue_functions.Signal = queue_signal;
  queue_functions.Wait = queue_wait;
  queue_functions.GetDesc = queue_desc;
  COMMON(fence_functions);
  fence_functions.GetDevice = fence_device;
  fence_functions.GetCompletedValue = completed;
  fence_functions.SetEventOnCompletion = await_value;
  fence_functions.slots_10[0] = (d3d_slot)host_signal;
  COMMON(allocator_functions);
  allocator_functions.Reset = reset_allocator;
  COMMON(list_functions);
  list_functions.Close = close_list;
  list_functions.Reset = reset_list;
  list_functions.CopyBufferRegion = copy_region;
  COMMON(dml_functions);
  dml_functions.GetParentDevice = parent_device;
}

/* ---- ORT's interface for DirectML ---- */

static OrtStatus *fail_status(void) {
  return may_fail() < 0 ? real->CreateStatus(ORT_FAIL, "the stand-in was asked to fail") : NULL;
}

static OrtStatus *ORT_CALL append(OrtSessionOptions *options, void *dml, void *queue) {
  OrtStatus *status = fail_status();
  if (status != NULL) {
    return status;
  }
  if (*(const void **)dml != (const void *)&dml_functions || *(const void **)queue != (const void *)&queue_functions) {
    return real->CreateStatus(ORT_INVALID_ARGUMENT, "not a DirectML device and a queue");
  }
  OrtEnv *env = begin_env();
  const OrtEpDevice *vdev = find_vdev(env);
  status = real->SessionOptionsAppendExecutionProvider_V2(options, env, &vdev, 1, NULL, NULL, 0);
  real->ReleaseEnv(env);
  return status;
}

static OrtStatus *ORT_CALL make_handle(void *resource, void **handle) {
  OrtStatus *status = fail_status();
  if (status == NULL) {
    *handle = ((object *)resource)->memory;
    pthread_mutex_lock(&mutex);
    seen.handles++;
    pthread_mutex_unlock(&mutex);
  }
  return status;
}

static OrtStatus *ORT_CALL free_handle(void *handle) {
  (void)handle;
  pthread_mutex_lock(&mutex);
  seen.handles--;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static OrtStatus *ORT_CALL find_resource(OrtAllocator *allocator, void *handle, void **resource) {
  char why[256];
  OrtStatus *status = fail_status();
  if (status != NULL) {
    return status;
  }
  if (allocator == NULL) {
    return real->CreateStatus(ORT_INVALID_ARGUMENT, "no allocator");
  }
  object *made = new_object(&resource_functions, (object *)native_device(why));
  if (made != NULL) {
    made->borrows = true;
    made->memory = handle;
    made->heap.type = D3D12_HEAP_DEFAULT;
  }
  *resource = made;
  return NULL;
}

static OrtStatus *ORT_CALL get_provider_api(const char *name, uint32_t version, const void **api) {
  static const OrtDmlApi functions = {.SessionOptionsAppendExecutionProvider_DML1 = append,
                                      .CreateGPUAllocationFromD3DResource = make_handle,
                                      .FreeGPUAllocation = free_handle,
                                      .GetD3D12ResourceFromAllocation = find_resource};
  (void)version;
  *api = &functions;
  return strcmp(name, "DML") == 0 ? NULL : real->CreateStatus(ORT_INVALID_ARGUMENT, "no such interface");
}

static bool is_vdev(const OrtEpDevice *device) {
  return strcmp(real->EpDevice_EpName(device), "VirtualDeviceExecutionProvider") == 0;
}

static const char *ORT_CALL ep_name(const OrtEpDevice *device) {
  return is_vdev(device) ? "DmlExecutionProvider" : real->EpDevice_EpName(device);
}

/* Such a device tells no memory, and its EP neither copies nor allocates. */
static const OrtMemoryInfo *ORT_CALL ep_memory(const OrtEpDevice *device, OrtDeviceMemoryType type) {
  return is_vdev(device) ? NULL : real->EpDevice_MemoryInfo(device, type);
}

static OrtStatus *ORT_CALL no_copies(const OrtEnv *env, const OrtValue *const *from, OrtValue *const *to, OrtSyncStream *stream,
                                     size_t count) {
  (void)env, (void)from, (void)to, (void)stream, (void)count;
  return real->CreateStatus(ORT_NOT_IMPLEMENTED, "no data transfer");
}

static OrtStatus *ORT_CALL make_info(const char *name, OrtMemoryInfoDeviceType type, uint32_t vendor, int32_t id,
                                     OrtDeviceMemoryType memory, size_t alignment, OrtAllocatorType allocator,
                                     OrtMemoryInfo **out) {
  if (strcmp(name, "DML") == 0) {
    OrtEnv *env = begin_env();
    const OrtMemoryInfo *own = real->EpDevice_MemoryInfo(find_vdev(env), OrtDeviceMemoryType_DEFAULT);
    int its = 0;
    real->MemoryInfoGetDeviceType(own, &type);
    vendor = real->MemoryInfoGetVendorId(own);
    if (real->MemoryInfoGetId(own, &its) != NULL) {
      abort();
    }
    id = its;
    real->ReleaseEnv(env);
  }
  return real->CreateMemoryInfo_V2(name, type, vendor, id, memory, alignment, allocator, out);
}

static const char *ORT_CALL metadata(const OrtKeyValuePairs *pairs, const char *key) {
  return strcmp(key, "LUID") == 0 ? "1012" : real->GetKeyValue(pairs, key);
}

/* The queue of runs is done when a run returns, as all queues of the mocks are. */
static OrtStatus *ORT_CALL run(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
  OrtStatus *status = real->RunWithBinding(session, options, binding);
  return status != NULL ? status : real->SynchronizeBoundOutputs((OrtIoBinding *)(uintptr_t)binding);
}

static const OrtApiBase *real_base;

static const OrtApi *ORT_CALL get_api(uint32_t version) {
  const OrtApi *found = real_base->GetApi(version);
  if (found != NULL && real == NULL) {
    real = found;
    table = *found;
    table.GetExecutionProviderApi = get_provider_api;
    table.EpDevice_EpName = ep_name;
    table.EpDevice_MemoryInfo = ep_memory;
    table.CopyTensors = no_copies;
    table.CreateMemoryInfo_V2 = make_info;
    table.GetKeyValue = metadata;
    table.RunWithBinding = run;
  }
  return found == NULL ? NULL : &table;
}

static const char *ORT_CALL get_version(void) {
  return real_base->GetVersionString();
}

void native_options(iobind_runtime_options *options) {
  static const OrtApiBase base = {get_api, get_version};
  static char vdev[600];
  static const char *const libraries[1] = {vdev};
  char why[TEST_WHY];
  real_base = test_ort(why);
  if (real_base == NULL || !test_path("lib/libiobind_vdev.so", vdev, sizeof vdev)) {
    printf("stand-in: no ONNX Runtime\n");
    exit(1);
  }
  options->ort_api_base = &base;
  options->ep_libraries = libraries;
  options->ep_library_count = 1;
}

/* ---- for the test ---- */

static object *devices[2];

static d3d12_device *device_at(int index) {
  if (devices[0] == NULL) {
    fill_tables();
    for (int i = 0; i < 2; i++) {
      devices[i] = new_object(&device_functions, NULL);
    }
    devices[0]->luid.low = 1012;
    devices[1]->luid.low = 77;
  }
  return (d3d12_device *)devices[index];
}

d3d12_device *native_device(char why[256]) {
  why[0] = '\0';
  return device_at(0);
}

d3d12_device *native_other_device(void) {
  return device_at(1);
}

dml_device *native_dml(d3d12_device *device) {
  return (dml_device *)new_object(&dml_functions, (object *)device);
}

bool native_is_queued(void) {
  return false;
}

stand_in_record stand_in_read(void) {
  pthread_mutex_lock(&mutex);
  stand_in_record copy_of = seen;
  pthread_mutex_unlock(&mutex);
  return copy_of;
}

void stand_in_fail(size_t nth) {
  pthread_mutex_lock(&mutex);
  fail_at = nth == 0 ? 0 : seen.calls + nth;
  pthread_mutex_unlock(&mutex);
}

void stand_in_remove(void) {
  pthread_mutex_lock(&mutex);
  removed = true;
  pthread_mutex_unlock(&mutex);
}
