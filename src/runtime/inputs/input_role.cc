/// input_role.cc: see input_role.h. Bounded by the nodes of the graph and of its bodies; bodies are
/// nested as deep as the readers of models allow.
#include "weft/runtime/inputs/input_role.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Elements of operand `slot` become those of result 0.
bool Moves(const NodePtr& n, uint32_t slot) {
  static const auto& views = Op::GetAttr<TIsView>("TIsView");
  static const auto& moves = Op::GetAttr<TMovesElements>("TMovesElements");
  if (IsOp(n, "Cast") || IsOp(n, "Concat") || IsOp(n, "Where")) return true;
  return slot == 0 && (views.get(n->op(), false) || moves.get(n->op(), false));
}

std::optional<int64_t> ConstantExtent(const Shape* shape, int axis) {
  if (!shape || !shape->has_rank()) return std::nullopt;
  if (axis < 0) axis += shape->rank();
  if (axis < 0 || axis >= shape->rank()) return std::nullopt;
  const SymInt d = (*shape)[axis];
  return d.known() ? d.try_value() : std::nullopt;
}

}  // namespace

Graph AtDims(const Graph& graph, const SymBindings& bindings, const InputDims& dims) {
  Graph g = graph;
  for (const NodePtr& p : g.AllInputs()) {
    if (const auto it = dims.find(p->attrs.name); it != dims.end()) {
      g.SetAttr(p, "shape", Shape(std::vector<SymInt>(it->second.begin(), it->second.end())));
      continue;
    }
    const std::optional<Shape> declared = DeclaredShape(p);
    if (!declared || !declared->has_rank()) continue;
    Shape s = *declared;
    for (int d = 0; d < s.rank(); ++d)
      if (s[d].known()) s.set(d, Evaluate(s[d], bindings));
    g.SetAttr(p, "shape", s);
  }
  return ProvideTypes(std::move(g));
}

struct InputRoles::Impl {
  /// A graph or a body, with what inference says of it.
  struct Scope {
    const ShapeMap& shapes;
    const TypeMap& types;
    const ValueMap* values;
    explicit Scope(const Graph& g)
        : shapes(g.GetAttr<ShapeMap>("shape")),
          types(g.GetAttr<TypeMap>("dtype")),
          values(g.HasAttr("value") ? &g.GetAttr<ValueMap>("value") : nullptr) {}
    /// Inference knows the value.
    bool Knows(const NodeEntry& e) const {
      const SymTensorPtr* v = values ? values->find(e) : nullptr;
      return v && *v && (*v)->is_const();
    }
  };
  struct Visit {
    const Scope* scope;
    NodePtr node;
    bool moved;  ///< its elements are the input's
    auto Key() const { return std::make_tuple(scope, node->id(), moved); }
  };

  explicit Impl(const Graph& g) : outer(g) {}

  InputRole Follow(const NodePtr& input) {
    InputRole role;
    const Type declared = DeclaredType(input);
    const bool whole = declared.known() && !IsFloat(declared.dtype);
    std::set<decltype(std::declval<Visit>().Key())> seen;
    std::vector<Visit> todo{{&outer, input, true}};
    while (!todo.empty()) {
      const Visit v = todo.back();
      todo.pop_back();
      if (!seen.insert(v.Key()).second) continue;
      for (const Use& u : v.node->uses()) {
        if (u.control) continue;
        const NodePtr user = u.user;
        if (Judge(*v.scope, user, u.slot, v.moved, &role)) continue;
        Enter(v, user, u.slot, &role, &todo);
        if (!whole && !v.moved) continue;
        if (v.scope->Knows(NodeEntry(user))) continue;  // from the dimensions alone
        const DType out = v.scope->types[NodeEntry(user)].dtype;
        // A comparison or a float ends what an integer can do to a size.
        if (out == DType::kBool || (whole && IsFloat(out))) continue;
        todo.push_back({v.scope, user, v.moved && Moves(user, u.slot)});
      }
    }
    return role;
  }

