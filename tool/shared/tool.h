/** @file tool.h
 *  What the commands share: exit codes, errors, options, a runtime, sessions, inputs and progress.
 *
 *  A command is one function. It calls tool_begin, which reads the command line, then what it needs below, and tool_end last,
 *  whatever happened:
 *
 *      tool_state tool;
 *      int code = tool_begin(&tool, &usage, argc, argv);
 *      if (code == TOOL_GO) code = work(&tool);
 *      return tool_end(&tool, code);
 *
 *  Functions that return int return TOOL_GO to continue, or the exit code after the error has been printed. */
#ifndef IOBIND_TOOL_TOOL_H
#define IOBIND_TOOL_TOOL_H

#include <iobind/iobind.h>
#include <popt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/fault.h"
#include "formats/npy.h"
#include "shared/clock.h"
#include "shared/launches.h"
#include "shared/report.h"
#include "shared/wish.h"

enum {
  TOOL_GO = -1,     /**< continue */
  TOOL_DONE = 0,    /**< the work is done */
  TOOL_FAILED = 1,  /**< the work failed */
  TOOL_MISUSED = 2, /**< the command line is wrong */
};

/* ---- commands ----------------------------------------------------------------------------------------------------- */

/** argv[0] is the command's name. Returns the exit code. */
int command_doctor(int argc, const char **argv);
int command_devices(int argc, const char **argv);
int command_options(int argc, const char **argv);
int command_inspect(int argc, const char **argv);
int command_run(int argc, const char **argv);
int command_bench(int argc, const char **argv);
int command_audit(int argc, const char **argv);
int command_loop(int argc, const char **argv);
int command_compare(int argc, const char **argv);
int command_tile(int argc, const char **argv);

/* ---- the command line --------------------------------------------------------------------------------------------- */

/** Options of some commands. Every command has --help, --verbose, --json, --ort and --ep-library. */
enum {
  TOOL_TAKES_DEVICE = 1u << 0,  /**< --device SPEC, once */
  TOOL_TAKES_DEVICES = 1u << 1, /**< --device SPEC, repeatable */
  TOOL_TAKES_DIMS = 1u << 2,    /**< --dim SYMBOL=N or --dim INPUT[AXIS]=N, repeatable */
  TOOL_TAKES_INPUTS = 1u << 3,  /**< --input NAME=FILE.npy, NAME=FILE.npz:ARRAY or FILE.npz, repeatable; --random;
                                     --seed N */
  TOOL_TAKES_SESSION = 1u << 4, /**< --ep-option, --config, --policy, --strict, --threads, --optimization, --profile */
  TOOL_TAKES_RUNS = 1u << 5,    /**< --run-config */
};

typedef struct tool_usage {
  const char *command;
  const char *arguments;            /**< what the help shows after "[OPTIONS...]", such as "MODEL" */
  const char *summary;              /**< the help's first sentence */
  const char *notes;                /**< what the help shows below the options; may be NULL */
  uint32_t takes;                   /**< TOOL_TAKES_* */
  size_t argument_count;            /**< how many arguments there must be */
  size_t optional_count;            /**< how many more there may be */
  const struct poptOption *options; /**< the command's own options, up to POPT_TABLEEND; may be NULL. For values use
                                         POPT_ARG_ARGV, a NULL-terminated list that tool_single and tool_free_list take:
                                         popt then reports no number of its own and leaks nothing when one is repeated */
} tool_usage;

typedef struct tool_dim {
  char *name;   /**< the symbol, or the input if axis is not -1 */
  int64_t axis; /**< -1: a symbol */
  int64_t value;
} tool_dim;

/** An array of an archive that was given whole. */
typedef struct tool_member {
  char *name;
  char *file;
  bool noted; /**< a note was printed that the model has no input for it */
} tool_member;

typedef struct tool_state {
  const tool_usage *usage;
  poptContext popt;
  const char **words;     /**< the command line as popt reads it */
  char name[32];          /**< words[0]: "iobind COMMAND" */
  const char **arguments; /**< those of usage->argument_count and optional_count, then NULL */
  char **devices;         /**< --device: NULL or a list that ends in NULL */
  char **ep_libraries;    /**< --ep-library */
  char **orts;            /**< --ort */
  char **dim_texts;       /**< --dim */
  char **input_texts;     /**< --input, but for whole archives */
  tool_member *members;   /**< the arrays in those archives */
  size_t member_count;
  char **seed_texts; /**< --seed */
  tool_dim *dims;
  size_t dim_count;
  uint64_t seed;
  int json;
  int random;
  int verbosity;       /**< number of -v */
  const char *profile; /**< tool_load records ORT's profile into a file whose path begins with this; NULL: none */
  iobind_runtime *runtime;
  tool_clock clock;             /**< of the device for which tool_load last loaded a model */
  tool_launches launches;       /**< of the same */
  bool verify;                  /**< the first run of a session is compared with the CPU's */
  tool_wish wish;               /**< of sessions and runs */
  struct poptOption shared[24]; /**< the tables that popt reads, which point into this struct: so it must not be moved */
  struct poptOption tables[3];
} tool_state;

