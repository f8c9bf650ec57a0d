/// error_test.cc: what the parser of the text form refuses, and how it says so. The operators and
/// attributes in these texts are registered in text_test.cc.
#include "weft/support/error.h"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

#include "weft/core/text/text.h"

namespace weft {
namespace {

/// What parsing `text` throws.
std::string Problem(const std::string& text, ErrorCode code) {
  try {
    ParseGraph(text, "t.weft");
  } catch (const UserError& e) {
    CHECK_MESSAGE(e.code() == code, e.what());
    return e.what();
  }
  return "nothing was thrown";
}
bool Has(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }

TEST_CASE("errors say where, what was expected, and what may have been meant") {
  const auto body = [](const std::string& line) {
    return "weft 1\ngraph (%x: f32[2]) -> () {\n  " + line + "\n}\n";
  };
  const std::string unknown = Problem(body("%a = TextAmy(%x) : ?"), ErrorCode::kUnknownOp);
  CHECK(Has(unknown, "t.weft:3:8"));
  CHECK(Has(unknown, "did you mean 'TextAny'"));
  CHECK(Has(unknown, "  %a = TextAmy(%x) : ?\n         ^"));
  CHECK(Has(Problem(body("%a = TextAny(%y) : ?"), ErrorCode::kInvalidModel),
            "%y is not defined before this place"));
  CHECK(Has(Problem(body("%x = TextAny() : ?"), ErrorCode::kInvalidModel), "defined twice"));
  CHECK(
      Has(Problem(body("%a = TextAny(%x:1) : ?"), ErrorCode::kInvalidModel), "%x has no output 1"));
  CHECK(
      Has(Problem(body("%a = TextSplit(%x) : ?, ?"), ErrorCode::kArity), "has 2 outputs, 1 names"));
  CHECK(Has(Problem(body("%a = TextSplit() : ?"), ErrorCode::kArity), "t.weft:3:3"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : ?, ?"), ErrorCode::kSyntax), "2 types for 1 outputs"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : f33[2]"), ErrorCode::kSyntax), "did you mean 'f32'"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : f32"), ErrorCode::kSyntax), "'[' or '?'"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : f32[2"), ErrorCode::kSyntax), "not closed"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : f32[n n]"), ErrorCode::kSyntax), "t.weft:3"));
  CHECK(
      Has(Problem(body("%a = TextAny(%x) {a = 1, a = 2} : ?"), ErrorCode::kSyntax), "given twice"));
  CHECK(
      Has(Problem(body("%a = TextAny(%x) {a = [1, \"b\"]} : ?"), ErrorCode::kSyntax), "not both"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = 99999999999999999999} : ?"), ErrorCode::kSyntax),
            "not a 64-bit number"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = yes} : ?"), ErrorCode::kSyntax),
            "'yes' is not a value"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = tensor f32[3] [1.0]} : ?"), ErrorCode::kSyntax),
            "expected 3 elements, got 1"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = tensor i8[1] [300]} : ?"), ErrorCode::kSyntax),
            "out of the range of i8"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = tensor f32[n] [1.0]} : ?"), ErrorCode::kSyntax),
            "integer dimensions"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = tensor f32[1000000, 1000000] #hex=00} : ?"),
                    ErrorCode::kSyntax),
            "bytes"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = \"b} : ?"), ErrorCode::kSyntax), "not closed"));
  CHECK(Has(Problem(body("%a = TextAny(%x) {a = \"\\q\"} : ?"), ErrorCode::kSyntax), "escape"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : ? #text_level = high"), ErrorCode::kSyntax),
            "'high' is not a value of 'text_level'"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : ? #text_lebel = 1"), ErrorCode::kSyntax),
            "did you mean 'text_level'"));
  CHECK(
      Has(Problem(body("%a = TextAny(%x) : ? #text_peak = 1"), ErrorCode::kSyntax), "whole graph"));
  CHECK(Has(Problem(body("%a = TextAny(%x) : ? #text_layout:1 = 1"), ErrorCode::kSyntax),
            "no output 1"));
  CHECK(Has(Problem("weft 1 graph () -> (%y) {}", ErrorCode::kInvalidModel), "%y"));
  CHECK(Has(Problem("weft 1 graph () -> (_) {}", ErrorCode::kInvalidModel),
            "an output cannot be absent"));
  CHECK(Has(Problem("weft 2 graph () -> () {}", ErrorCode::kSyntax), "version 2"));
  CHECK(Has(Problem("weft 1 graph () -> () {} x", ErrorCode::kSyntax),
            "expected the end of the text"));
  CHECK(Has(Problem("", ErrorCode::kSyntax), "expected 'weft 1', got the end of the text"));
  CHECK(Has(Problem("weft 1 graph () -> () {}\n#text_level = 1", ErrorCode::kSyntax),
            "attribute of nodes"));
  std::string deep = "weft 1 graph () -> () ";
  for (int i = 0; i < 1000; ++i) deep += "{ %0 = TextAny() {g = graph () -> () ";
  CHECK(Has(Problem(deep, ErrorCode::kLimit), "nested deeper"));
}

}  // namespace
}  // namespace weft
