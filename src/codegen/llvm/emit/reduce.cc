/// reduce.cc: accumulators, and reductions as loops inside a point (windows, contractions).
///
/// An accumulator may have many lanes, each of them a partial result; `Fold` combines halves, so
/// that the order is fixed by the width and the same in every run. Minimum and maximum keep a NaN
/// once they have met one. Positions are those of the first extremum: a lane meets its elements in
/// order and replaces only for a better one, and ties between lanes go to the lower position.
#include "emitter.h"

namespace weft::llvmgen {
namespace {

/// Reductions of at most this many steps and operations are written out.
constexpr int64_t kMaxUnrolledSteps = 16;
constexpr double kMaxUnrolledWeight = 96;

bool IsMax(ReduceOp op) { return op == ReduceOp::kMax || op == ReduceOp::kArgMax; }

}  // namespace

Values Emitter::InitAccumulator(const Accumulator& acc, int lanes) {
  llvm::Type* type = RegisterType(acc.dtype, lanes);
  const bool f = IsFloat(acc.dtype), boolean = acc.dtype == DType::kBool;
  const unsigned bits = type->getScalarSizeInBits();
  llvm::Constant* v = llvm::Constant::getNullValue(type);
  switch (acc.op) {
    case ReduceOp::kSum:
    case ReduceOp::kAny:
      break;
    case ReduceOp::kAll:
      v = llvm::Constant::getAllOnesValue(type);
      break;
    case ReduceOp::kProd:
      v = f ? llvm::ConstantFP::get(type, 1.0) : llvm::ConstantInt::get(type, 1);
      break;
    case ReduceOp::kMin:
    case ReduceOp::kArgMin:
      if (f)
        v = llvm::ConstantFP::getInfinity(type, false);
      else if (boolean || !IsSigned(acc.dtype))
        v = llvm::Constant::getAllOnesValue(type);
      else
        v = llvm::ConstantInt::get(type, llvm::APInt::getSignedMaxValue(bits));
      break;
    case ReduceOp::kMax:
    case ReduceOp::kArgMax:
      if (f)
        v = llvm::ConstantFP::getInfinity(type, true);
      else if (!boolean && IsSigned(acc.dtype))
        v = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
      break;
  }
  if (!acc.positional()) return {v};
  // Position 0 is right where no element is better than the neutral one: then all are equal to it.
  return {v, llvm::Constant::getNullValue(RegisterType(acc.position(), lanes))};
}

Values Emitter::Accumulate(const Accumulator& acc, const Values& v, llvm::Value* x,
                           llvm::Value* position, llvm::Value* mask) {
  const int w = LanesOf(v[0]);
  x = Splat(x, w);
  if (w == 1) mask = nullptr;
  if (acc.positional()) {
    const bool f = IsFloat(acc.dtype);
    llvm::Value* better = EmitBinary(IsMax(acc.op) ? BinOp::kGt : BinOp::kLt, acc.dtype, x, v[0]);
    if (f)
      better = ir_.CreateOr(better,
                            ir_.CreateAnd(ir_.CreateFCmpUNO(x, x), ir_.CreateFCmpORD(v[0], v[0])));
    if (mask) better = ir_.CreateAnd(better, mask);
    return {ir_.CreateSelect(better, x, v[0]), ir_.CreateSelect(better, Splat(position, w), v[1])};
  }
  llvm::Value* r = Merge(acc, v, {x})[0];
  return {mask ? ir_.CreateSelect(mask, r, v[0]) : r};
}

Values Emitter::Merge(const Accumulator& acc, const Values& a, const Values& b) {
  switch (acc.op) {
    case ReduceOp::kSum:
      return {EmitBinary(BinOp::kAdd, acc.dtype, a[0], b[0])};
    case ReduceOp::kProd:
      return {EmitBinary(BinOp::kMul, acc.dtype, a[0], b[0])};
    case ReduceOp::kAny:
      return {ir_.CreateOr(a[0], b[0])};
    case ReduceOp::kAll:
      return {ir_.CreateAnd(a[0], b[0])};
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return {EmitMinMax(IsMax(acc.op), acc.dtype, a[0], b[0])};
    case ReduceOp::kArgMin:
    case ReduceOp::kArgMax:
      break;
  }
  const BinOp op = IsMax(acc.op) ? BinOp::kGt : BinOp::kLt;
  llvm::Value* better = EmitBinary(op, acc.dtype, b[0], a[0]);
  llvm::Value* equal = EmitBinary(BinOp::kEq, acc.dtype, b[0], a[0]);
  if (IsFloat(acc.dtype)) {
    llvm::Value* nan_a = ir_.CreateFCmpUNO(a[0], a[0]);
    llvm::Value* nan_b = ir_.CreateFCmpUNO(b[0], b[0]);
    better = ir_.CreateOr(better, ir_.CreateAnd(nan_b, ir_.CreateNot(nan_a)));
    equal = ir_.CreateOr(equal, ir_.CreateAnd(nan_b, nan_a));
  }
  // An untouched lane holds the neutral element at position 0. It ties only where no element is
  // better than the neutral one; then all are equal, and position 0 is the answer.
  better = ir_.CreateOr(better, ir_.CreateAnd(equal, ir_.CreateICmpSLT(b[1], a[1])));
  return {ir_.CreateSelect(better, b[0], a[0]), ir_.CreateSelect(better, b[1], a[1])};
}

Values Emitter::Fold(const Accumulator& acc, Values v, int to) {
  for (int w = LanesOf(v[0]); w > to; w /= 2) {
    Values low, high;
    std::vector<int> first, second;
    for (int i = 0; i < w / 2; ++i) {
      first.push_back(i);
      second.push_back(w / 2 + i);
    }
    for (llvm::Value* x : v) {
      if (w == 2) {
        low.push_back(ir_.CreateExtractElement(x, uint64_t{0}));
        high.push_back(ir_.CreateExtractElement(x, uint64_t{1}));
      } else {
        low.push_back(ir_.CreateShuffleVector(x, first));
        high.push_back(ir_.CreateShuffleVector(x, second));
      }
    }
    v = Merge(acc, low, high);
  }
  return v;
}

Values Emitter::ReduceLoops(const ExprNode& n, size_t k, const Accumulator& acc, int lanes,
                            llvm::Value* position, const Values& v) {
  if (k == n.extents().size())
    return Accumulate(acc, v, GetLanes(n.operand(0), lanes), position, nullptr);
  const SymInt extent = n.extents()[k];
  LoopSpec spec;
  spec.lo = Int(0);
  spec.hi = Dim(extent);
  spec.bit = ReduceBit(n.level(), int(k));
  spec.maybe_empty = !extent.is_const() || extent.value() < 1;
  spec.barrier = true;
  return Loop(spec, v, [&](llvm::Value* iv, const Values& carried) {
    llvm::Value* p =
        acc.positional() ? ir_.CreateAdd(ir_.CreateMul(position, Dim(extent)), iv) : position;
    return ReduceLoops(n, k + 1, acc, lanes, p, carried);
  });
}

llvm::Value* Emitter::EmitReduce(const Expr& e) {
  const ExprNode& n = *e;
  const Accumulator acc{n.reduce_op(), n.operand(0)->dtype()};
  const Lanes* l = lanes();
  const NodeInfo& info = **info_.Find(&n);
  const int w = l && (info.deps >> IndexBit(l->loop) & 1) ? l->count : 1;
  Values v = InitAccumulator(acc, w);

  int64_t steps = 1;
  for (SymInt x : n.extents())
    steps = x.is_const() && steps <= kMaxUnrolledSteps ? steps * x.value() : kMaxUnrolledSteps + 1;
  if (steps > kMaxUnrolledSteps || double(steps) * Info(n.operand(0)).weight > kMaxUnrolledWeight) {
    return ReduceLoops(n, 0, acc, w, Int(0), v).back();
  }
  for (int64_t step = 0; step < steps; ++step) {
    Indices at(n.extents().size());
    int64_t rest = step;
    for (size_t k = at.size(); k-- > 0; rest /= n.extents()[k].value())
      at[k] = Expr::Int(rest % n.extents()[k].value());
    const Expr body = Keep(ReduceBody(e, at));
    v = Accumulate(acc, v, GetLanes(body, w), Int(step), nullptr);
  }
  return v.back();
}

}  // namespace weft::llvmgen
