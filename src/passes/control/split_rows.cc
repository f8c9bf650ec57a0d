/// split_rows.cc: SplitRows. A Scan whose body does the same to every row of its states and slices
/// runs in parts, each all iterations over some rows.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      splits what lets rows meet, or rows that do not divide into parts
///   cost       linear in nodes of bodies and their expressions
///
///   h = Scan(h0 [32, k], x [t, 32, k]) {body of [32, k]}
///     ->  the same {parts = 2; body of [16, k]}
///
/// The sequences of a batch know nothing of each other. Threads that share a step wait for each
/// other in every one, twice: behind the product and behind the gates; threads that share the rows
/// wait once. What an operator does to rows its expression says: in an element of row r of its
/// result, all operands that have rows are read in row r, and r is read nowhere else.
#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "loop_parts.h"
#include "weft/codegen/lower/lower.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

constexpr int kNoRows = -1;

/// Which axis of each entry of a body has the rows.
class RowAxes {
 public:
  explicit RowAxes(const Graph& body) : body_(body) {}
  void Set(const NodeEntry& e, int axis) { axes_[e.key()] = axis; }
  int of(const NodeEntry& e) const {
    const auto it = axes_.find(e.key());
    return it == axes_.end() ? kNoRows : it->second;
  }
  /// Goes on behind the node; false: rows meet in it.
  bool Follow(const NodePtr& n) {
    std::vector<int> axes;  // of the present inputs
    for (const NodeEntry& e : n->inputs)
      if (e.node) axes.push_back(of(e));
    if (std::all_of(axes.begin(), axes.end(), [](int a) { return a == kNoRows; })) return true;
    if (!IsRepeatable(n)) return false;
    std::string why;
    const std::optional<ComputeSpec> spec = TryExpand(body_, n, &why);
    if (!spec || spec->inputs.size() != axes.size()) return false;
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const std::optional<int> axis = AxisOf(spec->values[k], axes);
      if (!axis) return false;
      Set(NodeEntry(n, k), *axis);
    }
    return true;
  }

 private:
  static std::optional<int> AxisOf(const Expr& value, const std::vector<int>& axes) {
    const std::vector<const ExprNode*> all = PostOrder({value});
    const auto rows_of = [&](const ExprNode* x) {
      const bool load = x->kind() == ExprKind::kLoad && size_t(x->buffer()) < axes.size();
      return load ? axes[size_t(x->buffer())] : kNoRows;
    };
    int axis = kNoRows;
    for (const ExprNode* x : all) {
      const int rows = rows_of(x);
      if (rows == kNoRows) continue;
      if (rows >= x->num_indices()) return std::nullopt;
      const Expr& at = x->operand(rows);
      if (at->kind() != ExprKind::kIndex || (axis != kNoRows && axis != at->index()))
        return std::nullopt;
      axis = at->index();
    }
    if (axis == kNoRows) return std::nullopt;
    const auto is_row = [&](const Expr& e) {
      return e->kind() == ExprKind::kIndex && e->index() == axis;
    };
    if (is_row(value)) return std::nullopt;
    for (const ExprNode* x : all)
      for (int i = 0; i < int(x->operands().size()); ++i)
        if (is_row(x->operand(i)) && i != rows_of(x)) return std::nullopt;
    return axis;
  }

  const Graph& body_;
  std::unordered_map<EntryKey, int> axes_;
};

/// Slices and results lie one behind the other.
bool UsesFirstAxes(const LoopParts& scan) {
  for (size_t k = 0; k < scan.slices; ++k)
    if (scan.slice_axis(k) != 0) return false;
  for (size_t k = 0; k < scan.results; ++k)
    if (scan.result_axis(k) != 0) return false;
  return true;
}

/// The shape with rows [0, parts of it).
Shape PartOf(Shape s, int axis, int64_t parts) {
  if (axis != kNoRows) s.set(axis, SymInt(s[axis].value() / parts));
  return s;
}

/// Rows of such a tensor are views of it.
bool IsInWholeBytes(const Type& t) {
  return t.is_tensor() && DTypeBits(t.dtype) > 0 && DTypeBits(t.dtype) % 8 == 0;
}

