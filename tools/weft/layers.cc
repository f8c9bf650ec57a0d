/// layers.cc: see layers.h.
#include "layers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

#include "common.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"

namespace weft::tool {

Graph ExposeAll(Graph g, std::vector<std::string>* names,
                const std::function<bool(const NodeEntry&)>& wanted) {
  g = ProvideTypes(std::move(g));
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  std::vector<NodeEntry> entries;
  for (NodePtr n : g.TopoOrder()) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const NodeEntry e(n, i);
      if (!types[e].is_tensor() || !IsComputable(types[e].dtype) || !shapes[e].fully_known())
        continue;
      if (wanted && !wanted(e)) continue;
      entries.push_back(e);
      names->push_back(n->num_outputs() > 1 ? fmt::format("{} output {}", n->Describe(), i)
                                            : n->Describe());
    }
  }
  g.outputs = entries;
  for (size_t i = 0; i < entries.size(); ++i) g.SetOutputName(i, fmt::format("layer_{}", i));
  return g;
}

namespace {

/// Element `i` of the first axis: a view.
TensorPtr SliceAt(const TensorPtr& t, int64_t i) {
  const std::vector<int64_t> dims(t->dims().begin() + 1, t->dims().end());
  const int64_t bytes = t->num_bytes() / t->dims()[0];
  char* data = static_cast<char*>(const_cast<void*>(t->data())) + i * bytes;  // read only
  return std::make_shared<Tensor>(t->dtype(), dims, data, std::const_pointer_cast<Tensor>(t));
}
bool CanShow(const Type& type, const Shape& shape) {
  return type.is_tensor() && IsComputable(type.dtype) && shape.fully_known();
}

}  // namespace

/// Makes the graph of layers, bodies from the inside out.
class Layers::Exposer {
 public:
  explicit Exposer(Layers* layers) : all_(*layers) {}

  void Run(Graph g) {
    all_.scopes_.emplace_back();
    std::vector<Shown> shown = Expose(&g, 0, nullptr);
    std::set<EntryKey> outputs;
    for (const NodeEntry& e : g.outputs) outputs.insert(e.key());
    std::vector<NodeEntry> by(all_.layers_.size());
    for (const Shown& s : shown) {
      by[s.layer] = s.by;
      Layer& layer = all_.layers_[s.layer];
      layer.is_output = layer.scope == 0 && outputs.count(layer.entry) > 0;
    }
    g.outputs = by;
    for (size_t i = 0; i < by.size(); ++i) g.SetOutputName(i, fmt::format("layer_{}", i));
    all_.graph_ = std::move(g);
  }

 private:
  using Symbols = std::unordered_set<SymInt>;
  /// A layer, and the entry that has it in the graph that is looked at.
  struct Shown {
    size_t layer;
    NodeEntry by;
    Type type;
    Shape shape;
  };
  struct Branch {
    std::string name;
    Graph graph;
    bool fits = false;
    size_t scope = 0;
    std::vector<Shown> shown;
  };

  /// `place`: negative for what a body gets.
  size_t Add(size_t scope, const NodeEntry& e, const std::string& name, int64_t place) {
    Scope& s = all_.scopes_[scope];
    all_.layers_.push_back(
        {s.name.empty() ? name : s.name + ": " + name, scope, e.key(), place, place < 0, false});
    s.layers[e.key()] = all_.layers_.size() - 1;
    return all_.layers_.size() - 1;
  }
  /// `fixed`: sizes that are the same in all iterations around; null: there are none.
  static bool SameInAll(const Shape& shape, const Symbols* fixed) {
    if (!fixed) return true;
    for (SymInt d : shape.dims())
      for (SymInt s : d.Symbols())
        if (!fixed->count(s)) return false;
    return true;
  }
  static Symbols SymbolsOf(const NodePtr& n, const ShapeMap& shapes) {
    Symbols all;
    for (const NodeEntry& e : n->inputs)
      if (const Shape* s = e.node ? shapes.find(e) : nullptr)
        for (SymInt d : s->dims())
          if (d.known())
            for (SymInt symbol : d.Symbols()) all.insert(symbol);
    return all;
  }

