/* Device specs: "cuda,webgpu:1,cpu". */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "support/system.h"

typedef enum spec_kind { SPEC_NAME, SPEC_GPU, SPEC_NPU, SPEC_EP, SPEC_VENDOR } spec_kind;

/* One entry of a spec list. */
typedef struct spec {
  spec_kind kind;
  const char *name; /* SPEC_NAME, SPEC_EP: `length` characters */
  size_t length;
  uint32_t vendor;
  bool any_ordinal; /* no ":N": the first device that works */
  uint32_t ordinal;
  iobind_memory memory;
  const char *options; /* "KEY=VALUE&KEY=VALUE" after '?', `options_length` characters; NULL: none */
  size_t options_length;
} spec;

static iobind_status malformed(const char *text, size_t length, const char *expected, iobind_error *error) {
  return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT,
                      "runtime_find_device: '%.*s' is not a device spec: %s. Examples: " IOBIND__SPEC_EXAMPLES, (int)length,
                      text, expected);
}

static bool parse_number(const char *text, size_t length, uint32_t *number) {
  uint64_t value = 0;
  if (length == 0 || length > 9) {
    return false;
  }
  for (size_t i = 0; i < length; i++) {
    if (!isdigit((unsigned char)text[i])) {
      return false;
    }
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  *number = (uint32_t)value;
  return true;
}

static bool parse_vendor(const char *text, size_t length, uint32_t *vendor) {
  if (length < 3 || length > 10 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X')) {
    return false;
  }
  uint32_t value = 0;
  for (size_t i = 2; i < length; i++) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *digit = text[i] == '\0' ? NULL : strchr(digits, text[i]);
    if (digit == NULL) {
      return false;
    }
    value = value * 16 + (uint32_t)((digit - digits) % 16);
  }
  *vendor = value;
  return true;
}

