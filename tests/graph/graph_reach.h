/* The features that the sequences of graph_fuzz must reach at least once: a fuzzer finds no defect in code that it does not reach. */
#ifndef GRAPH_REACH_H
#define GRAPH_REACH_H

#include <stdbool.h>

/* clang-format off */
#define GRAPH_FEATURES(X)                                                \
  X(CAPTURED, "a run that captured a graph")                             \
  X(REPLAYED, "a run that replayed one")                                 \
  X(REPEATED, "a replay behind another one, nothing looked at between")  \
  X(LIMIT, "a run refused because of graph_limit")                       \
  X(FOREIGN, "a run refused because another thread has the graphs")      \
  X(IN_THREAD, "a run by another thread")                                \
  X(ON_STREAM, "a run on a stream")                                      \
  X(QUEUED, "runs queued on a stream, with new data between them")       \
  X(SNAPSHOT, "an input SNAPSHOT")                                       \
  X(LIVE, "an input LIVE")                                               \
  X(FIXED, "an output FIXED")                                            \
  X(IN_PLACE, "an output IN_PLACE")                                      \
  X(NONE, "an output NONE")                                              \
  X(SWAP, "a state carried by SWAP")                                     \
  X(CARRY_IN_PLACE, "a state carried IN_PLACE")                          \
  X(TAKEN, "a result taken")                                             \
  X(TAKEN_STATE, "a state taken that SWAP carries")                      \
  X(REFUSED, "what would be elsewhere in each run, refused")             \
  X(RESET, "graphs reset by the caller")                                 \
  X(OPTIONS, "other run options")                                        \
  X(UNBOUND, "a plain run of the session that captures")                 \
  X(REQUEST, "a request to it")                                          \
  X(BESIDE, "another binding of it")                                     \
  X(TOGETHER, "another binding of it, by another thread meanwhile")      \
  X(PIPELINE, "a pipeline of it")
/* clang-format on */

#define GRAPH_FEATURE_NAME(name, text) GRAPH_##name,
typedef enum graph_feature { GRAPH_FEATURES(GRAPH_FEATURE_NAME) GRAPH_FEATURE_COUNT } graph_feature;
#undef GRAPH_FEATURE_NAME

void graph_reached(graph_feature one);
void graph_reached_if(graph_feature one, bool holds);

/* Print the counts. False: a feature was not reached, which this device has. */
bool graph_report(bool has_queues);

#endif
