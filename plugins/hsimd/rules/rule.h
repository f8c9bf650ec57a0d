/// rule.h: how operators say where their operands and results may lie, and what they are on l2.
///
/// A rule is an attribute of an operator, `FLayoutRule.hsimd` and `FLowerHsimd`; any plugin may
/// give one to any operator that is not a view. An operator without runs by the general rule, which
/// reads its Expr: whatever has an affine one needs no line here. Its parts are
///
///   axes      the dimensions of results and reductions; those that name one dimension of an
///             operand as it is are one class, and the levels of the machine are dealt out to
///             classes
///   layouts   of every axis: upper levels first, then the local address, the PEs last, so that the
///             rows that a product leaves are the contraction that the next one takes
///   products  a sum of products of two loads goes to the matrix unit, where the machine has one
///             and the layouts put rows and contraction on the PEs; taps of a window are more
///             contraction
///   windows   axes that are read shifted, and those that conditions look at, stay in a place; the
///             points of an operator are cut into boxes in which every condition is known
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../l2/tile_program.h"
#include "weft/core/graph/graph.h"

namespace hsimd {

/// One way to run an operator.
struct LayoutCandidate {
  std::vector<Layout> inputs;  ///< of the present operands, in order
  std::vector<bool> unread;    ///< of them: where it lies does not matter; empty: all are read
  bool IsUnread(size_t input) const { return input < unread.size() && unread[input]; }
  std::vector<Layout> outputs;  ///< of all results; of one that nothing reads: no axes
  int64_t cycles = 0;           ///< estimate, without moves
  int family = 0;               ///< the same number: the levels are dealt out alike
  std::string name;             ///< "L1B:0 MAB:1 PE:rows"
};

/// Shapes of `graph` are static. Throws kUnsupported, with the reason, where there is no way.
using FLayoutRule = std::function<std::vector<LayoutCandidate>(
    const weft::Graph& graph, const weft::NodePtr& node, const Machine& machine)>;

struct TilePlace {
  int memory = 0;  ///< of the PEs; -1: nowhere
  int64_t base = 0;
  Layout layout;
};

struct LowerRequest {
  const weft::Graph& graph;
  weft::NodePtr node;
  const Machine& machine;
  std::vector<TilePlace> inputs;      ///< of the present operands, in order; memory -1: unread
  std::vector<TilePlace> outputs;     ///< of all results; ignored where nothing reads one
  std::vector<ScratchRange> scratch;  ///< may be used while the node runs
};

/// Values "in0", "in1", .., "out0", .. and the operations; memory beyond `scratch` is untouched but
/// for holes of operands. Throws kUnsupported, kLimit.
using FLowerHsimd = std::function<TileProgram(const LowerRequest& request)>;

/// The operator's own rule, or the general one.
std::vector<LayoutCandidate> LayoutCandidates(const weft::Graph& graph, const weft::NodePtr& node,
                                              const Machine& machine);
TileProgram LowerNode(const LowerRequest& request);

/// At most this many candidates, the cheapest by estimate.
constexpr int kMaxCandidates = 100;

/// The family of candidates that deal the first class of axes (a batch) out over every level.
int BatchFamily(const Machine& machine);
std::vector<LayoutCandidate> GeneralCandidates(const weft::Graph& graph, const weft::NodePtr& node,
                                               const Machine& machine);
TileProgram LowerGeneral(const LowerRequest& request);

/// Operators that declare to be views (TIsView: Reshape, Squeeze ..): the result is the operand's
/// words under another shape. Nothing runs for them, and no rule is asked: HsimdLayout takes the
/// layouts of what makes the operand and of what reads the result.
bool IsView(const weft::NodePtr& node);

/// The layout in which every rule writes an axis: `levels[l]` true: the axis is dealt out over
/// level l. Local sizes are rounded up to a multiple of `multiple[axis]`; local addresses are
/// row-major.
Layout SplitLayout(const std::vector<int64_t>& shape, const Machine& machine,
                   const std::vector<std::vector<bool>>& levels,
                   const std::vector<int64_t>& multiple = {});

}  // namespace hsimd
