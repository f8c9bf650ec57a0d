/// lift.cc: the driver of lifting and what all lifts share. The rules are in lift_shape_ops.cc
/// (data movement, reductions, constants), lift_nn.cc (normalisation, activations, resampling),
/// lift_opset6.cc (the broadcasting of before 7), lift_attention.cc (attention and rotary
/// embedding), lift_contrib.cc (com.microsoft, what ONNX Runtime's tools write) and lift_ml.cc
/// (ai.onnx.ml).
#include "lift.h"

#include <algorithm>
#include <map>

#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

/// Newer than every operator set: lifts write the newest form.
constexpr int64_t kNewest = INT64_MAX;

}  // namespace

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

int Lift::rank_of(const std::string& value) const {
  const Shape shape = shape_of(value);
  return shape.has_rank() ? shape.rank() : -1;
}
int Lift::RankOf(const std::string& value, const char* what) const {
  const int rank = rank_of(value);
  if (rank < 0) Unsupported(fmt::format("the rank of {} is not known", what));
  return rank;
}
std::optional<int64_t> Lift::ExtentOf(const std::string& value, int axis) const {
  const Shape shape = shape_of(value);
  if (!shape.has_rank()) return std::nullopt;
  if (axis < 0) axis += shape.rank();
  if (axis < 0 || axis >= shape.rank() || !shape[axis].known()) return std::nullopt;
  return shape[axis].try_value();
}
void Lift::Only(std::string_view attr, int64_t supported) {
  const int64_t given = Take<int64_t>(attr, supported);
  if (given != supported)
    Unsupported(fmt::format("{} = {} is not supported, only {}", attr, given, supported));
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
  r.version = node.domain.empty() ? node.version : kNewest;
  r.inputs = std::move(inputs);
  r.attrs = std::move(attrs);
  return r;
}

std::string Lift::Before(std::string op, std::vector<std::string> inputs, AttrDict attrs) {
  return BeforeMany(std::move(op), std::move(inputs), std::move(attrs), 1)[0];
}
std::vector<std::string> Lift::BeforeMany(std::string op, std::vector<std::string> inputs,
                                          AttrDict attrs, int outputs) {
  Record r = Make(std::move(op), std::move(inputs), std::move(attrs));
  for (int i = 0; i < outputs; ++i) r.outputs.push_back(Fresh());
  before.push_back(std::move(r));
  return before.back().outputs;
}

void Lift::Replace(const std::vector<std::string>& values) {
  for (const auto& [attr, value] : node.attrs)
    Unsupported(fmt::format("attribute '{}' is not supported", attr));
  std::map<std::string, std::string> renamed;
  for (size_t i = 0; i < node.outputs.size() && i < values.size(); ++i) {
    const std::string& name = node.outputs[i];
    if (name.empty() || values[i].empty()) continue;
    const auto made = [&](const Record& r) {
      return std::find(r.outputs.begin(), r.outputs.end(), values[i]) != r.outputs.end();
    };
    const auto at = std::find_if(before.begin(), before.end(), made);
    if (at == before.end()) {  // an operand, or a value that has its name already
      const auto other = renamed.find(values[i]);
      Record copy = Make("Identity", {other == renamed.end() ? values[i] : other->second}, {});
      copy.outputs = {name};
      before.push_back(std::move(copy));
      continue;
    }
    if (i == 0) at->name = node.name;
    for (Record& r : before) {
      std::replace(r.outputs.begin(), r.outputs.end(), values[i], name);
      std::replace(r.inputs.begin(), r.inputs.end(), values[i], name);
    }
    renamed[values[i]] = name;
  }
  Record last = std::move(before.back());
  before.pop_back();
  node = std::move(last);
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
  if (!node.domain.empty()) WEFT_THROW(kUnsupported, "{}", what);
  WEFT_THROW(kUnsupported, "{} of operator set {}: {}", node.op, node.version, what);
}

namespace {

/// What a rule needs besides it says itself, or the nodes that it makes.
void LiftContrib(Lift* lift) {
  const std::vector<ContribRule>& rules = ContribLifts();
  const Record& n = lift->node;
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const ContribRule& r) { return r.op == n.op; });
  if (rule == rules.end()) return;
  WEFT_CHECK(n.inputs.size() >= rule->least_inputs && n.inputs.size() <= rule->most_inputs, kArity,
             "com.microsoft::{} takes {} to {} inputs, {} given", n.op, rule->least_inputs,
             rule->most_inputs, n.inputs.size());
  WEFT_CHECK(!n.inputs[0].empty(), kArity, "com.microsoft::{}: input 0 is missing", n.op);
  for (size_t i = rule->most_outputs; i < n.outputs.size(); ++i)
    if (lift->HasOutput(i))
      lift->Unsupported(
          fmt::format("output {} is not supported, only the first {}", i, rule->most_outputs));
  rule->apply(lift);
}

void LiftMl(Lift* lift) {
  static const std::vector<LiftRule> rules = MlOpLifts();
  const Record& n = lift->node;
  for (const LiftRule& r : rules)
    if (r.op == n.op && n.version >= r.first && n.version <= r.last) return r.apply(lift);
}

}  // namespace

void LiftToNewest(Lift* lift) {
  static const std::multimap<std::string_view, LiftRule> table = [] {
    std::multimap<std::string_view, LiftRule> t;
    for (const auto& rules : {OpsetSixLifts(), ShapeOpLifts(), NnOpLifts(), AttentionLifts()}) {
      for (const LiftRule& r : rules) t.emplace(r.op, r);
    }
    return t;
  }();
  if (lift->node.domain == "com.microsoft") return LiftContrib(lift);
  if (lift->node.domain == "ai.onnx.ml") return LiftMl(lift);
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
