/// quantize_test.cc: scales and zeros that are no numbers to quantise with are errors that say
/// where.
#include <doctest/doctest.h>

#include <cmath>

#include "weft/core/pass/pass.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/error.h"

namespace weft::ops {
namespace {

/// The error of a node with this scale and zero; kInternal: there is none.
struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
};
Refusal RefusalOf(const std::string& op, DType x, const std::vector<double>& scales, DType zero) {
  const int64_t n = int64_t(scales.size());
  Graph g;
  const NodePtr s = g.AddParam("s", Tensor::FromDoubles(DType::kF32, {n}, scales));
  const NodePtr z =
      g.AddParam("z", Tensor::FromDoubles(zero, {n}, std::vector<double>(scales.size(), 1)));
  g.outputs = {NodeEntry(g.AddNode(op, {g.AddInput("x", x, {2, n}), s, z}))};
  try {
    ApplyPasses(g, "InferType,InferShape");
  } catch (const Error& e) {
    return {e.code(), e.place() + e.message() + e.hint()};
  }
  return {};
}

TEST_CASE("a scale that is not finite, or that a quantiser has below zero, is an error") {
  for (const double scale : {0.0, -0.5, double(NAN), double(INFINITY), -double(INFINITY)})
    for (const bool quantises : {false, true}) {
      CAPTURE(scale);
      CAPTURE(quantises);
      const Refusal r =
          quantises ? RefusalOf("QuantizeLinear", DType::kF32, {0.5, scale, 1}, DType::kU8)
                    : RefusalOf("DequantizeLinear", DType::kU8, {0.5, scale, 1}, DType::kU8);
      // Results are what ONNX says.
      if (std::isfinite(scale) && (!quantises || scale == 0)) {
        CHECK(r.code == ErrorCode::kInternal);
        continue;
      }
      CHECK(r.code == ErrorCode::kInvalidModel);
      CHECK(r.text.find("at index 1") != std::string::npos);
      CHECK(r.text.find("quantise the model again") != std::string::npos);
    }
  CHECK(RefusalOf("QuantizeLinear", DType::kF32, {1e-38}, DType::kU8).code == ErrorCode::kInternal);
}

TEST_CASE("a zero point of another dtype than what it belongs to is an error") {
  CHECK(RefusalOf("DequantizeLinear", DType::kU8, {0.5}, DType::kI8).code ==
        ErrorCode::kTypeMismatch);
  CHECK(RefusalOf("DequantizeLinear", DType::kI8, {0.5}, DType::kI8).code == ErrorCode::kInternal);
}

}  // namespace
}  // namespace weft::ops
