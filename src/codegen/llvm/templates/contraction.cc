/// contraction.cc: kernels of sums of products: rows by a matrix that stays in a cache, and what is
/// element-wise behind them (the gates of a recurrent cell).
///
/// All sums of a point run over the same terms and are made together: the last loop in lanes, a
/// number of rows at a time, so that enough sums are under way to hide the latency of an FMA and
/// what is read of a matrix serves all rows. The terms of a sum are added one after the other, by
/// FMAs; those of a single row in several partial sums. Sums of a block of rows go through the
/// scratch to one loop over its rows, so that the code of what stands behind them is there once.
#include "contraction.h"

#include <algorithm>

#include "templates.h"
#include "weft/codegen/lower/lower.h"

namespace weft::llvmgen {
namespace {

/// Sums that are kept in registers: of 32, some hold what is read.
constexpr int kMostSums = 20;
/// Sums that hide the latency of an FMA: four cycles, two of them a cycle.
constexpr int kSumsUnderWay = 8;
constexpr int kMostRows = 8;
/// Sums of one point.
constexpr size_t kMostSumsOfPoint = 16;
/// Of a matrix by a vector: larger ones are cut into chunks (row_phases.cc).
constexpr int64_t kMostTerms = int64_t{1} << 18;

/// Reduce nodes that are in no other one, in the order of the stores.
Exprs SumsOf(const std::vector<KernelStore>& stores) {
  Exprs sums;
  ExprMap<char> seen;
  std::vector<const Expr*> stack;
  for (size_t i = stores.size(); i-- > 0;) stack.push_back(&stores[i].value);
  while (!stack.empty()) {
    const Expr& e = *stack.back();
    stack.pop_back();
    if (!seen.Set(e.get(), 1)) continue;
    if (e->kind() == ExprKind::kReduce) {
      sums.push_back(e);
      continue;
    }
    for (size_t i = e->operands().size(); i-- > 0;) stack.push_back(&e->operand(int(i)));
  }
  return sums;
}

/// A number that is read at a place which goes by `step` along the loop.
bool IsReadBy(const Expr& e, int loop, int64_t step) {
  if (e->kind() != ExprKind::kLoad || e->has_guard()) return false;
  const Expr c = AffineCoefficient(e->operand(0), loop);
  return c && c->kind() == ExprKind::kConst && c->const_int() == step;
}

/// A sum of products of what is the same in all lanes and of what lies side by side.
bool IsProductOverLanes(const Expr& sum, int loop) {
  const Expr& body = sum->operand(0);
  if (sum->reduce_op() != ReduceOp::kSum || sum->extents().size() != 1 ||
      !sum->extents()[0].is_const() || sum->extents()[0].value() < 2)
    return false;
  if (body->kind() != ExprKind::kBinary || body->bin_op() != BinOp::kMul ||
      (body->dtype() != DType::kF32 && body->dtype() != DType::kF64))
    return false;
  const Expr &a = body->operand(0), &b = body->operand(1);
  return a->dtype() == b->dtype() && ((IsReadBy(a, loop, 0) && IsReadBy(b, loop, 1)) ||
                                      (IsReadBy(a, loop, 1) && IsReadBy(b, loop, 0)));
}

class ContractionEmitter {
 public:
  explicit ContractionEmitter(Emitter& e)
      : e_(e),
        stores_(ExpandedStores(e.kernel())),
        sums_(SumsOf(stores_)),
        terms_(sums_[0]->extents()[0].value()),
        acc_{ReduceOp::kSum, sums_[0]->operand(0)->dtype()} {
    const int sums = int(sums_.size());
    while (partial_ * sums < kSumsUnderWay && 2 * partial_ <= terms_) partial_ *= 2;
    rows_ = std::clamp(kMostSums / sums, 1, kMostRows);
    if (!has_rows()) return;
    const SymInt extent = e.kernel().dims[0];
    if (!extent.is_const()) return;
    rows_ = int(std::clamp<int64_t>(extent.value(), 1, rows_));
    // No rest, where a somewhat smaller block leaves none.
    for (int r = rows_; r > rows_ / 2; --r)
      if (extent.value() % r == 0) {
        rows_ = r;
        break;
      }
  }

