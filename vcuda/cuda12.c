/* Functions whose form differs in CUDA 12's runtime. The other functions are CUDA 13's, exported also under the symbol version
 * libcudart.so.12. */
#include <string.h>

#include "cuda.h"
#include "work.h"

typedef struct cuda_properties_12 { /* cudaDeviceProp */
  unsigned char head[offsetof(cuda_properties, processors)];
  int overlap;
  int processors;
  int time_limit;
  int integrated;
  int maps_host_memory;
  int compute_mode;
  int textures[40];
  size_t surface_alignment;
  int concurrent_kernels;
  int ecc;
  int pci_bus, pci_device, pci_domain;
  int tcc;
  int copy_engines;
  int unified_addressing;
  int memory_clock;
  int bus_width;
  int l2_cache;
  int persisting_l2_cache;
  int threads_per_processor;
  int stream_priorities;
  int l1_caches[2];
  size_t shared_per_processor;
  int registers_per_processor;
  int managed_memory;
  int board[2];
  int host_access[6];
  int cooperative_launch;
  int cooperative_devices;
  size_t shared_per_block_optin;
  int host_tables[2];
  int blocks_per_processor;
  int access_window;
  size_t reserved_shared;
  int host_register;
  int sparse_arrays;
  int host_register_read_only;
  int semaphores;
  int pools;
  int others[71];
} cuda_properties_12;

CUDA_API int cudaGetDeviceProperties_v2(cuda_properties_12 *properties, int device);

int cudaGetDeviceProperties_v2(cuda_properties_12 *properties, int device) {
  VCUDA_OPEN(NULL);
  cuda_properties now;
  int error = cudaGetDeviceProperties(&now, device);
  if (error != CUDA_OK) return vcuda_close(&call, error);
  *properties = (cuda_properties_12){
      .processors = now.processors,
      .maps_host_memory = now.maps_host_memory,
      .concurrent_kernels = now.concurrent_kernels,
      .pci_bus = now.pci_bus,
      .copy_engines = now.copy_engines,
      .unified_addressing = now.unified_addressing,
      .l2_cache = now.l2_cache,
      .threads_per_processor = now.threads_per_processor,
      .shared_per_processor = now.shared_per_processor,
      .registers_per_processor = now.registers_per_processor,
      .cooperative_launch = now.cooperative_launch,
      .shared_per_block_optin = now.shared_per_block_optin,
      .blocks_per_processor = now.blocks_per_processor,
      .reserved_shared = now.reserved_shared,
      .pools = now.pools,
  };
  memcpy(properties->head, &now, sizeof properties->head);
  return vcuda_close(&call, CUDA_OK);
}
