/** @file given.h
 *  The values of --input: an array in a file, an array in an archive, or all arrays of an archive. */
#ifndef IOBIND_TOOL_GIVEN_H
#define IOBIND_TOOL_GIVEN_H

#include "shared/tool.h"

/** List the arrays of each --input that is a whole archive in tool->members, and remove it from tool->input_texts. */
int given_list(tool_state *tool);

/** Find the input of each --input. If the model has no input for an array of a whole archive, a note is printed.
 *  @param files  receives for each input a file for given_read, or NULL; valid as long as the tool */
int given_match(tool_state *tool, const iobind_session *session, const char **files);

/** As given_match, for another option that takes NAME=FILE; `texts` may be NULL. */
int given_match_list(const tool_state *tool, const char *option, char *const *texts, const iobind_session *session,
                     const char **files);

/** Instead of a file: zeros of the input's dims. For a file of that name write "./zeros". */
#define GIVEN_ZEROS "zeros"

/** Does --input give the input of this name? */
bool given_has(const tool_state *tool, const char *name);

/** Read "FILE.npy", "FILE.npz:ARRAY", or "FILE.npz", which stands for its array of the input's name. An array of another type than the
 *  input's is refused before its data are read. */
bool given_read(const char *file, const iobind_value_info *input, npy_array *array, tool_fault *fault);

#endif
