/* Paths are UTF-8 on every system: ORT, a model and a profile in a directory whose name no other encoding has.
 * usage: paths LIBRARY   in a directory that has "Größe 模型" with ORT as LIBRARY and add.onnx in it; paths.sh makes one */
#include <iobind/iobind.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "Gr\u00f6\u00dfe \u6a21\u578b"

#define TRY(call) \
  if ((call) != IOBIND_OK) return fprintf(stderr, "paths: %s\n", error.message), 1
#define EXPECT(condition, what) \
  if (!(condition)) return fprintf(stderr, "paths: expected %s, got '%s'\n", #condition, what), 1

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: paths LIBRARY\n"), 2;
  char library[256];
  char ending[sizeof library + 1];
  snprintf(library, sizeof library, "%s/%s", FOLDER, argv[1]);
  snprintf(ending, sizeof ending, "/%s", library);
  iobind_error error = IOBIND_ERROR_INIT;
  iobind_runtime_options options = IOBIND_RUNTIME_OPTIONS_INIT;
  options.ort_library = library;
  iobind_runtime *runtime;
  TRY(iobind_runtime_create(&options, &runtime, &error));
  iobind_runtime_info info = IOBIND_RUNTIME_INFO_INIT;
  TRY(iobind_runtime_get_info(runtime, &info, &error));
  size_t length = strlen(info.ort_library);
  EXPECT(length > strlen(ending) && strcmp(info.ort_library + length - strlen(ending), ending) == 0, info.ort_library);

  iobind_session_options session_options = IOBIND_SESSION_OPTIONS_INIT;
  const char *dim = "n";
  int64_t four = 4;
  session_options.profile = FOLDER "/profile";
  session_options.dim_names = &dim;
  session_options.dim_values = &four;
  session_options.dim_count = 1;
  iobind_session *session;
  const char *profile;
  TRY(iobind_session_create(runtime, FOLDER "/add.onnx", &session_options, &session, &error));
  TRY(iobind_session_end_profile(session, &profile, &error));
  EXPECT(strncmp(profile, FOLDER "/profile", strlen(FOLDER "/profile")) == 0 || strstr(profile, FOLDER "\\profile") != NULL,
         profile);
  printf("%s\n%s\n", info.ort_library, profile);
  iobind_session_destroy(session);

  iobind_status status = iobind_session_create(runtime, FOLDER "/absent.onnx", NULL, &session, &error);
  EXPECT(status == IOBIND_ERROR_NOT_FOUND && strstr(error.message, FOLDER "/absent.onnx") != NULL, error.message);
  status = iobind_session_create(runtime, FOLDER, NULL, &session, &error);
  EXPECT(status == IOBIND_ERROR_IO && strstr(error.message, "a directory") != NULL, error.message);
  iobind_runtime_destroy(runtime);
  return 0;
}
