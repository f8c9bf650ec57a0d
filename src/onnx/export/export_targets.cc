/// export_targets.cc: targets that ONNX says without a symbol. A Reshape may copy a dimension of
/// its operand (0) and infer one (-1), an Expand may leave one as it is (1):
///   Reshape(x [n, s, 768], [n, s, 12, 64])   ->   Reshape(x, [0, 0, 12, 64])
/// so that the arithmetic of the symbolic target is written only where nothing else can say it.
#include <optional>

#include "exporter.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"

namespace weft::onnx_export {
namespace {

bool Same(const Facts& facts, SymInt a, SymInt b) { return a == b || facts.ProvedEqual(a, b); }

std::optional<std::vector<int64_t>> ReshapeTarget(const Shape& from, const Shape& to,
                                                  const Facts& facts) {
  std::vector<int64_t> target;
  bool inferred = false, others_positive = true;
  for (int k = 0; k < to.rank(); ++k) {
    const SymInt d = to[k];
    if (d.is(0)) return std::nullopt;  // it would copy
    if (d.is_const()) {
      target.push_back(d.value());
      continue;
    }
    const bool copies = k < from.rank() && Same(facts, from[k], d);
    if (!copies && inferred) return std::nullopt;
    target.push_back(copies ? 0 : -1);
    inferred = inferred || !copies;
    others_positive = others_positive && (!copies || facts.RangeOf(d).lo >= 1);
  }
  // Beside a dimension of 0 there is nothing to infer from.
  if (inferred && !others_positive) return std::nullopt;
  return target;
}

std::optional<std::vector<int64_t>> ExpandTarget(const Shape& from, const Shape& to,
                                                 const Facts& facts) {
  std::vector<int64_t> target;
  const int lead = to.rank() - from.rank();
  for (int k = 0; k < to.rank(); ++k) {
    const bool stays = k >= lead && Same(facts, from[k - lead], to[k]);
    if (!stays && !to[k].is_const()) return std::nullopt;
    target.push_back(stays ? 1 : to[k].value());
  }
  return target;
}

}  // namespace

Graph WithConstantTargets(Graph graph) {
  if (!graph.HasAttr("shape")) return graph;
  const Facts facts = graph.AttrOr<Facts>("facts");
  TypedEdit edit(graph);
  for (const NodePtr& n : graph.TopoOrder()) {
    const bool reshape = IsOp(n, "Reshape"), expand = IsOp(n, "Expand");
    if ((!reshape && !expand) || !IsOp(n->inputs[1].node, builtin::kShapeTensor)) continue;
    const Shape &from = edit.shape(n->inputs[0]), &to = edit.shape(NodeEntry(n));
    if (!from.fully_known() || !to.fully_known()) continue;
    const auto target = reshape ? ReshapeTarget(from, to, facts) : ExpandTarget(from, to, facts);
    if (!target) continue;
    graph.SetInput(n, 1, edit.AddConstant(Tensor::Ints(*target)));
    if (reshape) graph.SetAttr(n, "allowzero", int64_t{0});
  }
  edit.Finish();
  graph.EraseDead();
  return graph;
}

}  // namespace weft::onnx_export
