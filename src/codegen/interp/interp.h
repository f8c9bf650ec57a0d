/// interp.h: the compiled form of the interpreter; private to src/codegen.
///
/// A `Plan` computes one expression without Reduce nodes at every point of some loops, in blocks of
/// up to kLanes consecutive points of one of them (the lane loop). Registers hold a block each, as
/// doubles or int64. What does not depend on the lane loop is *uniform*: computed once a block, in
/// lane 0. What does not depend on the inner loops (of a reduction) is computed once before them.
#pragma once

#include <bitset>
#include <vector>

#include "codegen/lower/nest.h"
#include "weft/codegen/interp/interpreter.h"

namespace weft::interp {

inline constexpr int kLanes = 256;
inline constexpr int kMaxLoops = 256;
using LoopSet = std::bitset<kMaxLoops>;

/// Where values are read from: an input tensor, or the table of a reduction.
struct Source {
  DType dtype = DType::kUnknown;
  const void* data = nullptr;
  std::vector<int64_t> dims;
  bool raw = false;  ///< a table: double or int64 whatever the dtype
};

/// constant + sum of coefficient * loop position + sum of coefficient * uniform register.
struct Affine {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> loops, registers;
  int64_t lane_step = 0;
};

struct Instr {
  ExprKind kind{};
  uint8_t op = 0;
  DType dtype = DType::kUnknown, from = DType::kUnknown;  ///< result, operands
  bool uniform = false;
  int dst = -1;
  int in[3] = {-1, -1, -1};
  bool in_uniform[3] = {false, false, false};
  double value = 0;  ///< constant
  int64_t bits = 0;
  // kLoad
  int source = -1;
  std::vector<Affine> at;  ///< per dimension, used where index[d] < 0
  std::vector<int> index;  ///< register of a dimension that is not affine along the lanes
  std::vector<char> index_uniform;
  int guard = -1;
  bool guard_uniform = false;
};

struct Plan {
  std::vector<Instr> outer, inner;  ///< before and inside the inner loops
  int lane_loop = -1;               ///< -1: one point at a time
  int num_registers = 0;
  int result = -1;
  bool result_uniform = false;
  DType dtype = DType::kUnknown;
  int strided_loads = 0;  ///< cost of the choice of lane loop
};

/// `tables[k]`: loops of the table behind slot k, `first_table` its number among the sources.
struct CompileInput {
  int num_loops = 0;
  LoopSet inner_loops;
  const std::vector<Source>* sources = nullptr;
  int first_table = 0;
  const std::vector<std::vector<int>>* tables = nullptr;
};
Plan CompilePlan(const Expr& e, int lane_loop, const CompileInput& input);

/// Loops that e depends on, tables included.
LoopSet LoopsOf(const Expr& e, const std::vector<std::vector<int>>& tables);

/// Registers of one thread.
class Machine {
 public:
  Machine(const Plan& plan, const std::vector<Source>& sources, const std::vector<int64_t>& extents,
          InterpretMode mode);
  /// Runs a list of instructions for `lanes` points from positions()[lane_loop] on.
  void Run(const std::vector<Instr>& code, int lanes);
  std::vector<int64_t>& positions() { return positions_; }
  const double* doubles(int reg) const { return &registers_[size_t(reg) * kLanes]; }
  const int64_t* ints(int reg) const { return reinterpret_cast<const int64_t*>(doubles(reg)); }

 private:
  double* D(int reg) { return &registers_[size_t(reg) * kLanes]; }
  int64_t* I(int reg) { return reinterpret_cast<int64_t*>(D(reg)); }
  int64_t At(const Affine& a);
  void Step(const Instr& in, int n);
  void Load(const Instr& in, int n);
  void Unary(const Instr& in, int n);
  void Binary(const Instr& in, int n);
  void Convert(const Instr& in, int n);

  const std::vector<Source>& sources_;
  const bool typed_;
  std::vector<int64_t> positions_;
  std::vector<double> registers_;
};

inline bool IsFloatRegister(DType t) { return IsFloat(t); }

}  // namespace weft::interp
