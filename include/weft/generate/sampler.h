/// sampler.h: the next token of a text, by the scores that a model gives all of them.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "weft/support/api.h"

namespace weft {

struct SamplingOptions {
  double temperature = 0;  ///< 0: the token of the highest score, of equal ones the first
  int64_t top_k = 0;       ///< only of the k highest; 0: of all
  double top_p = 1;        ///< only of the fewest that together have this probability
  uint64_t seed = 0;       ///< equal seeds draw equal texts
};

class WEFT_API Sampler {
 public:
  /// Throws kUsage for a temperature below 0, a top_k below 0, a top_p outside of (0, 1], and
  /// numbers that are not finite.
  explicit Sampler(const SamplingOptions& options);
  /// Of scores `logits[0, n)`. top_k is applied before top_p, both behind the temperature. Throws
  /// kBadInput where a score is NaN, or none is above -inf.
  int64_t Next(const float* logits, int64_t n);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<std::pair<float, int64_t>> ranked_;
  std::vector<double> weights_;
};

}  // namespace weft
