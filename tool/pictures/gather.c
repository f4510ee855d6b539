#include "pictures/gather.h"

#include <stdlib.h>
#include <string.h>

#include "shared/tool.h"

/* The first step determines the array's type and dims. */
static bool begin(gather *all, const iobind_tensor *tensor, const iobind_tensor_info *info, size_t steps, tool_fault *fault) {
  npy_array first;
  if (!tool_tensor_to_npy(tensor, &first, fault)) return false;
  int64_t dims[NPY_MAX_RANK + 1];
  dims[0] = (int64_t)steps;
  memcpy(dims + 1, first.dims, first.rank * sizeof first.dims[0]);
  all->array.kind = first.kind;
  all->array.item_bytes = first.item_bytes;
  bool sized = npy_set_dims(&all->array, dims, first.rank + 1);
  if (sized && all->array.bytes > 0) all->array.data = malloc(all->array.bytes);
  bool made = sized && (all->array.bytes == 0 || all->array.data != NULL);
  if (made && first.bytes > 0) memcpy(all->array.data, first.data, first.bytes);
  if (!made) fault_set(fault, "%zu steps of %zu bytes do not fit in memory", steps, first.bytes);
  npy_free(&first);
  all->rank = info->rank;
  memcpy(all->dims, info->dims, info->rank * sizeof info->dims[0]);
  return made;
}

bool gather_add(gather *all, const iobind_tensor *tensor, size_t steps, tool_fault *fault) {
  iobind_tensor_info info = IOBIND_TENSOR_INFO_INIT;
  iobind_error error = IOBIND_ERROR_INIT;
  if (all->uneven) return true;
  if (iobind_tensor_get_info(tensor, &info, &error) != IOBIND_OK) return fault_set(fault, "%s", tool_reason(&error));
  if (all->taken == 0) {
    if (!begin(all, tensor, &info, steps, fault)) return false;
  } else if (info.rank != all->rank || memcmp(info.dims, all->dims, info.rank * sizeof info.dims[0]) != 0) {
    npy_free(&all->array);
    all->uneven = true;
    return true;
  } else if (info.bytes > 0) {
    unsigned char *target = (unsigned char *)all->array.data + all->taken * info.bytes;
    if (iobind_tensor_read(tensor, 0, target, info.bytes, NULL, &error) != IOBIND_OK) {
      return fault_set(fault, "%s [%s]", tool_reason(&error), iobind_status_get_name(error.status));
    }
  }
  all->taken++;
  return true;
}

void gather_free(gather *all) {
  npy_free(&all->array);
  *all = (gather){0};
}
