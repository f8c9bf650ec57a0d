/// effects.cc: see effects.h.
#include "weft/core/graph/effects.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "store.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// The attribute `state`: a bool or an integer, as a text in dictionaries of 2016.
bool SaysState(const NodePtr& variable) {
  const AttrValue* v = variable->attrs.dict.find("state");
  if (!v) return false;
  if (v->is<std::string>()) {
    const std::string& text = v->get<std::string>();
    WEFT_CHECK(text == "true" || text == "false" || text == "0" || text == "1", kBadAttribute,
               "{}: `state` is true or false, not '{}'", variable->Describe(), text);
    return text == "true" || text == "1";
  }
  return v->get<int64_t>() != 0;
}

/// What computing a node does beside giving its outputs; bits.
enum : uint64_t { kEffect = 1, kDraw = 2 };

uint64_t EffectsOf(const NodePtr& node);

/// Of all nodes of a body. Bodies are immutable and asked for often, so the answer is
/// kept in the graph.
uint64_t EffectsOfBody(const Graph& body) {
  std::atomic<uint64_t>& known = body.store()->body_effects;
  const uint64_t revision = body.revision() << 2;
  const uint64_t found = known.load(std::memory_order_relaxed);
  if (found >> 2 == body.revision()) return found & (kEffect | kDraw);
  uint64_t effects = 0;
  for (NodeId id = 0; id < body.id_bound(); ++id) effects |= EffectsOf(body.node(id));
  known.store(revision | effects, std::memory_order_relaxed);
  return effects;
}

uint64_t EffectsOf(const NodePtr& node) {
  static const auto& stateful = Op::GetAttr<TIsStateful>("TIsStateful");
  static const auto& mutates = Op::GetAttr<FMutateInputs>("FMutateInputs");
  static const auto& draws = Op::GetAttr<FDrawsAnew>("FDrawsAnew");
  if (!node || node->is_variable()) return 0;
  uint64_t effects = 0;
  const FMutateInputs* f = mutates.find(node->op());
  if (f && !(*f)(node).empty())
    effects |= kEffect;
  else if (stateful.get(node->op(), false))
    effects |= kEffect | kDraw;
  if (const FDrawsAnew* d = draws.find(node->op()); d && (*d)(node)) effects |= kDraw;
  for (const auto& [name, value] : node->attrs.dict)
    if (value.is<GraphPtr>() && value.get<GraphPtr>())
      effects |= EffectsOfBody(*value.get<GraphPtr>());
  return effects;
}

}  // namespace

std::vector<std::pair<int, int>> WrittenInputs(const NodePtr& node) {
  std::vector<std::pair<int, int>> written;
  if (!node || node->is_variable()) return written;
  const auto add = [&](int input, int output) {
    if (input >= 0 && size_t(input) < node->num_inputs() && node->inputs[size_t(input)].node)
      written.emplace_back(input, output);
  };
  if (IsOp(node, builtin::kAssign)) {
    add(0, 0);
  } else if (IsOp(node, builtin::kFused)) {
    const AttrValue* held = node->attrs.dict.find("body");
    if (!held || !held->is<GraphPtr>() || !held->get<GraphPtr>()) return written;
    const GraphPtr& body = held->get<GraphPtr>();
    // A launch over all parameters has thousands of each.
    std::vector<int> place;  // of an input of the body, by id
    for (size_t k = 0; k < body->outputs.size(); ++k) {
      const NodePtr n = body->outputs[k].node;
      if (!IsOp(n, builtin::kAssign) || n->num_inputs() == 0) continue;
      if (place.empty()) {
        place.assign(body->id_bound(), -1);
        for (size_t i = 0; i < body->inputs().size(); ++i) place[body->inputs()[i]->id()] = int(i);
      }
      if (const NodePtr v = n->inputs[0].node) add(place[v->id()], int(k));
    }
  } else {
    static const auto& mutates = Op::GetAttr<FMutateInputs>("FMutateInputs");
    if (const FMutateInputs* f = mutates.find(node->op()))
      for (int i : (*f)(node)) add(i, -1);
  }
  return written;
}

bool HasEffect(const NodePtr& node) { return (EffectsOf(node) & kEffect) != 0; }
bool DrawsAnew(const NodePtr& node) { return (EffectsOf(node) & kDraw) != 0; }
bool IsRepeatable(const NodePtr& node) { return EffectsOf(node) == 0; }

