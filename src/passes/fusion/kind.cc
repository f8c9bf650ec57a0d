/// kind.cc: the kind of an operator follows from its expression: no name lists, so operators from
/// outside the tree fuse as well as ours.
#include "kind.h"

#include <algorithm>

#include "weft/core/op/op.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// Index of one dimension of a load: an output position, a bound variable, or something else.
struct Coordinate {
  enum { kIndex, kReduce, kZero, kOther } what = kOther;
  int number = 0;
};
Coordinate ReadCoordinate(const Expr& e) {
  if (e->kind() == ExprKind::kIndex) return {Coordinate::kIndex, e->index()};
  if (e->kind() == ExprKind::kReduceVar) return {Coordinate::kReduce, e->index()};
  if (e->kind() == ExprKind::kConst && e->const_int() == 0) return {Coordinate::kZero, 0};
  return {};
}

/// Axes of the load that bound variables run over, when the others are output
/// positions in increasing order.
std::optional<std::vector<int>> RowAxes(const ExprNode& load) {
  if (load.has_guard()) return std::nullopt;
  std::vector<int> axes;
  int last_index = -1, last_var = -1;
  for (int d = 0; d < load.num_indices(); ++d) {
    const Coordinate c = ReadCoordinate(load.operand(d));
    if (c.what == Coordinate::kReduce) {
      if (c.number != last_var + 1) return std::nullopt;
      last_var = c.number;
      axes.push_back(d);
    } else if (c.what == Coordinate::kIndex) {
      if (c.number <= last_index) return std::nullopt;
      last_index = c.number;
    } else if (load.operand(d)->kind() != ExprKind::kConst) {  // one place of the row: a row value
      return std::nullopt;
    }
  }
  return axes;
}

bool IsIdentity(const ExprNode& load) {
  if (load.has_guard()) return false;
  for (int d = 0; d < load.num_indices(); ++d) {
    const Coordinate c = ReadCoordinate(load.operand(d));
    if (!(c.what == Coordinate::kIndex && c.number == d) && c.what != Coordinate::kZero)
      return false;
  }
  return true;
}

/// A multiple of an output position or of a bound variable.
using LinearTerm = std::pair<Coordinate, int64_t>;
/// e as a sum of at most two of them, plus a constant; none where it is something else.
std::optional<std::vector<LinearTerm>> LinearTerms(const Expr& e) {
  constexpr int64_t kMaxStep = 1 << 20;
  constexpr int kMaxSteps = 64;  // operations; an index of more is another one
  std::vector<LinearTerm> terms;
  std::vector<std::pair<Expr, int64_t>> rest{{e, 1}};
  for (int steps = 0; !rest.empty(); ++steps) {
    const auto [x, factor] = std::move(rest.back());
    rest.pop_back();
    if (steps == kMaxSteps) return std::nullopt;
    const Coordinate c = ReadCoordinate(x);
    if (c.what != Coordinate::kOther) {
      if (c.what != Coordinate::kZero) terms.emplace_back(c, factor);
      if (terms.size() > 2) return std::nullopt;
      continue;
    }
    const auto pure = [](const Expr& y) {
      return y->kind() == ExprKind::kConst || y->kind() == ExprKind::kDim;
    };
    if (pure(x)) continue;
    if (x->kind() != ExprKind::kBinary) return std::nullopt;
    const Expr &a = x->operand(0), &b = x->operand(1);
    const BinOp op = x->bin_op();
    if (op == BinOp::kMul) {
      const bool left = a->kind() == ExprKind::kConst;
      const Expr& constant = left ? a : b;
      if (constant->kind() != ExprKind::kConst) return std::nullopt;
      const int64_t by = constant->const_int();
      if (by <= 0 || by > kMaxStep || factor > kMaxStep) return std::nullopt;
      rest.emplace_back(left ? b : a, factor * by);
    } else if (op == BinOp::kAdd || (op == BinOp::kSub && pure(b))) {
      rest.emplace_back(b, factor);
      rest.emplace_back(a, factor);
    } else {
      return std::nullopt;
    }
  }
  return terms;
}

