/// tokenizer_test.cc: texts into tokens and back as the package `tokenizers` does it
/// (tests/generate/tokenizers/make.py), tokens that come one by one, and files that are none.
#include "weft/generate/tokenizer.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "weft/support/error.h"
#include "weft/support/file.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<int64_t>;

std::string Folder() {
  // Other cases of the same kind, more than the tree holds.
  const char* const other = std::getenv("WEFT_TOKENIZER_CASES");
  return other ? other : "tests/generate/tokenizers";
}

TEST_CASE("tokenizers beside another implementation") {
  for (const std::string name : {"gpt2", "gpt2_prefix", "llama3", "qwen2", "gpt4o", "llama2",
                                 "llama2_normalized", "metaspace"}) {
    CAPTURE(name);
    const Tokenizer t = Tokenizer::Load(Folder() + "/" + name + ".json");
    const Json cases = Json::parse(ReadFile(Folder() + "/" + name + ".cases.json"));
    CHECK(cases.size() > 100);
    for (const Json& c : cases) {
      Tokens plain;
      if (c.contains("text")) {
        const auto text = c["text"].get<std::string>();
        CAPTURE(text);
        plain = c["plain"].get<Tokens>();
        CHECK(t.Encode(text) == c["ids"].get<Tokens>());
        CHECK(t.Encode(text, false) == plain);
      } else {
        plain = c["tokens"].get<Tokens>();
      }
      CAPTURE(c.dump());
      CHECK(t.Decode(plain) == c["decoded"].get<std::string>());
      CHECK(t.Decode(plain, true) == c["special"].get<std::string>());
      TextStream stream(t);
      std::string text;
      for (const int64_t token : plain) text += stream.Push(token);
      text += stream.Finish();
      // What is no character may be another number of U+FFFD.
      if (t.Decode(plain).find("\xef\xbf\xbd") == std::string::npos) CHECK(text == t.Decode(plain));
    }
  }
}

TEST_CASE("tokens that only the model knows have no text") {
  const Tokenizer t = Tokenizer::Load(Folder() + "/qwen2.json");
  Tokens tokens = t.Encode("hello world");
  tokens.insert(tokens.begin() + 1, 1'000'000);
  tokens.push_back(t.size());
  CHECK(t.Decode(tokens) == "hello world");
  TextStream stream(t);
  std::string text;
  for (const int64_t token : tokens) text += stream.Push(token);
  CHECK(text + stream.Finish() == "hello world");
  CHECK_THROWS_AS(t.Decode({-1}), UserError);
}

TEST_CASE("a token knows its number, and the tokenizer how many there are") {
  const Tokenizer t = Tokenizer::Load(Folder() + "/gpt2.json");
  CHECK(t.size() == 423);
  CHECK(t.Find("<|end|>") == 421);
  CHECK(t.IsSpecial(421));
  CHECK(!t.IsSpecial(0));
  CHECK(!t.Find("no such token"));
  CHECK(t.Decode({423}).empty());
  CHECK_THROWS_AS(t.Decode({-1}), UserError);
  CHECK_THROWS_AS(t.Encode("a\xff"), UserError);
}

std::optional<ErrorCode> CodeOf(const std::string& json) {
  try {
    Tokenizer::Parse(json, "t.json");
  } catch (const Error& e) {
    CHECK_MESSAGE(std::string(e.what()).find("t.json") != std::string::npos, e.what());
    return e.code();
  }
  return std::nullopt;
}

TEST_CASE("files that are no tokenizers say where") {
  const std::string good = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
    "merges": ["a b"]}, "added_tokens": [{"id": 3, "content": "<s>", "special": true}]})";
  CHECK(Tokenizer::Parse(good, "t.json").Encode("ab<s>a") == Tokens{2, 3, 0});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string s = good;
    const size_t at = s.find(from);
    REQUIRE(at != std::string::npos);
    return CodeOf(s.replace(at, from.size(), to));
  };
  CHECK(CodeOf("") == ErrorCode::kSyntax);
  CHECK(CodeOf("[]") == ErrorCode::kSyntax);
  CHECK(CodeOf("{}") == ErrorCode::kInvalidModel);
  CHECK(with("\"BPE\"", "\"Unigram\"") == ErrorCode::kUnsupported);
  CHECK(with("\"a b\"", "\"a c\"") == ErrorCode::kInvalidModel);
  CHECK(with("\"a b\"", "\"ab\"") == ErrorCode::kInvalidModel);
  CHECK(with("\"a b\"", "[\"a\"]") == ErrorCode::kInvalidModel);
  CHECK(with("\"b\": 1", "\"b\": 0") == ErrorCode::kInvalidModel);
  CHECK(with("\"b\": 1", "\"b\": -1") == ErrorCode::kInvalidModel);
  CHECK(with("\"b\": 1", "\"b\": 1e3") == ErrorCode::kSyntax);
  CHECK(with("\"id\": 3", "\"id\": 2") == ErrorCode::kInvalidModel);
  CHECK(with("\"merges\"", "\"margins\"") == ErrorCode::kInvalidModel);
  CHECK(with("\"added", "\"normalizer\": {\"type\": \"Nmt\"}, \"added") == ErrorCode::kUnsupported);
  CHECK(with("\"added",
             "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, "
             "\"behavior\": \"Isolated\"}, \"added") == ErrorCode::kInvalidModel);
  // A file that is cut short, at every place.
  for (size_t n = 0; n < good.size(); ++n) CHECK_MESSAGE(CodeOf(good.substr(0, n)), n);
}

}  // namespace
}  // namespace weft
