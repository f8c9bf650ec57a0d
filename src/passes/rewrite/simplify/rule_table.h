/// rule_table.h: the registered rewrite rules by the operator of the node that they are tried on.
#pragma once

#include <vector>

#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {

class RuleTable {
 public:
  /// All registered rules; throws kUnknownOp for a root that is not an operator.
  RuleTable();
  RuleTable(const RuleTable&) = delete;
  RuleTable& operator=(const RuleTable&) = delete;
  /// The rules for nodes of this operator, in the order in which they are tried.
  const std::vector<const RewriteRule*>& For(const Op* op);

 private:
  struct Row {
    bool made = false;
    std::vector<const RewriteRule*> rules;
  };
  std::vector<RewriteRule> rules_;             // as they are tried
  std::vector<std::vector<const Op*>> roots_;  // of each of them
  std::vector<Row> rows_;                      // by index of the operator
};

}  // namespace weft::simplify
