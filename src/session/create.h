/* The creation of a session: its options and its model are checked, ORT loads it, and what it has loaded is read. */
#ifndef IOBIND_SESSION_CREATE_H
#define IOBIND_SESSION_CREATE_H

#include "session/session.h"
#include "session/source.h"

/* ---- session.c ---- */

/* An empty session; NULL: out of memory. */
iobind_session *iobind__session_allocate(iobind_runtime *runtime);

/* A session from the caller's options, which were read. `out` is unchanged after a failure. */
iobind_status iobind__session_load(iobind_runtime *runtime, const iobind__source *from, const iobind_session_options *given,
                                   iobind_session **out, iobind_error *error);

/* ---- shadow.c ---- */

iobind_status iobind__verify_check(const iobind_verify *verify, iobind_error *error);

/* If the options request no runs: those of the environment. */
iobind_status iobind__verify_by_environment(iobind_verify *verify, iobind_error *error);

/* If the session is to be verified and computes elsewhere than on the CPU: keep what its shadow is loaded from. */
iobind_status iobind__shadow_open(iobind_session *session, const iobind__source *from, const iobind_session_options *options,
                                  iobind_error *error);
void iobind__shadow_close(iobind__shadow *self); /* NULL is a no-op */

/* ---- options.c ---- */

iobind_status iobind__session_options_check(iobind_runtime *runtime, const iobind_session_options *options,
                                            iobind_error *error);
/* True with a device besides the CPU, whose EP may silently run no node. False if the session captures graphs, which nodes on the CPU prevent:
 * the record costs each run some instructions of ORT. */
bool iobind__session_lists_nodes(const iobind_session_options *options);
/* Translate our options, which were checked, into ORT's. */
iobind_status iobind__session_options_build(iobind_runtime *runtime, const iobind_session_options *options,
                                            OrtSessionOptions **out, iobind_error *error);

/* NOT_FOUND if an override names a dim that the model does not have, which ORT would ignore. */
iobind_status iobind__session_check_dims(const iobind_session_options *options, const iobind__source *from,
                                         iobind_error *error);

/* ---- ep_options.c ---- */

/* The devices' EPs, each with its options, into ORT's session options. */
iobind_status iobind__session_append_eps(iobind_runtime *runtime, const iobind_session_options *options, OrtSessionOptions *out,
                                         iobind_error *error);

/* ---- graph.c ---- */

/* Can this session capture graphs? *device receives the device that does; NULL if no graphs are requested. */
iobind_status iobind__session_check_graph(const iobind_runtime *runtime, const iobind_session_options *options,
                                          const iobind__source *from, iobind_device **device, iobind_error *error);

/* The same after the session was created, by its outputs. */
iobind_status iobind__session_check_graph_outputs(const iobind_session *session, iobind_error *error);

/* ORT would replay graphs of the caller's keys whatever is bound, so these keys are refused. `what` names the key's owner. */
iobind_status iobind__session_check_graph_key(const char *what, const char *key, iobind_error *error);

/* ---- compute.c ---- */

/* The caller's stream, or one for an EP that needs it; NULL: neither. The session is an owner of it. */
iobind_status iobind__session_open_stream(const iobind_session_options *options, iobind_stream **stream, iobind_error *error);

/* Check a stream among the options of an EP that does not check it: one of another GPU would fail in the first run. */
iobind_status iobind__session_check_user_streams(const iobind_session_options *options, iobind_error *error);

/* ---- source.c ---- */

/* With the session's guard set. *refused is ORT's failure, which has no message yet. */
iobind_status iobind__source_load(const iobind__source *from, iobind_session *session, const OrtSessionOptions *ort_options,
                                  OrtStatus **refused, iobind_error *error);

/* The error after ORT has refused the model. */
iobind_status iobind__source_refused(const iobind__source *from, iobind_runtime *runtime, const iobind_session_options *options,
                                     OrtStatus *failed, iobind_error *error);

/* ---- devices.c ---- */

/* Which devices may hold the session's tensors: those of the options, or those that ORT chose, by inputs and outputs. */
iobind_status iobind__session_collect_devices(iobind_session *session, const iobind_session_options *options,
                                              iobind_error *error);
void iobind__session_add_devices(iobind_session *session);

/* Set the guard of calls into its EPs: for the devices of the options, or for all devices if the EPs are chosen otherwise (by a policy, or by
 * the program that created a wrapped session). */
void iobind__session_set_guard(iobind_session *session, const iobind_session_options *options);

/* Attach the session to a device whose driver must know it. Only sessions that iobind has created compute on the queue of such a device: the
 * work of others would not be in the order of its streams. */
iobind_status iobind__session_attach(iobind_session *session, const iobind_session_options *options, iobind_error *error);

/* ---- nodes.c ---- */

iobind_status iobind__session_read_nodes(iobind_session *session, iobind_error *error);
bool iobind__node_is_on_cpu(const iobind_node_info *node);

/* Log a warning if no node runs on the first device. */
void iobind__session_warn_of_idle_device(const iobind_session *session, const iobind_session_options *options);

/* ---- metadata.c: the model's metadata ---- */

/* Copy a string that ORT has allocated, and free ORT's. `what` is for the message. */
iobind_status iobind__session_take_text(const iobind_session *session, char *text, char **out, const char *what,
                                        iobind_error *error);
iobind_status iobind__session_read_metadata(iobind_session *session, iobind_error *error);
void iobind__session_free_metadata(iobind_session *session);

/* ---- signature.c: names, types, shapes and memory locations of inputs and outputs ---- */

iobind_status iobind__session_read_signature(iobind_session *session, iobind_error *error);
void iobind__session_free_signature(iobind_session *session);

#endif
