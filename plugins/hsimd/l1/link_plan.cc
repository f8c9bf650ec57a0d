/// link_plan.cc: pairs of words that links copy, and the sets of places behind them.
#include "link_plan.h"

#include <algorithm>

namespace hsimd {
namespace {

/// One word of the near memory and its partner, both as index in a row from the address on.
struct Pair {
  int64_t near, far;
};

std::vector<PairRun> RunsOf(const std::vector<Pair>& pairs) {
  std::vector<PairRun> runs;
  for (const Pair& p : pairs) {
    if (!runs.empty()) {
      PairRun& r = runs.back();
      const int64_t step = p.far - (r.far_base + (r.n - 1) * r.far_step);
      if (p.near == r.near_first + r.n && (r.n == 1 || step == r.far_step)) {
        r.far_step = step;
        ++r.n;
        continue;
      }
    }
    runs.push_back({p.near, p.far, 0, 1});
  }
  return runs;
}

}  // namespace

int PlaceSets::Intern(PlaceSet set) {
  const auto [it, is_new] = ids_.try_emplace(set.bits, int(sets_.size()));
  if (is_new) sets_.push_back(std::move(set));
  return it->second;
}

int64_t PlaceSets::FirstCommon(int a, int b) const {
  const std::vector<uint64_t>&x = At(a).bits, &y = At(b).bits;
  for (size_t w = 0; w < std::min(x.size(), y.size()); ++w) {
    if (x[w] & y[w]) return int64_t(w) * 64 + __builtin_ctzll(x[w] & y[w]);
  }
  return -1;
}

int PlaceSets::Union(int a, int b) {
  if (a == b) return a;
  const auto [it, is_new] = unions_.try_emplace({std::min(a, b), std::max(a, b)}, 0);
  if (is_new) {
    std::vector<uint64_t> bits = At(a).bits;
    for (size_t w = 0; w < bits.size(); ++w) bits[w] |= At(b).bits[w];
    it->second = Intern(MakePlaceSet(std::move(bits)));
  }
  return it->second;
}

LinkPlan MakeLinkPlan(const Machine& machine, const Unit& unit, const UnitOp& op, const Mask& mask,
                      PlaceSets* sets) {
  LinkPlan plan;
  const int level = unit.child >= 0 ? unit.child : machine.pe();
  const PlaceSet near = PlacesIn(mask, level, machine);
  plan.target_set = plan.source_set = sets->Intern(near);
  if (unit.kind == UnitKind::kAlu || unit.kind == UnitKind::kMatrix) return plan;

  std::vector<Pair> pairs;
  if (unit.kind == UnitKind::kRing) {
    std::vector<uint64_t> read(near.bits.size(), 0);
    for (const auto& [first, end] : near.runs) {
      for (int64_t p = first; p < end; ++p) {
        const int64_t from = RingSource(p, unit, op, machine);
        read[size_t(from / 64)] |= uint64_t{1} << (from % 64);
        pairs.push_back({p, from});
      }
    }
    plan.source_set = sets->Intern(MakePlaceSet(std::move(read)));
    plan.runs = RunsOf(pairs);
    return plan;
  }

  const int64_t parents = machine.PlacesOf(unit.parent);
  std::map<int64_t, std::vector<uint64_t>> by_offset;
  for (const auto& [first, end] : near.runs) {
    for (int64_t p = first; p < end; ++p) {
      const int64_t parent = AncestorOf(p, level, unit.parent, machine);
      const int64_t offset = OffsetOf(p, unit, op, machine);
      std::vector<uint64_t>& bits = by_offset[offset];
      bits.resize(size_t((parents + 63) / 64), 0);
      bits[size_t(parent / 64)] |= uint64_t{1} << (parent % 64);
      plan.reach = std::max(plan.reach, offset);
      pairs.push_back({p, offset * parents + parent});
    }
  }
  for (auto& [offset, bits] : by_offset)
    plan.offsets.push_back({offset, sets->Intern(MakePlaceSet(std::move(bits)))});
  const int parent_set = sets->Intern(PlacesIn(mask, unit.parent, machine));
  (unit.kind == UnitKind::kDown ? plan.source_set : plan.target_set) = parent_set;
  if (op.reduce.empty()) {
    plan.runs = RunsOf(pairs);
    return plan;
  }
  // A mask is a product of sets, so every word of a parent has equally many members.
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.far < b.far; });
  for (const Pair& p : pairs) {
    if (plan.far.empty() || plan.far.back() != p.far) plan.far.push_back(p.far);
  }
  const size_t each = plan.far.empty() ? 0 : pairs.size() / plan.far.size();
  plan.members.resize(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i)
    plan.members[i % each * plan.far.size() + i / each] = pairs[i].near;
  return plan;
}

}  // namespace hsimd