  SymInt Run() {
    e_.Begin();
    const Widths w = ChosenWidths();
    const auto points = [&](const Values&) -> Values {
      AtPoint();
      return {};
    };
    if (!has_rows()) {
      ForLanes(e_, lanes_loop(), e_.begin(), e_.end(), -1, w, false, {}, points);
      return 0;
    }
    ForWholeRows(
        e_, e_.begin(), e_.end(),
        [&](llvm::Value* first, llvm::Value* last) { Rows(w, first, last); },
        [&](llvm::Value* lo, llvm::Value* hi) {
          ForFewLanes(e_, lanes_loop(), lo, hi, w, points);
        });
    return SymInt(int64_t{rows_} * int64_t(sums_.size()) * LanesOf(w) * Emitter::Bytes(acc_.dtype));
  }

 private:
  bool has_rows() const { return e_.kernel().dims.size() > 1; }
  int term_bit() { return e_.ReduceBit(sums_[0]->level(), 0); }
  int lanes_loop() const { return int(e_.kernel().dims.size()) - 1; }
  static int LanesOf(const Widths& w) { return std::max(w.main, w.tail); }

  /// One register a sum, where enough of them are under way.
  Widths ChosenWidths() {
    Exprs values;
    std::vector<DType> types;
    for (const KernelStore& s : stores_) {
      values.push_back(s.value);
      types.push_back(e_.kernel().buffers[size_t(s.buffer)].dtype);
    }
    const SymInt extent = e_.kernel().dims.back();
    Widths w = ChooseWidths(e_, values, types, lanes_loop(),
                            has_rows() && extent.is_const() ? extent.value() : -1);
    const int native = std::max(1, e_.target().vector_bits / (8 * Emitter::Bytes(acc_.dtype)));
    w.main = std::min(w.main, native);
    // Of few rows, and few sums of each, several registers side by side.
    const int sums = (has_rows() ? rows_ : partial_) * int(sums_.size());
    while (w.main >= native && extent.is_const() && extent.value() % (2 * w.main) == 0 &&
           2 * sums * (w.main / native) <= kSumsUnderWay)
      w.main *= 2;
    return w;
  }

  /// Adds term `k` of all sums at the point where the code is.
  void AddTerm(llvm::Value* k, llvm::Value** sums) {
    e_.Unrolled(term_bit(), k, [&]() -> Values {
      for (size_t i = 0; i < sums_.size(); ++i) sums[i] = Added(sums_[i]->operand(0), sums[i]);
      return {};
    });
  }
  llvm::Value* Added(const Expr& product, llvm::Value* sum) {
    const int lanes = Emitter::LanesOf(sum);
    e_.Info(product);
    llvm::Value *a = e_.GetLanes(product->operand(0), lanes),
                *b = e_.GetLanes(product->operand(1), lanes);
    return e_.ir().CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {a, b, sum});
  }
  Values Zeros(int count) {
    return Values(size_t(count), e_.InitAccumulator(acc_, e_.lanes()->count)[0]);
  }

  /// The sums of one row, and what stands behind them.
  void AtPoint() {
    const int sums = int(sums_.size()), partial = partial_;
    const int64_t whole = terms_ / partial * partial;
    LoopSpec loop;
    loop.lo = e_.Int(0);
    loop.hi = e_.Int(whole);
    loop.step = partial;
    loop.maybe_empty = false;
    Values all = e_.Loop(loop, Zeros(sums * partial), [&](llvm::Value* k, const Values& carried) {
      Values next = carried;
      for (int p = 0; p < partial; ++p)
        AddTerm(e_.ir().CreateAdd(k, e_.Int(p)), next.data() + p * sums);
      return next;
    });
    for (int64_t k = whole; k < terms_; ++k) AddTerm(e_.Int(k), all.data() + (k - whole) * sums);
    for (int p = partial; p > 1; p /= 2)
      for (int i = 0; i < p / 2 * sums; ++i)
        all[size_t(i)] = e_.Merge(acc_, {all[size_t(i)]}, {all[size_t(i + p / 2 * sums)]})[0];
    for (int i = 0; i < sums; ++i) e_.Preset(sums_[size_t(i)], all[size_t(i)]);
    EmitStores(e_, stores_, false);
  }

