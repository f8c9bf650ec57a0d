/// multi.cc: which groups share a launch.
///
/// Two groups of one level cannot reach each other, and a group may rise to any level below its
/// readers: so each group has an interval of levels, and groups whose intervals meet may stand side
/// by side. Raising a group leaves the intervals of the others valid. Two rules say where it pays:
///   sinks   element-wise groups of equal work, extents ignored, whose results nothing computes
///           with: the updates of all parameters. In as few launches as hold back (gradients,
///           mostly) an eighth of what all of them read, and at most `multi_bytes` each.
///   small   groups of any work over few elements, where a launch costs more than what it computes:
///           they stand beside each other, or beside a larger one.
/// A wrong guess about equal work costs one more kernel inside the launch and no wrong result: code
/// generation compares what the parts compute.
///   before  %a = weft::Fused(%g, %p)   %b = weft::Fused(%h, %q)
///   after   %ab:0, %ab:1 = weft::Fused(%g, %p, %h, %q) {parts = [1, 1]}
#include "multi.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "first_at_least.h"
#include "weft/core/op/op.h"
#include "weft/support/hash.h"

namespace weft {
namespace {

class LaunchPlanner {
 public:
  LaunchPlanner(const FusionPlan& plan, const std::unordered_map<int, std::vector<NodeId>>& written,
                const std::vector<uint8_t>& works, FusionNodes& nodes, FusionGroups& groups,
                PassContext& ctx)
      : plan_(plan),
        written_(written),
        works_(works),
        nodes_(nodes),
        groups_(groups),
        ctx_(ctx),
        max_tensors_(ctx.option<int64_t>("max_tensors")),
        multi_bytes_(ctx.option<int64_t>("multi_bytes")),
        small_elements_(ctx.option<int64_t>("multi_small")) {}

  LaunchPlan Run() {
    if (ctx_.option<int64_t>("max_ops") <= 1) return {};  // no fusion at all
    if (multi_bytes_ <= 0 && small_elements_ <= 0) return {};
    int64_t groups = 0;
    for (uint8_t w : works_) groups += w;
    if (groups < 2) return {};
    FindReaders();
    if (multi_bytes_ > 0) MergeSinks();
    if (small_elements_ > 0) MergeSmall();
    return std::move(out_);
  }

 private:
  struct Readers {
    int min_level = FusionGroups::kNoConsumer;  ///< of the groups that read this one
    bool computes = false;                      ///< some of them does more than wait for it
    uint64_t work = 0;                          ///< sum over the operators
  };
  struct Candidate {
    int group = -1;
    int low = 0, high = 0;  ///< levels that it may have
    int64_t weight = 0;     ///< bytes held back (sinks), elements (small)
    bool host = false;      ///< small: large, but may take small ones along
  };

  int GroupOf(NodeId id) { return groups_.Find(nodes_[id].group); }

  /// Exact bounds; those of the sweep are what the readers' levels were when they were met. Readers
  /// first: what is no work (a write of a finished value, a view, a weft::Group) has no level of
  /// its own, it may wait until its readers.
  void FindReaders() {
    readers_.assign(size_t(groups_.size()), {});
    for (size_t k = plan_.ids.size(); k-- > 0;) {
      const NodeId id = plan_.ids[k];
      const int g = GroupOf(id);
      const bool waits = nodes_.IsGroup(id) || (groups_[g].fusible && !works_[size_t(g)]);
      const int level = waits ? High(g) : groups_[g].level;
      const bool computes = !waits || (readers_[size_t(g)].computes && !nodes_.Assigns(id));
      readers_[size_t(g)].work += (uint64_t{nodes_[id].op} + 1) * 0x9e3779b97f4a7c15ull;
      const auto read = [&](NodeId producer) {
        const int p = GroupOf(producer);
        if (p == g) return;
        Readers& r = readers_[size_t(p)];
        r.min_level = std::min(r.min_level, level);
        r.computes |= computes;
      };
      for (const EntryKey& e : plan_.InputsOf(k))
        if (e.present()) read(e.id);
      if (!plan_.has_control) continue;
      for (Node* d : plan_.order[k]->control_deps) {
        const int p = GroupOf(d->id());
        if (p != g) readers_[size_t(p)].min_level = std::min(readers_[size_t(p)].min_level, level);
      }
    }
  }
  int High(int g) const {
    const int bound = readers_[size_t(g)].min_level;
    return bound == FusionGroups::kNoConsumer ? bound : bound - 1;
  }
  bool IsRoot(int g) { return groups_.Find(g) == g; }
  /// A group of more tensors than one kernel should read stands alone; only some of
  /// its operands are known.
  bool MayShare(int g) {
    return IsRoot(g) && works_[size_t(g)] && groups_[g].fusible &&
           int64_t(groups_[g].operands.size()) <= max_tensors_;
  }

