/// node_lowering.cc: see node_lowering.h.
#include "node_lowering.h"

#include <algorithm>

#include "../l2/emit.h"
#include "../rules/rule.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace hsimd {

using namespace weft;

namespace {

/// The words between DRAM and PEs are used in turn, so that one move may begin while another ends.
constexpr int kTurns = 2;
/// Raised when rules or emission take other cycles than before, so that what was counted is counted
/// again.
constexpr int kEmission = 1;

}  // namespace

NodePlaces PlacesIn(const Graph& graph, const NodePtr& node) {
  const PlaceMap& places = graph.GetAttr<PlaceMap>("hsimd_place");
  const auto of = [&](const NodeEntry& e) {
    const ValuePlace* p = places.find(e);
    WEFT_CHECK(p, kDependency, "{}: no place; HsimdLayout gives it", e.node->Describe());
    return *p;
  };
  NodePlaces out;
  for (const NodeEntry& e : node->inputs) {
    if (!e.node) continue;
    // What lies off chip and was not brought near is not read.
    const bool unread = !MovesOnly(node) && LiesOffChip(e.node);
    out.inputs.push_back(unread ? ValuePlace() : of(e));
  }
  for (uint32_t i = 0; i < node->num_outputs(); ++i) out.outputs.push_back(of(NodeEntry(node, i)));
  return out;
}

void PutInARow(NodePlaces* places) {
  std::map<std::string, int64_t> used;
  for (auto* list : {&places->inputs, &places->outputs})
    for (ValuePlace& p : *list) {
      if (p.memory.empty()) continue;  // unread
      p.base = used[p.memory];
      used[p.memory] += Words(p.layout);
    }
}

NodeLowering::NodeLowering(const Graph& graph, MachinePtr machine)
    : graph_(graph), machine_(std::move(machine)), memories_(MemoriesOf(*machine_)) {}

TileProgram NodeLowering::Lower(const NodePtr& node, const NodePlaces& places) {
  for (const auto* list : {&places.inputs, &places.outputs})
    for (const ValuePlace& p : *list)
      WEFT_CHECK(p.base >= 0 || p.memory.empty(), kDependency,
                 "{}: a place without an address; HsimdAddress gives it", node->Describe());
  TileProgram p = MovesOnly(node) ? Move(node->Describe(), places.inputs[0], places.outputs[0])
                                  : Rule(node, places);
  p.machine = machine_->name;
  VerifyTiles(p, *machine_);
  return p;
}

int64_t NodeLowering::Measure(const NodePtr& node, NodePlaces places) {
  std::string key = TextOf(node);
  for (auto* list : {&places.inputs, &places.outputs})
    for (ValuePlace& p : *list) {
      if (p.memory.empty()) continue;
      p.base = -1;
      key += "\n" + PrintPlace(p);
    }
  // An operand that is read twice lies in one place.
  std::vector<NodeEntry> present;
  for (const NodeEntry& e : node->inputs)
    if (e.node) present.push_back(e);
  std::vector<size_t> first;
  for (size_t i = 0; i < present.size(); ++i) {
    first.push_back(
        size_t(std::find(present.begin(), present.end(), present[i]) - present.begin()));
    if (first[i] < i && places.inputs[i] == places.inputs[first[i]])
      places.inputs[i].memory.clear();
    else
      first[i] = i;
  }
  PutInARow(&places);
  for (size_t i = 0; i < first.size(); ++i) places.inputs[i] = places.inputs[first[i]];
  return Counted(key, [&] { return Lower(node, places); });
}

int64_t NodeLowering::MeasureMove(ValuePlace from, ValuePlace to) {
  from.base = 0;
  to.base = from.memory == to.memory ? Words(from.layout) : 0;
  return Counted(TextOf({}) + "\n" + PrintPlace(from) + "\n" + PrintPlace(to), [&] {
    TileProgram p = Move("", from, to);
    p.machine = machine_->name;
    return p;
  });
}

int64_t NodeLowering::Counted(const std::string& key, const std::function<TileProgram()>& tiles) {
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  KernelCache& cache = KernelCache::Process();
  if (const auto text = cache.FindText(key)) return known_[key] = std::stoll(*text);
  const int64_t cycles = SequenceBlocks(*machine_, EmitTiles(tiles(), *machine_)).cycles;
  cache.StoreText(key, std::to_string(cycles));
  return known_[key] = cycles;
}

std::string NodeLowering::TextOf(const NodePtr& node) {
  if (start_.empty())
    start_ = fmt::format("hsimd cycles {}\ntarget hsimd:{}\nmachine {}\n", kEmission,
                         machine_->name, Hasher().Add(PrintMachine(*machine_)).Finish().ToHex());
  if (!node || MovesOnly(node)) return start_ + "move";
  const auto [it, fresh] = texts_.try_emplace(node->id());
  if (!fresh) return it->second;
  // The node in a graph of its own.
  const TypeMap& types = graph_.GetAttr<TypeMap>("dtype");
  const ShapeMap& shapes = graph_.GetAttr<ShapeMap>("shape");
  Graph alone;
  std::vector<NodeEntry> inputs;
  for (const NodeEntry& e : node->inputs) {
    if (!e.node)
      inputs.emplace_back();
    else if (const TensorPtr value = Graph::ConstantOf(e))
      inputs.push_back(alone.AddConstant(value));
    else
      inputs.emplace_back(alone.AddInput("", types[e], shapes[e]));
  }
  const NodePtr twin = alone.AddCopy(node, inputs);
  for (uint32_t i = 0; i < node->num_outputs(); ++i)
    if (IsRead(graph_, NodeEntry(node, i))) alone.outputs.push_back(NodeEntry(twin, i));
  PrintOptions options;
  options.inline_all = true;
  return it->second = start_ + PrintGraph(alone, options);
}

TileProgram NodeLowering::Rule(const NodePtr& node, const NodePlaces& places) {
  const auto tiles = [&](const std::vector<ValuePlace>& list) {
    std::vector<TilePlace> t;
    for (const ValuePlace& p : list)
      t.push_back({p.memory.empty() ? -1 : machine_->MemoryNamed(p.memory), p.base, p.layout});
    return t;
  };
  std::vector<ScratchRange> scratch = memories_.scratch;
  for (const int m : memories_.between)
    scratch.push_back({m, 0, machine_->memories[size_t(m)].words});
  return LowerNode({graph_, node, *machine_, tiles(places.inputs), tiles(places.outputs), scratch});
}

TileProgram NodeLowering::Move(const std::string& note, const ValuePlace& from,
                               const ValuePlace& to) {
  TileProgram p;
  const auto value = [&](const char* name, TileValue::Role role, const ValuePlace& place) {
    TileValue v;
    v.name = name;
    v.role = role;
    v.memory = machine_->MemoryNamed(place.memory);
    v.base = place.base;
    v.words = std::max<int64_t>(Words(place.layout), 1);
    v.layout = place.layout;
    return p.AddValue(std::move(v));
  };
  MoveOp move;
  move.from = value("x", TileValue::Role::kInput, from);
  move.to = value("y", TileValue::Role::kOutput, to);
  move.note = note;
  const int turn = turn_++ % kTurns;
  for (const int m : memories_.between) {
    const int64_t words = machine_->memories[size_t(m)].words / kTurns;
    p.scratch.push_back({m, turn * words, words});
  }
  p.scratch.insert(p.scratch.end(), memories_.scratch.begin(), memories_.scratch.end());
  p.ops.push_back(std::move(move));
  return p;
}

}  // namespace hsimd
