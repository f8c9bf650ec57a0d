/// body_exit.cc: see body_exit.h.
#include "body_exit.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "loop_parts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"

namespace weft {
namespace {

/// The list with `more` entries behind the first `count`, equal to the first of them; an empty list
/// stands for zeros.
Ints Extended(Ints list, size_t count, size_t more) {
  if (list.empty()) return list;
  const int64_t value = list.front();
  list.resize(count, 0);
  list.resize(count + more, value);
  return list;
}

}  // namespace

BodyExit::BodyExit(Graph& graph, const NodePtr& loop, Graph body)
    : graph_(graph), loop_(loop), body_(std::move(body)) {
  const LoopParts parts(loop);
  first_capture_ = parts.first_capture();
  first_slice_ = parts.first_slice();
  for (size_t i = first_slice_; i < body_.inputs().size(); ++i)
    outside_[NodeEntry(body_.inputs()[i]).key()] = {
        loop->inputs[i], i < first_capture_ ? BodyRole::kSlice : BodyRole::kInvariant};
}

BodyRole BodyExit::role(const NodeEntry& e) const {
  if (const auto it = outside_.find(e.key()); it != outside_.end()) return it->second.role;
  return Graph::ConstantOf(e) ? BodyRole::kInvariant : BodyRole::kVarying;
}

NodeEntry BodyExit::outside(const NodeEntry& e) {
  const auto it = outside_.find(e.key());
  if (it != outside_.end()) return it->second.entry;
  const NodeEntry constant = graph_.AddConstant(Graph::ConstantOf(e));
  outside_[e.key()] = {constant, BodyRole::kInvariant};
  return constant;
}

void BodyExit::Leave(const NodePtr& node, const NodeEntry& outside, BodyRole role) {
  outside_[NodeEntry(node).key()] = {outside, role};
  left_.emplace_back(node);
}

void BodyExit::Finish() {
  std::vector<NodeEntry> slices, captures;
  std::vector<NodePtr> inputs = body_.inputs(), slice_inputs, capture_inputs;
  const auto has_left = [&](NodePtr user) { return outside_.count(NodeEntry(user).key()) != 0; };
  for (const NodeEntry& e : left_) {
    const bool read = std::any_of(e.node->uses().begin(), e.node->uses().end(),
                                  [&](const Use& u) { return !has_left(u.user); });
    if (!read && !body_.is_output(e.node)) continue;
    const Outside& o = outside_.at(e.key());
    const bool sliced = o.role == BodyRole::kSlice;
    (sliced ? slices : captures).push_back(o.entry);
    const NodePtr input = body_.AddInput(e.node->attrs.name);
    (sliced ? slice_inputs : capture_inputs).push_back(input);
    body_.ReplaceUses(e, NodeEntry(input));
  }
  inputs.insert(inputs.begin() + long(first_capture_), slice_inputs.begin(), slice_inputs.end());
  inputs.insert(inputs.end(), capture_inputs.begin(), capture_inputs.end());
  body_.SetInputs(inputs);
  body_.EraseDead();

  std::vector<NodeEntry> operands(loop_->inputs.begin(), loop_->inputs.end());
  operands.insert(operands.begin() + long(first_capture_), slices.begin(), slices.end());
  operands.insert(operands.end(), captures.begin(), captures.end());
  AttrDict attrs = loop_->attrs.dict;
  attrs["num_captures"] = loop_->attr<int64_t>("num_captures") + int64_t(captures.size());
  if (!slices.empty()) {
    const size_t count = first_capture_ - first_slice_;
    attrs["num_scan_inputs"] = int64_t(count + slices.size());
    for (const char* name : {"scan_input_axes", "scan_input_directions"})
      if (loop_->has_attr(name))
        attrs[name] = Extended(loop_->attr<Ints>(name), count, slices.size());
  }
  attrs["body"] = std::make_shared<const Graph>(std::move(body_));
  const NodePtr made = graph_.AddNode(loop_->op(), operands, std::move(attrs), loop_->attrs.name);
  ReplaceLoop(graph_, loop_, made);
}

Graph LeaveLoops(Graph g, const std::vector<std::string>& names,
                 const std::function<bool(const NodePtr& loop, BodyExit& exit)>& leave) {
  std::vector<NodePtr> loops;
  for (NodePtr n : g.TopoOrder())
    if (!n->is_variable() && std::count(names.begin(), names.end(), n->op()->name))
      loops.push_back(n);
  if (loops.empty()) return g;
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  bool any = false;
  for (const NodePtr& n : loops) {
    BodyExit exit(g, n, TypedBody(n, "body", shapes, types));
    if (!leave(n, exit)) continue;
    exit.Finish();
    any = true;
  }
  if (any) g.EraseDead();
  return g;
}

}  // namespace weft
