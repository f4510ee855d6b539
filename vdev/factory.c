/* The plugin's entry points: devices, allocators, options. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "ep.h"
#include "external.h"
#include "memory.h"
#include "pinned.h"
#include "trace.h"
#include "transfer.h"

#if defined(_WIN32)
#define VDEV_EXPORT __declspec(dllexport)
#else
#define VDEV_EXPORT __attribute__((visibility("default")))
#endif

/* One for each device and kind of memory. They live as long as the library, because ORT frees tensors through them at any
 * time. */
typedef struct allocator {
  OrtAllocator base; /* first: ORT's view */
  vdev_device *device;
  OrtMemoryInfo *info;
  bool pinned;
} allocator;

/* Created each time that ORT asks for a factory. If ORT asks and then refuses it, it never releases it. */
typedef struct registration {
  OrtEpFactory factory; /* first: ORT's view */
  struct registration *next;
  const OrtApiBase *base; /* the copy of ORT that asked */
  const OrtApi *api;
  bool counts; /* ORT has asked for its devices, so it uses it */
} registration;

static struct {
  pthread_mutex_t mutex; /* guards the list and the owner: two copies of ORT may call at the same time */
  registration *registrations;
  const OrtApiBase *owner; /* the copy of ORT that the library serves: there is only one table and one set of devices */
  allocator allocators[VDEV_MAX_DEVICES][2];
  OrtHardwareDevice *hardware[VDEV_MAX_DEVICES];
} vdev_factory = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- allocators ---- */

static void *ORT_CALL allocate(OrtAllocator *base, size_t bytes) {
  allocator *self = (allocator *)base;
  char reason[VDEV_TEXT] = "";
  void *address = NULL;
  vdev_lock();
  if (vdev_capture_permits(self->device, "an allocation", reason)) {
    address = self->pinned ? vdev_pinned_allocate(self->device, bytes, reason)
                           : vdev_memory_allocate(self->device, bytes == 0 ? 1 : bytes, reason);
  }
  if (address != NULL) {
    vdev_trace_memory(self->device, self->pinned ? "allocate pinned" : "allocate", bytes);
  } else {
    memcpy(vdev_global.last_refusal, reason, sizeof reason);
  }
  vdev_unlock();
  if (address == NULL) {
    vdev_set_error("%s", reason); /* ORT cannot take a reason here; the operation that is given NULL reports it */
  }
  return address;
}

static void ORT_CALL release(OrtAllocator *base, void *address) {
  allocator *self = (allocator *)base;
  char reason[VDEV_TEXT];
  vdev_lock();
  (void)vdev_capture_permits(self->device, "a release of memory", reason); /* a release cannot be refused */
  if (self->pinned) {
    vdev_pinned_free(self->device, address);
  } else if (!vdev_capture_keep(self->device, address)) {
    vdev_memory_free(self->device, address);
  }
  vdev_trace_memory(self->device, "free", 0);
  vdev_unlock();
}

static const OrtMemoryInfo *ORT_CALL get_info(const OrtAllocator *base) {
  return ((const allocator *)base)->info;
}

static OrtStatus *ORT_CALL get_stats(const OrtAllocator *base, OrtKeyValuePairs **out) {
  const OrtApi *api = VDEV_API_TABLE;
  const vdev_device *device = ((const allocator *)base)->device;
  static const struct {
    const char *key; /* named as ORT's own allocators, or ours */
    const char *statistic;
  } list[] = {{"InUse", "live_bytes"},         {"MaxInUse", "peak_bytes"},          {"NumAllocs", "allocations"},
              {"vdev.h2d_bytes", "h2d_bytes"}, {"vdev.h2d_count", "h2d_count"},     {"vdev.d2h_bytes", "d2h_bytes"},
              {"vdev.d2h_count", "d2h_count"}, {"vdev.d2d_bytes", "d2d_bytes"},     {"vdev.d2d_count", "d2d_count"},
              {"vdev.kernels", "kernels"},     {"vdev.live_blocks", "live_blocks"}, {"vdev.pinned_bytes", "pinned_bytes"},
              {"vdev.races", "races"},         {"vdev.errors", "errors"},           {"vdev.time_ns", "time_ns"}};
  api->CreateKeyValuePairs(out);
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
    char value[32];
    snprintf(value, sizeof value, "%lld", (long long)vdev_get(device->index, list[i].statistic));
    api->AddKeyValuePair(*out, list[i].key, value);
  }
  return NULL;
}

