/// disagreements.h: where ONNX Runtime, ONNX's reference evaluator and PyTorch do not give the
/// same result, or not what one expects, and what Weft gives. The page disagreements.md is made
/// of the rows (tools/weft_docs), and tests/ops/disagreements_test.cc runs each of them. No
/// part of the library.
#pragma once

#include <string>
#include <vector>

namespace weft::ops {

struct Disagreement {
  std::string op, what;  ///< the operator, and the case in a few words
  /// separated by ";": "type := values" fed, "type = values" a constant, "_" absent
  std::string operands;
  std::string attrs;  ///< "axis = 0, mode = \"wrap\""
  /// separated by ";": extents, then values, "[2] 1 nan"; or "error WEFT-E0305"
  std::string result;
  std::string agrees;  ///< engines that give the same
  std::string others;  ///< what the rest gives
  std::string why;
};

/// By topic.
const std::vector<Disagreement>& Disagreements();

}  // namespace weft::ops
