/// epilogue.cc: see epilogue.h.
#include "epilogue.h"

#include <string>
#include <vector>

#include "backends/shared/scale_step.h"
#include "weft/core/graph/builtin_ops.h"

namespace weft::cuda {
namespace {

/// In the order of application.
enum Stage { kNone, kFactor, kRow, kAddend, kActivation };

Activation ActivationOf(const NodePtr& n) {
  if (IsOp(n, "Relu")) return Activation::kRelu;
  const bool tanh = IsOp(n, "Gelu") && n->has_attr("approximate") &&
                    n->attr<std::string>("approximate") == "tanh";
  return tanh ? Activation::kGeluTanh : Activation::kNone;
}

/// Extents that are not known are not equal.
template <class Dim>
bool IsRow(const std::vector<Dim>& operand, const std::vector<Dim>& result) {
  if (operand.empty() || operand.size() > result.size() || !(operand.back() == result.back()))
    return false;
  for (size_t k = 0; k + 1 < operand.size(); ++k)
    if (!(operand[k] == Dim(1))) return false;
  return true;
}

/// The stage that a chain which came to `reached` comes to by one step more; kNone: by this step it
/// cannot. `operand`: the extents of the step's other tensor, null where it has none.
template <class Dim>
Stage Next(Stage reached, const NodePtr& n, int slot, const std::vector<Dim>* operand,
           const std::vector<Dim>& result, const AcceptedSteps& accepted) {
  Stage next = kNone;
  if (operand) {
    if (!IsOp(n, "Add")) return kNone;
    if (accepted.row && reached < kRow && IsRow(*operand, result))
      next = kRow;
    else if (accepted.addend && *operand == result)
      next = kAddend;
  } else if (accepted.factor && FactorOf(n, slot)) {
    next = kFactor;
  } else if (slot == 0) {
    const Activation a = ActivationOf(n);
    if ((a == Activation::kRelu && accepted.relu) ||
        (a == Activation::kGeluTanh && accepted.gelu_tanh))
      next = kActivation;
  }
  return next > reached ? next : kNone;
}

}  // namespace

bool TakesNext(const EpilogueRequest& q, const AcceptedSteps& accepted) {
  const NodeEntry result(q.anchor);
  if (!q.shapes[result].has_rank()) return false;
  const auto next = [&](Stage reached, const EpilogueStep& s) {
    const std::vector<SymInt>& dims = q.shapes[result].dims();
    if (s.operand < 0) return Next<SymInt>(reached, s.node, s.slot, nullptr, dims, accepted);
    const NodeEntry operand = s.node->inputs[size_t(s.operand)];
    if (!(q.types[operand] == q.types[result]) || !q.shapes[operand].has_rank()) return kNone;
    return Next<SymInt>(reached, s.node, s.slot, &q.shapes[operand].dims(), dims, accepted);
  };
  Stage reached = kNone;
  for (const EpilogueStep& s : q.steps) reached = next(reached, s);
  return next(reached, q.next) != kNone;
}

std::optional<EpilogueSteps> ReadSteps(const ComputeRequest& q, const AcceptedSteps& accepted) {
  EpilogueSteps steps;
  Stage reached = kNone;
  for (const CallStep& s : q.epilogue) {
    if (s.operand >= 0 && s.operand_type != q.output_types[0]) return std::nullopt;
    reached = Next<int64_t>(reached, s.node, s.slot, s.operand < 0 ? nullptr : &s.operand_dims,
                            q.output_dims[0], accepted);
    switch (reached) {
      case kNone:
        return std::nullopt;
      case kFactor:
        steps.factor = FactorOf(s.node, s.slot);
        break;
      case kRow:
        steps.row = &s;
        break;
      case kAddend:
        steps.addend = &s;
        break;
      case kActivation:
        steps.activation = ActivationOf(s.node);
        break;
    }
  }
  return steps;
}

}  // namespace weft::cuda
