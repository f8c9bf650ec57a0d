/// elementwise.cc: the template of kernels whose every point stands for itself.
///
/// The last loop runs in vector lanes. With one loop the work range is that loop's; with several,
/// rows of the last loop are walked with an index tuple that is counted up, so that no point costs
/// a division. Where an input is contiguous along the second last loop (a transposition), rows are
/// walked in blocks: every cache line that a vector touches is used for all rows of a block while
/// it is in the first-level cache.
#include "codegen/llvm/templates.h"

namespace weft::llvmgen {
namespace {

/// Rows of a block: the elements of a line of 4-byte values, and few enough lines for the ways of
/// the cache.
constexpr int64_t kBlockRows = 16;
/// Shorter rows and columns are not worth it.
constexpr int64_t kMinBlockedExtent = 32;

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

/// Points [begin, end), row by row.
bool Rows(Emitter& e, const std::vector<KernelStore>& stores, llvm::Value* begin,
          llvm::Value* end) {
  const int loops = int(e.kernel().dims.size());
  const SymInt inner = e.kernel().dims.back();
  bool fence = false;
  ForPoints(e, loops, begin, end, [&](llvm::Value* lo, llvm::Value* hi) {
    fence = StoreRange(e, stores, loops - 1, lo, hi, inner.is_const() ? inner.value() : -1, false,
                       false, nullptr);
  });
  return fence;
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

/// Points [begin, end) in blocks of whole rows, and what is left of a row at both ends.
void Transpose(Emitter& e, const std::vector<KernelStore>& stores) {
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

  llvm::Value* inner = e.Dim(extent);
  llvm::Value* first = ir.CreateUDiv(ir.CreateAdd(e.begin(), ir.CreateSub(inner, e.Int(1))), inner);
  llvm::Value* last = ir.CreateUDiv(e.end(), inner);
  Blocks(e, stores, w, first, last);
  llvm::Value* head =
      ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, e.end(), ir.CreateMul(first, inner));
  llvm::Value* tail =
      ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, head, ir.CreateMul(last, inner));
  LoopSpec ends;
  ends.lo = e.Int(0);
  ends.hi = e.Int(2);
  ends.maybe_empty = false;
  e.Loop(ends, {}, [&](llvm::Value* which, const Values&) -> Values {
    llvm::Value* is_head = ir.CreateICmpEQ(which, e.Int(0));
    llvm::Value* from = ir.CreateSelect(is_head, e.begin(), tail);
    llvm::Value* to = ir.CreateSelect(is_head, head, e.end());
    llvm::Value* row = ir.CreateUDiv(from, inner);
    llvm::Value* start = ir.CreateMul(row, inner);
    AtRow(e, loops - 1, row, [&] {
      ForFewLanes(e, loops - 1, ir.CreateSub(from, start), ir.CreateSub(to, start), w,
                  [&](const Values&) -> Values {
                    EmitStores(e, stores, false);
                    return {};
                  });
    });
    return {};
  });
}

}  // namespace

SymInt EmitElementwise(Emitter& e) {
  const Kernel& k = e.kernel();
  const std::vector<KernelStore> stores = ExpandedStores(k);
  e.Begin();
  const int loops = int(k.dims.size());
  bool fence = false;
  if (loops == 0) {
    EmitStores(e, stores, false);
  } else if (IsTransposing(e, stores)) {
    Transpose(e, stores);
  } else {
    fence = Rows(e, stores, e.begin(), e.end());
  }
  if (fence) e.EmitFence();
  return 0;
}

}  // namespace weft::llvmgen
