/// source.h: what an imported graph remembers of its file beyond what a graph holds, so that export
/// writes it as it was: graph attributes that import sets and export reads.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/core/graph/graph_attr.h"

namespace weft::onnx_import {

/// The graph attribute "onnx_source" (given).
struct ModelSource {
  static constexpr const char* kAttr = "onnx_source";
  int64_t opset = 0;       ///< of the default domain
  int64_t ir_version = 0;  ///< of the file format
  /// Names of dims that are no symbols, by the symbol that stands for each.
  std::map<std::string, std::string> dims;
  /// Declared dims of outputs, as text, by the output's name; "" where one is not declared.
  std::map<std::string, std::vector<std::string>> outputs;
  std::set<std::string> value_infos;  ///< values in between whose types were declared

  friend bool operator==(const ModelSource& a, const ModelSource& b) {
    return a.opset == b.opset && a.ir_version == b.ir_version && a.dims == b.dims &&
           a.outputs == b.outputs && a.value_infos == b.value_infos;
  }
};

/// The graph attribute "onnx_node" (given): names of nodes as in the file, "" for nodes without.
/// Nodes are called as their results (weft/core/graph/value_name.h); ONNX names both.
using NodeNames = NodeMap<std::string>;
inline constexpr const char* kNodeNames = "onnx_node";

}  // namespace weft::onnx_import
