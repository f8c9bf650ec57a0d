/// repeated.cc: loads where neighbouring lanes read one element (floordiv(lane, 2): nearest
/// resizing, gradients of pooling): the elements are contiguous, so they are read as one short
/// vector and spread over the lanes.
#include "emitter.h"

namespace weft::llvmgen {
namespace {

/// Lanes per element: as many shuffles are emitted, one of them chosen by where the vector begins.
constexpr int64_t kMaxRepeat = 4;

}  // namespace

// Shared sums could have any number of terms.
Exprs TermsOf(const Expr& e) {
  constexpr size_t kMaxTerms = 64;
  Exprs terms, rest{e};
  while (!rest.empty()) {
    const Expr t = std::move(rest.back());
    rest.pop_back();
    if (t->kind() == ExprKind::kBinary && t->bin_op() == BinOp::kAdd)
      rest.insert(rest.end(), {t->operand(1), t->operand(0)});
    else
      terms.push_back(t);
    if (terms.size() + rest.size() > kMaxTerms) return {};
  }
  return terms;
}

llvm::Value* Emitter::EmitRepeatedLoad(const ExprNode& n, bool masked) {
  const Lanes* l = lanes();
  if (!target_.masks) return nullptr;
  // offset = rest + floordiv(at, repeat), where `at` steps by 1 from lane to lane.
  Expr quotient, rest = Expr::Int(0);
  for (const Expr& t : TermsOf(n.operand(0))) {
    if (!DependsOn(t, l->loop)) {
      rest = rest + t;
    } else if (quotient) {
      return nullptr;
    } else {
      quotient = t;
    }
  }
  if (!quotient || quotient->kind() != ExprKind::kBinary ||
      quotient->bin_op() != BinOp::kFloorDiv || quotient->operand(1)->kind() != ExprKind::kConst)
    return nullptr;
  const int64_t repeat = quotient->operand(1)->const_int();
  const Expr at = quotient->operand(0);
  if (repeat < 2 || repeat > kMaxRepeat || !IsContiguous(at, l->loop)) return nullptr;

  const int w = l->count;
  const llvm::Align align{uint64_t(Bytes(n.dtype()))};
  llvm::Type* element = MemoryType(n.dtype());
  llvm::Type* type = MemoryType(n.dtype(), w);
  llvm::Value* first = ir_.CreateAdd(Get(AtZero(at, l->loop)), l->base);
  llvm::Value* q = EmitBinary(BinOp::kFloorDiv, DType::kI64, first, Int(repeat));
  llvm::Value* phase = ir_.CreateSub(first, ir_.CreateMul(q, Int(repeat)));
  llvm::Value* p = ir_.CreateGEP(element, Buffer(n.buffer()), ir_.CreateAdd(Get(Keep(rest)), q));
  // Up to the element of the last lane that exists.
  llvm::Value* last = Int(w - 1);
  if (masked) {
    llvm::Value* left = ir_.CreateSub(ir_.CreateSExt(l->left, ir_.getInt64Ty()), Int(1));
    last = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, left);
  }
  llvm::Value* bound =
      ir_.CreateTrunc(ir_.CreateUDiv(ir_.CreateAdd(phase, last), Int(repeat)), ir_.getInt32Ty());
  llvm::Value* mask = ir_.CreateICmpSLE(Iota(w, DType::kI32), Splat(bound, w));
  llvm::Value* v = ir_.CreateMaskedLoad(type, p, align, mask, llvm::Constant::getNullValue(type));
  llvm::Value* out = nullptr;
  for (int64_t k = 0; k < repeat; ++k) {
    std::vector<int> order;
    for (int64_t i = 0; i < w; ++i) order.push_back(int((k + i) / repeat));
    llvm::Value* spread = ir_.CreateShuffleVector(v, order);
    out = out ? ir_.CreateSelect(ir_.CreateICmpEQ(phase, Int(k)), spread, out) : spread;
  }
  return out;
}

}  // namespace weft::llvmgen
