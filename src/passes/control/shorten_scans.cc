/// shorten_scans.cc: ShortenScans. A Scan of whose results only those of its first iterations are
/// read ends there.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      cuts a Scan whose final states are read, or that is cut by less than half
///   cost       linear in nodes behind the results of Scans and their expressions
///
///   y = Scan(h, x [50, ..]) {from the end to the first};  y[49] read
///     ->  Pad(Scan(h, x[49:50]) {..}, 49 in front)
///
/// The last output of a bidirectional network is the last of one direction and the first of the
/// other. What reads it selects behind a Concat, Transpose and Reshape: their expressions say where
/// the steps lie in what they give. The zeros in the place of what is not computed are not read,
/// and vanish in the kernel that selects.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "loop_parts.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/codegen/lower/lower.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

/// Which positions along an axis of a tensor are read in the end.
class Positions {
 public:
  Positions(const Graph& g) : g_(g), shapes_(g.GetAttr<ShapeMap>("shape")) {}
  const std::set<int64_t>& read() const { return read_; }
  /// False: it is not known, or all.
  bool Find(const NodeEntry& e, int axis) {
    constexpr size_t kMost = 64;  // nodes between a result and what selects of it
    std::vector<std::pair<NodeEntry, int>> work{{e, axis}};
    for (size_t i = 0; i < work.size(); ++i) {
      const auto [at, where] = work[i];
      if (work.size() > kMost || IsGiven(at)) return false;
      for (const Use& u : at.node->uses()) {
        if (u.control) return false;
        if (u.user->inputs[u.slot] == at && !Follow(u.user, u.slot, at, where, &work)) return false;
      }
    }
    return true;
  }

 private:
  bool IsGiven(const NodeEntry& e) const {
    return std::find(g_.outputs.begin(), g_.outputs.end(), e) != g_.outputs.end();
  }
  bool Follow(const NodePtr& n, size_t slot, const NodeEntry& e, int axis,
              std::vector<std::pair<NodeEntry, int>>* work) {
    if (!IsRepeatable(n)) return false;
    if (IsOp(n, "Reshape")) return FollowReshape(n, slot, e, axis, work);
    std::string why;
    const std::optional<ComputeSpec> spec = TryExpand(g_, n, &why);
    if (!spec) return false;
    int buffer = 0;
    for (size_t i = 0; i < slot; ++i) buffer += n->inputs[i].node ? 1 : 0;
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      int moved = -1;
      for (const ExprNode* x : PostOrder({spec->values[k]})) {
        if (x->kind() != ExprKind::kLoad || x->buffer() != buffer) continue;
        if (axis >= x->num_indices()) return false;
        const Expr& at = x->operand(axis);
        if (at->kind() == ExprKind::kConst) {
          read_.insert(at->const_int());
        } else if (at->kind() == ExprKind::kIndex && (moved < 0 || moved == at->index())) {
          moved = at->index();
        } else {
          return false;
        }
      }
      if (moved >= 0) work->emplace_back(NodeEntry(n, k), moved);
    }
    return true;
  }
  /// The axis stays one where what stands in front of it is as large before as after.
  bool FollowReshape(const NodePtr& n, size_t slot, const NodeEntry& e, int axis,
                     std::vector<std::pair<NodeEntry, int>>* work) const {
    const Shape &x = shapes_[e], &y = shapes_[NodeEntry(n)];
    if (slot != 0 || !x.is_static() || !y.is_static()) return false;
    int64_t in_front = 1, so_far = 1;
    for (int i = 0; i < axis; ++i) in_front *= x[i].value();
    for (int i = 0; i < y.rank(); ++i) {
      if (so_far == in_front && y[i] == x[axis]) {
        work->emplace_back(NodeEntry(n), i);
        return true;
      }
      so_far *= y[i].value();
    }
    return false;
  }

  const Graph& g_;
  const ShapeMap& shapes_;
  std::set<int64_t> read_;
};

/// A Scan that can end early.
struct Cut {
  explicit Cut(const NodePtr& n) : scan(n) {}
  LoopParts scan;
  int64_t length = 0, needed = 0;
  std::vector<int> slice_axes, result_axes;
};

std::optional<Cut> FindCut(const Graph& g, const NodePtr& n) {
  if (!IsOp(n, "Scan") || HasEffect(n)) return std::nullopt;
  const auto& shapes = g.GetAttr<ShapeMap>("shape");
  Cut c(n);
  const LoopParts& scan = c.scan;
  for (uint32_t k = 0; k < scan.states; ++k) {
    const NodeEntry state(n, k);
    for (const Use& u : n->uses())
      if (u.control || u.user->inputs[u.slot] == state) return std::nullopt;
    for (const NodeEntry& e : g.outputs)
      if (e == state) return std::nullopt;
  }
  for (size_t k = 0; k < scan.slices; ++k) {
    const Shape& x = shapes[n->inputs[scan.first_slice() + k]];
    if (!x.is_static() || x.rank() == 0) return std::nullopt;
    c.slice_axes.push_back(scan.slice_axis(k, x.rank()));
    c.length = x[c.slice_axes.back()].value();
  }
  for (uint32_t k = uint32_t(scan.states); k < n->num_outputs(); ++k) {
    const Shape& y = shapes[NodeEntry(n, k)];
    if (!y.is_static()) return std::nullopt;
    const auto axis = int(scan.result_axis(k - scan.states));
    c.result_axes.push_back(axis < 0 ? axis + y.rank() : axis);
    Positions positions(g);
    if (!positions.Find(NodeEntry(n, k), c.result_axes.back())) return std::nullopt;
    const bool backward = scan.result_direction(k - scan.states) == 1;
    for (const int64_t at : positions.read()) {
      if (at < 0 || at >= c.length) return std::nullopt;
      c.needed = std::max(c.needed, (backward ? c.length - 1 - at : at) + 1);
    }
  }
  return c.needed > 0 && c.needed <= c.length / 2 ? std::optional(c) : std::nullopt;
}

