/// split_pattern_test.cc: what tokenizers' patterns find, and what is no pattern.
#include "split_pattern.h"

#include <doctest/doctest.h>

#include <optional>

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

// What the package `tokenizers` finds.
TEST_CASE("sub-categories, scripts and spaces as tokenizers mean them") {
  CHECK(Find("\\p{Lu}?\\p{Ll}+", "OneTwo \xc3\x84hre") == Words{"One", "Two", "\xc3\x84hre"});
  CHECK(Find("[^\\p{Ll}\\P{L}]", "aB1") == Words{"B"});
  // Two ideographs are of the script, U+3001 and U+30FC behind them are not.
  CHECK(Find("\\p{Han}+", "\xe6\xbc\xa2\xe5\xad\x97\xe3\x80\x81\xe3\x83\xbc") ==
        Words{"\xe6\xbc\xa2\xe5\xad\x97"});
  CHECK(Find("\\P{^L}", "a1") == Find("\\p{L}", "a1"));
  // U+180E is no space, U+0085 is one.
  CHECK(Find("\\s",
             "a\xe1\xa0\x8e"
             "b\xc2\x85"
             "c d") == Words{"\xc2\x85", " "});
  CHECK(Find("[\\S]+",
             "a\xe1\xa0\x8e"
             "b c") == Words{"a\xe1\xa0\x8e"
                             "b",
                             "c"});
}

TEST_CASE("lines, letters of either case, what stands behind") {
  CHECK(Find("^a", "a\na") == Words{"a", "a"});
  CHECK(Find("a$", "a\nab\na\n") == Words{"a", "a"});
  CHECK(Find("(?i:'s)|x", "'\xc5\xbfx") == Words{"'\xc5\xbf", "x"});
  CHECK(Find("a|(?i)b|c", "aB C") == Words{"a", "B", "C"});
  CHECK(Find("(?<=a)b|(?<n>c)", "ab bc") == Words{"b", "c"});
  CHECK(Find("a{,2}", "aaa") == Words{"aa", "a"});
  CHECK(Find("\\x{e9}\\[", "\xc3\xa9[") == Words{"\xc3\xa9["});
}

TEST_CASE("bytes of characters that are not whole are characters of no kind") {
  CHECK(Find(".", "a\xff\xe2\x82") == Words{"a", "\xff", "\xe2", "\x82"});
  CHECK(Find("[\\p{L}\\s]", "\xffz") == Words{"z"});
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
  for (const char* other : {"\\w", "[a&&b]", "\\bx", "[a[b]]", "\\h", "(a)\\1", "(?m:.)", "a(?i)b",
                            "(?R)", "(*F)a", "\\p{Nobody}", "(?<=a+)b"}) {
    try {
      const SplitPattern pattern(other);
      FAIL(other);
    } catch (const Error& e) {
      CHECK_MESSAGE(e.code() == ErrorCode::kUnsupported, other);
    }
  }
  try {
    // Byte 6 here, not where it is in what PCRE2 reads.
    const SplitPattern pattern("\\s\\S\xc3\xa9)");
    FAIL("no error");
  } catch (const Error& e) {
    const std::string what = e.what();
    CHECK_MESSAGE(what.find("\\s\\S") != std::string::npos, what);
    CHECK_MESSAGE(what.find("byte 6") != std::string::npos, what);
  }
}

std::optional<ErrorCode> CodeOver(const std::string& pattern, const std::string& text) {
  try {
    SplitPattern(pattern).FindAll(text);
  } catch (const Error& e) {
    CHECK_MESSAGE(std::string(e.what()).find("pattern") != std::string::npos, e.what());
    return e.code();
  }
  return std::nullopt;
}

TEST_CASE("patterns that take too much") {
  CHECK_THROWS_AS(SplitPattern{"(?:(?:a{1000}){1000}){1000}"}, Error);
  CHECK_THROWS_AS(SplitPattern{"(a*)*b"}.FindAll("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"), Error);
  const auto times = [](const std::string& s, size_t n) {
    std::string all;
    for (size_t i = 0; i < n; ++i) all += s;
    return all;
  };
  CHECK(CodeOver(times("(", 100000) + times(")", 100000), "") == ErrorCode::kLimit);
  CHECK(CodeOver(times("(", 1000) + times(")", 1000), "") == ErrorCode::kLimit);
  CHECK(CodeOver(times("a", 20000), "") == ErrorCode::kLimit);
  CHECK(CodeOver("a{70000}", "") == ErrorCode::kLimit);
  // Each attempt takes 2^16 steps, which is less than one may and together more.
  CHECK(CodeOver("(?:a?){16}b", times("a", 2000)) == ErrorCode::kLimit);
  // Nothing of this is kept on the stack.
  const std::string many = times("ab", 200000);
  CHECK(Find("(?:ab|c)+", many) == Words{many});
  // From each place to the end and back.
  CHECK(CodeOver("(?:ab|c)+d|a", many) == ErrorCode::kLimit);
}

}  // namespace
}  // namespace weft
