/// sink_constants.cc: SinkConstants. Constants that the bodies of If, Loop and Scan capture become
/// their own, and captures that no body reads go.
///   needs      shape
///   provides   -
///   preserves  -
///   never      copies a constant: the bodies share its tensor
///   cost       linear in nodes and bodies
///
///   Scan(h, x, %w) {h, x, w -> MatMul(h, w)}  ->  Scan(h, x) {h, x -> MatMul(h, %w)}
///
/// What a body knows by its value is packed for the library once, folded and fused. Written as ONNX
/// the file has such a constant once for each body: this comes when a program is made.
#include <memory>

#include "loop_parts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

/// The first operand that is a capture.
size_t FirstCapture(const NodePtr& n) {
  if (IsOp(n, "If")) return 1;
  return n->num_inputs() - size_t(n->attr<int64_t>("num_captures"));
}

/// The body without the inputs that stand for captures that go.
GraphPtr Without(const Graph& given, size_t first, const std::vector<TensorPtr>& constants,
                 const std::vector<bool>& goes) {
  Graph body = given;
  const std::vector<NodePtr> inputs = body.inputs();
  std::vector<NodePtr> kept(inputs.begin(), inputs.begin() + long(first));
  for (size_t i = 0; i < goes.size(); ++i) {
    const NodePtr input = inputs[first + i];
    if (!goes[i]) kept.push_back(input);
    if (goes[i] && constants[i]) body.ReplaceUses(NodeEntry(input), body.AddConstant(constants[i]));
  }
  body.SetInputs(kept);
  body.EraseDead();
  return std::make_shared<const Graph>(std::move(body));
}

/// The body may know a size by it.
bool TellsSize(const ShapeMap& shapes, const NodeEntry& e) {
  const Shape* s = e.node ? shapes.find(e) : nullptr;
  return s && s->has_rank() && !s->is_static();
}

/// `shapes`: as they were in front of the pass; edits drop those behind them. It gets those of what
/// is made.
bool Sink(Graph& g, const NodePtr& n, ShapeMap* shapes, PassContext& ctx) {
  const size_t first = FirstCapture(n), first_input = first - *OperandsBeforeBody(n);
  const std::vector<std::string> bodies = BodyNames(n);
  std::vector<TensorPtr> constants;
  std::vector<bool> goes;
  bool any = false;
  for (size_t i = first; i < n->num_inputs(); ++i) {
    const NodeEntry e = n->inputs[i];
    constants.push_back(e.node ? Graph::ConstantOf(e) : nullptr);
    bool is_read = false;
    for (const std::string& name : bodies) {
      const Graph& body = *n->attr<GraphPtr>(name);
      const NodePtr input = body.inputs()[first_input + i - first];
      is_read = is_read || !input->uses().empty() || body.is_output(input);
    }
    goes.push_back(constants.back() || (!is_read && !TellsSize(*shapes, e)));
    any = any || goes.back();
  }
  if (!any || !ctx.Fuel("sink", n)) return false;
  std::vector<NodeEntry> operands(n->inputs.begin(), n->inputs.begin() + long(first));
  for (size_t i = 0; i < goes.size(); ++i) {
    if (!goes[i]) operands.push_back(n->inputs[first + i]);
    if (goes[i]) ctx.Count(constants[i] ? "sunk" : "dropped");
  }
  AttrDict attrs = n->attrs.dict;
  for (const std::string& name : bodies)
    attrs[name] = Without(*n->attr<GraphPtr>(name), first_input, constants, goes);
  attrs["num_captures"] = int64_t(operands.size() - first);
  const NodePtr made = g.AddNode(n->op(), operands, std::move(attrs), n->attrs.name);
  std::vector<NodeEntry> results;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) {
    results.emplace_back(made, k);
    if (const Shape* s = shapes->find(NodeEntry(n, k))) shapes->set(results[k], Shape(*s));
  }
  ReplaceLoop(g, n, results);
  return true;
}

Graph SinkConstants(Graph g, PassContext& ctx) {
  bool any = false;
  ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  for (NodePtr n : g.TopoOrder())
    if (HasControlBodies(n)) any = Sink(g, n, &shapes, ctx) || any;
  if (any) g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(SinkConstants)
    .describe("constants that bodies of If, Loop and Scan capture become the bodies' own")
    .set_body(SinkConstants)
    .enters_bodies()
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .keeps_onnx()
    .rewrite("sink", "captures of a node that go")
    .statistic("sunk", "captured constants that became constants of bodies")
    .statistic("dropped", "captures that no body reads");

}  // namespace
}  // namespace weft
