/// pass_manager_test.cc: what the manager does around a pass: providers, ties, circles, options,
/// fuel, skipping, dumps, cancellation; and that a pass that throws leaves the caller's graph
/// alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/pass_samples.h"
#include "tests/support/temp_folder.h"

namespace {

using namespace weft;
using e2e::Catch;
using e2e::FromText;
using e2e::Sample;
using e2e::Typed;

WEFT_REGISTER_PASS(ThrowsHalfway).describe("edits, then throws").set_body([](Graph g) -> Graph {
  g.outputs.set(0, NodeEntry(g.AddNode("Neg", {g.outputs[0]})));
  g.SetOutputName(0, "spoilt");
  throw std::runtime_error("the author forgot a case");
});

WEFT_REGISTER_PASS(TieOne)
    .describe("tie")
    .set_body([](Graph g) { return g; })
    .provide_graph_attr("tie");
WEFT_REGISTER_PASS(TieTwo)
    .describe("tie")
    .set_body([](Graph g) { return g; })
    .provide_graph_attr("tie");
WEFT_REGISTER_PASS(NeedsTie)
    .describe("needs tie")
    .set_body([](Graph g) { return g; })
    .depend_graph_attr("tie");
WEFT_REGISTER_PASS(LowProvider)
    .describe("low")
    .set_body([](Graph g) {
      g.attrs["ranked"] = std::make_shared<std::any>(std::string("low"));
      return g;
    })
    .set_change_graph(false)
    .preserve_all()
    .provide_graph_attr("ranked")
    .plevel(5);
WEFT_REGISTER_PASS(HighProvider)
    .describe("high")
    .set_body([](Graph g) {
      g.attrs["ranked"] = std::make_shared<std::any>(std::string("high"));
      return g;
    })
    .set_change_graph(false)
    .preserve_all()
    .provide_graph_attr("ranked")
    .plevel(11);
WEFT_REGISTER_PASS(NeedsRanked)
    .describe("needs ranked")
    .set_body([](Graph g) { return g; })
    .depend_graph_attr("ranked")
    .set_change_graph(false)
    .preserve_all();
WEFT_REGISTER_PASS(CircleA)
    .describe("a")
    .set_body([](Graph g) { return g; })
    .depend_graph_attr("circle_b")
    .provide_graph_attr("circle_a");
WEFT_REGISTER_PASS(CircleB)
    .describe("b")
    .set_body([](Graph g) { return g; })
    .depend_graph_attr("circle_a")
    .provide_graph_attr("circle_b");
WEFT_REGISTER_PASS(NeedsNobody)
    .describe("needs what nobody gives")
    .set_body([](Graph g) { return g; })
    .depend_graph_attr("nobody_gives_this");

WEFT_REGISTER_OP(ClaimsNoGradient).describe("lacks ClaimsAttr").set_num_inputs(1);
WEFT_REGISTER_OP(ClaimsWithAttr)
    .describe("has ClaimsAttr")
    .set_num_inputs(1)
    .set_attr<int>("ClaimsAttr", 1);
WEFT_REGISTER_PASS(NeedsOpAttr)
    .describe("needs an op attribute")
    .set_body([](Graph g) { return g; })
    .depend_op_attr("ClaimsAttr")
    .set_change_graph(false)
    .preserve_all();

WEFT_REGISTER_PASS(NegatesByFuel)
    .describe("puts a Neg behind every output it may")
    .set_body([](Graph g, PassContext& ctx) {
      for (size_t i = 0; i < g.outputs.size(); ++i) {
        if (!ctx.Fuel("negate", g.outputs[i].node)) break;
        ctx.Count("negated");
        g.outputs.set(i, NodeEntry(g.AddNode("Neg", {g.outputs[i]})));
      }
      return g;
    })
    .option("times", int64_t{1}, "unused")
    .option("rate", 0.5, "unused")
    .statistic("negated", "how many")
    .rewrite("negate", "one of them")
    .result(PassResult::kDiffers);

/// Counts and asks fuel for what its options say; declares "known" for both and "asked" for fuel.
WEFT_REGISTER_PASS(NamesAnything)
    .describe("uses the names that its options say")
    .set_body([](Graph g, PassContext& ctx) {
      ctx.Count(ctx.option<std::string>("count"));
      ctx.Fuel(ctx.option<std::string>("fuel"), g.outputs[0].node);
      return g;
    })
    .set_change_graph(false)
    .preserve_all()
    .option("count", "known", "given to Count")
    .option("fuel", "known", "given to Fuel")
    .statistic("known", "calls")
    .rewrite("asked", "nothing");
/// The same, without a declaration, as the C interface has none.
WEFT_REGISTER_PASS(NamesFreely)
    .describe("uses undeclared names")
    .set_body([](Graph g, PassContext& ctx) {
      ctx.Count("free");
      ctx.Fuel("free", g.outputs[0].node);
      return g;
    })
    .set_change_graph(false)
    .preserve_all()
    .any_name();

struct Opaque {
  int value = 0;
};
/// Edits the graph after it did with the opaque attribute "opaque" what its option says.
WEFT_REGISTER_PASS(MindsOpaque)
    .describe("stores, takes out and puts back, or ignores an opaque attribute, and edits")
    .set_body([](Graph g, PassContext& ctx) {
      const std::string& deed = ctx.option<std::string>("deed");
      if (deed == "stores") g.SetAttr("opaque", Opaque{2});
      if (deed == "puts back") g.SetAttr("opaque", g.MoveCopyAttr<Opaque>("opaque"));
      if (deed == "reads") (void)g.GetAttr<Opaque>("opaque");
      g.outputs.set(0, NodeEntry(g.AddNode("Neg", {g.outputs[0]})));
      return g;
    })
    .option("deed", std::string("ignores"), "what it does with the attribute")
    .result(PassResult::kDiffers);

WEFT_REGISTER_PASS(AsksForCancel)
    .describe("checks the token")
    .set_body([](Graph g, PassContext& ctx) {
      CancelToken token = ctx.cancel();  // shared with the caller's
      token.Cancel();                    // as another thread would meanwhile
      ctx.cancel().Check();
      return g;
    });

}  // namespace

