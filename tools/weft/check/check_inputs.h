/// check_inputs.h: the inputs of `weft check`: finite values of several scales, and values that
/// arithmetic is easily wrong about, each within what the input feeds.
///
///   an index            of the axis that it selects from, counted from its end as well where
///                       the operator allows that
///   a shape             one that the operator's first operand can take
///   what decides sizes  small numbers: trip counts, the k of TopK, scales
///   any other           everything its dtype has
#pragma once

#include <vector>

#include "inputs.h"

namespace weft::tool {

/// What the values of a round are.
enum class CheckValues {
  kUnit,  ///< of scale 1; as are all values in which special ones stand
  kSmall,
  kLarge,
  kNaN,
  kInfinity,
  kNegativeZero,
  kSubnormal,
  kExtreme,  ///< largest, smallest normal, far apart
  kCorners,  ///< integers: least, greatest, around 0
};
const char* NameOf(CheckValues values);

class CheckInputMaker {
 public:
  explicit CheckInputMaker(const Graph& graph) : graph_(graph) {}

  /// The kinds of values that the inputs of this graph can have.
  std::vector<CheckValues> Kinds() const;
  /// All inputs; a function of the graph and the arguments. `shape_guess` counts up the shapes that
  /// an input of shape values may have, from 0; beyond the last they repeat. Throws kUnsupported
  /// for a dtype without such values.
  NamedTensors Make(CheckValues values, uint64_t seed, const SymBindings& bind,
                    const InputDims& dims, int shape_guess = 0) const;
  static constexpr int kShapeGuesses = 4;
  /// Some input holds shape values.
  bool GuessesShapes() const;

 private:
  const Graph& graph_;
};

}  // namespace weft::tool
