/// epilogue.cc: the reader of epilogues: what an operator does to its input, and which stage of a
/// library does that.
#include "epilogue.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"

namespace weft {
namespace {

/// Value of a constant of one element behind input i; `otherwise` where the input is absent.
std::optional<float> ScalarAt(const NodePtr& n, size_t i, float otherwise) {
  if (i >= n->num_inputs() || !n->inputs[i].node) return otherwise;
  const TensorPtr t = Graph::ConstantOf(n->inputs[i]);
  if (!t || t->num_elements() != 1) return std::nullopt;
  return float(t->at(0));
}

/// What the step multiplies its input `slot` by.
std::optional<float> ScaleOf(const NodePtr& n, int slot) {
  const bool divides = IsOp(n, "Div") && slot == 0;
  if (!divides && !IsOp(n, "Mul")) return std::nullopt;
  const auto value = ScalarAt(n, size_t(1 - slot), 1);
  if (!value || !divides) return value;
  const float inverse = 1 / *value;
  return std::isfinite(inverse) ? std::optional(inverse) : std::nullopt;
}

/// What the step adds to its input `slot`.
std::optional<float> OffsetOf(const NodePtr& n, int slot) {
  const bool subtracts = IsOp(n, "Sub") && slot == 0;
  if (!subtracts && !IsOp(n, "Add")) return std::nullopt;
  const auto value = ScalarAt(n, size_t(1 - slot), 0);
  return value && subtracts ? std::optional(-*value) : value;
}

ActivationStep ClipOf(const NodePtr& n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto low = ScalarAt(n, 1, -kInfinity), high = ScalarAt(n, 2, kInfinity);
  if (!low || !high) return {};
  return {Activation::kClip, *low, *high};
}

/// kNone: it is another function, or its parameters are not constants.
ActivationStep ActivationOf(const NodePtr& n) {
  struct Row {
    const char* op;
    Activation function;
    double alpha = 0, beta = 0;  ///< defaults of the attributes; 0: it has none
  };
  static constexpr Row rows[]{
      {"Abs", Activation::kAbs},
      {"Elu", Activation::kElu, 1},
      {"HardSigmoid", Activation::kHardSigmoid, 0.2f, 0.5},
      {"HardSwish", Activation::kHardSwish},
      {"LeakyRelu", Activation::kLeakyRelu, 0.01f},
      {"Relu", Activation::kRelu},
      {"Sigmoid", Activation::kSigmoid},
      {"Sqrt", Activation::kSqrt},
      {"Swish", Activation::kSwish, 1},
      {"Tanh", Activation::kTanh},
  };
  for (const Row& r : rows)
    if (IsOp(n, r.op))
      return {r.function, r.alpha != 0 ? float(FloatAttr(n, "alpha", r.alpha)) : 0,
              r.beta != 0 ? float(FloatAttr(n, "beta", r.beta)) : 0};
  if (IsOp(n, "Clip")) return ClipOf(n);
  if (!IsOp(n, "Gelu")) return {};
  const bool tanh = n->has_attr("approximate") && n->attr<std::string>("approximate") == "tanh";
  return {tanh ? Activation::kGeluTanh : Activation::kGelu};
}

/// Extents that are not known are not equal.
bool IsRow(const Shape& operand, const Shape& result) {
  const std::vector<SymInt>&row = operand.dims(), &dims = result.dims();
  return !row.empty() && row.size() <= dims.size() && row.back() == dims.back() &&
         std::all_of(row.begin(), row.end() - 1, [](SymInt d) { return d.is(1); });
}

/// What `stage` has to do for `s`; nothing where it cannot do that.
std::optional<LibraryStep> StepAt(const EpilogueStage& stage, const EpilogueCall::Step& s,
                                  const EpilogueCall& call, const EpilogueTable& table) {
  LibraryStep step{stage, 0, {}, s.request};
  if (s.has_operand) {
    if (!IsOp(s.node, "Add") || s.operand_type != call.type || !s.operand.has_rank())
      return std::nullopt;
    const bool fits = stage.kind == EpilogueKind::kBiasRow  ? IsRow(s.operand, call.result)
                      : stage.kind == EpilogueKind::kAddend ? s.operand.dims() == call.result.dims()
                                                            : false;
    return fits ? std::optional(step) : std::nullopt;
  }
  if (stage.kind == EpilogueKind::kActivation) {
    if (s.slot != 0 || !table.takes) return std::nullopt;
    step.activation = ActivationOf(s.node);
    const bool known = step.activation.function != Activation::kNone;
    return known && table.takes(step.activation) ? std::optional(step) : std::nullopt;
  }
  const std::optional<float> value = stage.kind == EpilogueKind::kScale ? ScaleOf(s.node, s.slot)
                                     : stage.kind == EpilogueKind::kOffset
                                         ? OffsetOf(s.node, s.slot)
                                         : std::nullopt;
  if (!value) return std::nullopt;
  step.value = *value;
  return step;
}

}  // namespace

EpilogueCall EpilogueCallOf(const EpilogueRequest& q) {
  const NodeEntry result(q.anchor);
  EpilogueCall call{q.anchor, {}, q.shapes[result], q.types[result], {}};
  for (const NodeEntry& e : q.anchor->inputs) call.inputs.push_back(e.node ? q.shapes[e] : Shape());
  const auto add = [&](const EpilogueStep& s) {
    EpilogueCall::Step step{s.node, s.slot, s.operand >= 0, {}, {}, nullptr};
    if (step.has_operand) {
      const NodeEntry operand = s.node->inputs[size_t(s.operand)];
      step.operand = q.shapes[operand];
      step.operand_type = q.types[operand];
    }
    call.steps.push_back(std::move(step));
  };
  for (const EpilogueStep& s : q.steps) add(s);
  add(q.next);
  return call;
}

EpilogueCall EpilogueCallOf(const ComputeRequest& q) {
  EpilogueCall call{q.node, {}, Shape::OfInts(q.output_dims[0]), q.output_types[0], {}};
  for (const std::vector<int64_t>& dims : q.input_dims) call.inputs.push_back(Shape::OfInts(dims));
  for (const CallStep& s : q.epilogue)
    call.steps.push_back(
        {s.node, s.slot, s.operand >= 0, Shape::OfInts(s.operand_dims), s.operand_type, &s});
  return call;
}

const LibraryStep* EpilogueSteps::find(EpilogueKind kind) const {
  const auto at = std::find_if(steps.begin(), steps.end(),
                               [&](const LibraryStep& s) { return s.stage.kind == kind; });
  return at == steps.end() ? nullptr : &*at;
}

const CallStep* EpilogueSteps::operand(EpilogueKind kind) const {
  const LibraryStep* step = find(kind);
  return step ? step->request : nullptr;
}

Activation EpilogueSteps::activation() const {
  const LibraryStep* step = find(EpilogueKind::kActivation);
  return step ? step->activation.function : Activation::kNone;
}

std::optional<EpilogueSteps> ReadEpilogueSteps(const EpilogueCall& call,
                                               const EpilogueTable& table) {
  EpilogueSteps read;
  if (!call.result.has_rank()) return std::nullopt;
  auto stage = table.stages.begin();
  bool activated = false;
  for (const EpilogueCall::Step& s : call.steps) {
    std::optional<LibraryStep> step;
    for (; !step && stage != table.stages.end(); ++stage)
      if (activated || !stage->behind_activation) step = StepAt(*stage, s, call, table);
    if (!step) return std::nullopt;
    activated = activated || step->stage.kind == EpilogueKind::kActivation;
    read.steps.push_back(*step);
  }
  return read;
}

std::optional<EpilogueSteps> ReadEpilogueSteps(const ComputeRequest& q, EpilogueTableOf table) {
  if (q.epilogue.empty()) return EpilogueSteps();
  const EpilogueCall call = EpilogueCallOf(q);
  return ReadEpilogueSteps(call, table(call));
}

FEpilogue EpilogueTakenBy(EpilogueTableOf table) {
  return [table](const EpilogueRequest& q) {
    const EpilogueCall call = EpilogueCallOf(q);
    return ReadEpilogueSteps(call, table(call)).has_value();
  };
}

}  // namespace weft
