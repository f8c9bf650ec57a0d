/// sizes.cc: weft::Sizes, the sizes of a node that values of its operands tell, without its
/// results. A run binds them before it enters the region that holds the node.
#include "fixed_body.h"
#include "ops/util/host_util.h"
#include "weft/core/tensor/followed_value.h"

namespace weft::ops {
namespace {

struct SizesParam : OpParam<SizesParam> {
  GraphAttr body;
  Shape dims;
  Ints at;
  WEFT_OP_PARAM(SizesParam) {
    WEFT_FIELD(body).describe("one node, of which every operand is an input of the body, in order");
    WEFT_FIELD(dims).describe("the symbols that the sizes are called by");
    WEFT_FIELD(at).describe("where they stand: an output of the node and an axis of it, for each");
  }
};
WEFT_REGISTER_OP_PARAM(SizesParam);

/// The node as inference sees it in a run: every operand is known.
class InRun final : public InferShapeContext {
 public:
  InRun(const NodePtr& n, const TypeMap& types, const Tensors& operands)
      : n_(n), types_(types), out_(n->num_outputs()) {
    size_t next = 0;
    for (const NodeEntry& e : n->inputs) {
      in_.push_back(e.node ? operands.at(next++) : nullptr);
      shapes_.push_back(in_.back() ? in_.back()->shape() : Shape());
    }
  }
  const NodePtr& node() const override { return n_; }
  int num_inputs() const override { return int(in_.size()); }
  int num_outputs() const override { return int(out_.size()); }
  bool has_input(int i) const override { return i < num_inputs() && in_[size_t(i)]; }
  const Shape& in(int i) const override {
    static const Shape kUnknown;
    return i < num_inputs() ? shapes_[size_t(i)] : kUnknown;
  }
  Type in_type(int i) const override { return has_input(i) ? in_[size_t(i)]->type() : Type(); }
  Type out_type(int i) const override { return types_[NodeEntry(n_, uint32_t(i))]; }
  SymTensorPtr in_value(int i) override {
    return has_input(i) ? FollowedValueOf(*in_[size_t(i)]) : nullptr;
  }
  TensorPtr in_constant(int i) override { return has_input(i) ? in_[size_t(i)] : nullptr; }
  void set_out(int i, Shape s) override { out_.at(size_t(i)) = std::move(s); }
  void set_out_value(int, SymTensor) override {}
  Facts& facts() override { return facts_; }
  SymInt unbacked(int) override { return SymInt(); }
  void explain(int, std::string) override {}

  int64_t Size(int64_t output, int64_t axis) const {
    const Shape& s = out_.at(size_t(output));
    const SymInt d = s.has_rank() && axis < s.rank() ? s[int(axis)] : SymInt();
    WEFT_CHECK(d.known() && d.is_const(), kUnsupported,
               "{}: dimension {} of output {} does not follow from the values of its operands",
               n_->Describe(), axis, output);
    return d.value();
  }

 private:
  const NodePtr& n_;
  const TypeMap& types_;
  Tensors in_;
  std::vector<Shape> shapes_, out_;
  Facts facts_;
};

Tensors SizesHost(const NodePtr& n, const Tensors& in) {
  static const auto& rules = Op::GetAttr<FInferShape>("FInferShape");
  const auto& p = ParamOf<SizesParam>(n);
  const Graph& body = FixedBody(n->attrs);
  WEFT_CHECK(p.at.size() == 2 * size_t(p.dims.rank()) && !body.outputs.empty(), kBadAttribute,
             "{}: {} numbers in `at` for {} sizes", n->Describe(), p.at.size(), p.dims.rank());
  const NodePtr sized = body.outputs[0].node;
  InRun run(sized, body.GetAttr<TypeMap>("dtype"), in);
  try {
    (*rules.find(sized->op()))(run);
  } catch (Error& e) {
    e.AddPlace(sized->Describe());
    throw;
  }
  Dims dims{0};
  for (size_t k = 0; k < p.at.size(); k += 2) dims.push_back(run.Size(p.at[k], p.at[k + 1]));
  return {NewTensor(DType::kBool, dims)};
}

void SizesType(InferTypeContext& ctx) { ctx.set_out(0, DType::kBool); }
void SizesShape(InferShapeContext& ctx) {
  std::vector<SymInt> dims = ParamOf<SizesParam>(ctx.node()).dims.dims();
  dims.insert(dims.begin(), SymInt(0));
  ctx.set_out(0, Shape(std::move(dims)));
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Sizes)
    .describe(
        "The sizes `dims` that a node gives its results, as values of its operands tell them: an "
        "empty tensor of the shape [0, dims ..]. The node itself does not run. Made by the pass "
        "SplitRegions. Errors: what inference of the node throws; sizes that are not told "
        "(kUnsupported). Gradient: none. Source: Weft.")
    .variadic_input("inputs", "any")
    .output("sizes", "bool", "empty; its dimensions are the sizes")
    .set_num_inputs(0, INT32_MAX)
    .param<SizesParam>()
    .set_attr<FInferType>("FInferType", SizesType)
    .set_attr<FInferShape>("FInferShape", SizesShape)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FHostEval>("FHostEval", SizesHost);

}  // namespace weft::ops