/// Is no element read twice, over all points of `rank` axes and all steps of the reduction? Each
/// axis steps over what the bound variable beside it covers.
bool ReadsOnce(const ExprNode& load, const ExprNode& reduce, int rank) {
  std::vector<uint8_t> seen(size_t(rank), 0), bound(reduce.extents().size(), 0);
  for (int d = 0; d < load.num_indices(); ++d) {
    const auto terms = LinearTerms(load.operand(d));
    if (!terms) return false;
    int64_t step = 0, covered = 1;
    for (const auto& [c, factor] : *terms) {
      std::vector<uint8_t>& used = c.what == Coordinate::kIndex ? seen : bound;
      if (size_t(c.number) >= used.size() || used[size_t(c.number)]++) return false;
      if (c.what == Coordinate::kIndex) {
        if (step != 0) return false;
        step = factor;
      } else {
        const SymInt extent = reduce.extents()[size_t(c.number)];
        if (factor != 1 || !extent.is_const()) return false;
        covered = extent.value();
      }
    }
    if (step != 0 ? covered > step : terms->size() > 1) return false;
  }
  return std::all_of(seen.begin(), seen.end(), [](uint8_t s) { return s; }) &&
         std::all_of(bound.begin(), bound.end(), [](uint8_t s) { return s; });
}

/// Local reductions: may what they read be computed where it is read?
NodeClass ClassifyLocal(const std::vector<const ExprNode*>& nodes, int rank) {
  NodeClass out{NodeKind::kLocal, {}, 0, false, false, {}};
  const ExprNode* reduce = nullptr;
  for (const ExprNode* e : nodes) {
    if (e->kind() != ExprKind::kReduce) continue;
    // Several reductions of one window read the same elements, in one loop.
    if (reduce && (reduce->extents() != e->extents() || reduce->level() != e->level())) return out;
    reduce = e;
  }
  for (const ExprNode* e : nodes)
    if (e->kind() == ExprKind::kLoad && !ReadsOnce(*e, *reduce, rank)) return out;
  out.reads_once = true;
  return out;
}

/// A reduction inside of `value` reads a position on the reduced `axes` of the output: then it is
/// another one at every point of a row (the product of all other elements).
bool KnowsPlaceInRow(const Expr& value, const std::vector<int>& axes) {
  for (const ExprNode* e : PostOrder({value})) {
    if (e->kind() != ExprKind::kReduce || e->is_invariant()) continue;
    for (const ExprNode* n : PostOrder(e->operands()))
      if (n->kind() == ExprKind::kIndex &&
          std::find(axes.begin(), axes.end(), n->index()) != axes.end())
        return true;
  }
  return false;
}

NodeClass ClassifyReduction(const Exprs& values, const std::vector<const ExprNode*>& nodes,
                            const FusionFacts& facts, const NodePtr& node) {
  const auto local = [&] { return ClassifyLocal(nodes, facts.shapes[NodeEntry(node)].rank()); };
  NodeClass out;
  int reductions = 0;
  std::optional<int> full;
  for (const ExprNode* e : nodes) {
    if (e->kind() == ExprKind::kReduce) ++reductions;
    if (e->kind() != ExprKind::kLoad) continue;
    const auto axes = RowAxes(*e);
    if (axes && !axes->empty()) {
      if (full && (*full != e->buffer() || *axes != out.axes)) return local();
      full = e->buffer();
      out.axes = *axes;
    } else if (!axes && !IsIdentity(*e)) {
      return local();
    }
  }
  if (!full || reductions == 0) return local();
  const Shape& in = facts.shapes[node->inputs[size_t(*full)]];
  for (const ExprNode* e : nodes) {
    if (e->kind() != ExprKind::kReduce) continue;
    if (e->extents().size() != out.axes.size()) return local();
    for (size_t i = 0; i < out.axes.size(); ++i)
      if (e->extents()[i] != in[out.axes[i]]) return local();
  }
  for (uint32_t k = 0; k < node->num_outputs(); ++k)
    if (facts.shapes[NodeEntry(node, k)].same(in) && KnowsPlaceInRow(values[k], out.axes))
      return local();
  out.kind = NodeKind::kReduction;
  out.full_input = *full;
  out.keeps_space = facts.shapes[NodeEntry(node)].same(in);
  return out;
}

