/// regex_test.cc: whole strings against patterns. What matches and what does not is what Python's
/// `re.fullmatch` with re.ASCII says; the syntaxes agree on these patterns but for a{,2}, which to
/// RE2 is text.
#include "regex.h"

#include <doctest/doctest.h>

#include "tests/support/code_of.h"

namespace weft::ops {

TEST_CASE("patterns match the strings that they should, and no others") {
  struct Row {
    std::string pattern;
    std::vector<std::string> yes, no;
  };
  const std::vector<Row> rows = {
      {"abc", {"abc"}, {"ab", "abcd", ""}},
      {"a*b+c?", {"b", "aab", "aabbc"}, {"ac", "aabcc"}},
      {"(a|bc)+", {"abcbca", "bc"}, {"abb", ""}},
      {"[a-c\\d_]{2,3}", {"a1", "a1_"}, {"a", "a1_b", "zz"}},
      {"[^x-z]*", {"abc", ""}, {"axc"}},
      {"\\w+\\s\\w+", {"ab cd", "ab\011cd"}, {"abcd", "ab  cd"}},
      {"x{3}", {"xxx"}, {"xx", "xxxx"}},
      {"x{2,}", {"xx", "xxxxx"}, {"x"}},
      {"a{,2}", {"a{,2}"}, {"a", "aa"}},
      {"a.c", {"abc", "a\303\251c"}, {"a\012c"}},
      {"(?s)a.c", {"a\012c"}, {}},
      {"(?i)HeLLo", {"hello", "HELLO"}, {"hell0"}},
      {"(?i:a)b", {"Ab"}, {"AB"}},
      {"www\\.[\\w.-]+\\.\\bcom\\b", {"www.google.com", "www.facebook.com"}, {"www.bbc.co.uk"}},
      {"(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)",
       {"account@gmail.com", "account@yahoo.com"},
       {"account@hotmail.com", "not email"}},
      {"\\bab\\b", {"ab"}, {}},
      {"a\\Bb", {"ab"}, {}},
      {"a\\bb", {}, {"ab"}},
      {"^a$", {"a"}, {}},
      {"a|", {"a", ""}, {"b"}},
      {"()", {""}, {"a"}},
      {"(a*)*", {"aaa", ""}, {"b"}},
      {"[\\]a-]+", {"]a-"}, {"b"}},
      {"[]a]+", {"]a"}, {"b"}},
      {"\303\251+", {"\303\251\303\251"}, {"e"}},
      {"[\320\260-\321\217]+", {"\320\274\320\270\321\200"}, {"mir"}},
      {"\\x41\\t\\.", {"A\011."}, {"A\011,"}},
      {"(?:ab){2}", {"abab"}, {"ab"}},
      {"a+?b*?", {"aab"}, {"b"}},
      {"(?P<n>x)y", {"xy"}, {}},
      {"((a|b)*c|(a|ba)*)*", {"ababcba", "abac"}, {"abx"}},
  };
  for (const Row& r : rows) {
    CAPTURE(r.pattern);
    const Regex regex(r.pattern);
    for (const std::string& text : r.yes) {
      CAPTURE(text);
      CHECK(regex.MatchesAll(text));
    }
    for (const std::string& text : r.no) {
      CAPTURE(text);
      CHECK_FALSE(regex.MatchesAll(text));
    }
  }
}

TEST_CASE("what RE2 has besides: quotes, classes by name, end of text") {
  CHECK(Regex("\\Qa.b\\E+").MatchesAll("a.bbb"));
  CHECK_FALSE(Regex("\\Qa.b\\E").MatchesAll("axb"));
  CHECK(Regex("[[:alpha:][:^digit:]]+").MatchesAll("ab!"));
  CHECK_FALSE(Regex("[[:upper:]]+").MatchesAll("aB"));
  CHECK(Regex("\\Aa\\z").MatchesAll("a"));
  CHECK(Regex("(?m)a$\n^b").MatchesAll("a\nb"));
  CHECK_FALSE(Regex("a$\n^b").MatchesAll("a\nb"));
  CHECK(Regex(".").MatchesAll("\xff"));  // a byte that is no UTF-8 is one code point
}

TEST_CASE("what is no pattern, or too large a one, is refused") {
  for (const char* bad : {"(a", "a)", "[a", "*a", "a**", "a{2,1}", "a{1001}", "\\", "\\y", "[b-a]",
                          "[[:nope:]]", "(?z)a", "(?P<n", "\\x{110000}", "(?i"}) {
    CAPTURE(bad);
    CHECK(CodeOf([&] { Regex{bad}; }) == ErrorCode::kBadAttribute);
  }
  CHECK(CodeOf([] { Regex("\\pN"); }) == ErrorCode::kUnsupported);
  CHECK(CodeOf([] { Regex("((a{100}){100}){100}"); }) == ErrorCode::kLimit);
  CHECK(CodeOf([] { Regex(std::string(100000, '(')); }) == ErrorCode::kLimit);
  CHECK(Regex("((((){1000}){1000}){1000}){1000}").MatchesAll(""));
}

TEST_CASE("time is linear where backtracking would double it with every letter") {
  const std::string a(20000, 'a');
  CHECK_FALSE(Regex("(a|aa)+b").MatchesAll(a));
  CHECK(Regex("(a*)*(a*)*(a*)*").MatchesAll(a));
}

}  // namespace weft::ops
