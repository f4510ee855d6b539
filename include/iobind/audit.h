/** @file audit.h
 *  Audits: which bytes each run of a binding moves, from where to where, and why. */
#ifndef IOBIND_AUDIT_H
#define IOBIND_AUDIT_H

/* clang-format off: laid out by hand, as a page to read */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iobind_audit_kind {
  IOBIND_AUDIT_INPUT = 0,
  IOBIND_AUDIT_OUTPUT = 1,
  IOBIND_AUDIT_NODE = 2, /**< a node that runs on the CPU although the session has a device whose memory the host cannot access */
  IOBIND_AUDIT_KIND_FORCE32 = 0x7FFFFFFF
} iobind_audit_kind;

enum {
  IOBIND_AUDIT_CROSSES = 1u << 0, /**< on each run `bytes` cross between host and device memory, or between two devices */
  IOBIND_AUDIT_UNKNOWN = 1u << 1  /**< data move, but their size is unknown: no run has determined it, or only ORT knows it */
};

/** List the data that each run of a binding moves: an entry for every input and output. If nodes were recorded (see device_node_count
 *  of iobind_session_info), there are also entries of the kind IOBIND_AUDIT_NODE. Sizes of outputs are those of the last run. Copies
 *  that ORT inserts between nodes are only in its profile (see iobind_session_end_profile), which the tool reads.
 *  @return OK; INVALID_STATE a run is in flight; INVALID_ARGUMENT; OUT_OF_MEMORY; RUNTIME
 *  @threads serial for the binding   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_audit_create(iobind_binding *binding, iobind_audit **audit, iobind_error *error);

/** Destroy an audit. The binding is not affected.
 *  @threads serial   @since 1.0 */
IOBIND_API void iobind_audit_destroy(iobind_audit *audit);

typedef struct iobind_audit_info {
  uint32_t struct_size;
  uint32_t reserved;
  size_t entry_count;
  uint64_t crossing_bytes; /**< the sum over the entries with IOBIND_AUDIT_CROSSES */
  size_t crossing_count;   /**< entries that cross */
  size_t unknown_count;    /**< entries with IOBIND_AUDIT_UNKNOWN: if there are any, `crossing_bytes` is a lower bound */
} iobind_audit_info;
#define IOBIND_AUDIT_INFO_INIT {sizeof(iobind_audit_info), 0, 0, 0, 0, 0}

/** Get the totals of an audit.
 *  @return OK; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_audit_get_info(const iobind_audit *audit, iobind_audit_info *info,
                                                            iobind_error *error);

typedef struct iobind_audit_entry {
  uint32_t struct_size;
  int32_t kind;        /**< iobind_audit_kind */
  uint32_t flags;      /**< IOBIND_AUDIT_* */
  uint32_t reserved;
  const char *name;    /**< of the input, output or node */
  iobind_device *from; /**< NULL for a node, or if nothing is bound */
  iobind_device *to;
  int32_t from_memory; /**< iobind_memory */
  int32_t to_memory;
  uint64_t bytes;      /**< moved on each run, also within one memory location; 0: nothing, or unknown */
  const char *reason;  /**< the reason, one line */
  const char *advice;  /**< what to do; "" if nothing */
} iobind_audit_entry;
#define IOBIND_AUDIT_ENTRY_INIT {sizeof(iobind_audit_entry), 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, NULL, NULL}

/** Get an entry: inputs in the model's order, then outputs, then nodes. The strings remain valid as long as the audit.
 *  @param index  0 .. entry_count - 1
 *  @return OK; NOT_FOUND index out of range; INVALID_ARGUMENT
 *  @threads any   @since 1.0 */
IOBIND_API IOBIND_CHECK iobind_status iobind_audit_get_entry(const iobind_audit *audit, size_t index, iobind_audit_entry *entry,
                                                             iobind_error *error);

#ifdef __cplusplus
}
#endif

#endif
