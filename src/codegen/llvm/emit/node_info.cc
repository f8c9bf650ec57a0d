/// node_info.cc: what the emitter knows before it emits: dependences, ranges, costs; and symbolic
/// extents as values.
#include <algorithm>

#include "emitter.h"
#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

/// First bit of the variables of reductions; below are those of the kernel's loops.
constexpr int kReduceBits = 32;
/// Weights stop here; nothing asks for more.
constexpr double kMaxWeight = 1e6;

/// Rounding to bf16 takes some integer instructions.
double CastWeight(DType to) {
  switch (FormatOf(to)) {
    case FloatFormat::kBF16:
      return 4;
    case FloatFormat::kF16:
    case FloatFormat::kF32:
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  return 1;
}

}  // namespace

int Emitter::ReduceBit(int level, int index) {
  const auto [it, fresh] =
      reduce_bits_.emplace(std::pair(level, index), kReduceBits + int(reduce_bits_.size()));
  WEFT_CHECK(it->second < 64, kLimit, "a kernel with more than {} reduction variables",
             64 - kReduceBits);
  return it->second;
}

const NodeInfo& Emitter::Info(const Expr& e) {
  if (auto* known = info_.Find(e.get())) return **known;
  std::vector<const ExprNode*> stack{e.get()};
  while (!stack.empty()) {
    const ExprNode* n = stack.back();
    const size_t before = stack.size();
    for (const Expr& o : n->operands()) {
      if (!info_.Contains(o.get())) stack.push_back(o.get());
    }
    if (stack.size() != before) continue;
    stack.pop_back();
    if (!info_.Contains(n)) Learn(*n);
  }
  return **info_.Find(e.get());
}

void Emitter::Learn(const ExprNode& n) {
  NodeInfo info;
  info.has_load = n.kind() == ExprKind::kLoad;
  for (const Expr& o : n.operands()) {
    const NodeInfo& below = **info_.Find(o.get());
    info.deps |= below.deps;
    info.has_load |= below.has_load;
    if (!IsRareChoice(n) || o != n.operand(1)) info.weight += below.weight;
  }
  switch (n.kind()) {
    case ExprKind::kIndex:
      info.deps = uint64_t{1} << IndexBit(n.index());
      break;
    case ExprKind::kReduceVar:
      info.deps = uint64_t{1} << ReduceBit(n.level(), n.index());
      break;
    case ExprKind::kReduce:
      for (size_t i = 0; i < n.extents().size(); ++i)
        info.deps &= ~(uint64_t{1} << ReduceBit(n.level(), int(i)));
      info.weight += 100;
      info_.Set(&n, std::make_unique<NodeInfo>(info));
      if (IsRowReduce(n)) {
        (*info_.Find(&n))->deps |=
            uint64_t{1} << (kernel_.rows_in_lanes() ? IndexBit(kernel_.vector_loop) : int{kRowBit});
      }
      return;
    case ExprKind::kLoad:
      info.weight = 1;
      break;
    case ExprKind::kBinary:
      info.weight += n.bin_op() == BinOp::kDiv && IsFloat(n.dtype()) ? 4 : 1;
      break;
    case ExprKind::kUnary:
      info.weight += n.un_op() == UnOp::kSqrt ? 4 : 1;
      break;
    case ExprKind::kSelect:
    case ExprKind::kFma:
      info.weight += 1;
      break;
    case ExprKind::kCast:
      info.weight += CastWeight(n.dtype());
      break;
    case ExprKind::kPhilox:
      info.weight += 60;
      break;
    default:
      break;
  }
  info.weight = std::min(info.weight, kMaxWeight);
  info_.Set(&n, std::make_unique<NodeInfo>(LearnRange(n, info)));
}

bool Emitter::IsRowReduce(const ExprNode& n) {
  if (n.kind() != ExprKind::kReduce || !kernel_.has_rows()) return false;
  const uint64_t outer = (uint64_t{1} << kernel_.num_outer) - 1;
  return n.extents() == kernel_.row_dims() &&
         ((*info_.Find(&n))->deps & ~(outer | uint64_t{1} << int{kRowBit})) == 0;
}

