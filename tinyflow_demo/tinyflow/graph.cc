/// graph.cc: the default graph, names, variables.
#include "tinyflow/graph.h"

#include <algorithm>
#include <utility>

#include "tinyflow/engine.h"
#include "tinyflow/ops.h"
#include "weft/core/graph/effects.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace tf {
namespace {

GraphPtr& Default() {
  thread_local GraphPtr graph = std::make_shared<GraphState>();
  return graph;
}

/// "conv1/w", then "conv1/w_1".
std::string UniqueName(GraphState* g, const std::string& name) {
  const std::string full = g->scope + name;
  const int count = g->names[full]++;
  if (count == 0) return full;
  return UniqueName(g, name + "_" + std::to_string(count));
}

/// A None becomes a symbol: "batch" in front, else one after the placeholder and the axis.
weft::Shape Declared(const Ints& extents, const std::string& name) {
  std::string stem;
  for (const char c : name) stem += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  std::vector<weft::SymInt> dims;
  for (size_t i = 0; i < extents.size(); ++i) {
    WEFT_CHECK(extents[i] >= None, kShapeMismatch, "placeholder '{}': size {} of axis {}", name,
               extents[i], i);
    if (extents[i] != None)
      dims.emplace_back(extents[i]);
    else
      dims.push_back(weft::SymInt::Symbol(i == 0 ? "batch" : fmt::format("_{}_{}", stem, i)));
  }
  return weft::Shape(std::move(dims));
}

/// While it lives, the graph around all loops is the default, in the name scope of the body.
class AtRoot {
 public:
  AtRoot()
      : names_(default_graph()->scope),
        graph_(root_graph()),
        previous_(std::exchange(default_graph()->scope, names_)) {}
  ~AtRoot() { default_graph()->scope = previous_; }
  AtRoot(const AtRoot&) = delete;
  AtRoot& operator=(const AtRoot&) = delete;

 private:
  std::string names_;
  GraphScope graph_;
  std::string previous_;
};

bool IsInside(GraphPtr g, const GraphPtr& outer) {
  for (; g; g = g->outer)
    if (g == outer) return true;
  return false;
}
Tensor AddVariable(DType dtype, const weft::Shape& shape, const std::string& name, bool trainable) {
  const GraphPtr& g = default_graph();
  const weft::NodePtr node = weft::AddState(g->graph, UniqueName(g.get(), name), dtype, shape);
  VariableInfo info;
  info.tensor = Tensor(g, node, dtype);
  info.trainable = trainable;
  g->variables.push_back(info);
  return info.tensor;
}

Tensor AddPlaceholder(DType dtype, const weft::Shape& shape, const std::string& name) {
  const GraphPtr& g = default_graph();
  WEFT_CHECK(!g->outer, kApiMisuse, "placeholder '{}' in the body of a loop; make it outside",
             name);
  return Tensor(g, g->graph.AddInput(name, dtype, shape), dtype);
}

}  // namespace

const std::string& Tensor::name() const {
  WEFT_CHECK(entry_.node, kApiMisuse, "a null tensor has no name");
  return entry_.node->attrs.name;
}
weft::Shape Tensor::shape() const {
  WEFT_CHECK(entry_.node, kApiMisuse, "a null tensor has no shape");
  return engine::InferShape(graph_->graph, entry_);
}

Tensor inside(const Tensor& t, const GraphPtr& g) {
  WEFT_CHECK(t && IsInside(g, t.graph()), kApiMisuse, "a tensor is null, or of another graph");
  std::vector<GraphPtr> way;
  for (GraphPtr at = g; at != t.graph(); at = at->outer) way.push_back(at);
  Tensor found = t;  // in each body on the way from its own graph
  for (auto at = way.rbegin(); at != way.rend(); ++at) {
    auto& captured = (*at)->captured;
    auto known = std::find_if(captured.begin(), captured.end(),
                              [&](const auto& c) { return c.first.entry() == found.entry(); });
    if (known == captured.end()) {
      const weft::NodePtr input = (*at)->graph.AddInput(fmt::format("outer{}", captured.size()),
                                                        found.dtype(), found.shape());
      captured.emplace_back(found, Tensor(*at, input, found.dtype()));
      known = captured.end() - 1;
    }
    found = known->second;
  }
  return found;
}

const GraphPtr& default_graph() { return Default(); }
const GraphPtr& root_graph() {
  const GraphPtr* g = &Default();
  while ((*g)->outer) g = &(*g)->outer;
  return *g;
}
void reset_default_graph() { Default() = std::make_shared<GraphState>(); }
GraphScope::GraphScope(GraphPtr graph) : previous_(std::move(Default())) {
  Default() = std::move(graph);
}
GraphScope::~GraphScope() { Default() = std::move(previous_); }

NameScope::NameScope(const std::string& name) : graph_(default_graph()), previous_(graph_->scope) {
  graph_->scope = UniqueName(graph_.get(), name) + "/";
}
NameScope::~NameScope() { graph_->scope = previous_; }

void set_random_seed(uint64_t seed) {
  WEFT_CHECK(default_graph()->random_ops == 0, kApiMisuse,
             "set_random_seed after something random was built");
  default_graph()->seed = seed;
}

