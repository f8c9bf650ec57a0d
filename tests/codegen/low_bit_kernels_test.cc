/// low_bit_kernels_test.cc: numbers of few bits in generated kernels, against the operators' own
/// conversions on the host: all codes, sizes that end inside of a byte, symbolic sizes, blocks.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/support/e2e_util.h"

namespace {

using namespace weft;

constexpr DType kLowBits[] = {
    DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kF8E8M0,
    DType::kF4E2M1,   DType::kI4,         DType::kU4,     DType::kI2,         DType::kU2};

std::string NameOf(DType t) { return std::string(DTypeName(t)); }

/// Results of the program, all of whose steps are kernels; and those of the host.
struct Both {
  std::vector<TensorPtr> kernels, host;
};
Both RunBoth(const std::string& text, const std::vector<TensorPtr>& inputs) {
  const Graph graph = e2e::FromText(text);
  CompileOptions options;
  options.backend = "cpu";
  const auto program = Compile(graph, options);
  INFO(text);
  CHECK(program->stats().interpreted == 0);
  CHECK(program->stats().kernels > 0);
  return {Session(program).Run(inputs), GetEvaluator()->Eval(graph, inputs)};
}
void CheckSame(const std::string& text, const std::vector<TensorPtr>& inputs) {
  const Both b = RunBoth(text, inputs);
  REQUIRE(b.kernels.size() == b.host.size());
  for (size_t k = 0; k < b.host.size(); ++k) {
    const Tensor &got = *b.kernels[k], &want = *b.host[k];
    REQUIRE(got.dtype() == want.dtype());
    REQUIRE(got.dims() == want.dims());
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      CAPTURE(i);
      CAPTURE(got.at(i));
      CAPTURE(want.at(i));
      CHECK((got.at(i) == want.at(i) || (std::isnan(got.at(i)) && std::isnan(want.at(i)))));
    }
  }
}

/// Numbers of all sizes, halves and neighbours among them, NaN, infinities.
TensorPtr Numbers(DType t, std::vector<int64_t> dims) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  const double special[] = {0,     -0.0,  0.5, -0.5, 1.5,  2.5, -7.5, 7.49, 448,   464,     465,
                            57344, 61440, 1e9, -1e9, 1e-9, 6,   5,    240,  1e-40, 5.9e-39, 3e38};
  for (int64_t i = 0; i < x->num_elements(); ++i) {
    if (i < int64_t(std::size(special)))
      x->set(i, special[i]);
    else
      x->set(i, std::ldexp(std::sin(double(i) * 1.7), int(i * 7 % 24) - 12));
  }
  if (IsFloat(t) && x->num_elements() > 30) {
    x->set(27, NAN);
    x->set(28, HUGE_VAL);
    x->set(29, -HUGE_VAL);
  }
  return x;
}
/// Every code in turn.
TensorPtr Codes(DType t, std::vector<int64_t> dims) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  auto* bytes = x->mutable_data_as<uint8_t>();
  for (int64_t i = 0; i < x->num_bytes(); ++i) bytes[i] = uint8_t(i);
  return x;
}

}  // namespace

TEST_CASE(
    "casts to numbers of few bits are kernels, equal to the host's, at every size of a rest") {
  for (const DType t : kLowBits) {
    for (const char* attrs : {"", ", saturate = 0"}) {
      for (const int64_t n : {1, 2, 3, 5, 64, 99}) {
        CAPTURE(n);
        const std::string size = std::to_string(n);
        CheckSame("graph @g(%x: f32[" + size + "]) -> (%y) {\n  %y = Cast(%x) {to = " + NameOf(t) +
                      attrs + "} : ?\n}",
                  {Numbers(DType::kF32, {n})});
      }
    }
    for (const char* from : {"f16", "bf16", "i8", "u8", "i32", "bool"}) {
      const DType f = *ParseDType(from);
      if (t == DType::kF8E8M0 && f == DType::kI32) continue;  // f32 does not hold it: the host's
      CheckSame("graph @g(%x: " + std::string(from) +
                    "[n, 7]) -> (%y) {\n  %y = Cast(%x) {to = " + NameOf(t) + "} : ?\n}",
                {Numbers(f, {9, 7})});
    }
  }
  for (const char* mode : {"up", "down", "nearest"})
    for (const char* saturate : {"0", "1"})
      CheckSame(std::string("graph @g(%x: f32[n]) -> (%y) {\n  %y = Cast(%x) {to = f8e8m0, "
                            "round_mode = \"") +
                    mode + "\", saturate = " + saturate + "} : ?\n}",
                {Numbers(DType::kF32, {200})});
}

TEST_CASE("casts from numbers of few bits are kernels, equal to the host's for every code") {
  for (const DType t : kLowBits)
    for (const char* to : {"f32", "f64", "f16", "i32", "u8", "bool", "f8e5m2", "i4"})
      if (to != NameOf(t))
        CheckSame("graph @g(%x: " + NameOf(t) + "[n, 3]) -> (%y) {\n  %y = Cast(%x) {to = " + to +
                      "} : ?\n}",
                  {Codes(t, {171, 3})});
}

TEST_CASE("quantizing to few bits and back is one kernel or two, with what stands around it") {
  for (const DType t : kLowBits) {
    if (t == DType::kF8E8M0) continue;
    const std::string type = NameOf(t);
    CheckSame(
        "graph @g(%x: f32[n, 5], %s: f32[5]) -> (%q, %y) {\n  %r = Neg(%x) : ?\n"
        "  %q = QuantizeLinear(%r, %s) {axis = 1, output_dtype = " +
            type + "} : ?\n  %d = DequantizeLinear(%q, %s) {axis = 1} : ?\n  %y = Abs(%d) : ?\n}",
        {Numbers(DType::kF32, {13, 5}),
         Tensor::FromDoubles(DType::kF32, {5}, {0.5, 1, 2, 0.125, 3})});
    CheckSame("graph @g(%w: " + type +
                  "[4, 6], %s: f32[4, 2]) -> (%y) {\n  %y = DequantizeLinear(%w, %s) {axis = 1, "
                  "block_size = 3} : ?\n}",
              {Codes(t, {4, 6}),
               Tensor::FromDoubles(DType::kF32, {4, 2}, {0.5, 1, 2, 0.125, 3, 4, 5, 6})});
  }
}

TEST_CASE("random values are drawn for numbers of few bits, and not for sequences") {
  for (const DType t : kLowBits) {
    CAPTURE(DTypeName(t));
    const Graph g = e2e::FromText("graph @g(%x: " + NameOf(t) +
                                  "[64]) -> (%y) {\n  %y = Cast(%x) {to = f32} : ?\n}");
    const TensorPtr x = MakeRandomInputs(g, 1, {}).tensors.at(0);
    REQUIRE(x->dtype() == t);
    bool differ = false;
    for (int64_t i = 1; i < 64; ++i) differ = differ || x->at(i) != x->at(0);
    CHECK(differ);
  }
  const Graph g =
      e2e::FromText("graph @g(%s: seq(f32)) -> (%y) {\n  %y = SequenceLength(%s) : ?\n}");
  CHECK(e2e::Catch([&] { MakeRandomInputs(g, 1, {}); })->code == ErrorCode::kUnsupported);
}
