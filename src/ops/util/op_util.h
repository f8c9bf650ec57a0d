/// op_util.h: what the operator files share: dtype sets, inference functions, FCodeGen and
/// FGradient wrappers, rules, docs.
///
/// An op file reads: docs, dtype set, shape rule, one line of math, one line of gradient.
/// Everything that is equal for all ops of a kind is here or in a group (registered in op_util.cc):
///
///   ElementwiseUnary       FInferShape (shape of x), FInplace {x -> y}, FFlops
///   ElementwiseUnaryBool   the same for a result of another dtype: no FInplace
///   ElementwiseBinary      FInferShape (numpy broadcasting), FInplace {a -> y, b -> y}, FFlops
///   ElementwiseBinaryBool  the same for a result of another dtype: no FInplace
///   ElementwiseVariadic    1 or more inputs, broadcast
///
/// What an op sets itself wins over its groups: an op that follows values of shape arithmetic sets
/// its own FInferShape. FInplace names candidates; who uses it checks that the buffers have equal
/// size.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/op/op_param.h"

namespace weft::ops {

// ---- dtype sets ----

/// A set of dtypes as a bit mask; usable in constant expressions.
class DTypeSet {
 public:
  constexpr DTypeSet(std::initializer_list<DType> types) {
    for (DType t : types) bits_ |= uint64_t{1} << int(t);
  }
  constexpr explicit DTypeSet(bool (*has)(DType)) {
    for (int i = 0; i < kNumDTypes; ++i) bits_ |= uint64_t{has(DType(i))} << i;
  }
  constexpr bool has(DType t) const { return bits_ >> int(t) & 1; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) {
    return DTypeSet(a.bits_ | b.bits_);
  }
  /// "f16, bf16, f32, f64".
  std::string ToString() const;

