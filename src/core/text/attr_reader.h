/// attr_reader.h: the graph attributes of one graph of a text, collected while its nodes are
/// read. Private to the text parser.
#pragma once

#include <any>
#include <map>
#include <string>

#include "lexer.h"
#include "value.h"
#include "weft/core/graph/graph_attr.h"

namespace weft {

class GraphAttrReader {
 public:
  GraphAttrReader(TextCursor* in, const ParseOptions& options) : in_(*in), options_(options) {}

  /// What the text says of the type of an entry.
  void SetType(NodeEntry e, const TypeAndShape& t);
  /// `#name = text` of a node and its outputs, as many as follow.
  void ReadRows(Graph* g, NodePtr n);
  /// `#name = text` of the whole graph, as many as follow.
  void ReadWhole();
  /// Puts what was read into the graph, whose nodes are complete by now.
  void Store(Graph* g);

 private:
  const AttrType& ReadName(size_t at, std::string* name);
  void ReadValue(const AttrType& type, size_t at, NodeId id, uint32_t index);

  TextCursor& in_;
  const ParseOptions& options_;
  TypeMap types_;
  ShapeMap shapes_;
  bool any_type_ = false, any_shape_ = false, missing_type_ = false, missing_shape_ = false;
  std::map<std::string, std::any> attrs_;
};

}  // namespace weft
