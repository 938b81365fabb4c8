// C++20 over m3c.h: handles that release themselves, failures as exceptions. Header only.
#pragma once

#if __cplusplus < 202002L
#error "m3c.hpp is C++20: build with -std=c++20, in CMake CMAKE_CXX_STANDARD 20"
#endif

#include "m3c.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace m3c::api {

/// A call that failed; `what()` is m3c_last_error().
class Failure : public std::runtime_error {
public:
  explicit Failure(m3c_status status) : std::runtime_error(m3c_last_error()), statusCode(status) {}
  m3c_status status() const { return statusCode; }

private:
  m3c_status statusCode;
};

inline void check(m3c_status status) {
  if (status != M3C_OK)
    throw Failure(status);
}

namespace detail {
struct Release {
  void operator()(m3c_plan *plan) const { m3c_plan_release(plan); }
  void operator()(m3c_session *session) const { m3c_session_release(session); }
  void operator()(m3c_tokenizer *tokenizer) const { m3c_tokenizer_release(tokenizer); }
  void operator()(m3c_stream *stream) const { m3c_stream_release(stream); }
};
template <typename T> using Handle = std::unique_ptr<T, Release>;
} // namespace detail

using Progress = std::function<void(uint64_t done, uint64_t total, std::string_view tensor)>;

class Plan {
public:
  explicit Plan(const std::string &path, m3c_open_options options = M3C_OPEN_OPTIONS_INIT) {
    m3c_plan *plan = nullptr;
    check(m3c_plan_open(path.c_str(), &options, &plan));
    handle.reset(plan);
  }

  m3c_model_info info() const {
    m3c_model_info info = {};
    info.struct_size = sizeof(info);
    check(m3c_plan_info(handle.get(), &info));
    return info;
  }

  /// `progress` must not throw.
  void bindWeights(const std::string &weights, Progress progress = {}) {
    auto forward = [](void *user, uint64_t done, uint64_t total, const char *tensor) {
      (*static_cast<Progress *>(user))(done, total, tensor);
    };
    check(m3c_plan_bind_weights(handle.get(), weights.c_str(), progress ? +forward : nullptr,
                                &progress));
  }

  m3c_plan *get() const { return handle.get(); }

private:
  detail::Handle<m3c_plan> handle;
};

class Session {
public:
  explicit Session(Plan &plan, m3c_session_options options = M3C_SESSION_OPTIONS_INIT)
      : vocab(plan.info().vocab) {
    m3c_session *session = nullptr;
    check(m3c_session_create(plan.get(), &options, &session));
    handle.reset(session);
  }

  uint32_t createSequence() {
    uint32_t sequence = 0;
    check(m3c_sequence_create(handle.get(), &sequence));
    return sequence;
  }
  void releaseSequence(uint32_t sequence) { check(m3c_sequence_release(handle.get(), sequence)); }
  uint64_t length(uint32_t sequence) const {
    uint64_t tokens = 0;
    check(m3c_sequence_length(handle.get(), sequence, &tokens));
    return tokens;
  }

  /// Logits [vocab] after the last token.
  std::vector<float> prefill(uint32_t sequence, std::span<const int32_t> tokens) {
    std::vector<float> logits(vocab);
    check(m3c_prefill(handle.get(), sequence, tokens.data(), tokens.size(), logits.data()));
    return logits;
  }

  /// Logits [count][vocab]; `logits` is reused.
  void decode(std::span<const uint32_t> sequences, std::span<const int32_t> tokens,
              std::vector<float> &logits) {
    if (sequences.size() != tokens.size())
      throw std::invalid_argument("decode takes one token for each sequence");
    logits.resize(sequences.size() * vocab);
    check(m3c_decode(handle.get(), sequences.data(), tokens.data(), tokens.size(), logits.data()));
  }

  m3c_session *get() const { return handle.get(); }

private:
  detail::Handle<m3c_session> handle;
  uint32_t vocab;
};

/// The token at `position`, drawn from `logits` [vocab].
inline int32_t sample(std::span<const float> logits, const m3c_sampling &sampling,
                      uint64_t position) {
  int32_t token = 0;
  check(m3c_sample(logits.data(), logits.size(), &sampling, position, &token, nullptr));
  return token;
}

class Tokenizer {
public:
  explicit Tokenizer(const std::string &folder) {
    m3c_tokenizer *tokenizer = nullptr;
    check(m3c_tokenizer_open(folder.c_str(), &tokenizer));
    handle.reset(tokenizer);
  }

  std::vector<int32_t> encode(std::string_view text, bool control = false) const {
    std::vector<int32_t> ids(text.size()); // a token has at least one byte
    size_t count = 0;
    check(m3c_encode(handle.get(), text.data(), text.size(), control, ids.data(), ids.size(),
                     &count));
    ids.resize(count);
    return ids;
  }

  std::string decode(std::span<const int32_t> ids) const {
    std::string text;
    size_t length = 0;
    m3c_status status = m3c_decode_text(handle.get(), ids.data(), ids.size(), nullptr, 0, &length);
    if (status == M3C_OK || length == 0) {
      check(status);
      return text;
    }
    text.resize(length);
    check(m3c_decode_text(handle.get(), ids.data(), ids.size(), text.data(), text.size(), &length));
    return text;
  }

  m3c_tokenizer *get() const { return handle.get(); }

private:
  detail::Handle<m3c_tokenizer> handle;
};

/// Text of a token stream, never cut inside a character.
class Stream {
public:
  explicit Stream(const Tokenizer &tokenizer) {
    m3c_stream *stream = nullptr;
    check(m3c_stream_create(tokenizer.get(), &stream));
    handle.reset(stream);
  }

  /// The text that has become final; valid until the next call.
  std::string_view push(int32_t id) {
    const char *text = nullptr;
    size_t length = 0;
    check(m3c_stream_push(handle.get(), id, &text, &length));
    return {text, length};
  }
  std::string_view finish() {
    const char *text = nullptr;
    size_t length = 0;
    check(m3c_stream_finish(handle.get(), &text, &length));
    return {text, length};
  }

private:
  detail::Handle<m3c_stream> handle;
};

} // namespace m3c::api
