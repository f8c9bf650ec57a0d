/// node_lowering.h: one node of l3 as operations on tiles, and what it costs by itself.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "l3.h"

namespace hsimd {

/// Of the present operands and of the results, in order; an operand that is not read has none.
struct NodePlaces {
  std::vector<ValuePlace> inputs, outputs;
};
/// As `hsimd_place` has them.
NodePlaces PlacesIn(const weft::Graph& graph, const weft::NodePtr& node);

/// Gives them bases: one behind the other in each memory.
void PutInARow(NodePlaces* places);

class NodeLowering {
 public:
  /// `graph` with shape and dtype stays.
  NodeLowering(const weft::Graph& graph, MachinePtr machine);
  const MachinePtr& machine() const { return machine_; }

  /// At places with bases. Throws kDependency where a place has none, kUnsupported, kLimit.
  TileProgram Lower(const weft::NodePtr& node, const NodePlaces& places);
  /// Cycles of the node by itself, its values one behind the other in their memories. What was
  /// counted is remembered on disk, by Weft's cache of kernels. Throws as Lower.
  int64_t Measure(const weft::NodePtr& node, NodePlaces places);
  /// Cycles of a move by itself.
  int64_t MeasureMove(ValuePlace from, ValuePlace to);

 private:
  TileProgram Rule(const weft::NodePtr& node, const NodePlaces& places);
  TileProgram Move(const std::string& note, const ValuePlace& from, const ValuePlace& to);
  /// Of what nobody has counted before, in this process or another.
  int64_t Counted(const std::string& key, const std::function<TileProgram()>& tiles);
  /// What decides the cycles of a node, or of a move, beside places.
  std::string TextOf(const weft::NodePtr& node);

  const weft::Graph& graph_;
  MachinePtr machine_;
  MachineMemories memories_;
  int turn_ = 0;
  std::string start_;  ///< of all texts
  std::map<weft::NodeId, std::string> texts_;
  std::map<std::string, int64_t> known_;
};

}  // namespace hsimd
