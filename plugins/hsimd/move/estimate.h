/// estimate.h: about what a move costs, without planning it: for planners that compare thousands.
#pragma once

#include "move.h"

namespace hsimd {

/// Cycles that PlanMove(from, to) takes, about: some microseconds instead of milliseconds. 0 where
/// both have the same words in the same places of memories of one kind; bases do not count. For
/// each link on the way through the tree, the elements that one place below it needs, over the rate
/// of the mode that suits the copies; a mode that does not goes place by place under masks. Words
/// that stay in their PE are copied. INT64_MAX where no links lead there. Layouts hold no `Time`.
int64_t EstimateMove(const Machine& machine, const TensorAt& from, const TensorAt& to);

}  // namespace hsimd
