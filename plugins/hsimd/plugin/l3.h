/// l3.h: the first of the three levels: Weft's graph, with a place for every value.
///
/// A value has a row in the graph attribute `hsimd_place`: the memory that it lies in, the layout,
/// and, once HsimdAddress has run, its first word there. Variables and constants lie off chip, one
/// element after another. Three operators change nothing but the place:
///
///   hsimd::Load    off chip -> memories of the PEs
///   hsimd::Switch  one layout, or memory of the PEs, -> another
///   hsimd::Store   memories of the PEs -> off chip
///
/// Two are views of what lies off chip, and nothing runs for them:
///
///   hsimd::Slice   some of the elements along an axis
///   hsimd::Join    the whole of which Stores have written parts
///
/// A state variable is written by `weft::Assign(v, Store(x))`, at most one: the words of the Store
/// are the variable's, and the Assign itself is nothing that runs.
///
/// So the graph means what it meant, the core's checks of passes hold, and a text of it says all
/// that later passes need. The passes, in order, and what each adds:
///
///   HsimdState     what is read and written of state variables as values
///   HsimdViews     views of operands and results out of fused nodes
///   HsimdSlice     what has no room in slices of one axis
///   HsimdSplit     fused nodes that no rule lowers taken apart
///   HsimdLayout    hsimd_machine, hsimd_place without bases, the three operators;
///                  hsimd_layout_costs
///   HsimdMeasure   hsimd_cycles of every node
///   HsimdSchedule  order; spills, refills and nodes that run again as nodes of their own
///   HsimdAddress   bases in hsimd_place
///   HsimdLower     hsimd_tiles: l2 of every node
///   HsimdEmit      hsimd_blocks: l1 of every node by itself
///   HsimdMerge     hsimd_program: l1 of the graph
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../l1/merge.h"
#include "../l1/program.h"
#include "../l2/tile_program.h"
#include "../layout/layout.h"
#include "../machine/machine.h"
#include "../rules/rule.h"
#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr.h"

namespace hsimd {

using MachinePtr = std::shared_ptr<const Machine>;

struct ValuePlace {
  std::string memory;
  int64_t base = -1;  ///< words; -1: HsimdAddress has not run
  Layout layout;
};
/// "LM0[128] (4,6)/((4_PE:1), (6:1))"; without a base "LM0 (4,6)/(..)". Throws kSyntax.
std::string PrintPlace(const ValuePlace& place);
ValuePlace ParsePlace(const std::string& text);
bool operator==(const ValuePlace& a, const ValuePlace& b);

/// With the machine, whose names the texts need.
struct NodeTiles {
  MachinePtr machine;
  std::shared_ptr<const TileProgram> program;
};
struct NodeBlocks {
  MachinePtr machine;
  std::shared_ptr<const std::vector<Block>> blocks;
};
struct MachineProgram {
  MachinePtr machine;
  std::shared_ptr<const Program> program;
  int64_t cycles = 0;           ///< predicted
  int64_t bound_cycles = 0;     ///< cycles that the fullest slot is held for
  int64_t sequence_cycles = 0;  ///< of the nodes one after another
};

/// What HsimdLayout chose costs, and what no choice costs less than; cycles, nodes and moves one
/// after another.
struct LayoutCosts {
  int64_t cycles = 0, bound = 0;
  double gap() const { return cycles > bound ? double(cycles - bound) / double(cycles) : 0; }
};

using PlaceMap = weft::EntryMap<ValuePlace>;
using TilesMap = weft::NodeMap<NodeTiles>;
using BlocksMap = weft::NodeMap<NodeBlocks>;
using CyclesMap = weft::NodeMap<int64_t>;

/// Where nothing names another.
inline constexpr const char* kDefaultMachine = "tree64";

inline constexpr const char* kLoad = "hsimd::Load";
inline constexpr const char* kSwitch = "hsimd::Switch";
inline constexpr const char* kStore = "hsimd::Store";
inline constexpr const char* kSlice = "hsimd::Slice";
inline constexpr const char* kJoin = "hsimd::Join";

/// Of the graph; throws kDependency where HsimdLayout has not run.
MachinePtr MachineOf(const weft::Graph& graph);
/// One of the three operators.
bool MovesOnly(const weft::NodePtr& node);
/// Variables and constants, slices and joins: nothing runs for them.
bool LiesOffChip(const weft::NodePtr& node);
/// The variable that a Store writes; empty where it has words of its own.
weft::NodeEntry WrittenBy(const weft::NodePtr& store);
/// The elements [start, start + size) of an axis of a row-major tensor off chip.
Layout PartLayout(const std::vector<int64_t>& whole, int64_t axis, int64_t start, int64_t size);
/// The Join that a Store writes a part of; null where it has words of its own.
weft::NodePtr JoinOf(const weft::NodePtr& store);
/// Whose words an entry has: of a view or a Slice what it looks at, through views of views, of a
/// Store to a variable or a Join that; any other entry is it itself.
weft::NodeEntry Whole(weft::NodeEntry e);
/// Instructions are made for it: it is not a variable, a constant, a view or weft::Assign.
bool Runs(const weft::NodePtr& node);

/// Roles of a machine's memories, found by what its units reach.
struct MachineMemories {
  int dram = -1;  ///< off chip
  int home = -1;  ///< of the PEs: the largest, where values live
  /// Memories of the PEs that values live in, `home` first, and how many words from the first on.
  struct Bank {
    int memory = 0;
    int64_t words = 0;
  };
  std::vector<Bank> banks;
  std::vector<ScratchRange> scratch;  ///< of the PEs: all other words
  std::vector<int> between;           ///< of the levels above
};
/// Throws kUnsupported for a machine without one of the first two.
MachineMemories MemoriesOf(const Machine& machine);

}  // namespace hsimd
