/// operator_rows.h: one call of an operator as a row of text: operands, attributes, results.
///
///   operands  separated by ";": "type ~ N" is drawn (DrawnTensor), "type := values" a variable,
///             "type = values" a constant of the graph, "_" absent
///   results   separated by ";": extents, then as many values, "[2] 1.5 nan"
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft::rows {

struct Operand {
  TensorPtr value;  ///< null: absent
  bool constant = false;
};

/// Values that f16 holds exactly; `drawn` of image_oracles/record.py makes the same.
TensorPtr DrawnTensor(DType dtype, std::vector<int64_t> dims, int64_t seed);
std::vector<Operand> ParseOperands(const std::string& text);
/// Attributes as in text form, "axis = 0, mode = \"wrap\"".
AttrDict ParseAttrs(const std::string& text);
/// How a call stands in its graph.
struct CallForm {
  std::string prefix = "x";  ///< variable k is the input PREFIX<k>
  NodeEntry one;          ///< multiplies variables of f32, so that there is something to fuse with
  bool feeds = false;     ///< constants are variables, too
  bool symbolic = false;  ///< the extents of variables are symbols
};
/// The call as a node of `g`; `variables` gets the entries of the inputs that it
/// makes, `inputs` their values.
NodePtr AddCall(Graph& g, const std::string& op, const std::vector<Operand>& operands,
                const std::string& attrs, const CallForm& form, std::vector<NodeEntry>* variables,
                std::map<std::string, TensorPtr>* inputs);

struct Result {
  std::vector<int64_t> dims;
  std::vector<double> values;
};
std::vector<Result> ParseResults(const std::string& text);
/// Empty where `got` is `want` within `tolerance` of 1 + the largest value; else how it differs.
std::string Differs(const Tensor& got, const Result& want, double tolerance);

/// Parts of `line` between `at`, trimmed.
std::vector<std::string> Split(const std::string& line, char at);

}  // namespace weft::rows