TEST_CASE("manager: a throwing pass leaves the caller's graph and writes a reproducer") {
  const Graph g = Typed();
  const std::string before = PrintGraph(g);
  PassOptions options;
  const e2e::TempFolder folder;
  options.reproducer = folder / "repro.weft";
  const auto caught = Catch([&] { ApplyPass(g, "ThrowsHalfway", options); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kInternal);
  CHECK(caught->says("ThrowsHalfway"));
  CHECK(caught->says("the author forgot a case"));
  CHECK(PrintGraph(g) == before);
  CHECK_NOTHROW(VerifyGraph(g));

  std::ifstream file(options.reproducer);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str().rfind("// repro ThrowsHalfway\n// error WEFT-E0901\n", 0) == 0);
  const Graph again = ParseGraph(text.str());
  CHECK(again.outputs.size() == g.outputs.size());
  CHECK(again.OutputName(0) == "r");  // the graph from before the pass
  CHECK(Catch([&] { ApplyPass(again, "ThrowsHalfway"); })->says("the author forgot a case"));
}

TEST_CASE("manager: what is missing is provided first, and the record says why") {
  std::vector<PassRecord> records;
  PassOptions options;
  options.records = &records;
  ApplyPasses(Sample(), {"Fusion", "CodeGen"}, options);
  REQUIRE(records.size() >= 4);
  CHECK(records[0].name == "InferType");
  CHECK(records[0].trigger == Trigger::kDependency);
  CHECK(records[0].reason == "InferShape needs 'dtype'");
  CHECK(records[1].name == "InferShape");
  CHECK(records[1].reason == "Fusion needs 'shape'");
  CHECK(records[2].name == "Fusion");
  CHECK(records[2].trigger == Trigger::kAsked);
  CHECK(records[2].reason.empty());
  CHECK(records.back().name == "CodeGen");
  for (size_t i = 0; i < records.size(); ++i) CHECK(records[i].number == int(i) + 1);
  CHECK(ResolvePipeline(Sample(), {"Fusion"}).ToString() == "InferType,InferShape,Fusion");
}

