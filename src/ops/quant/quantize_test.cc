/// quantize_test.cc: scales and zeros that are no numbers to quantise with are errors that say
/// where.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft::ops {
namespace {

/// The error of a node with this scale and zero; kInternal: there is none.
struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
};
Refusal RefusalOf(const std::string& op, const std::string& x, const std::string& scale,
                  const std::string& zero) {
  const Graph g = ParseGraph(fmt::format(R"(weft 1
graph (%x: {}) -> (%y) {{
  %s = Constant() {{value = tensor {}}} : ?
  %z = Constant() {{value = tensor {}}} : ?
  %y = {}(%x, %s, %z) : ?
}}
)",
                                         x, scale, zero, op));
  try {
    ApplyPasses(g, "InferType,InferShape");
  } catch (const Error& e) {
    return {e.code(), e.place() + e.message() + e.hint()};
  }
  return {};
}

TEST_CASE(
    "a scale that is not finite, or that nothing can be divided by, is an error with its place") {
  const auto refusal = [](bool quantises, const char* scale) {
    const std::string scales = fmt::format("f32[3] [0.5, {}, 1.0]", scale);
    return quantises ? RefusalOf("QuantizeLinear", "f32[2, 3]", scales, "u8[3] [1, 2, 3]")
                     : RefusalOf("DequantizeLinear", "u8[2, 3]", scales, "u8[3] [1, 2, 3]");
  };
  for (const char* scale : {"0.0", "-0.5", "nan", "inf", "-inf"})
    for (const bool quantises : {false, true}) {
      CAPTURE(scale);
      const Refusal r = refusal(quantises, scale);
      // Multiplied by zero and by numbers below it, codes are what ONNX says.
      if (!quantises && std::string(scale).find_first_of("ni") == std::string::npos) {
        CHECK(r.code == ErrorCode::kInternal);
        continue;
      }
      CHECK(r.code == ErrorCode::kInvalidModel);
      CHECK(r.text.find("at index 1") != std::string::npos);
      CHECK(r.text.find("quantise the model again") != std::string::npos);
    }
  CHECK(RefusalOf("QuantizeLinear", "f32[2]", "f32[] [1e-38]", "u8[] [1]").code ==
        ErrorCode::kInternal);
}

TEST_CASE("a zero point of another dtype than what it belongs to is an error") {
  CHECK(RefusalOf("DequantizeLinear", "u8[2]", "f32[] [0.5]", "i8[] [1]").code ==
        ErrorCode::kTypeMismatch);
  CHECK(RefusalOf("DequantizeLinear", "i8[2]", "f32[] [0.5]", "i8[] [1]").code ==
        ErrorCode::kInternal);
}

}  // namespace
}  // namespace weft::ops
