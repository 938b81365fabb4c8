// `m3-run generate`: text from a prompt.
#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/sample/Sampler.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/TextConfig.h"
#include "runtime/text/Tokenizer.h"
#include "tools/common/Numbers.h"
#include "tools/common/Tell.h"
#include "tools/m3-run/Options.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <iterator>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace m3c {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  RunOptions run;
  std::string prompt, promptFile, messagesFile, toolsFile, tokenizer;
  std::string promptIds; ///< checked by tokenIds()
  bool promptIdsGiven = false, thinkingGiven = false;
  bool chat = false, printIds = false, json = false, ignoreEos = false, noBos = false;
  std::string system, thinking = "adaptive", effort;
  uint32_t maxTokens = 128;
  std::optional<double> temperature, topP;
  std::optional<uint32_t> topK;
  uint64_t seed = 0;
  std::vector<std::string> stops;
};

std::atomic<bool> interrupted{false};

/// The first Ctrl-C ends the text after the token at hand, the second one the program.
void interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

constexpr int interruptedCode = 130; // as shells count an end by SIGINT

/// Options that would have no effect are refused.
void checkUsage(const Arguments &arguments) {
  auto refuse = [](const char *what, const char *why, const char *next) {
    throw Error(what, "m3-run generate", why, next, ExitCode::Usage);
  };
  if (arguments.chat && arguments.promptIdsGiven)
    refuse("--chat has no effect with --prompt-ids", "token ids are taken as they are",
           "leave one of the two out");
  if (arguments.noBos && (arguments.chat || arguments.promptIdsGiven))
    refuse("--no-bos has an effect with plain text alone",
           arguments.chat ? "the chat template says where the BOS token stands"
                          : "token ids are taken as they are",
           "leave it out");
  if (std::ranges::count(arguments.stops, ""))
    refuse("--stop is empty", "every text has an empty one in it", "leave it out");
  if (!arguments.system.empty() && !arguments.messagesFile.empty())
    refuse("--system has no effect with --messages", "the file holds the whole conversation",
           "put the system message into the file");
  if (arguments.chat)
    return;
  std::pair<bool, const char *> ofChat[] = {
      {arguments.thinkingGiven, "--thinking has no effect without --chat"},
      {!arguments.system.empty(), "--system has no effect without --chat"},
      {!arguments.effort.empty(), "--effort has no effect without --chat"},
      {!arguments.toolsFile.empty(), "--tools has no effect without --chat"}};
  for (auto [given, what] : ofChat)
    if (given)
      refuse(what, "it is a part of the chat template", "add --chat, or leave it out");
}

