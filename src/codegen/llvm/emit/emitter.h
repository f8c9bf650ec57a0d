/// emitter.h: turns expressions into LLVM IR inside a nest of loops; the loops themselves come from
/// the templates.
///
/// A `Scope` is a place where instructions may go: the entry, the body of a loop. The emitter knows
/// for every expression on which loop variables it depends (one bit each) and puts its instructions
/// into the outermost scope that has them all, so that nothing invariant is computed inside a loop,
/// without any pass over the IR. An expression is emitted once a scope.
///
/// One scope of the nest may be a *vector scope* (`Lanes`): one loop runs in vector lanes there. A
/// value is an LLVM vector iff it depends on that loop; all others are scalars, broadcast where
/// they meet a vector. Vectors may be several registers long: LLVM splits them, which is how loops
/// are unrolled and latencies hidden.
///
/// In registers bool is i1, f16 and bf16 are float, everything else itself; in memory bool is a
/// byte 0 / 1. No fast-math flag is ever set: results are those of the expressions operation by
/// operation.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "codegen/expr/expr_pool.h"
#include "extent_names.h"
#include "target.h"
#include "weft/codegen/kernel/kernel.h"

namespace weft::llvmgen {

using Values = std::vector<llvm::Value*>;

/// What is known about an expression before it is emitted.
struct NodeInfo {
  uint64_t deps = 0;  ///< loop variables it depends on
  bool has_load = false;
  double weight = 0;  ///< operations to recompute it, shared parts counted once a use; capped
  int64_t lo = INT64_MIN, hi = INT64_MAX;  ///< range of an integer
};

struct Lanes {
  int loop = -1;  ///< Index(loop) runs over base, base + 1 ...
  int count = 1;  ///< 1: all values are scalars
  llvm::Value* base = nullptr;
  llvm::Value* mask = nullptr;  ///< lanes that exist; null: all
  /// with a mask: how many exist, if not all (i32; more than `count` means all)
  llvm::Value* left = nullptr;
};

struct Scope {
  std::vector<std::pair<int, llvm::Value*>> variables;  ///< bit of a loop variable, its value
  uint64_t defines = 0;
  bool barrier = false;  ///< loads stay below: the loop may have no iteration
  bool rare = false;     ///< everything stays below: it is seldom run
  bool has_lanes = false;
  Lanes lanes;
  llvm::Instruction* ip = nullptr;  ///< where code goes while an inner scope is open
  ExprMap<llvm::Value*> memo;
  std::map<std::pair<const ExprNode*, int>, llvm::Value*> splats;
  std::map<std::pair<const ExprNode*, int>, llvm::Value*> pointers;
  std::vector<const ExprNode*> flags;  ///< raised here
  std::map<std::pair<const ExprNode*, const ExprNode*>, std::vector<llvm::Value*>> places;
};

/// An accumulator of a reduction: one register value, or value and position.
struct Accumulator {
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kUnknown;  ///< of the body
  bool narrow = false;            ///< positions fit in 32 bits: half as many registers
  bool positional() const { return op == ReduceOp::kArgMin || op == ReduceOp::kArgMax; }
  DType position() const { return narrow ? DType::kI32 : DType::kI64; }
  int size() const { return positional() ? 2 : 1; }
};

struct LoopSpec {
  llvm::Value* lo = nullptr;
  llvm::Value* hi = nullptr;
  int64_t step = 1;
  int bit = -1;  ///< loop variable that the induction variable is; -1: none
  bool maybe_empty = true;
  bool barrier = false;
};

class Emitter {
 public:
  Emitter(const Kernel& kernel, const CpuTarget& target, llvm::Module& module, ExtentNames& names);

  // Function frame (emitter.cc). Begin leaves the builder in the entry scope, where begin < end
  // holds. `suffix`: of the function's name.
  void Begin(const std::string& suffix = "");
  llvm::Value* begin() const { return begin_; }
  llvm::Value* end() const { return end_; }
  llvm::Value* scratch() const { return scratch_; }
  llvm::IRBuilder<>& ir() { return ir_; }
  const Kernel& kernel() const { return kernel_; }
  const CpuTarget& target() const { return target_; }

