/// lift.cc: the driver of lifting and what all lifts share. The rules are in lift_shape_ops.cc
/// (data movement, reductions, constants), lift_nn.cc (normalisation, activations, resampling) and
/// lift_opset6.cc (the broadcasting of before 7).
#include "lift.h"

#include <algorithm>
#include <map>

#include "weft/support/check.h"

namespace weft::onnx_import {

const std::string& Lift::input(size_t i) const {
  static const std::string none;
  return i < node.inputs.size() ? node.inputs[i] : none;
}
void Lift::set_input(size_t i, std::string value) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = std::move(value);
}
AttrValue Lift::Take(std::string_view attr) {
  const AttrValue* found = node.attrs.find(attr);
  if (!found) return AttrValue();
  AttrValue v = *found;
  node.attrs.erase(attr);
  return v;
}

std::string Lift::Fresh() {
  const auto used = [&](const std::string& name) {
    const auto in = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    if (in(node.inputs) || in(node.outputs)) return true;
    const auto of = [&](const Record& r) { return in(r.inputs) || in(r.outputs); };
    return std::any_of(before.begin(), before.end(), of) ||
           std::any_of(after.begin(), after.end(), of);
  };
  std::string name;
  do {
    name = fmt::format("lift/{}", fresh_++);
  } while (used(name));
  return name;
}

Record Lift::Make(std::string op, std::vector<std::string> inputs, AttrDict attrs) const {
  Record r;
  r.name = node.name.empty() ? std::string() : fmt::format("{}/{}", node.name, op);
  r.op = std::move(op);
  r.version = node.version;
  r.inputs = std::move(inputs);
  r.attrs = std::move(attrs);
  return r;
}

std::string Lift::Before(std::string op, std::vector<std::string> inputs, AttrDict attrs) {
  Record r = Make(std::move(op), std::move(inputs), std::move(attrs));
  r.outputs = {Fresh()};
  before.push_back(std::move(r));
  return before.back().outputs[0];
}

std::string Lift::ScalarLike(double v, const std::string& like) {
  const DType dtype = dtype_of(like);
  if (dtype != DType::kUnknown) return Constant(Tensor::Scalar(dtype, v));
  return Before("CastLike", {Constant(Tensor::Scalar(DType::kF32, v)), like});
}

void Lift::After(size_t i, std::string op, std::vector<std::string> more, AttrDict attrs) {
  if (i >= node.outputs.size() || node.outputs[i].empty()) return;
  const std::string inner = Fresh();
  more.insert(more.begin(), inner);
  Record r = Make(std::move(op), std::move(more), std::move(attrs));
  r.outputs = {node.outputs[i]};
  node.outputs[i] = inner;
  after.insert(after.begin(), std::move(r));
}

void Lift::Unsupported(const std::string& what) const {
  WEFT_THROW(kUnsupported, "{} of operator set {}: {}", node.op, node.version, what);
}

void LiftToNewest(Lift* lift) {
  static const std::multimap<std::string_view, LiftRule> table = [] {
    std::multimap<std::string_view, LiftRule> t;
    for (const auto& rules : {OpsetSixLifts(), ShapeOpLifts(), NnOpLifts()}) {
      for (const LiftRule& r : rules) t.emplace(r.op, r);
    }
    return t;
  }();
  if (!lift->node.domain.empty()) return;
  lift->node.attrs.erase("consumed_inputs");  // a hint of the oldest operator sets
  // A rule may rename the operator (Upsample becomes Resize); the rules of the new name for that
  // version hold then too.
  for (int guard = 0; guard < 4; ++guard) {
    const std::string op = lift->node.op;
    const auto [begin, end] = table.equal_range(std::string_view(op));
    for (auto it = begin; it != end; ++it) {
      const LiftRule& rule = it->second;
      if (lift->node.version >= rule.first && lift->node.version <= rule.last) rule.apply(lift);
      if (lift->node.op != op) break;
    }
    if (lift->node.op == op) break;
  }
}

}  // namespace weft::onnx_import
