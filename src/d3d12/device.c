/* The device, DirectML's device and the queue on which sessions compute: the caller's objects, or iobind's. */

#include "d3d12/d3d12.h"
#include "support/system.h"

static const d3d_guid device_id = {0x189819f1, 0x1db6, 0x4b57, {0xbe, 0x54, 0x18, 0x21, 0x33, 0x9b, 0x85, 0xf7}};
static const d3d_guid queue_id = {0x0ec870a6, 0x5d7e, 0x4c22, {0x8c, 0xfc, 0x5b, 0xaa, 0xe0, 0x76, 0x16, 0xed}};
static const d3d_guid dml_id = {0x6dbd6437, 0x96fd, 0x423f, {0xa9, 0x8c, 0xae, 0x5e, 0x7c, 0x2a, 0x57, 0x3f}};
static const d3d_guid factory_id = {0x1bc6ea02, 0xef36, 0x464f, {0xbf, 0x0c, 0x21, 0xca, 0x39, 0xe5, 0x16, 0x8a}};
static const d3d_guid adapter_id = {0x29038f61, 0x3839, 0x4626, {0x91, 0xfd, 0x08, 0x68, 0x79, 0x01, 0x1a, 0x05}};

void iobind__com_retain(void *object) {
  d3d_object *com = object;
  com->table->AddRef(com);
}

void iobind__com_release(void *object) {
  d3d_object *com = object;
  if (com != NULL) {
    com->table->Release(com);
  }
}

iobind_status iobind__d3d12_check(d3d_result result, const char *what, iobind_error *error) {
  enum { OUT_OF_MEMORY = (int32_t)0x8007000e, REMOVED = (int32_t)0x887a0005, HUNG, RESET };
  if (result >= 0) {
    return IOBIND_OK;
  }
  bool lost = result >= REMOVED && result <= RESET;
  iobind_status status = result == OUT_OF_MEMORY ? IOBIND_ERROR_OUT_OF_MEMORY
                         : lost                  ? IOBIND_ERROR_WRONG_DEVICE
                                                 : IOBIND_ERROR_RUNTIME;
  iobind__error_set(error, status, 0, "%s: D3D12 error 0x%08x%s", what, (unsigned)result,
                    result == OUT_OF_MEMORY ? ": out of memory"
                    : lost                  ? ": the device was removed or reset"
                                            : "");
  return status;
}

bool iobind__d3d12_owns(const d3d12_device *device, d3d_result (*get)(void *, const d3d_guid *, void **), void *object) {
  void *its = NULL;
  if (get(object, &device_id, &its) < 0) {
    return false;
  }
  iobind__com_release(its);
  return its == device;
}

void iobind__d3d12_drop(iobind__d3d12 *d3d12) {
  iobind__com_release(d3d12->queue);
  iobind__com_release(d3d12->dml);
  iobind__com_release(d3d12->device);
  *d3d12 = (iobind__d3d12){NULL, NULL, NULL};
}

/* Find a function in a library of Windows, or in DirectML, which is in ORT's directory, and which ORT has loaded. */
static iobind_status find_function(const char *library, const char *name, void **function, iobind_error *error) {
  iobind__text reason = {0};
  void *opened = iobind__library_loaded(library);
  opened = opened != NULL ? opened : iobind__library_open(library, &reason);
  *function = opened == NULL ? NULL : iobind__library_symbol(opened, name);
  iobind_status status = *function != NULL ? IOBIND_OK
                                           : iobind__fail(error, IOBIND_ERROR_NOT_SUPPORTED,
                                                          "%s with %s: not found on this system", library, name);
  iobind__text_free(&reason);
  return status;
}

