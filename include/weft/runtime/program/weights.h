/// weights.h: what a program keeps of its constants.
#pragma once

#include <cstdint>

#include "weft/support/api.h"

namespace weft {

class Program;

/// Constants of a program that lie in a mapped file (LoadProgram) and which all calls keep packed
/// take no memory besides: their pages are given back. Those of bodies and regions of a program are
/// not counted.
struct WeightBytes {
  int64_t constants = 0;  ///< that are held as they are
  int64_t packed = 0;     ///< by the library calls of all sets of extents that are kept
};
WEFT_API WeightBytes WeightsOf(const Program& program);

}  // namespace weft
