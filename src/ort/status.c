#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "ort/api.h"
#include "support/text.h"

/* Is this word a position in ORT's source, such as "/onnxruntime_src/onnxruntime/core/session/utils.cc:39"? */
static bool is_source_place(const char *word, size_t length) {
  static const char *const endings[] = {".cc:", ".h:", ".cpp:", ".cc(", ".h(", ".cpp("};
  for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
    size_t size = strlen(endings[e]);
    for (size_t i = 0; i + size < length; i++) {
      if (memcmp(word + i, endings[e], size) == 0 && isdigit((unsigned char)word[i + size])) {
        return true;
      }
    }
  }
  return false;
}

/* The C++ function, "type name(parameters) const", follows a position in the source. Returns its length, or 0 if there is
 * none. */
static size_t signature_length(const char *text) {
  enum { LONGEST = 1000 };
  size_t depth = 0;
  for (size_t i = 0; text[i] != '\0' && text[i] != '\n' && i < LONGEST; i++) {
    if (text[i] == '(') {
      depth++;
    } else if (text[i] == ')' && depth > 0 && --depth == 0) {
      size_t end = i + 1;
      const char *more = text + end;
      if (strncmp(more, "::", 2) != 0 && strncmp(more, " const::", 8) != 0) {
        return strncmp(more, " const ", 7) == 0 ? end + 6 : end;
      }
      i = end; /* a nested function: "f(...)::<lambda(...)>" */
    } else if (depth == 0 && (strchr("'\".", text[i]) != NULL || strncmp(text + i, ": ", 2) == 0)) {
      return 0; /* a sentence, not a name */
    }
  }
  return 0;
}

/* Copy ORT's text on one line, without positions in its source and the functions after them. */
static void normalise(const char *text, char *out, size_t capacity) {
  size_t length = 0;
  while (*text != '\0') {
    text += strspn(text, " \t\r\n");
    size_t word = strcspn(text, " \t\r\n");
    if (word == 0 || is_source_place(text, word)) {
      text += word;
      if (word > 0) {
        text += strspn(text, " ");
        text += signature_length(text);
        text += strspn(text, ">"); /* after a lambda */
      }
      continue;
    }
    if (length > 0 && length + 1 < capacity) {
      out[length++] = ' ';
    }
    size_t fits = word < capacity - 1 - length ? word : capacity - 1 - length;
    memcpy(out + length, text, fits);
    length += fits;
    text += word;
  }
  out[length] = '\0';
}

/* ORT's message names each node around the failed one. The part from the failed one on. */
static const char *innermost(const char *message) {
  const char *inner = message;
  for (const char *at = message; (at = strstr(at, "Non-zero status code returned while running ")) != NULL; at++) {
    inner = at;
  }
  return inner;
}

bool iobind__ort_says(const OrtApi *api, const OrtStatus *status, const char *words) {
  return strstr(api->GetErrorMessage(status), words) != NULL;
}

iobind__ort_reason iobind__ort_reason_of(const OrtApi *api, const OrtStatus *status) {
  static const struct {
    const char *words;
    iobind__ort_reason reason;
  } known[] = {
      {"bad_alloc", IOBIND__ORT_OUT_OF_MEMORY},
      {"ailed to allocate", IOBIND__ORT_OUT_OF_MEMORY},
      {"ut of memory", IOBIND__ORT_OUT_OF_MEMORY},
      {"out of device memory", IOBIND__ORT_OUT_OF_MEMORY},
      {"out of host memory", IOBIND__ORT_OUT_OF_MEMORY},
      {"is smaller than requested bytes", IOBIND__ORT_OUT_OF_MEMORY}, /* the CPU's arena */
      {"_STATUS_ALLOC_FAILED", IOBIND__ORT_OUT_OF_MEMORY},            /* cuBLAS, cuDNN */
      {"but the computed output shape", IOBIND__ORT_WRONG_SHAPE},
      {"OrtValue provided", IOBIND__ORT_WRONG_SHAPE},
      {"Tensor size mismatch", IOBIND__ORT_WRONG_SHAPE},      /* ORT's copy to a bound tensor on another device */
      {"shape verification failed", IOBIND__ORT_WRONG_SHAPE}, /* ORT 1.24 */
      {"8007023E", IOBIND__ORT_WORDS_LOST},                   /* ERROR_UNHANDLED_EXCEPTION, as an HRESULT */
      {" failure 900: ", IOBIND__ORT_CAPTURE_BROKEN},
      {" failure 901: ", IOBIND__ORT_CAPTURE_BROKEN},
      {"the capture of a graph failed: another thread", IOBIND__ORT_CAPTURE_BROKEN}, /* the message of an EP plugin */
      {"cannot use the graph capture feature", IOBIND__ORT_NO_CAPTURE},
      {"while running Memcpy", IOBIND__ORT_COPY_FAILED},
      {"already registered", IOBIND__ORT_REGISTERED},
      {"fallback to CPU EP has been explicitly disabled", IOBIND__ORT_NODES_ON_CPU},
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (iobind__ort_says(api, status, known[i].words)) {
      return known[i].reason;
    }
  }
  return IOBIND__ORT_OTHER;
}

iobind_status iobind__ort_error_set(const OrtApi *api, OrtStatus *status, iobind_status as, iobind_error *error,
                                    const char *format, ...) {
  char what[sizeof error->message / 2];
  va_list arguments;
  va_start(arguments, format);
  iobind__text_print(what, sizeof what, format, arguments);
  va_end(arguments);
  const char *message = api->GetErrorMessage(status);
  const char *inner = innermost(message);
  char text[sizeof error->message];
  normalise(message, text, sizeof text);
  bool is_cut = inner != message && strlen(what) + strlen(": ") + strlen(text) >= sizeof text;
  if (is_cut) {
    normalise(inner, text, sizeof text);
  }
  int32_t code = (int32_t)api->GetErrorCode(status);
  if (as == IOBIND_ERROR_RUNTIME && iobind__ort_reason_of(api, status) == IOBIND__ORT_OUT_OF_MEMORY) {
    as = IOBIND_ERROR_OUT_OF_MEMORY;
  }
  api->ReleaseStatus(status);
  iobind__error_set(error, as, code, "%s: %s%s", what, is_cut ? "... " : "", text);
  return as;
}