bool HasEffects(const Graph& graph) {
  for (NodeId id = 0; id < graph.id_bound(); ++id)
    if (HasEffect(graph.node(id))) return true;
  return false;
}

void MoveControlEdges(const NodePtr& node, const std::unordered_map<NodeId, NodePtr>& heirs) {
  const NodePtr own = heirs.at(node->id());
  const auto heir = [&](const NodePtr& other) {
    const auto it = heirs.find(other->id());
    return it == heirs.end() ? other : it->second;
  };
  for (Node* d : node->control_deps)
    if (const NodePtr before = heir(d); before != own) own->control_deps.push_back(before);
  node->control_deps.clear();
  std::vector<NodePtr> after;
  for (const Use& u : node->uses())
    if (u.control) after.push_back(u.user);
  for (const NodePtr& user : after) {
    user->control_deps.remove(node);
    if (const NodePtr behind = heir(user); behind != own) behind->control_deps.push_back(own);
  }
}

bool IsState(const NodePtr& variable) {
  if (!variable || !variable->is_variable()) return false;
  if (SaysState(variable)) return true;
  return variable->has_attr("value") && GraphStore::IsMutated(variable.get());
}

std::vector<NodePtr> StateVariables(const Graph& graph) {
  std::vector<NodePtr> all;
  for (NodePtr n : graph.TopoOrder())
    if (IsState(n)) all.push_back(n);
  std::sort(all.begin(), all.end(), [](NodePtr a, NodePtr b) { return a->id() < b->id(); });
  return all;
}

std::vector<NodePtr> ProgramOrder(const Graph& g) {
  const std::vector<NodePtr> nodes = g.TopoOrder();
  std::vector<uint32_t> waits(g.id_bound(), 0);
  std::vector<uint8_t> there(g.id_bound(), 0);
  for (NodePtr n : nodes) {
    there[n->id()] = 1;
    for (const NodeEntry& e : n->inputs) waits[n->id()] += e.node ? 1 : 0;
    waits[n->id()] += uint32_t(n->control_deps.size());
  }
  // A Read that was put before its readers stands where the first of them does.
  const auto place = [&](NodePtr n) {
    NodeId at = n->id();
    if (IsOp(n, builtin::kRead))
      for (const Use& u : n->uses())
        if (!u.control && there[u.user->id()]) at = std::min(at, u.user->id());
    return std::pair(at, n->id());
  };
  std::priority_queue<std::pair<NodeId, NodeId>, std::vector<std::pair<NodeId, NodeId>>,
                      std::greater<>>
      ready;
  for (NodePtr n : nodes)
    if (waits[n->id()] == 0) ready.push(place(n));
  std::vector<NodePtr> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const NodePtr n = g.node(ready.top().second);
    ready.pop();
    order.push_back(n);
    for (const Use& u : n->uses())
      if (there[u.user->id()] && --waits[u.user->id()] == 0) ready.push(place(u.user));
  }
  WEFT_ICHECK(order.size() == nodes.size(), "{} of {} nodes could be ordered", order.size(),
              nodes.size());
  return order;
}

void MarkState(Graph& graph) {
  for (NodePtr v : StateVariables(graph))
    if (!v->has_attr("state")) graph.SetAttr(v, "state", int64_t{1});
}

NodePtr AddState(Graph& graph, std::string name, Type type, Shape shape, TensorPtr initial) {
  WEFT_CHECK(!initial || !type.known() || initial->dtype() == type.dtype, kTypeMismatch,
             "variable '{}' is {}, its initial value {}", name, type.ToString(),
             DTypeName(initial->dtype()));
  NodePtr v;
  if (initial) {
    v = graph.AddParam(std::move(name), std::move(initial));
  } else {
    v = graph.store()->NewNode();  // in no list of inputs
    v->attrs.name = std::move(name);
    if (type.known()) v->attrs.dict["dtype"] = type.dtype;
    if (shape.has_rank()) v->attrs.dict["shape"] = std::move(shape);
  }
  v->attrs.dict["state"] = int64_t{1};
  return v;
}

NodeEntry Assign(const NodeEntry& variable, const NodeEntry& value) {
  return ApplyOp(builtin::kAssign, {variable, value});
}

NodeEntry Group(const std::vector<NodeEntry>& inputs) {
  WEFT_CHECK(!inputs.empty(), kArity, "weft::Group takes at least one input");
  return ApplyOp(builtin::kGroup, inputs);
}

}  // namespace weft
