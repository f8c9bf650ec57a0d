/// join_blocks.cc: see join_blocks.h.
///
/// Two storages may share bytes from step t on, at which the one is made of the other without a
/// copy, until one of them is written: by then nothing may read the other any more. All pairs of
/// storages of two groups that are joined are held to that, whatever has joined each of them.
///
/// Candidates are taken in the order of their steps, each where the account of live bytes allows
/// it: no later one can undo that, since the most bytes alive at once never grow.
#include "join_blocks.h"

#include <algorithm>
#include <map>

#include "weft/support/checked.h"

namespace weft {
namespace {

/// Looks at a step, or at a pair of storages: about a nanosecond each. A plan of a thousand steps
/// and a hundred candidates takes a hundredth of it.
constexpr int64_t kMostWork = 20'000'000;

class Joiner {
 public:
  Joiner(const ExecutionPlan& plan, const std::vector<int64_t>& bytes,
         const std::vector<int64_t>& scratch)
      : plan_(plan), bytes_(bytes) {
    const size_t count = plan.storages.size();
    int steps = 1;
    for (const Storage& s : plan.storages) steps = std::max(steps, s.end);
    for (const Step& s : plan.steps) steps = std::max(steps, s.at + 1);
    live_.assign(size_t(steps), 0);
    written_.resize(count);
    at_.assign(count, 0);
    for (size_t s = 0; s < count; ++s) {
      group_of_.push_back(int(s));
      groups_.push_back({{int(s)},
                         0,
                         std::max<int64_t>(CheckedRoundUp(bytes[s], kArenaAlign), kArenaAlign),
                         plan.storages[s].begin,
                         plan.storages[s].end});
      if (InArena(int(s))) Add(groups_[s], 1);
    }
    for (size_t k = 0; k < plan.steps.size(); ++k) {
      live_[size_t(plan.steps[k].at)] += scratch[k];
      for (int v : plan.steps[k].outputs)
        if (v >= 0) written_[size_t(plan.values[size_t(v)].storage)].push_back(plan.steps[k].at);
    }
    left_out_.assign(plan.steps.size(), 0);
    taken_.assign(plan.parts.size(), 0);
    most_ = Most(0, steps);
  }

  void Run(const std::vector<PartPlace>& parts) {
    for (size_t begin = 0, end; begin < parts.size(); begin = end) {
      end = begin + 1;
      const bool copies = plan_.parts[begin].copies;
      if (copies)  // all of a step, or none
        while (end < parts.size() && plan_.parts[end].step == plan_.parts[begin].step) ++end;
      Try(parts, begin, end);
      if (work_ > kMostWork) return;
    }
  }

  JoinedBlocks Give() {
    JoinedBlocks out;
    out.left_out = std::move(left_out_);
    out.taken = std::move(taken_);
    out.at.assign(at_.size(), 0);
    out.block_of.assign(at_.size(), -1);
    std::vector<int> block(groups_.size(), -1);
    for (size_t s = 0; s < at_.size(); ++s) {
      if (!InArena(int(s))) continue;
      const auto g = size_t(group_of_[s]);
      if (block[g] < 0) {
        block[g] = int(out.blocks.size());
        out.blocks.push_back({groups_[g].high - groups_[g].low, groups_[g].begin, groups_[g].end});
      }
      out.block_of[s] = block[g];
      out.at[s] = at_[s] - groups_[g].low;
    }
    return out;
  }

 private:
  /// Storages whose places are fixed to each other: bytes [low, high), alive in [begin, end).
  struct Group {
    std::vector<int> members;
    int64_t low = 0, high = 0;
    int begin = 0, end = 0;
  };
  bool InArena(int s) const { return plan_.storages[size_t(s)].kind == StorageKind::kArena; }
  void Add(const Group& g, int64_t sign) {
    work_ += g.end - g.begin;
    for (int k = g.begin; k < g.end; ++k) live_[size_t(k)] += sign * (g.high - g.low);
  }
  int64_t Most(int begin, int end) {
    work_ += end - begin;
    int64_t most = 0;
    for (int k = begin; k < end; ++k) most = std::max(most, live_[size_t(k)]);
    return most;
  }

