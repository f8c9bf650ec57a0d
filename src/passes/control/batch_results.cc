/// batch_results.cc: BatchResults. Products that the body of a Scan computes for its results alone,
/// and sums that it only gathers in a state, are one product or one sum over all steps, behind it.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      takes out what a later step, or another result, reads in between;
///              moves element-wise operators by themselves
///   cost       linear in nodes and bodies
///
///   s = Scan(0, a, b) {s, a, b -> s + a^T b}     ->  s = 0 + A^T B, A and B the rows of all steps
///   s = Scan(0, a) {s, a -> s + SumTo(f(a))}     ->  y = Scan(a) {a -> f(a)};  s = 0 + SumTo(y)
///   y = Scan(h, x) {h, x -> f(h, x), f(h, x) W}  ->  z = Scan(h, x) {.., f(h, x)};  y = z W
///
/// The counterpart of BatchScan. The gradient of a recurrent network sums that of its weights over
/// the steps: in the loop each step reads and writes a whole matrix for a product of few rows.
/// Sums are made in another order.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "loop_parts.h"
#include "over_steps.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"
#include "weft/core/tensor/sym_tensor.h"

namespace weft {
namespace {

/// A Scan whose body shall give other results, and what stands behind it for them. Entries of the
/// body are those of the body as it was.
class Behind {
 public:
  Behind(Graph& g, const NodePtr& scan, Graph body, SymInt steps)
      : g_(g),
        parts_(scan),
        body_(std::move(body)),
        shapes_(body_.GetAttr<ShapeMap>("shape")),
        steps_(steps),
        direction_(parts_.slice_direction(0)),
        outputs_(body_.outputs.begin(), body_.outputs.end()),
        stays_(outputs_.size(), true) {
    const std::vector<NodePtr>& inputs = body_.inputs();
    for (size_t i = parts_.first_slice(); i < inputs.size(); ++i) {
      const size_t k = i - parts_.first_slice();
      const bool sliced = i < parts_.first_capture();
      if (sliced && (parts_.slice_axis(k) != 0 || parts_.slice_direction(k) != direction_))
        continue;
      (sliced ? stacks_ : invariants_)[NodeEntry(inputs[i]).key()] = scan->inputs[i];
    }
  }
  Graph& graph() { return g_; }
  const Graph& body() const { return body_; }
  const LoopParts& parts() const { return parts_; }
  const Shape& shape(const NodeEntry& e) const { return shapes_[e]; }
  const ShapeMap& shapes() const { return shapes_; }
  SymInt steps() const { return steps_; }
  int64_t direction() const { return direction_; }
  bool IsInvariant(const NodeEntry& e) const {
    return invariants_.count(e.key()) != 0 || Graph::ConstantOf(e);
  }
  bool IsSlice(const NodeEntry& e) const { return stacks_.count(e.key()) != 0; }

  /// `e` of all steps is read behind the loop.
  void Collect(const NodeEntry& e) {
    if (!IsSlice(e)) collected_.push_back(e);
  }
  /// Output k of the body goes.
  void Drop(size_t k) { stays_[k] = false; }
  /// State k becomes itself and these.
  void Gather(size_t k, const std::vector<NodeEntry>& terms) { gathered_[k] = terms; }

