/// registration_test.cc: transactions and staging: whole or not at all, in every
/// registry of the core.
#include <doctest/doctest.h>

#include <stdexcept>

#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/op/staging.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft {
namespace {

OpBuilder Build(const std::string& name, const char* module, int line, bool group = false) {
  return OpBuilder(name, Owner{module, "t.cc", line}, group);
}
Graph Same(Graph g) { return g; }
std::vector<NodeEntry> Never(RewriteContext&, const NodePtr&) { return {}; }

/// Stages one of everything: new things, additions to old ones, and things that win over old ones.
void StageAll(const std::string& p) {
  static_cast<void>(Registered(Build(p + "Op", "plugin", 1)
                                   .describe("new")
                                   .set_attr<int>("TTaNumber", 1)
                                   .set_attr<std::string>("T" + p, "a new attribute")
                                   .add_alias(p + "Alias")
                                   .include(p + "Group")));
  static_cast<void>(Registered(Build(p + "Group", "plugin", 2, true).set_attr<int>("TTaGroup", 5)));
  static_cast<void>(Registered(Build("TaBase", "plugin", 3).set_attr<int>("TTaNumber", 2, 50)));
  static_cast<void>(
      Registered(Build("TaBase", "plugin", 4).include("TaBaseGroup").add_alias(p + "BaseAlias")));
  static_cast<void>(RegisteredPass(PassBuilder(p + "Pass", {"plugin", "t.cc", 5}).set_body(Same)));
  static_cast<void>(RegisteredPass(PassBuilder("TaPass", {"plugin", "t.cc", 6})
                                       .describe("another")
                                       .set_body(Same)
                                       .override_pass()));
  RegisterAttrType(detail::MakeAttrType<NodeMap<int>>("ta_" + p, AttrKind::kGiven));
  RegisterRewriteRule({"ta-" + p, "ta", {}, true, "", Never, {"plugin", "t.cc", 7}});
}

std::string State(const std::string& p) {
  std::string s;
  for (const std::string& name : {p + "Op", p + "Alias", p + "BaseAlias"})
    s += Op::Find(name) ? name + ";" : "";
  for (const Op* op : Op::List())
    if (op->name.find(p) == 0) s += op->name + ";";
  s += Op::HasAttr("T" + p) ? "attr;" : "";
  const Op* base = Op::Get("TaBase");
  s += base->description + std::to_string(Op::GetAttr<int>("TTaNumber")[base]) +
       base->attr_owner("TTaNumber").module + std::to_string(base->owners.size()) +
       std::to_string(base->aliases.size()) +
       std::to_string(Op::GetAttr<int>("TTaGroup").get(base, 0)) + ";";
  s += PassEntry::Find(p + "Pass") ? "pass;" : "";
  s += PassEntry::Get("TaPass")->description + ";";
  s += FindAttrType("ta_" + p) ? "type;" : "";
  for (const RewriteRule& r : ListRewriteRules()) s += r.name == "ta-" + p ? "rule;" : "";
  return s;
}

void RegisterBase() {
  static const bool once = [] {
    Build("TaBaseGroup", "base", 1, true).set_attr<int>("TTaGroup", 9).Commit();
    Build("TaBase", "base", 2).describe("base").set_attr<int>("TTaNumber", 1).Commit();
    PassBuilder("TaPass", {"base", "t.cc", 3}).describe("one").set_body(Same).Commit();
    return true;
  }();
  static_cast<void>(once);
}

TEST_CASE(
    "a batch that fails with its last statement leaves no trace, and can be registered later") {
  RegisterBase();
  const std::string before = State("Tb");
  const int* number = &Op::GetAttr<int>("TTaNumber")[Op::Get("TaBase")];
  for (int round = 0; round < 2; ++round) {
    StagingScope scope;
    StageAll("Tb");
    static_cast<void>(RegisteredPass(PassBuilder("TbPass", {"plugin", "t.cc", 99}).set_body(Same)));
    CHECK(scope.size() == 9);
    CHECK(State("Tb") == before);
    CHECK_THROWS_AS(scope.CommitAll("mine"), UserError);
    CHECK(State("Tb") == before);
    CHECK(&Op::GetAttr<int>("TTaNumber")[Op::Get("TaBase")] == number);
  }
  // An attribute that was taken back is free for another type.
  Build("TaOther", "base", 8).set_attr<double>("TTb", 1.0).Commit();
  CHECK(Op::GetAttr<double>("TTb")[Op::Get("TaOther")] == 1.0);
}

TEST_CASE("a batch that is committed names its module and tells what it registered") {
  RegisterBase();
  const int* number = &Op::GetAttr<int>("TTaNumber")[Op::Get("TaBase")];
  {  // Fails first: the operator that was taken back comes alive again below.
    StagingScope scope;
    StageAll("Tc");
    RegisterAttrType(detail::MakeAttrType<NodeMap<double>>("ta_Tc", AttrKind::kGiven));
    CHECK_THROWS_AS(scope.CommitAll("mine"), UserError);
  }
  StagingScope scope;
  StageAll("Tc");
  const auto items = scope.CommitAll("mine");
  std::string text;
  for (const RegisteredItem& i : items) text += i.kind + " " + i.name + ";";
  CHECK(text ==
        "op TcOp;op group TcGroup;op attributes TaBase;pass TcPass;pass TaPass;graph attribute "
        "ta_Tc;rule ta-Tc;");
  CHECK(Op::Get("TcAlias") == Op::Get("TcOp"));
  CHECK(Op::Get("TcOp")->owners.size() == 1);
  CHECK(Op::Get("TcOp")->owners[0].module == "mine");
  CHECK(Op::GetAttr<int>("TTaGroup")[Op::Get("TcOp")] == 5);
  CHECK(Op::GetAttr<int>("TTaNumber")[Op::Get("TaBase")] == 2);
  CHECK(*number == 1);  // who held the old value goes on holding it
  CHECK(Op::Get("TaBase")->attr_owner("TTaNumber").module == "mine");
  CHECK(PassEntry::Get("TcPass")->owner.module == "mine");
  CHECK(PassEntry::Get("TaPass")->description == "another");
  CHECK(FindAttrType("ta_Tc")->owner == "mine");
}

TEST_CASE(
    "who holds a pass that is replaced goes on holding it, also where the replacing is taken "
    "back") {
  RegisterBase();
  PassBuilder("TaReplaced", {"base", "t.cc", 30}).describe("first").set_body(Same).Commit();
  const PassEntry* first = PassEntry::Get("TaReplaced");
  const auto replace = [](const char* doc) {
    PassBuilder("TaReplaced", {"two", "t.cc", 31})
        .describe(doc)
        .set_body(Same)
        .override_pass()
        .Commit();
  };
  replace("second");
  const PassEntry* second = PassEntry::Get("TaReplaced");
  CHECK_THROWS_AS(RegistryTransaction([&] {
                    replace("third");
                    CHECK(PassEntry::Get("TaReplaced")->description == "third");
                    throw std::runtime_error("any");
                  }),
                  std::runtime_error);
  CHECK(PassEntry::Get("TaReplaced") == second);
  replace("fourth");
  CHECK(PassEntry::Get("TaReplaced")->description == "fourth");
  CHECK(first->description == "first");
  CHECK(second->description == "second");
  int listed = 0;
  for (const PassEntry* p : PassEntry::List()) listed += p->name == "TaReplaced";
  CHECK(listed == 1);
}

TEST_CASE("an attribute of operators may be asked for while registrations are committed") {
  RegisterBase();
  RegistryTransaction([] {
    CHECK(Op::GetAttr<int>("TTaNumber").find(Op::Get("TaBase")) != nullptr);
    CHECK(Op::GetAttr<int>("TTaNobodyHasIt").find(Op::Get("TaBase")) == nullptr);
  });
}

TEST_CASE("a module may add attributes to an operator of another, not say what it is") {
  RegisterBase();
  StagingScope adds;
  static_cast<void>(Registered(Build("TaBase", "plugin", 1).set_attr<int>("TTaAdded", 4)));
  adds.CommitAll("adder");
  CHECK(Op::GetAttr<int>("TTaAdded")[Op::Get("TaBase")] == 4);
  for (int i = 0; i < 3; ++i) {
    StagingScope redefines;
    OpBuilder b = Build("TaBase", "plugin", 2);
    if (i == 0) b.describe("mine");
    if (i == 1) b.set_num_inputs(2);
    if (i == 2) b.set_num_outputs(2);
    static_cast<void>(Registered(b));
    CHECK_THROWS_WITH_AS(
        redefines.CommitAll("redefiner"),
        doctest::Contains(
            "operator 'TaBase' is registered twice: by base (t.cc:2) and by redefiner"),
        UserError);
  }
  CHECK(Op::Get("TaBase")->description == "base");
}

TEST_CASE("a statement that fails in its middle is taken back, alone") {
  RegisterBase();
  CHECK_THROWS_AS(Build("TdOp", "one", 1).set_attr<int>("TTdA", 1).add_alias("TaBase").Commit(),
                  UserError);
  CHECK(Op::Find("TdOp") == nullptr);
  CHECK(!Op::HasAttr("TTdA"));
  Build("TdOp", "two", 2).set_attr<double>("TTdA", 2).Commit();
  CHECK(Op::Get("TdOp")->owners.size() == 1);
}

TEST_CASE("transactions nest; an exception of any kind takes all back") {
  RegisterBase();
  CHECK_THROWS_AS(
      RegistryTransaction([] {
        Build("TeOp", "one", 1).Commit();
        CHECK(Op::Find("TeOp") != nullptr);  // its own work, without waiting for its own lock
        RegistryTransaction([] { Build("TeOther", "one", 2).Commit(); });
        throw std::runtime_error("any");
      }),
      std::runtime_error);
  CHECK(Op::Find("TeOp") == nullptr);
  CHECK(Op::Find("TeOther") == nullptr);
  CHECK_THROWS_AS(OnRollback([] {}), InternalError);
}

TEST_CASE("what commits at once is refused while registrations are staged") {
  StagingScope scope;
  CHECK_THROWS_WITH_AS(Build("TgOp", "one", 1).Commit(), doctest::Contains("are staged"),
                       UserError);
  scope.Close();
  CHECK(Op::Find("TgOp") == nullptr);
  Build("TgOp", "one", 1).Commit();
}

RewriteRuleBuilder Rule(const std::string& name, const char* module, int line) {
  return RewriteRuleBuilder(name, {module, "t.cc", line}).apply(Never);
}
/// Registers the rule, and says why it is refused; empty where it is not.
std::string Refused(RewriteRuleBuilder rule) {
  RegisteredRewriteRule{rule};
  try {
    CheckRegistrations();
  } catch (const UserError& e) {
    return e.message();
  }
  return "";
}
std::string RulesNamed(const std::string& prefix) {
  std::string list;
  for (const RewriteRule& r : ListRewriteRules())
    if (r.name.find(prefix) == 0) list += r.name + ":" + r.group + ":" + r.doc + ";";
  return list;
}

TEST_CASE("rewrite rules: sorted by name; two of a name, no function and no root are refused") {
  CHECK(Refused(Rule("tf-b", "one", 1).group("g").root("Neg", "Abs").describe("second")) == "");
  CHECK(Refused(Rule("tf-a", "one", 2).any_root().describe("first")) == "");
  CHECK(RulesNamed("tf-") == "tf-a:other:first;tf-b:g:second;");
  CHECK(Refused(Rule("tf-a", "two", 3).root("Neg").describe("again")) ==
        "rewrite rule 'tf-a' is registered twice: by one (t.cc:2) and by two (t.cc:3)");
  CHECK(Refused(Rule("tf-c", "two", 4).root("Neg").apply(nullptr)) ==
        "rewrite rule 'tf-c' of two (t.cc:4) has no function");
  CHECK(Refused(Rule("tf-d", "two", 5)) ==
        "rewrite rule 'tf-d' of two (t.cc:5) names no root operator; say root(\"Op\", ..) or "
        "any_root()");
  CHECK(Refused(Rule("tf-e", "two", 6).root("Neg").any_root()) ==
        "rewrite rule 'tf-e' of two (t.cc:6) names roots and any_root(); say root(\"Op\", ..) or "
        "any_root()");
  CHECK(RulesNamed("tf-") == "tf-a:other:first;tf-b:g:second;");
}

TEST_CASE("rewrite rules of a plugin that fails are taken back") {
  StagingScope scope;
  RegisteredRewriteRule{Rule("th-a", "one", 1).root("Neg")};
  RegisteredRewriteRule{Rule("th-b", "one", 2).root("Neg").apply(nullptr)};
  scope.Close();
  CHECK(RulesNamed("th-") == "");
  CHECK_THROWS_AS(scope.CommitAll(), UserError);
  CHECK(RulesNamed("th-") == "");
}

}  // namespace
}  // namespace weft
