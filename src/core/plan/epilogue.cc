/// epilogue.cc: reads the form of a library call with an epilogue off a body.
#include "weft/core/plan/epilogue.h"

#include <algorithm>

#include "weft/core/graph/builtin_ops.h"

namespace weft {
namespace {

bool IsScalarConstant(const NodeEntry& e) {
  const TensorPtr t = Graph::ConstantOf(e);
  return t && t->num_elements() == 1;
}

/// Follows the body from its inputs to its output.
class Reader {
 public:
  explicit Reader(const Graph& body) : body_(body) {}

  std::optional<AnchoredCall> Run() {
    if (body_.outputs.size() != 1) return std::nullopt;
    AnchoredCall call;
    for (NodePtr n : body_.TopoOrder()) {
      if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
      if (!call.anchor) {
        if (n->num_outputs() != 1 || !ReadAnchor(n)) return std::nullopt;
        call.anchor = n;
      } else {
        const std::optional<EpilogueStep> step = ReadStep(n);
        if (!step) return std::nullopt;
        call.steps.push_back(*step);
      }
      result_ = NodeEntry(n);
    }
    const bool complete = call.anchor && next_ == body_.inputs().size() &&
                          body_.outputs[0] == result_ && !call.steps.empty();
    return complete ? std::optional(std::move(call)) : std::nullopt;
  }

 private:
  bool TakesNext(const NodeEntry& e) {
    if (next_ >= body_.inputs().size() || e != NodeEntry(body_.inputs()[next_])) return false;
    ++next_;
    return true;
  }
  bool ReadAnchor(const NodePtr& n) {
    return std::all_of(n->inputs.begin(), n->inputs.end(),
                       [&](const NodeEntry& e) { return e.node && TakesNext(e); });
  }
  std::optional<EpilogueStep> ReadStep(const NodePtr& n) {
    EpilogueStep step{n, -1, -1};
    for (size_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry e = n->inputs[i];
      if (!e.node || IsScalarConstant(e)) continue;
      if (e == result_ && step.slot < 0)
        step.slot = int(i);
      else if (step.operand < 0 && TakesNext(e))
        step.operand = int(next_) - 1;
      else
        return std::nullopt;
    }
    return step.slot >= 0 && n->num_outputs() == 1 ? std::optional(step) : std::nullopt;
  }

  const Graph& body_;
  NodeEntry result_;
  size_t next_ = 0;  ///< input of the body that comes next
};

}  // namespace

std::optional<AnchoredCall> AnchoredCallOf(const NodePtr& node) {
  if (!IsOp(node, builtin::kFused)) return std::nullopt;
  const AttrValue* anchor = node->attrs.dict.find(builtin::kAnchor);
  if (!anchor || anchor->get<int64_t>() == 0) return std::nullopt;
  const GraphPtr body = FusedBody(node);
  if (!body || body->inputs().size() != node->num_inputs()) return std::nullopt;
  return Reader(*body).Run();
}

}  // namespace weft
