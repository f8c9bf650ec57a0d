/// infer_type.cc: InferType. Gives every entry its type.
///   needs      -
///   provides   dtype
///   preserves  everything: it only adds rows
///   cost       one call of FInferType per node without a row, and one more per operand whose type
///              became known later; linear
///   source     NNVM InferType; ONNX type constraints
///
/// A rule may set the type of an input (`set_in`), so knowledge also flows backwards and, through
/// the other readers of that input, forwards again. A worklist carries it to a fixed point: whoever
/// reads an entry whose type became known is visited again. A row goes from unknown to known once,
/// so the work is bounded by the number of operands.
#include <set>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/op_param.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class Context final : public InferTypeContext {
 public:
  Context(const Graph& g, TypeMap& rows) : rows_(rows), position_(g.id_bound(), kNowhere) {
    // Inputs that nothing reads are typed as well.
    for (NodePtr n : g.inputs()) Append(n);
    for (NodePtr n : g.TopoOrder()) Append(n);
  }
  const std::vector<NodePtr>& order() const { return order_; }
  void Enter(NodePtr n) { node_ = n; }
  const NodePtr& node() const override { return node_; }
  int num_inputs() const override { return int(node_->num_inputs()); }
  int num_outputs() const override { return int(node_->num_outputs()); }
  bool has_input(int i) const override { return i < num_inputs() && node_->inputs[size_t(i)].node; }
  Type in(int i) const override { return has_input(i) ? rows_[node_->inputs[size_t(i)]] : Type(); }
  void set_out(int i, Type t) override {
    const NodeEntry e(node_, uint32_t(i));
    const Type* old = rows_.find(e);
    WEFT_CHECK(!old || !old->known() || !t.known() || *old == t, kTypeMismatch,
               "{}: output {} is {} by inference and was given as {}", node_->Describe(), i,
               t.ToString(), old->ToString());
    if (!old || !old->known()) Set(e, t);
  }
  void set_in(int i, Type t) override {
    if (has_input(i) && !in(i).known()) Set(node_->inputs[size_t(i)], t);
  }
  void Set(const NodeEntry& e, Type t) {
    rows_.set(e, t);
    if (!t.known()) return;
    for (const Use& u : e.node->uses())
      if (!u.control && u.user->inputs[u.slot] == e) Wake(u.user);
    // What it says about its output must agree with what a reader has made of it.
    if (e.node != node_) Wake(e.node);
  }
  /// The next node that has to be visited, the first in topological order; null when none is left.
  NodePtr Next() {
    if (!again_.empty()) {
      const uint32_t at = *again_.begin();
      again_.erase(again_.begin());
      return order_[at];
    }
    while (swept_ < order_.size())
      if (ahead_[swept_++]) return order_[swept_ - 1];
    return nullptr;
  }
  void Wake(NodePtr n) {
    const uint32_t at = position_[n->id()];
    if (at == kNowhere) return;
    if (at < swept_)
      again_.insert(at);
    else
      ahead_[at] = 1;
  }

 private:
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  void Append(NodePtr n) {
    if (position_[n->id()] != kNowhere) return;
    position_[n->id()] = uint32_t(order_.size());
    order_.push_back(n);
    ahead_.push_back(0);
  }
  NodePtr node_;
  TypeMap& rows_;
  std::vector<NodePtr> order_;
  std::vector<uint32_t> position_;  // by id
  // One sweep over the order; what it has passed and has to be visited again comes
  // before it goes on.
  std::vector<uint8_t> ahead_;
  std::set<uint32_t> again_;
  size_t swept_ = 0;
};

void Visit(Context& context, TypeMap& rows, NodePtr n) {
  static const auto& infer = Op::GetAttr<FInferType>("FInferType");
  static const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  context.Enter(n);
  if (n->is_variable()) {
    const NodeEntry e(n);
    const Type declared = DeclaredType(n), old = rows[e];
    if (!rows.find(e) || (declared.known() && declared != old)) context.Set(e, declared);
    return;
  }
  try {
    if (const FInferType* f = infer.find(n->op())) {
      (*f)(context);
    } else if (codegen.find(n->op()) && n->num_inputs() > 0) {
      // An op with FCodeGen alone computes in the type of its first input.
      for (uint32_t i = 0; i < n->num_outputs(); ++i) context.set_out(int(i), context.in(0));
    }
  } catch (Error& e) {
    e.AddPlace(n->Describe());
    throw;
  }
  for (uint32_t i = 0; i < n->num_outputs(); ++i)
    if (!rows.find(n->id(), i)) rows.set(n->id(), i, Type());
}

Graph InferType(Graph g, PassContext& ctx) {
  // Where the rows were dropped, what was done does not count.
  NodeMap<uint8_t> done =
      g.HasAttr("dtype") ? g.TakeAttrOr<NodeMap<uint8_t>>("dtype_inferred") : NodeMap<uint8_t>();
  TypeMap rows = g.TakeAttrOr<TypeMap>("dtype");
  rows.reserve(g.id_bound());
  done.reserve(g.id_bound());
  Context context(g, rows);
  int64_t inferred = 0;
  for (NodePtr n : context.order()) {
    if (done.find(n)) continue;
    done.set(n, 1);
    context.Wake(n);
  }
  while (const NodePtr n = context.Next()) {
    ++inferred;
    Visit(context, rows, n);
  }
  ctx.Count("inferred", inferred);
  g.SetAttr("dtype", std::move(rows));
  g.SetAttr("dtype_inferred", std::move(done));
  return g;
}

WEFT_REGISTER_GRAPH_ATTR(dtype_inferred, kDerived, NodeMap<uint8_t>)
    .describe("nodes whose types inference has computed")
    .hidden();

WEFT_REGISTER_PASS(InferType)
    .describe("gives every entry its type")
    .set_body(InferType)
    .set_change_graph(false)
    .keeps_onnx()
    .provide_graph_attr("dtype")
    .preserve_all()
    .statistic("inferred", "calls of rules");

}  // namespace
}  // namespace weft
