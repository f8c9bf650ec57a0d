/// operands.cc: the declared operands of an operator against those of a node.
#include "weft/core/graph/operands.h"

#include <algorithm>
#include <climits>

#include "store.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// The declaration that position `i` falls under; null where there is none.
const ArgDoc* DeclarationOf(const Op& op, size_t i) {
  if (i < op.inputs.size()) return &op.inputs[i];
  return !op.inputs.empty() && op.inputs.back().variadic ? &op.inputs.back() : nullptr;
}
std::string NameOf(const Op& op, size_t i) {
  const ArgDoc* doc = DeclarationOf(op, i);
  return doc ? doc->name : std::string();
}
std::vector<std::string> OptionalNames(const Op& op) {
  std::vector<std::string> names;
  for (const ArgDoc& doc : op.inputs)
    if (doc.optional) names.push_back(doc.name);
  return names;
}
std::string Quoted(const std::string& name) {
  return name.empty() ? std::string() : fmt::format(" ('{}')", name);
}

}  // namespace

OperandRange OperandRangeOf(const Op& op, const NodeAttrs& attrs) {
  if (op.get_num_inputs) {
    const int count = int(op.get_num_inputs(attrs));
    return {count, count};
  }
  return {op.min_inputs, op.max_inputs == INT_MAX ? -1 : op.max_inputs};
}

bool MayBeAbsent(const Op& op, size_t i) {
  const ArgDoc* doc = DeclarationOf(op, i);
  return doc ? doc->optional : int64_t(i) >= op.min_inputs;
}

void TrimOperands(const Op& op, std::vector<NodeEntry>* inputs) {
  if (op.get_num_inputs) return;
  const size_t least = size_t(std::max(op.min_inputs, 0));
  const auto optional = [&](size_t i) { return i < op.inputs.size() && op.inputs[i].optional; };
  while (inputs->size() > least && !inputs->back() && optional(inputs->size() - 1))
    inputs->pop_back();
  while (inputs->size() < least && optional(inputs->size())) inputs->emplace_back();
}

OperandFault AbsentOperand(const std::string& node, const std::string& op, size_t i,
                           const std::string& name, const std::vector<std::string>& optional) {
  OperandFault fault;
  fault.text = fmt::format("{}: operand {}{} is absent", node, i, Quoted(name));
  fault.hint = optional.empty() ? fmt::format("no operand of {} may be absent", op)
                                : fmt::format("of {} only these operands may be absent: '{}'", op,
                                              Join(optional, "', '"));
  return fault;
}

namespace {
OperandFault AbsentOf(const Node& n, size_t i) {
  return AbsentOperand(n.Describe(), n.op()->name, i, NameOf(*n.op(), i), OptionalNames(*n.op()));
}
}  // namespace

OperandFault FindOperandFault(const Node& n) {
  const Op* op = n.op();
  if (!op) return {};
  const auto [min, max] = OperandRangeOf(*op, n.attrs);
  const int got = int(n.num_inputs());
  if (got < min || (max >= 0 && got > max)) {
    OperandFault fault;
    fault.text = fmt::format("{} takes {} inputs, {} given", n.Describe(),
                             min == max ? fmt::format("{}", min)
                             : max < 0  ? fmt::format("at least {}", min)
                                        : fmt::format("{} to {}", min, max),
                             got);
    if (got < min)
      fault.text += fmt::format(": operand {}{} is missing", got, Quoted(NameOf(*op, size_t(got))));
    return fault;
  }
  for (size_t i = 0; i < n.num_inputs(); ++i)
    if (!n.inputs[i].node && !MayBeAbsent(*op, i)) return AbsentOf(n, i);
  return {};
}

void CheckMayBeAbsent(const Node& n, size_t i) {
  if (!n.op() || MayBeAbsent(*n.op(), i)) return;
  const OperandFault fault = AbsentOf(n, i);
  ThrowError(ErrorCode::kArity, fault.text, "", fault.hint);
}

void CheckOperands(const Node& n) {
  const OperandFault fault = FindOperandFault(n);
  if (!fault.text.empty()) ThrowError(ErrorCode::kArity, fault.text, "", fault.hint);
}

void CheckOperands(const Graph& graph) {
  for (const Node* n : graph.store()->nodes)
    if (n) CheckOperands(*n);
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    WEFT_CHECK(graph.outputs[i].node, kArity, "output {} of the graph is absent", i);
}

}  // namespace weft
