/// search.h: rearrangements of few words by neighbours and copies, searched through (private to
/// move/).
#pragma once

#include <optional>
#include <vector>

#include "move.h"

namespace hsimd {

/// Instructions in order, one word in every place of the mask each; nullopt where the memory has no
/// ring, the machine too many places or words (kMostSearchedWords), or the beam finds no way of at
/// most `most` instructions.
std::optional<std::vector<Instruction>> SearchWords(const Machine& machine, int memory,
                                                    const std::vector<WordMove>& words,
                                                    const std::vector<SpareWords>& spare, int beam,
                                                    int64_t most);

inline constexpr int kMostSearchedWords = 16;

}  // namespace hsimd
