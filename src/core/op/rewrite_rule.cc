/// rewrite_rule.cc: the table of registered rewrite rules.
#include "weft/core/op/rewrite_rule.h"

#include <map>

#include "weft/core/op/staging.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using Rules = std::map<std::string, RewriteRule>;
Rules& Table() {
  static Rules* rules = new Rules;  // outlives every static object that registers into it
  return *rules;
}

}  // namespace

void RegisterRewriteRule(RewriteRule rule) {
  CommitRegistration([rule = std::move(rule)] {
    WEFT_CHECK(rule.apply != nullptr, kApiMisuse, "rewrite rule '{}' of {} has no function",
               rule.name, rule.owner.ToString());
    WEFT_CHECK(rule.any_root == rule.roots.empty(), kApiMisuse,
               "rewrite rule '{}' of {} names {}; say root(\"Op\", ..) or any_root()", rule.name,
               rule.owner.ToString(), rule.any_root ? "roots and any_root()" : "no root operator");
    RewriteRule added = rule;
    added.owner.module = RegisteringModule(rule.owner.module);
    auto it = Table().find(rule.name);
    WEFT_CHECK(it == Table().end(), kDuplicate,
               "rewrite rule '{}' is registered twice: by {} and by {}", rule.name,
               it->second.owner.ToString(), added.owner.ToString());
    OnRollback([name = rule.name] { Table().erase(name); });
    Table()[rule.name] = std::move(added);
    NoteRegistration("rule", rule.name);
  });
}

RewriteRuleBuilder::RewriteRuleBuilder(std::string name, Owner owner) {
  rule_.name = std::move(name);
  rule_.owner = std::move(owner);
}
RewriteRuleBuilder& RewriteRuleBuilder::group(std::string name) {
  rule_.group = std::move(name);
  return *this;
}
RewriteRuleBuilder& RewriteRuleBuilder::any_root() {
  rule_.any_root = true;
  return *this;
}
RewriteRuleBuilder& RewriteRuleBuilder::describe(std::string doc) {
  rule_.doc = std::move(doc);
  return *this;
}
RewriteRuleBuilder& RewriteRuleBuilder::apply(FSimplify function) {
  rule_.apply = std::move(function);
  return *this;
}
void RewriteRuleBuilder::Commit() { RegisterRewriteRule(std::move(rule_)); }

std::vector<RewriteRule> ListRewriteRules() {
  CheckRegistrations();
  RegistryRead lock;
  std::vector<RewriteRule> list;
  for (const auto& [name, rule] : Table()) list.push_back(rule);
  return list;
}

}  // namespace weft