  // Loops and scopes (emitter.cc).
  using Body = std::function<Values(llvm::Value* iv, const Values& carried)>;
  /// for (iv = lo; iv < hi; iv += step) carried = body(iv, carried); returns what is carried out.
  Values Loop(const LoopSpec& spec, const Values& init, const Body& body);
  /// One iteration written out: the loop variable has a known value.
  Values Unrolled(int bit, llvm::Value* value, const std::function<Values()>& body);
  /// `barrier`: what is loaded inside stays inside, because addresses may be wrong where
  /// the condition is not.
  void If(llvm::Value* cond, const std::function<void()>& then,
          const std::function<void()>& otherwise, bool barrier = false);
  /// Makes the innermost scope a vector scope.
  void SetLanes(const Lanes& lanes);
  /// Innermost vector scope; null in scalar code.
  const Lanes* lanes() const;
  void Define(int bit, llvm::Value* value);
  /// From now on `e`, which depends on Index(loop) alone, is read out of the scratch: element i of
  /// the array that begins `start` bytes into it. `narrow`: of an i64 that fits, 32 bits lie there.
  struct Table {
    int loop = 0;
    SymInt start;
    bool narrow = false;
  };
  void UseTable(const Expr& e, const Table& table) { tables_.Set(e.get(), table); }
  /// Fixes the value of an expression in the innermost scope.
  void Preset(const Expr& e, llvm::Value* value);
  static int IndexBit(int loop) { return loop; }
  /// Stands for "the row" in a row kernel: its reductions depend on it even where they depend on no
  /// index.
  static constexpr int kRowBit = 31;
  /// True for a reduction that the row template computes once per row.
  bool IsRowReduce(const ExprNode& n);
  int ReduceBit(int level, int index);

  // Expressions (emitter.cc).
  const NodeInfo& Info(const Expr& e);
  bool DependsOn(const Expr& e, int loop) { return Info(e).deps >> IndexBit(loop) & 1; }
  llvm::Value* Get(const Expr& e);
  /// The value as `count` lanes (itself where count is 1).
  llvm::Value* GetLanes(const Expr& e, int count);
  llvm::Value* Dim(SymInt d);
  /// Shared by all functions of the kernel.
  ExtentNames& names() { return names_; }
  llvm::Value* Int(int64_t v) { return ir_.getInt64(uint64_t(v)); }

  // Types (memory.cc).
  llvm::Type* RegisterType(DType t, int lanes = 1);
  llvm::Type* MemoryType(DType t, int lanes = 1);
  llvm::Value* FromMemory(DType t, llvm::Value* v);
  llvm::Value* ToMemory(DType t, llvm::Value* v);
  llvm::Value* Splat(llvm::Value* v, int lanes);
  llvm::Value* Iota(int lanes, DType t = DType::kI64);
  static int LanesOf(llvm::Value* v);

  // Memory (memory.cc, uniform.cc).
  /// Bytes of one element in memory.
  static int Bytes(DType t);
  llvm::Value* Buffer(int buffer);
  llvm::Value* EmitLoad(const Expr& e);
  /// From now on contiguous loads also fetch what the next iteration of `loop` reads there into the
  /// caches; -1: no more.
  void FetchAhead(int loop) { ahead_ = loop; }
  /// Value of a store, before any store of the same iteration is written (outputs may lie on
  /// inputs).
  llvm::Value* StoredValue(const KernelStore& store);
  void EmitStore(const KernelStore& store, llvm::Value* value, bool streaming);
  /// The range flag: 1 is written where `value` is true at any lane; as far out as possible.
  void EmitFlag(const KernelStore& store);
  /// True when lane i + 1 is stored right after lane i.
  bool IsContiguous(const Expr& offset, int loop);
  /// Address of `offset` where Index(loop) is 0, computed as far out as possible.
  llvm::Value* RowPointer(int buffer, const Expr& offset, int loop);
  /// Scratch arrays hold register values: element `index` (a scalar) of the array that begins
  /// `start` bytes into the scratch, and its successors up to the current number of lanes.
  llvm::Value* LoadScratch(DType t, llvm::Value* start, llvm::Value* index);
  void StoreScratch(llvm::Value* start, llvm::Value* index, llvm::Value* value);
  /// Puts the stores past the caches in order before the kernel returns.
  void EmitFence();

  // Reductions (reduce.cc).
  Values InitAccumulator(const Accumulator& acc, int lanes);
  /// acc op= x; `position` (scalar or lanes, of acc.position()) for ArgMin / ArgMax only; where
  /// `mask` is false nothing changes.
  Values Accumulate(const Accumulator& acc, const Values& v, llvm::Value* x, llvm::Value* position,
                    llvm::Value* mask);
  /// Combines two partial results (ties of positions: the lower one).
  Values Merge(const Accumulator& acc, const Values& a, const Values& b);
  /// Folds halves until `to` lanes are left.
  Values Fold(const Accumulator& acc, Values v, int to);
  llvm::Value* EmitReduce(const Expr& e);

