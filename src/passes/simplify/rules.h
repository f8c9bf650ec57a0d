/// rules.h: the rule groups of Simplify. A rule looks at one node and the facts about it and returns a replacement for
/// each of its outputs, or nothing. It must be right for every input; what it cannot prove it leaves alone. The right
/// side is never worse than the left.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/core/op_attr_types.h"

namespace weft::simplify {

struct Rule {
  const char* name;  ///< named by fuel and statistics
  FSimplify apply;
};

/// scaffold.cc: shape arithmetic whose result is known becomes constants and shape vectors.
std::vector<Rule> ScaffoldRules();
/// chains.cc: Reshape, Transpose, Expand: identities, chains, what broadcasting does by itself.
std::vector<Rule> ChainRules();
/// lookup.cc: products with one-hot rows become look-ups.
std::vector<Rule> LookupRules();

}  // namespace weft::simplify
