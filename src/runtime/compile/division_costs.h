/// division_costs.h: what nodes cost with each engine by rows of profiles, and borders by times of
/// whole divisions. Private to the runtime.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/runtime/program/profile.h"

namespace weft {

/// Microseconds of the nodes of a graph on one side.
class NodeCosts {
 public:
  /// Found by their names and origins. `nodes` outlive this.
  explicit NodeCosts(const std::vector<NodePtr>& nodes);
  /// What each row took is given to the nodes it stands for.
  void AddOurs(const std::vector<ProfileRow>& rows);
  /// What nodes cost with an engine: by its own rows, and where it has none, as nodes cost here, in
  /// the proportion in which the region as a whole does.
  void AddTheirs(const std::vector<ProfileRow>& rows, const NodeCosts& ours);
  double operator[](size_t i) const { return us_[i]; }  ///< negative: nothing is known
  double Known(size_t i) const { return us_[i] < 0 ? 0 : us_[i]; }
  void Scale(double factor);

  /// The names by which a node may be found.
  static std::vector<std::string> NamesOf(const NodePtr& n);

 private:
  std::set<size_t> Find(const std::vector<std::string>& names) const;
  bool Add(const std::vector<std::string>& names, double us);
  bool AddEngineRow(std::string name, double us);
  void Add(size_t i, double us) { us_[i] = Known(i) + us; }

  const std::vector<NodePtr>& nodes_;
  std::vector<double> us_;
  std::unordered_map<std::string, std::vector<size_t>> by_name_;
};

/// What the pass Delegate says of a division by costs of nodes, and how long it took.
struct DivisionSample {
  double nodes_us = 0, tensors = 0, bytes = 0;  ///< of tensors that cross borders
  double us = 0;
};
/// What a border costs.
struct BorderCosts {
  double tensor_us = 0, mib_us = 0;
  double Of(const DivisionSample& s) const;
};
/// The costs, none negative, by which the samples come closest to their times, weighed by these.
BorderCosts FitBorders(const std::vector<DivisionSample>& samples);

}  // namespace weft
