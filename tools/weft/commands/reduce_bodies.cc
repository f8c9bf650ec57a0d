/// reduce_bodies.cc: see reduce_bodies.h.
#include "reduce_bodies.h"

#include <unordered_map>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"

namespace weft::tool {
namespace {

TensorPtr OneInt(int64_t v) {
  auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{1});
  t->set_int(0, v);
  return t;
}
int64_t EntryOr(const NodePtr& n, const char* list, size_t k, int64_t otherwise) {
  if (!n->has_attr(list)) return otherwise;
  const Ints& all = n->attr<Ints>(list);
  return k < all.size() ? all[k] : otherwise;
}

/// What the body of `n` reads in its first iteration, in the graph of `n`.
std::vector<NodeEntry> FirstOperands(Graph* g, const NodePtr& n, const Graph& body) {
  std::vector<NodeEntry> operands;
  if (IsOp(n, "If")) {
    for (size_t i = 1; i < n->num_inputs(); ++i) operands.push_back(n->inputs[i]);
    return operands;
  }
  operands = n->inputs;
  if (IsOp(n, "Loop")) {
    operands[0] = g->AddConstant(Tensor::Scalar(DType::kI64, 0));
    if (!operands[1].node) operands[1] = g->AddConstant(Tensor::Scalar(DType::kBool, 1));
    return operands;
  }
  const size_t slices = size_t(n->attr<int64_t>("num_scan_inputs")),
               end = body.inputs().size() - size_t(n->attr<int64_t>("num_captures"));
  for (size_t k = 0; k < slices; ++k) {
    const bool backward = EntryOr(n, "scan_input_directions", k, 0) == 1;
    auto at = Tensor::Scalar(DType::kI64, backward ? -1 : 0);
    NodeEntry& e = operands[end - slices + k];
    e = NodeEntry(g->AddNode("Gather", {e, g->AddConstant(at)},
                             {{"axis", EntryOr(n, "scan_input_axes", k, 0)}}));
  }
  return operands;
}

}  // namespace

std::vector<NodeId> ControlNodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (const NodePtr& n : graph.TopoOrder())
    if (HasControlBodies(n)) nodes.push_back(n->id());
  return nodes;
}

std::vector<BodyPath> ListBodies(const Graph& graph) {
  std::vector<BodyPath> all = {{}};
  for (size_t k = 0; k < all.size(); ++k) {
    const Graph& g = BodyAt(graph, all[k]);
    for (const NodeId id : ControlNodes(g))
      for (const std::string& name : BodyNames(g.node(id))) {
        BodyPath longer = all[k];
        longer.emplace_back(id, name);
        all.push_back(std::move(longer));
      }
  }
  return all;
}

const Graph& BodyAt(const Graph& graph, const BodyPath& path) {
  const Graph* g = &graph;
  for (const auto& [id, name] : path) g = g->node(id)->attrs.dict.find(name)->get<GraphPtr>().get();
  return *g;
}

Graph WithBodyAt(const Graph& graph, const BodyPath& path, Graph body) {
  for (size_t depth = path.size(); depth-- > 0;) {
    const BodyPath around(path.begin(), path.begin() + std::ptrdiff_t(depth));
    Graph g = BodyAt(graph, around);
    g.SetAttr(g.node(path[depth].first), path[depth].second,
              GraphPtr(std::make_shared<const Graph>(std::move(body))));
    body = std::move(g);
  }
  return body;
}

std::optional<Graph> Inlined(const Graph& graph, NodeId node, const std::string& name) {
  Graph g = graph;
  const NodePtr n = g.node(node);
  const GraphPtr body = n->attr<GraphPtr>(name);
  const std::vector<NodeEntry> operands = FirstOperands(&g, n, *body);
  if (operands.size() != body->inputs().size()) return std::nullopt;
  std::unordered_map<EntryKey, NodeEntry> outside;
  for (size_t i = 0; i < operands.size(); ++i)
    outside[NodeEntry(body->inputs()[i]).key()] = operands[i];
  const auto find = [&](const NodeEntry& e) {
    if (!e.node) return NodeEntry();
    const auto it = outside.find(e.key());
    if (it != outside.end()) return it->second;
    return outside[e.key()] = g.AddConstant(Graph::ConstantOf(e), e.node->attrs.name);
  };
  for (const NodePtr& inner : body->TopoOrder()) {
    if (inner->is_variable() || Graph::ConstantOf(NodeEntry(inner))) continue;
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : inner->inputs) inputs.push_back(find(e));
    const NodePtr copy = g.AddCopy(inner, inputs);
    for (uint32_t i = 0; i < inner->num_outputs(); ++i)
      outside[NodeEntry(inner, i).key()] = NodeEntry(copy, i);
  }
  const bool loop = IsOp(n, "Loop"), scan = IsOp(n, "Scan");
  const size_t first = loop ? 1 : 0, captures = size_t(n->attr<int64_t>("num_captures"));
  const size_t states = !loop && !scan
                            ? n->num_outputs()
                            : body->inputs().size() - captures -
                                  (loop ? 2 : size_t(n->attr<int64_t>("num_scan_inputs")));
  std::vector<NodeEntry> to;
  for (size_t k = 0; k < n->num_outputs(); ++k) {
    const NodeEntry e = find(body->outputs[first + k]);
    const int64_t axis = scan ? EntryOr(n, "scan_output_axes", k - states, 0) : 0;
    to.push_back(k < states ? e
                            : NodeEntry(g.AddNode("Unsqueeze", {e, g.AddConstant(OneInt(axis))})));
    if (!to.back().node) return std::nullopt;
  }
  g.ReplaceNode(n, to);
  g.Erase(n);
  g.EraseDead();
  return g;
}

std::optional<Graph> BodyWithout(const Graph& body, const std::vector<NodeId>& nodes) {
  const Graph typed = ProvideTypes(body);
  const TypeMap& types = typed.GetAttr<TypeMap>("dtype");
  const ShapeMap& shapes = typed.GetAttr<ShapeMap>("shape");
  Graph g = body;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const NodePtr n = g.node(*it);
    if (!n) continue;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const NodeEntry e(n, i);
      const Type type = types[e];
      const Shape shape = shapes[e];
      NodeEntry to;
      for (const NodeEntry& operand : n->inputs)
        if (operand.node && !to.node && type.known() && types[operand] == type &&
            shapes[operand].has_rank() && shapes[operand].same(shape))
          to = operand;
      if (!to.node && (!type.is_tensor() || !IsComputable(type.dtype) || !shape.is_static()))
        return std::nullopt;
      if (!to.node) to = g.AddConstant(std::make_shared<const Tensor>(type.dtype, shape.ints()));
      g.ReplaceUses(e, to);
    }
    for (const Use& u : n->uses())
      if (u.control) return std::nullopt;
    g.Erase(n);
  }
  g.EraseDead();
  return g;
}

}  // namespace weft::tool