  // Operations on registers (ops.cc). Operands have equal numbers of lanes.
  llvm::Value* EmitUnary(UnOp op, DType t, llvm::Value* a);
  /// Of floats.
  llvm::Value* EmitQuotient(bool remainder, llvm::Value* a, llvm::Value* b);
  llvm::Value* EmitBinary(BinOp op, DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* EmitCast(DType from, DType to, llvm::Value* a);
  /// Lanes of floats as integers: NaN is 0, what is beyond the type its least or greatest value.
  llvm::Value* EmitSaturated(DType to, llvm::Value* a);
  llvm::Value* EmitConst(const ExprNode& n);
  llvm::Value* EmitPhilox(llvm::Value* seed, llvm::Value* counter);
  llvm::Value* EmitMinMax(bool max, DType t, llvm::Value* a, llvm::Value* b);

  /// Keeps an expression alive as long as its values may be asked for.
  const Expr& Keep(Expr e);

 private:
  void Learn(const ExprNode& n);
  NodeInfo LearnRange(const ExprNode& n, NodeInfo info);
  int ScopeOf(const NodeInfo& info) const;
  /// A block is split before `rest`, and ends in `branch` now: scopes that went on at `rest` go
  /// on before the branch.
  void MoveScopes(const llvm::Instruction* rest, llvm::Instruction* branch);
  llvm::Value* Lookup(const ExprNode* n);
  llvm::Value* EmitNode(const Expr& e);
  /// Select(unlikely c, a, b) of `count` lanes: a lane at a time, where any
  /// asks for it (rare.cc).
  llvm::Value* EmitRareChoice(const ExprNode& n, int count);
  /// After If: what either branch computed, which ended in that block.
  llvm::Value* Joined(std::pair<llvm::Value*, llvm::BasicBlock*> a,
                      std::pair<llvm::Value*, llvm::BasicBlock*> b);
  llvm::Value* EmitRareLane(const Expr& e, llvm::Value* lane);
  llvm::Value* EmitIntDivision(const ExprNode& n, int lanes);
  llvm::Value* Variable(int bit) const;
  /// Runs f with the scopes above `scope` closed and the builder at its insertion point.
  llvm::Value* InScope(int scope, const std::function<llvm::Value*()>& f);
  /// An operand of an FMA as `count` lanes.
  llvm::Value* FmaOperand(const Expr& e, int count);
  llvm::Value* ZeroAddress();
  llvm::Value* ReadTable(const ExprNode& n, const Table& table);
  /// Select(c, Load(.. guard c), constant) where all lanes agree on c: the load alone, from a block
  /// of that constant where c is false.
  bool IsLoadOrConstant(const ExprNode& n);
  llvm::Value* EmitLoadOr(const ExprNode& load, llvm::Value* guard, llvm::Constant* otherwise);
  /// Memory with `lanes` times the same value.
  llvm::Value* ConstantBlock(llvm::Constant* value, int lanes);
  void EmitFetchAhead(const ExprNode& load, llvm::Value* address);
  /// Where the loops of this function collect what raises the flag; looked at when it ends.
  llvm::Value* FlagSum(int buffer);
  llvm::Value* RoundBFloat16(llvm::Value* v);
  llvm::Value* EmitGather(const ExprNode& n, llvm::Value* mask);
  /// The lanes of `own`, 0 where the load's guard or the mask is false, one by one, where a loop
  /// inside of the lanes reads them again and again at other addresses `shared`; else none.
  std::vector<llvm::Value*> SharedPlaces(const ExprNode& n, const Expr& own, const Expr& shared);
  /// Lanes `step` elements apart, all of them or as many as the range mask says.
  llvm::Value* EmitShuffledLoad(const ExprNode& n, int64_t step, bool masked);
  /// A mask of lanes 0 .. last (i32, less than `lanes`).
  llvm::Value* FirstLanes(int lanes, llvm::Value* last);
  /// Null where neighbouring lanes do not share elements (repeated.cc).
  llvm::Value* EmitRepeatedLoad(const ExprNode& n, bool masked);
  Values ReduceLoops(const ExprNode& n, size_t k, const Accumulator& acc, int lanes,
                     llvm::Value* position, const Values& v);
  Expr AtZero(const Expr& offset, int loop);

  const Kernel& kernel_;
  const CpuTarget& target_;
  llvm::Module& module_;
  ExtentNames& names_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> ir_;
  llvm::Function* function_ = nullptr;
  llvm::Value *buffers_ = nullptr, *dims_ = nullptr, *begin_ = nullptr, *end_ = nullptr,
              *scratch_ = nullptr;
  llvm::GlobalVariable* zero_ =
      nullptr;      ///< what a guarded scalar load reads where its guard is false
  int ahead_ = -1;  ///< FetchAhead
  llvm::Function* flag_function_ = nullptr;  ///< that flag_sum_ is of
  llvm::Value* flag_sum_ = nullptr;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::map<std::pair<int, int>, int> reduce_bits_;
  ExprMap<std::unique_ptr<NodeInfo>> info_;
  std::deque<Expr> kept_;  // references stay valid while it grows
  std::map<std::pair<const ExprNode*, int>, Expr> at_zero_;
  std::map<std::pair<const ExprNode*, int>, Expr> coefficient_;
  std::map<const void*, llvm::Value*> dim_values_;
  std::map<int, llvm::Value*> buffer_values_;
  std::map<llvm::Constant*, llvm::Value*> constant_values_;
  std::map<std::pair<llvm::Constant*, int>, llvm::GlobalVariable*> blocks_;
  ExprMap<Table> tables_;
  Expr Coefficient(const Expr& offset, int loop);
};

/// Terms of a sum, from the left; none where there are more than are looked through.
Exprs TermsOf(const Expr& e);

}  // namespace weft::llvmgen
