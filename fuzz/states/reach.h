/* The features that the sequences of fuzz_states must reach: a fuzzer finds no defect in code that it does not reach. */
#ifndef FUZZ_STATES_REACH_H
#define FUZZ_STATES_REACH_H

#include <stdbool.h>
#include <stddef.h>

/* What a feature needs to be reached: faults of a virtual device, captured graphs, runs that fail late, a device that can be lost, or
 * lengths that the host reads. ANYWHERE: none of these. */
enum { ANYWHERE = 0, WITH_FAULTS = 1, WITH_GRAPHS = 2, WITH_LATE = 4, WITH_LOSS = 8, WITH_HOST = 16 };

/* clang-format off */
#define FEATURES(X)                                                                       \
  X(MOVE, ANYWHERE, "a run of a state carried by MOVE")                                   \
  X(SWAP, ANYWHERE, "a run of a state carried by SWAP")                                   \
  X(IN_PLACE, ANYWHERE, "a run of a state carried IN_PLACE")                              \
  X(GRAPH, WITH_GRAPHS, "a run of a session that captures graphs")                        \
  X(VERIFIED, WITH_GRAPHS, "a run that is verified on the CPU")                           \
  X(WRONG, WITH_FAULTS, "a wrong result that verification finds")                         \
  X(ATTENDED, ANYWHERE, "attention to the rows in use")                                   \
  X(ATTENDED_UNEVEN, ANYWHERE, "the same, of rows of different lengths")                  \
  X(ITEM, ANYWHERE, "an item of a pipeline beside the bindings")                          \
  X(STREAM, ANYWHERE, "a run on a stream")                                                \
  X(QUEUED, ANYWHERE, "a run after another one in flight")                                \
  X(COUNTED, ANYWHERE, "a run with the length that iobind has counted")                   \
  X(GIVEN, ANYWHERE, "a run with a length that the caller gives")                         \
  X(GIVEN_UNEVEN, ANYWHERE, "a run with a length that the caller gives for each row")     \
  X(COUNTED_UNEVEN, ANYWHERE, "a run with the length that iobind has counted for each row") \
  X(SAVED_UNEVEN, ANYWHERE, "a state saved whose rows have different lengths")            \
  X(REORDERED_UNEVEN, ANYWHERE, "rows of different lengths reordered")                    \
  X(REWOUND_UNEVEN, ANYWHERE, "rows of different lengths rewound")                        \
  X(FAILED_UNEVEN, WITH_FAULTS, "a failed run of rows of different lengths")              \
  X(COUNTED_QUEUED, ANYWHERE, "a length written between runs in flight")                  \
  X(WRITTEN, ANYWHERE, "a run with a length that the caller has written")                 \
  X(STALE, ANYWHERE, "a run with the length of the run before")                           \
  X(OVERFLOW, ANYWHERE, "more rows than the cache has room for, refused")                 \
  X(UNBOUND, ANYWHERE, "a run without a length, refused, after which the length is known") \
  X(REFUSED, WITH_FAULTS, "a run refused before ORT, after which the length is known")    \
  X(NAMED, ANYWHERE, "lengths written into inputs that the caller has named")             \
  X(NAMED_UNEVEN, ANYWHERE, "the same, of rows of different lengths")                     \
  X(NAMED_QUEUED, ANYWHERE, "the same, between runs in flight")                           \
  X(OWN_MASK, ANYWHERE, "a mask that the caller writes beside lengths that iobind writes") \
  X(OTHER_WIDTH, ANYWHERE, "positions bound for another number of rows, refused")         \
  X(RENAMED, ANYWHERE, "an input named again, after which the length is unknown")         \
  X(UNNAMED, ANYWHERE, "lengths without names, refused")                                  \
  X(MISNAMED, ANYWHERE, "an invalid name, refused")                                       \
  X(SAVED_NAMED, ANYWHERE, "a named cache saved, with its length")                        \
  X(REWOUND_NAMED, ANYWHERE, "a named cache rewound")                                     \
  X(REDEFINED_NAMED, WITH_FAULTS, "an undefined named cache, defined by a rewind")        \
  X(WRONG_LENGTH, WITH_HOST, "a run with an invalid length that the caller has written, refused") \
  X(SAVED, ANYWHERE, "a state saved")                                                     \
  X(SAVED_IN_FLIGHT, ANYWHERE, "a state saved while its run is in flight")                \
  X(RESTORED, ANYWHERE, "a state restored")                                               \
  X(BRANCHED, ANYWHERE, "a state restored into another binding")                          \
  X(RESTORED_ROWS, ANYWHERE, "a state of another number of rows restored")                \
  X(BUSY, ANYWHERE, "a change while a run is in flight, refused")                         \
  X(REORDERED, ANYWHERE, "rows reordered")                                                \
  X(OTHER_ROWS, ANYWHERE, "rows reordered to another number of rows")                     \
  X(LENGTH_OF_OTHER_ROWS, ANYWHERE, "lengths counted on for another number of rows")      \
  X(OUT_OF_RANGE, ANYWHERE, "rows out of range, refused")                                 \
  X(REWOUND_GROWING, ANYWHERE, "a growing state rewound")                                 \
  X(REWOUND_COUNTED, ANYWHERE, "a counted cache rewound")                                 \
  X(NOT_REWOUND, ANYWHERE, "a rewind of what cannot be rewound, refused")                 \
  X(TOO_LONG, ANYWHERE, "a rewind to a longer length, refused")                           \
  X(FILE, ANYWHERE, "a state written to a file and loaded")                               \
  X(BOUND, ANYWHERE, "another state bound")                                               \
  X(KEPT, ANYWHERE, "a result retained over later runs")                                  \
  X(FAILED, WITH_FAULTS, "a run that failed")                                             \
  X(LATE, WITH_LATE, "a run that failed after its call had returned")                     \
  X(LATE_OF_SEVERAL, WITH_LATE, "the same, after another one in flight")                  \
  X(FAILED_GRAPH, WITH_LATE | WITH_FAULTS | WITH_GRAPHS, "a failed run of a session that captures graphs") \
  X(UNDEFINED, WITH_FAULTS, "an undefined state, refused")                                \
  X(REDEFINED, WITH_FAULTS, "an undefined cache, defined by a rewind")                    \
  X(FAILED_STATE, WITH_LATE | WITH_FAULTS, "a state saved of a run that failed late")     \
  X(JOINED, ANYWHERE, "a row that joined a batch from a binding's state")                 \
  X(STEPPED, ANYWHERE, "a step of a batch")                                               \
  X(LEFT, ANYWHERE, "a row of a batch that became a saved state")                         \
  X(BATCH_FAILED, WITH_FAULTS, "a step of a batch that failed")                           \
  X(LOST, WITH_LOSS, "a device lost by work that fails after its call has returned")      \
  X(LOST_IN_FLIGHT, WITH_LOSS, "a state saved of the run that fails, refused")            \
  X(LOST_STATE, WITH_LOSS, "a state in memory of the lost device, refused")               \
  X(LOST_BATCH, WITH_LOSS, "a step of a batch on the lost device, refused")               \
  X(LOST_ELSEWHERE, WITH_LOSS, "a state in a file restored on another device")
/* clang-format on */

#define FEATURE_NAME(name, where, text) FEATURE_##name,
typedef enum feature { FEATURES(FEATURE_NAME) FEATURE_COUNT } feature;
#undef FEATURE_NAME

void reached(feature one);
void reached_if(feature one, bool holds);

/* Allocate memory that processes forked later share. It also holds the counts. */
void *reach_share(size_t bytes);

/* Set what this process has: a set of the bits above. */
void reach_here(unsigned where);

/* Print the counts. False: a feature that can be reached here was not reached. */
bool report(void);

#endif