  /// The layers of a graph and of the bodies in it.
  std::vector<Shown> Expose(Graph* g, size_t scope, const Symbols* fixed) {
    *g = ProvideTypes(std::move(*g));
    const ShapeMap shapes = g->GetAttr<ShapeMap>("shape");
    const TypeMap types = g->GetAttr<TypeMap>("dtype");
    std::vector<Shown> shown;
    int64_t place = 0;
    for (const NodePtr& n : g->TopoOrder()) {
      place += 2;  // bodies come before the results of their operators
      if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
      const std::string name = n->Describe();
      std::vector<bool> shows;
      std::vector<Type> type;
      std::vector<Shape> shape;
      for (uint32_t i = 0; i < n->num_outputs(); ++i) {
        const NodeEntry e(n, i);
        type.push_back(types[e]);
        shape.push_back(shapes[e]);
        shows.push_back(CanShow(types[e], shapes[e]) && SameInAll(shapes[e], fixed));
      }
      NodePtr now = n;
      if (HasControlBodies(n)) {
        at_.push_back(place - 1);
        now = IsOp(n, "If") ? EnterBranches(g, scope, n, shapes, types, fixed, &shown)
                            : EnterLoop(g, scope, n, shapes, types, fixed, &shown);
        at_.pop_back();
      }
      for (uint32_t i = 0; i < shows.size(); ++i)
        if (shows[i])
          shown.push_back(
              {Add(scope, NodeEntry(now, i),
                   shows.size() > 1 ? fmt::format("{} output {}", name, i) : name, place),
               NodeEntry(now, i), type[i], shape[i]});
    }
    return shown;
  }

  size_t AddScope(size_t parent, const NodePtr& n, const std::string& body, bool is_loop) {
    Scope s;
    s.parent = parent;
    s.is_loop = is_loop;
    s.loops = all_.scopes_[parent].loops + (is_loop ? 1 : 0);
    const std::string& around = all_.scopes_[parent].name;
    s.name = (around.empty() ? "" : around + "/") +
             (n->attrs.name.empty() ? n->Describe() : n->attrs.name) + "/" + body;
    s.place = at_;
    all_.scopes_.push_back(std::move(s));
    return all_.scopes_.size() - 1;
  }

  /// The number of iterations is the same, whatever iteration of the loops around it is in.
  static bool CountIsFixed(const NodePtr& n) {
    if (IsOp(n, "Scan")) return true;
    const Graph& body = *n->attr<GraphPtr>("body");
    const NodeEntry cond = body.outputs[0];
    const auto holds = [](const NodeEntry& e) {
      const TensorPtr t = Graph::ConstantOf(e);
      return t && t->num_elements() == 1 && t->at_int(0) != 0;
    };
    const bool goes_on = cond.node == body.inputs()[1] || holds(cond);
    const bool begins = !n->inputs[1].node || holds(n->inputs[1]);
    return goes_on && begins && n->inputs[0].node && Graph::ConstantOf(n->inputs[0]);
  }