Tensor placeholder(DType dtype, const std::string& name) {
  return AddPlaceholder(dtype, weft::Shape(), UniqueName(default_graph().get(), name));
}
Tensor placeholder(DType dtype, const Ints& shape, const std::string& name) {
  const std::string unique = UniqueName(default_graph().get(), name);
  return AddPlaceholder(dtype, Declared(shape, unique), unique);
}

Tensor Variable(const Tensor& initial, const std::string& name, bool trainable) {
  WEFT_CHECK(initial && initial.graph() == root_graph(), kApiMisuse,
             "variable '{}': its first value was built in the body of a loop, or in another graph",
             name);
  const AtRoot root;
  const weft::Shape shape = initial.shape();
  WEFT_CHECK(shape.is_static(), kShapeMismatch,
             "variable '{}': its first value has shape {}, which is not fixed", name,
             shape.ToString());
  const Tensor variable = AddVariable(initial.dtype(), shape, name, trainable);
  default_graph()->variables.back().initial = initial;
  return variable;
}

Tensor Variable(DType dtype, const ShapeRule& rule,
                const std::function<Tensor(const Ints&)>& initial, const std::string& name,
                bool trainable) {
  const weft::Shape shape = rule([](const Tensor& t) { return t.shape(); });
  WEFT_CHECK(shape.is_static() || !default_graph()->outer, kShapeMismatch,
             "variable '{}' of the body of a loop: its shape {} has to be known when it is made",
             name, shape.ToString());
  const AtRoot root;
  const Tensor variable =
      AddVariable(dtype, shape.is_static() ? shape : weft::Shape(), name, trainable);
  VariableInfo& info = default_graph()->variables.back();
  if (shape.is_static()) {
    if (initial) info.initial = initial(shape.ints());
  } else {
    info.rule = rule;
    info.make_initial = initial;
  }
  return variable;
}

std::vector<Tensor> all_variables() {
  std::vector<Tensor> list;
  for (const VariableInfo& v : root_graph()->variables) list.push_back(v.tensor);
  return list;
}
std::vector<Tensor> trainable_variables() {
  std::vector<Tensor> list;
  for (const VariableInfo& v : root_graph()->variables)
    if (v.trainable) list.push_back(v.tensor);
  return list;
}

Tensor initialize_all_variables() {
  std::vector<Tensor> first_values;
  for (const VariableInfo& v : default_graph()->variables) {
    WEFT_CHECK(!v.rule || !v.make_initial, kShapeMismatch,
               "the shape of variable '{}' is not known yet; call infer_variable_shapes first",
               v.tensor.name());
    if (v.initial) first_values.push_back(assign(v.tensor, v.initial));
  }
  return group(first_values);
}

std::vector<InferredVariable> infer_variable_shapes(
    const Tensor& of, const std::vector<std::pair<Tensor, Ints>>& known) {
  std::map<weft::NodeId, weft::Shape> given;
  for (const auto& [tensor, extents] : known)
    given[tensor.entry().node->id()] = weft::Shape::OfInts(extents);
  std::vector<bool> reached(of.graph()->graph.id_bound(), false);
  weft::DFSVisit({of.entry()}, [&](const weft::NodePtr& n) { reached[n->id()] = true; });

  std::vector<InferredVariable> found;
  std::vector<std::string> unknown;
  weft::Graph& graph = of.graph()->graph;
  for (VariableInfo& v : of.graph()->variables) {
    if (!v.rule || !reached[v.tensor.entry().node->id()]) continue;
    const weft::Shape shape =
        v.rule([&](const Tensor& t) { return engine::InferShape(graph, t.entry(), given); });
    if (!shape.is_static()) {
      unknown.push_back(v.tensor.name());
      continue;
    }
    // What follows uses this shape, so that one sweep in the order of creation decides all.
    graph.SetAttr(v.tensor.entry().node, "shape", shape);
    v.rule = nullptr;
    if (v.make_initial) v.initial = v.make_initial(shape.ints());
    found.push_back({v.tensor, v.tensor.name(), shape.ints()});
  }
  WEFT_CHECK(unknown.empty(), kShapeMismatch,
             "the shapes of {} do not follow from the given ones; give the shapes of all "
             "placeholders that they depend on",
             weft::Join(unknown, ", "));
  return found;
}

Tensor make_node(const std::string& op, const std::vector<Tensor>& inputs, weft::AttrDict attrs,
                 DType dtype, const std::string& name) {
  // A node goes to the innermost graph that an operand is of: what is the same in all iterations of
  // a loop is computed outside.
  GraphPtr g;
  for (const Tensor& t : inputs) {
    if (!t) continue;
    if (!g || IsInside(t.graph(), g)) g = t.graph();
    WEFT_CHECK(IsInside(g, t.graph()), kApiMisuse, "{}: operands of two graphs", op);
    if (dtype == DType::kUnknown) dtype = t.dtype();
  }
  if (!g) g = default_graph();
  WEFT_CHECK(!g->closed, kApiMisuse,
             "{}: an operand is of the body of a loop, and lives there only; make it a state", op);
  std::vector<weft::NodeEntry> entries;
  for (const Tensor& t : inputs) entries.push_back(t ? inside(t, g).entry() : weft::NodeEntry());
  const weft::NodePtr node = g->graph.AddNode(op, entries, std::move(attrs),
                                              UniqueName(g.get(), name.empty() ? op : name));
  return Tensor(g, node, dtype);
}

}  // namespace tf
