/// generate.cc: `weft generate`: texts that a language model goes on with. Text goes to stdout as
/// it comes; what it took is a line on stderr.
#include <algorithm>
#include <cstdio>

#include "command_line.h"
#include "common.h"
#include "interrupt.h"
#include "weft/generate/generator.h"
#include "weft/generate/tokenizer.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  EngineArgs engine;
  std::vector<std::string> prompts, token_files, prompt_files, stops, feedback;
  std::string tokenizer;
  GenerateOptions options;
  bool special = false, plain = false, quiet = false;
};

using Tokens = std::vector<int64_t>;

/// Numbers between white space and commas, or a vector or matrix (a row a text) of a .npy file.
std::vector<Tokens> ReadTokens(const std::string& path, const Limits& limits) {
  if (IsTensorFile(path)) {
    const TensorPtr t = ReadTensor(path, limits);
    WEFT_CHECK((t->dtype() == DType::kI64 || t->dtype() == DType::kI32) &&
                   (t->rank() == 1 || t->rank() == 2),
               kBadInput, "'{}': expected i64 or i32 [tokens] or [texts, tokens], got {}", path,
               TypeText(*t));
    const int64_t n = t->dims().back(), rows = t->rank() == 2 ? t->dims()[0] : 1;
    std::vector<Tokens> texts(static_cast<size_t>(rows));
    for (int64_t i = 0; i < t->num_elements(); ++i) texts[size_t(i / n)].push_back(t->at_int(i));
    return texts;
  }
  std::string text = ReadFile(path);
  std::vector<Tokens> texts;
  for (std::string& line : Split(text, '\n')) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::replace(line.begin(), line.end(), '\r', ' ');
    std::replace(line.begin(), line.end(), '\t', ' ');
    Tokens tokens;
    for (const std::string& word : Split(line, ' ')) {
      if (word.empty()) continue;
      const std::optional<int64_t> token = TryParseInt64(word);
      WEFT_CHECK(token, kBadInput, "'{}': '{}' is not a token; a line is the tokens of a text",
                 path, word);
      tokens.push_back(*token);
    }
    if (!tokens.empty()) texts.push_back(std::move(tokens));
  }
  return texts;
}

/// A number, or what the tokenizer writes so; digits are the number.
int64_t StopToken(const std::string& text, const Tokenizer* tokenizer) {
  std::optional<int64_t> token = TryParseInt64(text);
  if (!token && tokenizer) token = tokenizer->Find(text);
  WEFT_CHECK(token, kUsage, "--stop '{}' is not a token{}", text,
             tokenizer ? " of the tokenizer" : "; names need --tokenizer");
  return *token;
}

