/// expr_rewrite.cc: rewriting of expressions below and across reductions, without recursion and
/// without capture.
///
/// One engine (`Transform`) walks the DAG with an explicit stack and a memo. It has three modes:
///   kRewrite       a Reduce is opened (its variables become temporaries), its body rewritten, and
///                  closed again, so that levels are recomputed and a replacement that brings
///                  reductions or variables along is never captured
///   kRename        one bound variable is replaced by another; nothing can fold or change level,
///                  so a Reduce stays closed. Opening and closing are made of this.
///   kReduceAsLeaf  the outermost Reduce nodes are handed to the callback and not looked into

#include "expr_pool.h"
#include "weft/support/check.h"

namespace weft {
namespace {

enum class Mode { kRewrite, kRename, kReduceAsLeaf };
using Leaf = std::function<Expr(const Expr&)>;

struct Frame {
  const ExprNode* node;
  size_t next = 0;     // operand to look at
  Expr opened;         // kRewrite, kReduce: the opened body
  uint32_t first = 0;  // and its first temporary
};

class Transformer {
 public:
  /// `only_indexed`: parts that depend on no index stay as they are.
  Transformer(Mode mode, const Leaf& leaf, bool only_indexed)
      : mode_(mode), leaf_(leaf), only_indexed_(only_indexed) {}

  Expr Run(const Expr& root) {
    if (Keeps(root.get())) return root;
    stack_.push_back({root.get(), 0, {}, 0});
    while (!stack_.empty()) Step();
    return *memo_.Find(root.get());
  }

 private:
  bool Keeps(const ExprNode* n) const { return only_indexed_ && n->is_invariant(); }
  Expr Result(const ExprNode* n) { return Keeps(n) ? ExprPool::FromNode(n) : *memo_.Find(n); }

  bool IsLeaf(const ExprNode& n) const {
    switch (n.kind()) {
      case ExprKind::kIndex:
      case ExprKind::kReduceVar:
        return true;
      case ExprKind::kReduce:
        return mode_ == Mode::kReduceAsLeaf;
      case ExprKind::kDim:
      case ExprKind::kVariable:
      case ExprKind::kLoad:
        return mode_ == Mode::kRewrite;
      default:
        return false;
    }
  }

  void Step() {
    Frame& f = stack_.back();
    const ExprNode& n = *f.node;
    if (n.kind() == ExprKind::kReduce && mode_ == Mode::kRewrite) {
      if (!f.opened) {
        f.first = temps_.Take(n.extents().size());
        f.opened = ExprPool::OpenReduce(ExprPool::FromNode(&n), f.first);
        // The memo holds plain pointers into opened bodies: they live as long as the memo.
        opened_.push_back(f.opened);
      }
      const ExprNode* body = f.opened.get();
      if (!Keeps(body) && !memo_.Contains(body)) {
        stack_.push_back({body, 0, {}, 0});
        return;
      }
      const Expr result = Result(body);
      Expr closed = result == f.opened
                        ? ExprPool::FromNode(&n)
                        : ExprPool::CloseReduce(n.reduce_op(), n.extents(), result, f.first);
      temps_.GiveBack(f.first);
      memo_.Set(&n, std::move(closed));
      stack_.pop_back();
      return;
    }
    if (n.kind() == ExprKind::kReduce && mode_ == Mode::kReduceAsLeaf) {
      const Expr e = ExprPool::FromNode(&n);
      Expr other = leaf_(e);
      memo_.Set(&n, other ? std::move(other) : e);
      stack_.pop_back();
      return;
    }
    for (; f.next < n.operands().size(); ++f.next) {
      const ExprNode* operand = n.operands()[f.next].get();
      if (Keeps(operand) || memo_.Contains(operand)) continue;
      ++f.next;
      stack_.push_back({operand, 0, {}, 0});
      return;
    }
    memo_.Set(&n, Rebuild(n));
    stack_.pop_back();
  }

