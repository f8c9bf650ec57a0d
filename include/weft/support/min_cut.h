/// min_cut.h: a least cut of a small flow network, by Dinic's algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "weft/support/api.h"

namespace weft {

class WEFT_API MinCut {
 public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;
  static constexpr int kSource = 0, kSink = 1;

  int AddNode() {
    first_.push_back(-1);
    return int(first_.size()) - 1;
  }
  void AddEdge(int from, int to, int64_t capacity);
  /// Finds a maximal flow; false where that takes more than `most_work` looks at edges.
  bool Solve(int64_t most_work);
  /// After Solve: of all least cuts the one that leaves the fewest nodes with the sink.
  bool IsWithSink(int node) const { return with_sink_[std::size_t(node)] != 0; }

 private:
  struct Edge {
    int to, next;
    int64_t left;  ///< capacity that is left; the edge back is beside it
  };
  bool FindLevels();
  void Push();
  void FindSinkSide();

  std::vector<Edge> edges_;
  std::vector<int> first_ = {-1, -1}, at_, level_, queue_, path_;
  std::vector<uint8_t> with_sink_;
  int64_t work_left_ = 0;
};

}  // namespace weft
