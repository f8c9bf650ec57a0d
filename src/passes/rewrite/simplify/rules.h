/// rules.h: the rule groups of Simplify. A rule looks at one node and the facts about it and
/// returns a replacement for each of its outputs, or nothing. It must be right for every input;
/// what it cannot prove it leaves alone. The right side is never worse than the left.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/core/op/op_attr_types.h"

namespace weft::simplify {

struct Rule {
  const char* name;  ///< named by fuel and statistics
  FSimplify apply;
};

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

/// scaffold.cc: shape arithmetic whose result is known becomes constants and shape vectors.
std::vector<Rule> ScaffoldRules();
/// chains.cc: Reshape, Transpose, Expand: identities, chains, what broadcasting does by itself.
std::vector<Rule> ChainRules();
/// views.cc: what views and Transposes do and undo across each other.
std::vector<Rule> ViewRules();
/// pads.cc: Pad that convolution and pooling do by themselves.
std::vector<Rule> PadRules();
/// pools.cc: max-pooling and its gradient.
std::vector<Rule> PoolRules();
/// zeros.cc: structural zeros, complementary masks, negated terms.
std::vector<Rule> ZeroRules();
/// activations.cc: activations that were written out become one operator.
std::vector<Rule> ActivationRules();
/// lookup.cc: products with one-hot rows become look-ups.
std::vector<Rule> LookupRules();

/// variance.cc: variances that were written out as differences of moments.
std::vector<Rule> VarianceRules();

}  // namespace weft::simplify
