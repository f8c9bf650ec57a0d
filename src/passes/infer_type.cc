/// infer_type.cc: InferType. Gives every entry its type.
///   needs      -
///   provides   dtype
///   preserves  everything: it only adds rows
///   cost       one call of FInferType per node without a row; linear
///   source     NNVM InferType; ONNX type constraints
#include <algorithm>

#include "weft/codegen/op_codegen.h"
#include "weft/core/op_param.h"
#include "weft/core/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class Context final : public InferTypeContext {
 public:
  explicit Context(TypeMap& rows) : rows_(rows) {}
  void Enter(NodePtr n) { node_ = n; }
  const NodePtr& node() const override { return node_; }
  int num_inputs() const override { return int(node_->num_inputs()); }
  int num_outputs() const override { return int(node_->num_outputs()); }
  bool has_input(int i) const override { return i < num_inputs() && node_->inputs[size_t(i)].node; }
  Type in(int i) const override { return has_input(i) ? rows_[node_->inputs[size_t(i)]] : Type(); }
  void set_out(int i, Type t) override { Merge({node_, uint32_t(i)}, t, "output", i); }
  void set_in(int i, Type t) override {
    if (has_input(i) && !rows_[node_->inputs[size_t(i)]].known())
      rows_.set(node_->inputs[size_t(i)], t);
  }

 private:
  void Merge(const NodeEntry& e, Type t, const char* what, int i) {
    const Type* old = rows_.find(e);
    WEFT_CHECK(!old || !old->known() || !t.known() || *old == t, kTypeMismatch,
               "{}: {} {} is {} by inference and was given as {}", node_->Describe(), what, i,
               t.ToString(), old->ToString());
    if (!old || !old->known()) rows_.set(e, t);
  }
  NodePtr node_;
  TypeMap& rows_;
};

Type DeclaredType(NodePtr n) {
  if (const AttrValue* v = n->attrs.dict.find("value")) return v->get<TensorPtr>()->dtype();
  if (const AttrValue* v = n->attrs.dict.find("dtype")) {
    if (v->is<DType>()) return v->get<DType>();
    const std::optional<DType> t = ParseDType(v->get<std::string>());
    WEFT_CHECK(t.has_value(), kBadAttribute, "{}: '{}' is no dtype", n->Describe(),
               v->get<std::string>());
    return *t;
  }
  return Type();
}

Graph InferType(Graph g, PassContext& ctx) {
  // Where somebody dropped the rows, what was done does not count.
  NodeMap<uint8_t> done =
      g.HasAttr("dtype") ? g.TakeAttrOr<NodeMap<uint8_t>>("dtype_inferred") : NodeMap<uint8_t>();
  TypeMap rows = g.TakeAttrOr<TypeMap>("dtype");
  rows.reserve(g.id_bound());
  done.reserve(g.id_bound());
  const auto& infer = Op::GetAttr<FInferType>("FInferType");
  const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  Context context(rows);
  int64_t inferred = 0;
  std::vector<NodePtr> order =
      g.inputs();  // those that nothing reads are checked and bind symbols as well
  for (NodePtr n : g.TopoOrder()) order.push_back(n);
  for (NodePtr n : order) {
    if (done.find(n)) continue;
    ++inferred;
    done.set(n, 1);
    if (n->is_variable()) {
      const Type t = DeclaredType(n);
      if (t.known() || !rows.find(NodeEntry(n)))
        rows.set(NodeEntry(n), t.known() ? t : rows[NodeEntry(n)]);
      continue;
    }
    context.Enter(n);
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
    .provide_graph_attr("dtype")
    .preserve_all()
    .statistic("inferred", "nodes whose rule was called");

}  // namespace
}  // namespace weft