static bool equals(const char *text, size_t length, const char *word) {
  return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool cut_suffix(const char *text, size_t *length, const char *suffix) {
  size_t size = strlen(suffix);
  if (*length > size && memcmp(text + *length - size, suffix, size) == 0) {
    *length -= size;
    return true;
  }
  return false;
}

static size_t option_length(const char *option, size_t rest) {
  const char *end = memchr(option, '&', rest);
  return end == NULL ? rest : (size_t)(end - option);
}

/* The number of options; 0: one of them is not KEY=VALUE. */
static size_t count_options(const char *options, size_t length) {
  size_t count = 0;
  for (size_t at = 0; at <= length; count++) {
    size_t one = option_length(options + at, length - at);
    const char *equals = memchr(options + at, '=', one);
    if (equals == NULL || equals == options + at) {
      return 0;
    }
    at += one + 1;
  }
  return count;
}

/* Copy the options into one block, which the caller frees by `keys`: the lists, then the texts. False: out of memory. */
static bool copy_options(const spec *wanted, iobind__device_options *out) {
  *out = (iobind__device_options){.count = count_options(wanted->options, wanted->options_length)};
  const char **block = malloc(2 * out->count * sizeof *block + wanted->options_length + 1);
  if (block == NULL) {
    return false;
  }
  out->keys = block;
  out->values = block + out->count;
  char *text = (char *)(block + 2 * out->count);
  memcpy(text, wanted->options, wanted->options_length);
  text[wanted->options_length] = '\0';
  for (size_t i = 0; i < out->count; i++) {
    size_t one = strcspn(text, "&");
    char *equals = strchr(text, '=');
    text[one] = '\0';
    *equals = '\0';
    out->keys[i] = text;
    out->values[i] = equals + 1;
    text += one + 1;
  }
  return true;
}

static iobind_status works(iobind_device *device, const spec *wanted, iobind_error *reason) {
  iobind__device_options given;
  if (wanted->options == NULL) {
    return iobind__device_works(device, reason);
  }
  *reason = (iobind_error)IOBIND_ERROR_INIT;
  if (device->ep != NULL && device->ep->bridged) {
    return iobind__fail(reason, IOBIND_ERROR_NOT_SUPPORTED,
                        "expected its options in the options of a session, got them after '?'");
  }
  if (!copy_options(wanted, &given)) {
    return iobind__out_of_memory(reason, "runtime_find_device");
  }
  iobind_status status = iobind__device_works_with(device, &given, reason);
  free(given.keys);
  return status;
}

/* Parse the part before the number and the options. Returns NULL, or what was expected. */
static const char *parse_name(const char *text, size_t length, spec *out) {
  out->name = text;
  out->length = length;
  if (equals(text, length, "gpu")) {
    out->kind = SPEC_GPU;
  } else if (equals(text, length, "npu")) {
    out->kind = SPEC_NPU;
  } else if (length > 3 && memcmp(text, "ep=", 3) == 0) {
    out->kind = SPEC_EP;
    out->name = text + 3;
    out->length = length - 3;
  } else if (length > 7 && memcmp(text, "vendor=", 7) == 0) {
    out->kind = SPEC_VENDOR;
    return parse_vendor(text + 7, length - 7, &out->vendor) ? NULL : "expected a hexadecimal vendor id";
  } else {
    out->kind = SPEC_NAME;
    return iobind__ep_by_name(text, length) != NULL ? NULL : "its name is not in the EP catalogue";
  }
  return NULL;
}

static iobind_status parse(const char *text, size_t length, spec *out, iobind_error *error) {
  size_t whole = length;
  memset(out, 0, sizeof *out);
  const char *mark = memchr(text, '?', length);
  if (mark != NULL) {
    out->options = mark + 1;
    out->options_length = length - (size_t)(mark + 1 - text);
    length = (size_t)(mark - text);
    if (count_options(out->options, out->options_length) == 0) {
      return malformed(text, whole, "expected KEY=VALUE after '?', several separated by '&'", error);
    }
  }
  if (cut_suffix(text, &length, "/pinned") ||
      (iobind__ep_by_pinned(text, length) != NULL && cut_suffix(text, &length, "_pinned"))) {
    out->memory = IOBIND_MEMORY_HOST_ACCESSIBLE;
  }
  out->any_ordinal = true;
  for (size_t i = length; i-- > 0;) {
    if (text[i] == ':') {
      if (!parse_number(text + i + 1, length - i - 1, &out->ordinal)) {
        return malformed(text, whole, "expected a number after ':'", error);
      }
      out->any_ordinal = false;
      length = i;
      break;
    }
  }
  const char *expected = parse_name(text, length, out);
  const iobind__ep *meant = expected == NULL || out->kind != SPEC_NAME ? NULL : iobind__ep_meant(text, length);
  if (meant != NULL) {
    char hint[IOBIND__NAME_TEXT];
    snprintf(hint, sizeof hint, "expected the name '%s'", meant->name);
    return malformed(text, whole, hint, error);
  }
  return expected == NULL ? IOBIND_OK : malformed(text, whole, expected, error);
}

static bool matches(const iobind_device *device, const spec *wanted) {
  const OrtApi *api = IOBIND__API(device->runtime);
  OrtHardwareDeviceType hardware = api->HardwareDevice_Type(api->EpDevice_Device(device->ep_device));
  switch (wanted->kind) {
    case SPEC_NAME: return device->ep != NULL && equals(wanted->name, wanted->length, device->ep->name);
    case SPEC_EP: return equals(wanted->name, wanted->length, api->EpDevice_EpName(device->ep_device));
    case SPEC_GPU: return (device->flags & IOBIND_DEVICE_GPU_MEMORY) != 0 || hardware == OrtHardwareDeviceType_GPU;
    case SPEC_NPU: return (device->flags & IOBIND_DEVICE_NPU_MEMORY) != 0 || hardware == OrtHardwareDeviceType_NPU;
    case SPEC_VENDOR: /* not the CPU, although it has a vendor id, too */
      return device != device->runtime->cpu &&
             api->HardwareDevice_VendorId(api->EpDevice_Device(device->ep_device)) == wanted->vendor;
  }
  return false;
}

static void add_reason(iobind__text *reasons, const char *reason, int length, const char *text) {
  iobind__text_add(reasons, "%s", reasons->length == 0 ? "" : "; ");
  iobind__text_add(reasons, "%.*s: %s", length, text, reason);
}

/* Why an EP has no devices: its library did not load, or it offers software adapters only on request. */
static const char *library_reason(const iobind_runtime *runtime, const spec *wanted) {
  for (size_t i = 0; wanted->kind == SPEC_NAME && i < runtime->ep_library_count; i++) {
    const iobind__ep_library *library = runtime->ep_libraries[i];
    if (!equals(wanted->name, wanted->length, library->name)) {
      continue;
    }
    if (library->status != IOBIND_OK) {
      return library->message;
    }
    const char *variable = iobind__ep_by_name(wanted->name, wanted->length)->software.variable;
    if (variable != NULL && !iobind__environment_has(variable)) {
      return "not found; without a GPU it needs IOBIND_RUNTIME_SOFTWARE_DEVICES";
    }
  }
  return "not found";
}

/* The state of a search in a list. */
typedef struct search {
  bool is_list;         /* more than one entry: a device that computes wrong is returned only if no other works */
  iobind__text reasons; /* of devices that are not returned */
  bool seen;            /* an entry has matched a device */
  iobind_device *wrong; /* the first device that works, but computes wrong, and the memory of its entry; NULL: none */
  iobind_memory memory;
} search;

/* Skip a device that works, because it computes wrong? */
static bool is_passed_over(iobind_device *device, const spec *wanted, search *self, iobind_error *reason) {
  if (!self->is_list || wanted->options != NULL || iobind__device_computes(device, reason) != IOBIND_ERROR_RESULT) {
    return false;
  }
  iobind__log_line(device->runtime->log, IOBIND_LOG_WARNING,
                   "iobind: runtime_find_device: %s %s; the next device of the list is tried", device->spec, reason->message);
  if (self->wrong == NULL) {
    self->wrong = device;
    self->memory = wanted->memory;
  }
  return true;
}

/* The first device of an entry that works and is not skipped. NULL: there is none, and the reasons are added. */
static iobind_device *find_entry(iobind_runtime *runtime, const char *text, size_t length, const spec *wanted, search *self) {
  uint32_t ordinal = 0;
  size_t count = iobind__runtime_device_count(runtime);
  bool matched = false;
  for (size_t i = 0; i < count; i++) {
    iobind_device *device = iobind_runtime_get_device(runtime, i);
    if (!matches(device, wanted) || (ordinal++ != wanted->ordinal && !wanted->any_ordinal)) {
      continue;
    }
    matched = true;
    if (device->places[wanted->memory].info == NULL) {
      add_reason(&self->reasons, "has no host-accessible memory", (int)strlen(device->spec), device->spec);
      continue;
    }
    iobind_error reason;
    if (works(device, wanted, &reason) == IOBIND_OK && !is_passed_over(device, wanted, self, &reason)) {
      return device;
    }
    add_reason(&self->reasons, reason.message, (int)strlen(device->spec), device->spec);
  }
  if (!matched) {
    pthread_mutex_lock(&runtime->mutex);
    add_reason(&self->reasons, library_reason(runtime, wanted), (int)length, text);
    pthread_mutex_unlock(&runtime->mutex);
  }
  self->seen = self->seen || matched;
  return NULL;
}

/* Parse one entry of a list. */
static iobind_status read_entry(const char *list, const char *entry, size_t length, bool may_be_memory, spec *wanted,
                                iobind_error *error) {
  if (length == 0) {
    return malformed(list, strlen(list), "an entry is empty", error);
  }
  IOBIND__TRY(parse(entry, length, wanted, error));
  return wanted->memory != IOBIND_MEMORY_DEFAULT && !may_be_memory
             ? malformed(entry, length, "expected a device, got a kind of memory", error)
             : IOBIND_OK;
}

/* The start of the next entry; NULL after the last. */
static const char *next_entry(const char *entry) {
  const char *comma = strchr(entry, ',');
  return comma == NULL ? NULL : comma + 1;
}

/* The device of the first entry that has one. If there is none, *device stays NULL, and the reasons are added. */
static iobind_status find_in_list(iobind_runtime *runtime, const char *list, iobind_device **device, iobind_memory *memory,
                                  search *self, iobind_error *error) {
  for (const char *entry = list; entry != NULL && *device == NULL; entry = next_entry(entry)) {
    size_t length = strcspn(entry, ",");
    spec wanted = {0};
    IOBIND__TRY(read_entry(list, entry, length, memory != NULL, &wanted, error));
    const iobind__ep *named = wanted.kind == SPEC_NAME ? iobind__ep_by_name(wanted.name, wanted.length) : NULL;
    if (named != NULL && named->on_demand) {
      IOBIND__TRY(iobind__runtime_demand_ep(runtime, named, error));
    }
    *device = find_entry(runtime, entry, length, &wanted, self);
    if (*device != NULL && memory != NULL) {
      *memory = wanted.memory;
    }
  }
  if (*device == NULL && self->wrong != NULL) {
    iobind__log_line(runtime->log, IOBIND_LOG_WARNING, "iobind: runtime_find_device: no other device works: %s is returned",
                     self->wrong->spec);
    *device = self->wrong;
    if (memory != NULL) {
      *memory = self->memory;
    }
  }
  return IOBIND_OK;
}

iobind_status iobind_runtime_find_device(iobind_runtime *runtime, const char *text, iobind_device **device,
                                         iobind_memory *memory, iobind_error *error) {
  if (device != NULL) {
    *device = NULL;
  }
  IOBIND__TRY(iobind__null_check(runtime, "runtime", "runtime_find_device", error));
  IOBIND__TRY(iobind__null_check(text, "spec", "runtime_find_device", error));
  IOBIND__TRY(iobind__null_check(device, "device", "runtime_find_device", error));
  IOBIND__TRY(iobind__process_check("runtime_find_device", error));
  /* first parse the whole list: whether an error at its end is found must not depend on the machine's devices */
  for (const char *entry = text; entry != NULL; entry = next_entry(entry)) {
    spec wanted = {0};
    IOBIND__TRY(read_entry(text, entry, strcspn(entry, ","), memory != NULL, &wanted, error));
  }
  search found = {.is_list = strchr(text, ',') != NULL};
  iobind_status status = find_in_list(runtime, text, device, memory, &found, error);
  if (status == IOBIND_OK && *device == NULL) {
    status = found.seen ? IOBIND_ERROR_WRONG_DEVICE : IOBIND_ERROR_NOT_FOUND;
    iobind__error_set(error, status, 0, "runtime_find_device: no device works: %s", iobind__text_get(&found.reasons));
  }
  iobind__text_free(&found.reasons);
  return status;
}