TEST_CASE("manager: strict mode runs no providers") {
  PassOptions options;
  options.strict = true;
  const auto caught = Catch([&] { ApplyPass(Sample(), "Fusion", options); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kDependency);
  CHECK(caught->says("'Fusion' requires the graph attribute 'shape'"));
  CHECK(caught->says("InferShape"));
  CHECK_NOTHROW(ApplyPasses(Sample(), {"InferType", "InferShape", "Fusion"}, options));
}

TEST_CASE("manager: a tie is refused and names the candidates; the higher plevel wins") {
  const auto caught = Catch([] { ApplyPass(Sample(), "NeedsTie"); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kDependency);
  CHECK(caught->says("TieOne"));
  CHECK(caught->says("TieTwo"));
  const Graph g = ApplyPass(Sample(), "NeedsRanked");
  CHECK(g.GetAttr<std::string>("ranked") == "high");
}

TEST_CASE("manager: circles and attributes that nobody gives") {
  const auto circle = Catch([] { ApplyPass(Sample(), "CircleA"); });
  REQUIRE(circle);
  CHECK(circle->code == ErrorCode::kDependency);
  CHECK(circle->says("CircleA -> CircleB -> CircleA"));
  const auto nobody = Catch([] { ApplyPass(Sample(), "NeedsNobody"); });
  REQUIRE(nobody);
  CHECK(nobody->code == ErrorCode::kDependency);
  CHECK(nobody->says("nobody_gives_this"));
}

TEST_CASE("manager: options are checked before anything runs") {
  std::vector<PassRecord> records;
  PassOptions options;
  options.records = &records;
  auto caught = Catch([&] { ApplyPasses(Sample(), "Simplify,Fusion{max_opps=3}", options); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kUnknownOption);
  CHECK(caught->says("did you mean max_ops"));
  CHECK(records.empty());
  caught = Catch([] { ApplyPasses(Sample(), Pipeline{{"Fusion", {{"max_ops", "many"}}}}); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kUnknownOption);
  CHECK(caught->says("takes an integer, text was given"));
  // An integer where a float is declared is fine.
  CHECK_NOTHROW(ApplyPasses(Sample(), Pipeline{{"NegatesByFuel", {{"rate", 1}}}}));
  caught = Catch([] { ApplyPass(Sample(), "Simplfy"); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kUnknownPass);
  CHECK(caught->says("Simplify"));
  CHECK(Catch([] { ApplyPasses(Sample(), "Simplify,,Fusion"); })->code == ErrorCode::kSyntax);
}

TEST_CASE("manager: fuel bounds rewrites over the whole pipeline") {
  for (int64_t fuel : {0, 1, 2, 3, 4, 9}) {
    CAPTURE(fuel);
    std::vector<PassRecord> records;
    PassOptions options;
    options.fuel = fuel;
    options.records = &records;
    const Graph g = ApplyPasses(Sample(), {"NegatesByFuel", "NegatesByFuel"}, options);
    CHECK(records[0].statistics["negated"] == std::min<int64_t>(fuel, 2));
    CHECK(records[1].statistics["negated"] == std::min<int64_t>(std::max<int64_t>(fuel - 2, 0), 2));
    CHECK(g.num_nodes() == Sample().num_nodes() + size_t(std::min<int64_t>(fuel, 4)));
  }
}

TEST_CASE("manager: skipping a pass, or one application of it") {
  std::vector<PassRecord> records;
  PassOptions options;
  options.records = &records;
  options.skip = {"NegatesByFuel#2"};
  const Graph g =
      ApplyPasses(Sample(), {"NegatesByFuel", "NegatesByFuel", "NegatesByFuel"}, options);
  REQUIRE(records.size() == 3);
  CHECK_FALSE(records[0].skipped);
  CHECK(records[1].skipped);
  CHECK_FALSE(records[2].skipped);
  CHECK(g.num_nodes() == Sample().num_nodes() + 4);
  options.skip = {"NegatesByFuel"};
  CHECK(ApplyPasses(Sample(), {"NegatesByFuel", "NegatesByFuel"}, options).num_nodes() ==
        Sample().num_nodes());
}

TEST_CASE("manager: dumps are numbered and parse") {
  namespace fs = std::filesystem;
  PassOptions options;
  const e2e::TempFolder folder;
  options.dump_dir = folder.path();
  ApplyPasses(Sample(), {"NegatesByFuel", "NegatesByFuel"}, options);
  std::vector<std::string> names;
  for (const auto& f : fs::directory_iterator(options.dump_dir))
    names.push_back(f.path().filename());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"001-NegatesByFuel.weft", "002-NegatesByFuel.weft"});
  for (const std::string& n : names) {
    std::ifstream file(options.dump_dir + "/" + n);
    std::stringstream text;
    text << file.rdbuf();
    CHECK_NOTHROW(ParseGraph(text.str()));
  }
}

TEST_CASE("manager: printing before and after by pattern") {
  std::string printed;
  PassOptions options;
  options.print_before = "^Negates";
  options.print_after = "^Infer";
  options.print = [&](const std::string& s) { printed += s; };
  ApplyPasses(Sample(), {"InferShape", "NegatesByFuel"}, options);
  CHECK(printed.find("// before NegatesByFuel\n") != std::string::npos);
  CHECK(printed.find("// after InferShape\n") != std::string::npos);
  CHECK(printed.find("// after NegatesByFuel\n") == std::string::npos);
}

TEST_CASE("manager: a pattern that is none, and a place for dumps that cannot be") {
  PassOptions options;
  options.print_before = "*";
  const auto pattern = Catch([&] { ApplyPasses(Sample(), "InferShape", options); });
  REQUIRE(pattern.has_value());
  CHECK(pattern->code == ErrorCode::kUsage);
  CHECK(pattern->says("'*' is not a regular expression"));
  options.print_before.clear();
  options.dump_dir = "/dev/null/dumps";
  const auto place = Catch([&] { ApplyPasses(Sample(), "NegatesByFuel", options); });
  REQUIRE(place.has_value());
  CHECK(place->code == ErrorCode::kIo);
}

TEST_CASE("manager: depend_op_attr lists every offending node at once") {
  const Graph g = FromText(R"(graph (%x: f32[2]) -> (%d) {
    %a = ClaimsNoGradient(%x) : f32[2]
    %b = ClaimsWithAttr(%a) : f32[2]
    %c = ClaimsNoGradient(%b) : f32[2]
    %d = ClaimsNoGradient(%c) : f32[2]
  })");
  const auto caught = Catch([&] { ApplyPass(g, "NeedsOpAttr"); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kMissingOpAttr);
  CHECK(caught->says("ClaimsAttr"));
  for (const char* name : {"'a'", "'c'", "'d'"}) CHECK(caught->says(name));
  CHECK_FALSE(caught->says("'b'"));
}

TEST_CASE("manager: cancellation before, between and inside passes") {
  PassOptions before;
  before.cancel.Cancel();
  CHECK(Catch([&] { ApplyPass(Sample(), "InferType", before); })->code == ErrorCode::kCancelled);

  PassOptions between;
  int ran = 0;
  between.on_pass = [&](const PassRecord&) {
    if (++ran == 2) between.cancel.Cancel();
  };
  CHECK(Catch([&] {
          ApplyPasses(Sample(), {"InferType", "InferShape", "Fusion"}, between);
        })->code == ErrorCode::kCancelled);
  CHECK(ran == 2);

  PassOptions inside;
  const auto caught = Catch([&] { ApplyPass(Sample(), "AsksForCancel", inside); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kCancelled);
  CHECK(caught->says("AsksForCancel"));
}

TEST_CASE("manager: the limit on nodes") {
  PassOptions options;
  options.limits.nodes = 2;
  CHECK(Catch([&] { ApplyPass(Sample(), "InferType", options); })->code == ErrorCode::kLimit);
}

TEST_CASE("manager: an opaque attribute survives a change only where the pass has stored it") {
  const auto after = [](const char* deed) {
    Graph g = Sample();
    g.SetAttr("opaque", Opaque{1});
    g = ApplyPasses(std::move(g), Pipeline{{"MindsOpaque", {{"deed", deed}}}});
    return g.HasAttr("opaque") ? g.GetAttr<Opaque>("opaque").value : 0;
  };
  CHECK(after("ignores") == 0);
  CHECK(after("reads") == 0);
  CHECK(after("stores") == 2);
  CHECK(after("puts back") == 1);
  // Another graph that shares the value keeps it.
  Graph g = Sample();
  g.SetAttr("opaque", Opaque{1});
  const Graph other = g;
  CHECK_FALSE(ApplyPass(g, "MindsOpaque").HasAttr("opaque"));
  CHECK(other.HasAttr("opaque"));
  CHECK(g.HasAttr("opaque"));
}

TEST_CASE("names of statistics and rewrites are declared") {
  const Graph g = Sample();
  PassOptions options;
  options.faults = FaultPolicy::kThrow;
  const auto message = [&](const char* pipeline) {
    try {
      ApplyPasses(g, pipeline, options);
    } catch (const InternalError& e) {
      return e.message();
    }
    return std::string();
  };
  CHECK(message("NamesAnything") == "");
  CHECK(message("NamesAnything{fuel=\"asked\"}") == "");
  CHECK(message("NamesFreely") == "");
  CHECK(message("NamesAnything{count=\"knwon\"}") ==
        "pass 'NamesAnything' counts 'knwon', which it does not declare");
  CHECK(message("NamesAnything{count=\"asked\"}") ==
        "pass 'NamesAnything' counts 'asked', which it does not declare");
  CHECK(message("NamesAnything{fuel=\"ask\"}") ==
        "pass 'NamesAnything' asks fuel for 'ask', which it does not declare");
#ifdef NDEBUG
  options.faults = FaultPolicy::kReport;  // what users run
  CHECK(message("NamesAnything{count=\"knwon\",fuel=\"ask\"}") == "");
#endif
}