/** Read the command line. After TOOL_DONE the help has been printed. */
int tool_begin(tool_state *tool, const tool_usage *usage, int argc, const char **argv);

/** Called with an option of a command; `option` has a long name. */
typedef void tool_visitor(const struct poptOption *option);

/** Until NULL is given, tool_begin reads no command line, but calls `visit` for each option of its command and returns TOOL_DONE. */
void tool_visit_options(tool_visitor *visit);

/** Release everything; returns `code`. */
int tool_end(tool_state *tool, int code);

/** Length of a list that ends in NULL; 0 for NULL. */
size_t tool_list_length(char *const *list);

/** Free a list that POPT_ARG_ARGV made. */
void tool_free_list(char **list);

/** The only value of an option that may be given once; NULL if it is not given.
 *  @param option  for the message, such as "--plot" */
int tool_single(const tool_state *tool, char *const *list, const char *option, const char **value);

/** The number of an option that may be given once, and must be exact; *value stays as it is if it is not given. */
int tool_integer(const tool_state *tool, char *const *list, const char *option, int64_t low, int64_t high, int64_t *value);
int tool_real(const tool_state *tool, char *const *list, const char *option, double low, double high, double *value);

/* ---- errors: one line on stderr, "iobind: COMMAND: cause and fix" -------------------------------------------------- */

/** Print; returns TOOL_FAILED. */
__attribute__((format(printf, 2, 3))) int tool_fail(const tool_state *tool, const char *format, ...);

/** Print with a hint at --help; returns TOOL_MISUSED. */
__attribute__((format(printf, 2, 3))) int tool_misuse(const tool_state *tool, const char *format, ...);

/** The library's message without the name of its function: the user has not called it. */
const char *tool_reason(const iobind_error *error);

/** Print the library's message; returns TOOL_FAILED.
 *  @param subject  what was worked on, such as a file's name; NULL: the message says it */
int tool_fail_error(const tool_state *tool, const char *subject, const iobind_error *error);

/** A line on stderr that is not an error, but useful to know. */
__attribute__((format(printf, 2, 3))) void tool_warn(const tool_state *tool, const char *format, ...);

/** Print a report on stdout, as JSON if --json was given. Returns `code`, or TOOL_FAILED if it cannot be written. */
int tool_print(const tool_state *tool, const tool_report *report, int code);

/* ---- runtime, devices, sessions ----------------------------------------------------------------------------------- */

/** Open tool->runtime as the options say. Software devices are always allowed. */
int tool_open(tool_state *tool);

/** As tool_open, but the failure is returned and nothing is printed. */
iobind_status tool_try_open(tool_state *tool, iobind_error *error);

/** Print why tool_try_open failed, and what to do; returns TOOL_FAILED. */
int tool_fail_open(const tool_state *tool, const iobind_error *error);

/** Find the device of a spec; one that names a kind of memory ("/pinned") is refused.
 *  @param option  that gave it, for the message */
int tool_find_device(tool_state *tool, const char *option, const char *spec, iobind_device **device);

/** The first --device, or the CPU if there is none. */
int tool_first_device(tool_state *tool, iobind_device **device);

/** Fix one more dim as --dim does, unless it is fixed already. False: out of memory.
 *  @param axis  of the input `name`; -1: `name` is a symbol */
bool tool_add_dim(tool_state *tool, const char *name, int64_t axis, int64_t value);

/** Load a model on one device, as tool->wish asks; nodes that the device does not take run on the CPU, unless --strict is
 *  given. Symbols of --dim get their value; an unknown symbol or input is an error.
 *  @param device  where; with --policy it receives where the session's inputs or outputs are
 *  @param flags  IOBIND_SESSION_* */
int tool_load(tool_state *tool, const char *path, iobind_device **device, uint32_t flags, iobind_session **session);

/** As tool_load, for a session that captures its runs as graphs. It has no profile.
 *  @param limit  the most graphs that a binding keeps */
