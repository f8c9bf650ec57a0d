/// elementwise.cc: the template of kernels whose every point stands for itself.
///
/// The last loop runs in vector lanes. With one loop the work range is that loop's; with several,
/// rows of the last loop are walked with an index tuple that is counted up, so that no point costs
/// a division. Where an input is contiguous along the second last loop (a transposition), rows are
/// walked in blocks: every cache line that a vector touches is used for all rows of a block while
/// it is in the first-level cache. So they are where rows share most of what they compute.
#include <functional>
#include <unordered_set>

#include "templates.h"

namespace weft::llvmgen {
namespace {

/// Rows of a block: the elements of a line of 4-byte values, and few enough lines for the ways of
/// the cache.
constexpr int64_t kBlockRows = 16;
/// Shorter rows and columns are not worth it.
constexpr int64_t kMinBlockedExtent = 32;
/// Operations that rows share from which a block of rows computes them once, and rows that pay for
/// it. What depends on no load is in tables (index_tables.cc) where it is long.
constexpr int kMinSharedOps = 12;
constexpr int64_t kMinSharingRows = 4;
/// Rows of up to this many elements have code for exactly as many, beside code for parts of a row;
/// not where that is long: code generation takes time in proportion.
constexpr int64_t kMaxShortRow = 64;
constexpr double kMaxShortWeight = 64;
/// Operations of an index that is computed once for the check and once for the use of it.
constexpr double kMaxTwiceWeight = 32;
/// Rows whose indices are checked together.
constexpr int64_t kCheckedRows = 512;

/// Some input is read along the second last loop.
bool IsTransposing(Emitter& e, const std::vector<KernelStore>& stores) {
  const Kernel& k = e.kernel();
  const int inner = int(k.dims.size()) - 1, rows = inner - 1;
  if (rows < 0) return false;
  for (int i : {inner, rows}) {
    if (k.dims[size_t(i)].is_const() && k.dims[size_t(i)].value() < kMinBlockedExtent) return false;
  }
  Exprs roots;
  for (const KernelStore& s : stores) {
    if (!s.flag && !e.IsContiguous(s.offset, inner)) return false;
    roots.push_back(s.value);
  }
  for (const ExprNode* n : PostOrder(roots)) {
    if (n->kind() != ExprKind::kLoad) continue;
    const Expr& at = n->operand(0);
    if (e.DependsOn(at, inner) && !e.IsContiguous(at, inner) && e.IsContiguous(at, rows))
      return true;
  }
  return false;
}

/// Much of what a point asks is the same for all of the second last loop: where a grid of points is
/// read from every channel, the places and weights of the grid.
bool SharesAcrossRows(Emitter& e, const std::vector<KernelStore>& stores) {
  const Kernel& k = e.kernel();
  const int inner = int(k.dims.size()) - 1, rows = inner - 1;
  if (rows < 0) return false;
  const SymInt extent = k.dims[size_t(inner)], height = k.dims[size_t(rows)];
  if ((extent.is_const() && extent.value() < kMinBlockedExtent) ||
      (height.is_const() && height.value() < kMinSharingRows))
    return false;
  Exprs roots;
  for (const KernelStore& s : stores) {
    if (!s.flag && !e.IsContiguous(s.offset, inner)) return false;
    roots.push_back(s.value);
  }
  int shared = 0, all = 0;
  std::vector<const Expr*> stack;
  std::unordered_set<const ExprNode*> seen;
  for (const Expr& r : roots) stack.push_back(&r);
  while (!stack.empty()) {
    const Expr& x = *stack.back();
    stack.pop_back();
    if (!seen.insert(x.get()).second) continue;
    if (x->kind() == ExprKind::kReduce) return false;
    const bool varies = e.DependsOn(x, inner);
    all += varies;
    shared += varies && !e.DependsOn(x, rows) && e.Info(x).has_load;
    for (const Expr& o : x->operands()) stack.push_back(&o);
  }
  return shared >= kMinSharedOps && 3 * shared > all;
}

/// Whole rows [first, last) in blocks of rows that differ in the second last index only.
void Blocks(Emitter& e, const std::vector<KernelStore>& stores, const Widths& w, llvm::Value* first,
            llvm::Value* last) {
  auto& ir = e.ir();
  const Kernel& k = e.kernel();
  const int inner = int(k.dims.size()) - 1, rows = inner - 1;
  const SymInt extent = k.dims[size_t(inner)];
  const auto block_loop = [&](llvm::Value* from, llvm::Value* to) {
    LoopSpec block;
    block.lo = from;
    block.hi = to;
    block.step = kBlockRows;
    e.Loop(block, {}, [&](llvm::Value* row, const Values&) -> Values {
      llvm::Value* end =
          ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateAdd(row, e.Int(kBlockRows)), to);
      ForLanes(e, inner, e.Int(0), e.Dim(extent), extent.is_const() ? extent.value() : -1, w, false,
               {}, [&](const Values&) -> Values {
                 LoopSpec each;
                 each.lo = row;
                 each.hi = end;
                 each.bit = Emitter::IndexBit(rows);
                 each.maybe_empty = false;
                 e.Loop(each, {}, [&](llvm::Value*, const Values&) -> Values {
                   EmitStores(e, stores, false);
                   return {};
                 });
                 return {};
               });
      return {};
    });
  };
  if (rows == 0) {
    block_loop(first, last);
    return;
  }
  llvm::Value* height = e.Dim(k.dims[size_t(rows)]);
  llvm::Value* outer_first = ir.CreateUDiv(first, height);
  llvm::Value* outer_last =
      ir.CreateUDiv(ir.CreateAdd(last, ir.CreateSub(height, e.Int(1))), height);
  const auto walk = [&] {
    ForRows(e, rows, outer_first, outer_last, [&](llvm::Value* outer) {
      llvm::Value* base = ir.CreateMul(outer, height);
      block_loop(
          ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, ir.CreateSub(first, base), e.Int(0)),
          ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir.CreateSub(last, base), height));
    });
  };
  e.If(ir.CreateICmpSLT(first, last), walk, [] {});
}