/// Inputs all of whose loads are at fixed places.
std::vector<int> Parameters(const std::vector<const ExprNode*>& nodes, const NodePtr& node,
                            const FusionFacts& facts) {
  constexpr int64_t kMaxElements = 16;  // what a body holds in place of an input
  std::vector<int> fixed;
  for (uint32_t i = 0; i < node->num_inputs(); ++i) {
    const Shape* s = node->inputs[i].node ? facts.shapes.find(node->inputs[i]) : nullptr;
    if (!s || !s->is_static() || s->rank() == 0) continue;
    const SymInt count = s->num_elements();
    if (count.value() < 2 || count.value() > kMaxElements) continue;
    bool any = false, all = true;
    for (const ExprNode* e : nodes) {
      if (e->kind() != ExprKind::kLoad || e->buffer() != int(i)) continue;
      any = true;
      for (int d = 0; d < e->num_indices(); ++d)
        all = all && e->operand(d)->kind() == ExprKind::kConst;
    }
    if (any && all) fixed.push_back(int(i));
  }
  return fixed;
}

NodeClass Classify(const Exprs& values, const std::vector<const ExprNode*>& nodes, int rank,
                   const FusionFacts& facts, const NodePtr& node) {
  const bool reduces = std::any_of(
      nodes.begin(), nodes.end(), [](const ExprNode* e) { return e->kind() == ExprKind::kReduce; });
  if (reduces) return ClassifyReduction(values, nodes, facts, node);
  NodeClass out;
  out.kind = NodeKind::kInjective;
  const bool one_load = std::count_if(nodes.begin(), nodes.end(), [](const ExprNode* e) {
                          return e->kind() == ExprKind::kLoad;
                        }) == 1;
  for (const ExprNode* e : nodes) {
    if (e->kind() != ExprKind::kLoad || !one_load || e->has_guard()) continue;
    std::vector<int> perm(size_t(e->num_indices()), -1);
    bool ok = e->num_indices() == rank;
    for (int d = 0; ok && d < e->num_indices(); ++d) {
      const Coordinate c = ReadCoordinate(e->operand(d));
      ok = c.what == Coordinate::kIndex && perm[size_t(c.number)] < 0;
      if (ok) perm[size_t(c.number)] = d;
    }
    if (ok) out.perm = perm;
  }
  return out;
}

}  // namespace

NodeClass ClassifyGeneral(const NodePtr& node, const FusionFacts& facts) {
  std::vector<TensorArg> args;
  for (uint32_t i = 0; i < node->num_inputs(); ++i) {
    TensorArg a;
    const NodeEntry& e = node->inputs[i];
    a.present = bool(e.node);
    if (e.node) {
      a.shape = facts.shapes[e];
      a.dtype = facts.types[e].dtype;
      if (const SymTensorPtr* v = facts.values.find(e)) a.value = v->get();
      const DType t = ValueTypeOf(a.dtype);
      a.read = [i, t](const Indices& at) { return Expr::Load(int(i), t, at); };
    }
    args.push_back(std::move(a));
  }
  OutputAt at;
  for (uint32_t k = 0; k < node->num_outputs(); ++k) {
    at.shape.push_back(facts.shapes[NodeEntry(node, k)]);
    at.dtype.push_back(facts.types[NodeEntry(node, k)].dtype);
    Indices index;
    for (int d = 0; d < at.shape.back().rank(); ++d) index.push_back(Expr::Index(d));
    at.index.push_back(std::move(index));
  }
  Exprs values;
  try {
    values = ExpandNode(node, args, at);
  } catch (const UserError& e) {
    // Values that only the run knows decide what it computes.
    if (e.code() != ErrorCode::kUnsupported) throw;
    return {};
  }
  const std::vector<const ExprNode*> nodes = PostOrder(values);
  NodeClass out = Classify(values, nodes, at.shape[0].rank(), facts, node);
  out.parameters = Parameters(nodes, node, facts);
  return out;
}

}  // namespace weft
