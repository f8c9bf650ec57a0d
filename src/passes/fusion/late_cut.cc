/// late_cut.cc: the least cut before the kernels of one time (see late.h).
///
/// The region grows from what they read towards its operands. A member stands with the source where
/// it is computed early and with the sink where it is computed late:
///   source -> in   what its arithmetic costs, if it is done twice
///   in -> out      what it costs to keep its result
///   out -> in      of who reads it: a late one has its operands
///   out -> sink    of what the kernels themselves read
/// A leaf is there early: one edge from the source, with what keeping it costs. What may only move,
/// a reduction, is late only if all that read it are.
#include <algorithm>

#include "late.h"
#include "weft/support/check.h"
#include "weft/support/min_cut.h"
#include "weft/support/request.h"

namespace weft {

class FusionLate::Cutter {
 public:
  Cutter(FusionLate& late, int time, const std::vector<uint32_t>& kernels)
      : l_(late), nodes_(late.nodes_), time_(time), kernels_(kernels) {}
  void Run() {
    FindReaders();
    if (!units_.empty()) {
      RequestScope::Poll();
      Grow();
      FindClosed();
      RequestScope::Poll();
      if (Solve() && l_.ctx_.Fuel("fuse-late", l_.g_.node(readers_[0].user))) Apply();
    }
    HoldOperands();
  }

 private:
  struct Unit {
    EntryKey entry;  ///< of a member output 0
    int space = -1;  ///< of the kernels
    bool member = false;
    bool copyable = false;  ///< else it may only move
    bool read = false;      ///< by a kernel itself
    bool closed = false;    ///< only kernels and closed members read it
    bool pinned = false;    ///< it may only move, or what may only move is behind it
    bool late = false, moved = false;
    int copy = -1;
    int in = -1, out = -1;  ///< in the network
  };
  /// An input of a node of one of the kernels that is a member's result.
  struct Reader {
    NodeId user;
    uint32_t slot;
    int unit;
  };
  static uint64_t Slot(NodeId user, uint32_t slot) { return uint64_t{user} << 32 | slot; }
  Unit& At(int unit) { return units_[size_t(unit)]; }

  int MemberOf(const EntryKey& e) {
    const auto it = e.present() ? members_.find(e.id) : members_.end();
    return it != members_.end() && At(it->second).member ? it->second : -1;
  }
  int UnitOf(const EntryKey& e) {
    if (const int m = MemberOf(e); m >= 0) return m;
    const auto it = leaves_.find(e.packed());
    return it == leaves_.end() ? -1 : it->second;
  }
  /// The member that computes an operand of something over `space`; -1: it may not be one.
  int AddMember(const EntryKey& e, int space) {
    if (const auto it = members_.find(e.id); it != members_.end())
      return At(it->second).space == space ? it->second : -1;
    const NodePtr n = l_.g_.node(e.id);
    const bool copyable = l_.IsCopyable(n, space);
    if (!copyable && !l_.IsMovable(n, space, time_) && !l_.IsRowValue(n, space, time_)) return -1;
    Unit u;
    u.entry = {e.id, 0};
    u.space = space;
    u.member = true;
    u.copyable = copyable;
    members_[e.id] = int(units_.size());
    units_.push_back(u);
    return int(units_.size()) - 1;
  }
  void AddLeaf(const EntryKey& e) {
    if (!leaves_.emplace(e.packed(), int(units_.size())).second) return;
    Unit u;
    u.entry = e;
    units_.push_back(u);
  }
  /// The space over which the node reads an operand element by element; -1: it does not.
  int SpaceOfRead(NodeId id, uint32_t slot) {
    if (nodes_[id].kind == NodeKind::kElementwise) return nodes_.SpaceOf({id, 0});
    const bool full = int(slot) == nodes_.ClassOf(id)->full_input;
    return full ? nodes_.SpaceOf(l_.InputsOf(id)[slot]) : -1;
  }

  void FindReaders() {
    for (const uint32_t k : kernels_) {
      const NodeId id = l_.order_[k]->id();
      if (l_.moved_[id]) continue;
      const EntryKeys inputs = l_.InputsOf(id);
      for (uint32_t i = 0; i < inputs.count; ++i) {
        if (!inputs[i].present() || l_.time_[inputs[i].id] >= time_ ||
            l_.redirected_.count(Slot(id, i)))
          continue;
        const int space = SpaceOfRead(id, i);
        if (space < 0 || nodes_.spaces().space_extents(space).empty()) continue;
        const int unit = AddMember(inputs[i], space);
        if (unit < 0) {
          direct_.insert(l_.RootOf(inputs[i]).packed());
          continue;
        }
        At(unit).read = true;
        readers_.push_back({id, i, unit});
        reads_.insert(Slot(id, i));
      }
    }
  }

