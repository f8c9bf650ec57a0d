/// rule_table.h: the registered rewrite rules by the operator of the node that they are tried on.
#pragma once

#include <memory>
#include <vector>

#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {

class RuleTable {
 public:
  /// Of all rules that are registered now; made once until a registry changes. Throws kUnknownOp
  /// for a root that is not an operator.
  static std::shared_ptr<const RuleTable> Current();
  RuleTable();
  RuleTable(const RuleTable&) = delete;
  RuleTable& operator=(const RuleTable&) = delete;
  /// The rules for nodes of this operator, in the order in which they are tried.
  const std::vector<const RewriteRule*>& For(const Op* op) const;

 private:
  std::vector<RewriteRule> rules_;                          // as they are tried
  std::vector<const RewriteRule*> any_;                     // those without roots
  std::vector<std::vector<const RewriteRule*>> with_root_;  // by operator index; empty: any_
};

}  // namespace weft::simplify
