/// gradient.cc: Gradient. Appends the gradients that `grad_ys`, `grad_xs` and
/// `grad_out` ask for (core/gradient/gradient.h).
///   needs      grad_ys, grad_xs, dtype
///   provides   gradient_of
///   preserves  rows of what was there; inference gives the new nodes theirs
///   never      changes a node that was there, or calls a rule for an output that no y depends on
///   cost       linear: one call of FGradient per node between ys and xs
///   source     reverse accumulation; NNVM Gradient
///
///   %y = Mul(%a, %b), y and a asked for
///     ->  + %g = Expand(1, Shape(%y))   %0 = Mul(%g, %b)   %grad_a = weft::SumTo(%0, %a)
///
/// Nodes are visited backwards. When one is reached, all its readers have been, so the gradient of
/// each of its outputs is complete; the rule gets null for an output without one. Partial gradients
/// of one entry are added up one by one as they come: Add(Add(p0, p1), p2), where every sum may
/// take the place of its first term, so that no more than one is kept.
///
/// Only what depends on an x is differentiated, and only entries of floating point types have
/// gradients: an integer carries none whatever a rule says. A rule may make more than is used; what
/// no gradient needs is erased again.
///
/// A variable that is written behind the forward part is read once for both parts, in front
/// of the write (HoldContents).
///
/// An element-wise operator without a rule is differentiated by its expression: the gradient is a
/// weft::Derivative, whose body is the node.
///
/// Every operator on the way that has neither is named in one error. To find those behind the
/// first, its inputs get a stand-in for their gradient; nothing of that is kept.
#include "weft/core/gradient/gradient.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "weft/codegen/expr/differentiate.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/decompose.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/limits.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

struct Request {
  std::vector<NodeEntry> ys, xs, out_grads;
};

/// What `n` lacks to be differentiated, by kind of reason.
std::string WhyNone(NodePtr n) {
  if (IsOp(n, builtin::kFused)) return "fused already; differentiate before the pass Fusion";
  if (IsOp(n, builtin::kDelegated)) return "given to a delegate already; differentiate before";
  for (const auto& [name, value] : n->attrs.dict)
    if (value.is<GraphPtr>()) return "it holds a graph, and its operator has no FGradient";
  const auto& mutates = Op::GetAttr<FMutateInputs>("FMutateInputs");
  if (mutates.find(n->op())) return "it writes a variable";
  return "its operator has no FGradient";
}

/// By its expression: `n` is an element-wise node of `types` that kernels compute with.
bool HasDerivative(NodePtr n, const TypeMap& types) {
  static const auto& codes = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen* code = codes.find(n->op());
  if (!code || !code->elementwise || !IsRepeatable(n)) return false;
  const auto computable = [&](const NodeEntry& e) {
    const Type t = types[e];
    return t.is_tensor() && IsComputable(t.dtype);
  };
  for (const NodeEntry& e : n->inputs)
    if (e && !computable(e)) return false;
  for (uint32_t k = 0; k < n->num_outputs(); ++k)
    if (!computable({n, k})) return false;
  return true;
}