  Expr Rebuild(const ExprNode& n) {
    Exprs operands;
    operands.reserve(n.operands().size());
    for (const Expr& o : n.operands()) operands.push_back(Result(o.get()));
    Expr e;
    if (n.kind() == ExprKind::kReduce)
      e = ExprPool::RawReduce(n.reduce_op(), n.extents(), n.level(), operands[0],
                              !n.is_invariant());
    else
      e = ExprPool::Remake(n, std::move(operands));
    if (IsLeaf(n) && IsSameKind(*e, n)) {
      if (Expr other = leaf_(e)) return other;
    }
    return e;
  }
  /// A load whose guard turned out false is a constant by now.
  static bool IsSameKind(const ExprNode& a, const ExprNode& b) { return a.kind() == b.kind(); }

  const Mode mode_;
  const Leaf& leaf_;
  const bool only_indexed_;
  ExprMap<Expr> memo_;
  Exprs opened_;
  std::vector<Frame> stack_;
  TempScope temps_;
};

Expr Transform(const Expr& e, Mode mode, const Leaf& leaf, bool only_indexed) {
  WEFT_ICHECK(bool(e), "null expression");
  return Transformer(mode, leaf, only_indexed).Run(e);
}

}  // namespace

Expr ExprPool::RawReduce(ReduceOp op, std::vector<SymInt> extents, int level, Expr body,
                         bool uses_index) {
  WEFT_CHECK(level < kTempLevel - 1 && extents.size() < kTempLevel, kLimit,
             "reductions nested more than {} deep", kTempLevel - 2);
  Spec s;
  s.kind = ExprKind::kReduce;
  s.dtype = op == ReduceOp::kArgMin || op == ReduceOp::kArgMax ? DType::kI64 : body->dtype();
  s.uses_index = uses_index;
  s.reduce_depth = uint16_t(level + 1);
  s.payload = uint64_t(level) << 16 | uint64_t(op);
  s.operands = {std::move(body)};
  s.extents = std::move(extents);
  return Intern(std::move(s));
}

Expr ExprPool::OpenReduce(const Expr& reduce, uint32_t first) {
  const int level = reduce->level();
  return Transform(
      reduce->operand(0), Mode::kRename,
      [&](const Expr& e) -> Expr {
        if (e->kind() != ExprKind::kReduceVar || e->level() != level) return {};
        return Temp(first + uint32_t(e->index()), e->index());
      },
      true);
}

Expr ExprPool::CloseReduce(ReduceOp op, const std::vector<SymInt>& extents, Expr body,
                           uint32_t first) {
  const bool positional = op == ReduceOp::kArgMin || op == ReduceOp::kArgMax;
  if (op == ReduceOp::kAny || op == ReduceOp::kAll)
    WEFT_CHECK(body->dtype() == DType::kBool, kTypeMismatch, "any / all of {}",
               DTypeName(body->dtype()));
  else if (op == ReduceOp::kSum || op == ReduceOp::kProd)
    WEFT_CHECK(body->dtype() != DType::kBool, kTypeMismatch, "sum or product of bool");
  for (SymInt e : extents) {
    WEFT_ICHECK(e.known(), "unknown dimension of a reduction");
    if (e.is(0)) return ReduceNeutral(op, positional ? DType::kI64 : body->dtype());
  }
  // Variables of extent 1 are 0. What is left keeps its order, so the position of an extremum stays
  // as it is.
  std::vector<SymInt> kept;
  std::vector<int> renamed(extents.size(), -1);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].is(1)) continue;
    renamed[i] = int(kept.size());
    kept.push_back(extents[i]);
  }
  const auto mine = [&](const Expr& e) {
    return IsTemp(*e) && TempId(*e) - first < extents.size() ? int(TempId(*e) - first) : -1;
  };
  if (kept.size() != extents.size()) {
    body = Transform(
        body, Mode::kRewrite,
        [&](const Expr& e) -> Expr {
          const int i = e->kind() == ExprKind::kReduceVar ? mine(e) : -1;
          return i >= 0 && renamed[i] < 0 ? Expr::Int(0) : Expr();
        },
        true);
    if (kept.empty()) return positional ? Expr::Int(0) : body;
  } else if (kept.empty()) {
    return positional ? Expr::Int(0) : body;
  }
  for (int level = body->reduce_depth();; ++level) {
    bool uses_index = false, captures = false;
    Expr closed = Transform(
        body, Mode::kRename,
        [&](const Expr& e) -> Expr {
          if (e->kind() == ExprKind::kReduceVar) {
            if (const int i = mine(e); i >= 0) return ReduceVar(level, renamed[i]);
            captures |= e->level() == level;
            uses_index |= e->level() > level;
          } else {
            uses_index = true;
          }
          return {};
        },
        true);
    // A variable of an outer reduction that was taken out of its body: number this one out of its
    // way.
    if (captures) continue;
    return RawReduce(op, kept, level, std::move(closed), uses_index);
  }
}

