/* The features that the sequences must reach at least once: a fuzzer finds no defect in code that it does not reach. */
#ifndef FUZZ_BINDING_REACH_H
#define FUZZ_BINDING_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a feature can be reached: on the host or on another device; only on a device whose faults can be set, only with two devices,
 * or only if the caller has a current device. */
enum { ON_HOST = 1, ON_DEVICE = 2, ON_ANY = 3, ON_VIRTUAL = 4, ON_TWO = 8, ON_CURRENT = 16, ON_VCUDA = 32 };

/* clang-format off */
#define FEATURES(X)                                                                       \
  X(RESIDENT, ON_ANY, "a run with an input RESIDENT")                                     \
  X(SNAPSHOT, ON_ANY, "a run with an input SNAPSHOT")                                     \
  X(LIVE_HERE, ON_ANY, "a run with an input LIVE, where it is read")                      \
  X(LIVE_ELSEWHERE, ON_DEVICE, "a run with an input LIVE from elsewhere")                 \
  X(LIVE_DELIVERED, ON_DEVICE, "a LIVE input that its stream still delivers")             \
  X(DELIVERED_BESIDE, ON_DEVICE, "the same, or one read on the host, by another stream")  \
  X(HOST_READ, ON_DEVICE, "a run with an input that is read on the host")                 \
  X(HOST_READ_BUSY, ON_DEVICE, "the same, and its stream still writes it")                \
  X(PINNED_INPUT, ON_DEVICE, "a run with an input in pinned memory")                      \
  X(PINNED_OUTPUT, ON_DEVICE, "a run with an output in pinned memory")                    \
  X(HOST_OUTPUT, ON_DEVICE, "a run with an output in host memory")                        \
  X(WITH_EVENT, ON_ANY, "a run with an input's event")                                    \
  X(FRESH, ON_ANY, "a run with an output FRESH")                                          \
  X(REUSE, ON_ANY, "a run with an output REUSE")                                          \
  X(FIXED, ON_ANY, "a run with an output FIXED")                                          \
  X(IN_PLACE, ON_ANY, "a run with an output IN_PLACE")                                    \
  X(NONE, ON_ANY, "a run with an output NONE")                                            \
  X(MOVE, ON_ANY, "a state carried by MOVE")                                              \
  X(SWAP, ON_ANY, "a state carried by SWAP")                                              \
  X(CARRY_IN_PLACE, ON_ANY, "a state carried IN_PLACE")                                   \
  X(REPEATED, ON_ANY, "a run directly after another one")                                 \
  X(ARMED, ON_HOST, "the same, of ORT's call alone")                                      \
  X(REPLACED_INPUT, ON_HOST, "a similar input bound before such a run")                   \
  X(REPLACED_OUTPUT, ON_HOST, "a similar output bound before such a run")                 \
  X(QUEUED, ON_ANY, "a run queued after another one")                                     \
  X(UPDATED_BETWEEN, ON_ANY, "an input updated between queued runs")                      \
  X(THIRD_STREAM, ON_ANY, "a run on a third stream")                                      \
  X(TWO_BINDINGS, ON_ANY, "two bindings in flight at a time")                             \
  X(TWO_SESSIONS, ON_ANY, "two sessions in flight at a time")                             \
  X(TWINS, ON_ANY, "two sessions of one model in flight at a time")                       \
  X(SECOND_DEVICE, ON_TWO, "a run on the second device")                                  \
  X(TWO_DEVICES, ON_TWO, "two devices with work in flight at a time")                     \
  X(CURRENT, ON_CURRENT, "calls with another current device")                             \
  X(CROSS_COPY, ON_TWO, "a copy from one device to the other")                            \
  X(CROSS_SNAPSHOT, ON_TWO, "a SNAPSHOT of the other device's memory")                    \
  X(CROSS_REFUSED, ON_TWO, "the other device's memory RESIDENT, refused")                 \
  X(HOST_READS, ON_ANY, "a read that waits for work in flight by itself")                 \
  X(HOST_WRITES, ON_ANY, "a write that waits for work in flight by itself")               \
  X(LOOKED, ON_ANY, "data looked at while a run in flight writes them")                   \
  X(LENT, ON_DEVICE, "a result lent while its run is in flight")                          \
  X(TAKEN, ON_ANY, "a result taken")                                                      \
  X(TAKEN_LATER, ON_ANY, "a result taken after an input of other dims")                   \
  X(DLPACK, ON_ANY, "memory given by DLPack and taken again")                             \
  X(STRINGS, ON_ANY, "a run with strings")                                                \
  X(STRINGS_OVERLAP, ON_ANY, "strings that would be read and written, refused")           \
  X(REQUEST, ON_ANY, "a request")                                                         \
  X(REQUEST_TARGET, ON_ANY, "a request with a target")                                    \
  X(STATE_SAVED, ON_ANY, "a state saved")                                                 \
  X(STATE_IN_FLIGHT, ON_DEVICE, "a state saved while its run is in flight")               \
  X(STATE_RESTORED, ON_ANY, "a state restored")                                           \
  X(STATE_PENDING, ON_DEVICE, "a state restored before it is there")                      \
  X(STATE_BRANCHED, ON_ANY, "a state restored into another binding")                      \
  X(DESTROYED, ON_ANY, "a binding destroyed in flight")                                   \
  X(CANCELLED, ON_ANY, "a binding cancelled in flight")                                   \
  X(ANNOUNCED, ON_ANY, "a run that was announced")                                        \
  X(FAULT, ON_VIRTUAL | ON_VCUDA, "a fault that a call returned")                         \
  X(LATE, ON_HOST | ON_VIRTUAL, "a run that failed after its call had returned")          \
  X(STATES_LOST, ON_HOST | ON_VIRTUAL, "a state lost by a failure, refused")              \
  X(LOST, ON_VCUDA, "a device lost by work that fails after its call has returned")       \
  X(LOST_WAIT, ON_VCUDA, "a wait that returns it")                                        \
  X(LOST_RUN, ON_VCUDA, "a run in flight that has failed with it")                        \
  X(LOST_MEMORY, ON_VCUDA, "memory that work in flight was to write, refused")            \
  X(LOST_OTHER, ON_VCUDA, "a step on the other device afterwards")

/* clang-format on */

#define FEATURE_NAME(name, where, text) FEATURE_##name,
typedef enum feature { FEATURES(FEATURE_NAME) FEATURE_COUNT } feature;
#undef FEATURE_NAME

/* The counts; the driver puts them into shared memory. */
extern uint64_t *feature_counts;

void reached(feature one);
void reached_if(feature one, bool holds);

/* Print the counts. False: a feature that can be reached at `where` was not reached. */
bool features_report(unsigned where);

#endif
