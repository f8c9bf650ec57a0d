/// json.h: graphs as JSON, for other programs; the passes SaveJSON and LoadJSON put it into the
/// graph attribute `json` and take it from there.
///
///   {"format": "weft", "version": [1, 0],
///    "graph": {
///      "name": "mlp",
///      "nodes": [
///        {"id": 0, "name": "x",
///         "attrs": {"dtype": {"dtype": "f32"}, "shape": {"shape": "[n, 4]"}}},
///        {"id": 1, "name": "w", "attrs": {"value": {"tensor": 0}}},
///        {"id": 2, "op": "MatMul", "name": "h", "inputs": [[0, 0], [1, 0]], "origin": ["fc1"]},
///        {"id": 5, "op": "Split", "inputs": [[2, 0], null], "attrs": {"axis": 1}, "outputs": 2,
///         "control": [2]}],
///      "inputs": [0],
///      "outputs": [[5, 0], [5, 1]],
///      "output_names": ["a", "b"],
///      "attributes": {"shape": [[0, 0, "[n, 4]"]], "facts": "n in [1, 8]"},
///      "partial": ["shape"]},
///    "tensors": [{"dtype": "f32", "dims": [4, 2], "data": "AACAPw..."}]}
///
/// Nodes come after what they read; a node without "op" is a variable. An entry is [node, output],
/// an absent input null. Node attributes: integers `1`, floats `1.0`, strings, lists of one of
/// those, null for none, and objects of one key for the rest: {"float": "nan"}, {"floats": []},
/// {"strings": []}, {"dtype": "f32"}, {"shape": "[n, 4]"}, {"tensor": 0}, {"graph": {..}}. A tensor
/// is numbered, so that what is shared stays shared; it holds base64 of its bytes, row-major and
/// little-endian, or "strings". "attributes" are graph attributes in the text form of their type
/// (graph_attr.h): rows [node, output, text], [node, text], or one text; those without a text form
/// are left out. Bytes that are no UTF-8 are written as \udc80 .. \udcff, as Python does.
///
/// Files of a newer minor version are read, unknown keys ignored; a newer major version is refused.
/// In files of this version or older unknown keys are errors. JSON of NNVM ("nodes", "arg_nodes",
/// "heads") is read too: operators by their names here, attributes from their texts, the graph
/// attributes shape and dtype.
#pragma once

#include <string>
#include <string_view>

#include "weft/core/graph/graph.h"
#include "weft/support/limits.h"

namespace weft {

struct JsonOptions {
  std::string source_name = "<json>";  ///< in messages
  /// nodes, depth, tensor_bytes and file_bytes hold.
  Limits limits;
  /// An op that is not registered: an error (kUnknownOp), or a placeholder op of that name.
  bool allow_unknown = false;
};

/// Load(Save(g)) prints as g does, ids and names included. (Ids are renumbered, in the order of the
/// text form, where nearly all were erased.) Throws kUnsupported for an attribute that has no form.
WEFT_API std::string SaveJson(const Graph& graph);
/// JSON is untrusted. Throws kSyntax, kInvalidModel, kUnknownOp, kBadAttribute, kArity, kLimit ...
/// with line and column.
WEFT_API Graph LoadJson(std::string_view text, const JsonOptions& options = {});

}  // namespace weft
