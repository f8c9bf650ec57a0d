/// plane_sums.h: the innermost loops of convolutions on planes: sums of runs at
/// fixed distances, in registers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::cpu {

constexpr int64_t kLanes = 16;
constexpr int64_t kMapsOfBlock = 4, kVectorsOfBlock = 4, kFloatsOfBlock = 16 * kLanes;

inline int64_t Vectors(int64_t floats) { return (floats + kLanes - 1) / kLanes; }

/// Where the sums of one block come from and go to.
struct Sums {
  const float* from;  ///< the first tap of the first sum
  int64_t from_row;   ///< what the next row of sums adds to it
  const int64_t* taps;
  int64_t count;   ///< of taps: weights of one filter
  const float* w;  ///< of the first filter
  const float* bias;
  float* to;
  int64_t to_map, to_row;
  int64_t last;  ///< floats that count of the last vector
};

/// Rows of one block: as many sums as registers hold, 16 beside what they are made of.
constexpr int RowsOf(int64_t maps, int64_t vectors) {
  return int(std::clamp<int64_t>(16 / (maps * vectors), 1, 4));
}
using BlockFn = void (*)(const Sums&);
/// For up to four filters and vectors, and as many rows as RowsOf says or one.
BlockFn BlockOf(int64_t maps, int64_t vectors, bool many_rows);

/// Is there code for this machine? Where there is none, the functions do nothing.
bool HasPlaneSums();
/// to[i] = from[2 i]
void TakeEverySecond(const float* from, float* to, int64_t n);
/// to[2 i] = even[i], to[2 i + 1] = odd[i]
void Interleave(const float* even, const float* odd, float* to, int64_t n);

/// Of the team that runs this.
int ThisThread();

}  // namespace weft::cpu
