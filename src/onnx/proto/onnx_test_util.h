/// onnx_test_util.h: models for the tests of this room, from ONNX's own text syntax, and what their
/// import says.
#pragma once

#include <doctest/doctest.h>
#include <onnx/defs/parser.h>

#include <optional>
#include <string>
#include <vector>

#include "proto.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/onnx/import.h"

namespace weft::onnx_import {

inline pb::ModelProto ModelOf(const std::string& text) {
  pb::ModelProto model;
  pb::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  REQUIRE_MESSAGE(status.IsOK(), status.ErrorMessage());
  return model;
}
inline std::string BytesOf(const pb::ModelProto& model) { return model.SerializeAsString(); }

/// A graph in text with the usual header.
inline pb::ModelProto GraphOf(const std::string& graph, int opset = 21) {
  return ModelOf("<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                 ", \"d\" : 1]> " + graph);
}
inline Graph ImportText(const std::string& graph, int opset = 21,
                        const ImportOptions& options = {}) {
  Graph g = ImportOnnxBytes(BytesOf(GraphOf(graph, opset)), options);
  VerifyGraph(g);
  return g;
}

/// The error that importing gives; fails the test where there is none.
inline Error ErrorOf(const std::string& bytes, const ImportOptions& options = {}) {
  try {
    ImportOnnxBytes(bytes, options);
  } catch (const Error& e) {
    CHECK(e.code() != ErrorCode::kInternal);
    return e;
  }
  FAIL("the import succeeded");
  return Error(ErrorCode::kInternal, "");
}
inline Error ErrorOf(const pb::ModelProto& model, const ImportOptions& options = {}) {
  return ErrorOf(BytesOf(model), options);
}
inline bool Says(const Error& e, const std::string& text) {
  return std::string(e.what()).find(text) != std::string::npos;
}

inline std::vector<std::string> OpsOf(const Graph& g) {
  std::vector<std::string> ops;
  for (const NodePtr n : g.TopoOrder()) {
    if (n->op()) ops.push_back(n->op()->name);
  }
  return ops;
}

}  // namespace weft::onnx_import