  void Try(const std::vector<PartPlace>& parts, size_t begin, size_t end) {
    const ExecutionPlan::Part& first = plan_.parts[begin];
    for (size_t k = begin; k < end; ++k) {
      const ExecutionPlan::Part& p = plan_.parts[k];
      const PartPlace& place = parts[k];
      if (!place.together || place.before < 0 || place.before % kArenaAlign != 0 ||
          bytes_[size_t(p.part)] == 0 ||
          place.before > bytes_[size_t(p.whole)] - bytes_[size_t(p.part)])
        return;
    }
    // What it would be, beside what is.
    const std::vector<int> group_of = group_of_;
    const std::vector<int64_t> at = at_;
    std::map<int, Group> before;
    bool fits = true;
    for (size_t k = begin; k < end && fits; ++k) {
      const int into = group_of_[size_t(plan_.parts[k].whole)],
                from = group_of_[size_t(plan_.parts[k].part)];
      before.emplace(into, groups_[size_t(into)]);
      before.emplace(from, groups_[size_t(from)]);
      fits = Join(plan_.parts[k], parts[k].before, begin, end);
    }
    if (fits) {
      const Group& joined = groups_[size_t(group_of_[size_t(first.whole)])];
      const int64_t inside = Most(joined.begin, joined.end);
      for (const auto& [g, group] : before) Add(group, -1);
      for (const auto& [g, group] : before)
        if (!groups_[size_t(g)].members.empty()) Add(groups_[size_t(g)], 1);
      const int64_t most = Most(0, int(live_.size()));
      if (most <= most_ && (first.copies || Most(joined.begin, joined.end) < inside)) {
        most_ = most;
        for (size_t k = begin; k < end; ++k) taken_[k] = 1;
        if (first.copies) left_out_[first.step] = 1;
        return;
      }
      for (const auto& [g, group] : before)
        if (!groups_[size_t(g)].members.empty()) Add(groups_[size_t(g)], -1);
      for (const auto& [g, group] : before) Add(group, 1);
    }
    for (auto& [g, group] : before) groups_[size_t(g)] = std::move(group);
    group_of_ = group_of;
    at_ = at;
  }

  /// False where it may not be; the groups are anything then.
  bool Join(const ExecutionPlan::Part& p, int64_t before, size_t begin, size_t end) {
    const int into = group_of_[size_t(p.whole)], from = group_of_[size_t(p.part)];
    const int64_t place = at_[size_t(p.whole)] + before;
    if (into == from) return at_[size_t(p.part)] == place;
    Group &a = groups_[size_t(into)], &b = groups_[size_t(from)];
    const int64_t shift = place - at_[size_t(p.part)];
    for (int m : b.members) at_[size_t(m)] += shift;
    b.low += shift;
    b.high += shift;
    for (int x : a.members)
      for (int y : b.members)
        if (!MayShare(x, y, begin, end)) return false;
    for (int m : b.members) group_of_[size_t(m)] = into;
    a.members.insert(a.members.end(), b.members.begin(), b.members.end());
    a.low = std::min(a.low, b.low);
    a.high = std::max(a.high, b.high);
    a.begin = std::min(a.begin, b.begin);
    a.end = std::max(a.end, b.end);
    b.members.clear();
    return true;
  }

  bool MayShare(int x, int y, size_t begin, size_t end) {
    ++work_;
    const Storage &a = plan_.storages[size_t(x)], &b = plan_.storages[size_t(y)];
    const bool apart = at_[size_t(x)] + bytes_[size_t(x)] <= at_[size_t(y)] ||
                       at_[size_t(y)] + bytes_[size_t(y)] <= at_[size_t(x)];
    if (apart || a.end <= b.begin || b.end <= a.begin) return true;
    for (size_t k = begin; k < end; ++k) {
      const ExecutionPlan::Part& p = plan_.parts[k];
      if (p.whole == x && p.part == y) return MayBe(p);
    }
    return false;
  }
  /// One is made of the other at step t.
  bool MayBe(const ExecutionPlan::Part& p) const {
    const Storage &part = plan_.storages[size_t(p.part)], &whole = plan_.storages[size_t(p.whole)];
    const int t = plan_.steps[p.step].at;
    if (!p.copies)
      return part.begin == t && whole.end == t + 1 && whole.begin < t && !WrittenFrom(p.whole, t);
    const bool made = part.begin == t ? whole.begin < t : whole.begin == t && part.begin < t;
    return made && LeavesAlone(p.part, t, whole.end) && LeavesAlone(p.whole, t, part.end);
  }
  bool WrittenFrom(int s, int t) const {
    const std::vector<int>& w = written_[size_t(s)];
    return std::any_of(w.begin(), w.end(), [&](int step) { return step >= t; });
  }
  /// After step t it is written only when what lives until `end` is not read any more.
  bool LeavesAlone(int s, int t, int end) const {
    const std::vector<int>& w = written_[size_t(s)];
    return std::all_of(w.begin(), w.end(), [&](int step) { return step <= t || end <= step; });
  }

  const ExecutionPlan& plan_;
  const std::vector<int64_t>& bytes_;
  std::vector<std::vector<int>> written_;  ///< by storage: places in the order
  std::vector<int> group_of_;              ///< by storage; a group has the number of one of its own
  std::vector<Group> groups_;
  std::vector<int64_t> at_, live_;
  std::vector<char> left_out_, taken_;
  int64_t most_ = 0, work_ = 0;
};

}  // namespace

JoinedBlocks JoinBlocks(const ExecutionPlan& plan, const std::vector<int64_t>& bytes,
                        const std::vector<int64_t>& scratch, const std::vector<PartPlace>& parts) {
  Joiner joiner(plan, bytes, scratch);
  joiner.Run(parts);
  return joiner.Give();
}

}  // namespace weft
