/// graph.h: graphs, and handles of their nodes and entries.
///
/// A handle holds its graph, and its node by id: an edit that erases the node makes it an error to
/// use the handle, never a stale pointer. Passes give new graphs; handles go on meaning the graph
/// that they were made of, and `graph.at(handle)` gives the twin.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft::python {

using SharedGraph = std::shared_ptr<Graph>;

struct PyNode {
  SharedGraph graph;
  NodeId id = 0;
  /// Throws kApiMisuse where it has been erased.
  NodePtr node() const;
  friend bool operator==(const PyNode& a, const PyNode& b) {
    return a.graph.get() == b.graph.get() && a.id == b.id;
  }
};

struct PyEntry {
  SharedGraph graph;
  NodeId id = 0;
  uint32_t index = 0;
  NodeEntry entry() const;
  PyNode node() const { return {graph, id}; }
  friend bool operator==(const PyEntry& a, const PyEntry& b) {
    return a.graph.get() == b.graph.get() && a.id == b.id && a.index == b.index;
  }
};

/// A graph that a function of Python was lent for one call (define/define.h) has ended with it: its
/// content went back to the library, and who kept it, or handles of it, is told.
void EndGraph(Graph* graph);
bool HasEnded(const Graph& graph);
/// Throws kApiMisuse for one that has ended.
void CheckLives(const Graph& graph);

/// A copy with these outputs that holds what they reach, and nothing beside it: effects and
/// declared inputs that they do not reach are left out.
Graph Extract(const Graph& g, const std::vector<NodeEntry>& entries);

PyEntry EntryOf(const SharedGraph& graph, const NodeEntry& entry);
PyNode NodeOf(const SharedGraph& graph, NodePtr node);
/// None for an absent one.
nanobind::object EntryObject(const SharedGraph& graph, const NodeEntry& entry);
std::vector<PyEntry> EntriesOf(const SharedGraph& graph, const std::vector<NodeEntry>& entries);
/// Of entries that have to be of `graph`: kApiMisuse else.
std::vector<NodeEntry> EntriesIn(const SharedGraph& graph, const std::vector<PyEntry>& entries);

/// An attribute's value; `type` is the field's, as ParamField spells it ("ints"), or empty.
AttrValue ToAttrValue(nanobind::handle object, const std::string& type, const std::string& name);
nanobind::object AttrObject(const AttrValue& value);
/// (2, 'n', None); None where the rank is unknown.
nanobind::object ShapeObject(const Shape& shape);
Shape ToShape(nanobind::handle object);
/// "f32", "seq(f32)"; None where it is unknown.
nanobind::object TypeObject(const Type& type);
Type ToType(nanobind::handle object);
/// Known or inferred, as far as the graph has it now.
Type TypeOfEntry(const Graph& graph, const NodeEntry& entry);
Shape ShapeOfEntry(const Graph& graph, const NodeEntry& entry);

/// A node of the operator in the graph of the entries among `inputs` (else `graph`): entries, None,
/// and numbers and arrays, which become constants. Its outputs.
nanobind::object MakeOpNode(const std::string& op, const nanobind::args& inputs,
                            const nanobind::kwargs& attributes);
/// `value` as an entry beside `like`.
PyEntry Operand(nanobind::handle value, const PyEntry& like);

void BindGraph(nanobind::module_& m);
void BindEntries(nanobind::module_& m);
void BindOps(nanobind::module_& m);

}  // namespace weft::python