void PartOfRow(Emitter& e, const std::vector<KernelStore>& stores, const Widths& w, llvm::Value* lo,
               llvm::Value* hi) {
  const int inner = int(e.kernel().dims.size()) - 1;
  ForFewLanes(e, inner, lo, hi, w, [&](const Values&) -> Values {
    EmitStores(e, stores, false);
    return {};
  });
}

/// Points [begin, end): `whole` for whole rows [first, last), and what is left of a row at both
/// ends, piece by piece.
void WholeRows(
    Emitter& e, const std::vector<KernelStore>& stores, const std::vector<LoopPiece>& pieces,
    llvm::Value* begin, llvm::Value* end,
    const std::function<void(const Widths& w, llvm::Value* first, llvm::Value* last)>& whole) {
  auto& ir = e.ir();
  const Kernel& k = e.kernel();
  const int loops = int(k.dims.size());
  Exprs values;
  std::vector<DType> types;
  for (const KernelStore& s : stores) {
    values.push_back(s.value);
    types.push_back(k.buffers[size_t(s.buffer)].dtype);
  }
  const SymInt extent = k.dims.back();
  const Widths w =
      ChooseWidths(e, values, types, loops - 1, extent.is_const() ? extent.value() : -1);

  ForWholeRows(
      e, begin, end, [&](llvm::Value* first, llvm::Value* last) { whole(w, first, last); },
      [&](llvm::Value* lo, llvm::Value* hi) {
        if (pieces.empty()) return PartOfRow(e, stores, w, lo, hi);
        for (const LoopPiece& p : pieces)
          PartOfRow(e, p.stores, w,
                    ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, lo, e.Int(p.begin)),
                    ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, hi, e.Int(p.end)));
      });
}