  /// The loop anew. What stands for its outputs and for what was collected is known then.
  void MakeLoop() {
    Graph body = body_;
    std::vector<NodeEntry> outputs, operands;
    std::vector<NodePtr> inputs;
    for (size_t i = 0; i < parts_.node->num_inputs(); ++i)
      if (i >= parts_.states || stays_[i]) {
        inputs.push_back(body.at(body_.inputs()[i]));
        operands.push_back(parts_.node->inputs[i]);
      }
    for (const auto& [k, terms] : gathered_) {
      NodeEntry sum(body.at(body_.inputs()[k]));
      for (const NodeEntry& e : terms) sum = NodeEntry(body.AddNode("Add", {sum, body.at(e)}));
      outputs_[k] = sum;
    }
    Ints axes, directions;
    std::map<EntryKey, uint32_t> places;  // of what is given as it is collected
    results_.resize(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!stays_[i]) continue;
      results_[i].index = uint32_t(outputs.size());
      outputs.push_back(gathered_.count(i) ? outputs_[i] : body.at(outputs_[i]));
      if (i < parts_.states) continue;
      axes.push_back(parts_.result_axis(i - parts_.states));
      directions.push_back(parts_.result_direction(i - parts_.states));
      if (axes.back() == 0 && directions.back() == direction_)
        places.emplace(outputs_[i].key(), results_[i].index);
    }
    for (const NodeEntry& e : collected_) {
      if (!places.emplace(e.key(), uint32_t(outputs.size())).second) continue;
      outputs.push_back(body.at(e));
      axes.push_back(0);
      directions.push_back(direction_);
    }
    if (outputs.empty()) return;  // all that it gave is computed of its slices
    AttrDict attrs = parts_.node->attrs.dict;
    SetScanList(&attrs, "scan_output_axes", axes);
    SetScanList(&attrs, "scan_output_directions", directions);
    body.outputs = outputs;
    body.SetInputs(inputs);
    body.EraseDead();
    attrs["body"] = std::make_shared<const Graph>(std::move(body));
    const NodePtr made =
        g_.AddNode(parts_.node->op(), operands, std::move(attrs), parts_.node->attrs.name);
    for (size_t i = 0; i < results_.size(); ++i)
      if (stays_[i]) results_[i].node = made;
    for (const NodeEntry& e : collected_) stacks_[e.key()] = NodeEntry(made, places.at(e.key()));
  }
  /// What stands behind the loop for an invariant, and for all steps of a slice or of what was
  /// collected.
  NodeEntry Outside(const NodeEntry& e) {
    if (const auto it = stacks_.find(e.key()); it != stacks_.end()) return it->second;
    const auto it = invariants_.find(e.key());
    return it != invariants_.end() ? it->second : g_.AddConstant(Graph::ConstantOf(e));
  }
  /// What stands for output k of the loop; null where that has gone.
  NodeEntry Result(size_t k) const { return results_[k]; }
  void Replace(const std::vector<NodeEntry>& to) { ReplaceLoop(g_, parts_.node, to); }

