/// index_check.cc: what a kernel does about indices that come out of tensors.
///
/// The interpreter throws at the first index outside its axis. A kernel cannot: it cuts the index
/// or leaves the load out, so that it reads inside its buffers whatever the tensor holds, and
/// reports through its range flag (weft/codegen/kernel/kernel.h) that it had to. What is reported
/// is what the interpreter throws for: a load that is evaluated, its guard true, an index outside.
/// Where the simplifier proves that cutting changes nothing, both are gone.
///
/// A load inside of a reduction is reported by a reduction of its own, "any of them was outside",
/// over the same loops: printers compute both in one walk over a row.
#include <algorithm>

#include "nest.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// No loop bounds it: its value comes out of a tensor, or is the same for all points (an index
/// tensor whose value is known, counted from the end of a symbolic extent).
bool IsUnbounded(const Expr& index, SymInt extent) {
  if (index->kind() == ExprKind::kConst) {
    const int64_t i = index->const_int();
    return i < 0 || (extent.is_const() ? i >= extent.value() : i > 0);
  }
  bool loops = false;
  for (const ExprNode* n : PostOrder({index})) {
    if (n->kind() == ExprKind::kLoad || n->kind() == ExprKind::kVariable) return true;
    loops = loops || n->kind() == ExprKind::kIndex;
  }
  return !loops;
}

bool MayBeEmpty(SymInt extent) { return !extent.is_const() || extent.value() <= 0; }

/// 0 <= index < extent in one comparison: below 0 is a large unsigned number.
Expr Inside(const Expr& index, const Expr& extent) {
  return Lt(Expr::Cast(DType::kU64, index), Expr::Cast(DType::kU64, extent));
}

bool DependsOn(const Expr& e, int first, int end) {
  for (const ExprNode* n : PostOrder({e})) {
    if (n->kind() == ExprKind::kIndex && n->index() >= first && n->index() < end) return true;
  }
  return false;
}

/// Where neighbouring points have indices of their own, each is a lane of a gather, which has a
/// mask anyway: it leaves out what is outside. Elsewhere an index is cut, once for a run of points,
/// and what is read stays a plain load.
bool IsLeftOut(const Expr& index, int lane_loop) {
  return lane_loop >= 0 && DependsOn(index, lane_loop, lane_loop + 1);
}

Expr Cut(const Expr& index, const Expr& extent) {
  return Max(Expr::Int(0), Min(index, extent - Expr::Int(1)));
}

/// Conditions of which any is enough; equal ones once.
class AnyOf {
 public:
  void Add(const Expr& e) {
    if (std::find(seen_.begin(), seen_.end(), e) != seen_.end()) return;
    seen_.push_back(e);
    value_ = value_ ? Or(value_, e) : e;
  }
  const Expr& value() const { return value_; }

 private:
  Exprs seen_;
  Expr value_;
};

class FlagMaker {
 public:
  FlagMaker(Nest* nest, const ComputeSpec& spec)
      : nest_(*nest),
        spec_(spec),
        rows_(nest->has_rows()),
        of_reduction_(nest->reductions.size()) {}

  void Run() {
    AnyOf per_point, per_row;
    for (int k : DependencyOrder(nest_)) {
      const Expr outside = InLoopsOf(k, Outside(nest_.reductions[size_t(k)].body, !rows_));
      of_reduction_[size_t(k)] = outside;
      // All reductions of a row are computed once a row, whoever uses them.
      if (rows_ && outside) per_row.Add(outside);
    }
    for (const Nest::Store& s : nest_.stores) {
      const Expr outside = Outside(s.value, !rows_);
      if (!outside) continue;
      if (s.per_row)
        per_row.Add(outside);
      else if (rows_ && !DependsOn(outside, nest_.num_outer, nest_.num_dims))
        per_row.Add(WhereLoopsRun(outside, nest_.num_outer, nest_.num_dims));
      else
        per_point.Add(outside);
    }
    if (per_point.value()) nest_.flags.push_back({per_point.value(), false});
    if (per_row.value()) nest_.flags.push_back({per_row.value(), true});
  }

 private:
  /// Some load of `e` is outside; null when none can be. `uses`: also those of the
  /// reductions that e uses.
  Expr Outside(const Expr& e, bool uses) {
    AnyOf any;
    for (const ExprNode* n : PostOrder({e})) {
      if (const int k = n->slot(); k >= 0) {
        if (uses && of_reduction_[size_t(k)]) any.Add(of_reduction_[size_t(k)]);
      } else if (n->kind() == ExprKind::kLoad) {
        AddLoad(*n, &any);
      }
    }
    return any.value();
  }

