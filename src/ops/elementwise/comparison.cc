/// comparison.cc: Equal, Less, LessOrEqual, Greater, GreaterOrEqual.
///
/// Comparisons with NaN are false. Followed values compare where Facts prove the answer.
#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

SymInt Answer(Proof p) {
  return p == Proof::kYes ? SymInt(1) : p == Proof::kNo ? SymInt(0) : SymInt();
}
bool Known(const std::vector<SymInt>& x) { return x[0].known() && x[1].known(); }

SymInt EqualValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  return Known(x) ? Answer(args.facts.Equal(x[0], x[1])) : SymInt();
}
SymInt LessValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  return Known(x) ? Answer(args.facts.Less(x[0], x[1])) : SymInt();
}
SymInt LessOrEqualValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  return Known(x) ? Answer(args.facts.LessEqual(x[0], x[1])) : SymInt();
}
SymInt GreaterValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  return LessValue({x[1], x[0]}, args);
}
SymInt GreaterOrEqualValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  return LessOrEqualValue({x[1], x[0]}, args);
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
      .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(Name##Value))                  \
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
