/// lanes.cc: how a loop is cut into vectors, and the row and point loops around it.
#include <algorithm>

#include "templates.h"
#include "weft/codegen/expr/math.h"
#include "weft/codegen/lower/lower.h"
#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

/// Most lanes of one value: a vector of i1 beyond 64 leaves the mask registers.
constexpr int kMaxLanes = 64;
/// Expressions of up to this many operations run in four, two registers at once: enough to hide the
/// latency of an accumulator and the cost of the loop. Longer ones fill the machine by themselves
/// (measured: two registers gain 4 to 6 % for a sigmoid, a tanh, an erf, 12 % for a tanh of a
/// sigmoid), and code generation takes time in proportion: that one would pass 3 ms.
constexpr int kMaxOpsTimes4 = 9, kMaxOpsTimes2 = 24;
/// Above this many operations a loop is not bound by memory, and is not worth a second copy.
constexpr int kMaxStreamingOps = 200;
/// Above this many the rest of a range takes the same code as the range, masked: masks are nothing
/// beside so many operations, and code generation takes half the time.
constexpr int kMaxTwiceOps = 64;
/// Shortest constant extent that is worth the peeling to a cache line.
constexpr int64_t kMinStreamingExtent = 256;

/// What one vector's worth of some expressions is made of.
struct Profile {
  int ops = 0;
  int widest_bits = 8;
  bool gathers = false;
};

Profile ProfileOf(Emitter& e, const Exprs& roots, int loop) {
  Profile p;
  ExprMap<char> seen;
  std::vector<const Expr*> stack;
  const auto push = [&](const Expr& x) {
    if (seen.Set(x.get(), 1)) stack.push_back(&x);
  };
  for (const Expr& r : roots) push(r);
  while (!stack.empty()) {
    const Expr& x = *stack.back();
    stack.pop_back();
    const bool varies = e.DependsOn(x, loop);
    if (varies) ++p.ops;
    const DType t = x->dtype();
    // Index arithmetic is 64 bits wide, but rarely what fills the registers.
    const bool counts =
        IsFloat(t) || x->kind() == ExprKind::kLoad || (e.Info(x).has_load && IsInt(t));
    if (counts) {
      const bool memory_only = x->kind() == ExprKind::kLoad && !IsFloat(t);
      p.widest_bits = std::max(
          p.widest_bits, memory_only
                             ? 8 * Emitter::Bytes(t)
                             : std::max(8, IsFloat(t) ? std::max(32, DTypeBits(t)) : DTypeBits(t)));
    }
    for (size_t i = 0; i < x->operands().size(); ++i) {
      if (x->kind() == ExprKind::kLoad && i == 0) {
        if (varies && e.DependsOn(x->operand(0), loop) && !e.IsContiguous(x->operand(0), loop))
          p.gathers = true;
        continue;
      }
      if (i == 1 && IsRareChoice(*x)) continue;
      push(x->operand(int(i)));
    }
  }
  return p;
}

/// Registers at once, see kMaxOpsTimes4.
int RegistersAtOnce(const Profile& p) {
  if (p.gathers) return 1;
  return p.ops <= kMaxOpsTimes4 ? 4 : p.ops <= kMaxOpsTimes2 ? 2 : 1;
}

/// Lanes of a vector that begins at `from`, in a range that ends at `hi`.
void MaskRange(Emitter& e, Lanes* l, llvm::Value* hi) {
  auto& ir = e.ir();
  // Fewer than 2^31 elements are left over, so half as wide a compare will do.
  l->left = ir.CreateTrunc(ir.CreateSub(hi, l->base), ir.getInt32Ty());
  l->mask = ir.CreateICmpSLT(e.Iota(l->count, DType::kI32), e.Splat(l->left, l->count));
}

llvm::Value* RoundDown(Emitter& e, llvm::Value* v, int to) {
  return e.ir().CreateAnd(v, e.Int(-int64_t{to}));
}

Values LaneLoop(Emitter& e, int loop, llvm::Value* lo, llvm::Value* hi, int lanes, bool masked,
                bool maybe_empty, bool barrier, const Values& init, const LaneBody& body) {
  LoopSpec spec;
  spec.lo = lo;
  spec.hi = hi;
  spec.step = lanes;
  spec.maybe_empty = maybe_empty;
  spec.barrier = barrier;
  return e.Loop(spec, init, [&](llvm::Value* iv, const Values& carried) {
    Lanes l;
    l.loop = loop;
    l.count = lanes;
    l.base = iv;
    if (masked) MaskRange(e, &l, hi);
    e.SetLanes(l);
    return body(carried);
  });
}

