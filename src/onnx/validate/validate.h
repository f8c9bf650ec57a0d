/// validate.h: Weft's own validator of ONNX models. It runs before any other code looks at a model,
/// so it trusts nothing.
///
/// It answers: is every name defined once and without a cycle, does every tensor hold what it says,
/// does every attribute hold one value of its type, are operator sets known, is the function graph
/// acyclic and of bounded size once expanded. What real files contain against the standard, and has
/// one meaning all the same, is an oddity (onnx/proto/diagnostics.h). It recurses over nested
/// sub-graphs only (bounded by limits.depth), never over nodes, and is linear in the model.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "onnx/proto/diagnostics.h"
#include "onnx/proto/proto.h"
#include "weft/support/limits.h"

namespace weft::onnx_import {

using NodeList = google::protobuf::RepeatedPtrField<pb::NodeProto>;

/// Version of a domain's operators, `assumed` where the model or function does not import the
/// domain itself.
struct OpsetVersion {
  int64_t version;
  bool assumed = false;
};
/// By canonical name of the domain.
using Opsets = std::map<std::string, OpsetVersion, std::less<>>;

/// Nodes of the lists that are out of order, by index, in topological order.
using NodeOrders = std::unordered_map<const NodeList*, std::vector<int>>;

/// Model-local functions by (domain, name, overload).
class FunctionTable {
 public:
  using Key = std::tuple<std::string, std::string, std::string>;
  /// False where there is one of that key already.
  bool Add(pb::FunctionProto* f);
  pb::FunctionProto* Find(const pb::NodeProto& n) const;
  pb::FunctionProto* Find(std::string_view domain, const std::string& op_type,
                          const std::string& overload) const;
  const std::vector<pb::FunctionProto*>& list() const { return list_; }
  size_t index(const pb::FunctionProto* f) const { return index_.at(f); }

 private:
  std::map<Key, pb::FunctionProto*> by_key_;
  std::vector<pb::FunctionProto*> list_;
  std::unordered_map<const pb::FunctionProto*, size_t> index_;
};
std::string FunctionName(const pb::FunctionProto& f);

/// "main/node[7] 'conv1' (Conv)".
std::string NodePlace(const std::string& path, int index, std::string_view name,
                      std::string_view domain, std::string_view op_type);
/// Type of an attribute; the filled field decides in old files that do not say.
pb::AttributeProto::AttributeType TypeOf(const pb::AttributeProto& a);
std::string_view AttributeTypeName(pb::AttributeProto::AttributeType type);

/// Versions that the model (or a function) imports. Reports duplicates and versions this build does
/// not know.
Opsets ReadOpsets(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports,
                  const std::string& place, Diagnostics* diag);
/// Those of a function: what it does not import is as in the model.
Opsets ReadFunctionOpsets(const pb::FunctionProto& f, const Opsets& of_model,
                          const std::string& place, Diagnostics* diag);

/// What the validator finds out and the importer relies on.
struct ValidModel {
  Opsets opsets;
  FunctionTable functions;
  NodeOrders orders;
};
/// Reports every fault of the model to `diag` (up to its bound).
ValidModel ValidateModel(pb::ModelProto* model, const Limits& limits, Diagnostics* diag);

/// Names that a graph uses and does not define, in order of first use.
std::vector<std::string> FreeNames(const pb::GraphProto& g);
/// The names that a node reads: its operands, and what its graphs take from outside.
void ForEachRead(const pb::NodeProto& n, const std::function<void(const std::string&)>& f);
/// value -> defining node; -1 for inputs and initializers
using Definitions = std::unordered_map<std::string_view, int>;
/// Nodes in topological order, the first of the list that can be taken next; on a cycle those of
/// one, in `cycle`.
std::vector<int> OrderNodes(const NodeList& nodes, const Definitions& defined,
                            std::vector<int>* cycle);

/// One scope of value names: a graph or a function body.
struct ValueScope {
  const ValueScope* outer = nullptr;
  int current = 0;  ///< node being looked at
  Definitions defined;
};

/// Shared state of the checks below.
struct ValidateContext {
  const Limits& limits;
  const FunctionTable& functions;
  NodeOrders* orders;
  Diagnostics* diag;
};
/// Nodes of a graph or function: names, order, attributes, sub-graphs. `scope` holds the inputs.
void ValidateNodes(const NodeList& nodes, ValueScope* scope, const Opsets& opsets,
                   const std::string& path, bool in_function, int depth,
                   const ValidateContext& ctx);
void ValidateGraph(const pb::GraphProto& g, const ValueScope* outer, const Opsets& opsets,
                   const std::string& path, bool in_function, int depth,
                   const ValidateContext& ctx);
/// Functions: keys, bodies, call graph, expanded size of everything.
void ValidateFunctions(const pb::ModelProto& model, const Opsets& opsets,
                       const ValidateContext& ctx);

}  // namespace weft::onnx_import
