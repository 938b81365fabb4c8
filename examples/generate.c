/* Continues a text with the C interface of m3c.
 *
 *   generate PLAN WEIGHTS TOKENIZER PROMPT [MAX_TOKENS]
 *
 * PLAN is a file that `m3c compile` wrote, WEIGHTS the checkpoint folder that it was compiled from
 * (or synthetic:SEED), TOKENIZER a folder with tokenizer.json: usually the checkpoint again.
 */
#include <m3c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program when a call has failed. */
static void check(m3c_status status) {
  if (status != M3C_OK) {
    fprintf(stderr, "%s\n", m3c_last_error());
    exit(1);
  }
}

/* Ids of the prompt, behind the token that begins a text; `count` gets their number. */
static int32_t *encode_prompt(const m3c_tokenizer *tokenizer, const m3c_model_info *info,
                              const char *prompt, size_t *count) {
  size_t room = strlen(prompt) + 1; /* a token has at least one byte */
  int32_t *ids = malloc(room * sizeof *ids);
  size_t first = 0;
  if (!ids)
    exit(1);
  if (info->bos_token >= 0)
    ids[first++] = info->bos_token;
  check(m3c_encode(tokenizer, prompt, strlen(prompt), 0, ids + first, room - first, count));
  *count += first;
  return ids;
}

static void print(const char *text, size_t length) {
  fwrite(text, 1, length, stdout);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: generate PLAN WEIGHTS TOKENIZER PROMPT [MAX_TOKENS]\n");
    return 2;
  }
  size_t max_tokens = argc > 5 ? strtoul(argv[5], NULL, 10) : 32;

  /* A plan on this machine, with its weights. */
  m3c_plan *plan = NULL;
  check(m3c_plan_open(argv[1], NULL, &plan));
  check(m3c_plan_bind_weights(plan, argv[2], NULL, NULL));
  m3c_model_info info = {0};
  info.struct_size = sizeof info;
  check(m3c_plan_info(plan, &info));

  m3c_tokenizer *tokenizer = NULL;
  check(m3c_tokenizer_open(argv[3], &tokenizer));
  size_t prompt_count = 0;
  int32_t *prompt = encode_prompt(tokenizer, &info, argv[4], &prompt_count);

  /* A session with room for one sequence of prompt and continuation. */
  m3c_session_options options = M3C_SESSION_OPTIONS_INIT;
  options.max_tokens = prompt_count + max_tokens;
  m3c_session *session = NULL;
  check(m3c_session_create(plan, &options, &session));
  uint32_t sequence = 0;
  check(m3c_sequence_create(session, &sequence));

  /* Prefill, then one token after another; the stream holds back unfinished characters. */
  float *logits = malloc(info.vocab * sizeof *logits);
  if (!logits)
    return 1;
  m3c_stream *stream = NULL;
  check(m3c_stream_create(tokenizer, &stream));
  m3c_sampling sampling = M3C_SAMPLING_INIT; /* temperature 0: the most probable token */
  const char *text;
  size_t length;
  check(m3c_prefill(session, sequence, prompt, prompt_count, logits));
  for (size_t made = 0; made < max_tokens; ++made) {
    int32_t token;
    check(m3c_sample(logits, info.vocab, &sampling, prompt_count + made, &token, NULL));
    if (token == info.eos_token)
      break;
    check(m3c_stream_push(stream, token, &text, &length));
    print(text, length);
    if (made + 1 < max_tokens)
      check(m3c_decode(session, &sequence, &token, 1, logits));
  }
  check(m3c_stream_finish(stream, &text, &length));
  print(text, length);
  printf("\n");

  free(logits);
  free(prompt);
  m3c_stream_release(stream);
  m3c_session_release(session);
  m3c_tokenizer_release(tokenizer);
  m3c_plan_release(plan);
  return 0;
}
