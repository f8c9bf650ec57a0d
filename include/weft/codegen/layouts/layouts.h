/// layouts.h: what layouts mean for a computation: index maps that follow them, and which operands
/// had better lie alike.
#pragma once

#include <vector>

#include "weft/codegen/lower/lower.h"

namespace weft {

/// The same computation on operands that lie so (inputs, then outputs; what is missing is plain):
/// where one lies with its channels last, its extents and the indices that it is read at, or the
/// position that its value is given at, come in the order of memory. So do the variables of
/// reductions, but for those whose result is a position.
WEFT_API ComputeSpec ApplyLayouts(const ComputeSpec& spec, const std::vector<Layout>& layouts);

/// Operands of a computation that share the loop over their channels, or those over their
/// positions, and none of them changes its role: the kernel walks through all of them in the order
/// of memory as long as they lie alike. An operand that is read with its axes permuted or mixed is
/// a group by itself.
struct LayoutGroup {
  std::vector<int> operands;  ///< inputs, then outputs; of rank 3 and more
  /// Operands that are read with strides in the innermost loop when this group lies plain,
  /// or with its channels last, and all others lie plain. Some may be of other groups, or
  /// occur more than once.
  std::vector<int> strided_plain, strided_last;
};
/// `side_by_side`: the outputs are computed apart from each other (form multi).
WEFT_API std::vector<LayoutGroup> LayoutGroups(const ComputeSpec& spec, bool side_by_side);

}  // namespace weft
