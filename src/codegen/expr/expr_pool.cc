/// expr_pool.cc: the table of interned expression nodes, reference counts and node accessors.
#include "expr_pool.h"

#include <algorithm>
#include <mutex>

#include "scalar.h"
#include "weft/support/check.h"

namespace weft {
namespace {

const ExprNode* Tombstone() { return reinterpret_cast<const ExprNode*>(uintptr_t{1}); }

/// One shard: an open-addressing set of weak pointers.
struct alignas(64) Shard {
  std::mutex mutex;
  std::vector<const ExprNode*> slots = std::vector<const ExprNode*>(64);
  size_t used = 0;  // live and tombstones
  size_t live = 0;

  /// For one more; all that may throw of an insertion.
  void MakeRoom() {
    if ((used + 1) * 2 > slots.size()) Rehash();
  }
  void Insert(const ExprNode* node) {
    size_t i = node->hash().hi & (slots.size() - 1);
    while (slots[i] && slots[i] != Tombstone()) i = (i + 1) & (slots.size() - 1);
    if (!slots[i]) ++used;
    slots[i] = node;
    ++live;
  }
  void Erase(const ExprNode* node) {
    size_t i = node->hash().hi & (slots.size() - 1);
    while (slots[i] != node) i = (i + 1) & (slots.size() - 1);
    slots[i] = Tombstone();
    --live;
  }
  void Rehash() {
    size_t size = 64;
    while (size < (live + 1) * 4) size *= 2;
    std::vector<const ExprNode*> old(size);
    old.swap(slots);
    used = live = 0;
    for (const ExprNode* n : old) {
      if (n && n != Tombstone()) Insert(n);
    }
  }
};

constexpr int kShards = 64;

/// Never destroyed: handles in static objects may outlive any destructor order.
Shard* Shards() {
  static Shard* const shards = new Shard[kShards];
  return shards;
}
Shard& ShardOf(const Hash128& h) { return Shards()[h.lo % kShards]; }

}  // namespace

Expr::Expr(const Expr& o) : node_(o.node_) {
  if (node_) node_->refs_.fetch_add(1, std::memory_order_relaxed);
}

Expr::~Expr() {
  if (node_ && node_->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) ExprPool::Release(node_);
}

Expr::Expr(ExprMaker* maker) {
  if (!maker) return;
  *this = maker->expr;
  delete maker;
}

/// Frees a node whose count fell to zero, and the operands that die with it, without recursion and
/// without memory, since destructors call it: a dying node is linked through its payload, which
/// nothing reads once the node is out of the table.
void ExprPool::Release(const ExprNode* node) {
  ExprNode* dying = nullptr;
  const auto bury = [&](const ExprNode* dead) {
    auto* n = const_cast<ExprNode*>(dead);
    {
      Shard& shard = ShardOf(n->hash_);
      std::lock_guard lock(shard.mutex);
      shard.Erase(n);
    }
    n->payload_ = reinterpret_cast<uintptr_t>(dying);
    dying = n;
  };
  bury(node);
  while (dying) {
    ExprNode* n = dying;
    dying = reinterpret_cast<ExprNode*>(uintptr_t(n->payload_));
    for (Expr& e : n->operands_) {
      const ExprNode* operand = std::exchange(e.node_, nullptr);
      if (operand && operand->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) bury(operand);
    }
    delete n;
  }
}

Expr ExprPool::FromNode(const ExprNode* node) {
  node->refs_.fetch_add(1, std::memory_order_relaxed);
  return Expr(node);
}

int64_t ExprPool::LiveNodes() {
  int64_t count = 0;
  for (int i = 0; i < kShards; ++i) {
    std::lock_guard lock(Shards()[i].mutex);
    count += int64_t(Shards()[i].live);
  }
  return count;
}

Expr ExprPool::Intern(Spec s) {
  if (s.kind != ExprKind::kReduce) {
    s.uses_index = s.kind == ExprKind::kIndex || s.kind == ExprKind::kReduceVar;
    for (const Expr& e : s.operands) {
      s.uses_index |= e->uses_index_;
      s.reduce_depth = std::max(s.reduce_depth, e->reduce_depth_);
    }
  }
  Hasher hasher;
  hasher.Add(int(s.kind)).Add(int(s.dtype)).Add(int(s.guard) | int(s.literal) << 1).Add(s.payload);
  if (s.dim.known()) hasher.Add(s.dim.hash());
  if (!s.name.empty()) hasher.Add(s.name);
  for (const Expr& e : s.operands) hasher.Add(e->hash_);
  for (SymInt e : s.extents) hasher.Add(e.hash());
  const Hash128 hash = hasher.Finish();

  Shard& shard = ShardOf(hash);
  std::lock_guard lock(shard.mutex);
  for (size_t i = hash.hi & (shard.slots.size() - 1); shard.slots[i];
       i = (i + 1) & (shard.slots.size() - 1)) {
    const ExprNode* n = shard.slots[i];
    if (n == Tombstone() || n->hash_ != hash) continue;
    if (n->kind_ != s.kind || n->dtype_ != s.dtype || n->guard_ != s.guard ||
        n->literal_ != s.literal || n->payload_ != s.payload || !n->dim_.same(s.dim) ||
        n->name_ != s.name || n->operands_ != s.operands || n->extents_ != s.extents)
      continue;
    // A count of zero belongs to a thread that is about to erase the node: it must not come back to
    // life.
    uint32_t refs = n->refs_.load(std::memory_order_relaxed);
    while (refs != 0 &&
           !n->refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) {
    }
    if (refs != 0) return Expr(n);
  }
  shard.MakeRoom();
  auto* n = new ExprNode;
  n->kind_ = s.kind;
  n->dtype_ = s.dtype;
  n->guard_ = s.guard;
  n->literal_ = s.literal;
  n->uses_index_ = s.uses_index;
  n->reduce_depth_ = s.reduce_depth;
  n->payload_ = s.payload;
  n->dim_ = s.dim;
  n->hash_ = hash;
  n->name_ = std::move(s.name);
  n->operands_ = std::move(s.operands);
  n->extents_ = std::move(s.extents);
  shard.Insert(n);
  return Expr(n);
}

Expr ExprPool::ReduceVar(int level, int index) {
  Spec s;
  s.kind = ExprKind::kReduceVar;
  s.dtype = DType::kI64;
  s.payload = uint64_t(level) << 16 | uint64_t(index);
  return Intern(std::move(s));
}

Expr ExprPool::Temp(uint32_t id, int index) {
  Spec s;
  s.kind = ExprKind::kReduceVar;
  s.dtype = DType::kI64;
  s.payload = uint64_t{id} << 32 | uint64_t(kTempLevel) << 16 | uint64_t(index);
  return Intern(std::move(s));
}

double ExprNode::const_value() const {
  WEFT_ICHECK(kind_ == ExprKind::kConst, "not a constant");
  return literal_ ? scalar::BitCast<double>(payload_) : scalar::BitsToDouble(dtype_, payload_);
}

int64_t ExprNode::const_int() const {
  WEFT_ICHECK(kind_ == ExprKind::kConst, "not a constant");
  if (!literal_ && !IsFloat(dtype_)) return scalar::Normalize(dtype_, int64_t(payload_));
  return scalar::DoubleToInt(DType::kI64, const_value());
}

}  // namespace weft
