/// row.cc: the template of kernels that reduce rows and use the results along them (soft-max,
/// normalisation).
///
/// The reductions of a kernel are put into levels: a reduction that uses another one comes a level
/// later. Each level is one pass over the row that computes all its reductions, a last pass writes
/// the outputs; rows are short enough to stay in cache between passes. All stores wait for the last
/// pass, because an output may lie on an input. What a later pass would compute again at length
/// (the exponentials of soft-max) is kept in scratch by the first pass that needs it.
///
/// Either a row runs in vector lanes (`vector_loop` the last row loop): wide accumulators, folded
/// at the end. Or the lanes are rows (`vector_loop` the last outer loop): each lane has its own
/// accumulator, and the row loops are scalar.
#include <algorithm>

#include "codegen/llvm/templates.h"
#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

/// Operations from which a value is kept in scratch rather than computed again: a store and a load
/// cost about four.
constexpr double kMinKeptWeight = 10;
/// Scratch that one value may take: it must stay in the second-level cache beside the row itself.
constexpr int64_t kMaxKeptBytes = int64_t{1} << 20, kMaxKeptTileBytes = int64_t{256} << 10;
/// Lanes that a scratch tile is made for; the most that ChooseWidths gives.
constexpr int kTileLanes = 64;
/// Rows of so few elements (pooling windows) do not fill a vector: then the lanes are rows,
/// whatever the kernel says, and a window is written out.
constexpr int64_t kMaxWindow = 32, kMaxWindowWidth = 8, kMaxUnrolledWindow = 16;

/// Elements of a row where constant, else -1.
int64_t RowElements(const Kernel& k) {
  int64_t n = 1;
  for (size_t i = size_t(k.num_outer); i < k.dims.size(); ++i) {
    if (!k.dims[i].is_const() || k.dims[i].value() > kMaxWindow) return -1;
    n *= k.dims[i].value();
    if (n > kMaxWindow) return -1;
  }
  return n;
}

struct Kept {
  Expr value;
  SymInt start;  ///< offset in the scratch, bytes
};

/// One walk over the row.
struct Pass {
  Exprs reduces;  ///< computed here
  Exprs bodies;   ///< of `reduces`, over the kernel's loops
  std::vector<KernelStore> stores;
  std::vector<int> saves, loads;  ///< into kept values
  Exprs roots() const {
    Exprs r = bodies;
    for (const KernelStore& s : stores) r.push_back(s.value);
    return r;
  }
};

class RowEmitter {
 public:
  explicit RowEmitter(Emitter& e)
      : e_(e),
        k_(e.kernel()),
        first_(k_.num_outer),
        loops_(int(k_.dims.size())),
        rows_in_lanes_(k_.vector_loop < k_.num_outer),
        narrow_positions_(RowIsSmall()) {}

  SymInt Run() {
    Plan();
    PlanKept();
    e_.Begin();
    if (rows_in_lanes_)
      EmitRowsInLanes();
    else
      EmitRowInLanes();
    if (fence_) e_.EmitFence();
    return scratch_;
  }

 private:
  // ---- plan ----