static iobind_status make_dml(iobind__d3d12 *d3d12, iobind_error *error) {
  d3d_result (*create)(d3d12_device * device, int32_t flags, const d3d_guid *id, void **dml);
  if (d3d12->dml != NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(find_function("DirectML.dll", "DMLCreateDevice", (void **)&create, error));
  return iobind__d3d12_check(create(d3d12->device, 0, &dml_id, (void **)&d3d12->dml), "DMLCreateDevice", error);
}

iobind_status iobind__d3d12_adopt(void *given_device, void *given_dml, void *given_queue, iobind__d3d12 *out,
                                  iobind_error *error) {
  iobind__d3d12 own = {given_device, given_dml, given_queue};
  if (own.device == NULL || own.queue == NULL) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "native.%s is NULL", own.device == NULL ? "device" : "queue");
  }
  d3d12_queue_desc desc = {0};
  own.queue->table->GetDesc(own.queue, &desc);
  if (desc.type != D3D12_DIRECT && desc.type != D3D12_COMPUTE) {
    return iobind__fail(error, IOBIND_ERROR_INVALID_ARGUMENT, "native.queue: expected a DIRECT or COMPUTE queue, got %s",
                        desc.type == D3D12_COPY ? "a COPY queue" : "one of another type");
  }
  if (!iobind__d3d12_owns(own.device, (d3d_result(*)(void *, const d3d_guid *, void **))(d3d_slot)own.queue->table->GetDevice,
                          own.queue)) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "native.queue is of another ID3D12Device than native.device");
  }
  if (own.dml != NULL &&
      !iobind__d3d12_owns(
          own.device, (d3d_result(*)(void *, const d3d_guid *, void **))(d3d_slot)own.dml->table->GetParentDevice, own.dml)) {
    return iobind__fail(error, IOBIND_ERROR_WRONG_DEVICE, "native.dml_device is of another ID3D12Device than native.device");
  }
  iobind_status status = make_dml(&own, error);
  if (status != IOBIND_OK) {
    return status;
  }
  if (given_dml != NULL) {
    iobind__com_retain(own.dml);
  }
  iobind__com_retain(own.device);
  iobind__com_retain(own.queue);
  *out = own;
  return IOBIND_OK;
}

static iobind_status find_adapter(const d3d_luid *luid, void **adapter, iobind_error *error) {
  d3d_result (*create)(uint32_t flags, const d3d_guid *id, void **factory);
  dxgi_factory *factory = NULL;
  *adapter = NULL;
  if (luid == NULL) {
    return IOBIND_OK;
  }
  IOBIND__TRY(find_function("dxgi.dll", "CreateDXGIFactory2", (void **)&create, error));
  IOBIND__TRY(iobind__d3d12_check(create(0, &factory_id, (void **)&factory), "CreateDXGIFactory2", error));
  d3d_result found = factory->table->EnumAdapterByLuid(factory, *luid, &adapter_id, adapter);
  iobind__com_release(factory);
  return iobind__d3d12_check(found, "the adapter", error);
}

iobind_status iobind__d3d12_make(const d3d_luid *luid, iobind__d3d12 *out, iobind_error *error) {
  enum { LEVEL_11_0 = 0xb000 };
  d3d_result (*create)(void *adapter, int32_t level, const d3d_guid *id, void **device);
  iobind__d3d12 made = {NULL, NULL, NULL};
  void *adapter;
  IOBIND__TRY(find_function("d3d12.dll", "D3D12CreateDevice", (void **)&create, error));
  IOBIND__TRY(find_adapter(luid, &adapter, error));
  d3d_result result = create(adapter, LEVEL_11_0, &device_id, (void **)&made.device);
  iobind__com_release(adapter);
  IOBIND__TRY(iobind__d3d12_check(result, "D3D12CreateDevice", error));
  const d3d12_queue_desc desc = {.type = D3D12_DIRECT};
  iobind_status status = iobind__d3d12_check(
      made.device->table->CreateCommandQueue(made.device, &desc, &queue_id, (void **)&made.queue), "a queue for runs", error);
  status = status == IOBIND_OK ? make_dml(&made, error) : status;
  if (status != IOBIND_OK) {
    iobind__d3d12_drop(&made);
    return status;
  }
  *out = made;
  return IOBIND_OK;
}
