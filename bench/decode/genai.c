#define _POSIX_C_SOURCE 200809L /* setenv */

#include "genai.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Its functions return NULL, or an object that has the reason. */
typedef struct result result;

struct genai {
  void *library, *model, *params, *generator;
  const char *(*get_error)(const result *);
  result *(*append)(void *generator, const int32_t *tokens, size_t count);
  result *(*generate)(void *generator);
  bool (*is_done)(void *generator);
  size_t (*get_count)(const void *generator, size_t sequence);
  const int32_t *(*get_tokens)(const void *generator, size_t sequence);
};

static _Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "onnxruntime-genai: %s: %s\n", what, why);
  exit(1);
}

/* The address of a function, which C's rules do not let be that of an object. */
static void look_up(const genai *g, const char *name, void *function) {
  void *address = dlsym(g->library, name);
  if (address == NULL) fail(name, "not in the library");
  *(void **)function = address;
}

static void check(const genai *g, const char *what, const result *failed) {
  if (failed != NULL) fail(what, g->get_error(failed));
}

void genai_write_configuration(const char *directory, const decoder_size *size) {
  char path[1024];
  snprintf(path, sizeof path, "%s/genai_config.json", directory);
  FILE *file = fopen(path, "w");
  if (file == NULL) fail(path, "cannot be written");
  fprintf(
      file,
      "{\"model\": {\"type\": \"llama\", \"vocab_size\": %d, \"context_length\": %d, \"bos_token_id\": 0, \"eos_token_id\": %d,\n"
      " \"pad_token_id\": 0, \"decoder\": {\"filename\": \"model.onnx\", \"head_size\": %d, \"hidden_size\": %d,\n"
      "  \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"num_hidden_layers\": %d,\n"
      "  \"session_options\": {\"intra_op_num_threads\": 1, \"inter_op_num_threads\": 1, \"provider_options\": []},\n"
      "  \"inputs\": {\"input_ids\": \"input_ids\", \"attention_mask\": \"attention_mask\",\n"
      "   \"past_key_names\": \"past_key_values.%%d.key\", \"past_value_names\": \"past_key_values.%%d.value\"},\n"
      "  \"outputs\": {\"logits\": \"logits\", \"present_key_names\": \"present.%%d.key\", \"present_value_names\": "
      "\"present.%%d.value\"}}},\n"
      " \"search\": {\"max_length\": %d, \"do_sample\": false, \"num_beams\": 1, \"past_present_share_buffer\": false}}\n",
      size->vocabulary, size->most_tokens, size->vocabulary - 1, DECODER_HEAD, size->heads * DECODER_HEAD, size->heads,
      size->heads, size->layers, size->most_tokens);
  if (fclose(file) != 0) fail(path, "cannot be written");
}

genai *genai_open(const char *library, const char *ort_library, const char *directory, const decoder_size *size) {
  result *(*create_model)(const char *, void **);
  result *(*create_params)(const void *, void **);
  result *(*create_generator)(const void *, const void *, void **);
  genai *g = calloc(1, sizeof *g);
  if (g == NULL) fail("memory", "there is none");
  setenv("ORT_LIB_PATH", ort_library, 1);
  g->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (g->library == NULL) fail(library, dlerror());
  look_up(g, "OgaResultGetError", &g->get_error);
  look_up(g, "OgaGenerator_AppendTokens", &g->append);
  look_up(g, "OgaGenerator_GenerateNextToken", &g->generate);
  look_up(g, "OgaGenerator_IsDone", &g->is_done);
  look_up(g, "OgaGenerator_GetSequenceCount", &g->get_count);
  look_up(g, "OgaGenerator_GetSequenceData", &g->get_tokens);
  look_up(g, "OgaCreateModel", &create_model);
  look_up(g, "OgaCreateGeneratorParams", &create_params);
  look_up(g, "OgaCreateGenerator", &create_generator);
  genai_write_configuration(directory, size);
  check(g, "the model", create_model(directory, &g->model));
  check(g, "parameters", create_params(g->model, &g->params));
  check(g, "a generator", create_generator(g->model, g->params, &g->generator));
  return g;
}

void genai_append(genai *g, const int32_t *tokens, size_t count) {
  check(g, "the prompt", g->append(g->generator, tokens, count));
}

int32_t genai_next(genai *g) {
  check(g, "a token", g->generate(g->generator));
  if (g->is_done(g->generator)) fail("a token", "it was the model's last one, so less than that is measured");
  return g->get_tokens(g->generator, 0)[g->get_count(g->generator, 0) - 1];
}

void genai_close(genai *g) {
  void (*destroy)(void *);
  look_up(g, "OgaDestroyGenerator", &destroy);
  destroy(g->generator);
  look_up(g, "OgaDestroyGeneratorParams", &destroy);
  destroy(g->params);
  look_up(g, "OgaDestroyModel", &destroy);
  destroy(g->model);
  free(g);
}
