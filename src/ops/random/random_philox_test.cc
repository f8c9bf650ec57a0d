/// random_philox_test.cc: weft::RandomUniform, weft::RandomNormal, weft::RandomState against Philox
/// written out here, and against the moments of their distributions.
#include <cstdint>

#include "ops/util/op_test_util.h"

using namespace weft;
using namespace weft::ops;

namespace {

/// Philox4x32-10 with counter (lo, hi, 0, 0): the first word.
uint32_t Philox(uint64_t key, uint64_t counter) {
  uint32_t c[4] = {uint32_t(counter), uint32_t(counter >> 32), 0, 0};
  uint32_t k[2] = {uint32_t(key), uint32_t(key >> 32)};
  for (int r = 0; r < 10; ++r) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b),
                              uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c[0];
}
uint64_t Pair(uint64_t key, uint64_t at) {
  return Philox(key, 2 * at) | uint64_t{Philox(key, 2 * at + 1)} << 32;
}
uint64_t Key(int64_t seed, int64_t step, int64_t stream) {
  return Pair(Pair(uint64_t(seed), uint64_t(step)), uint64_t(stream));
}

TensorPtr State(int64_t seed, int64_t step) { return Tensor::Ints({seed, step}); }
TensorPtr Draw(const char* op, const TensorPtr& state, AttrDict attrs, bool typed = true) {
  return RunOp(op, {nullptr, state}, std::move(attrs), typed)[0];
}

}  // namespace

TEST_CASE("RandomUniform: the bits of Philox, by seed, step, stream and position") {
  // Known answers of the generator itself: all zeros, from the reference implementation's test
  // vectors.
  CHECK(Philox(0, 0) == 0x6627e8d5u);
  for (int64_t seed : {int64_t{0}, int64_t{-3}, INT64_MAX})
    for (int64_t step : {int64_t{0}, int64_t{1} << 40})
      for (int64_t stream : {0, 7}) {
        const uint64_t key = Key(seed, step, stream);
        const TensorPtr f = Draw("weft::RandomUniform", State(seed, step),
                                 {{"shape", Ints{3, 4}}, {"stream", stream}});
        const TensorPtr d =
            Draw("weft::RandomUniform", State(seed, step),
                 {{"shape", Ints{3, 4}}, {"stream", stream}, {"dtype", DType::kF64}});
        CHECK(f->dtype() == DType::kF32);
        for (int64_t i = 0; i < 12; ++i) {
          CHECK(f->at(i) == double(Philox(key, uint64_t(i)) >> 8) / (1 << 24));
          const double bits = double(Philox(key, uint64_t(2 * i)) >> 5) * (1 << 26) +
                              double(Philox(key, uint64_t(2 * i + 1)) >> 6);
          CHECK(d->at(i) == std::ldexp(bits, -53));
        }
      }
}

TEST_CASE("RandomUniform: shape of another tensor, dtypes, range") {
  const TensorPtr like = T(DType::kI32, {2, 3}, {0, 0, 0, 0, 0, 0});
  const TensorPtr a = RunOp("weft::RandomUniform", {like, State(5, 2)})[0];
  const TensorPtr b = Draw("weft::RandomUniform", State(5, 2), {{"shape", Ints{2, 3}}});
  CHECK(a->dims() == like->dims());
  CHECK(Values(*a) == Values(*b));
  CHECK(Draw("weft::RandomUniform", State(5, 2), {})->dims().empty());
  CHECK(Draw("weft::RandomUniform", State(5, 2), {{"shape", Ints{0, 3}}})->num_elements() == 0);
  for (DType t : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const TensorPtr u =
        Draw("weft::RandomUniform", State(1, 1), {{"shape", Ints{4096}}, {"dtype", t}});
    CHECK(u->dtype() == t);
    for (double v : Values(*u)) REQUIRE((v >= 0 && v < 1));
    // Where one step of the dtype is as wide as the range, rounding must not reach the bound.
    const TensorPtr narrow =
        Draw("weft::RandomUniform", State(1, 1),
             {{"shape", Ints{4096}}, {"dtype", t}, {"low", 1000.0}, {"high", 1001.0}});
    for (double v : Values(*narrow)) REQUIRE((v >= 1000 && v < 1001));
  }
  CHECK(CodeOf([&] { Draw("weft::RandomUniform", F32({1, 2}), {}); }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] { Draw("weft::RandomUniform", Tensor::Ints({1}), {}); }) ==
        ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          Draw("weft::RandomUniform", State(1, 1), {{"dtype", DType::kI32}});
        }) == ErrorCode::kTypeMismatch);
}