  void Grow() {
    constexpr size_t kAround = 32, kEach = 12;  // units, and more for each reader
    constexpr size_t kBetweenPolls = 1024;
    const size_t most = kAround + kEach * readers_.size();
    for (size_t k = 0; k < units_.size(); ++k) {
      if (k % kBetweenPolls == 0) RequestScope::Poll();
      if (!units_[k].member) continue;
      const NodeId id = units_[k].entry.id;
      const int space = units_[k].space;
      for (const EntryKey& e : l_.InputsOf(id)) {
        if (!e.present() || nodes_[e.id].kind == NodeKind::kShapeOnly) continue;
        const bool there = l_.HeldUntil(l_.RootOf(e)) >= time_;
        if (there || units_.size() >= most || AddMember(e, space) < 0) AddLeaf(e);
      }
    }
    for (const Unit& u : units_)
      if (u.member) by_place_.push_back(members_.at(u.entry.id));
    std::sort(by_place_.begin(), by_place_.end(),
              [&](int a, int b) { return l_.place_[At(a).entry.id] < l_.place_[At(b).entry.id]; });
  }

  /// Members that may only move and cannot become leaves.
  void FindClosed() {
    for (bool changed = true; changed;) {
      changed = false;
      RequestScope::Poll();
      for (size_t i = by_place_.size(); i-- > 0;) {
        Unit& u = At(by_place_[i]);
        if (!u.member) continue;
        u.closed = IsClosed(l_.g_.node(u.entry.id));
        if (!u.copyable && !u.closed) changed = Demote(&u);
      }
      for (const int m : by_place_) {
        Unit& u = At(m);
        if (!u.member || nodes_[u.entry.id].kind != NodeKind::kElementwise || u.copyable) continue;
        const EntryKeys inputs = l_.InputsOf(u.entry.id);
        if (std::none_of(inputs.begin(), inputs.end(), [&](const EntryKey& e) {
              return MemberOf(e) >= 0 && !At(MemberOf(e)).copyable;
            }))
          changed = Demote(&u);
      }
    }
    for (const int m : by_place_) {
      Unit& u = At(m);
      u.pinned = u.member && !u.copyable;
      if (!u.member) continue;
      for (const EntryKey& e : l_.InputsOf(u.entry.id))
        u.pinned |= MemberOf(e) >= 0 && At(MemberOf(e)).pinned;
    }
  }
  bool Demote(Unit* u) {
    u->member = false;
    leaves_.emplace(u->entry.packed(), members_.at(u->entry.id));
    return true;
  }
  bool IsClosed(NodePtr n) {
    if (nodes_.OutputUses(n) > 0) return false;
    for (const Use& use : n->uses()) {
      if (use.control && !l_.Writes(use.user)) return false;
      if (use.control) continue;
      const uint64_t slot = Slot(use.user->id(), use.slot);
      if (l_.redirected_.count(slot) || reads_.count(slot)) continue;
      const int m = MemberOf({use.user->id(), 0});
      if (m < 0 || !At(m).closed) return false;
    }
    return true;
  }

  /// False where nothing is to be computed late.
  bool Solve() {
    MinCut net;
    int64_t edges = 0;
    const auto add = [&](int from, int to, int64_t capacity) {
      net.AddEdge(from, to, capacity);
      ++edges;
    };
    for (Unit& u : units_) {
      u.out = net.AddNode();
      u.in = u.member ? net.AddNode() : -1;
      if (!u.member) {
        add(MinCut::kSource, u.out, KeepCost(u));
        continue;
      }
      add(MinCut::kSource, u.in, 1 + (u.closed ? 0 : l_.TwiceCost(l_.g_.node(u.entry.id))));
      add(u.in, u.out, KeepCost(u));
      if (u.read) add(u.out, MinCut::kSink, MinCut::kInfinite);
    }
    for (const int m : by_place_) {
      const Unit& u = At(m);
      if (!u.member) continue;
      for (const EntryKey& e : l_.InputsOf(u.entry.id)) {
        const int operand = e.present() ? UnitOf(e) : -1;
        if (operand < 0) continue;
        add(At(operand).out, u.in, MinCut::kInfinite);
        const Unit& o = At(operand);
        if (o.member && (o.pinned || o.closed))
          add(u.in, o.in, o.pinned ? MinCut::kInfinite : l_.TwiceCost(l_.g_.node(o.entry.id)));
      }
    }
    constexpr int64_t kWork = 100;  // looks at an edge
    if (!net.Solve(kWork * (edges + 100))) return false;
    bool any = false;
    for (Unit& u : units_) any |= u.late = u.member && net.IsWithSink(u.in);
    return any;
  }
  int64_t KeepCost(const Unit& u) {
    int64_t cost = 0;
    const NodePtr n = l_.g_.node(u.entry.id);
    if (!u.member && direct_.count(l_.RootOf(u.entry).packed())) return 0;
    if (!u.member || u.copyable) return l_.KeepCost(u.entry, time_);
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      if (nodes_.IsRead(n, i)) cost += l_.KeepCost({u.entry.id, i}, time_);
    return cost;
  }