static OrtStatus *make_allocator(int index, bool pinned) {
  allocator *self = &vdev_factory.allocators[index][pinned];
  vdev_device *device = &vdev_global.devices[index];
  bool npu = device->settings.npu != 0;
  if (self->info != NULL) {
    return NULL; /* of a registration that is still there; so is ORT's pointer to it */
  }
  self->device = device;
  self->pinned = pinned;
  self->base = (OrtAllocator){.version = vdev_ort_global.version,
                              .Alloc = allocate,
                              .Free = release,
                              .Info = get_info,
                              .Reserve = allocate,
                              .GetStats = get_stats};
  return VDEV_API_TABLE->CreateMemoryInfo_V2(
      pinned ? "vdev_pinned" : "vdev", npu ? OrtMemoryInfoDeviceType_NPU : OrtMemoryInfoDeviceType_GPU,
      (uint32_t)device->settings.vendor_id, index, pinned ? OrtDeviceMemoryType_HOST_ACCESSIBLE : OrtDeviceMemoryType_DEFAULT,
      0, OrtDeviceAllocator, &self->info);
}

static OrtStatus *ORT_CALL create_allocator(OrtEpFactory *factory, const OrtMemoryInfo *info, const OrtKeyValuePairs *options,
                                            OrtAllocator **out) {
  (void)factory;
  (void)options;
  int index = 0;
  VDEV_TRY(VDEV_API_TABLE->MemoryInfoGetId(info, &index));
  bool pinned = VDEV_API_TABLE->MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
  if (index < 0 || index >= vdev_global.device_count) {
    return vdev_fail(ORT_INVALID_ARGUMENT, "vdev: an allocator for a device that is not there");
  }
  *out = &vdev_factory.allocators[index][pinned].base;
  return NULL;
}

static void ORT_CALL release_allocator(OrtEpFactory *factory, OrtAllocator *base) {
  (void)factory;
  (void)base;
}

/* ---- the factory ---- */

static const char *ORT_CALL get_name(const OrtEpFactory *factory) {
  (void)factory;
  return VDEV_EP_NAME;
}

static const char *ORT_CALL get_vendor(const OrtEpFactory *factory) {
  (void)factory;
  return "iobind";
}

static uint32_t ORT_CALL get_vendor_id(const OrtEpFactory *factory) {
  (void)factory;
  return (uint32_t)vdev_global.devices[0].settings.vendor_id;
}

static const char *ORT_CALL get_version(const OrtEpFactory *factory) {
  (void)factory;
  return VDEV_VERSION;
}

static OrtKeyValuePairs *make_metadata(int index) {
  const OrtApi *api = VDEV_API_TABLE;
  OrtKeyValuePairs *metadata = NULL;
  const char *at = vdev_global.devices[index].settings.metadata;
  char key[sizeof vdev_global.devices[index].settings.metadata];
  char value[sizeof key];
  char number[16];
  api->CreateKeyValuePairs(&metadata);
  api->AddKeyValuePair(metadata, "Discrete", "1");
  while (vdev_metadata_next(&at, key, value, sizeof key)) {
    api->AddKeyValuePair(metadata, key, value);
  }
  snprintf(number, sizeof number, "%d", index);
  api->AddKeyValuePair(metadata, "vdev.index", number);
  api->AddKeyValuePair(metadata, "is_virtual", "1"); /* how ORT marks such devices */
  return metadata;
}