  NodePtr EnterLoop(Graph* g, size_t scope, const NodePtr& n, const ShapeMap& shapes,
                    const TypeMap& types, const Symbols* fixed, std::vector<Shown>* shown) {
    // What a branch that is not taken gives has to be of the sizes that the other one would have.
    if (fixed && (branches_ > 0 || !CountIsFixed(n))) return n;
    std::optional<Graph> body = FittingBody(n, "body", shapes, types);
    if (!body) return n;
    Symbols inside = SymbolsOf(n, shapes);
    if (fixed)
      for (auto it = inside.begin(); it != inside.end();)
        it = fixed->count(*it) ? std::next(it) : inside.erase(it);
    const size_t child = AddScope(scope, n, "body", true);
    const size_t captures = size_t(n->attr<int64_t>("num_captures"));
    std::vector<Shown> in_body = Expose(&*body, child, &inside);
    const std::vector<NodePtr> inputs = body->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NodeEntry e(inputs[i]);
      if (i + captures >= inputs.size()) {
        all_.scopes_[child].captured[inputs[i]->id()] = n->inputs[i].key();
        continue;
      }
      const Shape shape = body->GetAttr<ShapeMap>("shape")[e];
      const Type type = body->GetAttr<TypeMap>("dtype")[e];
      if (!CanShow(type, shape) || !SameInAll(shape, &inside)) continue;
      const NodePtr copy = body->AddNode(builtin::kIdentity, {e});
      in_body.push_back({Add(child, e, inputs[i]->attrs.name, -1), NodeEntry(copy), type, shape});
    }
    AttrDict attrs = n->attrs.dict;
    const uint32_t before = n->num_outputs();
    for (const Shown& s : in_body) body->outputs.push_back(s.by);
    if (IsOp(n, "Scan")) {
      const size_t stacks = body->outputs.size() - (inputs.size() - captures) +
                            size_t(n->attr<int64_t>("num_scan_inputs"));
      for (const char* list : {"scan_output_axes", "scan_output_directions"}) {
        if (!n->has_attr(list)) continue;
        Ints all = n->attr<Ints>(list);
        if (!all.empty()) all.resize(stacks, 0);
        attrs[list] = all;
      }
    }
    const auto made_body = std::make_shared<const Graph>(std::move(*body));
    all_.scopes_[child].graph = made_body;
    attrs["body"] = GraphPtr(made_body);
    return Replace(g, n, std::move(attrs), before, in_body, shown);
  }

  NodePtr EnterBranches(Graph* g, size_t scope, const NodePtr& n, const ShapeMap& shapes,
                        const TypeMap& types, const Symbols* fixed, std::vector<Shown>* shown) {
    Branch branches[2];
    for (int k = 0; k < 2; ++k) {
      Branch& b = branches[k];
      b.name = k == 0 ? "then_branch" : "else_branch";
      std::optional<Graph> body = FittingBody(n, b.name, shapes, types);
      b.fits = body.has_value();
      b.graph = b.fits ? *std::move(body) : *n->attr<GraphPtr>(b.name);
      if (!b.fits) continue;
      b.scope = AddScope(scope, n, b.name, false);
      all_.scopes_[b.scope].taken_where = k == 0;
      ++branches_;
      b.shown = Expose(&b.graph, b.scope, fixed);
      --branches_;
      const std::vector<NodePtr> inputs = b.graph.inputs();
      for (size_t i = 0; i < inputs.size(); ++i)
        all_.scopes_[b.scope].captured[inputs[i]->id()] = n->inputs[i + 1].key();
    }
    if (branches[0].shown.empty() && branches[1].shown.empty()) return n;
    // First those of one branch, then those of the other, then which it was.
    std::vector<NodeEntry> outputs[2];
    for (int k = 0; k < 2; ++k) {
      for (const Shown& s : branches[k].shown) {
        outputs[k].push_back(s.by);
        outputs[1 - k].push_back(Zeros(&branches[1 - k], s.type, s.shape));
      }
    }
    std::vector<Shown> both;
    for (Branch& b : branches) both.insert(both.end(), b.shown.begin(), b.shown.end());
    AttrDict attrs = n->attrs.dict;
    for (int k = 0; k < 2; ++k) {
      Graph& body = branches[k].graph;
      for (const NodeEntry& e : outputs[k]) body.outputs.push_back(e);
      body.outputs.push_back(body.AddConstant(Tensor::Scalar(DType::kBool, k == 0)));
      const auto made_body = std::make_shared<const Graph>(std::move(body));
      if (branches[k].fits) all_.scopes_[branches[k].scope].graph = made_body;
      attrs[branches[k].name] = GraphPtr(made_body);
    }
    const uint32_t before = n->num_outputs();
    const std::string name = n->Describe();
    const NodePtr made = Replace(g, n, std::move(attrs), before, both, shown);
    const NodeEntry flag(made, before + uint32_t(both.size()));
    const size_t which = Add(scope, flag, name + ": which branch", -1);
    shown->push_back({which, flag, DType::kBool, Shape::Scalar()});
    for (const Branch& b : branches)
      if (b.fits) all_.scopes_[b.scope].branch = std::ptrdiff_t(which);
    return made;
  }
  /// What the branch that is not taken gives.
  static NodeEntry Zeros(Branch* b, const Type& type, const Shape& shape) {
    std::vector<int64_t> dims;
    bool is_static = true, is_told = b->fits;
    for (SymInt d : shape.dims()) {
      dims.push_back(d.known() ? d.try_value().value_or(0) : 0);
      is_static = is_static && d.known() && d.is_const();
      for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>())
        is_told = is_told && !s.is_unbacked();
      is_told = is_told && d.known();
    }
    if (is_static || !is_told)
      return b->graph.AddConstant(std::make_shared<const Tensor>(type.dtype, dims));
    const NodeEntry zero = b->graph.AddConstant(Tensor::Scalar(type.dtype, 0)),
                    sizes(b->graph.AddNode(builtin::kShapeTensor, {}, {{"dims", shape}}));
    return NodeEntry(b->graph.AddNode("Expand", {zero, sizes}));
  }

  static NodePtr Replace(Graph* g, const NodePtr& n, AttrDict attrs, uint32_t before,
                         const std::vector<Shown>& inside, std::vector<Shown>* shown) {
    const std::vector<NodeEntry> operands = n->inputs;
    const NodePtr made = g->AddNode(n->op(), operands, std::move(attrs), n->attrs.name);
    std::vector<NodeEntry> to;
    for (uint32_t i = 0; i < before; ++i) to.emplace_back(made, i);
    g->ReplaceNode(n, to);
    g->Erase(n);
    const bool stacks = !IsOp(made, "If");
    for (size_t k = 0; k < inside.size(); ++k) {
      std::vector<SymInt> dims = inside[k].shape.dims();
      if (stacks) dims.insert(dims.begin(), SymInt());  // it is not asked for
      shown->push_back({inside[k].layer, NodeEntry(made, before + uint32_t(k)), inside[k].type,
                        Shape(std::move(dims))});
    }
    return made;
  }

  Layers& all_;
  std::vector<int64_t> at_;  ///< places of the nodes whose bodies it is in
  int branches_ = 0;         ///< around
};