/// weft::Derivative nodes of one node, in its graph.
class Derivatives {
 public:
  Derivatives(NodePtr n, const std::vector<NodeEntry>& dy, const TypeMap& types) : n_(n) {
    Graph body;
    std::vector<NodeEntry> operands;
    for (size_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry& e = n->inputs[i];
      slots_.push_back(e ? Expr::Slot(int(i), types[e].dtype) : Expr());
      operands.push_back(e ? body.AddInput(fmt::format("x{}", i), types[e]) : NodeEntry());
      if (e) inputs_.push_back(e);
    }
    const NodePtr inner = body.AddNode(n->op(), operands, n->attrs.dict);
    std::vector<NodeEntry> outputs;
    for (uint32_t k = 0; k < inner->num_outputs(); ++k) outputs.emplace_back(inner, k);
    body.outputs = outputs;
    body_ = std::make_shared<const Graph>(std::move(body));
    for (uint32_t k = 0; k < dy.size(); ++k) {
      const DType t = types[NodeEntry(n, k)].dtype;
      seeds_.push_back(dy[k] && IsFloat(t) ? Expr::Slot(int(n->num_inputs() + k), t) : Expr());
      if (!seeds_.back()) continue;
      inputs_.push_back(dy[k]);
      ys_.push_back(k);
    }
  }
  /// The gradient of input `i`; null where it is 0 by structure.
  NodeEntry Of(size_t i) const {
    if (!DifferentiateNode(n_, slots_, seeds_, int(i))) return {};
    int64_t wrt = 0;
    for (size_t k = 0; k < i; ++k) wrt += slots_[k] ? 1 : 0;
    const NodeEntry dx =
        ApplyOp(builtin::kDerivative, inputs_, {{"body", body_}, {"wrt", wrt}, {"ys", ys_}});
    return SumTo(dx, n_->inputs[i]);
  }

 private:
  NodePtr n_;
  GraphPtr body_;
  Exprs slots_, seeds_;
  std::vector<NodeEntry> inputs_;
  Ints ys_;
};

class Builder {
 public:
  /// `shapes`: null where nothing is known.
  Builder(Graph& g, const Request& request, const TypeMap& types, const ShapeMap* shapes,
          std::function<void()> poll)
      : g_(g),
        request_(request),
        types_(types),
        shapes_(shapes),
        poll_(std::move(poll)),
        bound_(g.id_bound()),
        first_slot_(bound_, 0),
        state_(bound_, 0) {}

  std::vector<NodeEntry> Run(GradientMap* map) {
    CheckTypes();
    FindWay();
    const GradientScope scope(g_, &types_, shapes_, &g_);
    try {
      Seed();
      for (auto n = order_.rbegin(); n != order_.rend(); ++n) Visit(*n);
      ThrowUnsupported();
      std::vector<NodeEntry> grads = Collect();
      EraseUnused(grads);
      for (NodePtr n : order_)
        for (uint32_t i = 0, count = n->num_outputs(); i < count; ++i)
          if (const EntryRef& r = refs_[first_slot_[n->id()] + i]; r && r.in(g_))
            map->set(EntryRef(n->id(), i), r);
      return grads;
    } catch (...) {
      // Only nodes were added, and nothing that was there uses them.
      for (NodeId id = g_.id_bound(); id-- > bound_;)
        if (const NodePtr n = g_.node(id)) g_.Erase(n);
      throw;
    }
  }

 private:
  enum : uint8_t { kSeen = 1, kAsked = 2, kCrossed = 4 };

  Type TypeOf(const NodeEntry& e) const { return types_[e]; }
  /// May a gradient flow into `e`? Where the type is not known it may.
  bool Carries(const NodeEntry& e) const {
    const Type t = TypeOf(e);
    return t.dtype == DType::kUnknown || IsFloat(t.dtype) || t.dtype == DType::kC64 ||
           t.dtype == DType::kC128;
  }
  /// Is its gradient of use: is it an x, or computed from one?
  bool Needed(const NodeEntry& e) const {
    if (!e.node) return false;
    const uint8_t state = state_[e.node->id()];
    return (state & kCrossed) || ((state & kAsked) && asked_.count(e));
  }
  void CheckTypes() const {
    std::string bad;
    const auto look = [&](const std::vector<NodeEntry>& entries, const char* what) {
      for (const NodeEntry& e : entries)
        if (!Carries(e))
          bad += fmt::format("\n  {} {} is {}", what, e.node->Describe(), TypeOf(e).ToString());
    };
    look(request_.ys, "y:");
    look(request_.xs, "x:");
    if (!bad.empty())
      ThrowError(ErrorCode::kUnsupported,
                 "a gradient is requested for values whose type has none:" + bad, "",
                 "only floating point values are differentiated");
    for (size_t i = 0; i < request_.out_grads.size(); ++i) {
      const NodeEntry& e = request_.out_grads[i];
      if (!e) continue;
      const Type got = TypeOf(e), want = TypeOf(request_.ys[i]);
      WEFT_CHECK(!got.known() || !want.known() || got == want, kTypeMismatch,
                 "the output gradient {} is {}, {} is {}", e.node->Describe(), got.ToString(),
                 request_.ys[i].node->Describe(), want.ToString());
    }
  }

