/* The C interface of the m3c runtime: open a plan, bind weights, run sequences, sample.
 *
 * Handles are opaque. Every function that can fail returns an m3c_status; the message of the last
 * failure of the calling thread is m3c_last_error(). No C++ exception leaves the library.
 *
 * Structs begin with `struct_size`: set it to sizeof of the struct (the M3C_..._INIT macros do).
 * Later versions add fields at the end only; fields that a caller does not know keep their default,
 * 0. A plan and its sessions are used by one thread at a time; different plans are independent.
 *
 * Every handle is given back with its ..._release function, in any order: a session keeps its plan
 * alive. Releasing NULL does nothing.
 */
#ifndef M3C_H
#define M3C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define M3C_API __attribute__((visibility("default")))
#else
#define M3C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header: major * 1000 + minor. A new major version may break callers. */
#define M3C_API_VERSION 1000

typedef enum m3c_status {
  M3C_OK = 0,
  M3C_FAILED = 1,  /* bad input or a failed operation */
  M3C_MISUSED = 2, /* a NULL handle, a struct of unknown size, an option out of range */
  M3C_NO_MEMORY = 3,
  M3C_INTERNAL = 4 /* a fault inside m3c */
} m3c_status;

typedef struct m3c_plan m3c_plan;
typedef struct m3c_session m3c_session;
typedef struct m3c_tokenizer m3c_tokenizer;
typedef struct m3c_stream m3c_stream;

/* M3C_API_VERSION of the library that is loaded. */
M3C_API uint32_t m3c_api_version(void);
/* Message of this thread's last failure: what, where, why, what next, on several lines. Valid until
 * this thread's next call; "" when nothing has failed. */
M3C_API const char *m3c_last_error(void);

/* ---- plans ---- */

typedef struct m3c_open_options {
  size_t struct_size;
  uint32_t threads;    /* worker threads; 0 = one for each core that the process may use */
  uint32_t keep_loose; /* 1 = do not bind the workers to cores */
} m3c_open_options;
#define M3C_OPEN_OPTIONS_INIT {sizeof(m3c_open_options), 0, 0}

/* Opens a plan file on this machine. `options` may be NULL. */
M3C_API m3c_status m3c_plan_open(const char *path, const m3c_open_options *options,
                                 m3c_plan **plan);
M3C_API void m3c_plan_release(m3c_plan *plan);

typedef struct m3c_model_info {
  size_t struct_size;
  uint32_t vocab;
  uint32_t layers;
  uint64_t max_positions; /* tokens */
  int32_t bos_token;      /* -1 = none */
  int32_t eos_token;      /* -1 = none */
  uint64_t page_tokens;   /* tokens of one cache page */
  uint64_t page_bytes;
  uint64_t weight_bytes; /* in memory, after repacking */
  uint32_t threads;
} m3c_model_info;

/* Fills as much of `info` as its struct_size holds. */
M3C_API m3c_status m3c_plan_info(const m3c_plan *plan, m3c_model_info *info);

/* Called while weights are read; bytes done and in all, and the tensor at hand. */
typedef void (*m3c_progress)(void *user, uint64_t done, uint64_t total, const char *tensor);

/* Reads the weights from a checkpoint folder, or makes them up ("synthetic:SEED"). Once a plan.
 * `progress` may be NULL. */
M3C_API m3c_status m3c_plan_bind_weights(m3c_plan *plan, const char *weights, m3c_progress progress,
                                         void *user);

/* ---- sessions and sequences ---- */

typedef struct m3c_session_options {
  size_t struct_size;
  uint64_t pages;         /* of the cache; 0 = what max_sequences sequences of max_tokens need */
  uint32_t max_sequences; /* alive at once; 0 = 1 */
  uint32_t chunk;         /* most tokens of one sequence in a step; 0 = 512 */
  uint64_t max_tokens;    /* longest sequence, no longer than the model's context; 0 = that, or what
                             `pages` hold */
} m3c_session_options;
#define M3C_SESSION_OPTIONS_INIT {sizeof(m3c_session_options), 0, 0, 0, 0}

/* Reserves the cache; fails when memory would not do, saying what would fit. The weights must be
 * bound. */
M3C_API m3c_status m3c_session_create(m3c_plan *plan, const m3c_session_options *options,
                                      m3c_session **session);
M3C_API void m3c_session_release(m3c_session *session);

M3C_API m3c_status m3c_sequence_create(m3c_session *session, uint32_t *sequence);
M3C_API m3c_status m3c_sequence_release(m3c_session *session, uint32_t sequence);
M3C_API m3c_status m3c_sequence_length(const m3c_session *session, uint32_t sequence,
                                       uint64_t *tokens);

/* Puts `count` tokens after a sequence. `logits`, where not NULL, gets [vocab] values: those after
 * the last token. */
M3C_API m3c_status m3c_prefill(m3c_session *session, uint32_t sequence, const int32_t *tokens,
                               size_t count, float *logits);

/* Puts one token after each of `count` different sequences, all in one step. `logits` gets
 * [count][vocab] values. */
M3C_API m3c_status m3c_decode(m3c_session *session, const uint32_t *sequences,
                              const int32_t *tokens, size_t count, float *logits);

/* ---- sampling ---- */

typedef struct m3c_sampling {
  size_t struct_size;
  double temperature; /* 0 = always the most probable token */
  uint32_t top_k;     /* 0 = off */
  double top_p;       /* 0 or 1 = off */
  uint64_t seed;
} m3c_sampling;
#define M3C_SAMPLING_INIT {sizeof(m3c_sampling), 0, 0, 1, 0}

/* Draws the token at `position` (that of the new token in its sequence) from `logits` [vocab]. The
 * result depends on the arguments alone. `log_probability` may be NULL. */
M3C_API m3c_status m3c_sample(const float *logits, size_t vocab, const m3c_sampling *sampling,
                              uint64_t position, int32_t *token, double *log_probability);

/* ---- text ---- */

/* Reads tokenizer.json of a checkpoint folder. */
M3C_API m3c_status m3c_tokenizer_open(const char *folder, m3c_tokenizer **tokenizer);
M3C_API void m3c_tokenizer_release(m3c_tokenizer *tokenizer);

/* Token ids of UTF-8 text. `capacity` is the room at `ids`; `count` gets the number of ids, also
 * when they do not fit (M3C_FAILED). With `control` 1 control tokens in the text are recognised. */
M3C_API m3c_status m3c_encode(const m3c_tokenizer *tokenizer, const char *text, size_t length,
                              int control, int32_t *ids, size_t capacity, size_t *count);

/* UTF-8 text of ids, without special tokens. `capacity` is the room at `text` in bytes, `length`
 * gets the number of bytes, also when they do not fit (M3C_FAILED). No zero byte is added. */
M3C_API m3c_status m3c_decode_text(const m3c_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                   char *text, size_t capacity, size_t *length);

/* Text of a token stream as it is produced, never cut inside a character. `text` is `length` bytes
 * of UTF-8 without a zero byte at the end, valid until the next call on the stream. */
M3C_API m3c_status m3c_stream_create(const m3c_tokenizer *tokenizer, m3c_stream **stream);
M3C_API void m3c_stream_release(m3c_stream *stream);
M3C_API m3c_status m3c_stream_push(m3c_stream *stream, int32_t id, const char **text,
                                   size_t *length);
/* What is held back when the stream ends. */
M3C_API m3c_status m3c_stream_finish(m3c_stream *stream, const char **text, size_t *length);

#ifdef __cplusplus
}
#endif

#endif
