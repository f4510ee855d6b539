#define _POSIX_C_SOURCE 200809L /* strdup, strndup */

#include "shared/given.h"

#include <stdlib.h>
#include <string.h>

#include "formats/npz.h"

/* ---- whole archives ---- */

static bool add_members(tool_state *tool, const npz_archive *archive, const char *file) {
  size_t count = npz_count(archive);
  tool_member *grown = realloc(tool->members, (tool->member_count + count) * sizeof *grown);
  if (grown == NULL) return false;
  tool->members = grown;
  for (size_t i = 0; i < count; i++) {
    tool_member *member = &grown[tool->member_count++];
    *member = (tool_member){strdup(npz_name(archive, i)), strdup(file), false};
    if (member->name == NULL || member->file == NULL) return false;
  }
  return true;
}

static int list_archive(tool_state *tool, const char *file) {
  tool_fault fault;
  npz_archive *archive = npz_open(file, &fault);
  if (archive == NULL) return tool_fail(tool, "--input %s", fault.text);
  bool added = add_members(tool, archive, file);
  npz_close(archive);
  return added ? TOOL_GO : tool_fail(tool, "out of memory");
}

int given_list(tool_state *tool) {
  size_t kept = 0;
  int code = TOOL_GO;
  for (size_t i = 0; tool->input_texts != NULL && tool->input_texts[i] != NULL; i++) {
    char *text = tool->input_texts[i];
    if (strchr(text, '=') != NULL || !npz_is_archive(text)) {
      tool->input_texts[kept++] = text;
      continue;
    }
    if (code == TOOL_GO) code = list_archive(tool, text);
    free(text);
  }
  if (tool->input_texts != NULL) tool->input_texts[kept] = NULL;
  return code;
}

/* ---- the input of each --input ---- */

static bool get_name(const iobind_session *session, size_t index, const char **name) {
  iobind_value_info value = IOBIND_VALUE_INFO_INIT;
  bool got = iobind_session_get_input(session, index, &value, NULL) == IOBIND_OK;
  *name = value.name;
  return got;
}

/* "NAME=FILE": a name may contain '=' itself, so the longest one that the model has is taken. */
static int match_text(const tool_state *tool, const char *option, const iobind_session *session, const char *text,
                      size_t *index, const char **file) {
  size_t longest = 0;
  const char *name = NULL;
  for (size_t i = 0; get_name(session, i, &name); i++) {
    size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != '=' || (*file != NULL && length < longest)) continue;
    *index = i;
    *file = text + length + 1;
    longest = length;
  }
  if (*file != NULL) return **file != 0 ? TOOL_GO : tool_misuse(tool, "%s %s: the file is missing", option, text);
  const char *equals = strchr(text, '=');
  if (equals == NULL || equals == text) {
    return tool_misuse(tool, "%s: expected NAME=FILE.npy, NAME=FILE.npz:ARRAY or FILE.npz, got '%s'", option, text);
  }
  char *unknown = strndup(text, (size_t)(equals - text));
  if (unknown == NULL) return tool_fail(tool, "out of memory");
  iobind_error error = IOBIND_ERROR_INIT;
  size_t unused = 0;
  int code = TOOL_GO;
  if (iobind_session_find_input(session, unknown, &unused, &error) != IOBIND_OK) {
    code = tool_fail_error(tool, option, &error);
  }
  free(unknown);
  return code;
}

static int assign_file(const tool_state *tool, const char *option, const iobind_session *session, const char **files,
                       size_t index, const char *file) {
  const char *name = NULL;
  if (files[index] != NULL && get_name(session, index, &name)) return tool_misuse(tool, "%s '%s' is given twice", option, name);
  files[index] = file;
  return TOOL_GO;
}

int given_match_list(const tool_state *tool, const char *option, char *const *texts, const iobind_session *session,
                     const char **files) {
  int code = TOOL_GO;
  for (size_t i = 0; code == TOOL_GO && i < tool_list_length(texts); i++) {
    size_t index = 0;
    const char *file = NULL;
    code = match_text(tool, option, session, texts[i], &index, &file);
    if (code == TOOL_GO) code = assign_file(tool, option, session, files, index, file);
  }
  return code;
}

int given_match(tool_state *tool, const iobind_session *session, const char **files) {
  int code = given_match_list(tool, "--input", tool->input_texts, session, files);
  for (size_t i = 0; code == TOOL_GO && i < tool->member_count; i++) {
    size_t index = 0;
    tool_member *member = &tool->members[i];
    if (iobind_session_find_input(session, member->name, &index, NULL) == IOBIND_OK) {
      code = assign_file(tool, "--input", session, files, index, member->file);
    } else if (!member->noted) {
      member->noted = true; /* once, not for each device */
      tool_warn(tool, "%s: '%s' is not an input of the model, and is not used", member->file, member->name);
    }
  }
  return code;
}

bool given_has(const tool_state *tool, const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i < tool_list_length(tool->input_texts); i++) {
    const char *text = tool->input_texts[i];
    if (strncmp(text, name, length) == 0 && text[length] == '=') return true;
  }
  for (size_t i = 0; i < tool->member_count; i++) {
    if (strcmp(tool->members[i].name, name) == 0) return true;
  }
  return false;
}

/* ---- reading ---- */

typedef struct wanted {
  const iobind_value_info *input;
  const char *file;
} wanted;

static bool accepts(const void *context, const npy_array *header, tool_fault *fault) {
  const wanted *self = context;
  tool_fault reason;
  return tool_check_type(self->input, header, &reason) || fault_set(fault, "%s: %s", self->file, reason.text);
}

bool given_read(const char *file, const iobind_value_info *input, npy_array *array, tool_fault *fault) {
  const wanted context = {input, file};
  const npy_filter filter = {accepts, &context};
  const char *member = strstr(file, NPZ_ENDING ":");
  if (member == NULL && !npz_is_archive(file)) return npy_read_if(file, &filter, array, fault);
  *array = (npy_array){0};
  size_t length = member == NULL ? strlen(file) : (size_t)(member - file) + strlen(NPZ_ENDING);
  char *path = strndup(file, length);
  if (path == NULL) return fault_set(fault, "%s: out of memory", file);
  npz_archive *archive = npz_open(path, fault);
  bool good = archive != NULL && npz_read(archive, member == NULL ? input->name : file + length + 1, &filter, array, fault);
  npz_close(archive);
  free(path);
  return good;
}
