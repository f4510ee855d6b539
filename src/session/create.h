/* The creation of a session: its options and its model are checked, ORT loads it, and what it has loaded is read. */
#ifndef IOBIND_SESSION_CREATE_H
#define IOBIND_SESSION_CREATE_H

#include "session/session.h"
#include "session/source.h"

/* ---- session.c ---- */

/* A session of nothing yet; NULL: out of memory. */
iobind_session *iobind__session_allocate(iobind_runtime *runtime);

/* A session of what was read from the caller's options. `out` stays as it is if it fails. */
iobind_status iobind__session_load(iobind_runtime *runtime, const iobind__source *from, const iobind_session_options *given,
                                   iobind_session **out, iobind_error *error);

/* ---- shadow.c ---- */

iobind_status iobind__verify_check(const iobind_verify *verify, iobind_error *error);

/* If no runs are asked for: those of the environment. */
iobind_status iobind__verify_by_environment(iobind_verify *verify, iobind_error *error);

/* If the session is to be verified and computes elsewhere than on the CPU: keep what its shadow is loaded from. */
iobind_status iobind__shadow_open(iobind_session *session, const iobind__source *from, const iobind_session_options *options,
                                  iobind_error *error);
void iobind__shadow_close(iobind__shadow *self); /* NULL is a no-op */

/* ---- options.c ---- */

iobind_status iobind__session_options_check(iobind_runtime *runtime, const iobind_session_options *options,
                                            iobind_error *error);
/* With a device besides the CPU: its EP may take no node, silently. Not if it captures graphs, which nodes on the CPU stand in the way of: the
 * record costs each run some instructions of ORT's. */
bool iobind__session_lists_nodes(const iobind_session_options *options);
/* Translate our options, which were checked, into ORT's. */
iobind_status iobind__session_options_build(iobind_runtime *runtime, const iobind_session_options *options,
                                            OrtSessionOptions **out, iobind_error *error);

/* ---- ep_options.c ---- */

/* The devices' EPs, each with its options, into ORT's session options. */
iobind_status iobind__session_append_eps(iobind_runtime *runtime, const iobind_session_options *options, OrtSessionOptions *out,
                                         iobind_error *error);

/* ---- dims.c ---- */

/* NOT_FOUND if an override names a dim that the model does not have, which ORT would ignore. */
iobind_status iobind__session_check_dims(const iobind_session_options *options, const iobind__source *from,
                                         iobind_error *error);

/* ---- graph.c ---- */

/* Can this session capture graphs? *device gets the one that does, NULL if none is asked for. */
iobind_status iobind__session_check_graph(const iobind_runtime *runtime, const iobind_session_options *options,
                                          const iobind__source *from, iobind_device **device, iobind_error *error);

/* The same when the session is made: what its outputs tell. */
iobind_status iobind__session_check_graph_outputs(const iobind_session *session, iobind_error *error);

/* Graphs that iobind does not know of would be replayed whatever is bound: their keys are refused. `what` says whose key it is. */
iobind_status iobind__session_check_graph_key(const char *what, const char *key, iobind_error *error);

/* ---- capturable.c ---- */

/* NOT_SUPPORTED if the model has something that a replay does not repeat. */
iobind_status iobind__source_check_capturable(const iobind__source *from, iobind_error *error);

/* ---- stream.c ---- */

/* The caller's stream, or one for an EP that needs it; NULL: neither. The session is an owner of it. */
iobind_status iobind__session_open_stream(const iobind_session_options *options, iobind_stream **stream, iobind_error *error);

/* A stream among the options of an EP that takes whatever it is given: one of another GPU would fail in the first run. */
iobind_status iobind__session_check_user_streams(const iobind_session_options *options, iobind_error *error);

/* ---- source.c ---- */

/* With the session's guard set. *refused is ORT's failure, which has no message yet. */
iobind_status iobind__source_load(const iobind__source *from, iobind_session *session, const OrtSessionOptions *ort_options,
                                  OrtStatus **refused, iobind_error *error);

/* ORT has refused it: the message. */
iobind_status iobind__source_refused(const iobind__source *from, iobind_runtime *runtime, const iobind_session_options *options,
                                     OrtStatus *failed, iobind_error *error);

/* ---- devices.c ---- */

/* Which devices may hold the session's tensors: those that it was given, or that ORT chose, by its inputs and outputs. */
iobind_status iobind__session_collect_devices(iobind_session *session, const iobind_session_options *options,
                                              iobind_error *error);
void iobind__session_add_devices(iobind_session *session);

/* Set what a call into its EPs must hold: by the devices that it is given, or, if others choose its EPs (a policy, or the program that has made
 * a wrapped session), by all. */
void iobind__session_set_guard(iobind_session *session, const iobind_session_options *options);

/* To a device whose driver must know the session. Only a session that iobind has made computes on the queue of such a device: another one's work
 * would not be in the order of its streams. */
iobind_status iobind__session_attach(iobind_session *session, const iobind_session_options *options, iobind_error *error);

/* ---- nodes.c ---- */

iobind_status iobind__session_read_nodes(iobind_session *session, iobind_error *error);
bool iobind__node_is_on_cpu(const iobind_node_info *node);

/* A line in the log if no node runs on the first device. */
void iobind__session_warn_of_idle_device(const iobind_session *session, const iobind_session_options *options);

/* ---- metadata.c: what the model says of itself ---- */

/* A copy of a text that ORT has allocated, which ORT gets back. `what` is for the message. */
iobind_status iobind__session_take_text(const iobind_session *session, char *text, char **out, const char *what,
                                        iobind_error *error);
iobind_status iobind__session_read_metadata(iobind_session *session, iobind_error *error);
void iobind__session_free_metadata(iobind_session *session);

/* ---- signature.c: names, types, shapes and places of inputs and outputs ---- */

iobind_status iobind__session_read_signature(iobind_session *session, iobind_error *error);
void iobind__session_free_signature(iobind_session *session);

#endif
