/// placement_test.cc: who runs a node, on targets with and without kernels and memory of their own;
/// that a compilation keeps to it; and the parts of the standard pipeline.
#include "weft/runtime/placement.h"

#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/provide.h"

namespace weft::e2e {
namespace {

/// By the name of the node.
std::map<std::string, Runner> Placed(const Graph& graph, const Target& target) {
  const Graph g = ProvideTypes(ApplyPasses(graph, StandardPipeline({PipelineEnd::kSimplified})));
  std::map<std::string, Runner> out;
  const Placement placement(g, target);
  for (const NodePtr& n : g.TopoOrder())
    if (!n->is_variable()) out[n->attrs.name] = placement.Of(n).runner;
  return out;
}

TEST_CASE("who runs a node on the host, on a device and in the interpreter") {
  const Graph g = FromText(
      R"(graph (%x: f32[4, 8], %w: f32[8, 3], %s: str[2], %q: f32[3, 3]) -> (%r, %k, %c, %d) {
  %p = MatMul(%x, %w)
  %r = Relu(%p)
  %one = Constant() {value = tensor i64[1] [1]}
  %k, %at = TopK(%r, %one)
  %c = Concat(%s, %s) {axis = 0}
  %d = Det(%q)
}
)");
  const std::map<std::string, Runner> cpu = Placed(g, "cpu");
  CHECK(cpu.at("r") == Runner::kKernel);
  CHECK(cpu.at("k") == Runner::kLibrary);
  CHECK(cpu.at("d") == Runner::kInterpreter);
  CHECK(cpu.at("c") == Runner::kBetween);  // strings have no place in an arena
  const std::map<std::string, Runner> ref = Placed(g, "ref");
  CHECK(ref.at("r") == Runner::kInterpreter);
  CHECK(ref.at("c") == Runner::kInterpreter);
}

TEST_CASE("what tells a size stands between two regions, with the reason") {
  const Graph g = ProvideTypes(FromText(R"(graph (%x: f32[n]) -> (%i, %y) {
  %i = NonZero(%x)
  %y = Relu(%x)
}
)"));
  const Placement placement(g, "cpu");
  for (const NodePtr& n : g.TopoOrder()) {
    if (n->is_variable()) continue;
    const Verdict v = placement.Of(n);
    CHECK((v.runner == Runner::kBetween) == (n->attrs.name == "i"));
    if (n->attrs.name == "i") CHECK(v.why.find("not known before the run") != std::string::npos);
  }
  CHECK(placement.WhyRegions().find("NonZero") != std::string::npos);
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().kernels == 1);        // in a region
  CHECK(program->stats().library_calls == 1);  // NonZero
  CHECK(program->stats().interpreted == 0);
}

// What nobody can run.
WEFT_REGISTER_OP_IN(placement_test, Unknown).set_num_inputs(1).set_num_outputs(1);

TEST_CASE("a graph that nothing runs says so, with the reason") {
  const Graph g = FromText(R"(graph (%x: f32[n]) -> (%w) {
  %i = NonZero(%x)
  %w = placement_test::Unknown(%i)
}
)");
  CompileOptions options;
  options.backend = "cpu";
  const auto caught = Catch([&] { Compile(g, options); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kUnsupported);
  CHECK(caught->says("placement_test::Unknown"));
}

TEST_CASE("the parts of the standard pipeline make the whole of it") {
  const auto text = [](PipelineEnd from, PipelineEnd until) {
    return PipelineBetween(from, until).ToString();
  };
  std::string parts;
  const PipelineEnd all[] = {PipelineEnd::kImported, PipelineEnd::kSimplified, PipelineEnd::kGraph,
                             PipelineEnd::kLayouts,  PipelineEnd::kKernels,    PipelineEnd::kCode,
                             PipelineEnd::kPlan};
  for (size_t i = 1; i < std::size(all); ++i)
    parts += (i > 1 ? "," : "") + text(all[i - 1], all[i]);
  // Where loops are compiled these stand in front of rules as well; Quantised stands in front of
  // the folding of constants, and a graph that is placed first has its constants folded.
  std::string whole = StandardPipeline().ToString();
  for (const std::string word : {"Decompose,", "SplitConditions,", "Quantised,"}) {
    const size_t at = whole.find(word);
    REQUIRE(at != std::string::npos);
    whole.erase(at, word.size());
  }
  CHECK(parts == whole);
  CHECK(text(PipelineEnd::kPlan, PipelineEnd::kPlan).empty());
  // Without fusion: only passes that do not fuse, and Fusion with one operator a kernel.
  const Pipeline plain = WithoutFusion(StandardPipeline());
  for (const PassSpec& spec : plain.passes()) {
    const PassEntry& pass = *PassEntry::Get(spec.name);
    CHECK((!pass.fuses || !spec.options.empty()));
  }
}

TEST_CASE("parameters behind a backend's name reach its factory, and only those it knows") {
  CHECK(GetBackend("cpu:no-fusion")->default_pipeline() != GetBackend("cpu")->default_pipeline());
  const auto wrong = Catch([] { GetBackend("cpu:fast"); });
  REQUIRE(wrong);
  CHECK(wrong->code == ErrorCode::kUsage);
  CHECK(wrong->says("'fast'"));
  CHECK(wrong->says("no-fusion"));
  CHECK(Catch([] { GetBackend("ref:anything"); })->code == ErrorCode::kUsage);
  CHECK((GetBackend("cpu: no-fusion") == GetBackend("cpu:no-fusion")));
}

TEST_CASE("what needs types asks for them, and nothing runs where they are there") {
  Graph g = FromText("graph (%x: f32[n]) -> (%y) {\n  %y = Relu(%x)\n}\n");
  std::vector<PassRecord> records;
  PassOptions options;
  options.records = &records;
  g = ProvideTypes(std::move(g), options);
  CHECK(records.size() == 2);
  g = ProvideTypes(std::move(g), options);
  CHECK(records.size() == 2);
  CHECK(Catch([&] { ProvideAttrs(g, {"no_such_attribute"}); })->code == ErrorCode::kDependency);
}

}  // namespace
}  // namespace weft::e2e
