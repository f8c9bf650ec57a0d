/// c_generate_test.cc: texts in C: tokens as the C++ generator gives them, and wrong calls.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/support/tiny_text_model.h"
#include "weft/api/model.h"
#include "weft/generate/generator.h"
#include "weft/weft.h"

namespace weft {
namespace {

struct Seen {
  std::vector<int64_t> tokens;
  size_t most = 1000;
};

int32_t Note(void* context, size_t text, int64_t token) {
  auto* seen = static_cast<Seen*>(context);
  if (text == 0) seen->tokens.push_back(token);
  return seen->tokens.size() >= seen->most;
}

TEST_CASE("a generator in C") {
  const e2e::TempFolder folder;
  const std::string path = folder.path() + "/model.weft";
  WriteModel(TinyTextModel().Make(), path);
  CompileOptions ref;
  ref.backend = "ref";
  GenerateOptions want;
  want.max_tokens = 6;
  want.sampling = {0.8, 5, 0.9, 3};
  const auto expected = Generator(LoadModel(path), ref).Run({{1, 2, 3}, {4}}, want);

  WeftOptions options{};
  options.struct_size = sizeof options;
  options.backend = "ref";
  WeftGenerator* g = nullptr;
  REQUIRE_MESSAGE(weft_generator_load(path.c_str(), &options, &g) == WEFT_OK, weft_error_text());
  const int64_t first[] = {1, 2, 3}, second[] = {4};
  const int64_t* prompts[] = {first, second};
  const size_t lengths[] = {3, 1};
  Seen seen;
  WeftGenerateOptions run{};
  run.struct_size = sizeof run;
  run.max_tokens = 6;
  run.temperature = 0.8;
  run.top_k = 5;
  run.top_p = 0.9;
  run.seed = 3;
  run.on_token = Note;
  run.context = &seen;
  REQUIRE_MESSAGE(weft_generator_run(g, 2, prompts, lengths, &run) == WEFT_OK, weft_error_text());
  for (size_t i = 0; i < 2; ++i) {
    const int64_t* tokens = nullptr;
    size_t count = 0;
    REQUIRE(weft_generator_tokens(g, i, &tokens, &count) == WEFT_OK);
    CHECK(std::vector<int64_t>(tokens, tokens + count) == expected[i]);
  }
  CHECK(seen.tokens == expected[0]);
  seen = {{}, 2};
  REQUIRE(weft_generator_run(g, 1, prompts, lengths, &run) == WEFT_OK);
  CHECK(seen.tokens.size() == 2);

  const int64_t* tokens = nullptr;
  size_t count = 0;
  CHECK(weft_generator_tokens(g, 1, &tokens, &count) == WEFT_E_BAD_BINDING);
  CHECK(weft_generator_run(g, 1, prompts, lengths, nullptr) == WEFT_E_API_MISUSE);
  CHECK(weft_generator_run(g, 0, prompts, lengths, &run) == WEFT_E_BAD_INPUT);
  run.temperature = -1;
  CHECK(weft_generator_run(g, 1, prompts, lengths, &run) == WEFT_E_USAGE);
  CHECK(std::string(weft_error_message()).find("temperature") != std::string::npos);
  CHECK(weft_generator_tokens(g, 0, &tokens, &count) == WEFT_E_BAD_BINDING);
  weft_generator_release(g);
  CHECK(weft_generator_load("no such model.onnx", &options, &g) == WEFT_E_IO);
}

TEST_CASE("a tokenizer in C") {
  WeftTokenizer* t = nullptr;
  REQUIRE(weft_tokenizer_load("tests/generate/tokenizers/llama3.json", &t) == WEFT_OK);
  const std::string text = "The quick fox";
  size_t count = 0;
  REQUIRE(weft_tokenizer_encode(t, text.data(), text.size(), 0, nullptr, &count) == WEFT_OK);
  std::vector<int64_t> tokens(count);
  size_t room = count - 1;
  CHECK(weft_tokenizer_encode(t, text.data(), text.size(), 0, tokens.data(), &room) ==
        WEFT_E_BAD_BINDING);
  CHECK(room == count);
  REQUIRE(weft_tokenizer_encode(t, text.data(), text.size(), 0, tokens.data(), &room) == WEFT_OK);
  std::string back(100, ' ');
  size_t size = back.size();
  REQUIRE(weft_tokenizer_decode(t, tokens.data(), count, 0, back.data(), &size) == WEFT_OK);
  CHECK(back.substr(0, size) == text);
  const int64_t none = -1;
  CHECK(weft_tokenizer_decode(t, &none, 1, 0, back.data(), &size) == WEFT_E_BAD_INPUT);
  weft_tokenizer_release(t);
  weft_tokenizer_release(nullptr);
  CHECK(weft_tokenizer_load("tests/generate/tokenizers/make.py", &t) == WEFT_E_SYNTAX);
}

}  // namespace
}  // namespace weft
