/// division_costs.cc: see division_costs.h.
#include "division_costs.h"

#include <algorithm>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// What a node that the arithmetic is in weighs among those that it is fused with.
constexpr double kHeavy = 20;
constexpr double kMiB = 1 << 20;

double WeightOf(const NodePtr& n) {
  const FFuseKind* kind = Op::GetAttr<FFuseKind>("FFuseKind").find(n->op());
  return kind && *kind == FuseKind::kAnchor ? kHeavy : 1;
}

std::vector<std::string> NamesOfRow(const StepTime& row) {
  std::vector<std::string> names = Split(row.name, ',');
  for (std::string& name : names) name = std::string(Trim(name));
  if (row.origin) names.insert(names.end(), row.origin->begin(), row.origin->end());
  return names;
}

}  // namespace

NodeCosts::NodeCosts(const std::vector<NodePtr>& nodes) : nodes_(nodes), us_(nodes.size(), -1) {
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : NamesOf(nodes[i]))
      if (!name.empty()) by_name_[name].push_back(i);
}

std::vector<std::string> NodeCosts::NamesOf(const NodePtr& n) {
  std::vector<std::string> names{n->attrs.name};
  if (n->origin()) names.insert(names.end(), n->origin()->begin(), n->origin()->end());
  return names;
}

std::set<size_t> NodeCosts::Find(const std::vector<std::string>& names) const {
  std::set<size_t> all;
  for (const std::string& name : names)
    if (const auto it = by_name_.find(name); it != by_name_.end())
      all.insert(it->second.begin(), it->second.end());
  return all;
}

/// False where no node has one of the names.
bool NodeCosts::Add(const std::vector<std::string>& names, double us) {
  const std::set<size_t> all = Find(names);
  double weight = 0;
  for (const size_t i : all) weight += WeightOf(nodes_[i]);
  for (const size_t i : all) Add(i, us * WeightOf(nodes_[i]) / weight);
  return !all.empty();
}

void NodeCosts::AddOurs(const std::vector<ProfileRow>& rows) {
  for (const ProfileRow& row : rows)
    if (row.kind != "engine") Add(NamesOfRow(row), row.duration);
}

/// Engines add to the name of a node what they have made of it: "conv1/WithoutBiases".
bool NodeCosts::AddEngineRow(std::string name, double us) {
  for (;;) {
    if (Add({name}, us)) return true;
    const size_t slash = name.rfind('/');
    if (slash == name.npos) return false;
    name.resize(slash);
  }
}

void NodeCosts::AddTheirs(const std::vector<ProfileRow>& rows, const NodeCosts& ours) {
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].kind != "delegate") continue;
    double left = rows[r].duration;  // without what the engine's rows say
    for (size_t k = r + 1; k < rows.size() && rows[k].kind == "engine"; ++k)
      if (!Add(NamesOfRow(rows[k]), rows[k].duration) &&
          !AddEngineRow(rows[k].name, rows[k].duration))
        left += rows[k].duration;
    const std::set<size_t> inside = ours.Find(NamesOfRow(rows[r]));
    double sum = 0;
    for (const size_t i : inside) sum += ours.Known(i);
    for (const size_t i : inside)
      Add(i, left * (sum > 0 ? ours.Known(i) / sum : 1 / double(inside.size())));
  }
}

void NodeCosts::Scale(double factor) {
  for (double& us : us_)
    if (us > 0) us *= factor;
}

double BorderCosts::Of(const DivisionSample& s) const {
  return tensor_us * s.tensors + mib_us * s.bytes / kMiB;
}

BorderCosts FitBorders(const std::vector<DivisionSample>& samples) {
  // Least squares of (tensor_us * tensors + mib_us * mib - excess) / us.
  double tt = 0, mm = 0, tm = 0, te = 0, me = 0;
  for (const DivisionSample& s : samples) {
    const double t = s.tensors / s.us, m = s.bytes / kMiB / s.us, e = 1 - s.nodes_us / s.us;
    tt += t * t, mm += m * m, tm += t * m, te += t * e, me += m * e;
  }
  const double det = tt * mm - tm * tm;
  BorderCosts both;
  if (det > 1e-9 * tt * mm) both = {(te * mm - me * tm) / det, (me * tt - te * tm) / det};
  if (both.tensor_us > 0 && both.mib_us > 0) return both;
  // One alone: that which explains more.
  const double by_tensors = tt > 0 ? std::max(te, 0.0) * te / tt : 0;
  const double by_bytes = mm > 0 ? std::max(me, 0.0) * me / mm : 0;
  if (by_tensors >= by_bytes) return {tt > 0 ? std::max(te / tt, 0.0) : 0, 0};
  return {0, std::max(me / mm, 0.0)};
}

}  // namespace weft
