/// late.cc: times and holds in one look at the graph, then one cut for every time at which kernels
/// read what is older, over what stands close before them: near-linear, since a region grows with
/// the number of its readers only.
#include "late.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "weft/core/graph/effects.h"
#include "weft/core/op/op.h"
#include "weft/support/error.h"
#include "weft/support/min_cut.h"
#include "weft/support/request.h"

namespace weft {
namespace {

// Costs in thousandths of a byte. Measured on graphs of EfficientNet, ViT and ResNet: a tensor that
// is neither written nor read again pays for ten calls of exp and more.
constexpr int64_t kHeldByte = 1000;    // in memory from where it is there to its reader
constexpr int64_t kWrittenByte = 500;  // written for its late reader only
constexpr int64_t kReadByte = 250;
constexpr size_t kBetweenPolls = 1024;  // nodes
constexpr int kShortWay = 8;            // calls; what is read again so soon seldom holds the peak
constexpr int64_t kStep = 30, kDivision = 150, kCall = 600;  // an element

/// a * b, at most what a cut may add up.
int64_t Times(int64_t a, int64_t b) {
  int64_t out = 0;
  constexpr int64_t kMost = MinCut::kInfinite / (int64_t{1} << 22);
  return __builtin_mul_overflow(a, b, &out) ? kMost : std::min(out, kMost);
}

int64_t CostOf(const ExprNode& e) {
  switch (e.kind()) {
    case ExprKind::kCall:
    case ExprKind::kPhilox:
      return kCall;
    case ExprKind::kBinary:
      return e.bin_op() == BinOp::kDiv || e.bin_op() == BinOp::kMod ? kDivision : kStep;
    case ExprKind::kUnary:
      return e.un_op() == UnOp::kSqrt ? kDivision : kStep;
    case ExprKind::kSelect:
    case ExprKind::kCast:
    case ExprKind::kFma:
      return kStep;
    default:
      return 0;
  }
}

}  // namespace

FusionLate::FusionLate(const Graph& g, PassContext& ctx)
    : g_(g), ctx_(ctx), nodes_(g, ctx.target(), ctx.option<int64_t>("libraries") != 0) {}

LatePlan FusionLate::Run() {
  order_ = g_.TopoOrder();
  // Without a call nothing waits.
  if (std::none_of(order_.begin(), order_.end(),
                   [&](const NodePtr& n) { return !n->is_variable() && nodes_.MayWait(n->op()); }))
    return {};
  Read();
  FindTimes();
  FindHolds();
  int last = 0;
  for (const NodePtr& n : order_) last = std::max(last, time_[n->id()]);
  std::vector<std::vector<uint32_t>> readers(size_t(last) + 1);
  for (size_t k = 0; k < order_.size(); ++k)
    if (IsSoft(order_[k]->id())) readers[size_t(time_[order_[k]->id()])].push_back(uint32_t(k));
  for (int time = last; time > 0; --time) Cut(time, readers[size_t(time)]);
  return std::move(plan_);
}

void FusionLate::Read() {
  place_.assign(g_.id_bound(), 0);
  waits_.assign(g_.id_bound(), 0);
  moved_.assign(g_.id_bound(), 0);
  begin_.assign(1, 0);
  for (size_t k = 0; k < order_.size(); ++k) {
    if (k % kBetweenPolls == 0) RequestScope::Poll();
    const NodePtr n = order_[k];
    place_[n->id()] = uint32_t(k);
    for (const NodeEntry& e : n->inputs)
      inputs_.push_back({e.node ? e.node->id() : EntryKey::kAbsent, e.index});
    begin_.push_back(uint32_t(inputs_.size()));
    nodes_.Look(n, InputsOf(n->id()));
    waits_[n->id()] = nodes_[n->id()].kind == NodeKind::kOpaque && !nodes_.IsGroup(n->id()) &&
                      nodes_.ContentOf(n->id()) == EntryKey::kAbsent &&
                      !Graph::ConstantOf(NodeEntry(n));
  }
}

bool FusionLate::Writes(NodePtr n) const { return !WrittenInputs(n).empty(); }

void FusionLate::FindTimes() {
  time_.assign(g_.id_bound(), 0);
  latest_.assign(g_.id_bound(), 0);
  for (const NodePtr& n : order_)
    for (const EntryKey& e : InputsOf(n->id()))
      if (e.present()) time_[n->id()] = std::max(time_[n->id()], time_[e.id] + int(waits_[e.id]));
  for (size_t k = order_.size(); k-- > 0;) {
    if (k % kBetweenPolls == 0) RequestScope::Poll();
    const NodePtr n = order_[k];
    int latest = kForever;
    for (const Use& u : n->uses()) {
      if (u.control && Writes(u.user)) continue;  // may wait as well
      const NodeKind kind = nodes_[u.user->id()].kind;
      const bool fixed = u.control || kind == NodeKind::kOpaque || kind == NodeKind::kLocal;
      latest = std::min(latest, (fixed ? time_ : latest_)[u.user->id()]);
    }
    const bool ends = latest == kForever || nodes_.OutputUses(n) > 0;
    latest_[n->id()] = ends ? time_[n->id()] : std::max(latest, time_[n->id()]);
  }
}

/// Through views, to what lies in memory.
EntryKey FusionLate::RootOf(EntryKey e) {
  for (const Op* op = order_[place_[e.id]]->op(); op && nodes_.IsView(op);
       op = order_[place_[e.id]]->op())
    e = InputsOf(e.id)[0];
  return e;
}
void FusionLate::Hold(const EntryKey& e, int time) {
  int& held = e.index == 0 ? held_[e.id] : more_held_.emplace(e.packed(), kNever).first->second;
  held = std::max(held, time);
}
int FusionLate::HeldUntil(const EntryKey& e) const {
  if (e.index == 0) return held_[e.id];
  const auto it = more_held_.find(e.packed());
  return it == more_held_.end() ? kNever : it->second;
}

void FusionLate::FindHolds() {
  held_.assign(g_.id_bound(), kNever);
  for (const NodeEntry& e : g_.outputs) Hold({e.node->id(), e.index}, kForever);
  for (size_t k = order_.size(); k-- > 0;) {
    if (k % kBetweenPolls == 0) RequestScope::Poll();
    const NodePtr n = order_[k];
    const NodeId id = n->id();
    const NodeKind kind = nodes_[id].kind;
    if (kind == NodeKind::kShapeOnly || nodes_.IsGroup(id)) continue;
    const EntryKeys inputs = InputsOf(id);
    if (!n->is_variable() && nodes_.IsView(n->op())) {
      Hold(inputs[0], held_[id]);
    } else if (!IsSoft(id)) {
      for (const EntryKey& e : inputs)
        if (e.present()) Hold(e, time_[id]);
    }
  }
}

int64_t FusionLate::Bytes(const EntryKey& e) {
  const int shape = nodes_.ShapeOf(e);
  if (shape < 0) return std::numeric_limits<int64_t>::max();
  const int64_t n = nodes_.spaces().Elements(nodes_.spaces().SpaceOf(shape));
  return Times(n, std::max(1, DTypeBits(nodes_.TypeOf(e)) / 8));
}

int64_t FusionLate::KeepCost(const EntryKey& e, int time) {
  const EntryKey root = RootOf(e);
  const int64_t bytes = Bytes(root);
  if (nodes_.ContentOf(root.id) != EntryKey::kAbsent ||
      Graph::ConstantOf(NodeEntry(g_.node(root.id))))
    return Times(bytes, kReadByte);
  const int ready = time_[root.id] + int(waits_[root.id]), held = HeldUntil(root);
  const int64_t way = std::max(kShortWay, time - ready), alone = time - std::max(ready, held);
  int64_t cost = Times(bytes, kReadByte + (alone <= 0 ? 0 : kHeldByte * alone / way));
  if (held == kNever && nodes_[root.id].kind != NodeKind::kOpaque)
    cost += Times(bytes, kWrittenByte);
  return cost;
}

/// Of one element, in thousandths of a byte.
int64_t FusionLate::Arithmetic(NodePtr n) {
  if (nodes_.IsView(n->op())) return 0;
  const auto [it, fresh] = arithmetic_.emplace(n->op(), kStep);
  if (!fresh) return it->second;
  const FCodeGen* code = Op::GetAttr<FCodeGen>("FCodeGen").find(n->op());
  if (!code || !code->elementwise) return it->second;
  Exprs in;
  const EntryKeys inputs = InputsOf(n->id());
  for (uint32_t i = 0; i < inputs.count; ++i)
    in.push_back(inputs[i].present() ? Expr::Slot(int(i), ValueTypeOf(nodes_.TypeOf(inputs[i])))
                                     : Expr());
  try {
    const Exprs values = code->elementwise(n, in);
    it->second = 0;
    for (const ExprNode* e : PostOrder(values)) it->second += CostOf(*e);
  } catch (const UserError&) {
    it->second = kStep;  // code generation tells what is wrong
  }
  return it->second;
}

int64_t FusionLate::TwiceCost(NodePtr n) {
  return Times(nodes_.spaces().Elements(nodes_.SpaceOf({n->id(), 0})), Arithmetic(n));
}

/// An element-wise operator over `space` that may be computed twice.
bool FusionLate::IsCopyable(NodePtr n, int space) {
  const NodeId id = n->id();
  if (nodes_[id].kind != NodeKind::kElementwise || !nodes_[id].computable || nodes_.Assigns(id) ||
      n->num_outputs() != 1 || nodes_.SpaceOf({id, 0}) != space || !n->control_deps.empty())
    return false;
  return true;
}
/// A reduction of `space` that only late nodes read.
bool FusionLate::IsMovable(NodePtr n, int space, int time) {
  const NodeId id = n->id();
  if (nodes_[id].kind != NodeKind::kReduction || latest_[id] < time || !n->control_deps.empty())
    return false;
  const EntryKey& full = InputsOf(id)[uint32_t(nodes_.ClassOf(id)->full_input)];
  return full.present() && nodes_.SpaceOf(full) == space;
}
/// Made of such a reduction, perhaps.
bool FusionLate::IsRowValue(NodePtr n, int space, int time) {
  const NodeId id = n->id();
  return latest_[id] >= time && nodes_[id].kind == NodeKind::kElementwise &&
         IsCopyable(n, nodes_.SpaceOf({id, 0})) && nodes_.SpaceOf({id, 0}) != space &&
         !nodes_.spaces().space_extents(nodes_.SpaceOf({id, 0})).empty();
}

}  // namespace weft