void Stream(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int Generate(const Args& a) {
  const Limits limits = a.model.Check();
  std::optional<Tokenizer> tokenizer;
  if (!a.tokenizer.empty()) tokenizer = Tokenizer::Load(a.tokenizer);
  std::vector<Tokens> prompts;
  for (const std::string& f : a.token_files)
    for (Tokens& t : ReadTokens(f, limits)) prompts.push_back(std::move(t));
  WEFT_CHECK(tokenizer || (a.prompts.empty() && a.prompt_files.empty()), kUsage,
             "--prompt needs --tokenizer, the file tokenizer.json of the model");
  for (const std::string& p : a.prompts) prompts.push_back(tokenizer->Encode(p, !a.plain));
  for (const std::string& f : a.prompt_files)
    prompts.push_back(tokenizer->Encode(ReadFile(f), !a.plain));
  WEFT_CHECK(!prompts.empty(), kUsage, "there is no text to go on with: --prompt or --tokens");
  GenerateOptions options = a.options;
  for (const std::string& s : a.stops)
    options.stop_tokens.push_back(StopToken(s, tokenizer ? &*tokenizer : nullptr));
  const Sampler checked(options.sampling);  // before the model is read

  WEFT_CHECK(!IsProgramFile(a.model.path), kUsage, "'{}' is compiled already; texts need the model",
             a.model.path);
  const std::string backend = a.engine.backend.empty() ? kDefaultBackend : a.engine.backend;
  const Engine engine = ParseEngine(EngineName(backend, a.engine.delegates), a.engine.passes);
  CompileOptions compile;
  compile.backend = engine.backend;
  compile.pipeline = engine.pipeline;
  compile.division = a.engine.delegates.Division();
  compile.threads = a.engine.threads;
  compile.calls = a.engine.calls;
  compile.memory = a.engine.memory.Check();
  compile.passes.limits = limits;
  compile.feedback = a.feedback;
  Generator generator(ReadModel(a.model), compile);
  if (tokenizer && generator.vocabulary() >= 0 && tokenizer->size() > generator.vocabulary())
    ThrowError(ErrorCode::kBadBinding,
               fmt::format("the tokenizer has {} tokens, the model {}", tokenizer->size(),
                           generator.vocabulary()),
               a.tokenizer, "it is the tokenizer of another model");

  const InterruptScope interrupts;
  const bool streams = !a.model.json && prompts.size() == 1;
  std::optional<TextStream> stream;
  if (tokenizer) stream.emplace(*tokenizer, a.special);
  std::vector<Tokens> made = generator.Run(prompts, options, [&](size_t, int64_t token) {
    if (streams) Stream(stream ? stream->Push(token) : std::to_string(token) + " ");
    return !InterruptScope::Requested();
  });
  if (streams) Stream((stream ? stream->Finish() : std::string()) + "\n");
  const auto text = [&](const Tokens& t) { return tokenizer->Decode(t, a.special); };
  const GenerateStats& s = generator.stats();
  if (a.model.json) {
    Json texts = Json::array();
    for (size_t i = 0; i < made.size(); ++i) {
      Json row = {{"prompt_tokens", prompts[i]}, {"tokens", made[i]}};
      if (tokenizer) row["text"] = text(made[i]);
      texts.push_back(std::move(row));
    }
    std::vector<double> steps = s.step_seconds;
    std::sort(steps.begin(), steps.end());
    const double median = steps.empty() ? 0 : steps[steps.size() / 2];
    PrintJson({{"texts", std::move(texts)},
               {"backend", engine.backend},
               {"prompt_tokens", s.prompt_tokens},
               {"new_tokens", s.new_tokens},
               {"prompt_s", s.prompt_seconds},
               {"generate_s", s.seconds},
               {"tokens_per_second", s.tokens_per_second},
               {"median_token_ms", 1e3 * median},
               {"token_ms",
                [&] {
                  Json all = Json::array();
                  for (const double t : s.step_seconds) all.push_back(1e3 * t);
                  return all;
                }()},
               {"caches", s.cache.caches},
               {"cache_rows", s.cache.rows},
               {"cache_room", s.cache.room},
               {"cache_bytes", s.cache.bytes},
               {"cache_allocations", s.cache.allocations},
               {"cache_moved_bytes", s.cache.moved_bytes},
               {"cache_copies", s.cache.copied_by_steps},
               {"arena_bytes", s.arena_bytes},
               {"arena_allocations", s.arena_allocations},
               {"compile_s", generator.program().stats().compile_seconds}});
    return InterruptScope::Requested() ? kInterruptedCode : 0;
  }
  for (size_t i = 0; i < made.size() && !streams; ++i) {
    std::string line;
    if (tokenizer)
      line = text(made[i]);
    else
      for (const int64_t t : made[i]) line += (line.empty() ? "" : " ") + std::to_string(t);
    PrintText(line + "\n");
  }
  if (!a.quiet)
    PrintNote(fmt::format("{} behind {}: {} for the first, then {:.1f} a second",
                          Plural(s.new_tokens, "token"), s.prompt_tokens,
                          Milliseconds(s.prompt_seconds), s.tokens_per_second));
  return InterruptScope::Requested() ? kInterruptedCode : 0;
}

}  // namespace

Command MakeGenerate(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("generate", "go on with a text by a language model");
  AddModel(app, &a->model);
  app.Add("--prompt TEXT", &a->prompts, "a text; again for more in one batch");
  app.Add("--prompt-file F", &a->prompt_files, "a text in a file");
  app.Add("--tokenizer F", &a->tokenizer, "the model's tokenizer.json");
  app.Add("--tokens F", &a->token_files,
          "tokens instead of text: a line each, or .npy [tokens] or [texts, tokens]");
  app.Add("--max-tokens N", &a->options.max_tokens, "new tokens of each text")
      .WholeNumber(0)
      .ShowDefault();
  app.Add("--stop T", &a->stops,
          "a token that ends a text: its number, or as the tokenizer has it");
  app.Add("--temperature T", &a->options.sampling.temperature, "0: the most likely token each time")
      .NonNegative()
      .ShowDefault();
  app.Add("--top-k K", &a->options.sampling.top_k, "draw from the K most likely; 0: from all")
      .WholeNumber(0)
      .ShowDefault();
  app.Add("--top-p P", &a->options.sampling.top_p,
          "draw from the fewest that have this probability together")
      .ShowDefault();
  app.Add("--seed N", &a->options.sampling.seed, "of the draws").ShowDefault();
  app.AddFlag("--no-special", &a->plain, "no tokens around a prompt that the tokenizer puts there");
  app.AddFlag("--show-special", &a->special, "special tokens as text, too");
  app.AddFlag("--quiet", &a->quiet, "no line about the speed");
  app.Add("--feedback OUT=IN", &a->feedback,
          "an output that is fed back; without any, all caches are found");
  AddRandomWeights(app, &a->model);
  AddEngine(app, &a->engine);
  return {app, [a] { return Generate(*a); }};
}

}  // namespace weft::tool
