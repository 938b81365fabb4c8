#include "runtime/capi/m3c.h"

#include "runtime/base/Error.h"
#include "runtime/sample/Sampler.h"
#include "runtime/schedule/Session.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

using namespace m3c;

struct m3c_plan {
  std::shared_ptr<Engine> engine;
};

struct m3c_session {
  std::shared_ptr<Engine> engine;
  std::unique_ptr<Session> session;
};

struct m3c_tokenizer {
  text::Tokenizer tokenizer;
};

struct m3c_stream {
  text::StreamDecoder decoder;
  std::string text;
};

namespace {

thread_local std::string lastError;

m3c_status fail(m3c_status status, std::string_view message) noexcept {
  try {
    lastError = message;
  } catch (...) {
    lastError.clear();
  }
  return status;
}

/// Runs `action`, turning exceptions into a status and a message.
template <typename Action> m3c_status guarded(Action action) noexcept {
  try {
    lastError.clear();
    action();
    return M3C_OK;
  } catch (const Error &error) {
    return fail(error.code() == ExitCode::Usage ? M3C_MISUSED : M3C_FAILED, error.what());
  } catch (const std::bad_alloc &) {
    return fail(M3C_NO_MEMORY, "error: out of memory");
  } catch (const std::exception &error) {
    return fail(M3C_INTERNAL, error.what());
  } catch (...) {
    return fail(M3C_INTERNAL, "error: a fault inside m3c");
  }
}

[[noreturn]] void misused(const char *function, std::string why) {
  throw Error(fmt::format("{} is called wrongly", function), function, std::move(why), "",
              ExitCode::Usage);
}

void needHandles(const char *function, std::initializer_list<const void *> pointers) {
  for (const void *pointer : pointers)
    if (!pointer)
      misused(function, "a pointer that is required is NULL");
}

/// The caller's struct with its unknown fields at their default. A struct of the smallest size ever
/// published, `least`, or larger is accepted; what lies beyond this library's knowledge must be 0.
template <typename Options>
Options readOptions(const char *function, const Options *given, size_t least, Options defaults) {
  if (!given)
    return defaults;
  if (given->struct_size < least)
    misused(function,
            fmt::format("struct_size is {}, at least {} is needed", given->struct_size, least));
  if (given->struct_size > 4096) // not set; nobody owns that many bytes
    misused(function, fmt::format("struct_size is {}, no struct is as large", given->struct_size));
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  for (size_t i = sizeof(Options); i < given->struct_size; ++i)
    if (bytes[i] != 0)
      misused(function, "the struct sets a field that this version of the library does not have");
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(Options)));
  return defaults;
}

void copyOut(std::span<const float> row, float *to) { std::copy(row.begin(), row.end(), to); }

SessionOptions sessionOptions(const Engine &engine, const m3c_session_options &given) {
  const plan::Tables &tables = engine.tables();
  SessionOptions options;
  options.maxSequences = given.max_sequences ? given.max_sequences : 1;
  options.chunk = given.chunk ? given.chunk : options.chunk;
  options.maxTokens = given.max_tokens;
  if (uint64_t most = tables.model()->max_positions(); given.max_tokens > most)
    throw Error(fmt::format("no sequence can have {} tokens", given.max_tokens), "max_tokens",
                fmt::format("the model has {} positions", most), "ask for fewer, or 0 for all");
  options.pages = given.pages;
  if (options.pages == 0) {
    uint64_t page = tables.cache()->page_tokens(), context = tables.model()->max_positions();
    uint64_t tokens = given.max_tokens ? std::min(given.max_tokens, context) : context;
    options.pages = (tokens + page - 1) / page * options.maxSequences;
  }
  return options;
}

} // namespace

