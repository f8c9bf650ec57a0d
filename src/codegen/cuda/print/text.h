/// text.h: what the two CUDA template printers share; private to src/codegen/cuda.
#pragma once

#include <string>
#include <vector>

#include "codegen/ctext/emit.h"
#include "printer.h"

namespace weft::cuda {

using ctext::Emitter;

/// Of a divisor in [1, 2^31): the multiplier in the lower half, the shift in the upper one. n /
/// divisor is n * multiplier >> shift for n in [0, 2^31).
uint64_t Multiplier(int64_t divisor);

/// One operation over many operands, which all are read at the same offset (operands.cc).
struct OperandChain {
  Expr end, begin;  ///< end = begin op table[first] op table[first + 1] ..
  Expr fold;        ///< a Reduce by the operation
  Expr offset;
  DType stored = DType::kUnknown;
  int first = 0, count = 0;  ///< words of the table
};
/// Of a kernel with more operands than fit into parameters: the table has its buffers, its symbols,
/// then the operands of chains.
struct OperandTable {
  bool used = false;
  std::vector<int> chained;          ///< buffers, from the word behind the symbols on
  std::vector<OperandChain> chains;  ///< those that others begin with before them
  std::vector<bool> direct;          ///< per buffer: used by name
};
OperandTable FindOperandTable(const Kernel& kernel, const std::vector<KernelStore>& stores);
/// Computes the chains at the innermost frame.
void PrintChains(Emitter* e, const OperandTable& table);

/// Body of an elementwise kernel, without the entry's head. `block` and `blocks` are its place in
/// the grid and the grid's extent. `lean`: as little text as does it.
void PrintElementwise(Emitter* e, const Kernel& kernel, const std::vector<KernelStore>& stores,
                      const OperandTable& table, bool lean);
/// Work items that a block takes at a time.
int64_t ElementwiseItems(const Kernel& kernel, const std::vector<KernelStore>& stores);
inline constexpr int kElementwiseBlock = 256;

/// Inputs that are read across: contiguous along `loop`, where the outputs are along
/// the last one (transpose.cc).
struct TransposePlan {
  int loop = -1;
  std::vector<Expr> loads;  ///< empty: there are none
};
TransposePlan FindTranspose(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores);
void PrintTransposed(Emitter* e, const Kernel& k, const std::vector<KernelStore>& stores,
                     const TransposePlan& plan);
int64_t TransposeItems();

/// The entries of a kernel beside the plain one (printer.h).
bool HasNarrowTwin(const Kernel& kernel);
bool HasMulti(const Kernel& kernel);
/// May it be launched in steps?
bool HasSteps(const Kernel& kernel, int stages, const CudaTuning& tuning);
/// Run-time extents by which flat positions are divided, in the order of their multipliers.
std::vector<SymInt> Divisors(const Kernel& kernel);

/// The part table of a MULTI entry, for a kernel of so many buffers and symbols:
///   u32 parts
///   u32 first[capacity]   the first block of each
///   one record a part, aligned to 8 bytes, of 8-byte words: buffers, d0 .., total
struct MultiTable {
  const char* suffix;
  int64_t bytes;  ///< of a kernel's parameters
};
inline constexpr MultiTable kMultiTables[] = {{"_m4k", kLeastParameterBytes},
                                              {"_m32k", kMostParameterBytes}};
struct MultiLayout {
  int64_t capacity, words, first_record, size;
};
MultiLayout LayoutMulti(int64_t bytes, int buffers, int symbols);

/// True when `offset` moves by one element with loop `loop`.
bool IsContiguous(const Expr& offset, int loop);

/// Loads under `roots` that can be read as vectors along the last loop: at consecutive offsets and
/// not guarded, in the order of first use.
std::vector<Expr> VectorLoads(Emitter* e, const Kernel& kernel, const Exprs& roots);

/// `offset` with the last loop's index replaced by loop number dims.size(), which stands for the
/// first of a vector.
Expr AtVectorBase(const Kernel& kernel, const Expr& offset);

/// Largest element size in bytes among `stores` and `loads` that are vectorised; 0 for none.
int WidestElement(const Kernel& kernel, const std::vector<KernelStore>& stores,
                  const std::vector<Expr>& loads);

/// Number of distinct nodes of all stores: how large a printed body is.
int64_t BodySize(const std::vector<KernelStore>& stores);
bool HasReduce(const std::vector<KernelStore>& stores);
Exprs Roots(const std::vector<KernelStore>& stores);

/// Emits values and then writes of `stores` at the innermost frame. Stores in `vectors` go to lane
/// `lane` of that variable.
void PrintStores(Emitter* e, const std::vector<KernelStore>& stores,
                 const std::vector<std::string>& vectors, const std::string& lane);

}  // namespace weft::cuda
