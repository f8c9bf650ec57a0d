/// c_generate.cc: tokenizers and generators of weft.h.
#include <algorithm>
#include <cstring>

#include "c_options.h"
#include "weft/api/model.h"
#include "weft/generate/generator.h"
#include "weft/generate/tokenizer.h"

using namespace weft;
using namespace weft::capi;

struct WeftTokenizer {
  Tokenizer tokenizer;
};
struct WeftGenerator {
  Generator generator;
  std::vector<std::vector<int64_t>> made;
};

namespace {

/// Gives `all` to memory of the caller.
template <class List, class Item>
void Give(const List& all, Item* to, size_t* count, const char* what) {
  const size_t room = *count;
  *count = all.size();
  if (!to) return;
  WEFT_CHECK(all.size() <= room, kBadBinding, "there is room for {} {}, there are {}", room, what,
             all.size());
  std::copy(all.begin(), all.end(), to);
}

}  // namespace

WeftStatus weft_tokenizer_load(const char* path, WeftTokenizer** tokenizer) {
  return Guard([&] {
    CheckArgument(path, "path");
    CheckArgument(tokenizer, "tokenizer");
    *tokenizer = new WeftTokenizer{Tokenizer::Load(path)};
  });
}

WeftStatus weft_tokenizer_encode(const WeftTokenizer* t, const char* text, size_t size,
                                 int32_t special, int64_t* tokens, size_t* count) {
  return Guard([&] {
    CheckArgument(t, "tokenizer");
    CheckArgument(text, "text");
    CheckArgument(count, "count");
    Give(t->tokenizer.Encode({text, size}, special != 0), tokens, count, "tokens");
  });
}

WeftStatus weft_tokenizer_decode(const WeftTokenizer* t, const int64_t* tokens, size_t count,
                                 int32_t special, char* text, size_t* size) {
  return Guard([&] {
    CheckArgument(t, "tokenizer");
    if (count > 0) CheckArgument(tokens, "tokens");
    CheckArgument(size, "size");
    Give(t->tokenizer.Decode({tokens, tokens + count}, special != 0), text, size, "bytes");
  });
}

void weft_tokenizer_release(WeftTokenizer* t) { delete t; }

WeftStatus weft_generator_load(const char* path, const WeftOptions* options,
                               WeftGenerator** generator) {
  return Guard([&] {
    CheckArgument(path, "path");
    CheckArgument(generator, "generator");
    const Setup setup(options);
    Cancellable(setup, [&] {
      *generator = new WeftGenerator{Generator(LoadModel(path, setup.import), setup.compile), {}};
    });
  });
}

WeftStatus weft_generator_run(WeftGenerator* g, size_t count, const int64_t* const* prompts,
                              const size_t* lengths, const WeftGenerateOptions* options) {
  return Guard([&] {
    CheckArgument(g, "generator");
    CheckArgument(prompts, "prompts");
    CheckArgument(lengths, "lengths");
    CheckArgument(options, "options");
    WEFT_CHECK(options->struct_size >= sizeof(size_t), kApiMisuse,
               "WeftGenerateOptions.struct_size is {}", options->struct_size);
    WeftGenerateOptions o{};
    std::memcpy(&o, options, std::min(options->struct_size, sizeof o));
    g->made.clear();
    GenerateOptions run;
    run.max_tokens = o.max_tokens;
    run.sampling = {o.temperature, o.top_k, o.top_p == 0 ? 1 : o.top_p, o.seed};
    if (o.num_stop_tokens > 0) {
      CheckArgument(o.stop_tokens, "stop_tokens");
      run.stop_tokens.assign(o.stop_tokens, o.stop_tokens + o.num_stop_tokens);
    }
    std::vector<std::vector<int64_t>> texts;
    for (size_t i = 0; i < count; ++i) {
      if (lengths[i] > 0) CheckArgument(prompts[i], "prompts[i]");
      texts.emplace_back(prompts[i], prompts[i] + lengths[i]);
    }
    Generator::OnToken on_token;
    if (o.on_token)
      on_token = [&](size_t text, int64_t token) {
        return o.on_token(o.context, text, token) == 0;
      };
    g->made = g->generator.Run(texts, run, on_token);
  });
}

WeftStatus weft_generator_tokens(const WeftGenerator* g, size_t text, const int64_t** tokens,
                                 size_t* count) {
  return Guard([&] {
    CheckArgument(g, "generator");
    CheckArgument(tokens, "tokens");
    CheckArgument(count, "count");
    WEFT_CHECK(text < g->made.size(), kBadBinding, "there is no text {} of {}", text,
               g->made.size());
    *tokens = g->made[text].data();
    *count = g->made[text].size();
  });
}

void weft_generator_release(WeftGenerator* g) { delete g; }
