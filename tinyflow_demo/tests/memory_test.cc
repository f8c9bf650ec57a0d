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

}  // namespace
}  // namespace tf::test
