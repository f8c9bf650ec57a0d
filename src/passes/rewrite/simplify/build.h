/// build.h: what rules of Simplify in several files build and read. The rules themselves register
/// where they stand (weft/core/op/rewrite_rule.h).
#pragma once

#include <string_view>
#include <vector>

#include "weft/core/graph/accessors.h"
#include "weft/core/op/op_attr_types.h"

namespace weft::simplify {

/// A vector of extents as a node: constant where it can be.
NodeEntry ExtentVector(Graph& g, const std::vector<SymInt>& dims);
/// Output 0 of a new node. It has no name: what it takes the place of gives it one (value_name.h).
NodeEntry AddOp(RewriteContext& ctx, std::string_view op, const std::vector<NodeEntry>& inputs,
                AttrDict attrs = {});
/// x with these extents, by an explicit target.
NodeEntry ReshapeTo(Graph& g, const NodeEntry& x, const std::vector<SymInt>& dims);
/// x expanded to the shape of `n`, in its place.
NodeEntry ExpandTo(RewriteContext& ctx, const NodeEntry& x, const NodePtr& n);
/// The attribute perm of a Transpose; empty where it is not given.
Ints GivenPerm(const NodePtr& transpose);

/// The extents name data-dependent ones that the shape `source` does not: a node that states them
/// alone would cut the tie to what computes them.
bool CutsTie(const std::vector<SymInt>& dims, const Shape& source);
/// Proved: both shapes are known, and the same.
bool ProvedSame(const Shape& a, const Shape& b, const Facts& facts);
bool AllFinite(const Tensor& t);

}  // namespace weft::simplify