 private:
  Graph& g_;
  const LoopParts parts_;
  const Graph body_;
  const ShapeMap shapes_;
  const SymInt steps_;
  const int64_t direction_;
  std::vector<NodeEntry> outputs_;
  std::vector<bool> stays_;
  std::map<size_t, std::vector<NodeEntry>> gathered_;
  std::unordered_map<EntryKey, NodeEntry> invariants_, stacks_;
  std::vector<NodeEntry> collected_, results_;
};

// ---- sums ----

/// One term of a sum over the steps: linear operators (the outermost first) of a product or a sum.
struct Term {
  std::vector<NodePtr> linear;
  NodePtr node;
};
/// A state that is s + t0 + t1 .. and read by nothing else.
struct Gathering {
  size_t state;
  std::vector<NodeEntry> stay;
  std::vector<Term> leave;
};

bool IsLinear(const NodePtr& n) {
  for (const char* name : {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Neg", "Identity"})
    if (IsOp(n, name)) return true;
  return false;
}
/// The rows that a product sums over, as one matrix of all steps.
struct Factor {
  NodeEntry e;
  bool transposed;  ///< it has them as columns
};
struct Product {
  Factor a, b;
  double alpha = 1;
};
Factor FactorOf(const NodeEntry& e, bool transposed) {
  if (!IsOp(e.node, "Transpose") || TransposePerm(e.node, 2) != Ints{1, 0}) return {e, transposed};
  return FactorOf(e.node->inputs[0], !transposed);
}

class SumFinder {
 public:
  explicit SumFinder(const Behind& behind) : behind_(behind), body_(behind.body()) {}

  std::optional<Gathering> Find(size_t k) const {
    const NodeEntry state(body_.inputs()[k]), next = body_.outputs[k];
    const Shape& shape = behind_.shape(state);
    if (!shape.fully_known() || state.node->uses().size() != 1 || body_.is_output(state.node) ||
        std::count(body_.outputs.begin(), body_.outputs.end(), next) != 1 ||
        !next.node->uses().empty())
      return std::nullopt;
    Gathering sum{k, {}, {}};
    bool found = false;
    std::vector<NodeEntry> work{next};
    while (!work.empty()) {
      const NodeEntry e = work.back();
      work.pop_back();
      if (!behind_.shape(e).same(shape)) return std::nullopt;
      if (e == state) {
        found = true;
      } else if ((IsOp(e.node, "Add") || IsOp(e.node, "Sum")) && (e == next || IsReadOnce(e))) {
        for (size_t i = e.node->num_inputs(); i-- > 0;) work.push_back(e.node->inputs[i]);
      } else if (const std::optional<Term> t = TermOf(e)) {
        sum.leave.push_back(*t);
      } else {
        sum.stay.push_back(e);
      }
    }
    if (!found || sum.leave.empty()) return std::nullopt;
    return sum;
  }
  /// Of a term: a^T b, where it is a product.
  std::optional<Product> ProductOf(const NodePtr& n) const {
    const auto rank = [&](size_t i) { return behind_.shape(n->inputs[i]).rank(); };
    if (IsMatrixProduct(n)) {
      if (rank(0) != 2 || rank(1) != 2) return std::nullopt;
      if (!IsOp(n, "Gemm"))
        return Product{FactorOf(n->inputs[0], true), FactorOf(n->inputs[1], false)};
      if (n->num_inputs() > 2 && n->inputs[2].node) return std::nullopt;
      return Product{FactorOf(n->inputs[0], n->attr<int64_t>("transA") == 0),
                     FactorOf(n->inputs[1], n->attr<int64_t>("transB") != 0),
                     n->attr<double>("alpha")};
    }
    // Of two vectors.
    if (!IsOp(n, "weft::MatMulGrad") || rank(0) != 1 || rank(1) != 1) return std::nullopt;
    const bool of_a = n->attr<int64_t>("of") == 0;
    return Product{{n->inputs[of_a ? 0 : 1], false}, {n->inputs[of_a ? 1 : 0], false}};
  }
  /// Which axes a ReduceSum sums over; empty: that is not known.
  std::vector<int64_t> AxesOf(const NodePtr& n) const {
    const int64_t rank = behind_.shape(n->inputs[0]).rank();
    std::vector<int64_t> axes;
    if (n->num_inputs() > 1 && n->inputs[1].node) {
      const TensorPtr given = Graph::ConstantOf(n->inputs[1]);
      for (int64_t i = 0; given && i < given->num_elements(); ++i)
        axes.push_back(given->at_int(i) + (given->at_int(i) < 0 ? rank : 0));
    } else if (n->attr<int64_t>("noop_with_empty_axes") == 0) {
      for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    }
    return axes;
  }

 private:
  bool IsReadOnce(const NodeEntry& e) const {
    return e.node->uses().size() == 1 && !body_.is_output(e.node) && e.node->num_outputs() == 1;
  }
  bool CanCollect(const NodeEntry& e) const {
    return e.node && behind_.shape(e).fully_known() && !behind_.IsInvariant(e);
  }
  std::optional<Term> TermOf(NodeEntry e) const {
    Term t;
    while (IsReadOnce(e) && e.node->num_inputs() > 0 && IsLinear(e.node)) {
      for (size_t i = 1; i < e.node->num_inputs(); ++i)
        if (e.node->inputs[i].node && !behind_.IsInvariant(e.node->inputs[i])) return std::nullopt;
      t.linear.push_back(e.node);
      e = e.node->inputs[0];
    }
    if (!IsReadOnce(e) || e.node->is_variable() || !IsRepeatable(e.node)) return std::nullopt;
    t.node = e.node;
    if (const std::optional<Product> p = ProductOf(t.node))
      return CanCollect(p->a.e) && CanCollect(p->b.e) ? std::optional(t) : std::nullopt;
    const bool sums =
        IsOp(t.node, builtin::kSumTo)
            ? t.linear.empty()
            : IsOp(t.node, "ReduceSum") && CanCollect(t.node->inputs[0]) && !AxesOf(t.node).empty();
    return sums && CanCollect(t.node->inputs[0]) ? std::optional(t) : std::nullopt;
  }

  const Behind& behind_;
  const Graph& body_;
};

NodeEntry ReshapeTo(Graph& g, const NodeEntry& x, const std::vector<SymInt>& dims) {
  const SymTensor v{{int64_t(dims.size())}, dims};
  const NodeEntry target =
      v.is_const() ? g.AddConstant(Tensor::Ints(v.ints()))
                   : NodeEntry(g.AddNode(builtin::kShapeTensor, {}, {{"dims", Shape(dims)}}));
  return NodeEntry(g.AddNode("Reshape", {x, target}, {{"allowzero", 1}}));
}

/// The rows of all steps under each other.
NodeEntry AllRows(Behind& b, const Factor& f) {
  const Shape shape = b.shape(f.e);
  NodeEntry x = b.Outside(f.e);
  if (shape.rank() == 1) return x;
  if (f.transposed) x = NodeEntry(b.graph().AddNode("Transpose", {x}, {{"perm", Ints{0, 2, 1}}}));
  const SymInt rows = shape[f.transposed ? 1 : 0], columns = shape[f.transposed ? 0 : 1];
  return ReshapeTo(b.graph(), x, {b.steps() * rows, columns});
}

/// The sum of a term over all steps, of the shape of `like`.
NodeEntry SumOf(Behind& b, const SumFinder& finder, const Term& t, const NodeEntry& like) {
  Graph& g = b.graph();
  NodeEntry sum;
  if (const std::optional<Product> p = finder.ProductOf(t.node)) {
    sum = NodeEntry(g.AddNode("Gemm", {AllRows(b, p->a), AllRows(b, p->b)},
                              {{"transA", int64_t{1}}, {"alpha", p->alpha}}));
  } else if (IsOp(t.node, builtin::kSumTo)) {
    sum = NodeEntry(g.AddNode(builtin::kSumTo, {b.Outside(t.node->inputs[0]), like}));
  } else {
    std::vector<int64_t> axes{0};
    for (int64_t axis : finder.AxesOf(t.node)) axes.push_back(axis + 1);
    sum = NodeEntry(g.AddNode("ReduceSum",
                              {b.Outside(t.node->inputs[0]), g.AddConstant(Tensor::Ints(axes))},
                              {{"keepdims", int64_t{0}}}));
    if (t.node->attr<int64_t>("keepdims") != 0)
      sum = ReshapeTo(g, sum, b.shape(NodeEntry(t.node)).dims());
  }
  for (auto n = t.linear.rbegin(); n != t.linear.rend(); ++n) {
    std::vector<NodeEntry> in{sum};
    for (size_t i = 1; i < (*n)->num_inputs(); ++i)
      in.push_back((*n)->inputs[i].node ? b.Outside((*n)->inputs[i]) : NodeEntry());
    sum = NodeEntry(g.AddCopy(*n, in));
  }
  return sum;
}

/// A sum that begins with it is the rest, which is made in another order than before anyway.
bool IsZero(NodeEntry e) {
  while (IsOp(e.node, "Cast")) e = e.node->inputs[0];
  if (IsOp(e.node, builtin::kZeros)) return true;
  const bool filled = IsOp(e.node, "ConstantOfShape");
  if (filled && !e.node->has_attr("value")) return true;
  const TensorPtr t = filled ? e.node->attr<TensorPtr>("value") : Graph::ConstantOf(e);
  for (int64_t i = 0; t && i < t->num_elements(); ++i)
    if (t->at(i) != 0) return false;
  return t != nullptr;
}

/// Sums leave; false: there are none.
bool TakeSums(Behind& b, PassContext& ctx) {
  const LoopParts& p = b.parts();
  const SumFinder finder(b);
  std::map<size_t, Gathering> sums;  // by state
  for (size_t k = 0; k < p.states; ++k) {
    const std::optional<Gathering> sum = finder.Find(k);
    if (!sum || !ctx.Fuel("sums", p.node)) continue;
    sums[k] = *sum;
    ctx.Count("sums");
  }
  if (sums.empty()) return false;
  for (const auto& [k, sum] : sums) {
    for (const Term& t : sum.leave) {
      const std::optional<Product> product = finder.ProductOf(t.node);
      b.Collect(product ? product->a.e : t.node->inputs[0]);
      if (product) b.Collect(product->b.e);
    }
    if (sum.stay.empty())
      b.Drop(k);
    else
      b.Gather(k, sum.stay);
  }
  b.MakeLoop();
  std::vector<NodeEntry> to;
  for (size_t k = 0; k < p.states + p.results; ++k) {
    const auto it = sums.find(k);
    to.push_back(b.Result(k));
    if (it == sums.end()) continue;
    const NodeEntry first = p.node->inputs[k];
    if (!to[k] && !IsZero(first)) to[k] = first;
    for (const Term& t : it->second.leave) {
      const NodeEntry sum = SumOf(b, finder, t, first);
      to[k] = to[k] ? NodeEntry(b.graph().AddNode("Add", {to[k], sum})) : sum;
    }
  }
  b.Replace(to);
  return true;
}

// ---- results ----

/// Nodes that only results need: products, and what follows them; readers first.
std::vector<NodePtr> ResultNodes(const Behind& b) {
  const LoopParts& p = b.parts();
  const Graph& body = b.body();
  const std::vector<NodePtr> order = body.TopoOrder();
  std::set<NodeId> behind;  // what nothing in the loop needs
  std::map<NodeId, bool> given;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const size_t r = k - p.states;
    const bool can =
        k >= p.states && p.result_axis(r) == 0 && p.result_direction(r) == b.direction();
    const auto it = given.emplace(body.outputs[k].node->id(), true).first;
    it->second = it->second && can;
  }
  const auto is_stacked = [&](const NodeEntry& e) { return !b.IsInvariant(e); };
  const auto leaves = [&](const NodePtr& n) {
    const auto it = given.find(n->id());
    return !n->is_variable() && IsRepeatable(n) && (it == given.end() || it->second) &&
           (it != given.end() || !n->uses().empty()) &&
           std::all_of(n->uses().begin(), n->uses().end(),
                       [&](const Use& u) { return !u.control && behind.count(u.user->id()); }) &&
           CanRunOverSteps(n, b.shapes(), is_stacked);
  };
  for (auto n = order.rbegin(); n != order.rend(); ++n)
    if (leaves(*n)) behind.insert((*n)->id());
  // A product leaves with all that follows it, which may need nothing else that varies but slices.
  std::set<NodeId> follows;
  for (const NodePtr& n : order) {
    if (!behind.count(n->id())) continue;
    if (IsMatrixProduct(n) ||
        std::any_of(n->inputs.begin(), n->inputs.end(),
                    [&](const NodeEntry& e) { return follows.count(e.node->id()) != 0; }))
      follows.insert(n->id());
  }
  std::vector<NodePtr> out;
  std::set<NodeId> going;
  for (auto n = order.rbegin(); n != order.rend(); ++n) {
    if (!follows.count((*n)->id())) continue;
    const bool readers_go =
        std::all_of((*n)->uses().begin(), (*n)->uses().end(),
                    [&](const Use& u) { return going.count(u.user->id()) != 0; });
    const bool free =
        IsMatrixProduct(*n) ||
        std::all_of((*n)->inputs.begin(), (*n)->inputs.end(), [&](const NodeEntry& e) {
          return follows.count(e.node->id()) || b.IsInvariant(e) || b.IsSlice(e);
        });
    if (!readers_go || !free) continue;
    going.insert((*n)->id());
    out.push_back(*n);
  }
  return out;
}

bool TakeResults(Behind& b, PassContext& ctx) {
  const LoopParts& p = b.parts();
  std::vector<NodePtr> nodes = ResultNodes(b);
  if (nodes.empty() || !ctx.Fuel("results", p.node)) return false;
  std::set<NodeId> going;
  for (const NodePtr& n : nodes) going.insert(n->id());
  for (const NodePtr& n : nodes)
    for (const NodeEntry& e : n->inputs)
      if (!going.count(e.node->id()) && !b.IsInvariant(e)) b.Collect(e);
  for (size_t k = p.states; k < p.states + p.results; ++k)
    if (going.count(b.body().outputs[k].node->id())) b.Drop(k);
  b.MakeLoop();
  std::map<EntryKey, NodeEntry> made;
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    std::vector<NodeEntry> in;
    for (const NodeEntry& e : (*n)->inputs) {
      const auto it = made.find(e.key());
      in.push_back(it != made.end() ? it->second : b.Outside(e));
    }
    made[NodeEntry(*n).key()] = RunOverSteps(b.graph(), *n, in);
    ctx.Count("results");
  }
  std::vector<NodeEntry> to;
  for (size_t k = 0; k < p.states + p.results; ++k) {
    const auto it = made.find(b.body().outputs[k].key());
    to.push_back(it != made.end() ? it->second : b.Result(k));
  }
  b.Replace(to);
  return true;
}

/// How often a Scan runs; unknown: its slices do not say, or only when data have decided it. What
/// stands behind such a loop would be bound to its results, which tell no other size of a loop
/// without iterations.
SymInt StepsOf(const LoopParts& p, const ShapeMap& shapes) {
  for (size_t k = 0; k < p.slices; ++k) {
    const Shape& s = shapes[p.node->inputs[p.first_slice() + k]];
    if (!s.has_rank() || p.slice_axis(k) != 0 || !s[0].known()) continue;
    const std::vector<SymInt> symbols = s[0].Symbols();
    if (std::none_of(symbols.begin(), symbols.end(), [](SymInt d) { return d.is_unbacked(); }))
      return s[0];
  }
  return SymInt();
}

using Take = bool (*)(Behind&, PassContext&);

Graph Batch(Graph g, PassContext& ctx, Take take) {
  std::vector<NodePtr> scans;
  for (NodePtr n : g.TopoOrder())
    if (IsOp(n, "Scan") && IsRepeatable(n)) scans.push_back(n);
  if (scans.empty()) return g;
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  bool any = false;
  for (const NodePtr& n : scans) {
    const SymInt steps = StepsOf(LoopParts(n), shapes);
    if (!steps.known()) continue;
    Behind b(g, n, TypedBody(n, "body", shapes, types), steps);
    any = take(b, ctx) || any;
  }
  if (any) g.EraseDead();
  return g;
}

Graph BatchResults(Graph g, PassContext& ctx) {
  g = Batch(std::move(g), ctx, TakeSums);
  return Batch(ProvideTypes(std::move(g)), ctx, TakeResults);
}

WEFT_REGISTER_PASS(BatchResults)
    .describe("multiplies and sums for all steps of a Scan at once, behind it, what no step reads")
    .set_body(BatchResults)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("sums", "states that were sums over the steps")
    .statistic("results", "nodes that left a body");

}  // namespace
}  // namespace weft
