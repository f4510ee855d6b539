#include <stdio.h>
#include <string.h>

#include "scenario.h"

#define NEVER(slot) \
  { "", "", slot, OUTCOME_NEVER, IOBIND_OK, false, "part of an object that is there", 0 }
#define IGNORED(function, variant, failing, reason) \
  { function, variant, failing, OUTCOME_IGNORED, IOBIND_OK, false, reason, 0 }
#define STATUS(function, variant, failing, status, reason) \
  { function, variant, failing, OUTCOME_STATUS, status, false, reason, 0 }
#define LESS(function, variant, failing, reason) \
  { function, variant, failing, OUTCOME_LESS, IOBIND_OK, false, reason, 0 }

#define EITHER(function, variant, failing, reason) \
  { function, variant, failing, OUTCOME_EITHER, IOBIND_OK, false, reason, 0 }
#define NO_PATH "a file or folder whose path there is no memory for counts as another, or as not there"
/* iobind_runtime_find_device lists each device's reason */
#define REASON(variant, failing, status, dead) \
  { "iobind_runtime_find_device", variant, failing, OUTCOME_REASON, status, dead, "it lists a reason for each device", 0 }
/* iobind_device_check makes the tiny session first, then those with known answers. What it finds it remembers. */
#define CHECKS(nth, failing, outcome, status, reason) \
  { "iobind_device_check", "", failing, outcome, status, (status) != IOBIND_OK, reason, nth }
#define CHECK(failing)                                                                                         \
  CHECKS(1, failing, OUTCOME_STATUS, IOBIND_ERROR_WRONG_DEVICE, "the tiny session: the device does not work"), \
      CHECKS(0, failing, OUTCOME_LESS, IOBIND_OK, "a known answer that cannot be had is left out"),            \
      REASON("", failing, IOBIND_ERROR_WRONG_DEVICE, true)

#define ANY(function, variant, failing, reason) \
  { function, variant, failing, OUTCOME_ANY, IOBIND_OK, false, reason, 0 }
#define BY_KIND(failing) IGNORED("iobind_runtime_find_device", "by kind", failing, "the next device that fits is taken")
#define LISTED "a library that IOBIND_EP_LIBRARIES names and that does not load is listed by iobind_runtime_get_ep"
#define DESTROYED "a device that fails now has failed the calls that used it already"
/* an event tells each who waits for it what failed before it; one that is recorded again does not */
#define TOLD(function, variant) \
  { function, variant, "WaitOnHost", OUTCOME_STATUS, IOBIND_ERROR_RUNTIME, true, "what failed before an event stays so", 0 }
#define WATCHED "the library's thread waited; the caller's own wait asks again"
#define SOFTWARE "a driver for software devices is looked for as far as memory allows; without one there are none"