static OrtStatus *make_device(OrtEpFactory *factory, int index, OrtEpDevice **out) {
  const OrtApi *api = VDEV_API_TABLE;
  const OrtEpApi *ep = vdev_ort_global.ep;
  const vdev_settings *settings = &vdev_global.devices[index].settings;
  OrtKeyValuePairs *metadata = make_metadata(index);
  OrtStatus *status = NULL;
  if (vdev_factory.hardware[index] == NULL) {
    status = ep->CreateHardwareDevice(settings->npu != 0 ? OrtHardwareDeviceType_NPU : OrtHardwareDeviceType_GPU,
                                      (uint32_t)settings->vendor_id, (uint32_t)settings->device_id, "iobind virtual device",
                                      metadata, &vdev_factory.hardware[index]);
  }
  status = status != NULL ? status : ep->CreateEpDevice(factory, vdev_factory.hardware[index], metadata, NULL, out);
  for (int pinned = 0; pinned < 2 && status == NULL; pinned++) {
    status = make_allocator(index, pinned != 0);
    status = status != NULL ? status : ep->EpDevice_AddAllocatorInfo(*out, vdev_factory.allocators[index][pinned].info);
  }
  api->ReleaseKeyValuePairs(metadata);
  return status;
}

/* A program can say whether it wants virtual devices: by a registration name that ends in ".virtual", for which ORT sets this
 * entry to "1", or by the entry itself. ORT has it for EPs that also have real devices. A program that registers this library
 * wants virtual ones, unless it says no. */
static OrtStatus *are_virtual_devices_allowed(bool *allowed) {
  OrtKeyValuePairs *entries = NULL;
  VDEV_TRY(vdev_ort_global.ep->GetEnvConfigEntries(&entries));
  const char *value = VDEV_API_TABLE->GetKeyValue(entries, "allow_virtual_devices");
  *allowed = value == NULL || strcmp(value, "0") != 0;
  VDEV_API_TABLE->ReleaseKeyValuePairs(entries);
  return NULL;
}

/* From here on the library serves only its owner. */
static bool take(registration *one) {
  pthread_mutex_lock(&vdev_factory.mutex);
  one->counts = one->base == vdev_factory.owner;
  pthread_mutex_unlock(&vdev_factory.mutex);
  return one->counts;
}

static OrtStatus *refuse_second_ort(const OrtApi *api) {
  return vdev_fail_by(
      api, ORT_FAIL,
      "vdev: another copy of ONNX Runtime in this process has registered this library, which serves one copy at a "
      "time: unregister it there first, or register a copy of the file here");
}

static OrtStatus *ORT_CALL get_supported_devices(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware, size_t count,
                                                 OrtEpDevice **devices, size_t most, size_t *made) {
  registration *one = (registration *)factory;
  (void)hardware; /* ours are virtual: they need none of the machine's devices */
  (void)count;
  *made = 0;
  if (!take(one)) {
    return refuse_second_ort(one->api);
  }
  bool allowed = false;
  VDEV_TRY(are_virtual_devices_allowed(&allowed));
  for (int i = 0; i < vdev_global.device_count && *made < most && allowed; i++) {
    VDEV_TRY(make_device(factory, i, &devices[*made]));
    (*made)++;
  }
  return NULL;
}

static OrtStatus *refuse_option(const char *reason) {
  char text[VDEV_TEXT];
  snprintf(text, sizeof text, "vdev: EP option %.300s", reason);
  return vdev_fail(ORT_INVALID_ARGUMENT, text);
}

static OrtStatus *apply_option(const vdev_device *device, const char *name, const char *value) {
  return vdev_set(device->index, name, value) == 0 ? NULL : refuse_option(vdev_last_error());
}

static OrtStatus *apply_session_option(const char *name, const char *value, bool *captures) {
  vdev_settings settings = {0};
  char reason[VDEV_TEXT];
  if (!vdev_settings_set(&settings, name, value, reason)) {
    return refuse_option(reason);
  }
  *captures = settings.graph_capture != 0;
  return NULL;
}