std::string readText(const std::string &path) {
  if (path == "-")
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  MappedFile file = MappedFile::open(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Tokenizer and end tokens of the checkpoint; nothing where there is no folder with a tokenizer.
struct TextSide {
  std::optional<text::Tokenizer> tokenizer;
  text::TextConfig config;

  TextSide(const Arguments &arguments, const plan::Model &model) {
    std::string folder = arguments.tokenizer.empty() && !isSynthetic(arguments.run.weights)
                             ? arguments.run.weights
                             : arguments.tokenizer;
    if (!folder.empty() &&
        (!arguments.tokenizer.empty() || ModelFolder(folder).has("tokenizer.json")))
      load(ModelFolder(folder), arguments.chat, model.vocab());
    if (!arguments.tokenizer.empty() && !isSynthetic(arguments.run.weights))
      checkVocabulary(arguments, model.vocab());
    if (model.eos_token() >= 0)
      config.eosIds.push_back(model.eos_token());
    if (!config.bosId && model.bos_token() >= 0)
      config.bosId = model.bos_token();
  }

  const text::Tokenizer &need() const {
    if (!tokenizer)
      throw Error("there is no tokenizer for text", "m3-run generate",
                  "the weights are not a folder with tokenizer.json",
                  "give one with --tokenizer FOLDER, or use --prompt-ids and --ids",
                  ExitCode::Usage);
    return *tokenizer;
  }

private:
  /// The ids of another vocabulary would be other words to the model.
  void checkVocabulary(const Arguments &arguments, uint32_t vocab) const {
    ModelFolder weights(arguments.run.weights);
    if (!weights.has("tokenizer.json"))
      return;
    if (!tokenizer->hasVocabularyOf(text::Tokenizer::load(weights, vocab)))
      throw Error("the tokenizer is not the model's", arguments.tokenizer,
                  fmt::format("its vocabulary differs from that of {}/tokenizer.json",
                              arguments.run.weights),
                  "leave out --tokenizer, or give the folder of the same model");
  }
  void load(const ModelFolder &folder, bool chat, uint32_t vocab) {
    tokenizer = text::Tokenizer::load(folder, vocab);
    config = text::loadTextConfig(folder, *tokenizer);
    for (const std::string &note : tokenizer->notes())
      log::info("{}", note);
    for (const std::string &note : config.notes)
      log::info("{}", note);
    if (chat)
      if (std::optional<std::string> note = text::chatTemplateNote(folder))
        log::info("{}", *note);
  }
};

std::string chatMessages(const Arguments &arguments, const std::string &prompt) {
  if (!arguments.messagesFile.empty())
    return readText(arguments.messagesFile);
  nlohmann::json messages = nlohmann::json::array();
  if (!arguments.system.empty())
    messages.push_back({{"role", "system"}, {"content", arguments.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  try {
    return messages.dump();
  } catch (const nlohmann::json::exception &) {
    throw Error("the prompt is not UTF-8", "--prompt", "", "", ExitCode::Failure);
  }
}

/// An error of the chat format, which knows keys alone, with the file that has them.
Error inFile(const Error &error, const Arguments &arguments) {
  std::string where = error.where();
  const std::string &file =
      where.starts_with("tools") ? arguments.toolsFile : arguments.messagesFile;
  if ((where.starts_with("tools") || where.starts_with("messages")) && !file.empty())
    where = fmt::format("{}, {}", file, where);
  return Error(error.summary(), where, error.why(), error.next(), error.code());
}

std::vector<int32_t> promptIds(const Arguments &arguments, const TextSide &side) {
  if (arguments.promptIdsGiven)
    return readTokenIds(arguments.promptIds);
  std::string prompt =
      arguments.promptFile.empty() ? arguments.prompt : readText(arguments.promptFile);
  if (prompt.empty() && arguments.messagesFile.empty())
    throw Error("the prompt is empty", "m3-run generate", "at least one character is needed",
                "give some text, or token ids with --prompt-ids");
  if (arguments.chat) {
    text::ChatOptions options;
    options.thinking = text::parseThinkingMode(arguments.thinking);
    options.reasoningEffort = arguments.effort;
    if (!arguments.toolsFile.empty())
      options.tools = readText(arguments.toolsFile);
    std::string messages = chatMessages(arguments, prompt);
    try {
      return text::encodeChat(side.need(), text::renderChat(messages, options));
    } catch (const Error &error) {
      throw inFile(error, arguments);
    }
  }
  std::vector<int32_t> ids = side.need().encode(prompt, text::ParseAdded::None);
  if (side.config.bosId && !arguments.noBos)
    ids.insert(ids.begin(), *side.config.bosId);
  return ids;
}

/// Greedy unless an option asks for sampling; then generation_config.json has the say in what no
/// option gives.
sample::SamplingParameters sampling(const Arguments &arguments, const text::TextConfig &config) {
  bool asked = arguments.temperature || arguments.topK || arguments.topP;
  bool suggests = config.temperature.value_or(0) > 0;
  sample::SamplingParameters parameters;
  parameters.temperature = 0;
  parameters.seed = arguments.seed;
  if (asked) {
    parameters.temperature = arguments.temperature.value_or(suggests ? *config.temperature : 1);
    parameters.topK = arguments.topK.value_or(config.topK.value_or(0));
    parameters.topP = arguments.topP.value_or(config.topP.value_or(1));
    sample::checkParameters(parameters);
  }
  if (parameters.temperature > 0)
    log::info("sampling with --temperature {} --top-k {} --top-p {} --seed {}",
              parameters.temperature, parameters.topK, parameters.topP, parameters.seed);
  else if (!asked && suggests)
    log::info("greedy; the checkpoint suggests --temperature {} --top-k {} --top-p {}",
              *config.temperature, config.topK.value_or(0), config.topP.value_or(1));
  return parameters;
}

/// Takes tokens, writes text or ids as they come, and says when to stop.
class Output {
public:
  Output(const Arguments &arguments, const TextSide &side) : arguments(arguments) {
    stopIds = arguments.ignoreEos ? std::vector<int32_t>{} : side.config.eosIds;
    if (side.tokenizer)
      decoder.emplace(*side.tokenizer,
                      text::StreamOptions{.stopStrings = arguments.stops, .stopIds = stopIds});
    else if (!arguments.stops.empty() || (!arguments.printIds && !arguments.json))
      side.need();
  }

  /// False when generation ends with this token.
  bool take(int32_t id) {
    ids.push_back(id);
    bool end = std::find(stopIds.begin(), stopIds.end(), id) != stopIds.end();
    if (arguments.printIds && !arguments.json)
      show(fmt::format("{}{}", ids.size() > 1 ? " " : "", id));
    if (decoder) {
      append(decoder->push(id));
      end |= decoder->stopped() != text::StopReason::None;
    }
    if (end)
      reason = decoder && decoder->stopped() == text::StopReason::String ? "stop" : "eos";
    return !end;
  }

  void finish() {
    if (decoder)
      append(decoder->finish());
    if (!arguments.json)
      show("\n");
  }

  /// True when text or ids are written as they come.
  bool streams() const { return !arguments.json; }

  std::vector<int32_t> ids;
  std::string text;
  std::string reason = "length";

private:
  void append(const std::string &piece) {
    text += piece;
    if (!arguments.printIds && !arguments.json)
      show(piece);
  }

  void show(std::string_view piece) {
    if (std::fwrite(piece.data(), 1, piece.size(), stdout) != piece.size() ||
        std::fflush(stdout) != 0)
      throw Error("standard output cannot be written", "m3-run generate", std::strerror(errno));
  }

  const Arguments &arguments;
  std::vector<int32_t> stopIds;
  std::optional<text::StreamDecoder> decoder;
};

struct Timing {
  double prompt = 0, decode = 0; ///< seconds
};

Timing generate(Session &session, std::vector<int32_t> prompt,
                const sample::SamplingParameters &parameters, uint32_t maxTokens, Output &output) {
  SequenceId sequence = session.create();
  sample::Sampler sampler;
  int32_t token = 0;
  uint64_t position = prompt.size();
  LogitSink sink = [&](size_t, size_t, std::span<const float> logits) {
    token = sampler.sample(logits, parameters, position).id;
  };
  Clock::time_point begun = Clock::now();
  std::vector<Append> appends = {{sequence, prompt, Want::Last}};
  session.run(appends, sink);
  Clock::time_point prefilled = Clock::now();
  if (output.streams())
    session.setRecorded({}); // no message in the midst of the text
  appends[0].tokens = {&token, 1};
  for (uint32_t made = 1; output.take(token) && made < maxTokens; ++made) {
    if (interrupted) {
      output.reason = "interrupted";
      break;
    }
    ++position;
    session.run(appends, sink);
  }
  output.finish();
  using Seconds = std::chrono::duration<double>;
  return {Seconds(prefilled - begun).count(), Seconds(Clock::now() - prefilled).count()};
}

/// Tokens and pages are counted before anything is loaded.
SessionOptions checkedSession(const Engine &engine, const Arguments &arguments, size_t prompt) {
  uint64_t context = engine.tables().model()->max_positions();
  uint64_t page = engine.tables().cache()->page_tokens(), maxTokens = arguments.maxTokens;
  if (prompt == 0)
    throw Error("the prompt is empty", "m3-run generate", "at least one token is needed",
                "give some text");
  SessionOptions options;
  applyTo(options, arguments.run);
  options.pages =
      arguments.run.pages ? arguments.run.pages : (prompt + maxTokens + page - 1) / page;
  uint64_t cache = options.pages * page, limit = std::min(context, cache);
  if (prompt + maxTokens > limit)
    throw Error(fmt::format("a prompt of {} tokens and {} new ones do not fit", prompt, maxTokens),
                "m3-run generate",
                fmt::format("{} is {} tokens: the longest prompt that fits is {}",
                            limit == context ? "the model's context" : "the cache", limit,
                            limit > maxTokens ? limit - maxTokens : 0),
                limit == context ? "shorten the prompt or lower --max-tokens"
                                 : "raise --kv-pages, or lower --max-tokens");
  return options;
}

void report(const Engine &engine, const SessionOptions &options, size_t prompt, size_t made,
            const Timing &time) {
  auto rate = [](double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; };
  tell("prompt   {:>6} tokens  {:>8.3f} s  {:>8.1f} tokens/s\n", prompt, time.prompt,
       rate(double(prompt), time.prompt));
  if (made > 1)
    tell("decode   {:>6} tokens  {:>8.3f} s  {:>8.1f} tokens/s\n", made - 1, time.decode,
         rate(double(made - 1), time.decode));
  tell("memory   {} planned, {} at the peak; {} threads, {} ({})\n",
       byteText(Session::ledger(engine, options).total()), byteText(peakMemory()),
       engine.device().info().workers, engine.device().info().name, engine.target().chip()->str());
}

void printJson(const Output &output, bool hasText, size_t prompt, const Timing &time) {
  nlohmann::ordered_json out;
  if (hasText)
    out["text"] = output.text;
  out["ids"] = output.ids;
  out["finish_reason"] = output.reason;
  out["prompt_tokens"] = prompt;
  out["completion_tokens"] = output.ids.size();
  out["prompt_seconds"] = time.prompt;
  out["decode_seconds"] = time.decode;
  fmt::print("{}\n", out.dump());
}

int runGenerate(const Arguments &arguments) {
  checkUsage(arguments);
  std::unique_ptr<Engine> engine = openEngine(arguments.run);
  TextSide side(arguments, *engine->tables().model());
  std::vector<int32_t> prompt = promptIds(arguments, side);
  sample::SamplingParameters parameters = sampling(arguments, side.config);
  SessionOptions options = checkedSession(*engine, arguments, prompt.size());
  Output output(arguments, side);

  loadWeights(*engine, arguments.run, options);
  Session session(*engine, options);
  mentionGraphs(session);

  std::signal(SIGINT, interrupt);
  std::signal(SIGPIPE, SIG_IGN);
  Timing time = generate(session, prompt, parameters, arguments.maxTokens, output);
  if (arguments.json)
    printJson(output, side.tokenizer.has_value(), prompt.size(), time);
  report(*engine, options, prompt.size(), output.ids.size(), time);
  if (output.reason == "interrupted")
    return interruptedCode;
  reportRun(*engine, session, arguments.run.stats);
  return 0;
}

void addPromptOptions(CLI::App &app, Arguments &arguments) {
  CLI::Option *prompt = app.add_option("--prompt", arguments.prompt, "text to continue");
  CLI::Option *file = app.add_option("--prompt-file", arguments.promptFile,
                                     "file with the text; - = standard input");
  CLI::Option *ids = app.add_option("--prompt-ids", arguments.promptIds,
                                    "token ids to continue, separated by commas")
                         ->check(tokenIds());
  CLI::Option *messages = app.add_option("--messages", arguments.messagesFile,
                                         "JSON file with a conversation; implies --chat");
  prompt->excludes(file)->excludes(ids)->excludes(messages);
  file->excludes(ids)->excludes(messages);
  ids->excludes(messages);
  app.add_flag("--no-bos", arguments.noBos, "do not put the BOS token before the text");
  app.add_flag("--chat", arguments.chat, "take the prompt as a user's message");
  app.add_option("--system", arguments.system, "system message of --chat");
  CLI::Option *thinking =
      app.add_option("--thinking", arguments.thinking, "adaptive, enabled or disabled, for --chat")
          ->capture_default_str();
  app.add_option("--effort", arguments.effort, "reasoning effort, for --chat");
  app.add_option("--tools", arguments.toolsFile, "JSON file with tools, for --chat");
  app.add_option("--tokenizer", arguments.tokenizer,
                 "folder with tokenizer.json; default: the weights' folder");
  app.parse_complete_callback([=, &arguments] {
    arguments.promptIdsGiven = ids->count() > 0;
    arguments.thinkingGiven = thinking->count() > 0;
    arguments.chat |= messages->count() > 0;
    if (prompt->count() + file->count() + ids->count() + messages->count() == 0)
      throw CLI::RequiredError("one of --prompt, --prompt-file, --prompt-ids, --messages");
  });
}

} // namespace

std::function<int()> setUpGenerate(CLI::App &app) {
  auto arguments = std::make_shared<Arguments>();
  addRunOptions(app, arguments->run);
  addPromptOptions(app, *arguments);
  app.add_option("--max-tokens", arguments->maxTokens, "most tokens to generate")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--temperature", arguments->temperature,
                 "0 = always the most probable token, the default without --top-k and --top-p")
      ->check(zeroOrMore());
  app.add_option("--top-k", arguments->topK, "sample from the k most probable tokens; 0 = off");
  app.add_option("--top-p", arguments->topP, "sample from the smallest set with this mass; 1 = off")
      ->check(within(std::numeric_limits<double>::min(), 1.0));
  app.add_option("--seed", arguments->seed, "seed of the random numbers")->capture_default_str();
  app.add_option("--stop", arguments->stops, "text that ends the generation; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--ignore-eos", arguments->ignoreEos, "go on after the end-of-text token");
  app.add_flag("--ids", arguments->printIds, "print token ids instead of text");
  app.add_flag("--json", arguments->json, "print one JSON object at the end instead of streaming");
  return [arguments] { return runGenerate(*arguments); };
}

} // namespace m3c