extern "C" {

uint32_t m3c_api_version(void) { return M3C_API_VERSION; }

const char *m3c_last_error(void) { return lastError.c_str(); }

m3c_status m3c_plan_open(const char *path, const m3c_open_options *options, m3c_plan **plan) {
  return guarded([&] {
    needHandles("m3c_plan_open", {path, plan});
    *plan = nullptr;
    m3c_open_options given = readOptions("m3c_plan_open", options, sizeof(m3c_open_options),
                                         m3c_open_options M3C_OPEN_OPTIONS_INIT);
    auto engine = std::make_shared<Engine>(
        plan::PlanFile::open(path), hal::DeviceOptions{given.threads, given.keep_loose == 0});
    *plan = new m3c_plan{std::move(engine)};
  });
}

void m3c_plan_release(m3c_plan *plan) { delete plan; }

m3c_status m3c_plan_info(const m3c_plan *plan, m3c_model_info *info) {
  return guarded([&] {
    needHandles("m3c_plan_info", {plan, info});
    size_t size = info->struct_size;
    if (size < sizeof(size_t))
      misused("m3c_plan_info", "struct_size is not set");
    const plan::Tables &tables = plan->engine->tables();
    m3c_model_info full = {};
    full.struct_size = size;
    full.vocab = tables.model()->vocab();
    full.layers = tables.model()->layers();
    full.max_positions = tables.model()->max_positions();
    full.bos_token = tables.model()->bos_token();
    full.eos_token = tables.model()->eos_token();
    full.page_tokens = tables.cache()->page_tokens();
    full.page_bytes = tables.cache()->page_bytes();
    full.weight_bytes = Weights::bytesNeeded(tables, plan->engine->target());
    full.threads = plan->engine->device().info().workers;
    std::memcpy(info, &full, std::min(size, sizeof(full)));
  });
}

m3c_status m3c_plan_bind_weights(m3c_plan *plan, const char *weights, m3c_progress progress,
                                 void *user) {
  return guarded([&] {
    needHandles("m3c_plan_bind_weights", {plan, weights});
    if (plan->engine->hasWeights())
      misused("m3c_plan_bind_weights", "the weights of this plan are bound already");
    std::unique_ptr<WeightSource> source = openWeights(weights, plan->engine->tables());
    WeightProgress forward;
    if (progress)
      forward = [&](uint64_t done, uint64_t total, std::string_view tensor) {
        progress(user, done, total, std::string(tensor).c_str());
      };
    plan->engine->bindWeights(*source, forward);
  });
}

m3c_status m3c_session_create(m3c_plan *plan, const m3c_session_options *options,
                              m3c_session **session) {
  return guarded([&] {
    needHandles("m3c_session_create", {plan, session});
    *session = nullptr;
    SessionOptions made = sessionOptions(
        *plan->engine, readOptions("m3c_session_create", options, sizeof(m3c_session_options),
                                   m3c_session_options M3C_SESSION_OPTIONS_INIT));
    Session::checkMemory(*plan->engine, made);
    *session = new m3c_session{plan->engine, std::make_unique<Session>(*plan->engine, made)};
  });
}

void m3c_session_release(m3c_session *session) { delete session; }

m3c_status m3c_sequence_create(m3c_session *session, uint32_t *sequence) {
  return guarded([&] {
    needHandles("m3c_sequence_create", {session, sequence});
    *sequence = session->session->create();
  });
}

m3c_status m3c_sequence_release(m3c_session *session, uint32_t sequence) {
  return guarded([&] {
    needHandles("m3c_sequence_release", {session});
    session->session->release(sequence);
  });
}

m3c_status m3c_sequence_length(const m3c_session *session, uint32_t sequence, uint64_t *tokens) {
  return guarded([&] {
    needHandles("m3c_sequence_length", {session, tokens});
    *tokens = session->session->length(sequence);
  });
}

m3c_status m3c_prefill(m3c_session *session, uint32_t sequence, const int32_t *tokens, size_t count,
                       float *logits) {
  return guarded([&] {
    needHandles("m3c_prefill", {session, tokens});
    if (count == 0)
      misused("m3c_prefill", "at least one token is needed");
    Append append = {sequence, {tokens, count}, logits ? Want::Last : Want::None};
    session->session->run(
        {&append, 1}, [&](size_t, size_t, std::span<const float> row) { copyOut(row, logits); });
  });
}

m3c_status m3c_decode(m3c_session *session, const uint32_t *sequences, const int32_t *tokens,
                      size_t count, float *logits) {
  return guarded([&] {
    needHandles("m3c_decode", {session, sequences, tokens, logits});
    uint64_t vocab = session->engine->tables().model()->vocab();
    std::vector<Append> appends;
    for (size_t i = 0; i < count; ++i)
      appends.push_back({sequences[i], {tokens + i, 1}, Want::Last});
    session->session->run(appends, [&](size_t append, size_t, std::span<const float> row) {
      copyOut(row, logits + append * vocab);
    });
  });
}

m3c_status m3c_sample(const float *logits, size_t vocab, const m3c_sampling *sampling,
                      uint64_t position, int32_t *token, double *log_probability) {
  return guarded([&] {
    needHandles("m3c_sample", {logits, token});
    m3c_sampling given =
        readOptions("m3c_sample", sampling, sizeof(m3c_sampling), m3c_sampling M3C_SAMPLING_INIT);
    sample::SamplingParameters parameters = {given.temperature, given.top_k,
                                             given.top_p == 0 ? 1 : given.top_p, given.seed};
    sample::checkParameters(parameters);
    static thread_local sample::Sampler sampler;
    sample::SampledToken drawn = sampler.sample({logits, vocab}, parameters, position);
    *token = drawn.id;
    if (log_probability)
      *log_probability = drawn.logProb;
  });
}

m3c_status m3c_tokenizer_open(const char *folder, m3c_tokenizer **tokenizer) {
  return guarded([&] {
    needHandles("m3c_tokenizer_open", {folder, tokenizer});
    *tokenizer = nullptr;
    *tokenizer = new m3c_tokenizer{text::Tokenizer::load(ModelFolder(folder), 0)};
  });
}

void m3c_tokenizer_release(m3c_tokenizer *tokenizer) { delete tokenizer; }

m3c_status m3c_encode(const m3c_tokenizer *tokenizer, const char *text, size_t length, int control,
                      int32_t *ids, size_t capacity, size_t *count) {
  return guarded([&] {
    needHandles("m3c_encode", {tokenizer, count});
    if ((length && !text) || (capacity && !ids))
      misused("m3c_encode", "text or ids is NULL");
    *count = 0;
    std::vector<int32_t> made = tokenizer->tokenizer.encode(
        {text, length}, control ? text::ParseAdded::All : text::ParseAdded::None);
    *count = made.size();
    if (made.size() > capacity)
      throw Error(fmt::format("{} ids do not fit", made.size()), "m3c_encode",
                  fmt::format("there is room for {}", capacity));
    std::copy(made.begin(), made.end(), ids);
  });
}

m3c_status m3c_decode_text(const m3c_tokenizer *tokenizer, const int32_t *ids, size_t count,
                           char *text, size_t capacity, size_t *length) {
  return guarded([&] {
    needHandles("m3c_decode_text", {tokenizer, length});
    if ((count && !ids) || (capacity && !text))
      misused("m3c_decode_text", "ids or text is NULL");
    *length = 0;
    std::string made = tokenizer->tokenizer.decode({ids, count}, true);
    *length = made.size();
    if (made.size() > capacity)
      throw Error(fmt::format("{} bytes do not fit", made.size()), "m3c_decode_text",
                  fmt::format("there is room for {}", capacity));
    std::copy(made.begin(), made.end(), text);
  });
}

m3c_status m3c_stream_create(const m3c_tokenizer *tokenizer, m3c_stream **stream) {
  return guarded([&] {
    needHandles("m3c_stream_create", {tokenizer, stream});
    *stream = nullptr;
    *stream = new m3c_stream{text::StreamDecoder(tokenizer->tokenizer, {}), ""};
  });
}

void m3c_stream_release(m3c_stream *stream) { delete stream; }

m3c_status m3c_stream_push(m3c_stream *stream, int32_t id, const char **text, size_t *length) {
  return guarded([&] {
    needHandles("m3c_stream_push", {stream, text, length});
    stream->text = stream->decoder.push(id);
    *text = stream->text.data();
    *length = stream->text.size();
  });
}

m3c_status m3c_stream_finish(m3c_stream *stream, const char **text, size_t *length) {
  return guarded([&] {
    needHandles("m3c_stream_finish", {stream, text, length});
    stream->text = stream->decoder.finish();
    *text = stream->text.data();
    *length = stream->text.size();
  });
}

} // extern "C"
