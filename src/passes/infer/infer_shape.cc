/// infer_shape.cc: InferShape. Gives every entry its symbolic shape, and small
/// integer tensors their values.
///   needs      dtype
///   provides   shape, value
///   preserves  everything: it only adds rows
///   never      guesses: what it cannot prove stays unknown, with the reason in `unknown`: the root
///              of it, be it an input ("input 'y': no rank") or an operator whose operands are
///              known ("op Squeeze 's': the axes ..")
///   cost       one call of FInferShape per node without a row; linear, about 1 us a node
///   source     PFVM's symbolic shapes; ONNX shape inference and data propagation
///
/// Nodes with unknown extents are asked again whenever inference runs, and so are those at which a
/// size that depends on data (u0) begins: what their operands are may be known by now, as pads that
/// have become constant. Such a size is resolved then, and every row that mentions it made anew.
#include <algorithm>

#include "moved_values.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/size_numbers.h"
#include "weft/core/pass/pass.h"
#include "weft/core/tensor/demand.h"
#include "weft/core/tensor/followed_value.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class Context final : public InferShapeContext {
 public:
  static constexpr int64_t kNoNumber = -1;
  Context(Graph& g, const TypeMap& types) : types_(types) {
    shapes = g.TakeAttrOr<ShapeMap>("shape");
    values = g.TakeAttrOr<ValueMap>("value");
    unknown = g.TakeAttrOr<UnknownMap>("unknown");
    known = g.AttrOr<Facts>("facts");
    resolved = g.TakeAttrOr<Facts>("resolved");
    any_resolved = !resolved.empty();
    any_introduced = g.HasAttr("introduced");
    introduced = g.TakeAttrOr<ShapeMap>("introduced");
    unbacked_ids = g.TakeAttrOr<NodeMap<Ints>>("unbacked");
    for (NodeId id = 0; id < unbacked_ids.id_bound(); ++id)
      if (const Ints* ks = unbacked_ids.find(id))
        for (int64_t k : *ks) next_unbacked_ = std::max(next_unbacked_, k + 1);
    for (const NodePtr& n : g.inputs()) KeepNumbersOf(n);
    shapes.reserve(g.id_bound());
  }
  void Enter(NodePtr n) { node_ = n; }
  const NodePtr& node() const override { return node_; }
  int num_inputs() const override { return int(node_->num_inputs()); }
  int num_outputs() const override { return int(node_->num_outputs()); }
  bool has_input(int i) const override { return i < num_inputs() && node_->inputs[size_t(i)].node; }
  const Shape& in(int i) const override {
    static const Shape kUnknown;
    return has_input(i) ? shapes[node_->inputs[size_t(i)]] : kUnknown;
  }
  Type in_type(int i) const override {
    return has_input(i) ? types_[node_->inputs[size_t(i)]] : Type();
  }
  Type out_type(int i) const override { return types_[NodeEntry(node_, uint32_t(i))]; }
  SymTensorPtr in_value(int i) override {
    if (!has_input(i)) return nullptr;
    const SymTensorPtr* v = values.find(node_->inputs[size_t(i)]);
    return v ? *v : nullptr;
  }
  TensorPtr in_constant(int i) override {
    return has_input(i) ? Graph::ConstantOf(node_->inputs[size_t(i)]) : nullptr;
  }
  void set_out(int i, Shape s) override {
    const NodeEntry e(node_, uint32_t(i));
    if (const Shape* old = shapes.find(e)) s = Merge(*old, std::move(s), i);
    if (const Shape* old = introduced.find(e)) s = WithIntroduced(*old, std::move(s));
    for (int d = 0; any_resolved && s.has_rank() && d < s.rank(); ++d)
      s.set(d, resolved.Simplify(s[d]));
    shapes.set(e, std::move(s));
  }
  void set_out_value(int i, SymTensor v) override {
    if (any_resolved)
      for (SymInt& e : v.elements) e = resolved.Simplify(e);
    if (SymTensorPtr followed = AsFollowed(std::move(v)))
      values.set(NodeEntry(node_, uint32_t(i)), std::move(followed));
  }
  Facts& facts() override { return known; }
  SymInt unbacked(int index) override {
    Ints ks = unbacked_ids.find(node_) ? *unbacked_ids.find(node_) : Ints();
    // Those of one result follow each other; what nobody asks for behind it has none.
    while (int(ks.size()) <= index) ks.push_back(kNoNumber);
    for (int i = index / kUnbackedStride * kUnbackedStride; i <= index; ++i)
      if (ks[size_t(i)] == kNoNumber) ks[size_t(i)] = next_unbacked_++;
    const int64_t k = ks[size_t(index)];
    unbacked_ids.set(node_, std::move(ks));
    return SymInt::Unbacked(k);
  }
  void explain(int i, std::string reason) override {
    unknown.set(NodeEntry(node_, uint32_t(i)), std::move(reason));
  }
  /// A size that depends on data begins at `n`: no operand of it mentions that size.
  bool Introduces(NodePtr n) {
    return AnySize(n, [&](SymInt d) {
      const std::vector<SymInt>& sizes = UnbackedIn(d);
      return std::any_of(sizes.begin(), sizes.end(), [&](SymInt u) { return !OperandsTell(n, u); });
    });
  }
  /// Sizes began at `n`, or at what it has replaced.
  bool HasIntroduced(NodePtr n) const {
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      if (introduced.find(n->id(), i)) return true;
    return false;
  }
  /// Keeps the sizes that begin at `n`, for when an edit drops its rows.
  void KeepIntroduced(NodePtr n) {
    introduced.erase(n->id());
    if (!Introduces(n)) return;
    any_introduced = true;
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      introduced.set(n->id(), i, shapes[NodeEntry(n, i)]);
  }
  /// Drops what is known of `n` where it mentions a size that has been resolved.
  bool DropStale(NodePtr n) {
    const auto is_stale = [&](SymInt d) {
      const std::vector<SymInt>& sizes = UnbackedIn(d);
      return std::any_of(sizes.begin(), sizes.end(),
                         [&](SymInt u) { return resolved.Simplify(u) != u; });
    };
    if (!any_resolved || n->is_variable() || !AnySize(n, is_stale)) return false;
    shapes.erase(n->id());
    values.erase(n->id());
    unknown.erase(n->id());
    return true;
  }
  /// Not all of the shapes of `n` is known; what its operands are may be by now.
  bool IsOpen(NodePtr n) const {
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      if (IsOpen(NodeEntry(n, i))) return true;
    return false;
  }
  /// Replaces what the rule of `n` has said about its own results by where the
  /// lack of knowledge begins.
  void TraceUnknowns(NodePtr n) {
    std::vector<std::pair<uint32_t, std::string>> rows;
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      if (const NodeEntry e(n, i); IsOpen(e)) rows.emplace_back(i, RootOf(e));
    unknown.erase(n->id());
    for (auto& [i, reason] : rows) unknown.set(n->id(), i, std::move(reason));
  }

  ShapeMap shapes;
  ValueMap values;
  UnknownMap unknown;
  Facts known;
  Facts resolved;  ///< what data-dependent sizes have turned out to be
  bool any_resolved = false, any_introduced = false;
  NodeMap<Ints> unbacked_ids;
  ShapeMap introduced;  ///< of nodes at which a data-dependent size begins

 private:
  /// Operands of a body may mention sizes that depend on data of the graph around it: its own have
  /// other numbers.
  void KeepNumbersOf(const NodePtr& input) {
    const auto keep = [&](SymInt d) {
      for (SymInt u : UnbackedIn(d))
        next_unbacked_ = std::max(next_unbacked_, *u.unbacked_number() + 1);
    };
    if (const std::optional<Shape> declared = DeclaredShape(input))
      for (SymInt d : declared->dims()) keep(d);
    if (const SymTensorPtr* v = values.find(NodeEntry(input)); v && *v)
      for (SymInt e : (*v)->elements) keep(e);
  }
  /// The data-dependent sizes that `d` mentions.
  const std::vector<SymInt>& UnbackedIn(SymInt d) {
    static const std::vector<SymInt> kNone;
    if (!d.known() || d.is_const()) return kNone;
    const auto [it, fresh] = unbacked_in_.try_emplace(d);
    for (SymInt s : fresh ? d.Symbols() : kNone)
      if (s.is_unbacked()) it->second.push_back(s);
    return it->second;
  }
  template <class Holds>
  bool AnySize(NodePtr n, Holds holds) {
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      if (AnySizeOf(NodeEntry(n, i), holds)) return true;
    return false;
  }
  /// Does it hold for a dimension of `e`, or for an element of its value?
  template <class Holds>
  bool AnySizeOf(const NodeEntry& e, Holds holds) {
    const Shape* shape = shapes.find(e);
    if (shape && std::any_of(shape->dims().begin(), shape->dims().end(), holds)) return true;
    const SymTensorPtr* v = values.find(e);
    return v && *v && std::any_of((*v)->elements.begin(), (*v)->elements.end(), holds);
  }
  bool OperandsTell(NodePtr n, SymInt u) {
    return std::any_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& in) {
      return in.node && AnySizeOf(in, [&](SymInt d) {
               const std::vector<SymInt>& sizes = UnbackedIn(d);
               return std::find(sizes.begin(), sizes.end(), u) != sizes.end();
             });
    });
  }
  /// `given` is a size that depends on data and began at this node, `found` is not.
  bool Resolves(SymInt given, SymInt found) {
    const std::vector<SymInt>& sizes = UnbackedIn(given);
    const std::vector<SymInt>& left = UnbackedIn(found);
    return std::any_of(sizes.begin(), sizes.end(), [&](SymInt u) {
      return std::find(left.begin(), left.end(), u) == left.end() && !OperandsTell(node_, u);
    });
  }
  /// A tensor of which an extent or the rank is not known. Other types have no shape to know.
  bool IsOpen(const NodeEntry& e) const {
    return !shapes[e].fully_known() && types_[e].is_tensor();
  }
  static std::string NameOf(NodePtr n) {
    const std::string name =
        n->attrs.name.empty() ? fmt::format("%{}", n->id()) : "'" + n->attrs.name + "'";
    return n->is_variable() ? "input " + name : fmt::format("op {} {}", n->op()->name, name);
  }
  std::string RootOf(const NodeEntry& e) const {
    const NodePtr n = e.node;
    if (n->is_variable()) {
      const Shape& s = shapes[e];
      if (!s.has_rank()) return NameOf(n) + ": no rank";
      std::string axes;
      for (int d = 0; d < s.rank(); ++d)
        if (!s[d].known()) axes += fmt::format("{}{}", axes.empty() ? "" : ", ", d);
      return fmt::format("{}: no extent on axis {}", NameOf(n), axes);
    }
    for (const NodeEntry& in : n->inputs)
      if (in.node && IsOpen(in))
        if (const std::string* why = unknown.find(in)) return *why;
    const std::string* own = unknown.find(e);
    if (!own) return NameOf(n) + ": data-dependent";
    // The operands have shapes; what is missing is the value of one that says axes or extents.
    for (size_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry& in = n->inputs[i];
      if (in.node && IsInt(types_[in].dtype) && !values.find(in) && !Graph::ConstantOf(in))
        return fmt::format("{}: {} (input {} is the value of {})", NameOf(n), *own, i,
                           NameOf(in.node));
    }
    return NameOf(n) + ": " + *own;
  }
  /// A shape that was given and one that inference found: they must agree; each
  /// fills the other's unknowns.
  Shape Merge(const Shape& given, Shape found, int i) {
    if (!given.has_rank()) return found;
    if (!found.has_rank()) return given;
    const auto check = [&](bool agree) {
      WEFT_CHECK(agree, kShapeMismatch,
                 "{}: output {} has shape {} by inference and was given as {}", node_->Describe(),
                 i, found.ToString(), given.ToString());
    };
    check(given.rank() == found.rank());
    for (int d = 0; d < found.rank(); ++d) {
      if (!found[d].known()) {
        found.set(d, given[d]);
      } else if (given[d].known() && found[d] != given[d]) {
        if (Resolves(given[d], found[d]))
          check(Resolve(given[d], found[d]));
        else
          check(known.AddEqual(found[d], given[d]));
      }
    }
    return found;
  }
  bool Resolve(SymInt given, SymInt found) {
    if (resolved.ProvedEqual(given, found)) return true;
    any_resolved = true;
    return resolved.AddEqual(given, found, false) && known.AddEqual(given, found, false);
  }
  /// `old` is what inference gave earlier, here or where this node stands now: it still holds.
  Shape WithIntroduced(const Shape& old, Shape found) {
    if (!old.has_rank()) return found;
    if (!found.has_rank()) return old;
    if (old.rank() != found.rank()) return found;
    for (int d = 0; d < old.rank(); ++d) {
      if (!found[d].known())
        found.set(d, old[d]);
      else if (old[d].known() && old[d] != found[d] && Resolves(old[d], found[d]))
        Resolve(old[d], found[d]);
    }
    return found;
  }
  const TypeMap& types_;
  NodePtr node_;
  std::unordered_map<SymInt, std::vector<SymInt>> unbacked_in_;
  int64_t next_unbacked_ = 0;
};

