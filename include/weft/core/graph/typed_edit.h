/// typed_edit.h: edits of a graph that keep what is known of its entries.
///
/// An edit clears the rows of derived attributes at what it touches and behind it (graph_attr.h). A
/// rewrite puts equal in the place of equal, so that nothing behind it changes: it edits through
/// this, and says only what is known of what is new.
///
///   TypedEdit edit(g);
///   const NodeEntry y = edit.Add("Relu", {x}, {}, /*like=*/NodeEntry(old));
///   edit.Replace(old, {y});
///   // the rows are back in the graph when `edit` is gone, or after Finish()
///
///   holds   the rows of "shape", "dtype" and "value"; other derived attributes that the pass
///           declares preserved ("layout", "kernel" ...) keep theirs; replacements take them over
///   never   infers; checks what it is told (the manager does, after the pass)
///   cost    that of the rows written; taking attributes out and putting them back moves pointers
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/core/graph/graph_attr_types.h"

namespace weft {

/// What is known of an entry. A null value: that is not followed.
struct KnownRow {
  Shape shape;
  Type type;
  SymTensorPtr value;
};

class WEFT_API TypedEdit {
 public:
  /// Of a graph without attributes as well, as of a body that is being made.
  explicit TypedEdit(Graph& g);
  ~TypedEdit();
  TypedEdit(const TypedEdit&) = delete;
  TypedEdit& operator=(const TypedEdit&) = delete;
  /// Puts the rows back into the graph. No use of the edit after it.
  void Finish();

  Graph& graph() const { return g_; }
  const Shape& shape(const NodeEntry& e) const { return shapes_[e]; }
  const Type& type(const NodeEntry& e) const { return types_[e]; }
  DType dtype(const NodeEntry& e) const { return types_[e].dtype; }
  /// Null where it is not followed.
  SymTensorPtr value(const NodeEntry& e) const {
    const SymTensorPtr* v = values_.find(e);
    return v ? *v : nullptr;
  }
  const ShapeMap& shapes() const { return shapes_; }
  const TypeMap& types() const { return types_; }
  const ValueMap& values() const { return values_; }

  /// A node with one output, which is as `like`, or of which this is known.
  NodeEntry Add(std::string_view op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
                const NodeEntry& like, std::string name = {});
  NodeEntry Add(std::string_view op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
                KnownRow known, std::string name = {});
  /// An operator Constant.
  NodeEntry AddConstant(TensorPtr t);
  /// A parameter: unlike a Constant it is not looked through for equal ones.
  NodeEntry AddParam(const std::string& name, TensorPtr t);
  /// A vector of extents: a constant where all are integers, else weft::ShapeTensor.
  NodeEntry AddExtents(const Shape& extents);
  /// x with these extents; x itself where it has them.
  NodeEntry AddReshape(const NodeEntry& x, const Shape& extents, std::string name = {});

  /// Says what is known of an entry made otherwise. Returns it.
  NodeEntry Know(const NodeEntry& e, KnownRow known);
  NodeEntry KnowAs(const NodeEntry& e, const NodeEntry& like) { return KnowAs(e, *this, like); }
  /// As `like` in another graph: a body and what is around it.
  NodeEntry KnowAs(const NodeEntry& e, const TypedEdit& other, const NodeEntry& like);

  /// Graph::ReplaceNode. What has no rows yet has those of the output that it replaces.
  void Replace(NodePtr n, const std::vector<NodeEntry>& to);
  /// The rows of a node that has moved to the graph of `other`, where it has another id.
  void MoveRows(NodeId from, TypedEdit& other, NodeId to);
  void Reserve(NodeId bound);

 private:
  void CopyClaimed(NodeId from, NodeId to);

  Graph& g_;
  const NodeId first_new_;                          ///< of the nodes that were made since
  const bool has_shapes_, has_types_, has_values_;  ///< go back into the graph
  ShapeMap shapes_;
  TypeMap types_;
  ValueMap values_;
  bool open_ = true;
};

}  // namespace weft