TEST_CASE("RandomUniform: moments, streams without correlation") {
  constexpr int64_t kCount = 1 << 16;
  const AttrDict shape{{"shape", Ints{kCount}}};
  const auto stream = [&](int64_t k, int64_t step) {
    AttrDict attrs = shape;
    attrs["stream"] = k;
    return Draw("weft::RandomUniform", State(11, step), attrs);
  };
  const TensorPtr a = stream(0, 0);
  double mean = 0, square = 0, next = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double d = a->at(i) - 0.5;
    mean += d / kCount;
    square += d * d / kCount;
    next += d * (a->at((i + 1) % kCount) - 0.5) / kCount;
  }
  const double sigma = std::sqrt(1.0 / 12 / kCount);
  CHECK(std::fabs(mean) < 5 * sigma);
  CHECK(square == doctest::Approx(1.0 / 12).epsilon(0.02));
  CHECK(std::fabs(next) < 5.0 / 12 / std::sqrt(double(kCount)));
  for (const TensorPtr& b : {stream(1, 0), stream(0, 1), stream(1, 1)}) {
    double cross = 0;
    for (int64_t i = 0; i < kCount; ++i) cross += (a->at(i) - 0.5) * (b->at(i) - 0.5) / kCount;
    CHECK(std::fabs(cross) < 5.0 / 12 / std::sqrt(double(kCount)));
  }
}

TEST_CASE("RandomNormal: Box-Muller of the bits, moments, tails") {
  constexpr int64_t kCount = 1 << 16;
  const uint64_t key = Key(9, 4, 2);
  const AttrDict attrs{{"shape", Ints{kCount}}, {"stream", 2}};
  const TensorPtr f = Draw("weft::RandomNormal", State(9, 4), attrs);
  AttrDict wide = attrs;
  wide["dtype"] = DType::kF64;
  const TensorPtr d = Draw("weft::RandomNormal", State(9, 4), wide);
  double mean = 0, square = 0, cube = 0, fourth = 0, worst = 0, worst_wide = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double u = (double(Philox(key, uint64_t(2 * i)) >> 8) + 1) / (1 << 24);
    const double v = double(Philox(key, uint64_t(2 * i + 1)) >> 8) / (1 << 24);
    worst =
        std::max(worst, std::fabs(f->at(i) - std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v)));
    const auto bits = [&](int64_t at) {
      return std::ldexp(double(Philox(key, uint64_t(at)) >> 5) * (1 << 26) +
                            double(Philox(key, uint64_t(at + 1)) >> 6),
                        -53);
    };
    worst_wide =
        std::max(worst_wide, std::fabs(d->at(i) - std::sqrt(-2 * std::log(1 - bits(4 * i))) *
                                                      std::cos(2 * M_PI * bits(4 * i + 2))));
    const double z = f->at(i);
    REQUIRE(std::fabs(z) < 5.8);
    mean += z / kCount, square += z * z / kCount;
    cube += z * z * z / kCount, fourth += z * z * z * z / kCount;
  }
  CHECK(worst <= 1e-6);
  CHECK(worst_wide <= 1e-14);
  const double root = std::sqrt(double(kCount));
  CHECK(std::fabs(mean) < 5 / root);
  CHECK(std::fabs(square - 1) < 5 * std::sqrt(2.0) / root);
  CHECK(std::fabs(cube) < 5 * std::sqrt(15.0) / root);
  CHECK(std::fabs(fourth - 3) < 5 * std::sqrt(96.0) / root);
  AttrDict moved = attrs;
  moved["mean"] = 3.0;
  moved["scale"] = 0.5;
  const TensorPtr y = Draw("weft::RandomNormal", State(9, 4), moved);
  for (int64_t i = 0; i < 100; ++i)
    CHECK(y->at(i) == doctest::Approx(3 + 0.5 * f->at(i)).epsilon(1e-6));
}

TEST_CASE("RandomState: another one in every run") {
  Graph g;
  const NodePtr n = g.AddNode("weft::RandomState", {});
  g.outputs = std::vector<NodeEntry>{NodeEntry(n)};
  const Tensors a = Reference().Eval(g, {}), b = Reference().Eval(g, {});
  CHECK(a[0]->dims() == std::vector<int64_t>{2});
  CHECK(a[0]->at_int(0) != b[0]->at_int(0));
  // Two of them are two: nothing merges or folds them.
  const NodePtr m = g.AddNode("weft::RandomState", {});
  g.outputs = std::vector<NodeEntry>{NodeEntry(n), NodeEntry(m)};
  const Graph h = ApplyPasses(g, "Simplify,FoldConstants");
  const Tensors c = Reference().Eval(h, {});
  CHECK(c[0]->at_int(0) != c[1]->at_int(0));
}
