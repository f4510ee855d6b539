/* Generation of text by onnxruntime-genai, through the C interface of its library. What fails ends the program. */
#ifndef IOBIND_BENCH_GENAI_H
#define IOBIND_BENCH_GENAI_H

#include <stddef.h>
#include <stdint.h>

#include "decoder.h"

typedef struct genai genai;

/* genai_config.json in a directory, for the decoder "model.onnx" there. */
void genai_write_configuration(const char *directory, const decoder_size *size);

/* `library` is genai's, `ort_library` the ONNX Runtime that it is to use, `directory` that of the model, which is "model.onnx" there; the
 * configuration is written beside it. At most size->most_tokens tokens. */
genai *genai_open(const char *library, const char *ort_library, const char *directory, const decoder_size *size);
void genai_append(genai *g, const int32_t *tokens, size_t count);
int32_t genai_next(genai *g);
void genai_close(genai *g);

#endif
