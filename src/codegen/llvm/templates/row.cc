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
#include <numeric>

#include "codegen/llvm/emit/arrange_loops.h"
#include "row_form.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

/// Operations from which a value is kept in scratch rather than computed again: a store and a load
/// cost about four.
constexpr double kMinKeptWeight = 10;
/// Scratch that one value may take: it must stay in the second-level cache beside the row itself.
/// To keep a value in the output instead would take longer (measured by hand-written soft-max on a
/// Xeon: rows of 4096 f32 1.45 times, of 65536 1.2 times): a line is read before it is written,
/// while the last pass writes past the caches.
constexpr int64_t kMaxKeptBytes = int64_t{1} << 20, kMaxKeptTileBytes = int64_t{256} << 10;
/// The second-level cache: bytes and number of its ways, as most CPUs with AVX-512 have them or
/// twice as many; the rows that are copied for its sake; and the first-level cache, which needs no
/// help.
constexpr int64_t kCacheWay = int64_t{64} << 10, kCacheWays = 16;
constexpr int64_t kMaxScatteredBytes = int64_t{768} << 10, kFirstLevelBytes = int64_t{32} << 10;
/// Elements of a row that the pass over the row before fetches: not less than prefetchers miss, and
/// not more than stays in the second-level cache beside that row and its exponentials (2 MiB on the
/// Xeon where soft-max over rows of 16384 to 131072 f32 takes 0.83 to 0.87 of the time, layer
/// normalisation 0.96; where it is smaller the next one catches what falls out).
constexpr int64_t kMinFetchedRow = 256, kMaxFetchedRow = 131072;
/// Lanes that a scratch tile is made for; the most that ChooseWidths gives.
constexpr int kTileLanes = 64;
/// Rows of so few elements (pooling windows) do not fill a vector: then the lanes are rows,
/// whatever the kernel says, and a window is written out. Rows of which only results are stored
/// may be longer: they are folded a lane each instead of by halves (measured: ArgMax of rows of
/// ten).
constexpr int64_t kMaxWindowWidth = 8, kMaxFoldedWidth = 16, kMaxUnrolledWindow = 16;
/// Rows from which short ones are worth being read across.
constexpr int64_t kMinSwappedRows = 64;
/// Operations of a window that is written out, all elements together.
constexpr double kMaxUnrolledWeight = 256;

struct Kept {
  Expr value;
  SymInt start;  ///< offset in the scratch, bytes
};

class RowEmitter : RowForm {
 public:
  explicit RowEmitter(Emitter& e) : RowForm(e) {}

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

  /// Does x read several pieces of memory that the caches cannot hold from one pass to the next,
  /// though they are little? One is read again as fast as a copy is written and read. What is kept
  /// already is not read; it is listed in `parts`.
  bool ReadsScattered(const Expr& x, ExprMap<int>* kept, std::vector<int>* parts) {
    if (rows_in_lanes_) return false;
    int scattered = 0;
    ExprMap<char> seen;
    std::vector<const Expr*> stack{&x};
    while (!stack.empty()) {
      const Expr& e = *stack.back();
      stack.pop_back();
      if (!VariesInRow(e) || !seen.Set(e.get(), 1)) continue;
      if (const int* id = kept->Find(e.get())) {
        parts->push_back(*id);
        continue;
      }
      scattered += e->kind() == ExprKind::kLoad && IsScattered(*e);
      if (e->kind() == ExprKind::kReduce || e->kind() == ExprKind::kLoad) continue;
      for (const Expr& o : e->operands()) stack.push_back(&o);
    }
    return scattered > 1;
  }

  /// The lines of a row fall on few sets of the second-level cache: a channel of a batch of images,
  /// whose pieces lie a multiple of a large power of two apart.
  bool IsScattered(const ExprNode& load) {
    const SymInt count = k_.dims[size_t(first_)], length = k_.dims.back();
    if (loops_ - first_ != 2 || !count.is_const() || !length.is_const() ||
        !e_.IsContiguous(load.operand(0), loops_ - 1))
      return false;
    const Expr step = AffineCoefficient(load.operand(0), first_);
    if (!step || step->kind() != ExprKind::kConst || step->const_int() < 1) return false;
    const int64_t bytes = Emitter::Bytes(load.dtype());
    const int64_t piece = length.value() * bytes, row = piece * count.value();
    const int64_t places = kCacheWay / std::gcd(step->const_int() * bytes, kCacheWay);
    const int64_t reach = std::min(kCacheWay, places * std::max<int64_t>(piece, 64));
    return row > kFirstLevelBytes && row * 2 > reach * kCacheWays && row <= kMaxScatteredBytes;
  }

