/// sampler.cc: see sampler.h.
#include "weft/generate/sampler.h"

#include <algorithm>
#include <cmath>

#include "weft/support/check.h"

namespace weft {

Sampler::Sampler(const SamplingOptions& o) : options_(o), random_(o.seed) {
  WEFT_CHECK(o.temperature >= 0 && std::isfinite(o.temperature), kUsage,
             "the temperature is {}, expected a finite number of 0 or more", o.temperature);
  WEFT_CHECK(o.top_k >= 0, kUsage, "top_k is {}, expected 0 (all) or more", o.top_k);
  WEFT_CHECK(o.top_p > 0 && o.top_p <= 1, kUsage, "top_p is {}, expected a number in (0, 1]",
             o.top_p);
}

int64_t Sampler::Next(const float* logits, int64_t n) {
  int64_t best = 0;
  bool is_nan = false;
  for (int64_t i = 0; i < n; ++i) {
    is_nan = is_nan || std::isnan(logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  WEFT_CHECK(!is_nan, kBadInput, "a score that the model gives the next token is NaN");
  WEFT_CHECK(n > 0 && logits[best] > -INFINITY, kBadInput, "the model gives no token a score");
  if (options_.temperature == 0 || options_.top_k == 1 || std::isinf(logits[best])) return best;

  const float most = logits[best];
  const auto weight = [&](float x) { return std::exp((double(x) - most) / options_.temperature); };
  const int64_t k = options_.top_k == 0 ? n : std::min(options_.top_k, n);
  if (k == n && options_.top_p == 1) {
    // Of all: in the order that they stand in.
    weights_.resize(size_t(n));
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += weights_[size_t(i)] = weight(logits[i]);
    double draw = double(random_() >> 11) * 0x1p-53 * sum;
    for (int64_t i = 0; i < n; ++i)
      if ((draw -= weights_[size_t(i)]) < 0) return i;
    return best;
  }
  ranked_.clear();
  for (int64_t i = 0; i < n; ++i) ranked_.emplace_back(logits[i], i);
  const auto higher = [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  weights_.resize(size_t(k));
  double sum = 0;
  // Of all there are many, of which the first few hundred have top_p most often.
  for (int64_t i = 0; k == n && i < n; ++i) sum += weight(logits[i]);
  double ranked_sum = 0;
  int64_t ranked = 0;
  for (int64_t next = k == n ? std::min<int64_t>(256, n) : k; ranked < k;
       next = std::min(2 * next, k)) {
    std::partial_sort(ranked_.begin() + ranked, ranked_.begin() + next, ranked_.end(), higher);
    for (; ranked < next; ++ranked)
      ranked_sum += weights_[size_t(ranked)] = weight(ranked_[size_t(ranked)].first);
    if (k == n && ranked_sum >= options_.top_p * sum) break;
  }
  if (k < n) sum = ranked_sum;
  // The fewest that reach top_p, the last of them included.
  double kept = 0;
  int64_t count = 0;
  while (count < ranked && (count == 0 || kept < options_.top_p * sum))
    kept += weights_[size_t(count++)];
  double draw = double(random_() >> 11) * 0x1p-53 * kept;
  for (int64_t i = 0; i < count; ++i)
    if ((draw -= weights_[size_t(i)]) < 0) return ranked_[size_t(i)].second;
  return ranked_[size_t(count - 1)].second;
}

}  // namespace weft