/* the first row that fits counts */
static const expectation expectations[] = {
    /* ORT's pointers, NULL where it has nothing to point to */
    NEVER("GetErrorMessage"),
    NEVER("EpDevice_EpName"),
    NEVER("EpDevice_Device"),
    NEVER("GetEpApi"),
    IGNORED("iobind_stream_destroy", "", "", DESTROYED),
    IGNORED("iobind_pipeline_destroy", "", "", DESTROYED),
    LESS("", "", "EpDevice_MemoryInfo", "NULL says that the EP works in the host's memory"),
    LESS("iobind_device_get_metadata", "", "EpDevice_EpMetadata", "the first entry is then the hardware's"),
    IGNORED("", "", "EpDevice_EpMetadata", "a device without metadata"),
    IGNORED("", "", "EpDevice_EpOptions", "a device without options"),
    IGNORED("", "", "HardwareDevice_Metadata", "a device without metadata"),
    IGNORED("", "", "EpDevice_EpVendor", "a device whose EP names no vendor"),
    IGNORED("", "", "HardwareDevice_Vendor", "a device without a vendor"),
    IGNORED("", "", "GetKeyValue", "a device that does not say which file it is from"),
    STATUS("", "", "GetApi", IOBIND_ERROR_VERSION, "an ORT that does not give its own interface"),
    STATUS("", "", "GetVersionString", IOBIND_ERROR_VERSION, "an ORT without a version"),
    IGNORED("", "", "GetModelEditorApi", "an ORT built without it tells no opset"),
    STATUS("", "", "GetInteropApi", IOBIND_ERROR_NOT_SUPPORTED, "an ORT without it imports nothing"),
    IGNORED("iobind_stream_wait_semaphore", "", "realloc", "the stream is waited for, instead of keeping the semaphore"),
    IGNORED("iobind_stream_signal_semaphore", "", "realloc", "the stream is waited for, instead of keeping the semaphore"),

    STATUS("iobind_stream_wrap", "", "SyncStream_GetHandle", IOBIND_ERROR_RUNTIME,
           "a stream without a handle cannot be bridged"),
    STATUS("iobind_stream_signal_native", "", "SyncStream_GetHandle", IOBIND_ERROR_RUNTIME,
           "an event cannot be recorded there"),
    STATUS("iobind_stream_wait_native", "", "SyncStream_GetHandle", IOBIND_ERROR_RUNTIME, "it cannot wait for an event"),
    TOLD("iobind_event_wait", ""),
    TOLD("iobind_event_query", ""),
    TOLD("iobind_binding_set_input", "snapshot behind an event"),
    TOLD("iobind_binding_run", "behind an event"),

    /* runtimes and devices */
    LESS("iobind_runtime_create", "by the environment", "RegisterExecutionProviderLibrary", LISTED),
    EITHER("iobind_runtime_create", "by the environment", "GetEpDevices", LISTED),
    EITHER("iobind_runtime_create", "with software devices", "scandir", SOFTWARE),
    EITHER("iobind_runtime_create", "with software devices", "realloc", SOFTWARE),
    ANY("iobind_runtime_create", "over a table", "realpath", "VERSION: the library that the table belongs to is not told"),
    EITHER("iobind_runtime_create", "", "realpath", NO_PATH),
    ANY("iobind_runtime_find_device", "on demand", "realpath", NO_PATH),
    EITHER("iobind_runtime_find_device", "", "realpath", NO_PATH),
    IGNORED("iobind_runtime_destroy", "", "UnregisterExecutionProviderLibrary", "nothing can be done; it is logged"),
    BY_KIND("CreateSessionOptions"),
    BY_KIND("SetIntraOpNumThreads"),
    BY_KIND("SessionOptionsAppendExecutionProvider_V2"),
    BY_KIND("CreateSessionFromArray"),
    BY_KIND("CreateTensorWithDataAsOrtValue"),
    BY_KIND("Run"),
    BY_KIND("Run=EMPTY"),
    BY_KIND("GetTensorElementTypeAndShapeDataReference"),
    BY_KIND("GetTensorMutableData"),
    BY_KIND("GetTensorMutableData=NULL"),
    CHECK("CreateSessionOptions"),
    CHECK("SetIntraOpNumThreads"),
    CHECK("SessionOptionsAppendExecutionProvider_V2"),
    CHECK("CreateSessionFromArray"),
    CHECK("CreateTensorWithDataAsOrtValue"),
    CHECK("Run"),
    CHECKS(1, "Run=EMPTY", OUTCOME_STATUS, IOBIND_ERROR_WRONG_DEVICE, "the tiny session: the device does not work"),
    CHECKS(0, "Run=EMPTY", OUTCOME_STATUS, IOBIND_ERROR_RESULT, "an answer without elements is wrong"),
    REASON("", "Run=EMPTY", IOBIND_ERROR_WRONG_DEVICE, true),
    ANY("", "", "Run=EMPTY", "who called gets what the EP gave"),
    CHECK("GetTensorElementTypeAndShapeDataReference"),
    CHECK("GetTensorMutableData"),
    CHECK("GetTensorMutableData=NULL"),
    REASON("on demand", "RegisterExecutionProviderLibrary", IOBIND_ERROR_NOT_FOUND, false),
    REASON("on demand", "GetEpDevices", IOBIND_ERROR_NOT_FOUND, false),
    IGNORED("iobind_runtime_find_device", "by kind", "realloc", "the reasons of devices that do not work, where another does"),

    /* streams */
    IGNORED("iobind_binding_destroy", "in flight", "realloc", "the stream is waited for instead"),
    IGNORED("iobind_binding_run", "moved behind the session's stream", "realloc", "the stream is waited for instead"),
    IGNORED("iobind_binding_run", "swapped behind the session's stream", "realloc", "the stream is waited for instead"),
    IGNORED("iobind_binding_get_output", "on a stream", "realloc", "the stream is waited for instead"),
    IGNORED("iobind_tensor_release", "in flight", "realloc", "the stream is waited for instead"),
    LESS("", "", "SyncStream_GetHandle", "a stream that is no native one"),
    EITHER("iobind_event_query", "", "CreateTensorWithDataAsOrtValue", WATCHED),
    EITHER("iobind_event_query", "", "CopyTensors", WATCHED),
    EITHER("iobind_event_wait", "with a timeout", "CreateTensorWithDataAsOrtValue", WATCHED),
    EITHER("iobind_event_wait", "with a timeout", "CopyTensors", WATCHED),
    STATUS("", "", "SyncStream_GetImpl", IOBIND_ERROR_NOT_SUPPORTED, "an EP whose streams have no events"),

    /* tensors */
    IGNORED("iobind_binding_set_input", "snapshot in lent memory", "GetSharedAllocator=NULL", "it is so in this scenario"),
    IGNORED("iobind_binding_set_input", "snapshot in lent memory", "CreateSharedAllocator", "it is so in this scenario"),
    STATUS("iobind_tensor_create", "with the first allocator", "CreateSharedAllocator", IOBIND_ERROR_NOT_SUPPORTED,
           "only a session could lend one"),
    IGNORED("iobind_tensor_copy_rows", "from the host, on a stream", "CreateTensorAsOrtValue",
            "without pinned memory the call waits"),
    IGNORED("iobind_tensor_copy_rows", "from the host, on a stream", "GetTensorMutableData",
            "without pinned memory the call waits"),
    IGNORED("iobind_tensor_copy_rows", "from the host, on a stream", "GetTensorMutableData=NULL",
            "without pinned memory the call waits"),
    IGNORED("iobind_tensor_copy_rows", "from the host, on a stream", "GetSharedAllocator",
            "without pinned memory the call waits"),
    IGNORED("iobind_tensor_copy_rows", "to the host, on a stream", "CreateTensorAsOrtValue",
            "without pinned memory the call waits"),
    IGNORED("iobind_tensor_copy_rows", "to the host, on a stream", "GetTensorMutableData",
            "without pinned memory the call waits"),
    IGNORED("iobind_tensor_copy_rows", "to the host, on a stream", "GetTensorMutableData=NULL",
            "without pinned memory the call waits"),
    IGNORED("iobind_tensor_copy_rows", "to the host, on a stream", "GetSharedAllocator",
            "without pinned memory the call waits"),
    STATUS("", "", "GetTensorMutableData=NULL", IOBIND_ERROR_OUT_OF_MEMORY,
           "a device that is out of memory gives tensors without it"),
    IGNORED("", "", "GetSharedAllocator=NULL", "one is made"),
    ANY("", "", "MemoryInfoGetId", "sets a number: it cannot fail on an info that is not NULL"),

    /* sessions and bindings */
    ANY("iobind_session_wrap", "", "realpath", "NOT_SUPPORTED: the library that the session belongs to is not told"),
    IGNORED("iobind_binding_run", "cancelled late", "RunOptionsSetTerminate", "it is the cancelling that fails, not the run"),
    LESS("iobind_binding_run", "cancelled late", "RunOptionsUnsetTerminate", "sets a flag: it cannot fail"),
    IGNORED("", "", "SessionReleaseCapturedGraph", "the graph stays until its session goes; it is logged"),
    IGNORED("", "", "SessionGetOpsetForDomain", "a model that was not ONNX has no opset"),
    ANY("iobind_session_create_from_memory", "with graphs", "SessionGetMemoryInfoForOutputs",
        "NOT_SUPPORTED: no node makes an output"),
    ANY("iobind_session_create_from_memory", "with graphs", "SessionGetEpDeviceForOutputs",
        "as SessionGetMemoryInfoForOutputs"),
    IGNORED("", "", "SessionGetMemoryInfoForOutputs", "ORT fails where no node makes an output; the places are guessed"),
    IGNORED("", "", "SessionGetEpDeviceForOutputs", "as SessionGetMemoryInfoForOutputs"),
    {.function = NULL},
};
enum { EXPECTATIONS = sizeof expectations / sizeof expectations[0] };