/// [begin, end) of an axis of an operand. Where nothing else reads a product or what is done
/// element by element, only so much of it is computed.
class Slicer {
 public:
  explicit Slicer(Graph& g, const ShapeMap& shapes) : g_(g), shapes_(shapes) {}
  NodeEntry Slice(NodeEntry e, int axis, int64_t begin, int64_t end) {
    std::vector<std::pair<NodePtr, size_t>> above;  // nodes to compute of less, by which operand
    while (const std::optional<size_t> slot = Through(e, axis)) {
      const NodePtr n = e.node;
      above.emplace_back(n, *slot);
      e = n->inputs[*slot];
      axis = IsOp(n, "Transpose") ? int(n->attr<Ints>("perm")[size_t(axis)])
                                  : axis + shapes_[e].rank() - shapes_[NodeEntry(n)].rank();
    }
    const auto ints = [&](int64_t v) { return g_.AddConstant(Tensor::Ints({v})); };
    NodeEntry out(g_.AddNode("Slice", {e, ints(begin), ints(end), ints(axis)}));
    for (auto it = above.rbegin(); it != above.rend(); ++it) {
      std::vector<NodeEntry> inputs(it->first->inputs.begin(), it->first->inputs.end());
      inputs[it->second] = out;
      out = NodeEntry(g_.AddCopy(it->first, inputs));
    }
    return out;
  }

 private:
  /// The operand of which only that part is needed.
  std::optional<size_t> Through(const NodeEntry& e, int axis) const {
    static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
    const NodePtr n = e.node;
    if (n->is_variable() || Graph::ConstantOf(e) || n->num_outputs() != 1 || !IsRepeatable(n) ||
        n->uses().size() != 1 || g_.is_output(n))
      return std::nullopt;
    const Shape* y = shapes_.find(e);
    if (!y || !y->is_static()) return std::nullopt;
    if (IsOp(n, "Transpose") && n->has_attr("perm")) return 0;
    if (IsOp(n, "MatMul")) {
      const Shape &a = shapes_[n->inputs[0]], &b = shapes_[n->inputs[1]];
      const bool rows = a.has_rank() && b.has_rank() && b.rank() == 2 && a.rank() == y->rank();
      return rows && axis < y->rank() - 1 ? std::optional<size_t>(0) : std::nullopt;
    }
    const FCodeGen* f = code.find(n->op());
    if (!f || !f->elementwise) return std::nullopt;
    std::optional<size_t> found;
    for (size_t i = 0; i < n->num_inputs(); ++i) {
      if (!n->inputs[i].node) continue;
      const Shape& x = shapes_[n->inputs[i]];
      if (!x.is_static()) return std::nullopt;
      const int own = axis - (y->rank() - x.rank());
      if (own < 0 || x[own].is(1)) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  }

  Graph& g_;
  const ShapeMap& shapes_;
};

void ShortenScan(Graph& g, const ShapeMap& shapes, const Cut& c) {
  const LoopParts& scan = c.scan;
  const NodePtr& n = scan.node;
  std::vector<NodeEntry> operands(n->inputs.begin(), n->inputs.end());
  for (size_t k = 0; k < scan.slices; ++k) {
    const bool backward = scan.slice_direction(k) == 1;
    const int64_t begin = backward ? c.length - c.needed : 0;
    NodeEntry& e = operands[scan.first_slice() + k];
    e = Slicer(g, shapes).Slice(e, c.slice_axes[k], begin, begin + c.needed);
  }
  const NodePtr made = g.AddNode(n->op(), operands, n->attrs.dict, n->attrs.name);
  std::vector<NodeEntry> results(scan.states);
  for (uint32_t k = uint32_t(scan.states); k < n->num_outputs(); ++k) {
    const bool backward = scan.result_direction(k - scan.states) == 1;
    const size_t rank = size_t(shapes[NodeEntry(n, k)].rank());
    std::vector<int64_t> pads(2 * rank, 0);
    pads[size_t(c.result_axes[k - scan.states]) + (backward ? 0 : rank)] = c.length - c.needed;
    results.emplace_back(g.AddNode("Pad", {NodeEntry(made, k), g.AddConstant(Tensor::Ints(pads))}));
  }
  ReplaceLoop(g, n, results);
}

Graph ShortenScans(Graph g, PassContext& ctx) {
  std::vector<Cut> cuts;
  for (const NodePtr& n : g.TopoOrder())
    if (const std::optional<Cut> c = FindCut(g, n); c && ctx.Fuel("shortened", n))
      cuts.push_back(*c);
  if (cuts.empty()) return g;
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  for (const Cut& c : cuts) ShortenScan(g, shapes, c);
  ctx.Count("shortened", int64_t(cuts.size()));
  g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(ShortenScans)
    .describe("ends a Scan behind the last iteration whose results are read")
    .set_body(ShortenScans)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("shortened", "loops");

}  // namespace
}  // namespace weft
