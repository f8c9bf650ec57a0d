/// fusion_build.cc: bodies of fused nodes. All bodies are built before the graph is touched, so that each is read off the
/// graph as it was.
#include "fusion_build.h"

#include <algorithm>
#include <unordered_map>

#include "weft/core/builtin_ops.h"
#include "weft/core/op.h"
#include "weft/support/check.h"

namespace weft {
namespace {

struct EntryHash {
  size_t operator()(const NodeEntry& e) const {
    return std::hash<NodePtr>()(e.node) * 31 + e.index;
  }
};

/// A value that a body may hold itself: one element, or followed symbolically.
bool IsSmallConstant(const NodeEntry& e, const ValueMap& values) {
  if (TensorPtr t = Graph::ConstantOf(e)) return t->num_elements() == 1 && IsComputable(t->dtype());
  const SymTensorPtr* v = values.find(e);
  return v && *v && std::all_of((*v)->elements.begin(), (*v)->elements.end(), [](SymInt s) {
           return s.known();
         });
}

/// The user's nodes that the members stand for, a few of them: names are for messages.
Origin OriginOf(const std::vector<NodePtr>& members) {
  constexpr size_t kMaxNames = 16;
  std::vector<std::string> names;
  auto add = [&](const std::string& name) {
    if (!name.empty() && names.size() < kMaxNames &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (NodePtr n : members) {
    if (names.size() == kMaxNames) break;
    if (!n->origin())
      add(n->attrs.name);
    else
      for (const std::string& s : *n->origin()) add(s);
  }
  return names.empty() ? nullptr
                       : std::make_shared<const std::vector<std::string>>(std::move(names));
}

}  // namespace

FusedBuilder::FusedBuilder(Graph& g)
    : g_(g),
      shapes_(g.GetAttr<ShapeMap>("shape")),
      types_(g.GetAttr<TypeMap>("dtype")),
      values_(g.GetAttr<ValueMap>("value")),
      is_output_(g.id_bound(), 0) {
  for (const NodeEntry& e : g.outputs) is_output_[e.node->id()] = 1;
}

void FusedBuilder::Build(const std::vector<NodePtr>& members) {
  Plan plan;
  plan.members = members;
  plan.body = std::make_shared<Graph>();
  Graph& body = *plan.body;
  ShapeMap shapes;
  TypeMap types;
  ValueMap values;
  std::unordered_map<NodeEntry, NodeEntry, EntryHash> outside;  // operands and what stands for them
  const int number = int(plans_.size());
  plan_of_.resize(g_.id_bound(), -1);
  twin_.resize(g_.id_bound());
  auto twin = [&](const NodeEntry& e) { return NodeEntry(twin_[e.node->id()], e.index); };
  auto copy_rows = [&](const NodeEntry& from, const NodeEntry& to) {
    shapes.set(to, shapes_[from]);
    types.set(to, types_[from]);
    if (const SymTensorPtr* v = values_.find(from)) values.set(to, *v);
  };
  // A followed value, rebuilt from its elements: a vector of extents, brought to the entry's shape and dtype.
  auto followed_value = [&](const NodeEntry& e) {
    const SymTensor& v = **values_.find(e);
    auto add = [&](NodePtr n, DType t, const Shape& s) {
      types.set(NodeEntry(n), t);
      shapes.set(NodeEntry(n), s);
      return NodeEntry(n);
    };
    const Shape flat{SymInt(int64_t(v.elements.size()))};
    NodeEntry x = add(body.AddNode(builtin::kShapeTensor, {}, {{"dims", Shape(v.elements)}}),
                      DType::kI64, flat);
    values.set(x, std::make_shared<SymTensor>(SymTensor{{int64_t(v.elements.size())}, v.elements}));
    if (v.dims.size() != 1) {
      const NodeEntry dims = body.AddConstant(Tensor::Ints(v.dims));
      add(dims.node, DType::kI64, Shape{SymInt(int64_t(v.dims.size()))});
      x = add(body.AddNode("Reshape", {x, dims}), DType::kI64, shapes_[e]);
    }
    if (types_[e].dtype != DType::kI64)
      x = add(body.AddNode("Cast", {x}, {{"to", types_[e].dtype}}), types_[e].dtype, shapes_[e]);
    return x;
  };
  auto operand = [&](const NodeEntry& e) -> NodeEntry {
    if (!e.node) return {};
    if (plan_of_[e.node->id()] == number) return twin(e);
    if (auto it = outside.find(e); it != outside.end()) return it->second;
    NodeEntry in;
    if (IsSmallConstant(e, values_)) {
      if (TensorPtr t = Graph::ConstantOf(e)) {
        in = body.AddConstant(t);
      } else {
        in = followed_value(e);
      }
    } else {
      in = NodeEntry(body.AddInput("", types_[e], shapes_[e]));
      plan.operands.push_back(e);
    }
    copy_rows(e, in);
    outside.emplace(e, in);
    return in;
  };
  std::vector<NodeEntry> inputs;
  for (NodePtr n : members) {
    inputs.clear();
    for (const NodeEntry& e : n->inputs) inputs.push_back(operand(e));
    NodePtr c = body.AddCopy(n, inputs);
    plan_of_[n->id()] = number;
    twin_[n->id()] = c;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) copy_rows(NodeEntry(n, i), NodeEntry(c, i));
  }
  // Results: what a node outside reads, or a graph output, in member order.
  std::vector<NodeEntry> outputs;
  for (NodePtr n : members) {
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      bool wanted = is_output_[n->id()] && std::find(g_.outputs.begin(), g_.outputs.end(),
                                                     NodeEntry(n, i)) != g_.outputs.end();
      for (const Use& u : n->uses())
        wanted |=
            !u.control && plan_of_[u.user->id()] != number && u.user->inputs[u.slot].index == i;
      if (!wanted) continue;
      plan.results.push_back({n, i});
      outputs.push_back(twin({n, i}));
    }
  }
  body.outputs = outputs;
  body.SetAttr("dtype", std::move(types));
  body.SetAttr("shape", std::move(shapes));
  body.SetAttr("value", std::move(values));
  plans_.push_back(std::move(plan));
}

void FusedBuilder::Finish() {
  // The maps leave the graph while it is edited: a fused entry has the rows of the one that it replaces.
  ShapeMap shapes = g_.MoveCopyAttr<ShapeMap>("shape");
  TypeMap types = g_.MoveCopyAttr<TypeMap>("dtype");
  ValueMap values = g_.MoveCopyAttr<ValueMap>("value");
  SubgraphMap bodies = g_.TakeAttrOr<SubgraphMap>("subgraph");
  std::unordered_map<NodeEntry, NodeEntry, EntryHash> moved;  // member entry -> fused entry
  std::vector<NodePtr> fused;
  for (Plan& p : plans_) {
    // Operands still name members of other groups; they are wired below, when every fused node exists.
    NodePtr f = g_.AddNode(builtin::kFused, p.operands, {{"body", GraphPtr(p.body)}},
                           p.members.back()->attrs.name);
    g_.SetOrigin(f, OriginOf(p.members));
    for (size_t i = 0; i < p.results.size(); ++i) {
      const NodeEntry to(f, uint32_t(i));
      moved.emplace(p.results[i], to);
      shapes.set(to, shapes[p.results[i]]);
      types.set(to, types[p.results[i]]);
      if (const SymTensorPtr* v = values.find(p.results[i])) values.set(to, *v);
    }
    fused.push_back(f);
    bodies.set(f, p.body);
  }
  for (size_t k = 0; k < plans_.size(); ++k) {
    const Plan& p = plans_[k];
    for (const NodeEntry& r : p.results) g_.ReplaceUses(r, moved.at(r));
    for (NodePtr n : p.members) {
      for (Node* d : n->control_deps) fused[k]->control_deps.push_back(d);
      std::vector<Node*> after;
      for (const Use& u : n->uses())
        if (u.control) after.push_back(u.user);
      for (Node* user : after)
        if (user != fused[k].get()) user->control_deps.push_back(fused[k]);
    }
  }
  // Members of a group only feed each other now: users before producers.
  for (const Plan& p : plans_)
    for (auto n = p.members.rbegin(); n != p.members.rend(); ++n) {
      std::vector<Node*> after;
      for (const Use& u : (*n)->uses())
        if (u.control) after.push_back(u.user);
      for (Node* user : after) {
        std::vector<Node*> kept;
        for (Node* d : user->control_deps)
          if (d != n->get()) kept.push_back(d);
        user->control_deps.clear();
        for (Node* d : kept) user->control_deps.push_back(d);
      }
    }
  g_.EraseDead();
  g_.SetAttr("shape", std::move(shapes));
  g_.SetAttr("dtype", std::move(types));
  g_.SetAttr("value", std::move(values));
  // Fused nodes of an earlier run, whose rows an edit has cleared since.
  for (NodePtr n : g_.TopoOrder())
    if (IsOp(n, builtin::kFused) && !bodies.find(n)) bodies.set(n, FusedBody(n));
  g_.SetAttr("subgraph", std::move(bodies));
}

}  // namespace weft
