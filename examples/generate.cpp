// The same as generate.c with the C++ interface of m3c, and a sampled continuation.
//
//   generate_cpp PLAN WEIGHTS TOKENIZER PROMPT [MAX_TOKENS] [TEMPERATURE]
#include <m3c.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

void generate(int argc, char **argv) {
  size_t maxTokens = argc > 5 ? std::strtoul(argv[5], nullptr, 10) : 32;
  m3c_sampling sampling = M3C_SAMPLING_INIT;
  sampling.temperature = argc > 6 ? std::atof(argv[6]) : 0;

  m3c::api::Plan plan(argv[1]);
  plan.bindWeights(argv[2]);
  m3c::api::Tokenizer tokenizer(argv[3]);
  m3c_model_info info = plan.info();
  std::vector<int32_t> prompt = tokenizer.encode(argv[4]);
  if (info.bos_token >= 0)
    prompt.insert(prompt.begin(), info.bos_token);

  m3c_session_options options = M3C_SESSION_OPTIONS_INIT;
  options.max_tokens = prompt.size() + maxTokens;
  m3c::api::Session session(plan, options);
  uint32_t sequence = session.createSequence();
  std::vector<float> logits = session.prefill(sequence, prompt);
  std::vector<int32_t> made;
  while (made.size() < maxTokens) {
    int32_t token = m3c::api::sample(logits, sampling, prompt.size() + made.size());
    if (token == info.eos_token)
      break;
    made.push_back(token);
    if (made.size() < maxTokens)
      session.decode({&sequence, 1}, {&token, 1}, logits);
  }
  std::printf("%s\n", tokenizer.decode(made).c_str());
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 5) {
    std::fprintf(stderr,
                 "usage: generate_cpp PLAN WEIGHTS TOKENIZER PROMPT [MAX_TOKENS] [TEMPERATURE]\n");
    return 2;
  }
  try {
    generate(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