  /// Whole rows [first, last): what lies in lanes outside, so that its part of the matrix stays in
  /// the nearest cache for all rows.
  void Rows(const Widths& w, llvm::Value* first, llvm::Value* last) {
    const SymInt extent = e_.kernel().dims.back();
    llvm::Value* count = e_.ir().CreateSub(last, first);
    llvm::Value* blocked = e_.ir().CreateSub(last, e_.ir().CreateSRem(count, e_.Int(rows_)));
    ForLanes(e_, lanes_loop(), e_.Int(0), e_.Dim(extent), extent.is_const() ? extent.value() : -1,
             w, /*barrier=*/true, {}, [&](const Values&) -> Values {
               LoopSpec blocks;
               blocks.lo = first;
               blocks.hi = blocked;
               blocks.step = rows_;
               blocks.barrier = true;
               e_.Loop(blocks, {}, [&](llvm::Value* row, const Values&) -> Values {
                 Block(w, row);
                 return {};
               });
               LoopSpec rest;
               rest.lo = blocked;
               rest.hi = last;
               rest.bit = Emitter::IndexBit(0);
               rest.barrier = true;
               e_.Loop(rest, {}, [&](llvm::Value*, const Values&) -> Values {
                 AtPoint();
                 return {};
               });
               return {};
             });
  }
  void Block(const Widths& w, llvm::Value* first) {
    const size_t sums = sums_.size();
    LoopSpec loop;
    loop.lo = e_.Int(0);
    loop.hi = e_.Int(terms_);
    // Outside of the rows, so that what depends on the term alone is read once.
    loop.bit = term_bit();
    loop.maybe_empty = false;
    const Values all =
        e_.Loop(loop, Zeros(rows_ * int(sums)), [&](llvm::Value*, const Values& carried) {
          Values next = carried;
          for (int r = 0; r < rows_; ++r)
            e_.Unrolled(Emitter::IndexBit(0), e_.ir().CreateAdd(first, e_.Int(r)), [&]() -> Values {
              for (size_t i = 0; i < sums; ++i) {
                llvm::Value*& sum = next[size_t(r) * sums + i];
                sum = Added(sums_[i]->operand(0), sum);
              }
              return {};
            });
          return next;
        });
    const int64_t wide = LanesOf(w);
    for (size_t i = 0; i < all.size(); ++i)
      e_.StoreScratch(e_.Int(0), e_.Int(int64_t(i) * wide), all[i]);
    LoopSpec rows;
    rows.lo = e_.Int(0);
    rows.hi = e_.Int(rows_);
    rows.maybe_empty = false;
    e_.Loop(rows, {}, [&](llvm::Value* r, const Values&) -> Values {
      e_.Define(Emitter::IndexBit(0), e_.ir().CreateAdd(first, r));
      llvm::Value* at = e_.ir().CreateMul(r, e_.Int(int64_t(sums) * wide));
      for (size_t i = 0; i < sums; ++i)
        e_.Preset(sums_[i], e_.LoadScratch(acc_.dtype, e_.Int(0),
                                           e_.ir().CreateAdd(at, e_.Int(int64_t(i) * wide))));
      EmitStores(e_, stores_, false);
      return {};
    });
  }

  Emitter& e_;
  const std::vector<KernelStore> stores_;
  const Exprs sums_;
  const int64_t terms_;
  const Accumulator acc_;
  int rows_ = 1;     ///< of a block
  int partial_ = 1;  ///< sums for each sum of a single row
};

}  // namespace

std::optional<Kernel> AsContraction(const Kernel& kernel) {
  if (kernel.has_flag()) return std::nullopt;
  Kernel points = kernel;
  if (kernel.has_rows()) {
    SymInt all = 1;
    for (SymInt d : kernel.dims) all = all * d;
    if (!kernel.rows_in_lanes() || !all.is_const() || all.value() > kMostTerms ||
        !std::all_of(kernel.stores.begin(), kernel.stores.end(),
                     [](const KernelStore& s) { return s.per_row; }))
      return std::nullopt;
    static_cast<KernelForm&>(points) = KernelForm();
    points.dims = kernel.outer_dims();
    points.num_outer = int(points.dims.size());
    points.vector_loop = points.num_outer - 1;
    for (KernelStore& s : points.stores) s.per_row = false;
  }
  if (points.dims.empty() || points.dims.size() > 2) return std::nullopt;
  const int lanes = int(points.dims.size()) - 1;
  const Exprs sums = SumsOf(points.stores);
  if (sums.empty() || sums.size() > kMostSumsOfPoint) return std::nullopt;
  for (const Expr& sum : sums)
    if (!IsProductOverLanes(sum, lanes) || sum->extents() != sums[0]->extents() ||
        sum->level() != sums[0]->level() ||
        sum->operand(0)->dtype() != sums[0]->operand(0)->dtype())
      return std::nullopt;
  return points;
}

SymInt EmitContraction(Emitter& e) { return ContractionEmitter(e).Run(); }

}  // namespace weft::llvmgen
