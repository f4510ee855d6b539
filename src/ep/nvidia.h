/* Rows that the options of NVIDIA's EPs share. */
#ifndef IOBIND_EP_NVIDIA_H
#define IOBIND_EP_NVIDIA_H

#include "ep/option.h"

#define IOBIND__NVIDIA_DEVICE                                                                           \
  {                                                                                                     \
    .key = "device_id", .kind = IOBIND__OPTION_WHOLE, .highest = 127, .preset = "0", .of_device = true, \
    .text = "which GPU; the device of the session sets it"                                              \
  }

#define IOBIND__NVIDIA_STREAM                                                                                         \
  {.key = "has_user_compute_stream",                                                                                  \
   .kind = IOBIND__OPTION_FLAG,                                                                                       \
   .preset = "0",                                                                                                     \
   .needs = "user_compute_stream",                                                                                    \
   .text = "the caller gives a stream; iobind sets it with user_compute_stream"},                                     \
  {                                                                                                                   \
    .key = "user_compute_stream", .kind = IOBIND__OPTION_ADDRESS, .preset = "0", .brings = "has_user_compute_stream", \
    .text = "the cudaStream_t that the session computes on; it must outlive the session"                              \
  }

#define IOBIND__NVIDIA_PAIR \
  { "user_compute_stream", NULL, "has_user_compute_stream", "0", "the EP would leave the stream aside" }

#endif
