/// rewrite_rule.h: rewrite rules that Simplify applies beside its own and
/// beside each operator's FSimplify.
///
///   std::vector<NodeEntry> DropDoubleNeg(RewriteContext& ctx, const NodePtr& n) { ... }
///   WEFT_REGISTER_REWRITE_RULE("double-neg", "-(-x) -> x", DropDoubleNeg);
///
/// A rule looks at one node and the facts about it and returns a replacement of equal shape, dtype
/// and value for each of its outputs, or nothing. It must be right for every input and never make
/// the graph worse; rules run until none applies.
#pragma once

#include <string>
#include <vector>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {

struct RewriteRule {
  std::string name;  ///< named by fuel
  std::string doc;
  FSimplify apply;
  Owner owner;
};

/// A name registered twice is refused, naming both owners.
WEFT_API void RegisterRewriteRule(RewriteRule rule);
/// In the order of their names.
WEFT_API std::vector<RewriteRule> ListRewriteRules();

#define WEFT_REGISTER_REWRITE_RULE(Name, Doc, Function)                     \
  [[maybe_unused]] static const bool WEFT_CONCAT(weft_rule_, __COUNTER__) = \
      (::weft::RegisterRewriteRule({Name, Doc, Function, WEFT_OWNER_}), true)

}  // namespace weft