 private:
  constexpr explicit DTypeSet(uint64_t bits) : bits_(bits) {}
  uint64_t bits_ = 0;
};

inline constexpr DTypeSet kBoolOnly{DType::kBool};
inline constexpr DTypeSet kFloats{IsFloat};
inline constexpr DTypeSet kSignedInts{IsSigned};
inline constexpr DTypeSet kUnsignedInts{IsUnsigned};
inline constexpr DTypeSet kInts{IsInt};
inline constexpr DTypeSet kNumeric = kInts | kFloats;
inline constexpr DTypeSet kSignedNumeric = kSignedInts | kFloats;
/// What kernels compute with.
inline constexpr DTypeSet kComputable{IsComputable};
inline constexpr DTypeSet kIndexTypes{DType::kI32, DType::kI64};
inline constexpr DTypeSet kI64Only{DType::kI64};
inline constexpr DTypeSet kFloat8{DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2,
                                  DType::kF8E5M2FNUZ};
inline constexpr DTypeSet kNarrow = kFloat8 | DTypeSet{DType::kI4, DType::kU4,     DType::kI2,
                                                       DType::kU2, DType::kF8E8M0, DType::kF4E2M1};
/// Every dtype a tensor can have.
inline constexpr DTypeSet kAllTypes =
    kComputable | kNarrow | DTypeSet{DType::kString, DType::kC64, DType::kC128};

/// "T in {f16, bf16, f32, f64}" for the type column of `.input` / `.output`.
std::string TypeDoc(DTypeSet set, const char* name = "T");

/// Attribute struct of ops that take none: unknown attributes are errors.
struct NoParam : OpParam<NoParam> {
  WEFT_OP_PARAM(NoParam) { (void)manager; }
};

// ---- FInferType ----

/// Throws kTypeMismatch unless input i is a tensor of a dtype in `set`; absent and unknown inputs
/// pass.
void CheckInputType(InferTypeContext& ctx, int i, DTypeSet set);
/// The one dtype of inputs [first, last) (absent ones skipped; last < 0: to the end), each in
/// `set`; fills unknown ones from the known ones. Throws kTypeMismatch naming both inputs and both
/// dtypes. Unknown when none is known.
Type CommonInputType(InferTypeContext& ctx, DTypeSet set, int first = 0, int last = -1);
/// All inputs of one dtype of `set`, all outputs of that dtype.
FInferType SameType(DTypeSet set);
/// All inputs of one dtype of `set`, all outputs bool.
FInferType BoolResult(DTypeSet set);
/// Input 0 of a dtype of `set` gives every output its dtype; other inputs are not looked at.
FInferType TypeOfFirst(DTypeSet set);
/// The float of ONNX's number `stash_type`, in which a normalization keeps its statistics;
/// kBadAttribute where there is none.
DType StashType(const NodePtr& n, int64_t stash_type);

// ---- FInferShape ----

/// What a value rule may ask for.
struct ValueArgs {
  const NodePtr& node;
  DType in_dtype;  ///< of the last known input
  DType out_dtype;
  const Facts& facts;
  bool NonNegative(SymInt e) const { return e.known() && facts.RangeOf(e).lo >= 0; }
  bool Positive(SymInt e) const { return e.known() && facts.RangeOf(e).lo > 0; }
};
/// One element of the result from the elements of the inputs (an absent input is unknown); unknown
/// where it cannot be said.
using ElementRule = std::function<SymInt(const std::vector<SymInt>& x, const ValueArgs& args)>;

/// Followed value of input i: an integer or bool tensor, or a float one whose elements are
/// integers; null where unknown.
SymTensorPtr InputValue(InferShapeContext& ctx, int i);
/// Applies `rule` to followed values of all present inputs (the first `count` of them, where given)
/// with broadcasting and sets the value of output 0. Values that the output dtype cannot hold
/// exactly become unknown; nothing is set when all of them are. See op_util.cc.
void ElementwiseValue(InferShapeContext& ctx, const ElementRule& rule, int count = -1);
/// Element values of a small integer or bool tensor (or a float one of integers), null for others.
SymTensorPtr SymTensorOf(const Tensor& t);

/// Output 0 has the broadcast shape of all present inputs; other outputs too.
void BroadcastShape(InferShapeContext& ctx);
/// BroadcastShape, and values by `rule`.
FInferShape BroadcastShapeAndValue(ElementRule rule);
/// All outputs have the shape of input 0.
void UnaryShape(InferShapeContext& ctx);
FInferShape UnaryShapeAndValue(ElementRule rule);

// ---- FCodeGen ----

/// Runs `f` on x in the dtype that arithmetic is done in (f16 and bf16: f32) and rounds the result
/// back to x's dtype. A bool result of `f` (a comparison) is returned as it is.
template <class F>
Expr WithCompute(const Expr& x, F f) {
  const DType t = x->dtype(), c = AccumulatorOf(t);
  if (t == c) return f(x);
  Expr y = f(Expr::Cast(c, x));
  return y->dtype() == DType::kBool ? y : Expr::Cast(t, y);
}
/// The same for several operands of one dtype.
template <class F>
Expr WithCompute(const Exprs& x, F f) {
  const DType t = x.at(0)->dtype(), c = AccumulatorOf(t);
  if (t == c) return f(x);
  Exprs wide;
  for (const Expr& e : x) wide.push_back(Expr::Cast(c, e));
  Expr y = f(wide);
  return y->dtype() == DType::kBool ? y : Expr::Cast(t, y);
}
/// A constant of the dtype of `like`.
inline Expr ConstOf(const Expr& like, double v) { return Expr::Const(like->dtype(), v); }
/// x > y, x >= y in the order written.
inline Expr Gt(const Expr& a, const Expr& b) { return Lt(b, a); }
inline Expr Ge(const Expr& a, const Expr& b) { return Le(b, a); }
inline Expr CallMath(CallOp op, const Expr& x) { return Expr::Call(op, {x}); }

/// a * b in the accumulator of a's dtype: a term of a sum of products.
inline Expr WideProduct(const Expr& a, const Expr& b) {
  const DType t = AccumulatorOf(a->dtype());
  return Expr::Cast(t, a) * Expr::Cast(t, b);
}
/// Cast from one dtype to another, both known when the graph is made.
inline NodeEntry CastFrom(const NodeEntry& e, DType from, DType to) {
  return from == to ? e : ApplyOp("Cast", {e}, {{"to", to}});
}
/// The mean over the axes in a tensor, which stay with one element.
inline NodeEntry MeanOver(const NodeEntry& e, const NodeEntry& axes) {
  return ApplyOp("ReduceMean", {e, axes}, {{"keepdims", 1}});
}

/// FCodeGen of y = f(x), y = f(a, b): math on values of computable dtype, f16 / bf16 handled.
FCodeGen UnaryCodeGen(std::function<Expr(const Expr&)> f);
FCodeGen UnaryCodeGen(UnOp op);
FCodeGen UnaryCodeGen(CallOp op);
FCodeGen BinaryCodeGen(std::function<Expr(const Expr&, const Expr&)> f);
FCodeGen BinaryCodeGen(BinOp op);
/// Folds all inputs from the left.
FCodeGen FoldCodeGen(BinOp op);

// ---- FGradient ----

/// `grad` reduced to the shape of a broadcast operand; null stays null.
inline NodeEntry ReduceLike(const NodeEntry& grad, const NodeEntry& input) {
  return grad ? SumTo(grad, input) : grad;
}
/// dx from (x, y, dy); a null dy gives a null dx.
FGradient UnaryGradient(
    std::function<NodeEntry(const NodeEntry& x, const NodeEntry& y, const NodeEntry& dy)> f);
/// The same with the node, for ops with attributes.
FGradient UnaryNodeGradient(std::function<NodeEntry(const NodePtr& n, const NodeEntry& x,
                                                    const NodeEntry& y, const NodeEntry& dy)>
                                f);
/// {da, db} from (a, b, y, dy), each then reduced to its operand's shape; null entries stay.
FGradient BinaryGradient(
    std::function<std::pair<NodeEntry, NodeEntry>(const NodeEntry& a, const NodeEntry& b,
                                                  const NodeEntry& y, const NodeEntry& dy)>
        f);
/// No input has a gradient: integer results, comparisons, step functions (whose gradient is zero).
std::vector<NodeEntry> NoGradient(const NodePtr& n, const std::vector<NodeEntry>& dy);
/// dy where `condition`, else 0.
NodeEntry MaskedGrad(const NodeEntry& condition, const NodeEntry& dy);

// ---- FSimplify ----

/// Every element of the constant behind `e` equals `v` (the sign of zero counts); false where it is
/// no constant.
bool IsUniform(const RewriteContext& ctx, const NodeEntry& e, double v);
/// The replacement {x} where x has proved shape and dtype of output 0 of `n`, else {} (no change).
std::vector<NodeEntry> ReplaceIfSame(const RewriteContext& ctx, const NodePtr& n,
                                     const NodeEntry& x);
/// FSimplify: x op 1 = x.
std::vector<NodeEntry> SimplifyByOne(RewriteContext& ctx, const NodePtr& n);
/// f(f(x)) = f(x): replaces n by its input where that is the same op with equal attributes.
std::vector<NodeEntry> SimplifyIdempotent(RewriteContext& ctx, const NodePtr& n);
/// f(f(x)) = x.
std::vector<NodeEntry> SimplifyInvolution(RewriteContext& ctx, const NodePtr& n);

// ---- other attributes ----

/// FInplace of pairs (input, output 0).
FInplace InplaceOf(std::vector<int> inputs);
/// FInputDomains from one kind an input, in order; inputs beyond the list accept any value.
FInputDomains Domains(std::vector<InputDomain> domains);
InputDomain Any();
InputDomain Positive();
InputDomain NonZero();
InputDomain Unit();

// ---- registration ----

/// Priority of the dtype rule of the macros below, so that an op's own one wins.
inline constexpr int kDefaultLevel = 5;
/// Opens an element-wise op with what all of its kind share; more of the statement follows, and may
/// override.
#define WEFT_REGISTER_UNARY_OP(Name, Set, Doc)                                \
  WEFT_REGISTER_OP(Name)                                                      \
      .describe(Doc)                                                          \
      .input("x", ::weft::ops::TypeDoc(Set))                                  \
      .output("y", "T", "the shape of x")                                     \
      .param<::weft::ops::NoParam>()                                          \
      .include("ElementwiseUnary")                                            \
      .set_attr<::weft::FInferType>("FInferType", ::weft::ops::SameType(Set), \
                                    ::weft::ops::kDefaultLevel)
#define WEFT_REGISTER_BINARY_OP(Name, Set, Doc)                               \
  WEFT_REGISTER_OP(Name)                                                      \
      .describe(Doc)                                                          \
      .input("a", ::weft::ops::TypeDoc(Set))                                  \
      .input("b", "T", "numpy broadcasting against a")                        \
      .output("y", "T", "the broadcast shape of a and b")                     \
      .param<::weft::ops::NoParam>()                                          \
      .include("ElementwiseBinary")                                           \
      .set_attr<::weft::FInferType>("FInferType", ::weft::ops::SameType(Set), \
                                    ::weft::ops::kDefaultLevel)

}  // namespace weft::ops
