/// lower_pass.cc: HsimdMeasure, HsimdLower, HsimdEmit, HsimdMerge. Nodes as operations on tiles, as
/// instructions, and all of them on one timeline.
///   needs      hsimd_machine, hsimd_place; with bases and order, but for HsimdMeasure
///   provides   hsimd_cycles; hsimd_tiles; hsimd_blocks; hsimd_program
///   preserves  everything
///   never      changes the graph
///   cost       linear in instructions; HsimdMerge: that of l1/merge.h
///   source     rules/rule.h, l2/emit.h, l1/merge.h
#include <algorithm>
#include <map>

#include "../l1/check.h"
#include "../l2/emit.h"
#include "l3.h"
#include "node_lowering.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using namespace weft;

Graph MeasureNodes(Graph g, PassContext& ctx) {
  NodeLowering lowering(g, MachineOf(g));
  CyclesMap cycles;
  for (const NodePtr& n : g.TopoOrder()) {
    if (!Runs(n)) continue;
    const int64_t c = lowering.Measure(n, PlacesIn(g, n));
    cycles.set(n, c);
    ctx.Count("cycles", c);
  }
  g.SetAttr("hsimd_cycles", std::move(cycles));
  return g;
}

Graph Lower(Graph g, PassContext& ctx) {
  NodeLowering lowering(g, MachineOf(g));
  TilesMap tiles;
  for (const NodeId id : g.GetAttr<Order>("order").nodes) {
    const NodePtr n = g.node(id);
    if (!Runs(n)) continue;
    auto program = std::make_shared<TileProgram>(lowering.Lower(n, PlacesIn(g, n)));
    ctx.Count("operations", int64_t(program->ops.size()));
    tiles.set(n, {lowering.machine(), std::move(program)});
  }
  g.SetAttr("hsimd_tiles", std::move(tiles));
  return g;
}

Graph Emit(Graph g, PassContext& ctx) {
  const TilesMap& tiles = g.GetAttr<TilesMap>("hsimd_tiles");
  BlocksMap out;
  for (const NodeId id : g.GetAttr<Order>("order").nodes) {
    const NodePtr n = g.node(id);
    const NodeTiles* t = tiles.find(n);
    if (!t) continue;
    auto blocks = std::make_shared<std::vector<Block>>(EmitTiles(*t->program, *t->machine));
    for (const Block& b : *blocks) ctx.Count("instructions", int64_t(b.instructions.size()));
    out.set(n, {t->machine, std::move(blocks)});
  }
  g.SetAttr("hsimd_blocks", std::move(out));
  return g;
}

/// Cycles that the fullest slot is held for.
int64_t FullestSlot(const Program& program, const Machine& machine) {
  std::map<std::string, int64_t> held;
  for (const Instruction& i : program.instructions) {
    held[machine.units[size_t(i.unit)].slot] += CyclesHeld(i, machine);
  }
  int64_t most = 0;
  for (const auto& [slot, cycles] : held) most = std::max(most, cycles);
  return most;
}

Graph Merge(Graph g, PassContext& ctx) {
  const MachinePtr machine = MachineOf(g);
  const MachineMemories memories = MemoriesOf(*machine);
  const BlocksMap& blocks = g.GetAttr<BlocksMap>("hsimd_blocks");
  const PlaceMap& places = g.GetAttr<PlaceMap>("hsimd_place");
  std::vector<Block> all;
  auto program = std::make_shared<Program>();
  program->machine = machine->name;
  for (const NodeId id : g.GetAttr<Order>("order").nodes) {
    const NodePtr n = g.node(id);
    const bool given = LiesOffChip(n) && !IsOp(n, kSlice) && !IsOp(n, kJoin);
    const ValuePlace* p = given ? places.find(NodeEntry(n)) : nullptr;
    if (p)
      program->segments.push_back({"v" + std::to_string(id), memories.dram, p->base,
                                   std::max<int64_t>(Words(p->layout), 1), false});
    if (const NodeBlocks* b = blocks.find(n))
      all.insert(all.end(), b->blocks->begin(), b->blocks->end());
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    if (!places.find(g.outputs[i])) continue;  // it has no elements
    const ValuePlace& p = *places.find(g.outputs[i]);
    program->segments.push_back({"y" + std::to_string(i), memories.dram, p.base,
                                 std::max<int64_t>(Words(p.layout), 1), true});
  }
  MergedProgram merged =
      ctx.option<bool>("interleave") ? MergeBlocks(*machine, all) : SequenceBlocks(*machine, all);
  program->instructions = std::move(merged.instructions);
  CheckProgram(*program, *machine);
  MachineProgram out;
  out.machine = machine;
  out.cycles = merged.cycles;
  out.sequence_cycles = merged.sequence_cycles;
  out.bound_cycles = FullestSlot(*program, *machine);
  ctx.Count("cycles", out.cycles);
  ctx.Count("sequence_cycles", out.sequence_cycles);
  ctx.Count("bound_cycles", out.bound_cycles);
  ctx.Count("instructions", int64_t(program->instructions.size()));
  out.program = std::move(program);
  g.SetAttr("hsimd_program", std::move(out));
  return g;
}

WEFT_REGISTER_PASS(HsimdMeasure)
    .describe("counts the cycles of every node by itself")
    .set_body(MeasureNodes)
    .set_change_graph(false)
    .preserve_all()
    .depend_graph_attr("hsimd_machine")
    .depend_graph_attr("hsimd_place")
    .provide_graph_attr("hsimd_cycles")
    .statistic("cycles", "of all nodes, one after another");

WEFT_REGISTER_PASS(HsimdLower)
    .describe("writes every node as operations on tiles")
    .set_body(Lower)
    .set_change_graph(false)
    .preserve_all()
    .depend_graph_attr("hsimd_machine")
    .depend_graph_attr("hsimd_place")
    .depend_graph_attr("order")
    .provide_graph_attr("hsimd_tiles")
    .statistic("operations", "on tiles");

WEFT_REGISTER_PASS(HsimdEmit)
    .describe("writes every node as instructions")
    .set_body(Emit)
    .set_change_graph(false)
    .preserve_all()
    .depend_graph_attr("hsimd_tiles")
    .depend_graph_attr("order")
    .provide_graph_attr("hsimd_blocks")
    .statistic("instructions", "of all nodes");

WEFT_REGISTER_PASS(HsimdMerge)
    .describe("puts all instructions on one timeline, side by side where units differ")
    .set_body(Merge)
    .set_change_graph(false)
    .preserve_all()
    .depend_graph_attr("hsimd_machine")
    .depend_graph_attr("hsimd_place")
    .depend_graph_attr("hsimd_blocks")
    .depend_graph_attr("order")
    .provide_graph_attr("hsimd_program")
    .option("interleave", true, "false: nodes one after another")
    .statistic("cycles", "of the program")
    .statistic("sequence_cycles", "of the nodes one after another")
    .statistic("bound_cycles", "the fullest slot")
    .statistic("instructions", "of the program");

}  // namespace
}  // namespace hsimd