Expr ReplaceReduces(const Expr& e, const std::function<Expr(const Expr&)>& leaf) {
  if (e->reduce_depth() == 0) return e;
  return Transform(
      e, Mode::kReduceAsLeaf,
      [&](const Expr& x) { return x->kind() == ExprKind::kReduce ? leaf(x) : Expr(); }, false);
}

Expr RewriteExpr(const Expr& e, const std::function<Expr(const Expr&)>& leaf) {
  return Transform(
      e, Mode::kRewrite,
      [&](const Expr& x) { return x->kind() == ExprKind::kReduceVar ? Expr() : leaf(x); }, false);
}

Expr SubstituteIndices(const Expr& e, const Indices& at) {
  bool identity = true;
  for (size_t k = 0; k < at.size() && identity; ++k)
    identity = at[k] && at[k]->kind() == ExprKind::kIndex && at[k]->index() == int(k);
  if (identity || e->is_invariant()) return e;
  return Transform(
      e, Mode::kRewrite,
      [&](const Expr& x) -> Expr {
        if (x->kind() != ExprKind::kIndex) return {};
        WEFT_ICHECK(x->index() < int(at.size()), "index {} of an expression of rank {}", x->index(),
                    at.size());
        return at[x->index()];
      },
      true);
}

Expr ReduceBody(const Expr& reduce, const Indices& at) {
  WEFT_ICHECK(reduce->kind() == ExprKind::kReduce && at.size() == reduce->extents().size(),
              "ReduceBody takes a Reduce and one index for each of its variables");
  TempScope scope;
  const uint32_t first = scope.Take(at.size());
  const Expr open = ExprPool::OpenReduce(reduce, first);
  return Transform(
      open, Mode::kRewrite,
      [&](const Expr& e) -> Expr {
        if (!ExprPool::IsTemp(*e)) return {};
        const uint32_t i = ExprPool::TempId(*e) - first;
        return i < at.size() ? at[i] : Expr();
      },
      true);
}

int64_t CountUsual(const Exprs& roots) {
  ExprMap<char> seen;
  std::vector<const ExprNode*> stack;
  for (const Expr& r : roots) stack.push_back(r.get());
  while (!stack.empty()) {
    const ExprNode* n = stack.back();
    stack.pop_back();
    if (!seen.Set(n, 1)) continue;
    for (size_t i = 0; i < n->operands().size(); ++i)
      if (i != 1 || !IsRareChoice(*n)) stack.push_back(n->operands()[i].get());
  }
  return int64_t(seen.size());
}

std::vector<const ExprNode*> PostOrder(const Exprs& roots) {
  std::vector<const ExprNode*> order;
  ExprMap<char> seen;
  std::vector<std::pair<const ExprNode*, size_t>> stack;
  for (const Expr& root : roots) {
    if (!root || !seen.Set(root.get(), 1)) continue;
    stack.emplace_back(root.get(), 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == node->operands().size()) {
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      const ExprNode* operand = node->operands()[next++].get();
      if (seen.Set(operand, 1)) stack.emplace_back(operand, 0);
    }
  }
  return order;
}

}  // namespace weft
