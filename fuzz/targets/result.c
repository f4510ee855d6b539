/* The JSON that `iobind bench --with` reads: an earlier result, from the file to the table and the picture. */
/* The command's source file, because its reader of results is static. It comes first for its feature macro. */
#include "commands/bench.c" /* NOLINT(bugprone-suspicious-include) */

#include "bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const tool_usage usage = {.command = "bench"};
  static FILE *nowhere;
  if (nowhere == NULL) nowhere = fopen("/dev/null", "w");
  bench b = {.tool = {.usage = &usage}};
  memory_file file = memory_file_make(data, size);
  FILE *kept = stderr;
  stderr = nowhere; /* in glibc it can be assigned; each refusal prints a line */
  int code = read_result(&b, file.path);
  stderr = kept;
  CHECK(code == TOOL_GO || code == TOOL_FAILED);
  if (code == TOOL_GO) {
    CHECK(b.row_count > 0 && draw(&b, nowhere));
    b.inputs = json_array();
    b.tool.json = size % 2;
    CHECK(print(&b, TOOL_DONE) == TOOL_DONE);
    json_decref(b.inputs);
  }
  memory_file_close(&file);
  free_rows(&b);
  return 0;
}