  /// A wrong guess costs nothing, since a large part of a launch is shared by all threads as a
  /// large kernel is.
  int64_t Elements(const Space& space) { return nodes_.spaces().Elements(space.key); }

  // ---- members, of groups that are looked at closely ----

  /// Positions in the order of the members of `wanted` groups.
  void CollectMembers(const std::vector<Candidate>& wanted) {
    members_.clear();
    std::vector<int> slot(size_t(groups_.size()), -1);
    for (const Candidate& c : wanted) slot[size_t(c.group)] = 0;
    for (size_t k = 0; k < plan_.ids.size(); ++k)
      if (const int g = GroupOf(plan_.ids[k]); slot[size_t(g)] == 0)
        members_[g].push_back(uint32_t(k));
  }

  /// Equal for groups that do the same work over whatever extents: operators, attributes, literals,
  /// edges inside. Which tensors from outside are the same does not count.
  uint64_t WorkOf(int group) {
    std::unordered_map<NodeId, uint64_t> hash;  // looked up only
    uint64_t sum = 0;
    for (uint32_t k : members_.at(group)) {
      const NodePtr n = plan_.order[k];
      uint64_t h = HashBytes(n->op()->name.data(), n->op()->name.size()).lo;
      for (const auto& [name, value] : n->attrs.dict) {
        h = CombineHash(h, HashBytes(name.data(), name.size()).lo);
        if (value.empty() || value.is<TensorPtr>() || value.is<GraphPtr>()) continue;
        const std::string text = value;
        h = CombineHash(h, HashBytes(text.data(), text.size()).lo);
      }
      for (const EntryKey& e : plan_.InputsOf(k)) {
        uint64_t in = 0;
        if (!e.present())
          in = 1;
        else if (auto it = hash.find(e.id); it != hash.end())
          in = CombineHash(it->second, e.index);
        else if (const TensorPtr t = nodes_.ConstantOf(e); t && t->num_elements() == 1)
          in = HashBytes(t->data(), size_t(t->num_bytes())).lo;
        else
          in = 2 + uint64_t(nodes_.TypeOf(e));
        h = CombineHash(h, in);
      }
      hash[plan_.ids[k]] = h;
      sum += h * 0x9e3779b97f4a7c15ull;
    }
    return sum;
  }

  /// Does the group read whole variables, or only low ranks? Of tensors that library calls wish to
  /// have in another layout it is better not to make a launch that has none.
  bool IsPlainInMemory(int group) {
    if (groups_[group].space.is_row() || groups_[group].writes) return true;
    bool low = true;
    for (uint32_t k : members_.at(group)) {
      low = low && nodes_.spaces().extents(nodes_[plan_.ids[k]].shape).size() <= 2;
      for (const EntryKey& e : plan_.InputsOf(k))
        if (e.present() && nodes_.ContentOf(e.id) != EntryKey::kAbsent && !nodes_.ConstantOf(e) &&
            nodes_.SpaceOf(e) == groups_[group].space.key)
          return true;
    }
    return low;
  }