/* Session options: "ep.<name in lower case>.<setting>". */
static OrtStatus *apply_session_options(const vdev_device *device, const OrtSessionOptions *options, bool *captures) {
  static const char prefix[] = VDEV_EP_PREFIX;
  const OrtApi *api = VDEV_API_TABLE;
  OrtKeyValuePairs *entries = NULL;
  VDEV_TRY(api->GetSessionOptionsConfigEntries(options, &entries));
  const char *const *keys = NULL;
  const char *const *values = NULL;
  size_t count = 0;
  api->GetKeyValuePairs(entries, &keys, &values, &count);
  OrtStatus *status = NULL;
  for (size_t i = 0; i < count && status == NULL; i++) {
    if (strncmp(keys[i], prefix, sizeof prefix - 1) != 0) {
      continue;
    }
    const char *name = keys[i] + sizeof prefix - 1;
    bool is_own = strcmp(name, "enable_graph_capture") == 0; /* the only option of the session rather than the device */
    status = is_own ? apply_session_option(name, values[i], captures) : apply_option(device, name, values[i]);
  }
  api->ReleaseKeyValuePairs(entries);
  return status;
}

static OrtStatus *ORT_CALL create_ep(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                                     const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
                                     const OrtLogger *logger, OrtEp **ep) {
  (void)factory;
  (void)hardware;
  (void)logger;
  if (count != 1) {
    return vdev_fail(ORT_INVALID_ARGUMENT, "vdev: a session has one device of this EP: give the others a session each");
  }
  const char *number = VDEV_API_TABLE->GetKeyValue(metadata[0], "vdev.index");
  int index = number == NULL ? -1 : atoi(number);
  if (index < 0 || index >= vdev_global.device_count) {
    return vdev_fail(ORT_INVALID_ARGUMENT, "vdev: a session for a device that is not there");
  }
  vdev_device *device = &vdev_global.devices[index];
  vdev_lock();
  bool captures = device->settings.graph_capture != 0;
  vdev_unlock();
  VDEV_TRY(apply_session_options(device, options, &captures));
  return vdev_ep_create(device, captures, ep);
}

static void ORT_CALL release_ep(OrtEpFactory *factory, OrtEp *ep) {
  (void)factory;
  vdev_ep_release(ep);
}

static OrtStatus *ORT_CALL create_data_transfer(OrtEpFactory *factory, OrtDataTransferImpl **transfer) {
  (void)factory;
  return vdev_transfer_create(transfer);
}

static bool ORT_CALL is_stream_aware(const OrtEpFactory *factory) {
  (void)factory;
  return true;
}

static OrtStatus *ORT_CALL create_stream(OrtEpFactory *factory, const OrtMemoryDevice *memory, const OrtKeyValuePairs *options,
                                         OrtSyncStreamImpl **stream) {
  (void)factory;
  (void)options;
  uint32_t index = vdev_ort_global.ep->MemoryDevice_GetDeviceId(memory);
  if (index >= (uint32_t)vdev_global.device_count) {
    return vdev_fail(ORT_INVALID_ARGUMENT, "vdev: a stream for a device that is not there");
  }
  return vdev_sync_stream_create(&vdev_global.devices[index], stream);
}

static OrtStatus *ORT_CALL create_importer(OrtEpFactory *factory, const OrtEpDevice *ep_device,
                                           OrtExternalResourceImporterImpl **out) {
  (void)factory;
  const char *number = VDEV_API_TABLE->GetKeyValue(VDEV_API_TABLE->EpDevice_EpMetadata(ep_device), "vdev.index");
  int index = number == NULL ? -1 : atoi(number);
  if (index < 0 || index >= vdev_global.device_count) {
    return vdev_fail(ORT_INVALID_ARGUMENT, "vdev: an importer for a device that is not there");
  }
  return vdev_importer_create(&vdev_global.devices[index], ep_device, vdev_factory.allocators[index][0].info, out);
}