/// Into how many parts it can be cut, at most `most`, each of `least` rows or more; 1: it cannot.
int64_t PartsOf(const LoopParts& scan, const Graph& body, int64_t most, int64_t least) {
  const auto& shapes = body.GetAttr<ShapeMap>("shape");
  const auto& types = body.GetAttr<TypeMap>("dtype");
  int64_t rows = -1;
  for (const NodePtr& n : body.TopoOrder())
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      if (!IsInWholeBytes(types[NodeEntry(n, k)]) || !shapes[NodeEntry(n, k)].is_static()) return 1;
  RowAxes axes(body);
  const auto has_rows = [&](const NodeEntry& e) {
    const Shape& s = shapes[e];
    return s.rank() > 0 && (rows < 0 || s[0].is(rows));
  };
  for (size_t i = 0; i < scan.first_capture(); ++i) {
    const NodeEntry e(body.inputs()[i]);
    if (!has_rows(e)) return 1;
    rows = shapes[e][0].value();
    axes.Set(e, 0);
  }
  int64_t parts = std::min(most, rows / std::max<int64_t>(least, 1));
  while (parts > 1 && rows % parts != 0) --parts;
  if (parts <= 1) return 1;
  const std::vector<NodePtr> order = body.TopoOrder();
  for (const NodePtr& n : order) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    // What draws gives all rows the same numbers.
    if (HasControlBodies(n) || !IsRepeatable(n) || !axes.Follow(n)) return 1;
  }
  for (const NodeEntry& e : body.outputs)
    if (axes.of(e) != 0 || !has_rows(e)) return 1;
  // What writes the number of rows down, as the target of a Reshape does, shows here.
  BodyOperands part;
  for (const NodePtr& input : body.inputs()) {
    part.types.push_back(types[NodeEntry(input)]);
    part.shapes.push_back(PartOf(shapes[NodeEntry(input)], axes.of(NodeEntry(input)), parts));
  }
  try {
    Graph plain = body;
    for (const char* attr : {"shape", "value"}) plain.DropAttr(attr);
    const Graph small = InferBody(std::move(plain), part);
    for (const NodePtr& n : order)
      for (uint32_t k = 0; k < n->num_outputs(); ++k) {
        const NodeEntry e(n, k);
        const Shape* is = small.GetAttr<ShapeMap>("shape").find(e);
        if (!is || !is->same(PartOf(shapes[e], axes.of(e), parts))) return 1;
      }
  } catch (const UserError& e) {
    if (!IsMisfit(e)) throw;
    return 1;
  }
  return parts;
}

Graph SplitRows(Graph g, PassContext& ctx) {
  const int64_t most = ctx.option<int64_t>("parts"), least = ctx.option<int64_t>("least_rows");
  if (most <= 1) return g;
  std::vector<std::pair<NodePtr, int64_t>> split;
  for (const NodePtr& n : g.TopoOrder()) {
    if (!IsOp(n, "Scan") || n->has_attr("parts")) continue;
    const LoopParts scan(n);
    if (!UsesFirstAxes(scan)) continue;
    const int64_t parts = PartsOf(
        scan, TypedBody(n, "body", g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype")), most,
        least);
    if (parts > 1 && ctx.Fuel("split", n)) split.emplace_back(n, parts);
  }
  for (const auto& [n, parts] : split) {
    AttrDict attrs = n->attrs.dict;
    attrs["parts"] = parts;
    // Its shapes are those of all rows.
    Graph body = *n->attr<GraphPtr>("body");
    for (const char* attr : {"shape", "value"}) body.DropAttr(attr);
    attrs["body"] = std::make_shared<const Graph>(std::move(body));
    const NodePtr made = g.AddNode(n->op(), n->inputs, std::move(attrs), n->attrs.name);
    ReplaceLoop(g, n, made);
    ctx.Count("split");
  }
  return g;
}

WEFT_REGISTER_PASS(SplitRows)
    .describe("runs a Scan in parts, each all iterations over some of the rows")
    .set_body(SplitRows)
    .enters_bodies()
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .option("parts", int64_t{1}, "most parts of a Scan: the threads that a program will have")
    .option("least_rows", int64_t{4}, "of a part: a product of fewer reads its matrix in vain")
    .statistic("split", "loops");

}  // namespace
}  // namespace weft
