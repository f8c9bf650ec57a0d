/// loop_pieces.cc: where the index of a loop is compared with numbers, the loop falls into pieces
/// in each of which every such comparison is known. A concatenation reads one input in each,
/// instead of asking every input for every element.
///
///   before  for j < 96: y[j] = j < 64 ? (j < 32 ? a[j] : b[j - 32]) : c[j - 64]
///   after   for j < 32: y[j] = a[j]   for 32 <= j < 64: y[j] = b[j - 32]
///           for 64 <= j < 96: y[j] = c[j - 64]
///
/// An image that is continued beyond its border is walked through one way in each piece.
#include <algorithm>

#include "templates.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

/// Code is written once a piece: at most so many pieces, and operations in all of them together.
constexpr size_t kMaxPieces = 64;
constexpr double kMaxPiecesWeight = 4096;
/// Where the loop goes along the lanes a piece costs a vector, however short it is.
constexpr int64_t kMinMeanPiece = 8;
/// Pieces of which that is nothing beside the masks of the undivided loop: compares of eight places
/// at a time, whatever the elements.
constexpr int64_t kMinUnmaskedPiece = 256;
/// Numbers in index arithmetic that are looked at; products of them stay far from overflow.
constexpr int64_t kMaxNumber = int64_t{1} << 30;

/// factor * index + constant.
struct Line {
  int64_t factor = 0, constant = 0;
};
std::optional<Line> LineOf(const Expr& e, int loop) {
  Line sum;
  int steps = 0;
  std::vector<std::pair<Expr, int64_t>> rest{{e, 1}};
  while (!rest.empty()) {
    const auto [x, times] = std::move(rest.back());
    rest.pop_back();
    if (++steps > 16) return std::nullopt;
    if (x->kind() == ExprKind::kConst) {
      if (std::abs(x->const_int()) > kMaxNumber) return std::nullopt;
      sum.constant += times * x->const_int();
    } else if (x->kind() == ExprKind::kIndex && x->index() == loop) {
      sum.factor += times;
    } else if (x->kind() == ExprKind::kBinary && x->bin_op() == BinOp::kAdd) {
      rest.emplace_back(x->operand(1), times);
      rest.emplace_back(x->operand(0), times);
    } else if (x->kind() == ExprKind::kBinary && x->bin_op() == BinOp::kSub) {
      rest.emplace_back(x->operand(1), -times);
      rest.emplace_back(x->operand(0), times);
    } else if (x->kind() == ExprKind::kBinary && x->bin_op() == BinOp::kMul &&
               (x->operand(0)->is_const(-1) || x->operand(1)->is_const(-1))) {
      rest.emplace_back(x->operand(x->operand(0)->is_const(-1) ? 1 : 0), -times);
    } else {
      return std::nullopt;
    }
    if (std::abs(sum.constant) > kMaxNumber) return std::nullopt;
  }
  return sum;
}

/// Left side minus right side of a comparison of integers in which nothing but Index(loop) varies.
std::optional<Line> ComparedLine(const ExprNode& n, int loop) {
  if (n.kind() != ExprKind::kBinary || n.dtype() != DType::kBool) return std::nullopt;
  const BinOp op = n.bin_op();
  if (op != BinOp::kLt && op != BinOp::kLe && op != BinOp::kGt && op != BinOp::kGe)
    return std::nullopt;
  if (n.operand(0)->dtype() != DType::kI64) return std::nullopt;
  const auto a = LineOf(n.operand(0), loop), b = LineOf(n.operand(1), loop);
  if (!a || !b) return std::nullopt;
  const Line d{a->factor - b->factor, a->constant - b->constant};
  if (d.factor != 1 && d.factor != -1) return std::nullopt;
  return d;
}

bool Holds(BinOp op, int64_t difference) {
  switch (op) {
    case BinOp::kLt:
      return difference < 0;
    case BinOp::kLe:
      return difference <= 0;
    case BinOp::kGt:
      return difference > 0;
    default:
      return difference >= 0;
  }
}

size_t Loads(const std::vector<KernelStore>& stores) {
  Exprs roots;
  for (const KernelStore& s : stores) roots.push_back(s.value);
  const std::vector<const ExprNode*> nodes = PostOrder(roots);
  return size_t(std::count_if(nodes.begin(), nodes.end(),
                              [](const ExprNode* n) { return n->kind() == ExprKind::kLoad; }));
}

/// Loads along `loop` whose place is not a multiple of its index and a number; with `masked`, also
/// those that some points of it leave out.
size_t Irregular(const std::vector<KernelStore>& stores, int loop, bool masked) {
  Exprs roots;
  for (const KernelStore& s : stores) roots.push_back(s.value);
  const auto varies = [&](const Expr& guard) {
    const std::vector<const ExprNode*> parts = PostOrder({guard});
    return std::any_of(parts.begin(), parts.end(), [&](const ExprNode* n) {
      return n->kind() == ExprKind::kIndex && n->index() == loop;
    });
  };
  const std::vector<const ExprNode*> nodes = PostOrder(roots);
  return size_t(std::count_if(nodes.begin(), nodes.end(), [&](const ExprNode* n) {
    return n->kind() == ExprKind::kLoad && (!AffineCoefficient(n->operand(0), loop) ||
                                            (masked && n->has_guard() && varies(n->operand(1))));
  }));
}