/// Rows of a known few elements each.
void ShortRows(Emitter& e, const std::vector<KernelStore>& stores, llvm::Value* begin,
               llvm::Value* end) {
  auto& ir = e.ir();
  const int inner = int(e.kernel().dims.size()) - 1;
  const int64_t extent = e.kernel().dims.back().value();
  WholeRows(e, stores, {}, begin, end, [&](const Widths& w, llvm::Value* first, llvm::Value* last) {
    const auto rows = [&] {
      ForRows(e, inner, first, last, [&](llvm::Value*) {
        ForLanes(e, inner, e.Int(0), e.Int(extent), extent, w, false, {},
                 [&](const Values&) -> Values {
                   EmitStores(e, stores, false);
                   return {};
                 });
      });
    };
    e.If(ir.CreateICmpSLT(first, last), rows, [] {});
  });
}

/// Rows that fall into pieces.
void RowsInPieces(Emitter& e, const std::vector<KernelStore>& stores,
                  const std::vector<LoopPiece>& pieces, llvm::Value* begin, llvm::Value* end) {
  auto& ir = e.ir();
  const int inner = int(e.kernel().dims.size()) - 1;
  const auto piece = [&](const LoopPiece& p) {
    Exprs values;
    std::vector<DType> types;
    for (const KernelStore& s : p.stores) {
      values.push_back(s.value);
      types.push_back(e.kernel().buffers[size_t(s.buffer)].dtype);
    }
    const int64_t extent = p.end - p.begin;
    ForLanes(e, inner, e.Int(p.begin), e.Int(p.end), extent,
             ChooseWidths(e, values, types, inner, extent), false, {},
             [&](const Values&) -> Values {
               EmitStores(e, p.stores, false);
               return {};
             });
  };
  const auto whole = [&](const Widths&, llvm::Value* first, llvm::Value* last) {
    const auto rows = [&] {
      ForRows(e, inner, first, last, [&](llvm::Value*) {
        for (const LoopPiece& p : pieces) piece(p);
      });
    };
    e.If(ir.CreateICmpSLT(first, last), rows, [] {});
  };
  WholeRows(e, stores, pieces, begin, end, whole);
}

/// `f` for the piece that Index(loop) of the row is in.
void InPiece(Emitter& e, const std::vector<LoopPiece>& pieces, size_t first, size_t last,
             llvm::Value* index, const std::function<void(const LoopPiece&)>& f) {
  if (last - first == 1) return f(pieces[first]);
  const size_t middle = (first + last) / 2;
  e.If(
      e.ir().CreateICmpSLT(index, e.Int(pieces[middle].begin)),
      [&] { InPiece(e, pieces, first, middle, index, f); },
      [&] { InPiece(e, pieces, middle, last, index, f); }, /*barrier=*/true);
}

/// A range flag that is the same for all points of a row.
bool IsOfRows(Emitter& e, const KernelStore& s) {
  const int inner = int(e.kernel().dims.size()) - 1, rows = inner - 1;
  return s.flag && rows >= 0 && e.DependsOn(s.value, rows) && !e.DependsOn(s.value, inner) &&
         e.Info(s.value).weight <= kMaxTwiceWeight;
}

/// Flags of the rows that have points in [begin, end), with rows in lanes.
void RaiseRowFlags(Emitter& e, const std::vector<KernelStore>& flags, llvm::Value* begin,
                   llvm::Value* end) {
  auto& ir = e.ir();
  const Kernel& k = e.kernel();
  const int inner = int(k.dims.size()) - 1, rows = inner - 1;
  Exprs values;
  for (const KernelStore& s : flags) values.push_back(s.value);
  const Widths w = ChooseWidths(e, values, {}, rows, -1);
  llvm::Value* extent = e.Dim(k.dims[size_t(inner)]);
  llvm::Value* last = ir.CreateUDiv(ir.CreateSub(end, e.Int(1)), extent);
  ForPoints(e, inner, ir.CreateUDiv(begin, extent), ir.CreateAdd(last, e.Int(1)),
            [&](llvm::Value* lo, llvm::Value* hi) {
              ForLanes(e, rows, lo, hi, -1, w, false, {}, [&](const Values&) -> Values {
                for (const KernelStore& s : flags) e.EmitFlag(s);
                return {};
              });
            });
}

