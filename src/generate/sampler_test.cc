/// sampler_test.cc: which tokens are drawn, and how often.
#include "weft/generate/sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "weft/support/error.h"

namespace weft {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingOptions With(double temperature, int64_t top_k = 0, double top_p = 1, uint64_t seed = 7) {
  return {temperature, top_k, top_p, seed};
}

/// How often each token comes in `n` draws, against its probability: Pearson's sum.
double ChiSquared(const SamplingOptions& o, const std::vector<float>& logits,
                  const std::vector<double>& probability, int n) {
  Sampler s(o);
  std::vector<int> count(logits.size(), 0);
  for (int i = 0; i < n; ++i) ++count[size_t(s.Next(logits.data(), int64_t(logits.size())))];
  double sum = 0;
  for (size_t t = 0; t < logits.size(); ++t) {
    const double want = probability[t] * n;
    if (want == 0) {
      CHECK(count[t] == 0);
      continue;
    }
    sum += (count[t] - want) * (count[t] - want) / want;
  }
  return sum;
}

std::vector<double> Softmax(const std::vector<float>& logits, double temperature,
                            const std::set<size_t>& kept) {
  std::vector<double> p(logits.size(), 0);
  double sum = 0;
  for (const size_t t : kept) sum += p[t] = std::exp(logits[t] / temperature);
  for (double& x : p) x /= sum;
  return p;
}

TEST_CASE("greedy: the highest, of equal ones the first") {
  Sampler s(With(0));
  const std::vector<float> logits{1, 3, 3, -kInf};
  CHECK(s.Next(logits.data(), 4) == 1);
  Sampler one(With(1.5, 1));
  CHECK(one.Next(logits.data(), 4) == 1);
}

TEST_CASE("draws have the probabilities of the soft-max") {
  const std::vector<float> logits{0.5f, 2, 1, -1, 0, -kInf, 1.5f};
  const std::set<size_t> all{0, 1, 2, 3, 4, 6};
  // Of 5 degrees of freedom 20.5 is passed once in a thousand; of 2, 13.8; of 3, 16.3.
  for (double t : {0.5, 1.0, 2.0})
    CHECK(ChiSquared(With(t), logits, Softmax(logits, t, all), 20000) < 20.5);
  CHECK(ChiSquared(With(1, 3), logits, Softmax(logits, 1, {1, 2, 6}), 20000) < 13.8);
  // exp: 7.39, 4.48, 2.72, 1.65, 1, 0.37 of 17.61: the first two are 0.674, three 0.828.
  CHECK(ChiSquared(With(1, 0, 0.7), logits, Softmax(logits, 1, {1, 6, 2}), 20000) < 13.8);
  CHECK(ChiSquared(With(1, 0, 0.67), logits, Softmax(logits, 1, {1, 6}), 20000) < 10.9);
  CHECK(ChiSquared(With(1, 4, 0.9), logits, Softmax(logits, 1, {1, 6, 2, 0}), 20000) < 16.3);
}

TEST_CASE("equal seeds draw equal tokens") {
  const std::vector<float> logits{0, 0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<int64_t> drawn[3];
  for (int i = 0; i < 3; ++i) {
    Sampler s(With(1, 0, 1, i == 2 ? 8 : 7));
    for (int k = 0; k < 50; ++k) drawn[i].push_back(s.Next(logits.data(), 5));
  }
  CHECK(drawn[0] == drawn[1]);
  CHECK(drawn[0] != drawn[2]);
}

TEST_CASE("what cannot be drawn from") {
  CHECK_THROWS_AS(Sampler(With(-1)), UserError);
  CHECK_THROWS_AS(Sampler(With(NAN)), UserError);
  CHECK_THROWS_AS(Sampler(With(1, -1)), UserError);
  CHECK_THROWS_AS(Sampler(With(1, 0, 0)), UserError);
  CHECK_THROWS_AS(Sampler(With(1, 0, 1.5)), UserError);
  Sampler s(With(1));
  const std::vector<float> nan{0, NAN}, none{-kInf, -kInf};
  CHECK_THROWS_AS(s.Next(nan.data(), 2), UserError);
  CHECK_THROWS_AS(s.Next(none.data(), 2), UserError);
}

}  // namespace
}  // namespace weft
