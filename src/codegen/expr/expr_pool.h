/// expr_pool.h: interning of expression nodes; private to src/codegen.
///
/// Every node goes through `ExprPool::Intern`: a process-wide table of weak pointers, split into
/// shards. A node dies with its last handle and takes itself out of the table; a lookup that meets
/// a dying node makes a new one.
///
/// Bound variables. Inside a maker a Reduce is *open*: its variables are temporaries, `kReduceVar`
/// nodes of level kTempLevel with a number above those of all enclosing open reductions of the
/// thread (`TempScope`). Closing renames them to ReduceVar(level, i), level = 1 + the largest level
/// inside, which makes alpha-equivalent reductions the same node. All re-makers open before they
/// look below a Reduce.
#pragma once

#include <utility>
#include <vector>

#include "weft/codegen/expr/expr.h"

namespace weft {

/// Select(unlikely c, a, b): `a` is computed in a branch of its own. Whatever it
/// reads, `b` reads, too.
inline bool IsRareChoice(const ExprNode& n) {
  return n.kind() == ExprKind::kSelect && n.operand(0)->kind() == ExprKind::kUnary &&
         n.operand(0)->un_op() == UnOp::kUnlikely;
}
/// Nodes of the expressions without those that rare choices alone compute: what
/// work is estimated by.
WEFT_API int64_t CountUsual(const Exprs& roots);

/// Level of the bound variables of reductions that are being built.
inline constexpr int kTempLevel = 0xffff;

struct ExprPool {
  struct Spec {
    ExprKind kind{};
    DType dtype = DType::kUnknown;
    bool guard = false, literal = false, uses_index = false;
    uint16_t reduce_depth = 0;
    uint64_t payload = 0;
    SymInt dim;
    std::string name;
    Exprs operands;
    std::vector<SymInt> extents;
  };
  /// The one node of that structure. Fills uses_index and reduce_depth from the operands except for
  /// kReduce.
  static Expr Intern(Spec spec);
  static Expr FromNode(const ExprNode* node);
  static void Release(const ExprNode* node);
  /// Number of live nodes; for tests.
  static int64_t LiveNodes();

  static Expr ReduceVar(int level, int index);
  static Expr Temp(uint32_t id, int index);
  static bool IsTemp(const ExprNode& n) {
    return n.kind_ == ExprKind::kReduceVar && n.level() == kTempLevel;
  }
  static uint32_t TempId(const ExprNode& n) { return uint32_t(n.payload_ >> 32); }

  /// Remakes `n` with other operands through the public makers (folding again). Not for kReduce.
  static Expr Remake(const ExprNode& n, Exprs operands);
  /// A Reduce with a body that is closed already, as it is.
  static Expr RawReduce(ReduceOp op, std::vector<SymInt> extents, int level, Expr body,
                        bool uses_index);
  /// Closes an open body whose temporaries are first .. first + extents - 1.
  static Expr CloseReduce(ReduceOp op, const std::vector<SymInt>& extents, Expr body,
                          uint32_t first);
  /// The body with temporaries first .. for its variables.
  static Expr OpenReduce(const Expr& reduce, uint32_t first);
};

/// Numbers of temporaries, handed out like a stack per thread.
class TempScope {
 public:
  TempScope() : saved_(next_) {}
  ~TempScope() { next_ = saved_; }
  TempScope(const TempScope&) = delete;
  TempScope& operator=(const TempScope&) = delete;
  /// First of n fresh numbers.
  uint32_t Take(size_t n) {
    const uint32_t first = next_;
    next_ += uint32_t(n);
    return first;
  }
  void GiveBack(uint32_t first) { next_ = first; }

 private:
  static inline thread_local uint32_t next_ = 0;
  uint32_t saved_;
};

/// Open-addressing map from node pointers; much faster than the standard one on the small maps of
/// one rewrite.
template <class T>
class ExprMap {
 public:
  /// Null when absent. Invalidated by Set.
  T* Find(const ExprNode* key) {
    if (slots_.empty()) return nullptr;
    for (size_t i = Start(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].first == key) return &slots_[i].second;
      if (!slots_[i].first) return nullptr;
    }
  }
  bool Contains(const ExprNode* key) { return Find(key) != nullptr; }
  /// Returns false where the key was there (and keeps the old value).
  bool Set(const ExprNode* key, T value) {
    if ((count_ + 1) * 2 > slots_.size()) Grow();
    size_t i = Start(key);
    for (; slots_[i].first; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].first == key) return false;
    }
    slots_[i] = {key, std::move(value)};
    ++count_;
    return true;
  }
  size_t size() const { return count_; }

 private:
  size_t Start(const ExprNode* key) const { return key->hash().lo & (slots_.size() - 1); }
  void Grow() {
    std::vector<std::pair<const ExprNode*, T>> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    count_ = 0;
    for (auto& [key, value] : old) {
      if (key) Set(key, std::move(value));
    }
  }
  std::vector<std::pair<const ExprNode*, T>> slots_;
  size_t count_ = 0;
};

/// Asks `leaf` about the outermost Reduce nodes of e; null keeps one.
Expr ReplaceReduces(const Expr& e, const std::function<Expr(const Expr&)>& leaf);

// Folding (expr_fold.cc): the value of an operation on constants, or null where it does not fold.
Expr FoldUnary(UnOp op, const Expr& a);
Expr FoldBinary(BinOp op, const Expr& a, const Expr& b);
/// Identities of a binary operation on operands of one type; null where none applies.
Expr SimplifyBinary(BinOp op, const Expr& a, const Expr& b);
Expr FoldCast(DType t, const Expr& a);
Expr FoldCall(CallOp op, const Exprs& args);
/// Neutral element of a reduction, as a value of `t` (0 for ArgMin / ArgMax, whose empty result is
/// not defined).
Expr ReduceNeutral(ReduceOp op, DType t);

}  // namespace weft
