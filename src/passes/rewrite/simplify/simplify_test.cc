/// simplify_test.cc: the driver: which rules it tries on which nodes, when it looks again, how it
/// stops.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/op/staging.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

using Names = std::vector<std::string>;

/// Runs `body` while these rules are registered.
template <class F>
void WithRules(std::vector<RewriteRuleBuilder> rules, F body) {
  struct TakeBack {};
  try {
    RegistryTransaction([&] {
      for (RewriteRuleBuilder& r : rules) RegisteredRewriteRule{r};
      body();
      throw TakeBack();
    });
  } catch (const TakeBack&) {
  }
}
RewriteRuleBuilder Rule(const std::string& name) { return {name, {"test", "t.cc", 1}}; }
/// Notes the operators of the nodes that it is shown.
FSimplify Noting(Names* seen) {
  return [seen](RewriteContext&, const NodePtr& n) -> std::vector<NodeEntry> {
    seen->push_back(n->op()->name);
    return {};
  };
}
/// Another operator of the same operand. The results differ; nobody compares them here.
FSimplify Becoming(const char* op) {
  return [op](RewriteContext& ctx, const NodePtr& n) -> std::vector<NodeEntry> {
    return {NodeEntry(ctx.graph().AddNode(op, {n->inputs[0]}, {}, n->attrs.name))};
  };
}

/// The operators one upon the other, the first at the input.
Graph Chain(const Names& ops) {
  Graph g;
  NodeEntry y(g.AddInput("x", DType::kF32, Shape{4}));
  for (const std::string& op : ops) y = NodeEntry(g.AddNode(op, {y}));
  g.outputs = {y};
  return g;
}
Names OpsOf(const Graph& g) {
  Names ops;
  for (NodePtr n : g.TopoOrder())
    if (!n->is_variable()) ops.push_back(n->op()->name);
  return ops;
}

struct Result {
  Graph graph;
  PassRecord record;
};
Result Simplified(const Graph& g) {
  std::vector<PassRecord> records;
  PassOptions options;
  options.records = &records;
  Graph out = ApplyPasses(g, "InferShape,Simplify", options);
  return {std::move(out), records.back()};
}

TEST_CASE("simplify: a rule is tried on the nodes of its roots only") {
  Names rooted, any;
  WithRules({Rule("t-rooted").root("Sin", "Erf").apply(Noting(&rooted)),
             Rule("t-any").any_root().apply(Noting(&any))},
            [&] {
              Simplified(Chain({"Sin", "Tanh", "Erf", "Cos", "Sin"}));
            });
  CHECK(rooted == Names{"Sin", "Erf", "Sin"});
  CHECK(any == Names{"Sin", "Tanh", "Erf", "Cos", "Sin"});
}

TEST_CASE("simplify: rules count under their names; groups of the house come first") {
  WithRules({Rule("t-a").root("Sin").apply(Becoming("Cos")),
             Rule("t-b").group("views").root("Sin").apply(Becoming("Erf"))},
            [&] {
              const Result r = Simplified(Chain({"Sin", "Tanh", "Sin"}));
              CHECK(OpsOf(r.graph) == Names{"Erf", "Tanh", "Erf"});
              CHECK(r.record.statistics.at("t-b") == 2);
              CHECK(r.record.statistics.at("registered-rule") == 2);
              CHECK(r.record.statistics.count("t-a") == 0);
            });
}

TEST_CASE("simplify: a root that is not an operator is an error that names the rule") {
  WithRules({Rule("t-typo").root("Sinn").apply(Becoming("Cos"))}, [] {
    try {
      Simplified(Chain({"Tanh"}));
      FAIL("no error");
    } catch (const UserError& e) {
      CHECK(e.code() == ErrorCode::kUnknownOp);
      const std::string what = e.what();
      for (const char* part : {"'Sinn'", "Sin", "rewrite rule 't-typo' of test (t.cc:1)"})
        CHECK_MESSAGE(what.find(part) != std::string::npos, what);
    }
  });
}