NodeInfo Emitter::LearnRange(const ExprNode& n, NodeInfo info) {
  if (n.dtype() != DType::kI64 && n.dtype() != DType::kI32) return info;
  using Wide = __int128;
  const int64_t extent_max = kernel_.small_index ? INT32_MAX : INT64_MAX;
  const auto set = [&](Wide lo, Wide hi) {
    const Wide least = n.dtype() == DType::kI32 ? INT32_MIN : INT64_MIN,
               most = n.dtype() == DType::kI32 ? INT32_MAX : INT64_MAX;
    const bool fits = lo >= least && hi <= most && lo <= hi;
    info.lo = int64_t(fits ? lo : least);
    info.hi = int64_t(fits ? hi : most);
  };
  set(1, 0);
  const auto range = [&](int i) -> const NodeInfo& { return **info_.Find(n.operand(i).get()); };
  switch (n.kind()) {
    case ExprKind::kConst:
      set(n.const_int(), n.const_int());
      break;
    case ExprKind::kIndex: {
      const SymInt d = kernel_.dims[size_t(n.index())];
      set(0, d.is_const() ? std::max<int64_t>(d.value() - 1, 0) : extent_max);
      break;
    }
    case ExprKind::kReduceVar:
      set(0, extent_max);
      break;
    case ExprKind::kDim:
      if (n.dim().is_symbol()) set(0, extent_max);
      break;
    case ExprKind::kSelect:
      set(std::min(range(1).lo, range(2).lo), std::max(range(1).hi, range(2).hi));
      break;
    case ExprKind::kBinary: {
      const Wide al = range(0).lo, ah = range(0).hi, bl = range(1).lo, bh = range(1).hi;
      switch (n.bin_op()) {
        case BinOp::kAdd:
          set(al + bl, ah + bh);
          break;
        case BinOp::kSub:
          set(al - bh, ah - bl);
          break;
        case BinOp::kMul:
          if (al >= 0 && bl >= 0)
            set(al * bl,
                ah <= INT64_MAX && bh <= INT32_MAX ? ah * bh : (ah == 0 ? 0 : Wide(INT64_MAX) * 2));
          break;
        case BinOp::kDiv:
        case BinOp::kFloorDiv:
          if (al >= 0 && bl >= 1) set(al / bh, ah / bl);
          break;
        case BinOp::kMod:
        case BinOp::kFloorMod:
          if (al >= 0 && bl >= 1) set(0, std::min(ah, bh - 1));
          break;
        case BinOp::kMin:
          set(std::min(al, bl), std::min(ah, bh));
          break;
        case BinOp::kMax:
          set(std::max(al, bl), std::max(ah, bh));
          break;
        default:
          break;
      }
      break;
    }
    default:
      break;
  }
  return info;
}

llvm::Value* Emitter::Dim(SymInt d) {
  if (d.is_const()) return Int(d.value());
  if (const auto it = dim_values_.find(d.node()); it != dim_values_.end()) return it->second;

  struct Visitor : SymVisitor {
    explicit Visitor(Emitter& e) : e(e) {}
    void Const(int64_t v) override { stack.push_back(e.Int(v)); }
    void Sym(SymInt symbol) override {
      llvm::Value*& v = e.dim_values_[symbol.node()];
      if (!v) {
        const int k = e.names_.Number(symbol);
        if (k < e.kernel_.num_symbols)
          v = e.ir_.CreateLoad(e.ir_.getInt64Ty(),
                               e.ir_.CreateGEP(e.ir_.getInt64Ty(), e.dims_, e.Int(k)));
        else
          v = e.Dim(e.names_.Definition(k));
      }
      stack.push_back(v);
    }
    void Op(char op) override {
      llvm::Value* b = stack.back();
      stack.pop_back();
      llvm::Value* a = stack.back();
      stack.pop_back();
      const auto binary = [&](BinOp o) { return e.EmitBinary(o, DType::kI64, a, b); };
      switch (op) {
        case '+':
          a = binary(BinOp::kAdd);
          break;
        case '-':
          a = binary(BinOp::kSub);
          break;
        case '*':
          a = binary(BinOp::kMul);
          break;
        case '/':
          a = binary(BinOp::kFloorDiv);
          break;
        case '%':
          a = binary(BinOp::kFloorMod);
          break;
        case 'm':
          a = binary(BinOp::kMin);
          break;
        case 'M':
          a = binary(BinOp::kMax);
          break;
        case 'b':
          a = e.ir_.CreateSelect(e.ir_.CreateICmpEQ(a, e.Int(1)), b, a);
          break;
        default:
          WEFT_ICHECK(false, "operation '{}' of a symbolic integer", op);
      }
      stack.push_back(a);
    }
    Emitter& e;
    Values stack;
  };
  llvm::Value* v = InScope(0, [&] {
    Visitor visitor(*this);
    VisitPostfix(d, visitor);
    return visitor.stack.back();
  });
  dim_values_[d.node()] = v;
  return v;
}

}  // namespace weft::llvmgen
