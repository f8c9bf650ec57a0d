/// build.h: what rules of Simplify in several files build and read. The rules themselves register
/// where they stand (weft/core/op/rewrite_rule.h).
#pragma once

#include <string>
#include <vector>

#include "weft/core/op/op_attr_types.h"

namespace weft::simplify {

/// A vector of extents as a node: constant where it can be.
NodeEntry ExtentVector(Graph& g, const std::vector<SymInt>& dims);
/// x with these extents, by an explicit target.
NodeEntry ReshapeTo(Graph& g, const NodeEntry& x, const std::vector<SymInt>& dims,
                    std::string name = {});
/// Does a node read `e`, or is it an output of the graph?
bool IsRead(RewriteContext& ctx, const NodeEntry& e);
/// The attribute perm of a Transpose; empty where it is not given.
Ints GivenPerm(const NodePtr& transpose);
/// The same, the reverse order of `rank` axes where it is not given.
Ints PermOf(const NodePtr& transpose, int rank);
bool IsIdentity(const Ints& perm);

}  // namespace weft::simplify