TEST_CASE("simplify: rules that undo each other are stopped, and named") {
  WithRules({Rule("t-ping").root("Sin").apply(Becoming("Cos")),
             Rule("t-pong").root("Cos").apply(Becoming("Sin"))},
            [] {
              const Result r = Simplified(Chain({"Sin"}));
              CHECK(OpsOf(r.graph).size() == 1);
              CHECK(r.record.statistics.at("rounds") == 12);
              CHECK(r.record.statistics.at("t-ping") == 6);
              REQUIRE(r.record.warnings.size() == 1);
              CHECK(r.record.warnings[0] ==
                    "stopped after 12 rounds (max_rounds), the last of which still applied t-pong "
                    "(1x); rules that undo each other never end");
            });
}

TEST_CASE("simplify: what becomes possible far above a late change is found") {
  // Abs looks through all Tanh. That there is a Sin at their end shows in the second round.
  const auto over_sin = [](RewriteContext&, const NodePtr& n) -> std::vector<NodeEntry> {
    NodeEntry e = n->inputs[0];
    while (IsOp(e.node, "Tanh")) e = e.node->inputs[0];
    return IsOp(e.node, "Sin") ? std::vector<NodeEntry>{n->inputs[0]} : std::vector<NodeEntry>();
  };
  for (const size_t between : {0, 1, 7, 8, 9, 30}) {
    CAPTURE(between);
    Names ops{"Erf"};
    ops.insert(ops.end(), between, "Tanh");
    ops.push_back("Abs");
    WithRules(
        {Rule("t-1").root("Erf").apply(Becoming("Cos")),
         Rule("t-2").root("Cos").apply(Becoming("Sin")), Rule("t-3").root("Abs").apply(over_sin)},
        [&] {
          Names want{"Sin"};
          want.insert(want.end(), between, "Tanh");
          CHECK(OpsOf(Simplified(Chain(ops)).graph) == want);
        });
  }
}

TEST_CASE("simplify: a rule that asks who else reads its operand looks again when a reader goes") {
  // Sin has two readers until the rule on Abs takes one away.
  const auto alone = [](RewriteContext& ctx, const NodePtr& n) -> std::vector<NodeEntry> {
    if (n->inputs[0].node->uses().size() != 1) return {};
    return Becoming("Cos")(ctx, n);
  };
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape{4}));
  const NodeEntry s(g.AddNode("Sin", {x}));
  g.outputs = {NodeEntry(g.AddNode("Erf", {s})), NodeEntry(g.AddNode("Abs", {s}))};
  WithRules({Rule("t-alone").root("Erf").apply(alone),
             Rule("t-gone").root("Abs").apply([&](RewriteContext& ctx, const NodePtr& n) {
               return std::vector<NodeEntry>{
                   NodeEntry(ctx.graph().AddNode("Tanh", {n->inputs[0].node->inputs[0]}))};
             })},
            [&] {
              CHECK(OpsOf(Simplified(g).graph) == Names{"Sin", "Cos", "Tanh"});
            });
}

TEST_CASE("simplify: a change is not a reason to look at the whole graph again") {
  constexpr size_t kNodes = 10000;
  for (const bool changes : {false, true}) {
    Names ops(kNodes, "Tanh"), seen;
    ops[kNodes / 2] = changes ? "Erf" : "Tanh";
    WithRules({Rule("t-change").root("Erf").apply(Becoming("Cos")),
               Rule("t-any").any_root().apply(Noting(&seen))},
              [&] { CHECK(Simplified(Chain(ops)).record.statistics.count("rounds") == changes); });
    CHECK(seen.size() >= kNodes);
    CHECK(seen.size() <= (changes ? 2 * kNodes + 20 : kNodes));
  }
}

}  // namespace
}  // namespace weft
