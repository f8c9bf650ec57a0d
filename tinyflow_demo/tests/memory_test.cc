/// memory_test.cc: the arena of a training step is hardly larger than what is needed of it at once.
/// What tensors need is found here from the graph: who writes and who reads every block, step by
/// step; never from the planner's own intervals. Library calls have scratch memory beside them.
#include <algorithm>
#include <climits>

#include "app/source.h"
#include "programs/program.h"
#include "tests/util.h"
#include "tinyflow/engine.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/plan/size_hints.h"
#include "weft/core/plan/storage.h"
#include "weft/sym/sym.h"

namespace tf::test {
namespace {

constexpr int64_t kBatch = 64;
constexpr double kMost = 1.01;

/// The most bytes of blocks of the arena that hold something that is still read, over the
/// steps of a program.
int64_t MostAtOnce(const weft::Graph& g, int64_t batch) {
  const auto& plan = g.GetAttr<weft::StoragePlan>("storage");
  const auto& order = g.GetAttr<weft::Order>("order").nodes;
  struct Life {
    int first = INT_MAX, last = -1;
  };
  std::vector<Life> lives(plan.storages.size());
  const auto touch = [&](const weft::NodeEntry& e, int step) {
    const int* s = e.node ? plan.of.find(e) : nullptr;
    if (!s) return;
    lives[size_t(*s)].first = std::min(lives[size_t(*s)].first, step);
    lives[size_t(*s)].last = std::max(lives[size_t(*s)].last, step);
  };
  for (int step = 0; step < int(order.size()); ++step) {
    const weft::NodePtr n = g.node(order[size_t(step)]);
    if (weft::IsOp(n, weft::builtin::kGroup)) continue;  // reads nothing
    for (const weft::NodeEntry& e : n->inputs) touch(e, step);
    for (uint32_t k = 0; k < n->num_outputs(); ++k) touch(weft::NodeEntry(n, k), step);
  }
  for (const weft::NodeEntry& e : g.outputs) touch(e, int(order.size()));
  std::vector<int64_t> live(order.size() + 1, 0);
  for (size_t s = 0; s < lives.size(); ++s) {
    if (plan.storages[s].kind != weft::StorageKind::kArena) continue;
    const int64_t bytes = weft::Evaluate(plan.storages[s].bytes, {{"batch", batch}});
    for (int step = lives[s].first; step <= lives[s].last; ++step) live[size_t(step)] += bytes;
  }
  return *std::max_element(live.begin(), live.end());
}

TEST_CASE("the arena of a training step is at most 1.01 times what it needs at once") {
  for (const std::string name : {"lenet", "resnet20", "unet", "transformer"})
    for (const std::string config : {"cpu fusion", "cpu"}) {
      CAPTURE(name);
      CAPTURE(config);
      const Fresh fresh;
      const programs::Program& program = programs::Find(name);
      const programs::Model model = program.build({program.rate, 1000});
      Session sess(config);
      sess.run(initialize_all_variables());
      const auto& g = default_graph()->graph;
      engine::Executable step(g, {model.train_step.entry(), model.loss.entry()},
                              {model.x.entry(), model.y.entry()}, {{}, {}}, Mode::kTraining,
                              engine::ParseConfig(config), sess.store());
      const data::Batch batch = app::RandomBatch(program, kBatch, 1);
      step.Run({batch.x, batch.y});
      const int64_t needed = MostAtOnce(step.program().graph(), kBatch);
      MESSAGE(name << ", " << config << ": arena " << step.arena_bytes() << " bytes, tensors "
                   << needed << ", with scratch memory " << step.live_bytes() << ", ratio "
                   << double(step.arena_bytes()) / double(step.live_bytes()));
      CHECK(needed == step.memory().tensor_bytes);
      CHECK(needed <= step.live_bytes());
      CHECK(step.live_bytes() <= needed + step.memory().scratch_bytes);
      CHECK(double(step.arena_bytes()) <= kMost * double(step.live_bytes()));
    }
}

/// Residual blocks with running statistics: what is kept for gradients is all made by kernels that
/// make these too.
TEST_CASE("a step of ResNet-20 in less than half of its memory, to the bit") {
  constexpr int64_t kPictures = 16;
  const auto run = [](const std::string& budget, weft::SessionMemory* memory) {
    const Fresh fresh;
    const programs::Program& program = programs::Find("resnet20");
    const programs::Model model = program.build({program.rate, 1000});
    Session sess("cpu fusion", 0, false, weft::MemoryBudget::Parse(budget, "test"));
    sess.run(initialize_all_variables());
    std::vector<double> seen;
    for (int step = 0; step < 2; ++step) {
      const data::Batch batch = app::RandomBatch(program, kPictures, uint64_t(step));
      const Feeds feeds{{model.x, batch.x}, {model.y, batch.y}};
      seen.push_back(sess.run({model.train_step, model.loss}, feeds)[1]->at(0));
      *memory = sess.info({model.train_step, model.loss}, feeds).memory;
    }
    // The running statistics are some of them.
    for (const VariableInfo& v : sess.graph()->variables)
      for (int64_t i = 0; i < sess.value(v.tensor)->num_elements(); ++i)
        seen.push_back(sess.value(v.tensor)->at(i));
    return seen;
  };
  weft::SessionMemory plain, within;
  const std::vector<double> want = run("", &plain);
  CHECK(run("45%", &within) == want);
  CHECK(within.budget_met);
  CHECK(within.budget_bytes == plain.peak_bytes * 45 / 100);
  CHECK(within.peak_bytes <= within.budget_bytes);
  CHECK(within.recompute_flops > 0);
}

TEST_CASE("plans of memory are made for the batch that is fed first") {
  const Fresh fresh;
  const programs::Program& program = programs::Find("lenet");
  const programs::Model model = program.build({program.rate, 1000});
  Session sess("cpu fusion");
  engine::Config config = engine::ParseConfig("cpu fusion");
  config.memory = weft::MemoryBudget::Parse("min", "test");
  engine::Executable step(default_graph()->graph, {model.train_step.entry(), model.loss.entry()},
                          {model.x.entry(), model.y.entry()}, {{}, {}}, Mode::kTraining, config,
                          sess.store(),
                          {weft::Shape::OfInts({24, 1, 28, 28}), weft::Shape::OfInts({24})});
  const auto& hints = step.program().graph().GetAttr<weft::SizeHints>("hint").values;
  CHECK(hints == std::map<std::string, int64_t>{{"batch", 24}});
}

}  // namespace
}  // namespace tf::test