/// An op that says only FCodeGen in its element-wise form broadcasts its inputs, as
/// the article's ops do.
void BroadcastInputs(InferShapeContext& c) {
  Shape s = c.in(0);
  for (int i = 1; i < c.num_inputs(); ++i) s = BroadcastDemanded(s, c.in(i), &c.facts());
  for (int i = 0; i < c.num_outputs(); ++i) c.set_out(i, s);
}

/// Calls the rule of n. What it cannot represent is unknown: extents and values that the run will
/// tell; it is an error where the run could not tell others.
void InferByRule(Context& c, NodePtr n, const FInferShape& rule) {
  try {
    rule(c);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kOverflow) throw;
    bool open = false, missing = false;
    for (const NodeEntry& in : n->inputs)
      open = open || (in.node && (!c.shapes[in].is_static() ||
                                  (c.values.find(in) && !(*c.values.find(in))->is_const())));
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      if (c.shapes.find(n->id(), i)) continue;
      missing = true;
      c.explain(int(i), "its dimensions overflow 64 bits before those of the run are known");
    }
    if (missing && !open) throw;
  }
}

void InferVariable(Context& c, NodePtr n) {
  const NodeEntry e(n);
  if (std::optional<Shape> declared = DeclaredShape(n)) {
    c.shapes.set(e, std::move(*declared));
    // A parameter that some operator writes has no value to follow.
    const TensorPtr constant = Graph::ConstantOf(e);
    if (SymTensorPtr value = constant ? FollowedValueOf(*constant) : nullptr)
      c.values.set(e, value);
  } else if (!c.shapes.find(e)) {
    c.shapes.set(e, Shape());
  }
}