  void Apply() {
    for (size_t i = by_place_.size(); i-- > 0;) {
      Unit& u = At(by_place_[i]);
      if (!u.late) continue;
      u.moved = u.closed && OnlyLateRead(l_.g_.node(u.entry.id));
      WEFT_ICHECK(u.moved || u.copyable, "{} is needed early and late",
                  l_.g_.node(u.entry.id)->Describe());
    }
    LatePlan& plan = l_.plan_;
    for (const int m : by_place_) {
      Unit& u = At(m);
      if (!u.late) continue;
      const EntryKeys inputs = l_.InputsOf(u.entry.id);
      LatePlan::Copy copy{u.entry.id, {}};
      for (uint32_t i = 0; i < inputs.count; ++i) {
        const int from = MemberOf(inputs[i]);
        const bool late = from >= 0 && At(from).late;
        copy.operands.push_back({inputs[i], late ? At(from).copy : -1});
        if (inputs[i].present() && !late) l_.Hold(l_.RootOf(inputs[i]), time_);
        if (u.moved && late && !At(from).moved) Redirect(u.entry.id, i, At(from).copy);
      }
      if (u.moved) {
        l_.moved_[u.entry.id] = 1;
        plan.moved.push_back(u.entry.id);
      } else {
        u.copy = int(plan.copies.size());
        plan.copies.push_back(std::move(copy));
      }
    }
    for (const Reader& r : readers_)
      if (At(r.unit).late && !At(r.unit).moved) Redirect(r.user, r.slot, At(r.unit).copy);
  }
  bool OnlyLateRead(NodePtr n) {
    return std::all_of(n->uses().begin(), n->uses().end(), [&](const Use& use) {
      const uint64_t slot = Slot(use.user->id(), use.slot);
      if (use.control || l_.redirected_.count(slot) || reads_.count(slot)) return true;
      return At(MemberOf({use.user->id(), 0})).moved;
    });
  }
  void Redirect(NodeId user, uint32_t slot, int copy) {
    l_.plan_.uses.push_back({user, slot, copy});
    l_.redirected_.insert(Slot(user, slot));
  }

  /// What is read from memory at this time is there for those before it.
  void HoldOperands() {
    for (const uint32_t k : kernels_) {
      const NodeId id = l_.order_[k]->id();
      if (l_.moved_[id]) continue;
      const EntryKeys inputs = l_.InputsOf(id);
      for (uint32_t i = 0; i < inputs.count; ++i)
        if (inputs[i].present() && l_.time_[inputs[i].id] < time_ && !l_.moved_[inputs[i].id] &&
            !l_.redirected_.count(Slot(id, i)))
          l_.Hold(l_.RootOf(inputs[i]), time_);
    }
  }

  FusionLate& l_;
  FusionNodes& nodes_;
  const int time_;
  const std::vector<uint32_t>& kernels_;
  std::vector<Unit> units_;
  std::vector<Reader> readers_;
  std::vector<int> by_place_;                 ///< members, operands first
  std::unordered_map<NodeId, int> members_;   // looked up only
  std::unordered_map<uint64_t, int> leaves_;  // looked up only
  std::unordered_set<uint64_t> reads_;        // of `readers_`; looked up only
  std::unordered_set<uint64_t> direct_;       // what kernels read that is no member; looked up only
};

void FusionLate::Cut(int time, const std::vector<uint32_t>& kernels) {
  RequestScope::Poll();
  Cutter(*this, time, kernels).Run();
}

}  // namespace weft
