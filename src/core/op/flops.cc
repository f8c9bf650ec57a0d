/// flops.cc: see flops.h.
#include "weft/core/op/flops.h"

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {

std::optional<SymInt> FlopsOf(const NodePtr& node, const ShapeMap& shapes) {
  static const auto& flops = Op::GetAttr<FFlops>("FFlops");
  const FFlops* f = node->is_variable() ? nullptr : flops.find(node->op());
  if (!f) return std::nullopt;
  std::vector<Shape> in, out;
  bool known = true;
  for (const NodeEntry& e : node->inputs) {
    in.push_back(e.node ? shapes[e] : Shape());
    known = known && (!e.node || in.back().fully_known());
  }
  for (uint32_t i = 0; i < node->num_outputs(); ++i) {
    out.push_back(shapes[NodeEntry(node, i)]);
    known = known && out.back().fully_known();
  }
  return known ? (*f)(node, in, out) : SymInt();
}

std::vector<SymInt> FlopsOfAll(const NodePtr& node, const ShapeMap& shapes) {
  std::vector<SymInt> all;
  const auto add = [&all](const NodePtr& n, const ShapeMap& around) {
    if (const std::optional<SymInt> flops = FlopsOf(n, around); flops && flops->known())
      all.push_back(*flops);
  };
  if (!IsOp(node, builtin::kFused)) {
    add(node, shapes);
  } else if (const GraphPtr body = FusedBody(node); body->HasAttr("shape")) {
    for (NodePtr n : body->TopoOrder()) add(n, body->GetAttr<ShapeMap>("shape"));
  }
  return all;
}

}  // namespace weft