  /// Notes what this operand is to its reader; true where nothing behind it depends on the values.
  bool Judge(const Scope& scope, const NodePtr& user, uint32_t slot, bool moved, InputRole* role) {
    static const auto& domains = Op::GetAttr<FInputDomains>("FInputDomains");
    InputDomain domain;
    if (const FInputDomains* f = domains.find(user->op())) {
      const std::vector<InputDomain> list = (*f)(user);
      if (slot < list.size()) domain = list[slot];
    }
    if (domain.kind == InputDomain::kIndex || domain.kind == InputDomain::kShapeValue) {
      if (!moved)
        role->sizes = true;
      else if (domain.kind == InputDomain::kIndex)
        NoteIndex(scope, user, domain, role);
      else
        NoteShape(scope, user->inputs[0], role);
      return true;
    }
    if (moved && slot == 0 && IsOp(user, "OneHot")) NoteDepth(user, role);
    if (moved && IsOp(user, "Equal"))
      if (const TensorPtr c = Graph::ConstantOf(user->inputs[1 - slot]); c && IsInt(c->dtype()))
        for (int64_t i = 0; i < c->num_elements(); ++i) role->compared.push_back(c->at_int(i));
    // What a loop carries may count its iterations.
    if (!IsOp(user, "If") && !IsOp(user, builtin::kFused) && !BodyNames(user).empty())
      role->sizes = true;
    for (uint32_t k = 0; k < user->num_outputs(); ++k)
      if (const Shape* s = scope.shapes.find(NodeEntry(user, k)); !s || !s->is_static())
        role->sizes = role->sizes || (slot > 0 && !IsOp(user, "If"));
    return false;
  }
  static void NoteIndex(const Scope& scope, const NodePtr& user, const InputDomain& domain,
                        InputRole* role) {
    const std::string& op = user->op()->name;
    role->index = true;
    // Labels of a loss are not counted from the end.
    role->negative_index =
        role->negative_index && (StartsWith(op, "Gather") || StartsWith(op, "Scatter"));
    int64_t extent = 1;
    if (size_t(domain.of) < user->num_inputs() && user->inputs[size_t(domain.of)].node) {
      const Shape* s = scope.shapes.find(user->inputs[size_t(domain.of)]);
      extent = ConstantExtent(s, domain.axis).value_or(1);
      // Tuples of indices: of all axes the shortest.
      if (StartsWith(op, "GatherND") || StartsWith(op, "ScatterND"))
        for (int k = 0; s && s->has_rank() && k < s->rank(); ++k)
          extent = std::min(extent, ConstantExtent(s, k).value_or(1));
    }
    role->extent = std::min(role->extent, extent);
  }
  static void NoteShape(const Scope& scope, const NodeEntry& shaped, InputRole* role) {
    role->shape = true;
    const Shape* s = shaped.node ? scope.shapes.find(shaped) : nullptr;
    role->shaped.reset();
    if (s && s->is_static()) role->shaped = s->ints();
  }
  static void NoteDepth(const NodePtr& one_hot, InputRole* role) {
    const TensorPtr depth = Graph::ConstantOf(one_hot->inputs[1]);
    if (!depth || depth->num_elements() != 1 || !IsComputable(depth->dtype())) return;
    const double d = depth->at(0);
    if (!(d >= 1 && d < 0x1p62)) return;
    role->index = true;
    role->extent = std::min(role->extent, int64_t(d));
  }

  /// Goes on behind the inputs of bodies that get the operand.
  void Enter(const Visit& from, const NodePtr& user, uint32_t slot, InputRole* role,
             std::vector<Visit>* todo) {
    const std::optional<uint32_t> before = OperandsBeforeBody(user);
    if (!before || slot < *before) return;
    for (const std::string& name : BodyNames(user)) {
      const Body* body = BodyOf(*from.scope, user, name);
      if (!body)
        role->sizes = true;
      else if (slot - *before < body->graph.inputs().size())
        todo->push_back({&body->scope, body->graph.inputs()[slot - *before], from.moved});
    }
  }

  struct Body {
    Graph graph;
    Scope scope;
    explicit Body(Graph g) : graph(std::move(g)), scope(graph) {}
  };
  /// Null where inference refuses it.
  const Body* BodyOf(const Scope& scope, const NodePtr& n, const std::string& name) {
    const auto [it, fresh] = bodies.try_emplace({&scope, n->id(), name});
    if (!fresh) return it->second.get();
    try {
      it->second = std::make_unique<Body>(TypedBody(n, name, scope.shapes, scope.types));
    } catch (const UserError&) {
    }
    return it->second.get();
  }

  Scope outer;
  std::map<std::tuple<const Scope*, NodeId, std::string>, std::unique_ptr<Body>> bodies;
};

InputRoles::InputRoles(const Graph& at_dims) : impl_(std::make_unique<Impl>(at_dims)) {}
InputRoles::~InputRoles() = default;
InputRole InputRoles::Of(const NodePtr& input) const { return impl_->Follow(input); }

}  // namespace weft