int tool_load_captured(tool_state *tool, const char *path, iobind_device **device, size_t limit, iobind_session **session);

/** As tool_load, from the bytes of a model made from the one at `path`, whose directory has the external data. */
int tool_load_bytes(tool_state *tool, const char *path, const void *model, size_t bytes, iobind_device **device,
                    iobind_session **session);

/** Run once without a binding, all outputs on the host.
 *  @param outputs  receives tensors, which the caller releases */
iobind_status tool_run(iobind_session *session, iobind_tensor *const *inputs, size_t input_count, iobind_tensor **outputs,
                       size_t output_count, iobind_error *error);

/** End the profile of a session. Fails if ORT has not created its file.
 *  @param path  valid until the session is destroyed
 */
int tool_end_profile(const tool_state *tool, iobind_session *session, const char **path);

/** End the profile of --profile, and add its path to the report. */
int tool_report_profile(const tool_state *tool, iobind_session *session, tool_report *report);

/** Add to a report which clock its times are from. */
void tool_report_clock(const tool_state *tool, tool_report *report);

/** The number of a session's nodes, if ONNX Runtime's CPU EP runs all of them instead of the device; otherwise, or if it is unknown, 0. */
size_t tool_idle_nodes(const iobind_session *session);

/** The text of a report about them, with their number and the device. */
#define TOOL_IDLE "0 of %zu nodes on %s: ONNX Runtime's CPU EP runs all of them"

/** The spec of a device, such as "webgpu:0"; valid as long as the runtime. "?" if there is none. */
const char *tool_device_spec(const iobind_device *device);

/** Whether a device's default memory is the host's. */
bool tool_is_host(const iobind_device *device);

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

/** Make one host tensor for each input, in the session's order: from --input, or with --random for those not given.
 *  @param tensors  receives a malloc'ed array of input_count tensors; tool_free_tensors takes it */
int tool_make_inputs(tool_state *tool, iobind_session *session, iobind_tensor ***tensors, size_t *count);

/** The first half of that: find for each input the file that --input gives.
 *  @param files  a pointer for each input, NULL before the call; what they receive is valid as long as the tool */
int tool_match_inputs(tool_state *tool, const iobind_session *session, const char **files);

/** The other half, for one input: a host tensor from its file, or random if `file` is NULL. */
int tool_make_input(tool_state *tool, const iobind_value_info *value, const char *file, iobind_tensor **tensor);

/** The dims of an input with those of --dim filled in.
 *  @param dims  receives value->rank of them; there is room for IOBIND_MAX_RANK */
int tool_resolve_dims(const tool_state *tool, const iobind_value_info *value, int64_t *dims);

/** Release tensors, each of which may be NULL, and free the array. */
void tool_free_tensors(iobind_tensor **tensors, size_t count);

/** Whether arrays of this type can be an input. */
bool tool_check_type(const iobind_value_info *value, const npy_array *array, tool_fault *fault);

/** A host tensor with the content of an array. Types that numpy does not have are taken in their raw form: bfloat16 as u2, 8-bit
 *  floats as u1, packed ones as 1-D u1 bytes, whose dims `value` must then fix. */
bool tool_tensor_from_npy(iobind_device *cpu, const iobind_value_info *value, const npy_array *array, iobind_tensor **tensor,
                          tool_fault *fault);

/** An array with the content of a tensor on any device, in the raw forms above. npy_free frees it. */
bool tool_tensor_to_npy(const iobind_tensor *tensor, npy_array *array, tool_fault *fault);

/** The raw form of a type as text, such as "bfloat16 as uint16"; NULL if numpy has the type itself. */
const char *tool_raw_form(int32_t dtype);

/** "float32[1,3,N,224]" of a model's value: symbols by name, nameless open dims as '?'. malloc'ed; NULL: no memory. */
char *tool_describe_value(const iobind_value_info *value);

/** "[1,3,224,224]"; malloc'ed. */
char *tool_describe_dims(const int64_t *dims, size_t rank);

/** dims as a JSON array. */
json_t *tool_dims_json(const int64_t *dims, size_t rank);

/* ---- progress ----------------------------------------------------------------------------------------------------- */

/** Report on a terminal what takes long: nothing for two seconds, then one line that counts the seconds, cleared at the end. */
void progress_begin(const tool_state *tool);

/** Set what is being done now; may be called any time between begin and end. */
__attribute__((format(printf, 1, 2))) void progress_say(const char *format, ...);

/** Clear the line. tool_end and the errors above do it too; calling it twice is fine. */
void progress_end(void);

#endif
