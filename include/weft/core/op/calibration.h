/// calibration.h: what was seen of the values of a graph while sample inputs ran through it. The
/// runtime measures it (weft/runtime/quantise/calibrate.h), passes of quantisation read it.
///
///   "range"     EntryMap<ValueRange>    given  between which numbers a value is rounded
///   "channels"  EntryMap<ChannelStats>  given  least, greatest and mean number of each channel
///
/// In text: `#range = "-1.5, 2"` and `#channels = "1: -1.5 2 0.25; -1 1 0"` (the axis, then the
/// numbers of each channel). Passes that read them throw kInvalidModel for numbers that are no
/// range.
#pragma once

#include <vector>

#include "weft/core/graph/graph_attr.h"

namespace weft {

/// `low` <= 0 <= `high`, both finite.
struct ValueRange {
  float low = 0, high = 0;
  friend bool operator==(const ValueRange& a, const ValueRange& b) {
    return a.low == b.low && a.high == b.high;
  }
};

/// Of the numbers at each index of `axis`, which is counted from the front.
struct ChannelStats {
  int64_t axis = 0;
  std::vector<float> low, high, mean;
  friend bool operator==(const ChannelStats& a, const ChannelStats& b) {
    return a.axis == b.axis && a.low == b.low && a.high == b.high && a.mean == b.mean;
  }
};

using RangeMap = EntryMap<ValueRange>;
using ChannelMap = EntryMap<ChannelStats>;

}  // namespace weft