/// Two ranges in one loop, so that the code of `body` is there once.
void EndsLoop(Emitter& e, int loop, std::pair<llvm::Value*, llvm::Value*> head,
              std::pair<llvm::Value*, llvm::Value*> tail, int lanes, bool barrier,
              const LaneBody& body) {
  auto& ir = e.ir();
  // A common count: the vectors of the head, then those of the tail.
  llvm::Value* in_head = ir.CreateAdd(ir.CreateSub(head.second, head.first), e.Int(lanes - 1));
  in_head = RoundDown(e, in_head, lanes);
  LoopSpec spec;
  spec.lo = e.Int(0);
  spec.hi = ir.CreateAdd(in_head, ir.CreateSub(tail.second, tail.first));
  spec.step = lanes;
  spec.barrier = barrier;
  llvm::Value* tail_base = ir.CreateSub(tail.first, in_head);
  e.Loop(spec, {}, [&](llvm::Value* at, const Values&) -> Values {
    llvm::Value* is_head = ir.CreateICmpSLT(at, in_head);
    Lanes l;
    l.loop = loop;
    l.count = lanes;
    l.base = ir.CreateAdd(at, ir.CreateSelect(is_head, head.first, tail_base));
    if (lanes > 1) {
      llvm::Value* end = ir.CreateSelect(is_head, head.second, tail.second);
      // The tail may be the whole range, more than 32 bits count.
      llvm::Value* reach = ir.CreateAdd(l.base, e.Int(lanes));
      MaskRange(e, &l, ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, reach));
    }
    e.SetLanes(l);
    return body({});
  });
}

}  // namespace

Widths ChooseWidths(Emitter& e, const Exprs& roots, const std::vector<DType>& stored, int loop,
                    int64_t extent) {
  const Profile p = ProfileOf(e, roots, loop);
  int bits = p.widest_bits;
  for (DType t : stored) bits = std::max(bits, 8 * Emitter::Bytes(t));
  const int native = std::max(1, std::min(e.target().vector_bits / bits, kMaxLanes));
  Widths w{std::min(native * RegistersAtOnce(p), kMaxLanes), e.target().masks ? native : 1};
  if (extent >= 0) {
    if (extent < native) {
      // One short vector where the extent is a power of two, one masked vector where masks are
      // fast.
      w.main = (extent & (extent - 1)) == 0 && extent > 1 ? int(extent)
               : e.target().masks                         ? 1
                                                          : w.main;
    }
    while (w.main > native && (w.main > extent || extent % w.main != 0)) w.main /= 2;
    while (w.main > extent && w.main > 1) w.main /= 2;
  }
  return w;
}

Carried ForLanes(Emitter& e, int loop, llvm::Value* lo, llvm::Value* hi, int64_t extent,
                 const Widths& w, bool barrier, Carried c, const LaneBody& body) {
  auto& ir = e.ir();
  llvm::Value* middle = lo;
  if (w.main > 1) {
    const int64_t whole = extent >= 0 ? extent / w.main : -1;
    if (extent == w.main) {
      Lanes l;
      l.loop = loop;
      l.count = w.main;
      l.base = lo;
      c.main = e.Unrolled(Emitter::IndexBit(loop), lo, [&] {
        e.SetLanes(l);
        return body(c.main);
      });
      return c;
    }
    if (whole != 0) {
      middle = ir.CreateAdd(lo, RoundDown(e, ir.CreateSub(hi, lo), w.main));
      c.main = LaneLoop(e, loop, lo, middle, w.main, false, whole < 0, barrier, c.main, body);
    }
    if (extent >= 0 && extent % w.main == 0) return c;
  }
  c.tail = LaneLoop(e, loop, middle, hi, w.tail, w.tail > 1, extent < 1, barrier, c.tail, body);
  return c;
}

void ForFewLanes(Emitter& e, int loop, llvm::Value* lo, llvm::Value* hi, const Widths& w,
                 const LaneBody& body) {
  LaneLoop(e, loop, lo, hi, w.tail, w.tail > 1, true, false, {}, body);
}

std::vector<KernelStore> ExpandedStores(const Kernel& kernel) {
  std::vector<KernelStore> stores = kernel.stores;
  for (KernelStore& s : stores) {
    s.value = ExpandMath(s.value);
    s.offset = ExpandMath(s.offset);
  }
  return stores;
}

void EmitStores(Emitter& e, const std::vector<KernelStore>& stores, bool streaming) {
  Values values;
  for (const KernelStore& s : stores) {
    if (s.flag)
      e.EmitFlag(s);
    else
      values.push_back(e.StoredValue(s));
  }
  // Flags are the last ones.
  for (size_t i = 0; i < values.size(); ++i) e.EmitStore(stores[i], values[i], streaming);
}

