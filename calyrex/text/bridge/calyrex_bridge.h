/* C interface of the Rust crate in this folder: Hugging Face tokenizers and Jinja chat templates. Only
 * calyrex/text includes it. No call aborts or unwinds; each is safe to make from any thread. */
#ifndef CALYREX_TEXT_BRIDGE_H_
#define CALYREX_TEXT_BRIDGE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum CalyrexStatus {
  CALYREX_OK = 0,
  CALYREX_INVALID = 1, /* the caller's text, template or messages */
  CALYREX_CORRUPT = 2, /* a damaged tokenizer */
  CALYREX_UNSUPPORTED = 3,
  CALYREX_RESOURCE = 4, /* a limit of memory, time or output */
  CALYREX_INTERNAL = 5,
  CALYREX_REFUSED = 6 /* the template's own words (raise_exception) */
} CalyrexStatus;

/* Bytes that the bridge owns until calyrex_bytes_free. */
typedef struct CalyrexBytes {
  uint8_t* data;
  size_t size;
  size_t capacity;
} CalyrexBytes;

/* Bytes of the caller; `data` may be null when size is 0. */
typedef struct CalyrexView {
  const uint8_t* data;
  size_t size;
} CalyrexView;

typedef struct CalyrexTokenizer CalyrexTokenizer;
typedef struct CalyrexTemplate CalyrexTemplate;

/* tokenizer.ggml.* of a GGUF file. `scores` and `types` may be empty. */
typedef struct CalyrexGguf {
  CalyrexView model;
  CalyrexView pre;
  const CalyrexView* tokens;
  size_t num_tokens;
  const float* scores;
  size_t num_scores;
  const int32_t* types;
  size_t num_types;
  const CalyrexView* merges;
  size_t num_merges;
  int64_t unknown_id;   /* -1 = none */
  int32_t space_prefix; /* SentencePiece: a space before the text */
} CalyrexGguf;

/* Bytes [begin, end) of a text in which added tokens are recognised: 1 = those with special: false, 2 = all.
 */
typedef struct CalyrexRange {
  size_t begin;
  size_t end;
  int32_t added;
} CalyrexRange;

/* Ids and byte offsets, `size` of each; freed as a whole by calyrex_encoding_free. */
typedef struct CalyrexEncoding {
  int32_t* ids;
  int64_t* begin;
  int64_t* end;
  size_t size;
} CalyrexEncoding;

void calyrex_bytes_free(CalyrexBytes bytes);
void calyrex_encoding_free(CalyrexEncoding encoding);

/* From the bytes of a tokenizer.json. `extra` (may be empty) is JSON: {"declared": [...], "named": [...]},
 * added tokens
 * ({"content", "special", "lstrip", "rstrip", "single_word", "normalized"}) that the model's configuration
 * has besides: declared ones are added where no equal one is there, named ones where none of that text is. */
CalyrexStatus calyrex_tokenizer_from_json(CalyrexView json, CalyrexView extra, CalyrexTokenizer** tokenizer,
                                          CalyrexBytes* error);
CalyrexStatus calyrex_tokenizer_from_gguf(const CalyrexGguf* gguf, CalyrexTokenizer** tokenizer,
                                          CalyrexBytes* error);
void calyrex_tokenizer_free(CalyrexTokenizer* tokenizer);

/* Ranges are sorted and disjoint. Text that is not UTF-8 is CALYREX_INVALID. */
CalyrexStatus calyrex_tokenizer_encode(const CalyrexTokenizer* tokenizer, CalyrexView text,
                                       const CalyrexRange* ranges, size_t num_ranges,
                                       CalyrexEncoding* encoding, CalyrexBytes* error);
CalyrexStatus calyrex_tokenizer_decode(const CalyrexTokenizer* tokenizer, const int32_t* ids, size_t num_ids,
                                       int32_t skip_special, CalyrexBytes* text, CalyrexBytes* error);
/* JSON: {"vocab_size", "leading_id" (null = none), "added_tokens": [[id, content, special], ...]}. */
CalyrexStatus calyrex_tokenizer_describe(const CalyrexTokenizer* tokenizer, CalyrexBytes* json,
                                         CalyrexBytes* error);
/* The whole tokenizer as a tokenizer.json. */
CalyrexStatus calyrex_tokenizer_to_json(const CalyrexTokenizer* tokenizer, CalyrexBytes* json,
                                        CalyrexBytes* error);
/* -1 when the vocabulary lacks the token. */
int64_t calyrex_tokenizer_token_to_id(const CalyrexTokenizer* tokenizer, CalyrexView token);
/* Empty for an id outside the vocabulary. */
CalyrexBytes calyrex_tokenizer_id_to_token(const CalyrexTokenizer* tokenizer, int32_t id);

CalyrexStatus calyrex_template_compile(CalyrexView source, CalyrexTemplate** chat_template,
                                       CalyrexBytes* error);
void calyrex_template_free(CalyrexTemplate* chat_template);
/* Renders several variants at once. Request: {"chats": [{"messages": [...], "context": {...}}, ...],
 * "variants":
 * [{"chat": index, "count": leading messages, "add_generation_prompt": bool}, ...]}; the context holds tools,
 * special tokens and keyword arguments, and "__now", which strftime_now formats. Response: a list with
 * {"text"} or
 * {"status", "error"} a variant. */
CalyrexStatus calyrex_template_render(const CalyrexTemplate* chat_template, CalyrexView request,
                                      CalyrexBytes* response, CalyrexBytes* error);

#ifdef __cplusplus
}
#endif

#endif /* CALYREX_TEXT_BRIDGE_H_ */
