/// cases.h: the cases on which gradients are checked: for every operator its `.example` rows in
/// double precision, what follows from them (broadcasts, empty and 0-d operands), and the rows of
/// cases.txt, each drawn several times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/operator_rows.h"
#include "weft/core/graph/graph.h"
#include "weft/core/op/op.h"
#include "weft/core/tensor/tensor.h"

namespace weft::gradient {

using Tensors = std::vector<TensorPtr>;

/// One operator with attributes and operands.
struct Case {
  const Op* op = nullptr;
  std::string label;  ///< for messages: the row and the seed
  AttrDict attrs;
  Tensors inputs;              ///< null: absent
  std::vector<bool> constant;  ///< given by the row: a constant of the graph, no variable

  /// The graph of that one node: a variable for every operand that is present and no constant, all
  /// results asked for.
  Graph MakeGraph() const;
  /// Values of those variables, in order.
  Tensors Variables() const;
  /// Number of the operand behind variable k.
  std::vector<size_t> VariableSlots() const;
};

/// Cases of `op`, at least `count` where it has any row at all; the same in every run.
std::vector<Case> CasesOf(const Op& op, size_t count);

/// A case from a row of text, as in cases.txt.
Case ParseCase(const std::string& op, const std::string& operands, const std::string& attrs);
/// Lines of a file of this folder that are neither empty nor comments, trimmed.
std::vector<std::string> Lines(const std::string& file);
using rows::Split;  // the parts of one

/// Operators that are exempt, from exceptions.txt: why, or nullopt where `op` is not listed under
/// `scope`.
std::optional<std::string> ExceptionFor(const std::string& op, const std::string& scope);
/// Its gradient with respect to operand `slot` may be null whatever the result does.
bool MayBeNull(const std::string& op, size_t slot);
/// Every (operator, scope) of that list.
std::vector<std::pair<std::string, std::string>> Exceptions();

/// Results of `graph` by the interpreter in double precision.
Tensors Eval(const Graph& graph, const Tensors& inputs);

}  // namespace weft::gradient