bool StoreRange(Emitter& e, const std::vector<KernelStore>& stores, int loop, llvm::Value* lo,
                llvm::Value* hi, int64_t extent, bool whole, bool barrier, const LaneBody& before) {
  auto& ir = e.ir();
  const Kernel& k = e.kernel();
  Exprs values;
  std::vector<DType> types;
  for (const KernelStore& s : stores) {
    values.push_back(s.value);
    types.push_back(k.buffers[size_t(s.buffer)].dtype);
  }
  Widths w = ChooseWidths(e, values, types, loop, extent);
  const auto body = [&](bool streaming) -> LaneBody {
    return [&e, &stores, &before, streaming](const Values&) -> Values {
      if (before) before({});
      EmitStores(e, stores, streaming);
      return {};
    };
  };

  // Whether to write past the caches: known now, at the start of the kernel, or never.
  bool streaming = e.target().streaming_bytes >= 0 && w.main > 1 &&
                   ProfileOf(e, values, loop).ops <= kMaxStreamingOps &&
                   (extent < 0 || extent >= kMinStreamingExtent);
  SymInt total = 0;
  for (const KernelStore& s : stores) {
    if (s.flag) continue;
    const int bytes = Emitter::Bytes(k.buffers[size_t(s.buffer)].dtype);
    total = e.names().Name(total + k.buffers[size_t(s.buffer)].num_elements * bytes);
    streaming = streaming && e.IsContiguous(s.offset, loop) && w.main * bytes >= 16;
  }
  if (total.is_const() && total.value() < e.target().streaming_bytes) streaming = false;
  if (!streaming) {
    const bool rest = !whole || extent < 0 || extent % w.main != 0;
    if (rest && w.main == w.tail && ProfileOf(e, values, loop).ops > kMaxTwiceOps) w.main = 1;
    ForLanes(e, loop, lo, hi, whole ? extent : -1, w, barrier, {}, body(false));
    return false;
  }

  // Elements up to the first cache line of the first output; the other outputs must meet a line
  // there, too. Whole vectors from end to end leave no room for that: then the outputs must begin
  // on a line.
  const bool exact = whole && extent >= 0 && extent % w.main == 0;
  const bool large = total.is_const();
  llvm::Value* use = nullptr;  // null: always
  const auto require = [&](llvm::Value* cond) { use = use ? ir.CreateAnd(use, cond) : cond; };
  if (!large) require(ir.CreateICmpSGE(e.Dim(total), e.Int(e.target().streaming_bytes)));
  llvm::Value* head = exact ? e.Int(0) : nullptr;
  for (const KernelStore& s : stores) {
    if (s.flag) continue;
    const int bytes = Emitter::Bytes(k.buffers[size_t(s.buffer)].dtype);
    llvm::Value* p = ir.CreateGEP(e.MemoryType(k.buffers[size_t(s.buffer)].dtype),
                                  e.RowPointer(s.buffer, s.offset, loop), lo);
    llvm::Value* address = ir.CreatePtrToInt(p, ir.getInt64Ty());
    if (!head) {
      // Always reached: a pointer is a multiple of its element's size.
      head = ir.CreateUDiv(ir.CreateAnd(ir.CreateNeg(address), e.Int(63)), e.Int(bytes));
      head = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, head, ir.CreateSub(hi, lo));
      continue;
    }
    llvm::Value* at = ir.CreateAdd(address, ir.CreateMul(head, e.Int(bytes)));
    require(ir.CreateICmpEQ(ir.CreateAnd(at, e.Int(63)), e.Int(0)));
  }
  const auto if_used = [&](llvm::Value* v, llvm::Value* otherwise) {
    return use ? ir.CreateSelect(use, v, otherwise) : v;
  };
  llvm::Value* start = exact ? lo : if_used(ir.CreateAdd(lo, head), lo);
  llvm::Value* middle =
      exact ? hi : ir.CreateAdd(start, RoundDown(e, ir.CreateSub(hi, start), w.main));
  llvm::Value* last = if_used(middle, start);
  LaneLoop(e, loop, start, last, w.main, false, true, barrier, {}, body(true));
  // What does not go past the caches: all of a small output, in wide vectors; outputs that never
  // meet a line together are rare enough for narrow ones, where those are not single elements.
  if (use && (!large || w.tail == 1)) {
    LaneLoop(e, loop, last, middle, w.main, false, true, barrier, {}, body(false));
    last = middle;
  }
  if (!exact)
    EndsLoop(e, loop, {lo, start}, {last, hi}, w.tail, barrier, body(false));
  else if (last != hi)
    LaneLoop(e, loop, last, hi, w.tail, false, true, barrier, {}, body(false));
  return true;
}

/// The index tuple of a row.
static Values IndexOf(Emitter& e, int num_loops, llvm::Value* row) {
  Values index(static_cast<size_t>(num_loops));
  for (int k = num_loops - 1; k > 0; --k) {
    llvm::Value* d = e.Dim(e.kernel().dims[size_t(k)]);
    index[size_t(k)] = e.ir().CreateURem(row, d);
    row = e.ir().CreateUDiv(row, d);
  }
  index[0] = row;
  return index;
}