  /// Every operand goes along with the points or is one element: code generation
  /// forgets the extents then.
  bool IsFlat(int group) {
    for (uint32_t k : members_.at(group))
      for (const EntryKey& e : plan_.InputsOf(k)) {
        if (!e.present() || GroupOf(e.id) == group) continue;
        const int space = nodes_.SpaceOf(e);
        if (space != groups_[group].space.key && !nodes_.spaces().space_extents(space).empty())
          return false;
      }
    return true;
  }

  // ---- launches ----

  /// Groups of one launch so far, and the variables that they touch.
  struct Launch {
    std::vector<int> groups;
    std::unordered_set<NodeId> touched, written;  // looked up only
  };
  template <class F>
  void EachContent(int group, F&& f) {
    for (uint64_t e : groups_[group].operands)
      if (const NodeId v = nodes_.ContentOf(NodeId(e >> 32)); v != EntryKey::kAbsent) f(v);
  }
  /// The group joins, unless it reads a variable that another one writes, or writes
  /// what another one reads.
  bool Add(int group, Launch* launch) {
    bool apart = true;
    EachContent(group, [&](NodeId v) { apart = apart && !launch->written.count(v); });
    const auto writes = written_.find(group);
    if (writes != written_.end())
      for (NodeId v : writes->second) apart = apart && !launch->touched.count(v);
    if (!apart) return false;
    if (!launch->groups.empty() && !ctx_.Fuel("fuse-alongside", First(group))) return false;
    EachContent(group, [&](NodeId v) { launch->touched.insert(v); });
    if (writes != written_.end())
      launch->written.insert(writes->second.begin(), writes->second.end());
    launch->groups.push_back(group);
    return true;
  }

  void Share(const std::vector<int>& together, int level) {
    if (together.size() < 2) return;
    if (out_.first.empty()) out_.first.assign(size_t(groups_.size()), LaunchPlan::kAlone);
    for (int g : together) {
      out_.first[size_t(g)] = together[0];
      groups_[g].level = level;
      ++out_.shared;
    }
  }
  bool IsShared(int g) const {
    return !out_.first.empty() && out_.first[size_t(g)] != LaunchPlan::kAlone;
  }

  void MergeSinks() {
    // Cheap signs of equal work first: most graphs have no two sinks alike.
    std::map<std::pair<uint64_t, int>, std::vector<Candidate>> alike;
    for (int g = 0; g < groups_.size(); ++g) {
      if (!MayShare(g) || readers_[size_t(g)].computes) continue;
      const FusionGroups::Group& group = groups_[g];
      if (!group.plain || group.space.is_row() || group.reductions > 0) continue;
      alike[{readers_[size_t(g)].work, group.size}].push_back({g, group.level, High(g), 0, false});
    }
    std::vector<Candidate> wanted;
    for (const auto& [key, list] : alike)
      if (list.size() > 1) wanted.insert(wanted.end(), list.begin(), list.end());
    if (wanted.empty()) return;
    CollectMembers(wanted);
    std::map<std::pair<uint64_t, int>, std::vector<Candidate>> equal;
    for (Candidate& c : wanted) {
      if (!IsPlainInMemory(c.group) || !IsFlat(c.group)) continue;
      c.weight = HeldBytes(c.group, Elements(groups_[c.group].space));
      equal[{WorkOf(c.group), groups_[c.group].size}].push_back(c);
    }
    for (auto& [key, list] : equal) {
      std::sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) {
        return a.low != b.low ? a.low < b.low : a.group < b.group;
      });
      // At least as much as a launch takes as long as the work on it; then a part of them all.
      constexpr int64_t kWaits = 512 << 10, kLaunches = 8;
      int64_t all = 0;
      for (const Candidate& c : list) all += c.weight / kLaunches;
      for (size_t begin = 0; begin < list.size();)
        begin = TakeSinks(list, begin, std::max(kWaits, all));
    }
    // Their producers may rise now.
    if (out_.shared > 0) FindReaders();
  }
  /// One launch of those from `begin` on, which closes when more than `most` bytes wait for another
  /// one; returns where the next one begins.
  size_t TakeSinks(const std::vector<Candidate>& list, size_t begin, int64_t most) {
    Launch launch;
    int level = 0, high = FusionGroups::kNoConsumer;
    int64_t held = 0;
    size_t i = begin;
    for (; i < list.size(); ++i) {
      const Candidate& c = list[i];
      const int to = std::max(level, c.low);
      if (!launch.groups.empty() &&
          (to > std::min(high, c.high) || held > most || held > multi_bytes_ - c.weight))
        break;
      if (!Add(c.group, &launch)) break;
      level = to;
      high = std::min(high, c.high);
      held += std::min(c.weight, multi_bytes_);
    }
    Share(launch.groups, level);
    return i;
  }
  NodePtr First(int group) const { return plan_.order[members_.at(group).front()]; }

