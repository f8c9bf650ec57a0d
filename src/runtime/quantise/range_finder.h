/// range_finder.h: the range of one value, found while parts of it come in.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/core/op/calibration.h"
#include "weft/runtime/quantise/calibrate.h"

namespace weft {

class RangeFinder {
 public:
  /// The first look at all numbers. False: one of them is NaN, and *at says which.
  bool Look(const float* v, int64_t count, int64_t* at);
  /// The second, behind all of the first, for methods that ask how often numbers are.
  void Count(const float* v, int64_t count);

  /// Some number was infinite: there is no range.
  bool infinite() const { return infinite_; }
  /// As `method` says; 0 is in it.
  ValueRange Find(RangeMethod method, double percentile) const;

 private:
  double Width() const { return (high_ - low_) / double(kBins); }
  ValueRange ByPercentile(double percentile) const;
  ValueRange ByEntropy() const;
  ValueRange BySquares() const;
  /// Mean square error of 256 codes from `low` to `high`.
  double SquareError(double low, double high) const;

  static constexpr int64_t kBins = 2048;
  double low_ = 0, high_ = 0;
  bool infinite_ = false;
  std::vector<int64_t> bins_;  ///< from low_ to high_
};

}  // namespace weft