  void AddLoad(const ExprNode& load, AnyOf* any) {
    WEFT_ICHECK(load.buffer() < int(spec_.inputs.size()), "load of input {} of {}", load.buffer(),
                spec_.inputs.size());
    const std::vector<SymInt>& dims = spec_.inputs[size_t(load.buffer())].dims;
    const Expr guard = load.has_guard() ? load.operands().back() : Expr();
    for (int d = 0; d < load.num_indices(); ++d) {
      const Expr& index = load.operand(d);
      if (!IsUnbounded(index, dims[size_t(d)])) continue;
      const Expr extent = Expr::Dim(dims[size_t(d)]);
      Expr outside;
      if (IsLeftOut(index, nest_.num_dims - 1)) {
        outside = Not(Inside(index, extent));
      } else {
        outside = Ne(index, Cut(index, extent));
        if (MayBeEmpty(dims[size_t(d)])) outside = Or(outside, Le(extent, Expr::Int(0)));
      }
      any->Add(guard ? And(guard, outside) : outside);
    }
  }

  /// e, where loops [first, end) have a point at all.
  Expr WhereLoopsRun(Expr e, int first, int end) const {
    for (int i = first; i < end; ++i) {
      const SymInt extent = nest_.loops[size_t(i)];
      if (MayBeEmpty(extent)) e = And(e, Lt(Expr::Int(0), Expr::Dim(extent)));
    }
    return e;
  }

  /// e at any point of the loops of reduction k.
  Expr InLoopsOf(int k, const Expr& e) {
    if (!e) return e;
    const Nest::Reduction r = nest_.reductions[size_t(k)];
    if (!DependsOn(e, r.first, r.first + r.count))
      return WhereLoopsRun(e, r.first, r.first + r.count);
    nest_.reductions.push_back({ReduceOp::kAny, r.first, r.count, e});
    return Expr::Slot(int(nest_.reductions.size()) - 1, DType::kBool);
  }

  Nest& nest_;
  const ComputeSpec& spec_;
  const bool rows_;
  Exprs of_reduction_;  ///< of the reductions that were there before
};

}  // namespace

void KeepInside(Indices* at, const std::vector<SymInt>& dims, int lane_loop, Expr* guard) {
  const auto require = [&](const Expr& e) { *guard = *guard ? And(*guard, e) : e; };
  for (size_t d = 0; d < at->size(); ++d) {
    Expr& index = (*at)[d];
    if (!IsUnbounded(index, dims[d])) continue;
    const Expr extent = Expr::Dim(dims[d]);
    if (IsLeftOut(index, lane_loop)) {
      require(Inside(index, extent));
      continue;
    }
    index = Cut(index, extent);
    if (MayBeEmpty(dims[d])) require(Lt(Expr::Int(0), extent));
  }
}

void AddRangeFlags(Nest* nest, const ComputeSpec& spec) { FlagMaker(nest, spec).Run(); }

void DropFalseFlags(Nest* nest) {
  auto& reductions = nest->reductions;
  // Where a body is never true, nothing is left of the reduction in what uses it.
  const auto settle = [&](const Expr& e) {
    return RewriteExpr(e, [&](const Expr& x) -> Expr {
      const int r = x->slot();
      const bool never = r >= 0 && reductions[size_t(r)].op == ReduceOp::kAny &&
                         reductions[size_t(r)].body->is_const(0);
      return never ? Expr::Bool(false) : Expr();
    });
  };
  for (int k : DependencyOrder(*nest)) {
    Nest::Reduction& r = reductions[size_t(k)];
    if (r.op == ReduceOp::kAny) r.body = settle(r.body);
  }
  for (Nest::RangeFlag& f : nest->flags) f.value = settle(f.value);
  nest->flags.erase(std::remove_if(nest->flags.begin(), nest->flags.end(),
                                   [](const auto& f) { return f.value->is_const(0); }),
                    nest->flags.end());
}

std::vector<int> DependencyOrder(const Nest& nest) {
  const int n = int(nest.reductions.size());
  std::vector<std::vector<int>> uses(static_cast<size_t>(n));
  for (int k = 0; k < n; ++k) {
    for (const ExprNode* v : PostOrder({nest.reductions[size_t(k)].body})) {
      if (const int r = v->slot(); r >= 0) uses[size_t(k)].push_back(r);
    }
  }
  std::vector<int> order;
  std::vector<size_t> next(size_t(n), 0);
  std::vector<char> state(size_t(n), 0);
  for (int root = 0; root < n; ++root) {
    std::vector<int> stack;
    if (!state[size_t(root)]) stack.push_back(root), state[size_t(root)] = 1;
    while (!stack.empty()) {
      const int k = stack.back();
      if (next[size_t(k)] == uses[size_t(k)].size()) {
        order.push_back(k);
        stack.pop_back();
        continue;
      }
      const int u = uses[size_t(k)][next[size_t(k)]++];
      if (!state[size_t(u)]) stack.push_back(u), state[size_t(u)] = 1;
    }
  }
  return order;
}

}  // namespace weft