void ForRows(Emitter& e, int num_loops, llvm::Value* first, llvm::Value* last,
             const std::function<void(llvm::Value*)>& body) {
  auto& ir = e.ir();
  LoopSpec spec;
  spec.lo = first;
  spec.hi = last;
  spec.maybe_empty = false;
  const Values index = num_loops > 1 ? IndexOf(e, num_loops, first) : Values();
  if (num_loops == 1) spec.bit = Emitter::IndexBit(0);
  e.Loop(spec, index, [&](llvm::Value* row, const Values& at) {
    for (size_t k = 0; k < at.size(); ++k) e.Define(Emitter::IndexBit(int(k)), at[k]);
    if (e.kernel().has_rows()) e.Define(Emitter::kRowBit, row);
    body(row);
    // The next tuple: add one to the last index and carry.
    Values next = at;
    llvm::Value* carry = e.Int(1);
    for (size_t k = at.size(); k-- > 0;) {
      next[k] = ir.CreateAdd(at[k], carry);
      if (k == 0) break;
      llvm::Value* wraps = ir.CreateICmpEQ(next[k], e.Dim(e.kernel().dims[k]));
      next[k] = ir.CreateSelect(wraps, e.Int(0), next[k]);
      carry = ir.CreateZExt(wraps, ir.getInt64Ty());
    }
    return next;
  });
}

void AtRow(Emitter& e, int num_loops, llvm::Value* row, const std::function<void()>& body) {
  const Values index = IndexOf(e, num_loops, row);
  e.Unrolled(Emitter::IndexBit(0), index[0], [&]() -> Values {
    for (int k = 1; k < num_loops; ++k) e.Define(Emitter::IndexBit(k), index[size_t(k)]);
    body();
    return {};
  });
}

void ForWholeRows(Emitter& e, llvm::Value* begin, llvm::Value* end,
                  const std::function<void(llvm::Value*, llvm::Value*)>& whole,
                  const std::function<void(llvm::Value*, llvm::Value*)>& part) {
  auto& ir = e.ir();
  const int loops = int(e.kernel().dims.size());
  llvm::Value* inner = e.Dim(e.kernel().dims.back());
  llvm::Value* first = ir.CreateUDiv(ir.CreateAdd(begin, ir.CreateSub(inner, e.Int(1))), inner);
  llvm::Value* last = ir.CreateUDiv(end, inner);
  whole(first, last);
  llvm::Value* head =
      ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, ir.CreateMul(first, inner));
  llvm::Value* tail =
      ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, head, ir.CreateMul(last, inner));
  LoopSpec ends;
  ends.lo = e.Int(0);
  ends.hi = e.Int(2);
  ends.maybe_empty = false;
  e.Loop(ends, {}, [&](llvm::Value* which, const Values&) -> Values {
    llvm::Value* is_head = ir.CreateICmpEQ(which, e.Int(0));
    llvm::Value* from = ir.CreateSelect(is_head, begin, tail);
    llvm::Value* to = ir.CreateSelect(is_head, head, end);
    llvm::Value* row = ir.CreateUDiv(from, inner);
    llvm::Value* start = ir.CreateMul(row, inner);
    // The row behind the last one may have no point, and no index to read.
    e.If(
        ir.CreateICmpSLT(from, to),
        [&] {
          AtRow(e, loops - 1, row,
                [&] { part(ir.CreateSub(from, start), ir.CreateSub(to, start)); });
        },
        [] {});
    return {};
  });
}

void ForPoints(Emitter& e, int num_loops, llvm::Value* begin, llvm::Value* end,
               const std::function<void(llvm::Value*, llvm::Value*)>& body) {
  auto& ir = e.ir();
  if (num_loops == 1) {
    body(begin, end);
    return;
  }
  llvm::Value* inner = e.Dim(e.kernel().dims[size_t(num_loops) - 1]);
  llvm::Value* first = ir.CreateUDiv(begin, inner);
  llvm::Value* last = ir.CreateAdd(ir.CreateUDiv(ir.CreateSub(end, e.Int(1)), inner), e.Int(1));
  llvm::Value* first_lo = ir.CreateSub(begin, ir.CreateMul(first, inner));
  llvm::Value* last_hi = ir.CreateSub(end, ir.CreateMul(ir.CreateSub(last, e.Int(1)), inner));
  ForRows(e, num_loops - 1, first, last, [&](llvm::Value* row) {
    llvm::Value* lo = ir.CreateSelect(ir.CreateICmpEQ(row, first), first_lo, e.Int(0));
    llvm::Value* hi =
        ir.CreateSelect(ir.CreateICmpEQ(ir.CreateAdd(row, e.Int(1)), last), last_hi, inner);
    body(lo, hi);
  });
}

}  // namespace weft::llvmgen
