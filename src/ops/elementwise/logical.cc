/// logical.cc: And, Or, Xor, Not on bool; BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot and
/// BitShift on integers.
#include "ops/util/op_util.h"
#include "weft/support/check.h"

namespace weft::ops {

struct BitShiftParam : OpParam<BitShiftParam> {
  std::string direction;
  WEFT_OP_PARAM(BitShiftParam) { WEFT_FIELD(direction).describe("\"LEFT\" or \"RIGHT\""); }
};
WEFT_REGISTER_OP_PARAM(BitShiftParam);

namespace {

using Values = const std::vector<SymInt>&;

bool BothConst(Values x) {
  return x[0].known() && x[1].known() && x[0].is_const() && x[1].is_const();
}

SymInt AndValue(Values x, const ValueArgs&) {
  if (x[0].is(0) || x[1].is(0)) return 0;
  return x[0].known() && x[1].known() ? Min(x[0], x[1]) : SymInt();
}
SymInt OrValue(Values x, const ValueArgs&) {
  if (x[0].is(1) || x[1].is(1)) return 1;
  return x[0].known() && x[1].known() ? Max(x[0], x[1]) : SymInt();
}
SymInt XorValue(Values x, const ValueArgs&) {
  return x[0].known() && x[1].known() ? Max(Max(x[0] - x[1], x[1] - x[0]), 0) : SymInt();
}
SymInt NotValue(Values x, const ValueArgs&) { return SymInt(1) - x[0]; }

SymInt BitwiseAndValue(Values x, const ValueArgs&) {
  return BothConst(x) ? SymInt(x[0].value() & x[1].value()) : SymInt();
}
SymInt BitwiseOrValue(Values x, const ValueArgs&) {
  return BothConst(x) ? SymInt(x[0].value() | x[1].value()) : SymInt();
}
SymInt BitwiseXorValue(Values x, const ValueArgs&) {
  return BothConst(x) ? SymInt(x[0].value() ^ x[1].value()) : SymInt();
}

bool ShiftsLeft(const NodePtr& n) {
  const std::string& d = ParamOf<BitShiftParam>(n).direction;
  WEFT_CHECK(d == "LEFT" || d == "RIGHT", kBadAttribute,
             "{}: direction is \"{}\", expected \"LEFT\" or \"RIGHT\"", n->Describe(), d);
  return d == "LEFT";
}
void BitShiftType(InferTypeContext& ctx) {
  ShiftsLeft(ctx.node());
  const Type t = CommonInputType(ctx, kUnsignedInts);
  if (t.known()) ctx.set_out(0, t);
}
SymInt BitShiftValue(Values x, const ValueArgs& args) {
  if (!x[0].known() || !x[1].known() || !x[1].is_const() || x[1].value() < 0) return {};
  if (x[1].value() >= DTypeBits(args.out_dtype)) return 0;
  if (x[1].value() > 31) return {};
  const SymInt factor = int64_t{1} << x[1].value();
  // A left shift that leaves a narrow type drops bits: such a value is dropped by the caller.
  return ShiftsLeft(args.node)    ? x[0] * factor
         : args.NonNegative(x[0]) ? FloorDiv(x[0], factor)
                                  : SymInt();
}
Exprs BitShiftCode(const NodePtr& n, const Exprs& x) {
  return {Expr::Binary(ShiftsLeft(n) ? BinOp::kShl : BinOp::kShr, x[0], x[1])};
}

/// The input that is `neutral` in every element gives way to the other; one that is `absorbing` is
/// the result.
std::vector<NodeEntry> SimplifyLattice(RewriteContext& ctx, const NodePtr& n, double neutral,
                                       double absorbing) {
  if (n->inputs[0] == n->inputs[1]) return {n->inputs[0]};
  for (int i = 0; i < 2; ++i) {
    const NodeEntry x = n->inputs[i], other = n->inputs[1 - i];
    std::vector<NodeEntry> r;
    if (IsUniform(ctx, x, neutral)) r = ReplaceIfSame(ctx, n, other);
    if (r.empty() && IsUniform(ctx, x, absorbing)) r = ReplaceIfSame(ctx, n, x);
    if (!r.empty()) return r;
  }
  return {};
}
std::vector<NodeEntry> SimplifyAnd(RewriteContext& ctx, const NodePtr& n) {
  return SimplifyLattice(ctx, n, 1, 0);
}
std::vector<NodeEntry> SimplifyOr(RewriteContext& ctx, const NodePtr& n) {
  return SimplifyLattice(ctx, n, 0, 1);
}
/// x xor 0 = x.
std::vector<NodeEntry> SimplifyXor(RewriteContext& ctx, const NodePtr& n) {
  for (int i = 0; i < 2; ++i) {
    if (!IsUniform(ctx, n->inputs[i], 0)) continue;
    if (auto r = ReplaceIfSame(ctx, n, n->inputs[1 - i]); !r.empty()) return r;
  }
  return {};
}
/// x & x = x, x | x = x.
std::vector<NodeEntry> SimplifySameOperand(RewriteContext&, const NodePtr& n) {
  if (n->inputs[0] != n->inputs[1]) return {};
  return {n->inputs[0]};
}

}  // namespace

#define WEFT_REGISTER_LOGICAL_OP(Name, Symbol, Set, Op)                                          \
  WEFT_REGISTER_BINARY_OP(Name, Set, "y = a " Symbol " b. No gradient. Source: ONNX " #Name ".") \
      .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(Name##Value))                 \
      .set_attr<FCodeGen>("FCodeGen", BinaryCodeGen(BinOp::Op))                                  \
      .set_attr<FGradient>("FGradient", NoGradient)

WEFT_REGISTER_LOGICAL_OP(And, "and", kBoolOnly, kAnd)
    .set_attr<FSimplify>("FSimplify", SimplifyAnd)
    .example({"bool[2, n]", "bool[2, n]"})
    .example({"bool[m, 1, 3]", "bool[4, 1]"});
WEFT_REGISTER_LOGICAL_OP(Or, "or", kBoolOnly, kOr)
    .set_attr<FSimplify>("FSimplify", SimplifyOr)
    .example({"bool[2, n]", "bool[2, n]"})
    .example({"bool[m, 1, 3]", "bool[]"});
WEFT_REGISTER_LOGICAL_OP(Xor, "xor", kBoolOnly, kXor)
    .set_attr<FSimplify>("FSimplify", SimplifyXor)
    .example({"bool[2, n]", "bool[2, n]"})
    .example({"bool[m, 1, 3]", "bool[4, 1]"});
WEFT_REGISTER_LOGICAL_OP(BitwiseAnd, "& (bit by bit)", kInts, kAnd)
    .set_attr<FSimplify>("FSimplify", SimplifySameOperand)
    .example({"i32[2, n]", "i32[2, n]"})
    .example({"u8[m, 1, 3]", "u8[4, 1]"});
WEFT_REGISTER_LOGICAL_OP(BitwiseOr, "| (bit by bit)", kInts, kOr)
    .set_attr<FSimplify>("FSimplify", SimplifySameOperand)
    .example({"i64[2, n]", "i64[2, n]"})
    .example({"u16[m, 1, 3]", "u16[]"});
WEFT_REGISTER_LOGICAL_OP(BitwiseXor, "^ (bit by bit)", kInts, kXor)
    .set_attr<FSimplify>("FSimplify", SimplifyXor)
    .example({"i8[2, n]", "i8[2, n]"})
    .example({"u32[m, 1, 3]", "u32[4, 1]"});

WEFT_REGISTER_UNARY_OP(Not, kBoolOnly, "y = not x. No gradient. Source: ONNX Not-1.")
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(NotValue))
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(UnOp::kNot))
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyInvolution)
    .example({"bool[2, n]"})
    .example({"bool[]"});

WEFT_REGISTER_UNARY_OP(BitwiseNot, kInts,
                       "y = ~x, every bit flipped. No gradient. Source: ONNX BitwiseNot-18.")
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(UnOp::kBitNot))
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyInvolution)
    .example({"i32[2, n]"})
    .example({"u8[]"});

WEFT_REGISTER_BINARY_OP(
    BitShift, kUnsignedInts,
    "y = a << b or a >> b by `direction`; shifting by the width of T or more gives 0. No gradient. "
    "Errors: a direction that is not LEFT or RIGHT (kBadAttribute). Source: ONNX BitShift-11.")
    .param<BitShiftParam>()
    .set_attr<FInferType>("FInferType", BitShiftType)
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(BitShiftValue))
    .set_attr<FCodeGen>("FCodeGen", BitShiftCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .example({"u8[2, n]", "u8[2, n]"}, "direction = \"LEFT\"")
    .example({"u64[m, 1, 3]", "u64[4, 1]"}, "direction = \"RIGHT\"");

}  // namespace weft::ops
