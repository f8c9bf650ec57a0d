/// integer_cases.h: graphs of integer operators with inputs and the results
/// that integer_table.h gives them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "integer_table.h"

namespace weft::integers {

struct Run {
  std::map<std::string, TensorPtr> inputs;
  std::vector<TensorPtr> expected;  ///< an output each
};
struct Case {
  std::string name;
  Graph graph;
  std::vector<std::string> what;  ///< each output computes
  std::vector<Run> runs;
  bool floats = false;  ///< a double-precision interpreter need not agree
};

/// All pairs of 8-bit values; of wider types all pairs of corners, broadcast against each other.
Case Pairs(DType t);
/// The same of constants only.
Case ConstantPairs(DType t);
/// Scalars against each other and against a vector, a few pairs.
Case Scalars(DType t);
/// op(x, c) and op(c, x) for constants c.
Case Constants(DType t);
/// Where, Clip, and operators behind each other whose folding rules meet.
Case Chains(DType t);
/// Reductions, running sums and products.
Case Lines(DType t);
/// From one type to every other.
Case Casts(DType t);
/// Through a second type to a third.
Case CastChains(DType t);
Case FloatCasts(DType t);
/// Operands that are positions: Range, Shape, constants; with divisors of every sign.
std::vector<Case> IndexArithmetic();

/// Random graphs of integers: fused element-wise operators, positions, Gather
/// and Transpose between them.
Case RandomIntegers(uint64_t seed);

/// Everything above but the random ones, in a fixed order.
std::vector<Case> AllCases();

/// What differs first between a session of `program` and the expected results;
/// empty when nothing does.
using RunGraph = std::function<std::vector<TensorPtr>(const Run& run)>;
std::string Check(const Case& c, const RunGraph& run);

}  // namespace weft::integers
