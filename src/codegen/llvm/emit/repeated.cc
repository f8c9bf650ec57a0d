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

llvm::Value* Emitter::FirstLanes(int lanes, llvm::Value* last) {
  // A shift of ones is one number; compares of lanes by their places take a register for every 16.
  if (lanes < 8 || lanes > 64)
    return ir_.CreateICmpSLE(Iota(lanes, DType::kI32), Splat(last, lanes));
  llvm::Type* bits = ir_.getIntNTy(unsigned(lanes));
  llvm::Value* others = ir_.CreateSub(ir_.getInt32(uint32_t(lanes - 1)), last);
  llvm::Value* ones = ir_.CreateLShr(ir_.getInt64(~uint64_t{0} >> (64 - lanes)),
                                     ir_.CreateZExt(others, ir_.getInt64Ty()));
  return ir_.CreateBitCast(ir_.CreateTrunc(ones, bits),
                           llvm::FixedVectorType::get(ir_.getInt1Ty(), unsigned(lanes)));
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
  const auto spread = [&](llvm::Value* v, int64_t begin) {
    std::vector<int> order;
    for (int64_t i = 0; i < w; ++i) order.push_back(int((begin + i) / repeat));
    return ir_.CreateShuffleVector(v, order);
  };
  const auto anywhere = [&] {
    llvm::Value* mask = FirstLanes(w, bound);
    llvm::Value* v = ir_.CreateMaskedLoad(type, p, align, mask, llvm::Constant::getNullValue(type));
    llvm::Value* out = nullptr;
    for (int64_t k = 0; k < repeat; ++k)
      out =
          out ? ir_.CreateSelect(ir_.CreateICmpEQ(phase, Int(k)), spread(v, k), out) : spread(v, k);
    return out;
  };
  if (masked || w % repeat != 0 || w == repeat) return anywhere();
  // Whole vectors mostly begin where an element does: then no mask and one shuffle.
  llvm::Value *usual = nullptr, *rare = nullptr;
  llvm::BasicBlock *usual_end = nullptr, *rare_end = nullptr;
  If(
      ir_.CreateICmpEQ(phase, Int(0)),
      [&] {
        llvm::Type* few = MemoryType(n.dtype(), int(w / repeat));
        usual = spread(ir_.CreateAlignedLoad(few, p, align), 0);
        usual_end = ir_.GetInsertBlock();
      },
      [&] {
        rare = anywhere();
        rare_end = ir_.GetInsertBlock();
      });
  return Joined({usual, usual_end}, {rare, rare_end});
}

}  // namespace weft::llvmgen
