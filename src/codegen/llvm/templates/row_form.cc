/// row_form.cc: the passes of a row kernel and what one step of a pass emits.
#include "row_form.h"

#include <algorithm>

namespace weft::llvmgen {
namespace {

constexpr int64_t kMaxWindow = 32;

}  // namespace

int64_t WindowElements(const Kernel& k) {
  int64_t n = 1;
  for (SymInt e : k.row_dims()) {
    if (!e.is_const() || e.value() > kMaxWindow) return -1;
    n *= e.value();
    if (n > kMaxWindow) return -1;
  }
  return n;
}

Exprs RowPass::roots() const {
  Exprs r = bodies;
  for (const KernelStore& s : stores) r.push_back(s.value);
  return r;
}

RowForm::RowForm(Emitter& e)
    : e_(e),
      k_(e.kernel()),
      first_(k_.num_outer),
      loops_(int(k_.dims.size())),
      rows_in_lanes_(k_.rows_in_lanes()),
      narrow_positions_(RowIsSmall()) {}

void RowForm::Plan() {
  Exprs roots;
  RowPass last;
  for (KernelStore& s : ExpandedStores(k_)) {
    (s.per_row ? row_stores_ : last.stores).push_back(s);
    e_.Info(e_.Keep(s.value));
    roots.push_back(s.value);
    e_.Info(e_.Keep(s.offset));
    roots.push_back(s.offset);
  }
  // Operands come before their users, so that levels can be counted in one sweep.
  ExprMap<int> level;
  const auto visit = [&](const Expr& x) {
    const ExprNode& n = *x;
    if (level.Contains(&n)) return;
    int l = 0;
    for (const Expr& o : n.operands()) l = std::max(l, *level.Find(o.get()));
    if (e_.IsRowReduce(n)) {
      if (size_t(++l) > passes_.size()) passes_.resize(size_t(l));
      passes_[size_t(l) - 1].reduces.push_back(x);
    }
    level.Set(&n, l);
  };
  std::vector<std::pair<const Expr*, size_t>> stack;
  for (const Expr& root : roots) {
    stack.emplace_back(&root, 0);
    while (!stack.empty()) {
      auto& [x, next] = stack.back();
      if (level.Contains(x->get()) || next == (*x)->operands().size()) {
        visit(*x);
        stack.pop_back();
        continue;
      }
      const Expr& o = (*x)->operand(int(next++));
      if (!level.Contains(o.get())) stack.emplace_back(&o, 0);
    }
  }
  Indices row;
  for (int i = first_; i < loops_; ++i) row.push_back(Expr::Index(i));
  for (RowPass& p : passes_) {
    for (const Expr& r : p.reduces) {
      p.bodies.push_back(ReduceBody(r, row));
      e_.Info(e_.Keep(p.bodies.back()));
    }
  }
  for (const KernelStore& s : last.stores)
    store_level_ = std::max(store_level_, *level.Find(s.value.get()));
  if (!last.stores.empty()) passes_.push_back(std::move(last));
}

bool RowForm::VariesInRow(const Expr& x) {
  for (int i = first_; i < loops_; ++i) {
    if (e_.DependsOn(x, i)) return true;
  }
  return false;
}

llvm::Value* RowForm::Result(const Accumulator& acc, llvm::Value* v) {
  if (!acc.positional() || !acc.narrow) return v;
  return e_.ir().CreateZExt(v, e_.RegisterType(DType::kI64, Emitter::LanesOf(v)));
}

bool RowForm::RowIsSmall() const {
  int64_t n = 1;
  for (int i = first_; i < loops_; ++i) {
    const SymInt d = k_.dims[size_t(i)];
    // Of a single loop alone the promise of `small_index` says enough.
    if (!d.is_const()) return k_.small_index && loops_ - first_ == 1;
    if (d.value() > INT32_MAX / std::max<int64_t>(n, 1)) return false;
    n *= d.value();
  }
  return true;
}

bool RowForm::MayBeEmpty(int loop) const {
  const SymInt d = k_.dims[size_t(loop)];
  return !d.is_const() || d.value() < 1;
}

bool RowForm::RowMayBeEmpty() const {
  for (int i = first_; i < loops_; ++i) {
    if (MayBeEmpty(i)) return true;
  }
  return false;
}

int64_t RowForm::InnerExtent() const {
  const SymInt d = k_.dims.back();
  return d.is_const() ? d.value() : -1;
}

llvm::Value* RowForm::Position() {
  llvm::Value* at = e_.Int(0);
  for (int i = first_; i < loops_; ++i) {
    const Lanes* l = e_.lanes();
    llvm::Value* index = l && l->loop == i ? l->base : e_.Get(e_.Keep(Expr::Index(i)));
    at = i == first_ ? index
                     : e_.ir().CreateAdd(e_.ir().CreateMul(at, e_.Dim(k_.dims[size_t(i)])), index);
  }
  return at;
}

Values RowForm::Step(const RowPass& p, const Values& carried) {
  const Lanes* l = e_.lanes();
  Values out;
  size_t at = 0;
  for (size_t i = 0; i < p.reduces.size(); ++i) {
    const Accumulator acc = AccumulatorFor(p.reduces[i]);
    llvm::Value* position = nullptr;
    if (acc.positional()) {
      position = Position();
      if (acc.narrow) position = e_.ir().CreateTrunc(position, e_.ir().getInt32Ty());
      if (!rows_in_lanes_ && l->count > 1)
        position =
            e_.ir().CreateAdd(e_.Splat(position, l->count), e_.Iota(l->count, acc.position()));
    }
    const Values v(carried.begin() + long(at), carried.begin() + long(at) + acc.size());
    at += size_t(acc.size());
    llvm::Value* mask = rows_in_lanes_ ? nullptr : l->mask;
    for (llvm::Value* r : e_.Accumulate(acc, v, e_.GetLanes(p.bodies[i], l->count), position, mask))
      out.push_back(r);
  }
  return out;
}

Values RowForm::Init(const RowPass& p, int lanes) {
  Values v;
  for (const Expr& r : p.reduces) {
    for (llvm::Value* x : e_.InitAccumulator(AccumulatorFor(r), lanes)) v.push_back(x);
  }
  return v;
}

Values RowForm::FoldBoth(const RowPass& p, const Widths& w, const Values& both) {
  const size_t half = both.size() / 2;
  Values out;
  size_t at = 0;
  for (const Expr& r : p.reduces) {
    const Accumulator acc = AccumulatorFor(r);
    const auto part = [&](size_t from) {
      return Values(both.begin() + long(from), both.begin() + long(from) + acc.size());
    };
    // What was never touched is left out: -0 would not survive a sum with the neutral 0. A constant
    // alone does not tell: bodies that read nothing fold.
    const Values main = part(at), tail = part(half + at);
    const bool has_main = main[0] != e_.InitAccumulator(acc, w.main)[0],
               has_tail = tail[0] != e_.InitAccumulator(acc, w.tail)[0];
    Values v;
    if (has_main && has_tail) {
      const int to = std::min(w.main, w.tail);
      v = e_.Merge(acc, e_.Fold(acc, main, to), e_.Fold(acc, tail, to));
    } else {
      v = has_main ? main : tail;
    }
    for (llvm::Value* x : e_.Fold(acc, v, 1)) out.push_back(x);
    at += size_t(acc.size());
  }
  return out;
}

}  // namespace weft::llvmgen