  /// What a sink keeps alive while it waits: operands as large as it that are computed.
  int64_t HeldBytes(int group, int64_t elements) {
    int64_t bytes = 0;
    std::vector<uint64_t> seen;
    for (uint32_t k : members_.at(group))
      for (const EntryKey& e : plan_.InputsOf(k)) {
        if (!e.present() || GroupOf(e.id) == group) continue;
        if (nodes_.ContentOf(e.id) != EntryKey::kAbsent) continue;
        if (nodes_.SpaceOf(e) != groups_[group].space.key) continue;
        if (std::find(seen.begin(), seen.end(), e.packed()) != seen.end()) continue;
        seen.push_back(e.packed());
        int64_t more = 0;
        if (__builtin_mul_overflow(elements, DTypeBytes(nodes_.TypeOf(e), 1), &more) ||
            __builtin_add_overflow(bytes, more, &bytes))
          return INT64_MAX;
      }
    return bytes;
  }

  void MergeSmall() {
    std::vector<Candidate> small, hosts;
    for (int g = 0; g < groups_.size(); ++g) {
      if (!MayShare(g) || IsShared(g) || !groups_[g].simple) continue;
      const int64_t n = Elements(groups_[g].space);
      const int64_t tensors = int64_t(groups_[g].operands.size()) + 1;
      const Candidate c{g, groups_[g].level, High(g), n, false};
      if (n <= small_elements_ / tensors)
        small.push_back(c);
      else
        hosts.push_back(c);
    }
    if (small.empty() || small.size() + hosts.size() < 2) return;
    // Only what could meet a small one is looked at: of those that begin before a host ends the
    // one that ends last.
    std::sort(small.begin(), small.end(), [](const Candidate& a, const Candidate& b) {
      return std::make_pair(a.low, a.group) < std::make_pair(b.low, b.group);
    });
    std::vector<int> last_high;
    for (const Candidate& s : small)
      last_high.push_back(last_high.empty() ? s.high : std::max(last_high.back(), s.high));
    std::vector<Candidate> all;
    for (const Candidate& h : hosts) {
      const auto begun =
          std::upper_bound(small.begin(), small.end(), h.high,
                           [](int level, const Candidate& s) { return level < s.low; });
      if (begun == small.begin() || last_high[size_t(begun - small.begin()) - 1] < h.low) continue;
      all.push_back(h);
      all.back().host = true;
    }
    all.insert(all.end(), small.begin(), small.end());
    CollectMembers(all);
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Candidate& c) { return !IsPlainInMemory(c.group); }),
              all.end());
    JoinHosts(&all);
    // The interval that ends first has to be met first; each launch takes all small
    // ones that it can.
    std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return std::make_tuple(a.high, a.low, a.group) < std::make_tuple(b.high, b.low, b.group);
    });
    std::vector<int> lows;
    for (const Candidate& c : all) lows.push_back(-c.low);
    FirstAtLeast left(lows);  // those that are in no launch yet, by their low levels
    for (size_t i = 0; i < all.size(); ++i)
      if (left[i] != FirstAtLeast::kNone) TakeSmall(all, i, &left);
  }
  int64_t TensorsOf(int group) { return int64_t(groups_[group].operands.size()) + 1; }

  /// Small groups stand beside the last large one that they may wait for, readers first: so those
  /// that they read may wait as well. What found a place, and the large ones, leave `all`.
  void JoinHosts(std::vector<Candidate>* all) {
    std::vector<Candidate> small, hosts, left;
    for (const Candidate& c : *all) (c.host ? hosts : small).push_back(c);
    std::stable_sort(hosts.begin(), hosts.end(),
                     [](const Candidate& a, const Candidate& b) { return a.low > b.low; });
    std::vector<Launch> launches(hosts.size());
    std::vector<int> rooms;
    for (const Candidate& h : hosts) rooms.push_back(int(max_tensors_ - TensorsOf(h.group)));
    FirstAtLeast room(rooms);  // for how many tensors more
    std::sort(small.begin(), small.end(), [](const Candidate& a, const Candidate& b) {
      return a.low != b.low ? a.low > b.low : a.group < b.group;
    });
    // nodes, by looking at all readers again; without that bounds are only stricter
    size_t walked = 0;
    constexpr size_t kMostWalked = 200000;
    for (Candidate& c : small) {
      c.high = High(c.group);
      const auto from = std::partition_point(hosts.begin(), hosts.end(),
                                             [&](const Candidate& h) { return h.low > c.high; });
      const size_t best = room.Find(size_t(from - hosts.begin()), int(TensorsOf(c.group)));
      const bool found = best < hosts.size() && hosts[best].low >= c.low;
      if (found && launches[best].groups.empty()) Add(hosts[best].group, &launches[best]);
      if (!found || !Add(c.group, &launches[best])) {
        left.push_back(c);
        continue;
      }
      room.Set(best, room[best] - int(TensorsOf(c.group)));
      groups_[c.group].level = hosts[best].low;
      if (walked < kMostWalked) FindReaders(), walked += plan_.ids.size();
    }
    for (size_t i = 0; i < hosts.size(); ++i) Share(launches[i].groups, hosts[i].low);
    FindReaders();
    for (Candidate& c : left) c.high = High(c.group);
    *all = std::move(left);
  }
  void TakeSmall(const std::vector<Candidate>& all, size_t first, FirstAtLeast* left) {
    // that do not fit; others would have to be looked at by every launch
    constexpr int kMostPassed = 64;
    Launch launch;
    int level = 0, passed = 0;
    int64_t tensors = 0;
    const int high = all[first].high;  // the least of all that are left
    for (size_t i = first; passed < kMostPassed; ++i) {
      i = left->Find(i, -high);
      if (i >= all.size()) break;
      const Candidate& c = all[i];
      const int64_t more = TensorsOf(c.group);
      if ((!launch.groups.empty() && tensors + more > max_tensors_) || !Add(c.group, &launch)) {
        ++passed;
        continue;
      }
      tensors += more;
      level = std::max(level, c.low);
      left->Set(i, FirstAtLeast::kNone);
    }
    Share(launch.groups, level);
  }

  const FusionPlan& plan_;
  const std::unordered_map<int, std::vector<NodeId>>& written_;
  const std::vector<uint8_t>& works_;
  FusionNodes& nodes_;
  FusionGroups& groups_;
  PassContext& ctx_;
  const int64_t max_tensors_, multi_bytes_, small_elements_;
  LaunchPlan out_;
  std::vector<Readers> readers_;                            // by group
  std::unordered_map<int, std::vector<uint32_t>> members_;  // by group; looked up only
};

}  // namespace

LaunchPlan PlanLaunches(const FusionPlan& plan,
                        const std::unordered_map<int, std::vector<NodeId>>& written,
                        const std::vector<uint8_t>& works, FusionNodes& nodes, FusionGroups& groups,
                        PassContext& ctx) {
  return LaunchPlanner(plan, written, works, nodes, groups, ctx).Run();
}

}  // namespace weft
