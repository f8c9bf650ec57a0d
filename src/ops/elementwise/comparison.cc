/// comparison.cc: Equal, Less, LessOrEqual, Greater, GreaterOrEqual.
///
/// Comparisons with NaN are false. Followed values compare where Facts prove the answer; a few of
/// integers else as 0 or 1 by their sizes, which is known when those are.
#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

/// What is not proved is said by 0 and 1 where that decides little: a condition, not a mask.
constexpr int64_t kMostConditions = 8;

bool IsCondition(const ValueArgs& args) {
  return IsInt(args.in_dtype) || args.in_dtype == DType::kBool;
}
SymInt Answer(Proof p, const ValueArgs& args, const std::function<SymInt()>& number) {
  if (p != Proof::kUnknown) return p == Proof::kYes ? 1 : 0;
  return IsCondition(args) ? number() : SymInt();
}
bool Known(const std::vector<SymInt>& x) { return x[0].known() && x[1].known(); }
/// 1 for more than 0, else 0.
SymInt IsPositive(SymInt e) { return Max(Min(e, 1), 0); }

SymInt EqualValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  if (!Known(x)) return {};
  return Answer(args.facts.Equal(x[0], x[1]), args,
                [&] { return 1 - IsPositive(Max(x[0] - x[1], x[1] - x[0])); });
}
SymInt LessValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  if (!Known(x)) return {};
  return Answer(args.facts.Less(x[0], x[1]), args, [&] { return IsPositive(x[1] - x[0]); });
}
SymInt LessOrEqualValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  if (!Known(x)) return {};
  return Answer(args.facts.LessEqual(x[0], x[1]), args,
                [&] { return IsPositive(x[1] - x[0] + 1); });
}
SymInt GreaterValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  return LessValue({x[1], x[0]}, args);
}
SymInt GreaterOrEqualValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  return LessOrEqualValue({x[1], x[0]}, args);
}
/// Of a few elements by `rule`; of more where it is the same everywhere that a run can come to.
FInferShape ComparisonShape(ElementRule rule) {
  return [rule = std::move(rule)](InferShapeContext& ctx) {
    BroadcastShape(ctx);
    int64_t elements = 1;
    for (int i = 0; i < ctx.num_inputs(); ++i)
      if (const SymTensorPtr v = InputValue(ctx, i))
        elements = std::max(elements, int64_t(v->elements.size()));
    ElementwiseValue(ctx, [&](const std::vector<SymInt>& x, const ValueArgs& args) {
      const SymInt v = rule(x, args);
      return v.known() && (v.is_const() || elements <= kMostConditions) ? v : SymInt();
    });
  };
}

/// Equal of strings, for which no kernel exists.
Tensors EqualHost(const NodePtr& n, const Tensors& in) {
  WEFT_CHECK(in[0]->dtype() == DType::kString, kUnsupported, "{}: {} are not compared",
             n->Describe(), DTypeName(in[0]->dtype()));
  auto y = NewTensor(DType::kBool, BroadcastDims(*in[0], *in[1]));
  for (int64_t i = 0; i < y->num_elements(); ++i)
    y->set_int(i, in[0]->strings()[size_t(BroadcastOffset(i, y->dims(), in[0]->dims()))] ==
                      in[1]->strings()[size_t(BroadcastOffset(i, y->dims(), in[1]->dims()))]);
  return {y};
}

constexpr DTypeSet kComparable = kComputable | DTypeSet{DType::kString};

}  // namespace

#define WEFT_REGISTER_COMPARISON_OP(Name, Version, Symbol, Set, Op)                               \
  WEFT_REGISTER_OP(Name)                                                                          \
      .describe("y = a " Symbol " b, false where either is NaN. No gradient. Source: ONNX " #Name \
                "-" #Version ".")                                                                 \
      .input("a", TypeDoc(Set))                                                                   \
      .input("b", "T", "numpy broadcasting against a")                                            \
      .output("y", "bool", "the broadcast shape of a and b")                                      \
      .param<NoParam>()                                                                           \
      .include("ElementwiseBinaryBool")                                                           \
      .set_attr<FInferType>("FInferType", BoolResult(Set))                                        \
      .set_attr<FInferShape>("FInferShape", ComparisonShape(Name##Value))                         \
      .set_attr<FCodeGen>("FCodeGen", BinaryCodeGen(BinOp::Op))                                   \
      .set_attr<FGradient>("FGradient", NoGradient)                                               \
      .example({"f32[2, n, 3]", "f32[2, n, 3]"})                                                  \
      .example({"f32[m, 1, 3]", "f32[4, 1]"})                                                     \
      .example({"i64[]", "i64[5]"})

WEFT_REGISTER_COMPARISON_OP(Equal, 19, "==", kComparable, kEq)
    .example({"bool[3]", "bool[2, 3]"})
    .set_attr<FHostEval>("FHostEval", EqualHost);
WEFT_REGISTER_COMPARISON_OP(Less, 13, "<", kNumeric, kLt);
WEFT_REGISTER_COMPARISON_OP(LessOrEqual, 16, "<=", kNumeric, kLe);
WEFT_REGISTER_COMPARISON_OP(Greater, 13, ">", kNumeric, kGt);
WEFT_REGISTER_COMPARISON_OP(GreaterOrEqual, 16, ">=", kNumeric, kGe);

}  // namespace weft::ops
