/// split_pattern_test.cc: what tokenizers' patterns find, and what is no pattern.
#include "split_pattern.h"

#include <doctest/doctest.h>

#include "weft/support/error.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

Words Find(const std::string& pattern, const std::string& text) {
  Words words;
  for (auto [begin, end] : SplitPattern(pattern).FindAll(text))
    words.push_back(text.substr(begin, end - begin));
  return words;
}

TEST_CASE("the first alternative that matches, not the longest") {
  CHECK(Find("a|ab", "ab") == Words{"a"});
  CHECK(Find("ab|a", "aab") == Words{"a", "ab"});
  CHECK(Find("(?:ab|a)b", "abb") == Words{"abb"});
  CHECK(Find("(?:a|ab)c", "abc") == Words{"abc"});
}

TEST_CASE("repetitions: greedy, lazy, possessive, counted") {
  CHECK(Find("a+", "aaba") == Words{"aa", "a"});
  CHECK(Find("a+?", "aa") == Words{"a", "a"});
  CHECK(Find("a*+a", "aaa").empty());
  CHECK(Find("a*a", "aaa") == Words{"aaa"});
  CHECK(Find("\\p{N}{1,3}", "1234567") == Words{"123", "456", "7"});
  CHECK(Find("(?:ab){2}", "ababab") == Words{"abab"});
  CHECK(Find("a{2,}", "aaaa a") == Words{"aaaa"});
  CHECK(Find("a{x", "a{x") == Words{"a{x"});
}

TEST_CASE("classes, cases, what stands ahead") {
  CHECK(Find("[^\\s\\p{L}]+", "a .,b 1") == Words{".,", "1"});
  CHECK(Find("[a-c-]+", "ab-d") == Words{"ab-"});
  CHECK(Find("[]a]+", "]a") == Words{"]a"});
  CHECK(Find("(?i:'s|'t)", "'S 't 's") == Words{"'S", "'t", "'s"});
  CHECK(Find("(?i)abc", "aBC") == Words{"aBC"});
  CHECK(Find("\\s+(?!\\S)", "a   b  ") == Words{"  ", "  "});
  CHECK(Find("a(?=b)", "abac") == Words{"a"});
  CHECK(Find("\\P{L}+", "a12b") == Words{"12"});
  CHECK(Find("^a|b$", "abab") == Words{"a", "b"});
  CHECK(Find(".+", "a\nb") == Words{"a", "b"});
}

TEST_CASE("words of GPT-2") {
  const char* const pattern =
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  CHECK(Find(pattern, "I'm  here, 42 \xc3\xa9t\xc3\xa9s!\n\n") ==
        Words{"I", "'m", " ", " here", ",", " 42", " \xc3\xa9t\xc3\xa9s", "!", "\n\n"});
}

TEST_CASE("what is no pattern is an error with its place") {
  for (const char* bad : {"(a", "a)", "[a", "*a", "a{3,1}", "\\", "[z-a]", "\\p{L"})
    CHECK_THROWS_AS_MESSAGE(SplitPattern{bad}, UserError, bad);
  for (const char* other : {"\\p{Lu}", "\\w", "(?<n>a)", "(?<=a)b", "[a&&b]", "\\bx"}) {
    try {
      SplitPattern{other};
      FAIL(other);
    } catch (const Error& e) {
      CHECK_MESSAGE(e.code() == ErrorCode::kUnsupported, other);
    }
  }
  CHECK_THROWS_AS(SplitPattern{"(?:(?:a{1000}){1000}){1000}"}, Error);
  CHECK_THROWS_AS(SplitPattern{"(a*)*b"}.FindAll("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"), Error);
}

}  // namespace
}  // namespace weft
