/// two_way_choice.h: the cheapest of two values for each of many variables that had better agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

/// A sum of costs, each of one variable or of a set that should agree, is least where a network has
/// its least cut (Picard and Ratliff 1975; sets as in Lawler 1973). Found by augmenting along
/// shortest paths (Dinic 1970).
class TwoWayChoice {
 public:
  static constexpr int64_t kForbidden = int64_t{1} << 60;

  int AddVariable();
  /// Costs of a variable's two values; costs of several calls add up.
  void Pay(int variable, int64_t if_false, int64_t if_true);
  /// Costs that not all of these variables have one value.
  void PayUnlessAlike(const std::vector<int>& variables, int64_t cost);

  /// The values of the variables: of the cheapest choices the one with fewest that are
  /// true. Gives up after `most_steps` visits of edges: all are false then, but for those
  /// to which that is forbidden.
  std::vector<bool> Solve(int64_t most_steps = 200'000'000);

 private:
  struct Edge {
    int to;
    int64_t capacity;
  };
  int AddNode();
  void Connect(int from, int to, int64_t capacity, int64_t back = 0);
  bool FindLevels();
  /// Pushes along shortest paths until none is left; false when steps run out.
  bool Augment();

  std::vector<int> variables_;               ///< their nodes
  std::vector<int64_t> if_false_, if_true_;  ///< of each variable
  std::vector<Edge> edges_{};                ///< edge i ^ 1 goes back
  std::vector<std::vector<int>> out_{2};     ///< of the nodes: 0 is true, 1 is false
  std::vector<int> level_;
  std::vector<size_t> next_;
  int64_t steps_ = 0;
};

}  // namespace weft