  /// What ys need, producers first; marks what an x reaches and what hands gradients on to it.
  void FindWay() {
    uint32_t slots = 0;
    DFSVisit(request_.ys, [&](const NodePtr& n) {
      order_.push_back(n);
      first_slot_[n->id()] = slots;
      slots += n->num_outputs();
      state_[n->id()] |= kSeen;
    });
    grads_.resize(slots);
    refs_.resize(slots);
    for (const NodeEntry& x : request_.xs) {
      state_[x.node->id()] |= kAsked;
      asked_.insert(x);
    }
    for (NodePtr n : order_)
      for (const NodeEntry& e : n->inputs)
        if (Needed(e) && Carries(e)) {
          state_[n->id()] |= kCrossed;
          break;
        }
  }

  void Seed() {
    for (size_t i = 0; i < request_.ys.size(); ++i) {
      const NodeEntry y = request_.ys[i];
      if (!Needed(y)) continue;
      NodeEntry seed = i < request_.out_grads.size() ? request_.out_grads[i] : NodeEntry();
      const NodeId before = g_.id_bound();
      if (!seed) seed = Filled(y, 1);
      Give(y, seed);
      SetOrigins(before, y.node);
    }
  }

  /// A tensor of the shape and dtype of `like`.
  NodeEntry Filled(const NodeEntry& like, double value) const {
    const DType t = TypeOf(like).dtype;
    if (value == 0 && IsFloat(t))
      return ApplyOp(builtin::kZeros, {ApplyOp("Shape", {like})}, {{"dtype", t}});
    const NodeEntry scalar =
        t == DType::kUnknown ? ScalarOf(like, value) : ScalarLike(like, t, value);
    return ApplyOp("Expand", {scalar, ApplyOp("Shape", {like})});
  }

  /// One more term of the gradient of `e`.
  void Give(const NodeEntry& e, const NodeEntry& term) {
    NodeEntry& sum = grads_[first_slot_[e.node->id()] + e.index];
    sum = sum ? sum + term : term;
  }

  void Visit(NodePtr n) {
    if (++visited_ % 1024 == 0) poll_();
    if (!(state_[n->id()] & (kAsked | kCrossed))) return;
    const uint32_t first = first_slot_[n->id()], count = n->num_outputs();
    bool any = false;
    std::vector<NodeEntry> dy(grads_.begin() + first, grads_.begin() + first + count);
    for (uint32_t i = 0; i < count; ++i) {
      any = any || dy[i];
      refs_[first + i] = dy[i];
    }
    if (!any || !(state_[n->id()] & kCrossed)) return;
    const NodeId before = g_.id_bound();
    const FGradient* rule = gradient_.find(n->op());
    std::vector<NodeEntry> dx;
    if (rule) {
      try {
        dx = (*rule)(n, dy);
      } catch (Error& e) {
        e.AddPlace("the gradient of " + n->Describe());
        throw;
      }
      WEFT_CHECK(dx.size() <= n->num_inputs(), kApiMisuse,
                 "the FGradient of {} gave {} gradients for {} inputs", n->Describe(), dx.size(),
                 n->num_inputs());
    } else if (HasDerivative(n, types_)) {
      dx = ByExpression(n, dy);
    } else {
      dx = NoRule(n, WhyNone(n));
    }
    for (size_t i = 0; i < dx.size(); ++i) {
      const NodeEntry& e = n->inputs[i];
      if (dx[i] && Needed(e) && Carries(e)) Give(e, dx[i]);
    }
    SetOrigins(before, n);
  }

