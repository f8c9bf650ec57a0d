/// emit.h: turns expressions into statements of C or CUDA C++ text; private to code generation.
///
/// Each interned node becomes one `const` temporary in the outermost scope (`Frame`) in which
/// everything that it depends on is bound, so a sub-expression is computed once per loop in which
/// it varies and loop invariants leave their loops. Frames hold their own text; a statement that
/// belongs outside is added to an outer frame while inner ones are still open.
///
/// What may leave a loop: everything but a load, because nothing else can fault. A load leaves a
/// loop only if the loop certainly runs (constant extents); a Reduce always leaves, under a test
/// that the loops it left would have run.
///
/// Index arithmetic is i64 in expressions; where its range provably fits it is computed in 32 bits,
/// which matters for divisions on a GPU.
#pragma once

#include <bitset>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "helpers.h"
#include "weft/codegen/kernel/kernel.h"

namespace weft::ctext {

/// What is known of a node before it is printed.
struct NodeInfo {
  std::bitset<64> loops;       ///< kernel loops it depends on
  std::bitset<256> variables;  ///< free reduction variables, 16 a level
  bool reads = false;          ///< contains a load that is not inside a Reduce
  bool narrow = false;         ///< i64 held in an i32
  bool row_reduce = false;     ///< of a row kernel: a Reduce that is computed once per row
  Range range;                 ///< of i64 nodes
};

class WEFT_API Emitter {
 public:
  Emitter(Helpers* helpers, const Kernel& kernel);

  /// Name or literal that holds `e`, after the statements that compute it. `wide`: i64 as 64 bits.
  std::string Value(const Expr& e, bool wide = false);
  std::string Dim(SymInt d) { return Value(Expr::Dim(d)); }
  /// As Value, converted to what memory holds.
  std::string Stored(const Expr& e);
  const NodeInfo& Info(const Expr& e);

  // Frames. `nonempty` is a C condition under which the frame's statements run at all; empty: they
  // certainly run.
  void Push(std::string nonempty = {});
  std::string Pop();
  /// Pops and appends "head {", the frame's text and "}" to the frame around it.
  void PopInto(const std::string& head);
  void Line(const std::string& text) { frames_.back().text += text + "\n"; }
  /// Binds loop index `k` to the variable `name` in the innermost frame.
  void BindIndex(int k, const std::string& name);
  /// Makes the innermost frame the one that holds a row's reductions and what is computed from
  /// them.
  void BindRow() { frames_.back().loops.set(kRowBit); }
  /// Lets `name` stand for a node in the innermost frame.
  void BindNode(const Expr& e, const std::string& name) { frames_.back().names[Keep(e)] = name; }
  /// Declares loops [first, last) from the row-major position `flat` (an unsigned variable of
  /// FlatType()) and binds them.
  void BindFlat(const std::string& flat, int first, int last);
  /// The same for the first element of a vector along loop last - 1: that loop stays unbound and
  /// loop `base` (see AddLoop) gets its position, whose name is returned.
  std::string BindFlatBase(const std::string& flat, int first, int last, int base);
  /// An additional loop index beyond the kernel's own, with values in [0, extent of loop `like`).
  void AddLoop(int k, int like) { loop_hi_[k] = loop_hi_[like]; }
  /// Flat positions below 2^31 are divided by the k-th of these extents as
  /// `x * (u32)m<k> >> (m<k> >> 32)`, where m<k> is a variable of type u64. The kernel has
  /// small_index.
  void SetMultipliers(std::vector<SymInt> extents) { multipliers_ = std::move(extents); }
  std::string FlatType() const { return kernel_.small_index ? "u32" : "u64"; }
  std::string IndexType(int k) const { return loop_hi_.at(k) <= INT32_MAX ? "i32" : "i64"; }
  std::string Fresh(const char* prefix) { return prefix + std::to_string(next_++); }
  /// Condition that a loop over `extents` runs at all; empty when that is certain.
  std::string Nonempty(const std::vector<SymInt>& extents);

  // Parts of reductions, shared with printers that reduce over threads.
  /// Type in which a Reduce is accumulated, and the value it starts from.
  static DType Accumulator(const ExprNode& reduce);
  std::string Neutral(const ExprNode& reduce);
  /// Combination of two accumulators (not for ArgMin / ArgMax).
  std::string Combine(const ExprNode& reduce, const std::string& a, const std::string& b);
  /// ArgMin / ArgMax: is `a` more extreme than `b`; NaN is most extreme.
  std::string Better(const ExprNode& reduce, const std::string& a, const std::string& b);
  /// Element of a buffer in memory form as a value, and back.
  std::string FromMemory(DType t, const std::string& text);
  std::string ToMemory(DType t, const std::string& text);

  Helpers& helpers() { return *helpers_; }
  static bool IsArg(const ExprNode& n) {
    return n.reduce_op() == ReduceOp::kArgMin || n.reduce_op() == ReduceOp::kArgMax;
  }

 private:
  struct Frame {
    std::string text, nonempty;
    bool conditional = false;
    bool rare = false;  ///< what is computed here stays here
    std::bitset<64> loops;
    std::bitset<256> variables;
    std::unordered_map<const ExprNode*, std::string> names;
  };

  /// Stands for "depends on a row reduction" among the loops of a NodeInfo.
  static constexpr size_t kRowBit = 63;

  const ExprNode* Keep(const Expr& e);
  void Analyze(const Expr& root);
  NodeInfo Describe(const ExprNode& n);
  bool IsRowReduce(const ExprNode& n, const NodeInfo& described) const;
  Range RangeOf(const ExprNode& n) const;
  const NodeInfo& info(const ExprNode* n) const { return info_.at(n); }
  size_t Placement(const ExprNode& n) const;
  const std::string* Find(const ExprNode* n) const;
  void EmitNode(const ExprNode* n);
  void EmitReduce(const ExprNode* n);
  void EmitRareChoice(const ExprNode* n);
  std::string Text(const ExprNode& n);
  std::string BinaryText(const ExprNode& n);
  std::string UnaryText(const ExprNode& n);
  std::string CastText(const ExprNode& n);
  std::string DimText(SymInt d);
  Range DimRange(SymInt d) const;
  std::string FlatQuotient(const std::string& flat, SymInt extent);
  std::string Operand(const ExprNode& n, int i, bool wide);
  std::string TypeOf(const ExprNode& n) const;

  Helpers* helpers_;
  const Kernel& kernel_;
  std::vector<Frame> frames_;
  std::unordered_map<const ExprNode*, NodeInfo> info_;
  std::vector<Expr> keep_;
  std::map<int, int64_t> loop_hi_;                      ///< largest extents of loops
  std::map<std::pair<int, int>, int64_t> variable_hi_;  ///< and of reduction variables
  std::map<std::pair<int, int>, const ExprNode*> variables_;
  std::map<int, const ExprNode*> loops_;
  std::vector<SymInt> multipliers_;
  int next_ = 0;
};

/// Indents by braces.
WEFT_API std::string Indent(const std::string& text);

/// The kernel's stores with math calls expanded into basic operations.
WEFT_API std::vector<KernelStore> ExpandStores(const Kernel& kernel);

}  // namespace weft::ctext
