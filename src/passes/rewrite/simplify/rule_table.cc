/// rule_table.cc: the order of rules, and which of them an operator's nodes are shown to.
#include "rule_table.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "weft/core/op/staging.h"
#include "weft/support/error.h"

namespace weft::simplify {
namespace {

/// Groups in the order in which their rules are tried on a node. Others follow, by the names of
/// their rules. Inside a group the order is that of the file.
constexpr std::string_view kGroups[] = {
    "zeros",             // what a zero decides needs no other rule any more
    "shape-arithmetic",  // makes targets explicit, which the views' rules compare
    "chains",            // leaves one view and one Transpose ..
    "views",             // .. of which these see two at a time
    "pads",              // pads, pools and lookup have no operator in common
    "pieces",            // whose Pads may be of slices and look-ups
    "pools",
    "lookup",
    "activations",  // longer patterns, of operators that the groups above may take away
    "variance",     // looks furthest, and at every sum
};

size_t RankOf(const RewriteRule& rule) {
  return size_t(std::find(std::begin(kGroups), std::end(kGroups), rule.group) -
                std::begin(kGroups));
}

/// The operator that a rule names; the error says whose rule it is.
const Op* RootOf(const RewriteRule& rule, const std::string& name) {
  try {
    return Op::Get(name);
  } catch (Error& e) {
    e.AddPlace("rewrite rule '" + rule.name + "' of " + rule.owner.ToString());
    throw;
  }
}

}  // namespace

RuleTable::RuleTable() : rules_(ListRewriteRules()) {
  const auto key = [](const RewriteRule& r) {
    const size_t rank = RankOf(r);
    return std::tuple(rank, rank < std::size(kGroups) ? r.owner.line : 0, std::string_view(r.name));
  };
  std::sort(rules_.begin(), rules_.end(),
            [&](const RewriteRule& a, const RewriteRule& b) { return key(a) < key(b); });
  std::vector<std::vector<const Op*>> roots;
  for (const RewriteRule& rule : rules_) {
    roots.emplace_back();
    for (const std::string& name : rule.roots) roots.back().push_back(RootOf(rule, name));
    if (rule.any_root) any_.push_back(&rule);
  }
  for (const std::vector<const Op*>& named : roots) {
    for (const Op* op : named) {
      if (with_root_.size() <= op->index()) with_root_.resize(op->index() + 1);
      std::vector<const RewriteRule*>& row = with_root_[op->index()];
      if (!row.empty()) continue;
      for (size_t i = 0; i < rules_.size(); ++i)
        if (rules_[i].any_root || std::find(roots[i].begin(), roots[i].end(), op) != roots[i].end())
          row.push_back(&rules_[i]);
    }
  }
}

std::shared_ptr<const RuleTable> RuleTable::Current() {
  static DerivedFromRegistries<RuleTable> made;
  CheckRegistrations();
  return made.Get([] { return std::make_shared<const RuleTable>(); });
}

const std::vector<const RewriteRule*>& RuleTable::For(const Op* op) const {
  const uint32_t at = op->index();
  return at < with_root_.size() && !with_root_[at].empty() ? with_root_[at] : any_;
}

}  // namespace weft::simplify