  std::vector<NodeEntry> ByExpression(NodePtr n, const std::vector<NodeEntry>& dy) {
    std::vector<NodeEntry> dx(n->num_inputs());
    const Derivatives derivatives(n, dy, types_);
    try {
      for (size_t i = 0; i < dx.size(); ++i) {
        const NodeEntry& e = n->inputs[i];
        if (Needed(e) && IsFloat(TypeOf(e).dtype)) dx[i] = derivatives.Of(i);
      }
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      return NoRule(n, "its operator has no FGradient, and there is " + e.message());
    }
    return dx;
  }

  /// Stand-ins for the gradients of a node that has none.
  std::vector<NodeEntry> NoRule(NodePtr n, const std::string& why) {
    unsupported_[why].push_back(n);
    if (!stand_in_) stand_in_ = ScalarLike(NodeEntry(n), DType::kF32, 0);
    return std::vector<NodeEntry>(n->num_inputs(), stand_in_);
  }

  /// Nodes made since stand for what `n` stands for.
  void SetOrigins(NodeId since, NodePtr n) {
    if (since == g_.id_bound()) return;
    Origin origin = n->origin();
    if (!origin && n->attrs.name.empty()) return;
    if (!origin) origin = std::make_shared<const std::vector<std::string>>(1, n->attrs.name);
    for (NodeId id = since; id < g_.id_bound(); ++id)
      if (const NodePtr made = g_.node(id)) g_.SetOrigin(made, origin);
  }

  void ThrowUnsupported() const {
    if (unsupported_.empty()) return;
    std::string text;
    size_t count = 0;
    for (const auto& [why, nodes] : unsupported_) {
      for (NodePtr n : nodes) {
        // The whole list of a model is for reading; that of a generated graph is cut.
        constexpr size_t kShown = 1000;
        if (++count <= kShown) text += fmt::format("\n  {}: {}", n->Describe(), why);
        if (count == kShown + 1) text += "\n  ...";
      }
    }
    ThrowError(ErrorCode::kUnsupported,
               fmt::format("{} {} between ys and xs {} no gradient:{}", count,
                           count == 1 ? "node" : "nodes", count == 1 ? "has" : "have", text),
               "",
               "register FGradient for the operator, or ask only for what does not depend on it");
  }

  std::vector<NodeEntry> Collect() {
    std::vector<NodeEntry> grads;
    std::map<EntryRef, NodeEntry> zeros;
    for (const NodeEntry& x : request_.xs) {
      NodeEntry grad;
      if (state_[x.node->id()] & kSeen) grad = grads_[first_slot_[x.node->id()] + x.index];
      if (!grad) {
        NodeEntry& zero = zeros[x];
        const NodeId before = g_.id_bound();
        if (!zero) zero = Filled(x, 0);
        SetOrigins(before, x.node);
        grad = zero;
      }
      grads.push_back(grad);
    }
    return grads;
  }

  void EraseUnused(const std::vector<NodeEntry>& grads) {
    std::vector<uint8_t> used(g_.id_bound() - bound_, 0);
    const auto mark = [&](NodePtr n) {
      if (n && n->id() >= bound_) used[n->id() - bound_] = 1;
    };
    for (const NodeEntry& e : grads) mark(e.node);
    // A node is made after what it reads.
    for (NodeId id = g_.id_bound(); id-- > bound_;) {
      const NodePtr n = g_.node(id);
      if (!n) continue;
      if (used[id - bound_]) {
        for (const NodeEntry& e : n->inputs) mark(e.node);
        for (Node* d : n->control_deps) mark(d);
      } else if (n->uses().empty()) {
        g_.Erase(n);
      }
    }
  }