/* ---- entry points ---- */

/* Options of the registration: environment configuration entries "ep_factory.<EP name>.<setting>". */
static OrtStatus *read_registration_options(vdev_settings *settings) {
  static const char prefix[] = "ep_factory." VDEV_EP_NAME ".";
  const OrtApi *api = VDEV_API_TABLE;
  OrtKeyValuePairs *entries = NULL;
  VDEV_TRY(vdev_ort_global.ep->GetEnvConfigEntries(&entries));
  const char *const *keys = NULL;
  const char *const *values = NULL;
  size_t count = 0;
  api->GetKeyValuePairs(entries, &keys, &values, &count);
  OrtStatus *status = NULL;
  for (size_t i = 0; i < count && status == NULL; i++) {
    char reason[VDEV_TEXT];
    if (strncmp(keys[i], prefix, sizeof prefix - 1) == 0 &&
        !vdev_settings_set(settings, keys[i] + sizeof prefix - 1, values[i], reason)) {
      char text[VDEV_TEXT + 80];
      snprintf(text, sizeof text, "vdev: environment configuration entry ep_factory.*: %s", reason);
      status = vdev_fail(ORT_INVALID_ARGUMENT, text);
    }
  }
  api->ReleaseKeyValuePairs(entries);
  return status;
}

static OrtStatus *read_ort(const OrtApiBase *base, vdev_ort *ort) {
  const char *version = base->GetVersionString();
  unsigned major = 0;
  unsigned minor = 0;
  if (sscanf(version, "%u.%u", &major, &minor) != 2 || major != 1 || minor < ORT_API_OLDEST) {
    char text[VDEV_TEXT];
    snprintf(text, sizeof text, "vdev needs ONNX Runtime 1.%d or newer, this is %s", ORT_API_OLDEST, version);
    return vdev_fail_by(base->GetApi(1), ORT_FAIL, text); /* the oldest version of the table, which every ORT has */
  }
  ort->version = minor < ORT_API_NEWEST ? minor : ORT_API_NEWEST;
  ort->api = base->GetApi(ort->version);
  ort->ep = ort->api->GetEpApi();
  ort->claims_subgraphs = minor >= 27;
  return NULL;
}

static bool is_registered(void) {
  for (const registration *one = vdev_factory.registrations; one != NULL; one = one->next) {
    if (one->counts) {
      return true;
    }
  }
  return false;
}

static OrtStatus *save_trace(void) {
  const char *path = vdev_global.devices[0].settings.trace_file;
  char text[VDEV_TEXT];
  vdev_lock();
  bool good = path[0] == '\0' || vdev_trace_save(path);
  if (!good) {
    snprintf(text, sizeof text, "vdev: the trace cannot be written to '%.240s' (trace_file)", path);
  }
  vdev_unlock();
  return good ? NULL : vdev_fail(ORT_FAIL, text);
}

/* Destroy the devices, if there are any. */
static void stop(void) {
  if (vdev_device_count() == 0) {
    return;
  }
  for (int i = 0; i < VDEV_MAX_DEVICES; i++) {
    if (vdev_factory.hardware[i] != NULL) {
      vdev_ort_global.ep->ReleaseHardwareDevice(vdev_factory.hardware[i]);
      vdev_factory.hardware[i] = NULL;
    }
    for (int pinned = 0; pinned < 2; pinned++) {
      if (vdev_factory.allocators[i][pinned].info != NULL) {
        VDEV_API_TABLE->ReleaseMemoryInfo(vdev_factory.allocators[i][pinned].info);
        vdev_factory.allocators[i][pinned].info = NULL;
      }
    }
  }
  vdev_stop();
}

