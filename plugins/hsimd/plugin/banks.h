/// banks.h: in which of the memories of the PEs a value lies. Part of HsimdLayout.
#pragma once

#include <vector>

#include "l3.h"
#include "node_lowering.h"

namespace hsimd {

/// Whether values of these words, all needed at once, can be dealt out over the banks.
bool FitsBanks(const std::vector<MachineMemories::Bank>& banks, std::vector<int64_t> words);

/// A sum of products of two operands of a node: which they are, and the dimensions of each that are
/// not contracted.
struct ProductOperands {
  int operand[2] = {-1, -1};
  std::vector<size_t> rows[2];
};
std::vector<ProductOperands> ProductsOf(const weft::Graph& graph, const weft::NodePtr& node);

/// Index in `banks` of the one where the matrix unit finds A: the second; the only one of one.
size_t BankOfA(const MachineMemories& memories);

/// Of the operands of products those that the matrix unit takes as A under these layouts: whose
/// rows are dealt out over the PEs.
std::vector<int> MatrixOperands(const std::vector<ProductOperands>& products,
                                const std::vector<Layout>& operands, const Machine& machine);

/// Whether there is room at once for the operands and results of a node under a candidate, and for
/// what the matrix unit takes as A where it finds it.
bool FitsBanks(const MachineMemories& memories, const Machine& machine,
               const std::vector<ProductOperands>& products, const LayoutCandidate& candidate);

/// Operands and results of a node by itself under a candidate: what the matrix unit takes as A
/// where it finds it, all else in the first bank with room.
NodePlaces PlacesOf(const MachineMemories& memories, const Machine& machine,
                    const std::vector<ProductOperands>& products, const LayoutCandidate& candidate);

/// Of so many candidates of a node, the cheapest that have room, HsimdLayout chooses one.
constexpr int64_t kMostPlanned = 24;

/// Whether a node runs in one of these: no; not, for want of room; yes.
enum class NodeRuns { kRefused, kNoRoom, kYes };
/// Lowers and emits it under candidates until one goes.
NodeRuns RunsOn(const weft::Graph& graph, const weft::NodePtr& node, NodeLowering& lowering);

/// Gives the values that lie in memories of the PEs their banks: what the matrix unit takes as A
/// lies apart from all others, as long as every node has room for its values in each bank; what has
/// no room in the first lies in the next. Views lie where what they look at does.
void AssignBanks(const weft::Graph& graph, const MachineMemories& memories, const Machine& machine,
                 PlaceMap* places);

}  // namespace hsimd