/// Points [begin, end), row by row.
bool Rows(Emitter& e, const std::vector<KernelStore>& all, llvm::Value* begin, llvm::Value* end) {
  auto& ir = e.ir();
  const int loops = int(e.kernel().dims.size());
  const SymInt inner = e.kernel().dims.back();
  std::vector<KernelStore> flags, stores;
  for (const KernelStore& s : all) (IsOfRows(e, s) ? flags : stores).push_back(s);
  bool fence = false;
  double weight = 0;
  for (const KernelStore& s : stores) weight += e.Info(s.value).weight;
  const bool is_short =
      loops > 1 && inner.is_const() && inner.value() <= kMaxShortRow && weight <= kMaxShortWeight;
  const int64_t row = inner.is_const() ? inner.value() : -1;
  std::vector<LoopPiece> pieces;
  int cut = loops;
  while (loops > 1 && flags.empty() && pieces.empty() && cut > 0)
    pieces = CutLoop(e, stores, --cut);
  const auto points = [&](llvm::Value* from, llvm::Value* to) {
    if (!pieces.empty() && cut == loops - 1) return RowsInPieces(e, stores, pieces, from, to);
    if (is_short && pieces.empty()) return ShortRows(e, stores, from, to);
    ForPoints(e, loops, from, to, [&](llvm::Value* lo, llvm::Value* hi) {
      const auto store = [&](const std::vector<KernelStore>& some) {
        fence |= StoreRange(e, some, loops - 1, lo, hi, row, false, false, nullptr);
      };
      if (pieces.empty()) return store(stores);
      InPiece(e, pieces, 0, pieces.size(), e.Get(e.Keep(Expr::Index(cut))),
              [&](const LoopPiece& p) { store(p.stores); });
    });
  };
  if (flags.empty()) {
    points(begin, end);
    return fence;
  }
  // A check beside each row is too much where rows are short: some rows are checked at once, then
  // read while their indices are in the first-level cache.
  llvm::Value* extent = e.Dim(inner);
  LoopSpec block;
  block.lo = ir.CreateUDiv(begin, extent);
  block.hi = ir.CreateAdd(ir.CreateUDiv(ir.CreateSub(end, e.Int(1)), extent), e.Int(1));
  block.step = kCheckedRows;
  block.maybe_empty = false;
  e.Loop(block, {}, [&](llvm::Value* row, const Values&) -> Values {
    llvm::Value* from = ir.CreateMul(row, extent);
    llvm::Value* to = ir.CreateMul(ir.CreateAdd(row, e.Int(kCheckedRows)), extent);
    from = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, from);
    to = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, to);
    RaiseRowFlags(e, flags, from, to);
    points(from, to);
    return {};
  });
  return fence;
}

}  // namespace

SymInt EmitElementwise(Emitter& e) {
  const Kernel& k = e.kernel();
  const std::vector<KernelStore> stores = ExpandedStores(k);
  e.Begin();
  const int loops = int(k.dims.size());
  const SymInt scratch = EmitTables(e, stores);
  bool fence = false;
  if (loops == 0) {
    EmitStores(e, stores, false);
  } else if (IsTransposing(e, stores) || SharesAcrossRows(e, stores)) {
    WholeRows(e, stores, {}, e.begin(), e.end(),
              [&](const Widths& w, llvm::Value* first, llvm::Value* last) {
                Blocks(e, stores, w, first, last);
              });
  } else {
    fence = Rows(e, stores, e.begin(), e.end());
  }
  if (fence) e.EmitFence();
  return scratch;
}

}  // namespace weft::llvmgen
