/// rewrite_rule.h: the registry of rewrite rules, those of the house and of plugins alike. Simplify
/// applies them; its statistics, the reference pages and `weft opt --fuel` know them by name.
///
///   std::vector<NodeEntry> DoubleNeg(RewriteContext& ctx, const NodePtr& n) { ... }
///   WEFT_REGISTER_REWRITE_RULE("double-neg")
///       .group("signs").root("Neg").describe("Neg(Neg(x)) made x").apply(DoubleNeg);
///
/// A rule looks at one node, whose operator is one of its roots, and the facts about it. It returns
/// a replacement of equal shape, dtype and value for each of its outputs, or nothing. It must be
/// right for every input and never make the graph worse; rules run until none applies. An
/// operator's rewrite of its own nodes is rather its FSimplify.
#pragma once

#include <string>
#include <vector>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {

struct RewriteRule {
  std::string name;                ///< named by fuel and counted by that statistic
  std::string group = "other";     ///< rules of one subject; groups are tried in turn
  std::vector<std::string> roots;  ///< operators of the nodes it is tried on
  bool any_root = false;           ///< tried on every node instead
  std::string doc;
  FSimplify apply;
  Owner owner;
};

/// Collects what a registration statement says; `RegisteredRewriteRule` commits it.
class WEFT_API RewriteRuleBuilder {
 public:
  RewriteRuleBuilder(std::string name, Owner owner);
  RewriteRuleBuilder& group(std::string name);
  /// Operators of the nodes that the rule is tried on. Names are looked up when the rule is first
  /// used, since their operators may be registered later.
  template <class... Names>
  RewriteRuleBuilder& root(Names... names) {
    (rule_.roots.emplace_back(names), ...);
    return *this;
  }
  /// Tried on every node: for rules about a property that operators of any name have.
  RewriteRuleBuilder& any_root();
  RewriteRuleBuilder& describe(std::string doc);
  RewriteRuleBuilder& apply(FSimplify function);
  /// Refused (kept for CheckRegistrations): a second rule of the name, naming both owners; a rule
  /// without a function, without a root, or with both roots and any_root.
  void Commit();

 private:
  RewriteRule rule_;
};

struct WEFT_API RegisteredRewriteRule {
  RegisteredRewriteRule(RewriteRuleBuilder& builder) { builder.Commit(); }  // NOLINT
};

WEFT_API void RegisterRewriteRule(RewriteRule rule);
/// In the order of their names.
WEFT_API std::vector<RewriteRule> ListRewriteRules();

#define WEFT_REGISTER_REWRITE_RULE(Name)                                   \
  [[maybe_unused]] static const ::weft::RegisteredRewriteRule WEFT_CONCAT( \
      weft_rule_, __COUNTER__) = ::weft::RewriteRuleBuilder(Name, WEFT_OWNER_)

}  // namespace weft
