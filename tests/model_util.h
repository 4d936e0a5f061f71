/* model_util.h - small configs and safetensors files for tests, made from text. */
#ifndef NC_TESTS_MODEL_UTIL_H
#define NC_TESTS_MODEL_UTIL_H

#include "model/model.h"
#include "tests/helpers.h"

/* A small valid config.json (qwen2; hidden 16, 4 heads, 2 kv, 2 layers, vocab 64, tied: the
 * tiny test model of the spec) with fields replaced: field, JSON value, field, value ..., NULL.
 * A NULL value removes the field. In one static buffer. */
const char *config_text(const char *field, ...);

/* The text is refused with E_SYNTAX, and the sentence holds all these words. */
void config_refused(const char *text, const char *words);
#define REFUSED(words, ...) config_refused(config_text(__VA_ARGS__, NULL), words)

Config config_of(Env *e, const char *text); /* asserts that it is accepted */

/* A safetensors file: the length, the header, the data. */
void write_tensors(const char *path, const char *header, const void *data, size_t n_bytes);
/* Opening path fails with this code, and the sentence holds these words. */
void open_refused(const char *path, ErrCode code, const char *words);

#endif