/* Serve this copy of ORT, unless another one has taken the library. */
static OrtStatus *change_owner(const OrtApiBase *base, const vdev_ort *ort) {
  if (base == vdev_factory.owner) {
    return NULL;
  }
  if (is_registered()) {
    return refuse_second_ort(ort->api);
  }
  stop(); /* devices for a copy of ORT that asked for a factory and did not use it */
  vdev_status_unreserve();
  vdev_ort_global = *ort;
  vdev_factory.owner = base;
  vdev_status_reserve();
  return NULL;
}

static OrtStatus *read_settings(vdev_settings *settings) {
  char reason[VDEV_TEXT] = "";
  vdev_settings_default(settings);
  if (!vdev_settings_environment(settings, reason)) {
    return vdev_fail(ORT_INVALID_ARGUMENT, reason);
  }
  return read_registration_options(settings);
}

static OrtStatus *add_registration(const OrtApiBase *base, OrtEpFactory **factory) {
  registration *one = calloc(1, sizeof *one);
  if (one == NULL) {
    return vdev_no_memory();
  }
  one->factory = (OrtEpFactory){.ort_version_supported = vdev_ort_global.version,
                                .GetName = get_name,
                                .GetVendor = get_vendor,
                                .GetSupportedDevices = get_supported_devices,
                                .CreateEp = create_ep,
                                .ReleaseEp = release_ep,
                                .GetVendorId = get_vendor_id,
                                .GetVersion = get_version,
                                .CreateAllocator = create_allocator,
                                .ReleaseAllocator = release_allocator,
                                .CreateDataTransfer = create_data_transfer,
                                .IsStreamAware = is_stream_aware,
                                .CreateSyncStreamForDevice = create_stream,
                                .CreateExternalResourceImporterForDevice = create_importer};
  one->base = base;
  one->api = VDEV_API_TABLE;
  one->next = vdev_factory.registrations;
  vdev_factory.registrations = one;
  *factory = &one->factory;
  return NULL;
}

/* With the factory's lock held. */
static OrtStatus *create_factory(const OrtApiBase *base, OrtEpFactory **factory) {
  vdev_ort ort = {0};
  vdev_settings settings;
  VDEV_TRY(read_ort(base, &ort));
  VDEV_TRY(change_owner(base, &ort));
  VDEV_TRY(read_settings(&settings));
  if (!is_registered()) {
    stop();
    if (!vdev_start(&settings)) {
      return vdev_fail(ORT_FAIL, "vdev: no address space for the devices: make 'reserve' smaller");
    }
  }
  return add_registration(base, factory);
}

VDEV_EXPORT OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base, const OrtLogger *logger,
                                         OrtEpFactory **factories, size_t most, size_t *count);
VDEV_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **factories, size_t most, size_t *count) {
  (void)registered_name; /* any will do */
  (void)logger;
  *count = 0;
  if (most < 1) {
    return vdev_fail_by(base->GetApi(1), ORT_INVALID_ARGUMENT, "vdev: there is no room for a factory");
  }
  pthread_mutex_lock(&vdev_factory.mutex);
  OrtStatus *status = create_factory(base, factories);
  pthread_mutex_unlock(&vdev_factory.mutex);
  *count = status == NULL;
  return status;
}

/* With the factory's lock held. */
static OrtStatus *remove_registration(const OrtEpFactory *factory) {
  registration **at = &vdev_factory.registrations;
  while (*at != NULL && &(*at)->factory != factory) {
    at = &(*at)->next;
  }
  registration *one = *at;
  if (one == NULL) {
    return NULL;
  }
  bool is_owners = one->base == vdev_factory.owner;
  *at = one->next;
  free(one);
  if (!is_owners || is_registered()) {
    return NULL;
  }
  OrtStatus *status = vdev_device_count() == 0 ? NULL : save_trace();
  stop();
  vdev_status_unreserve();
  vdev_factory.owner = NULL;
  return status; /* ORT goes on, and logs the error */
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  pthread_mutex_lock(&vdev_factory.mutex);
  OrtStatus *status = remove_registration(factory);
  pthread_mutex_unlock(&vdev_factory.mutex);
  return status;
}