  const OpMap<FGradient>& gradient_ = Op::GetAttr<FGradient>("FGradient");
  Graph& g_;
  const Request& request_;
  const TypeMap& types_;
  const ShapeMap* const shapes_;
  const std::function<void()> poll_;
  const NodeId bound_;  ///< ids from here on are new
  std::vector<NodePtr> order_;
  std::vector<uint32_t> first_slot_;  // by id of nodes in order_
  std::vector<uint8_t> state_;        // by id
  std::set<EntryRef> asked_;          // xs
  std::vector<NodeEntry> grads_;      // so far, by slot
  std::vector<EntryRef> refs_;        // complete ones, by slot
  std::map<std::string, std::vector<NodePtr>> unsupported_;
  NodeEntry stand_in_;
  size_t visited_ = 0;
};

/// Types of all that `entries` reach: those of the graph where they are there,
/// else inferred beside it.
TypeMap TypesFor(const Graph& g, const std::vector<NodeEntry>& entries) {
  if (g.HasAttr("dtype")) {
    const TypeMap& rows = g.GetAttr<TypeMap>("dtype");
    bool all = true;
    DFSVisit(entries, [&](const NodePtr& n) { all = all && rows.find(n->id(), 0); });
    if (all) return rows;
  }
  Graph twin = g;
  std::vector<NodeEntry> heads;
  for (const NodeEntry& e : entries) heads.push_back(twin.at(e));
  twin.outputs = heads;
  twin = ApplyPass(std::move(twin), "InferType");
  return twin.MoveCopyAttr<TypeMap>("dtype");
}

/// Shapes for the rules: those of the graph where they are there. Else, where a loop is on the way,
/// whose rule keeps of its iterations what it knows the size of, inferred beside the graph.
std::optional<ShapeMap> ShapesFor(const Graph& g, const std::vector<NodeEntry>& entries) {
  if (g.HasAttr("shape")) return g.GetAttr<ShapeMap>("shape");
  static const auto& decompose = Op::GetAttr<FDecompose>("FDecompose");
  bool has_loop = false;
  DFSVisit(entries, [&](const NodePtr& n) {
    has_loop = has_loop || HasControlBodies(n) || (!n->is_variable() && decompose.find(n->op()));
  });
  if (!has_loop) return std::nullopt;
  Graph twin = g;
  std::vector<NodeEntry> heads;
  for (const NodeEntry& e : entries) heads.push_back(twin.at(e));
  twin.outputs = heads;
  try {
    twin = ApplyPasses(std::move(twin), "InferType,InferShape");
  } catch (const UserError&) {
    return std::nullopt;  // a graph that does not fit is told so when it is compiled
  }
  return twin.MoveCopyAttr<ShapeMap>("shape");
}

/// What the forward part reads of a variable that a node behind it writes stays what it was: rules
/// made now would be behind that write as well, and read what it wrote. A weft::Read in front of
/// the write holds the content for both parts.
void HoldContents(Graph& g, const std::vector<NodeEntry>& ys) {
  struct Reader {
    NodePtr node;
    size_t slot;
  };
  std::map<NodeId, std::vector<Reader>> readers;
  DFSVisit(ys, [&](const NodePtr& n) {
    for (size_t i = 0; i < n->num_inputs(); ++i)
      if (const NodePtr v = n->inputs[i].node; v && v->is_variable() && IsState(v))
        readers[v->id()].push_back({n, i});
  });
  for (const auto& [id, list] : readers) {
    const NodePtr v = g.node(id);
    std::map<NodeId, NodePtr> writes;
    for (const Use& u : v->uses())
      if (!u.control)
        for (auto [input, output] : WrittenInputs(u.user))
          if (uint32_t(input) == u.slot) writes.emplace(u.user->id(), u.user);
    std::map<NodeId, NodePtr> held;  // by the write in front of which they read
    for (const Reader& reader : list) {
      const auto next = writes.upper_bound(reader.node->id());
      if (next == writes.end() || IsOp(reader.node, builtin::kRead) ||
          writes.count(reader.node->id()))
        continue;
      NodePtr& read = held[next->first];
      if (!read) {
        read = g.AddNode(builtin::kRead, {NodeEntry(v)});
        for (auto w = next; w != writes.end(); ++w) w->second->control_deps.push_back(read);
      }
      g.SetInput(reader.node, reader.slot, NodeEntry(read));
    }
  }
}