Layers::Layers(Graph g) { Exposer(this).Run(std::move(g)); }

NodeEntry Layers::EntryOf(size_t layer) const {
  const Layer& l = layers_[layer];
  return {GraphOf(scopes_[l.scope]).node(l.entry.id), l.entry.index};
}

std::vector<Layers::Iteration> Layers::Iterations(size_t layer, const Run& a, const Run& b) const {
  std::vector<Iteration> all = {{}};
  for (size_t axis = 0; axis < scopes_[layers_[layer].scope].loops; ++axis) {
    const int64_t count = std::min(a.results[layer]->dims()[axis], b.results[layer]->dims()[axis]);
    std::vector<Iteration> longer;
    for (const Iteration& around : all)
      for (int64_t i = 0; i < count; ++i) {
        longer.push_back(around);
        longer.back().push_back(i);
      }
    all = std::move(longer);
  }
  return all;
}

TensorPtr Layers::Part(size_t layer, const Iteration& iteration, const Run& run) const {
  const Layer& l = layers_[layer];
  for (size_t s = l.scope; s != 0; s = scopes_[s].parent) {
    if (scopes_[s].branch < 0) continue;
    const TensorPtr taken = Part(size_t(scopes_[s].branch), iteration, run);
    if (!taken || (taken->at_int(0) != 0) != scopes_[s].taken_where) return nullptr;
  }
  TensorPtr t = run.results[layer];
  for (size_t axis = 0; axis < scopes_[l.scope].loops; ++axis) {
    if (axis >= iteration.size() || iteration[axis] >= t->dims()[0]) return nullptr;
    t = SliceAt(t, iteration[axis]);
  }
  return t;
}

TensorPtr Layers::Value(size_t scope, EntryKey e, const Iteration& iteration,
                        const Run& run) const {
  const Scope& s = scopes_[scope];
  const NodeEntry entry(GraphOf(s).node(e.id), e.index);
  if (const TensorPtr constant = Graph::ConstantOf(entry)) return constant;
  if (const auto it = s.layers.find(e); it != s.layers.end())
    return Part(it->second, iteration, run);
  if (const auto it = s.captured.find(e.id); it != s.captured.end())
    return it->second.present() ? Value(s.parent, it->second, iteration, run) : nullptr;
  const auto fed = scope == 0 ? run.inputs.find(entry.node->attrs.name) : run.inputs.end();
  return fed == run.inputs.end() ? nullptr : fed->second;
}

TensorPtr Layers::Operand(size_t layer, const NodeEntry& e, const Iteration& iteration,
                          const Run& run) const {
  return Value(layers_[layer].scope, e.key(), iteration, run);
}

std::vector<int64_t> Layers::Order(size_t layer, const Iteration& iteration) const {
  std::vector<size_t> around;
  for (size_t s = layers_[layer].scope; s != 0; s = scopes_[s].parent) around.push_back(s);
  std::reverse(around.begin(), around.end());
  std::vector<int64_t> order;
  size_t loop = 0;
  for (size_t s : around) {
    order.push_back(scopes_[s].place.back());
    if (scopes_[s].is_loop) order.push_back(iteration[loop++]);
  }
  order.push_back(layers_[layer].place);
  return order;
}

}  // namespace weft::tool