  void Plan() {
    Exprs roots;
    for (KernelStore& s : ExpandedStores(k_)) {
      (s.per_row ? row_stores_ : last_.stores).push_back(s);
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
    for (Pass& p : passes_) {
      for (const Expr& r : p.reduces) {
        p.bodies.push_back(ReduceBody(r, row));
        e_.Info(e_.Keep(p.bodies.back()));
      }
    }
    if (!last_.stores.empty()) passes_.push_back(std::move(last_));
  }

  bool VariesInRow(const Expr& x) {
    for (int i = first_; i < loops_; ++i) {
      if (e_.DependsOn(x, i)) return true;
    }
    return false;
  }

  /// Calls f(node, user) for all parts of `roots` that change along the row; user is null for a
  /// root.
  void Walk(const Exprs& roots, const std::function<void(const Expr&, const Expr*)>& f) {
    ExprMap<char> seen;
    std::vector<const Expr*> stack;
    const auto push = [&](const Expr& x, const Expr* user) {
      if (!VariesInRow(x)) return;
      f(x, user);
      if (seen.Set(x.get(), 1)) stack.push_back(&x);
    };
    for (const Expr& r : roots) push(r, nullptr);
    while (!stack.empty()) {
      const Expr& x = *stack.back();
      stack.pop_back();
      for (size_t i = 0; i < x->operands().size(); ++i) {
        if (x->kind() == ExprKind::kReduce || (x->kind() == ExprKind::kLoad && i == 0)) continue;
        push(x->operand(int(i)), &x);
      }
    }
  }

  void PlanKept() {
    SymInt elements = rows_in_lanes_ ? kTileLanes : 1;
    for (int i = first_; i < loops_; ++i) elements = elements * k_.dims[size_t(i)];
    const int64_t limit = rows_in_lanes_ ? kMaxKeptTileBytes : kMaxKeptBytes;
    if (rows_in_lanes_ && !elements.is_const()) return;

    ExprMap<int> first_pass;  // in which a value is computed
    ExprMap<int> kept;
    for (size_t p = 0; p < passes_.size(); ++p) {
      const Exprs roots = passes_[p].roots();
      // Values that an earlier pass has and this one asks for from outside of such values.
      Exprs wanted;
      Walk(roots, [&](const Expr& x, const Expr* user) {
        const int* mine = first_pass.Find(x.get());
        if (!mine || *mine == int(p)) return;
        if (user) {
          const int* theirs = first_pass.Find(user->get());
          if (theirs && *theirs != int(p)) return;
        }
        wanted.push_back(x);
      });
      for (const Expr& x : wanted) {
        const int bytes = x->dtype() == DType::kBool ? 0
                          : x->dtype() == DType::kF16 || x->dtype() == DType::kBF16
                              ? 4
                              : Emitter::Bytes(x->dtype());
        const SymInt size = elements * bytes;
        if (bytes == 0 || e_.Info(x).weight < kMinKeptWeight ||
            (size.is_const() && size.value() > limit))
          continue;
        if (!kept.Contains(x.get())) {
          const int id = int(kept_.size());
          kept.Set(x.get(), id);
          kept_.push_back({x, scratch_});
          scratch_ = scratch_ + FloorDiv(size + 63, 64) * 64;
          passes_[size_t(*first_pass.Find(x.get()))].saves.push_back(id);
        }
        const int id = *kept.Find(x.get());
        auto& loads = passes_[p].loads;
        if (std::find(loads.begin(), loads.end(), id) == loads.end()) loads.push_back(id);
      }
      Walk(roots, [&](const Expr& x, const Expr*) { first_pass.Set(x.get(), int(p)); });
    }
  }

  // ---- parts of both forms ----

  Accumulator AccumulatorFor(const Expr& reduce) const {
    return {reduce->reduce_op(), reduce->operand(0)->dtype(), narrow_positions_};
  }

  /// What the expression is: positions are 64 bits wide outside of accumulators.
  llvm::Value* Result(const Accumulator& acc, llvm::Value* v) {
    if (!acc.positional() || !acc.narrow) return v;
    return e_.ir().CreateZExt(v, e_.RegisterType(DType::kI64, Emitter::LanesOf(v)));
  }

  /// No position in a row leaves 32 bits.
  bool RowIsSmall() const {
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

  bool MayBeEmpty(int loop) const {
    const SymInt d = k_.dims[size_t(loop)];
    return !d.is_const() || d.value() < 1;
  }

  bool RowMayBeEmpty() const {
    for (int i = first_; i < loops_; ++i) {
      if (MayBeEmpty(i)) return true;
    }
    return false;
  }

  /// Linear position in the row, of lane 0.
  llvm::Value* Position() {
    llvm::Value* at = e_.Int(0);
    for (int i = first_; i < loops_; ++i) {
      const Lanes* l = e_.lanes();
      llvm::Value* index = l && l->loop == i ? l->base : e_.Get(e_.Keep(Expr::Index(i)));
      at = i == first_
               ? index
               : e_.ir().CreateAdd(e_.ir().CreateMul(at, e_.Dim(k_.dims[size_t(i)])), index);
    }
    return at;
  }

  llvm::Value* ScratchIndex() {
    llvm::Value* at = Position();
    return rows_in_lanes_ ? e_.ir().CreateMul(at, e_.Int(kTileLanes)) : at;
  }

  void LoadKept(const Pass& p) {
    for (int id : p.loads) {
      const Kept& k = kept_[size_t(id)];
      e_.Preset(k.value, e_.LoadScratch(k.value->dtype(), e_.Dim(k.start), ScratchIndex()));
    }
  }

  void SaveKept(const Pass& p) {
    for (int id : p.saves) {
      const Kept& k = kept_[size_t(id)];
      llvm::Value* v = e_.Get(k.value);
      e_.StoreScratch(e_.Dim(k.start), ScratchIndex(), v);
    }
  }

  /// One step of all reductions of a pass.
  Values Step(const Pass& p, const Values& carried) {
    const Lanes* l = e_.lanes();
    LoadKept(p);
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
      for (llvm::Value* r :
           e_.Accumulate(acc, v, e_.GetLanes(p.bodies[i], l->count), position, mask))
        out.push_back(r);
    }
    SaveKept(p);
    return out;
  }

  Values Init(const Pass& p, int lanes) {
    Values v;
    for (const Expr& r : p.reduces) {
      for (llvm::Value* x : e_.InitAccumulator(AccumulatorFor(r), lanes)) v.push_back(x);
    }
    return v;
  }

  /// Scalar loops first_ .. last - 1 around `body`.
  Values Nest(int loop, int last, const Values& init,
              const std::function<Values(const Values&)>& body) {
    if (loop == last) return body(init);
    if (unroll_) {
      Values v = init;
      for (int64_t i = 0; i < k_.dims[size_t(loop)].value(); ++i)
        v = e_.Unrolled(Emitter::IndexBit(loop), e_.Int(i),
                        [&] { return Nest(loop + 1, last, v, body); });
      return v;
    }
    LoopSpec spec;
    spec.lo = e_.Int(0);
    spec.hi = e_.Dim(k_.dims[size_t(loop)]);
    spec.bit = Emitter::IndexBit(loop);
    spec.maybe_empty = MayBeEmpty(loop);
    spec.barrier = RowMayBeEmpty();
    return e_.Loop(spec, init, [&](llvm::Value*, const Values& carried) {
      return Nest(loop + 1, last, carried, body);
    });
  }

  // ---- a row in lanes ----

  void EmitRowInLanes() {
    ForRows(e_, k_.num_outer, e_.begin(), e_.end(), [&](llvm::Value*) {
      for (const Pass& p : passes_) {
        if (p.reduces.empty())
          StorePass(p);
        else
          ReducePass(p);
      }
      EmitStores(e_, row_stores_, false);
    });
  }

  int64_t InnerExtent() const {
    const SymInt d = k_.dims.back();
    return d.is_const() ? d.value() : -1;
  }

  void StorePass(const Pass& p) {
    Nest(first_, loops_ - 1, {}, [&](const Values&) -> Values {
      fence_ |= StoreRange(e_, p.stores, loops_ - 1, e_.Int(0), e_.Dim(k_.dims.back()),
                           InnerExtent(), true, RowMayBeEmpty(), [&](const Values&) -> Values {
                             LoadKept(p);
                             return {};
                           });
      return {};
    });
  }

  void ReducePass(const Pass& p) {
    const Widths w = ChooseWidths(e_, p.bodies, {}, loops_ - 1, InnerExtent());
    Values both = Init(p, w.main);
    const size_t half = both.size();
    for (llvm::Value* v : Init(p, w.tail)) both.push_back(v);
    both = Nest(first_, loops_ - 1, both, [&](const Values& in) {
      Carried c{Values(in.begin(), in.begin() + long(half)),
                Values(in.begin() + long(half), in.end())};
      c = ForLanes(e_, loops_ - 1, e_.Int(0), e_.Dim(k_.dims.back()), InnerExtent(), w,
                   RowMayBeEmpty(), c, [&](const Values& carried) { return Step(p, carried); });
      Values out = c.main;
      out.insert(out.end(), c.tail.begin(), c.tail.end());
      return out;
    });
    size_t at = 0;
    for (const Expr& r : p.reduces) {
      const Accumulator acc = AccumulatorFor(r);
      const auto part = [&](size_t from) {
        return Values(both.begin() + long(from), both.begin() + long(from) + acc.size());
      };
      // What was never touched is left out: -0 would not survive a sum with the neutral 0.
      Values main = part(at), tail = part(half + at);
      const bool has_main = !llvm::isa<llvm::Constant>(main[0]),
                 has_tail = !llvm::isa<llvm::Constant>(tail[0]);
      Values v;
      if (has_main && has_tail) {
        const int to = std::min(w.main, w.tail);
        v = e_.Merge(acc, e_.Fold(acc, main, to), e_.Fold(acc, tail, to));
      } else {
        v = has_main ? main : tail;
      }
      e_.Preset(r, Result(acc, e_.Fold(acc, v, 1).back()));
      at += size_t(acc.size());
    }
  }

  // ---- rows in lanes ----

  void EmitRowsInLanes() {
    const int loop = k_.vector_loop;
    WEFT_ICHECK(loop == k_.num_outer - 1, "loop {} of {} outer loops cannot run in lanes", loop,
                k_.num_outer);
    Exprs roots;
    for (const Pass& p : passes_) {
      for (const Expr& r : p.roots()) roots.push_back(r);
    }
    std::vector<DType> types;
    for (const KernelStore& s : k_.stores) types.push_back(k_.buffers[size_t(s.buffer)].dtype);
    const SymInt extent = k_.dims[size_t(loop)];
    const Widths w = ChooseWidths(e_, roots, types, loop, extent.is_const() ? extent.value() : -1);
    const int64_t window = RowElements(k_);
    unroll_ = window > 0 && window <= kMaxUnrolledWindow && roots.size() <= 2 &&
              e_.Info(roots[0]).weight <= 8;
    ForPoints(e_, k_.num_outer, e_.begin(), e_.end(), [&](llvm::Value* lo, llvm::Value* hi) {
      ForLanes(e_, loop, lo, hi, -1, w, false, {}, [&](const Values&) -> Values {
        const int lanes = e_.lanes()->count;
        for (const Pass& p : passes_) {
          if (p.reduces.empty()) {
            Nest(first_, loops_, {}, [&](const Values&) -> Values {
              LoadKept(p);
              EmitStores(e_, p.stores, false);
              return {};
            });
            continue;
          }
          const Values out = Nest(first_, loops_, Init(p, lanes),
                                  [&](const Values& carried) { return Step(p, carried); });
          size_t at = 0;
          for (const Expr& r : p.reduces) {
            const Accumulator acc = AccumulatorFor(r);
            at += size_t(acc.size());
            e_.Preset(r, Result(acc, out[at - 1]));
          }
        }
        EmitStores(e_, row_stores_, false);
        return {};
      });
    });
  }

  Emitter& e_;
  const Kernel& k_;
  const int first_, loops_;  // row loops: [first_, loops_)
  const bool rows_in_lanes_, narrow_positions_;
  std::vector<Pass> passes_;
  Pass last_;
  std::vector<KernelStore> row_stores_;
  std::vector<Kept> kept_;
  SymInt scratch_ = 0;
  bool fence_ = false, unroll_ = false;
};

}  // namespace

int ChooseVectorLoop(const Kernel& k) {
  if (k.tmpl != KernelTemplate::kRow || k.num_outer == 0 || k.vector_loop < k.num_outer)
    return k.vector_loop;
  const SymInt width = k.dims.back(), rows = k.dims[size_t(k.num_outer) - 1];
  const bool window = RowElements(k) > 0 && width.value() <= kMaxWindowWidth &&
                      !(rows.is_const() && rows.value() < kMaxWindowWidth);
  return window ? k.num_outer - 1 : k.vector_loop;
}

SymInt EmitRow(Emitter& e) { return RowEmitter(e).Run(); }

}  // namespace weft::llvmgen
