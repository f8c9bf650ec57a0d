/// address_pass.cc: HsimdAddress. The first word of every value, on and off the chip.
///   needs      hsimd_machine, hsimd_place, order
///   provides   bases in hsimd_place
///   preserves  everything else
///   never      lets two values that are needed at once share words
///   cost       that of PlanWithin
///   source     l3/addresses.h
#include <algorithm>
#include <unordered_map>

#include "../l3/addresses.h"
#include "l3.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using namespace weft;

Graph Address(Graph g, PassContext& ctx) {
  const MachinePtr machine = MachineOf(g);
  const std::vector<NodeId> order = g.GetAttr<Order>("order").nodes;
  PlaceMap places = g.GetAttr<PlaceMap>("hsimd_place");
  struct Item {
    NodeEntry entry;
    int begin = 0, end = 0;
  };
  std::unordered_map<uint64_t, Item> items;
  std::vector<uint64_t> keys;  // in the order of the graph
  const int steps = int(order.size());
  for (int i = 0; i < steps; ++i) {
    const NodePtr n = g.node(order[size_t(i)]);
    for (const NodeEntry& e : n->inputs) {
      if (!e.node) continue;
      if (const auto it = items.find(Whole(e).key().packed()); it != items.end())
        it->second.end = std::max(it->second.end, i + 1);
    }
    if (IsView(n) || IsOp(n, kSlice) || IsOp(n, builtin::kAssign) || WrittenBy(n)) continue;
    if (const NodePtr join = JoinOf(n) ? JoinOf(n) : IsOp(n, kJoin) ? n : nullptr) {
      // It is there from the first of its parts on.
      const uint64_t key = NodeEntry(join).key().packed();
      if (items.emplace(key, Item{NodeEntry(join), i, i + 1}).second) keys.push_back(key);
      continue;
    }
    for (uint32_t o = 0; o < n->num_outputs(); ++o) {
      const uint64_t key = NodeEntry(n, o).key().packed();
      // What lies off chip from the start does until the end: the next run reads it again.
      const bool given = LiesOffChip(n);
      items[key] = {NodeEntry(n, o), given ? 0 : i, given ? steps : i + 1};
      keys.push_back(key);
    }
  }
  for (const NodeEntry& e : g.outputs)
    if (const auto it = items.find(Whole(e).key().packed()); it != items.end())
      it->second.end = steps;

  const MachineMemories memories = MemoriesOf(*machine);
  for (const Memory& memory : machine->memories) {
    std::vector<PlanItem> plan;
    std::vector<NodeEntry> entries;
    for (const uint64_t key : keys) {
      const Item& item = items.at(key);
      const ValuePlace* place = places.find(item.entry);
      if (!place || place->memory != memory.name) continue;  // nobody reads it on the machine
      plan.push_back({std::max<int64_t>(Words(place->layout), 1), item.begin, item.end, 1});
      entries.push_back(item.entry);
    }
    if (plan.empty()) continue;
    int64_t room = memory.words;
    for (const MachineMemories::Bank& bank : memories.banks)
      if (machine->memories[size_t(bank.memory)].name == memory.name) room = bank.words;
    const Plan offsets = PlanWithin(plan, room);
    WEFT_CHECK(offsets.arena_bytes <= room, kLimit,
               "values need {} words of {}, which has {} for them{}", offsets.arena_bytes,
               memory.name, room,
               memory.off_chip ? "" : "; HsimdSchedule{words=..} keeps fewer there");
    for (size_t i = 0; i < entries.size(); ++i) {
      ValuePlace place = *places.find(entries[i]);
      place.base = offsets.offsets[i];
      places.set(entries[i], std::move(place));
    }
    ctx.Count(memory.off_chip ? "dram_words" : "peak_words", offsets.arena_bytes);
  }
  for (const NodeId id : order) {
    const NodePtr n = g.node(id);
    const NodeEntry whole = IsOp(n, builtin::kAssign) ? n->inputs[0] : Whole(NodeEntry(n));
    if (whole.node == n) continue;
    ValuePlace place = *places.find(NodeEntry(n));
    place.base = places.find(whole)->base;
    places.set(NodeEntry(n), std::move(place));
  }
  g.SetAttr("hsimd_place", std::move(places));
  return g;
}

WEFT_REGISTER_PASS(HsimdAddress)
    .describe("gives every value its first word on and off the chip")
    .set_body(Address)
    .set_change_graph(false)
    .preserve_all()
    .depend_graph_attr("hsimd_machine")
    .depend_graph_attr("hsimd_place")
    .depend_graph_attr("order")
    .statistic("peak_words", "of the memory of the PEs that values live in, in every PE")
    .statistic("dram_words", "off chip");

}  // namespace
}  // namespace hsimd