  void PlanKept() {
    SymInt elements = rows_in_lanes_ ? kTileLanes : 1;
    for (int i = first_; i < loops_; ++i)
      elements = e_.names().Name(elements * e_.names().Name(k_.dims[size_t(i)]));
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
        const int bytes =
            x->dtype() == DType::kBool ? 0 : Emitter::Bytes(AccumulatorOf(x->dtype()));
        const SymInt size = elements * bytes;
        const bool long_to_compute = e_.Info(x).weight >= kMinKeptWeight;
        std::vector<int> parts;  // kept already, of which x is made
        const bool long_to_read = !long_to_compute && ReadsScattered(x, &kept, &parts) &&
                                  scattered_bytes_ + size.value() <= kMaxScatteredBytes;
        auto& loads = passes_[p].loads;
        const auto load = [&](int id) {
          if (std::find(loads.begin(), loads.end(), id) == loads.end()) loads.push_back(id);
        };
        if (bytes == 0 || !(long_to_compute || long_to_read) ||
            (size.is_const() && size.value() > limit)) {
          for (int id : parts) load(id);
          continue;
        }
        if (long_to_read) scattered_bytes_ += size.value();
        if (!kept.Contains(x.get())) {
          const int id = int(kept_.size());
          kept.Set(x.get(), id);
          kept_.push_back({x, scratch_});
          scratch_ = e_.names().Name(scratch_ + FloorDiv(size + 63, 64) * 64);
          passes_[size_t(*first_pass.Find(x.get()))].saves.push_back(id);
        }
        load(*kept.Find(x.get()));
      }
      Walk(roots, [&](const Expr& x, const Expr*) { first_pass.Set(x.get(), int(p)); });
    }
  }

  llvm::Value* ScratchIndex() {
    llvm::Value* at = Position();
    return rows_in_lanes_ ? e_.ir().CreateMul(at, e_.Int(kTileLanes)) : at;
  }

  void LoadKept(const RowPass& p) {
    for (int id : p.loads) {
      const Kept& k = kept_[size_t(id)];
      e_.Preset(k.value, e_.LoadScratch(k.value->dtype(), e_.Dim(k.start), ScratchIndex()));
    }
  }

  void SaveKept(const RowPass& p) {
    for (int id : p.saves) {
      const Kept& k = kept_[size_t(id)];
      llvm::Value* v = e_.Get(k.value);
      e_.StoreScratch(e_.Dim(k.start), ScratchIndex(), v);
    }
  }

  Values KeptStep(const RowPass& p, const Values& carried) {
    LoadKept(p);
    if (&p == &passes_.front() + 1 && FetchesNextRow()) e_.FetchAhead(first_ - 1);
    const Values out = Step(p, carried);
    e_.FetchAhead(-1);
    SaveKept(p);
    return out;
  }

  /// The second pass reads its row out of the cache, and memory has nothing to do: it
  /// fetches the next row for the first pass. Prefetchers of CPUs stop at the page that a
  /// row of some length ends on (measured: soft-max over rows of 1024 f32 takes 0.87 of the
  /// time, layer normalisation 0.92).
  bool FetchesNextRow() const {
    return !rows_in_lanes_ && first_ > 0 && loops_ - first_ == 1 &&
           InnerExtent() >= kMinFetchedRow && InnerExtent() <= kMaxFetchedRow;
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
      for (const RowPass& p : passes_) {
        if (p.reduces.empty())
          StorePass(p);
        else
          ReducePass(p);
      }
      EmitStores(e_, row_stores_, false);
    });
  }

  void StorePass(const RowPass& p) {
    Nest(first_, loops_ - 1, {}, [&](const Values&) -> Values {
      fence_ |= StoreRange(e_, p.stores, loops_ - 1, e_.Int(0), e_.Dim(k_.dims.back()),
                           InnerExtent(), true, RowMayBeEmpty(), [&](const Values&) -> Values {
                             LoadKept(p);
                             return {};
                           });
      return {};
    });
  }

  void ReducePass(const RowPass& p) {
    const Widths w = ChooseWidths(e_, p.bodies, {}, loops_ - 1, InnerExtent());
    Values both = Init(p, w.main);
    const size_t half = both.size();
    for (llvm::Value* v : Init(p, w.tail)) both.push_back(v);
    both = Nest(first_, loops_ - 1, both, [&](const Values& in) {
      Carried c{Values(in.begin(), in.begin() + long(half)),
                Values(in.begin() + long(half), in.end())};
      c = ForLanes(e_, loops_ - 1, e_.Int(0), e_.Dim(k_.dims.back()), InnerExtent(), w,
                   RowMayBeEmpty(), c, [&](const Values& carried) { return KeptStep(p, carried); });
      Values out = c.main;
      out.insert(out.end(), c.tail.begin(), c.tail.end());
      return out;
    });
    const Values folded = FoldBoth(p, w, both);
    size_t at = 0;
    for (const Expr& r : p.reduces) {
      const Accumulator acc = AccumulatorFor(r);
      at += size_t(acc.size());
      e_.Preset(r, Result(acc, folded[at - 1]));
    }
  }

  // ---- rows in lanes ----

  void EmitRowsInLanes() {
    const int loop = k_.vector_loop;
    WEFT_ICHECK(loop == k_.num_outer - 1, "loop {} of {} outer loops cannot run in lanes", loop,
                k_.num_outer);
    Exprs roots;
    for (const RowPass& p : passes_) {
      for (const Expr& r : p.roots()) roots.push_back(r);
    }
    std::vector<DType> types;
    for (const KernelStore& s : k_.stores) types.push_back(k_.buffers[size_t(s.buffer)].dtype);
    const SymInt extent = k_.dims[size_t(loop)];
    const Widths w = ChooseWidths(e_, roots, types, loop, extent.is_const() ? extent.value() : -1);
    const int64_t window = WindowElements(k_);
    // Reductions of one body (a maximum and its place) are one root.
    double weight = 0;
    ExprMap<char> counted;
    for (const Expr& r : roots)
      if (counted.Set(r.get(), 1)) weight += e_.Info(r).weight;
    unroll_ =
        window > 0 && window <= kMaxUnrolledWindow && double(window) * weight <= kMaxUnrolledWeight;
    ForPoints(e_, k_.num_outer, e_.begin(), e_.end(), [&](llvm::Value* lo, llvm::Value* hi) {
      ForLanes(e_, loop, lo, hi, -1, w, false, {}, [&](const Values&) -> Values {
        const int lanes = e_.lanes()->count;
        for (const RowPass& p : passes_) {
          if (p.reduces.empty()) {
            Nest(first_, loops_, {}, [&](const Values&) -> Values {
              LoadKept(p);
              EmitStores(e_, p.stores, false);
              return {};
            });
            continue;
          }
          const Values out = Nest(first_, loops_, Init(p, lanes),
                                  [&](const Values& carried) { return KeptStep(p, carried); });
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

  std::vector<Kept> kept_;
  SymInt scratch_ = 0;
  int64_t scattered_bytes_ = 0;  ///< of kept values
  bool fence_ = false, unroll_ = false;
};

int ChooseVectorLoop(const Kernel& k) {
  if (!k.has_rows() || k.num_outer == 0 || k.rows_in_lanes()) return k.vector_loop;
  const SymInt width = k.dims.back(), rows = k.dims[size_t(k.num_outer) - 1];
  const bool folded =
      std::all_of(k.stores.begin(), k.stores.end(), [](const KernelStore& s) { return s.per_row; });
  const bool window = WindowElements(k) > 0 &&
                      width.value() <= (folded ? kMaxFoldedWidth : kMaxWindowWidth) &&
                      !(rows.is_const() && rows.value() < kMaxWindowWidth);
  return window ? k.num_outer - 1 : k.vector_loop;
}

/// Changes the places of two loops; every point is still computed once.
void SwapLoops(Kernel* k, int a, int b) {
  Indices at;
  for (int i = 0; i < int(k->dims.size()); ++i) at.push_back(Expr::Index(i));
  std::swap(at[size_t(a)], at[size_t(b)]);
  std::swap(k->dims[size_t(a)], k->dims[size_t(b)]);
  for (KernelStore& s : k->stores) {
    s.offset = SubstituteIndices(s.offset, at);
    s.value = SubstituteIndices(s.value, at);
  }
}

}  // namespace

Kernel ArrangeLoops(const Kernel& kernel) {
  Kernel k = kernel;  // keeps its name
  const int64_t window = k.has_rows() ? WindowElements(k) : 0;
  if (window > 0 && window <= kMaxUnrolledWindow && k.num_outer >= 2 && !k.rows_in_lanes()) {
    // Few windows side by side leave most lanes empty: then the lanes go along the next loop.
    const SymInt inner = k.dims[size_t(k.num_outer) - 1], next = k.dims[size_t(k.num_outer) - 2];
    if (inner.is_const() && inner.value() <= kMaxWindowWidth &&
        !(next.is_const() && next.value() < kMinSwappedRows))
      SwapLoops(&k, k.num_outer - 1, k.num_outer - 2);
  }
  k.vector_loop = ChooseVectorLoop(k);
  return k;
}

SymInt EmitRow(Emitter& e) { return RowEmitter(e).Run(); }

}  // namespace weft::llvmgen
