/// reproducer_test.cc: what a failing pass leaves behind, and what a trace sees of a pipeline.
#include "weft/core/pass/reproducer.h"

#include <doctest/doctest.h>

#include "tests/support/temp_folder.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass_trace.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"
#include "weft/support/file.h"

namespace weft {
namespace {

WEFT_REGISTER_OP(ReproOp).set_num_inputs(1).set_num_outputs(1);
WEFT_REGISTER_GRAPH_ATTR(repro_hidden, kGiven, std::string)
    .hidden()
    .text([](const std::string& s) { return s; }, [](const std::string& s) { return s; });
WEFT_REGISTER_GRAPH_ATTR(repro_mute, kGiven, int);

WEFT_REGISTER_PASS(ReproNeed)
    .describe("provides what ReproFail needs")
    .set_body([](Graph g, PassContext& ctx) {
      for (NodePtr n : g.TopoOrder())
        if (!n->is_variable()) ctx.Fuel("touch", n);
      g.attrs["repro_need"] = std::make_shared<std::any>(1);
      return g;
    })
    .set_change_graph(false)
    .preserve_all()
    .rewrite("touch", "nothing happens to the node")
    .provide_graph_attr("repro_need");

WEFT_REGISTER_PASS(ReproFail)
    .describe("fails with a message that holds anything")
    .set_body([](Graph, PassContext& ctx) -> Graph {
      ThrowError(ErrorCode::kBadAttribute, ctx.option<std::string>("message"), "node \"a\n// b\"");
    })
    .depend_graph_attr("repro_need")
    .option("message", "", "the message")
    .option("level", 1, "a number");

const std::string kNasty = "two\nlines \"quoted\" \\ */ // %x\x01 = \xc3\xa4";

Graph Sample() {
  Graph g;
  NodePtr x = g.AddInput("x\n// not a comment", DType::kF32, Shape({SymInt(2)}));
  NodePtr a = g.AddNode("ReproOp", {x}, {}, kNasty), b = g.AddNode("ReproOp", {a}, {}, "b");
  g.outputs = {b};
  g.SetAttr("repro_hidden", kNasty);
  g.SetAttr("repro_mute", 3);
  g.attrs["of_nobody"] = std::make_shared<std::any>(2.5);
  return g;
}

TEST_CASE("a reproducer holds everything, whatever names and messages hold") {
  const e2e::TempFolder folder;
  const std::string file = folder / "r.weft";
  PassOptions options;
  options.reproducer = file;
  options.target = "cuda:sm_90";
  options.fuel = 10;
  options.limits.nodes = 77;
  options.checks.equivalent = true;
  options.checks.seed = 12;
  options.skip = {"Other", "ReproFail#4", "ReproNeed#1", "ReproNeed#3"};
  const Graph g = Sample();
  const PassSpec fail("ReproFail", {{"message", kNasty}, {"level", 5}});
  std::string thrown;
  try {
    // The first ReproNeed is skipped, the second is the one that ReproFail needs.
    ApplyPasses(g, Pipeline({"ReproNeed", fail, {"ReproFail", {{"level", 2}}}}), options);
  } catch (const Error& e) {
    thrown = e.message();
  }
  CHECK(thrown == kNasty);
  const std::string text = ReadFile(file);
  const Reproducer r = ParseReproducer(text);
  CHECK(r.pass == Pipeline({fail}).ToString());
  CHECK(Pipeline::Parse(r.pass).ToString() == r.pass);
  CHECK(r.rest == "ReproFail{level=2}");
  CHECK(r.error == "WEFT-E0303");
  CHECK(r.message == kNasty);
  CHECK(r.place == "pass ReproFail > node \"a\n// b\"");
  CHECK(r.options.target == "cuda:sm_90");
  CHECK(r.options.fuel == 8);  // the need used two
  CHECK(r.options.limits.nodes == 77);
  CHECK(r.options.checks.equivalent);
  CHECK(!r.options.checks.deterministic);
  CHECK(r.options.checks.seed == 12);
  CHECK(r.options.skip == std::vector<std::string>{"Other", "ReproFail#4", "ReproNeed#1"});
  CHECK(r.without == std::vector<std::string>{"of_nobody", "repro_mute", "repro_need"});
  CHECK(r.has_graph);
  const Graph back = ParseGraph(text);
  CHECK(back.GetAttr<std::string>("repro_hidden") == kNasty);
  CHECK(back.inputs()[0]->attrs.name == "x\n// not a comment");
  CHECK(back.outputs[0].node->inputs[0].node->attrs.name == kNasty);
  CHECK_THROWS_AS(ParseReproducer("weft 1\n"), UserError);
  CHECK_THROWS_AS(ParseReproducer(""), UserError);
  CHECK_THROWS_AS(ParseReproducer("// repro A\n// message \"open\n"), UserError);
  CHECK_THROWS_AS(ParseReproducer("// repro A\n// message \"\\xg1\"\n"), UserError);
  CHECK(ParseReproducer("// repro A\n// of_later_versions 1\n").pass == "A");
  CHECK(!ParseReproducer("// repro (command)\n// argument \"run\"\n").has_graph);
}

TEST_CASE("a reproducer of large tensors names them by their hash") {
  Graph g;
  auto big = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{5 << 20});
  NodePtr w = g.AddParam("w", big);
  g.outputs = {g.AddNode("ReproOp", {w}, {}, "a")};
  Reproducer r;
  r.pass = "A";
  const std::string text = FormatReproducer(r, &g);
  CHECK(text.size() < 5000);
  CHECK(ParseReproducer(text).tensors_by_hash);
  ParseOptions parse;
  parse.allow_missing_data = true;
  CHECK(ParseGraph(text, parse).num_nodes() == 2);
  CHECK_THROWS_AS(ParseGraph(text), UserError);
}

struct Seen : PassTrace {
  std::vector<std::string> lines;
  void Begin(const PassStart& s) override {
    lines.push_back(s.spec.name + "#" + std::to_string(s.occurrence) + "@" +
                    std::to_string(s.number) + (s.skipped ? " skipped" : "") +
                    (s.trigger == Trigger::kDependency ? " needed" : ""));
  }
  void Rewrite(const PassEntry& pass, std::string_view rewrite, const NodePtr& node) override {
    lines.push_back(pass.name + ": " + std::string(rewrite) + " " + node->attrs.name);
  }
};

TEST_CASE(
    "a trace sees applications and the rewrites that were granted, on its thread and while it "
    "lives") {
  Seen seen;
  PassOptions options;
  options.fuel = 3;
  options.skip = {"ReproNeed#2"};
  const Graph g = Sample();
  {
    const PassTraceScope scope(&seen);
    try {
      ApplyPasses(g, "ReproNeed,ReproNeed,ReproNeed,ReproFail", options);
    } catch (const UserError&) {
    }
    CHECK(ExchangePassTrace(&seen) == &seen);  // as before, also after a failure
  }
  CHECK(seen.lines == std::vector<std::string>{"ReproNeed#1@1", "ReproNeed: touch " + kNasty,
                                               "ReproNeed: touch b", "ReproNeed#2@2 skipped",
                                               "ReproNeed#3@3", "ReproNeed: touch " + kNasty,
                                               "ReproFail#1@4"});
  seen.lines.clear();
  ApplyPasses(g, "ReproNeed");
  CHECK(seen.lines.empty());
}

}  // namespace
}  // namespace weft