/// What is known to be too large is said here, with the node, and not when a run
/// asks for the memory.
void CheckBytes(NodePtr n, uint32_t i, const Shape& s, const Type& type, const Limits& limits) {
  if (!s.is_static() || !type.is_tensor() || DTypeBits(type.dtype) == 0) return;
  try {
    std::vector<int64_t> dims;
    for (SymInt d : s.dims()) dims.push_back(d.value());
    Limits::Check("tensor_bytes", DTypeBytes(type.dtype, NumElements(dims)), limits.tensor_bytes);
  } catch (Error& e) {
    e.AddPlace(n->is_variable() ? fmt::format("{} of shape {}{}", n->Describe(),
                                              DTypeName(type.dtype), s.ToString())
                                : fmt::format("{}: output {} of shape {}{}", n->Describe(), i,
                                              DTypeName(type.dtype), s.ToString()));
    throw;
  }
}

Graph InferShape(Graph g, PassContext& ctx) {
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  // Where rows were dropped, what was done does not count.
  NodeMap<uint8_t> done = g.HasAttr("shape") && g.HasAttr("value")
                              ? g.TakeAttrOr<NodeMap<uint8_t>>("shape_inferred")
                              : NodeMap<uint8_t>();
  Context c(g, types);
  done.reserve(g.id_bound());
  const auto& infer = Op::GetAttr<FInferShape>("FInferShape");
  const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  const auto& moves = Op::GetAttr<TMovesElements>("TMovesElements");
  int64_t inferred = 0;
  std::vector<NodePtr> order =
      g.inputs();  // those that nothing reads are checked and bind symbols as well
  for (NodePtr n : g.TopoOrder()) order.push_back(n);
  const auto infer_one = [&](NodePtr n) {
    // Proofs about symbolic dimensions take a while.
    if (++inferred % 16 == 0) ctx.cancel().Check();
    done.set(n, 1);
    if (n->is_variable()) {
      InferVariable(c, n);
      CheckBytes(n, 0, c.shapes[NodeEntry(n)], types[NodeEntry(n)], ctx.limits());
      return c.TraceUnknowns(n);
    }
    c.Enter(n);
    const FInferShape* f = infer.find(n->op());
    const FCodeGen* code = f ? nullptr : codegen.find(n->op());
    try {
      if (f) {
        InferByRule(c, n, *f);
        if (moves.get(n->op(), false) && !c.values.find(NodeEntry(n)))
          FollowMovedElements(c, c.shapes[NodeEntry(n)]);
      } else if (code && code->elementwise && n->num_inputs() > 0) {
        InferByRule(c, n, BroadcastInputs);
      } else {
        for (uint32_t i = 0; i < n->num_outputs(); ++i)
          c.explain(int(i), "it has no shape inference");
      }
    } catch (Error& e) {
      e.AddPlace(n->Describe());
      throw;
    }
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      if (!c.shapes.find(n->id(), i)) c.shapes.set(n->id(), i, Shape());
      CheckBytes(n, i, c.shapes[NodeEntry(n, i)], c.out_type(int(i)), ctx.limits());
    }
    c.TraceUnknowns(n);
    c.KeepIntroduced(n);
  };
  for (NodePtr n : order) {
    const bool stale = c.DropStale(n);
    if (stale || !done.find(n) || c.IsOpen(n) || c.HasIntroduced(n) || c.Introduces(n))
      infer_one(n);
  }
  // What mentions a resolved size may stand before the node that tells it: weft::ShapeTensor.
  for (NodePtr n : order)
    if (c.DropStale(n)) infer_one(n);
  ctx.Count("inferred", inferred);
  g.SetAttr("shape", std::move(c.shapes));
  g.SetAttr("value", std::move(c.values));
  g.SetAttr("unknown", std::move(c.unknown));
  if (!c.known.empty()) g.SetAttr("facts", std::move(c.known));
  if (c.any_resolved) g.SetAttr("resolved", std::move(c.resolved));
  if (c.any_introduced) g.SetAttr("introduced", std::move(c.introduced));
  g.SetAttr("unbacked", std::move(c.unbacked_ids));
  g.SetAttr("shape_inferred", std::move(done));
  return g;
}

WEFT_REGISTER_GRAPH_ATTR(shape_inferred, kDerived, NodeMap<uint8_t>)
    .describe("nodes whose shapes inference has computed")
    .hidden();
WEFT_REGISTER_GRAPH_ATTR(unbacked, kGiven, NodeMap<Ints>)
    .describe("numbers of the data-dependent sizes of a node")
    .hidden();

WEFT_REGISTER_GRAPH_ATTR(resolved, kGiven, Facts)
    .describe("what data-dependent sizes have turned out to be")
    .hidden();

WEFT_REGISTER_PASS(InferShape)
    .describe("gives every entry its symbolic shape, and small integer tensors their values")
    .set_body(InferShape)
    .set_change_graph(false)
    .keeps_onnx()
    .depend_graph_attr("dtype")
    .provide_graph_attr("shape")
    .provide_graph_attr("value")
    .preserve_all()
    .statistic("inferred", "nodes whose rule was called");

}  // namespace
}  // namespace weft