/// n with other operands, folded again.
Expr Remade(const ExprNode& n, const Exprs& o) {
  switch (n.kind()) {
    case ExprKind::kLoad:
      return Expr::Load(n.buffer(), n.dtype(), {o[0]}, n.has_guard() ? o[1] : Expr());
    case ExprKind::kUnary:
      return Expr::Unary(n.un_op(), o[0]);
    case ExprKind::kBinary:
      return Expr::Binary(n.bin_op(), o[0], o[1]);
    case ExprKind::kSelect:
      return Expr::Select(o[0], o[1], o[2]);
    case ExprKind::kCast:
      return Expr::Cast(n.dtype(), o[0]);
    case ExprKind::kBitcast:
      return Expr::Bitcast(n.dtype(), o[0]);
    case ExprKind::kFma:
      return Expr::Fma(o[0], o[1], o[2]);
    case ExprKind::kPhilox:
      return Expr::Philox(o[0], o[1]);
    default:
      WEFT_ICHECK(false, "expression kind {} in a piece of a loop", int(n.kind()));
  }
}

/// Rewrites expressions for where the index of a loop is `at`, as far as comparisons go.
class Decider {
 public:
  Decider(int loop, int64_t at) : loop_(loop), at_(at) {}
  Expr Run(const Expr& root) {
    std::vector<const Expr*> stack{&root};
    while (!stack.empty()) {
      const Expr& x = *stack.back();
      const size_t before = stack.size();
      if (!made_.Contains(x.get())) {
        const auto line = ComparedLine(*x, loop_);
        if (line) {
          made_.Set(x.get(), Expr::Bool(Holds(x->bin_op(), line->factor * at_ + line->constant)));
        } else {
          for (const Expr& o : x->operands())
            if (!made_.Contains(o.get())) stack.push_back(&o);
          if (stack.size() != before) continue;
          made_.Set(x.get(), Rebuilt(x));
        }
      }
      stack.pop_back();
    }
    return *made_.Find(root.get());
  }

 private:
  Expr Rebuilt(const Expr& x) {
    bool changed = false;
    Exprs operands;
    for (const Expr& o : x->operands()) {
      operands.push_back(*made_.Find(o.get()));
      changed |= operands.back() != o;
    }
    return changed ? Remade(*x, operands) : x;
  }
  const int loop_;
  const int64_t at_;
  ExprMap<Expr> made_;
};

std::vector<KernelStore> Decided(const std::vector<KernelStore>& stores, int loop, int64_t at) {
  Decider decider(loop, at);
  std::vector<KernelStore> out = stores;
  for (KernelStore& s : out) s.value = decider.Run(s.value);
  return out;
}

}  // namespace

std::vector<LoopPiece> CutLoop(Emitter& e, const std::vector<KernelStore>& stores, int loop) {
  const SymInt extent = e.kernel().dims[size_t(loop)];
  if (!extent.is_const()) return {};
  Exprs roots;
  for (const KernelStore& s : stores) {
    if (s.flag) return {};
    roots.push_back(s.value);
  }
  const std::vector<const ExprNode*> nodes = PostOrder(roots);
  std::vector<int64_t> cuts{0, extent.value()};
  for (const ExprNode* n : nodes) {
    if (n->kind() == ExprKind::kReduce) return {};
    const auto line = ComparedLine(*n, loop);
    if (!line) continue;
    // The comparison changes where the difference goes through 0, before it or behind it.
    const int64_t zero = -line->constant * line->factor;
    const bool strict = n->bin_op() == BinOp::kLt || n->bin_op() == BinOp::kGe;
    const int64_t cut = strict == (line->factor > 0) ? zero : zero + 1;
    if (cut > 0 && cut < extent.value()) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const size_t count = cuts.size() - 1;
  const bool in_lanes = loop + 1 == int(e.kernel().dims.size());
  if (count < 2 || count > kMaxPieces ||
      (in_lanes && extent.value() < int64_t(count) * kMinMeanPiece))
    return {};
  std::vector<LoopPiece> pieces;
  size_t most = 0, most_irregular = 0;
  const bool masked = in_lanes && extent.value() >= int64_t(count) * kMinUnmaskedPiece;
  double weight = 0;
  for (size_t i = 0; i < count; ++i) {
    pieces.push_back({cuts[i], cuts[i + 1], Decided(stores, loop, cuts[i])});
    most = std::max(most, Loads(pieces.back().stores));
    most_irregular = std::max(most_irregular, Irregular(pieces.back().stores, loop, masked));
    for (const KernelStore& s : pieces.back().stores) weight += e.Info(e.Keep(s.value)).weight;
  }
  const bool saves = most < Loads(stores) || most_irregular < Irregular(stores, loop, masked);
  if (!saves || weight > kMaxPiecesWeight) return {};
  return pieces;
}

}  // namespace weft::llvmgen
