/// half_call_test.cc: the conversions against those of core, for every half and around every
/// middle of two; calls of f16 and bf16 against the definition in double precision; and that
/// programs with dimensions that only the run knows compile nothing while they run.
#include "half_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/util/call_test_util.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

TEST_CASE("halves: widened exactly, wherever a loop begins and ends") {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    std::vector<uint16_t> halves(65536);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = uint16_t(i);
    std::vector<float> got(halves.size());
    WidenHalves(t, halves.data(), got.data(), 0, 65536);
    for (size_t i = 0; i < halves.size(); ++i) {
      const float want = WidenFloat(t, uint32_t(i));
      if (std::isnan(want))
        REQUIRE(std::isnan(got[i]));
      else
        REQUIRE(std::memcmp(&want, &got[i], sizeof want) == 0);
    }
    for (int64_t first = 0; first < 3; ++first)
      for (int64_t last = first; last < first + 37; ++last) {
        std::vector<float> part(48, -1);
        WidenHalves(t, halves.data() + 100, part.data(), first, last);
        for (int64_t i = 0; i < 48; ++i) {
          const bool inside = i >= first && i < last;
          REQUIRE(part[size_t(i)] == (inside ? WidenFloat(t, uint32_t(100 + i)) : -1));
        }
      }
  }
}

TEST_CASE("halves: rounded to the nearest, ties to the even one") {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    const int gap = t == DType::kF16 ? 13 : 16;
    std::vector<float> v{NAN,  -NAN,  INFINITY, -INFINITY, 0.f,
                         -0.f, 1e30f, -1e30f,   65519.f,   65520.f};
    // Every half, the middle behind it, and the floats on both sides of that.
    for (uint32_t i = 0; i < 65536; ++i) {
      const float half = WidenFloat(t, i);
      if (!std::isfinite(half)) continue;
      uint32_t bits;
      std::memcpy(&bits, &half, sizeof bits);
      for (const uint32_t more : {0u, 1u, (1u << (gap - 1)) - 1, 1u << (gap - 1),
                                  (1u << (gap - 1)) + 1, (1u << gap) - 1}) {
        const uint32_t near = bits + more;
        float f;
        std::memcpy(&f, &near, sizeof f);
        v.push_back(f);
      }
    }
    std::vector<uint16_t> got(v.size());
    RoundToHalves(t, v.data(), got.data(), 0, int64_t(v.size()));
    for (size_t i = 0; i < v.size(); ++i) {
      CAPTURE(v[i]);
      if (std::isnan(v[i]))
        REQUIRE(std::isnan(WidenFloat(t, got[i])));
      else
        REQUIRE(got[i] == uint16_t(NarrowFloat(t, v[i])));
    }
  }
}

/// The program of `body` at several bindings, against the evaluator in double precision over the
/// same halves. `tolerance` in units of the last place of the type, for the largest result.
void Check(const std::string& text, const std::vector<SymBindings>& binds, double tolerance = 2) {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    std::string typed = "weft 1\n" + text;
    for (size_t at; (at = typed.find("half[")) != std::string::npos;)
      typed.replace(at, 4, DTypeName(t));
    CAPTURE(typed);
    CompileOptions ref;
    ref.backend = "ref";
    const auto program = Compile(ParseGraph(typed)), want = Compile(ParseGraph(typed), ref);
    Session session(program), reference(want);
    const CompileCounts before = CountCompiled();
    for (const SymBindings& bind : binds) {
      const auto inputs = RandomProgramInputs(*program, 3, bind);
      const auto got = session.Run(inputs);
      const auto wanted = reference.Run(inputs);
      for (size_t k = 0; k < got.size(); ++k) {
        REQUIRE(got[k]->dims() == wanted[k]->dims());
        double largest = 1e-3, worst = 0;
        for (int64_t i = 0; i < got[k]->num_elements(); ++i) {
          largest = std::max(largest, std::abs(wanted[k]->at(i)));
          worst = std::max(worst, std::abs(got[k]->at(i) - wanted[k]->at(i)));
        }
        CHECK(worst <= tolerance * 2 * LimitsOf(t).roundoff * largest);
      }
    }
    CHECK(CountCompiled().programs == before.programs);
    CHECK(CountCompiled().kernels == before.kernels);
    CHECK(program->stats().interpreted == 0);
  }
}

TEST_CASE("halves: nothing is compiled for a size that only the run knows") {
  Check(
      "graph (%a: half[m, k], %b: half[k, 9], %c: half[9]) -> (%y, %z) {\n"
      "  %p = MatMul(%a, %b) : ?\n  %s = Add(%p, %c) : ?\n  %y = Relu(%s) : ?\n"
      "  %z = Gemm(%a, %b, %c) {alpha = 0.5} : ?\n}",
      {{{"m", 3}, {"k", 5}},
       {{"m", 17}, {"k", 40}},
       {{"m", 1}, {"k", 33}},
       {{"m", 0}, {"k", 4}},
       {{"m", 2}, {"k", 0}}});
  Check(
      "graph (%x: half[n, 3, h, h], %w: half[4, 3, 3, 3]) -> (%y, %z) {\n"
      "  %c = Conv(%x, %w) {pads = [1, 1, 1, 1]} : ?\n  %y = Relu(%c) : ?\n"
      "  %z, %i = MaxPool(%c) {kernel_shape = [2, 2]} : ?, ?\n}",
      {{{"n", 1}, {"h", 8}}, {{"n", 3}, {"h", 5}}});
  Check(
      "graph (%q: half[2, s, 8], %k: half[2, t, 8], %v: half[2, t, 8]) -> (%y) {\n"
      "  %kt = Transpose(%k) {perm = [0, 2, 1]} : ?\n  %p = MatMul(%q, %kt) : ?\n"
      "  %w = Softmax(%p) {axis = -1} : ?\n  %y = MatMul(%w, %v) : ?\n}",
      {{{"s", 1}, {"t", 7}}, {{"s", 4}, {"t", 12}}}, 4);
}

TEST_CASE("halves: calls that share a constant widen it once, and other types stay refused") {
  const auto half = [](const Ns& dims, uint32_t seed) {
    const auto from = RandomTensor(dims, seed);
    auto t = std::make_shared<Tensor>(DType::kF16, dims);
    for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, from->at(i));
    return t;
  };
  for (const bool constant : {false, true})
    for (const int64_t m : {1, 2, 33}) {
      const auto a = half({m, 70}, 1), b = half({70, 40}, 2);
      Case c("MatMul", {a, b}, {}, {m, 40}, {false, constant});
      c.request.output_types = {DType::kF16};
      const auto first = c.Make(), second = c.Make();
      REQUIRE(first != nullptr);
      REQUIRE(second != nullptr);
      for (const auto* call : {&first, &second}) {
        auto y = std::make_shared<Tensor>(DType::kF16, Ns{m, 40});
        const void* in[] = {a->data(), b->data()};
        void* out[] = {y->mutable_data()};
        const size_t bytes = size_t(CheckedRoundUp((*call)->scratch_bytes() + 64, 64));
        std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes), std::free);
        (*call)->Run(in, out, scratch.get());
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < 40; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < 70; ++k) sum += a->at(i * 70 + k) * b->at(k * 40 + j);
            CHECK(std::abs(y->at(i * 40 + j) - sum) <= 0x1p-11 * std::abs(sum) + 1e-5);
          }
      }
    }
  Case doubles("MatMul", {half({2, 2}, 1), half({2, 2}, 2)}, {}, {2, 2});
  doubles.request.output_types = {DType::kF64};
  CHECK(doubles.Make() == nullptr);
}

}  // namespace
}  // namespace weft::cpu
