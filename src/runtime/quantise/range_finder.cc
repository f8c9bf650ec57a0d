/// range_finder.cc: see range_finder.h.
#include "range_finder.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {

bool RangeFinder::Look(const float* v, int64_t count, int64_t* at) {
  float low = 0, high = 0;
  bool numbers = true;
  for (int64_t i = 0; i < count; ++i) {
    low = v[i] < low ? v[i] : low;
    high = v[i] > high ? v[i] : high;
    numbers &= v[i] == v[i];
  }
  if (!numbers) {
    *at = std::find_if(v, v + count, [](float x) { return std::isnan(x); }) - v;
    return false;
  }
  infinite_ = infinite_ || std::isinf(low) || std::isinf(high);
  low_ = std::min(low_, double(low));
  high_ = std::max(high_, double(high));
  return true;
}

void RangeFinder::Count(const float* v, int64_t count) {
  if (infinite_ || high_ == low_) return;
  bins_.resize(size_t(kBins));
  const double per = 1 / Width();
  for (int64_t i = 0; i < count; ++i) {
    const double bin = (double(v[i]) - low_) * per;
    ++bins_[size_t(std::clamp(int64_t(bin), int64_t{0}, kBins - 1))];
  }
}

ValueRange RangeFinder::Find(RangeMethod method, double percentile) const {
  if (!bins_.empty() && method == RangeMethod::kPercentile) return ByPercentile(percentile);
  if (!bins_.empty() && method == RangeMethod::kEntropy) return ByEntropy();
  if (!bins_.empty() && method == RangeMethod::kMse) return BySquares();
  return {float(low_), float(high_)};
}

/// As many numbers are cut off at both ends.
ValueRange RangeFinder::ByPercentile(double percentile) const {
  double all = 0;
  for (const int64_t n : bins_) all += double(n);
  const double rest = all * (100 - percentile) / 200;
  double below = 0, above = 0;
  int64_t first = 0, last = kBins - 1;
  while (first < last && below + double(bins_[size_t(first)]) <= rest)
    below += double(bins_[size_t(first++)]);
  while (last > first && above + double(bins_[size_t(last)]) <= rest)
    above += double(bins_[size_t(last--)]);
  return {float(std::min(0.0, low_ + double(first) * Width())),
          float(std::max(0.0, low_ + double(last + 1) * Width()))};
}

/// Of distances from 0: P is what is within a threshold, with all beyond it in the last bin; Q is P
/// in 128 levels (256 codes of both signs), spread over the bins that are not empty.
ValueRange RangeFinder::ByEntropy() const {
  constexpr int64_t kLevels = 128;
  const double most = std::max(-low_, high_), width = most / double(kBins);
  std::vector<double> all(size_t(kBins), 0);
  for (int64_t i = 0; i < kBins; ++i) {
    const double middle = std::abs(low_ + (double(i) + 0.5) * Width());
    all[size_t(std::min(kBins - 1, int64_t(middle / width)))] += double(bins_[size_t(i)]);
  }
  // Values of which one in two and more are 0 (behind a Relu) say nothing by their first bin.
  all[0] = all[1];
  double total = 0;
  for (const double n : all) total += n;
  double inside = 0, best = std::numeric_limits<double>::infinity();
  int64_t best_bins = kBins;
  for (int64_t i = 0; i < kLevels; ++i) inside += all[size_t(i)];
  for (int64_t bins = kLevels; bins <= kBins; ++bins) {
    double p_sum = total, q_sum = 0, divergence = 0;
    std::vector<double> q(size_t(bins), 0);
    const auto p_at = [&](int64_t i) {
      return all[size_t(i)] + (i == bins - 1 ? total - inside : 0);
    };
    for (int64_t level = 0; level < kLevels; ++level) {
      const int64_t begin = level * bins / kLevels, end = (level + 1) * bins / kLevels;
      double sum = 0;
      int64_t used = 0;
      for (int64_t i = begin; i < end; ++i) {
        sum += all[size_t(i)];
        used += p_at(i) > 0;
      }
      for (int64_t i = begin; used > 0 && i < end; ++i)
        if (p_at(i) > 0) q[size_t(i)] = sum / double(used);
      q_sum += used > 0 ? sum : 0;
    }
    for (int64_t i = 0; p_sum > 0 && q_sum > 0 && i < bins; ++i) {
      const double p = p_at(i) / p_sum;
      // A bin that Q has nothing in counts as one in ten thousand.
      if (p > 0) divergence += p * std::log(p / std::max(q[size_t(i)] / q_sum, 1e-4 / p_sum));
    }
    if (q_sum > 0 && divergence < best) {
      best = divergence;
      best_bins = bins;
    }
    if (bins < kBins) inside += all[size_t(bins)];
  }
  const double threshold = double(best_bins) * width;
  return {float(std::max(low_, -threshold)), float(std::min(high_, threshold))};
}

double RangeFinder::SquareError(double low, double high) const {
  const double step = (high - low) / 255;
  if (!(step > 0)) return std::numeric_limits<double>::infinity();
  const double zero = std::nearbyint(-low / step);
  double sum = 0;
  for (int64_t i = 0; i < kBins; ++i) {
    if (bins_[size_t(i)] == 0) continue;
    const double v = low_ + (double(i) + 0.5) * Width();
    const double code = std::clamp(std::nearbyint(v / step) + zero, 0.0, 255.0);
    // Steps within a bin: rounding is spread evenly. Else the bin as its middle, and what is
    // around that.
    const bool even = step < Width() && v >= low && v <= high;
    const double error = (code - zero) * step - v;
    const double square = even ? step * step / 12 : error * error + Width() * Width() / 12;
    sum += double(bins_[size_t(i)]) * square;
  }
  return sum;
}

/// Both ends move in together, then each alone.
ValueRange RangeFinder::BySquares() const {
  constexpr int64_t kTries = 100;
  double low = low_, high = high_, best = SquareError(low, high);
  const auto take = [&](double l, double h) {
    const double error = SquareError(l, h);
    if (error >= best) return;
    best = error;
    low = l;
    high = h;
  };
  for (int64_t i = 1; i < kTries; ++i)
    take(low_ * double(i) / double(kTries), high_ * double(i) / double(kTries));
  for (int64_t i = 1; low_ < 0 && i < kTries; ++i) take(low_ * double(i) / double(kTries), high);
  for (int64_t i = 1; high_ > 0 && i < kTries; ++i) take(low, high_ * double(i) / double(kTries));
  return {float(low), float(high)};
}

}  // namespace weft
