/// box.h: what moves, as boxes: sets of words that an affine map of digits describes on both sides
/// (private to move/).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "move.h"

namespace hsimd {

inline constexpr int kMostLevels = 8;
inline constexpr int kWord = kMostLevels;  ///< the coordinate of the address

/// Place on each level (within its parent), and address in the memory under kWord.
using Coords = std::array<int64_t, kMostLevels + 1>;

struct Step {
  int64_t size = 1;
  Coords from{}, to{};  ///< what one step of the digit adds
};

/// Element d of the box lies at from + sum d_i * steps[i].from and goes to to + sum d_i *
/// steps[i].to.
struct Box {
  Coords from{}, to{};
  std::vector<Step> steps;
  int64_t words() const;  ///< copies counted
};

/// All words that have to come from one tensor to the other, each target word once, in the fewest
/// boxes: one if the radices of both layouts fit and nothing is padded. Where the source has an
/// element several times, the copy in the target's own place is taken if there is one. Throws
/// kLimit above `most` boxes.
std::vector<Box> Refine(const Machine& machine, const TensorAt& from, const TensorAt& to,
                        int64_t most);

/// Cuts the digits that differ between the sides in coordinates [0, coordinate] or, for kWord, in
/// any, so that in each box the difference is constant; boxes where `keep` is false are dropped.
/// False if there would be more than `most`.
bool CutByDifference(const std::vector<Box>& boxes, bool words_too, int64_t most,
                     std::vector<Box>& out);

/// The lowest level at which source and target of all words lie under one place.
int CommonLevel(const std::vector<Box>& boxes, int most);

bool SamePlaces(const Box& box);  ///< all levels equal for all elements
bool Stays(const Box& box);       ///< and all addresses

}  // namespace hsimd
