/// divided_graphs_test.cc: random graphs divided at random between our kernels and the engines that
/// there are: those of tests, Weft itself, and others where their libraries are present. Every
/// result must lie within the bound that the generator derived for it, at every binding.
///
///   WEFT_DELEGATE_PLUGINS=a/libopenvino.so:b/liblibtorch.so   plugins whose delegates take part
///   WEFT_DELEGATES=mirror,test_a      these alone
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=100000 delegates_test -tc='*divided*'
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/delegates/test_delegate.h"
#include "tests/support/e2e_util.h"
#include "tests/support/lender.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/special_run.h"
#include "weft/core/module/delegate.h"
#include "weft/core/module/plugin.h"
#include "weft/support/log.h"
#include "weft/support/strings.h"

namespace weft::e2e {
namespace {

/// Delegates to divide among: one of tests, Weft itself, and those of plugins that are ready here.
std::vector<std::string> Players() {
  RegisterTestDelegates();
  LoadPlugin(MIRROR_PLUGIN);
  std::vector<std::string> names{"test_a", "mirror"};
  const char* more = std::getenv("WEFT_DELEGATE_PLUGINS");
  for (const std::string& path : Split(more ? more : "", ':')) {
    if (path.empty()) continue;
    const std::vector<std::string> before = ListDelegates();
    LoadPlugin(path);
    for (const std::string& name : ListDelegates()) {
      if (std::find(before.begin(), before.end(), name) != before.end()) continue;
      if (const auto why = Catch([&] { GetDelegate(name)->Version(); }))
        MESSAGE("delegate " << name << " does not take part: " << why->text);
      else
        names.push_back(name);
    }
  }
  const char* only = std::getenv("WEFT_DELEGATES");
  return only ? Split(only, ',') : names;
}

/// The backend's pipeline with the division of the graph's seed behind Simplify.
Pipeline Divided(const fuzz::RandomGraph& g, const std::vector<std::string>& players) {
  // The pass stands in the pipeline, since only it takes a seed.
  const PassSpec divide(
      "Delegate",
      {{"to", Join(players, ";")}, {"choice", std::string("random")}, {"seed", int64_t(g.seed)}});
  Pipeline pipeline;
  const Pipeline own = StandardPipeline();
  size_t behind = 0;
  for (size_t i = 0; i < own.passes().size(); ++i)
    if (own.passes()[i].name == "Simplify") behind = i + 1;
  for (size_t i = 0; i < own.passes().size(); ++i) {
    if (i == behind) pipeline.push_back(divide);
    pipeline.push_back(own.passes()[i]);
  }
  return pipeline;
}

/// What is wrong with the results of the divided graph; empty: nothing.
std::string WhatDiffers(const fuzz::RandomGraph& g, const std::vector<std::string>& players,
                        int64_t* regions) {
  CompileOptions options;
  options.backend = "cpu";
  options.pipeline = Divided(g, players).ToString();
  // Teams of two wait long for each other where tests run side by side.
  options.threads = g.seed % 4 == 0 ? 2 : 1;
  const auto program = Compile(g.graph, options);
  *regions += program->stats().delegated;
  Session session(program);
  Lender lender;
  for (size_t b = 0; b < g.bindings.size(); ++b) {
    const std::vector<TensorPtr> in = fuzz::MakeInputs(g, b);
    const Oracles want = AskOracles(g.graph, in, false);
    const std::vector<TensorPtr> got = session.Run(lender.Lend(Ordered(*program, g.graph, in)));
    lender.Overwrite();
    for (size_t i = 0; i < got.size(); ++i) {
      const NodeEntry e = g.graph.outputs[i];
      const auto bound = g.values.find({e.node->id(), e.index});
      const std::string why =
          CompareResult(*got[i], want, i, bound == g.values.end() ? 0 : bound->second.error);
      if (!why.empty())
        return g.graph.OutputName(i) + " at binding " + std::to_string(b) + ": " + why;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("random graphs, divided at random between cpu and engines, mean the same") {
  if (!HasCpu()) return;
  const std::vector<std::string> players = Players();
  const LogLevel level = GetLogLevel();
  SetLogLevel(LogLevel::kError);  // regions that are refused, steps that no library takes
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 1000);
  int64_t regions = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + uint64_t(count) && failures < 5; ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph g = fuzz::MakeRandomGraph(seed);
    std::string why;
    try {
      why = WhatDiffers(g, players, &regions);
    } catch (const Error& e) {
      why = e.what();
    }
    if (why.empty()) continue;
    ++failures;
    PrintOptions print;
    print.inline_all = true;
    FAIL_CHECK("seed " << seed << ": " << why << "\n" << PrintGraph(g.graph, print));
    if (std::getenv("WEFT_FUZZ_VERBOSE"))
      MESSAGE(
          "divided: " << PrintGraph(ApplyPasses(g.graph, WithoutCode(Divided(g, players))), print));
  }
  SetLogLevel(level);
  MESSAGE(count << " graphs, " << regions << " regions of " << Join(players, ", "));
  if (count >= 500) CHECK(regions >= count);
}

}  // namespace weft::e2e
