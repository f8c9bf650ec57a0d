/// emit_range.cc: what the emitter knows of a node before it prints it: dependences and ranges of
/// index arithmetic.
#include <algorithm>

#include "emit.h"
#include "weft/codegen/expr/math.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/check.h"

namespace weft::ctext {
namespace {

using Wide = __int128;
constexpr Range kFull{};

/// The exact bounds, or everything when a value may leave 64 bits and wrap.
Range Bounds(Wide lo, Wide hi) {
  if (lo < Wide(INT64_MIN) || hi > Wide(INT64_MAX)) return kFull;
  return {int64_t(lo), int64_t(hi)};
}
bool IsFull(Range r) { return r.lo == INT64_MIN && r.hi == INT64_MAX; }
bool FitsInt32(Range r) { return r.lo >= INT32_MIN && r.hi <= INT32_MAX; }

int64_t FloorDivide64(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Range Multiply(Range a, Range b) {
  const Wide c[] = {Wide(a.lo) * b.lo, Wide(a.lo) * b.hi, Wide(a.hi) * b.lo, Wide(a.hi) * b.hi};
  return Bounds(*std::min_element(c, c + 4), *std::max_element(c, c + 4));
}

/// Floor division, where x / 0 = 0.
Range FloorDivideRange(Range a, Range b) {
  if (b.lo < 0) return kFull;
  const int64_t least = std::max<int64_t>(b.lo, 1), most = std::max<int64_t>(b.hi, 1);
  const int64_t c[] = {FloorDivide64(a.lo, least), FloorDivide64(a.lo, most),
                       FloorDivide64(a.hi, least), FloorDivide64(a.hi, most)};
  Range r{*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
  if (b.lo == 0) r = {std::min<int64_t>(r.lo, 0), std::max<int64_t>(r.hi, 0)};
  return r;
}

Range FloorModuloRange(Range a, Range b) {
  if (b.lo < 0) return kFull;
  if (a.lo >= 0 && b.lo > 0 && a.hi < b.lo) return a;
  int64_t hi = std::max<int64_t>(b.hi - 1, 0);
  if (a.lo >= 0) hi = std::min(hi, a.hi);
  return {0, hi};
}

Range BinaryRange(BinOp op, Range a, Range b) {
  switch (op) {
    case BinOp::kAdd:
      return Bounds(Wide(a.lo) + b.lo, Wide(a.hi) + b.hi);
    case BinOp::kSub:
      return Bounds(Wide(a.lo) - b.hi, Wide(a.hi) - b.lo);
    case BinOp::kMul:
      return Multiply(a, b);
    case BinOp::kFloorDiv:
      return FloorDivideRange(a, b);
    case BinOp::kFloorMod:
      return FloorModuloRange(a, b);
    case BinOp::kDiv:
      return a.lo >= 0 ? FloorDivideRange(a, b) : kFull;
    case BinOp::kMod:
      return a.lo >= 0 ? FloorModuloRange(a, b) : kFull;
    case BinOp::kMin:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case BinOp::kMax:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case BinOp::kAnd:
      return a.lo >= 0 && b.lo >= 0 ? Range{0, std::min(a.hi, b.hi)} : kFull;
    default:
      return kFull;
  }
}

Range CastRange(DType from) {
  if (from == DType::kBool) return {0, 1};
  if (!IsInt(from) || DTypeBits(from) == 64) return kFull;
  const int64_t top = int64_t{1} << (DTypeBits(from) - (IsSigned(from) ? 1 : 0));
  return {IsSigned(from) ? -top : 0, top - 1};
}

/// Range of an expression over symbols, all of which are extents or sizes and so not negative.
struct DimRangeVisitor : SymVisitor {
  std::vector<Range> stack;
  void Const(int64_t v) override { stack.push_back({v, v}); }
  void Sym(SymInt) override { stack.push_back({0, INT64_MAX}); }
  void Op(char op) override {
    const Range b = stack.back();
    stack.pop_back();
    Range& a = stack.back();
    const bool sizes = a.lo >= 0 && b.lo >= 0;
    switch (op) {
      case '+':
        a = BinaryRange(BinOp::kAdd, a, b);
        break;
      case '-':
        a = BinaryRange(BinOp::kSub, a, b);
        break;
      case '*':
        a = BinaryRange(BinOp::kMul, a, b);
        break;
      case '/':
        a = BinaryRange(BinOp::kFloorDiv, a, b);
        break;
      case '%':
        a = BinaryRange(BinOp::kFloorMod, a, b);
        break;
      case 'm':
        a = BinaryRange(BinOp::kMin, a, b);
        break;
      case 'M':
        a = BinaryRange(BinOp::kMax, a, b);
        break;
      default:
        a = {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
        break;
    }
    // A sum of sizes that wraps fails on the host before a kernel runs: the clipped lower bound
    // stands.
    if (IsFull(a) && sizes && (op == '+' || op == '*')) a.lo = 0;
  }
};

}  // namespace

Range Emitter::DimRange(SymInt d) const {
  if (d.is_const()) return {d.value(), d.value()};
  DimRangeVisitor visitor;
  VisitPostfix(d, visitor);
  Range r = visitor.stack.back();
  if (kernel_.small_index &&
      std::find(kernel_.dims.begin(), kernel_.dims.end(), d) != kernel_.dims.end())
    r = {0, INT32_MAX};
  return r;
}

Range Emitter::RangeOf(const ExprNode& n) const {
  if (n.dtype() != DType::kI64) return kFull;
  const auto of = [&](int i) { return info(n.operand(i).get()).range; };
  switch (n.kind()) {
    case ExprKind::kConst:
      return {n.const_int(), n.const_int()};
    case ExprKind::kDim:
      return DimRange(n.dim());
    case ExprKind::kIndex:
      return {0, std::max<int64_t>(loop_hi_.at(n.index()) - 1, 0)};
    case ExprKind::kReduceVar:
      return {0, std::max<int64_t>(variable_hi_.at({n.level(), n.index()}) - 1, 0)};
    case ExprKind::kUnary:
      if (n.un_op() == UnOp::kNeg) return Bounds(-Wide(of(0).hi), -Wide(of(0).lo));
      return kFull;
    case ExprKind::kBinary:
      return BinaryRange(n.bin_op(), of(0), of(1));
    case ExprKind::kSelect:
      return {std::min(of(1).lo, of(2).lo), std::max(of(1).hi, of(2).hi)};
    case ExprKind::kCast:
      return CastRange(n.operand(0)->dtype());
    case ExprKind::kReduce:
      return IsArg(n) ? Range{0, INT64_MAX} : kFull;
    default:
      return kFull;
  }
}

bool Emitter::IsRowReduce(const ExprNode& n, const NodeInfo& described) const {
  const auto outer = size_t(kernel_.num_outer), rank = kernel_.dims.size();
  if (!kernel_.has_rows() || n.extents().size() != rank - outer) return false;
  for (size_t d = outer; d < rank; ++d) {
    if (n.extents()[d - outer] != kernel_.dims[d] || described.loops.test(d)) return false;
  }
  return described.variables.none();
}

NodeInfo Emitter::Describe(const ExprNode& n) {
  NodeInfo r;
  for (const Expr& o : n.operands()) {
    const NodeInfo& i = info(o.get());
    r.loops |= i.loops;
    r.variables |= i.variables;
    r.reads |= i.reads;
  }
  switch (n.kind()) {
    case ExprKind::kIndex:
      WEFT_ICHECK(loop_hi_.count(n.index()), "loop {} is not of the kernel", n.index());
      r.loops.set(n.index());
      loops_[n.index()] = &n;
      break;
    case ExprKind::kReduceVar:
      WEFT_CHECK(n.level() < 16 && n.index() < 16, kUnsupported,
                 "reductions nested {} deep over {} dimensions", n.level() + 1, n.index() + 1);
      r.variables.set(n.level() * 16 + n.index());
      variables_[{n.level(), n.index()}] = &n;
      break;
    case ExprKind::kLoad:
      r.reads = true;
      break;
    case ExprKind::kReduce:
      // A reduction that leaves a loop is guarded as a whole, so what it reads does not hold it
      // back.
      r.reads = false;
      for (size_t i = 0; i < n.extents().size(); ++i) r.variables.reset(n.level() * 16 + i);
      r.row_reduce = IsRowReduce(n, r);
      if (r.row_reduce) r.loops.set(kRowBit);
      break;
    default:
      break;
  }
  r.range = RangeOf(n);
  r.narrow = n.dtype() == DType::kI64 && n.kind() != ExprKind::kReduce &&
             n.kind() != ExprKind::kLoad && FitsInt32(r.range);
  return r;
}

void Emitter::Analyze(const Expr& root) {
  if (info_.count(root.get())) return;
  keep_.push_back(root);
  const std::vector<const ExprNode*> nodes = PostOrder({root});
  // Sibling reductions of one level share their variables: the widest extent counts.
  for (const ExprNode* n : nodes) {
    if (n->kind() != ExprKind::kReduce) continue;
    for (size_t i = 0; i < n->extents().size(); ++i) {
      const Range r = DimRange(n->extents()[i]);
      const int64_t hi = kernel_.small_index ? std::min<int64_t>(r.hi, INT32_MAX) : r.hi;
      int64_t& known = variable_hi_[{n->level(), int(i)}];
      const bool seen = variables_.count({n->level(), int(i)}) != 0;
      WEFT_ICHECK(!seen || hi <= known || (hi <= INT32_MAX) == (known <= INT32_MAX),
                  "reduction variable {}.{} was used with a smaller size", n->level(), i);
      known = std::max(known, hi);
    }
  }
  for (const ExprNode* n : nodes) {
    if (!info_.count(n)) info_.emplace(n, Describe(*n));
  }
}

const NodeInfo& Emitter::Info(const Expr& e) {
  Analyze(e);
  return info(e.get());
}

std::vector<KernelStore> ExpandStores(const Kernel& kernel) {
  std::vector<KernelStore> stores = kernel.stores;
  for (KernelStore& s : stores) {
    s.offset = ExpandMath(s.offset);
    s.value = ExpandMath(s.value);
  }
  return stores;
}

}  // namespace weft::ctext
