/// in_place.h: moves of the words that change alone, by class of places (private to move/).
#pragma once

#include <optional>
#include <vector>

#include "tree.h"

namespace hsimd {

enum class By { kNeighbours, kTree, kEither };

/// Instructions in an order that is right where source and target share words: what goes by other
/// memories or over several neighbours is read first; shifts and copies follow, none before all
/// that read the words it writes; where they wait for each other in a circle one goes by spare
/// words. `boxes` differ by a constant (CutByDifference), none stays. nullopt where a box cannot be
/// moved that way, spare words do not suffice, or over `most` instructions are needed.
std::optional<std::vector<Instruction>> MoveClasses(const Machine& machine, const TensorAt& from,
                                                    const TensorAt& to,
                                                    const std::vector<Box>& boxes, By by,
                                                    SpareSpace spare, int64_t most);

}  // namespace hsimd