std::vector<NodeEntry> BuildGradients(Graph& g, const Request& r, std::function<void()> poll) {
  HoldContents(g, r.ys);
  std::vector<NodeEntry> heads;
  for (const auto* entries : {&r.ys, &r.xs, &r.out_grads})
    for (const NodeEntry& e : *entries)
      if (e) heads.push_back(e);
  GradientMap map;
  map.forward_outputs = int64_t(g.outputs.size());
  const TypeMap types = TypesFor(g, heads);
  const std::optional<ShapeMap> shapes = ShapesFor(g, heads);
  std::vector<NodeEntry> grads =
      Builder(g, r, types, shapes ? &*shapes : nullptr, std::move(poll)).Run(&map);
  g.SetAttr("gradient_of", std::move(map));
  return grads;
}

std::vector<NodeEntry> Entries(const Graph& g, const std::string& name, bool optional) {
  if (!g.HasAttr(name)) return {};
  const EntryList& list = g.GetAttr<EntryList>(name);
  std::vector<NodeEntry> entries = list.in(g);
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool absent = optional && !list[i];
    WEFT_CHECK(absent || (entries[i] && entries[i].index < entries[i].node->num_outputs()),
               kInvalidModel, "{} names the entry {}, which the graph does not have", name,
               EntryList{list[i]}.ToString());
  }
  return entries;
}

Graph Gradient(Graph g, PassContext& ctx) {
  const Request r{Entries(g, "grad_ys", false), Entries(g, "grad_xs", false),
                  Entries(g, "grad_out", true)};
  WEFT_CHECK(r.out_grads.empty() || r.out_grads.size() == r.ys.size(), kInvalidModel,
             "grad_out has {} entries, grad_ys {}", r.out_grads.size(), r.ys.size());
  const size_t before = g.num_nodes();
  const std::vector<NodeEntry> grads = BuildGradients(g, r, [&] {
    ctx.cancel().Check();
    Limits::Check("nodes", int64_t(g.num_nodes()), ctx.limits().nodes);
  });
  ctx.Count("nodes", int64_t(g.num_nodes()) - int64_t(before));
  // The request is met; another one makes gradients of gradients.
  for (const char* name : {"grad_ys", "grad_xs", "grad_out"}) g.DropAttr(name);
  std::set<std::string> taken;
  for (size_t i = 0; i < g.outputs.size(); ++i) taken.insert(g.OutputName(i));
  for (size_t i = 0; i < grads.size(); ++i) {
    const NodeEntry& x = r.xs[i];
    std::string base = "grad_" + (x.node->attrs.name.empty() ? fmt::format("{}", x.node->id())
                                                             : x.node->attrs.name);
    if (x.index > 0) base += fmt::format("_{}", x.index);
    std::string name = base;
    for (int k = 2; !taken.insert(name).second; ++k) name = fmt::format("{}_{}", base, k);
    g.outputs.push_back(grads[i]);
    g.SetOutputName(g.outputs.size() - 1, name);
  }
  return g;
}

WEFT_REGISTER_PASS(Gradient)
    .describe("appends the gradients of grad_ys with respect to each of grad_xs")
    .set_body(Gradient)
    .set_change_graph(true)
    .keeps_onnx()
    .result(PassResult::kAppends)
    .depend_graph_attr("grad_ys")
    .depend_graph_attr("grad_xs")
    .depend_graph_attr("dtype")
    .provide_graph_attr("gradient_of")
    .statistic("nodes", "nodes added");

}  // namespace

std::vector<NodeEntry> Gradients(Graph& g, const std::vector<NodeEntry>& ys,
                                 const std::vector<NodeEntry>& xs,
                                 const std::vector<NodeEntry>& out_grads) {
  CheckGradientRequest(g, ys, xs, out_grads);
  return BuildGradients(g, {ys, xs, out_grads}, [] {});
}

}  // namespace weft