static bool used[EXPECTATIONS];

static bool fits(const char *pattern, const char *text) {
  return pattern[0] == '\0' || strcmp(pattern, text) == 0;
}

const expectation *expectation_of(const struct scenario *scenario, const char *failing, size_t nth) {
  for (size_t i = 0; expectations[i].function != NULL; i++) {
    const expectation *one = &expectations[i];
    if (fits(one->function, scenario->function) && fits(one->variant, scenario->variant) && fits(one->failing, failing) &&
        (one->nth == 0 || one->nth == nth)) {
      used[i] = true;
      return one;
    }
  }
  return NULL;
}

bool expectations_all_used(void) {
  bool all = true;
  for (size_t i = 0; expectations[i].function != NULL; i++) {
    if (!used[i]) {
      printf("an expectation that nothing met: %s %s, %s fails: %s\n", expectations[i].function, expectations[i].variant,
             expectations[i].failing, expectations[i].reason);
      all = false;
    }
  }
  return all;
}

const without_scenario without_scenarios[] = {
    {"iobind_runtime_adopt_device", "needs Direct3D's objects: tests/dml tries each failure"},
    {"iobind_tensor_get_native", "as iobind_runtime_adopt_device"},
    {"iobind_catalogue_get_ep", "reads tables of the library, and calls nothing"},
    {"iobind_catalogue_get_option", "as iobind_catalogue_get_ep"},
    {"iobind_catalogue_get_conflict", "as iobind_catalogue_get_ep"},
    {NULL, NULL},
};
