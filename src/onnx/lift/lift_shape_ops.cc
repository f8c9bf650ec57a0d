/// lift_shape_ops.cc: lifts of data movement, reductions and constants. Most of them turn an
/// attribute of old into the input it has become.
#include <cstdint>

#include "lift.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

constexpr int64_t kAll = INT64_MAX;

/// `axes` from attribute to input 1.
void AxesToInput(Lift* l) {
  const AttrValue axes = l->Take("axes");
  if (axes.empty()) return;
  l->set_input(1, l->Ints(axes.get<Ints>()));
}

/// An empty list of axes meant all of them, as no list does.
void ReduceAxesToInput(Lift* l) {
  const AttrValue axes = l->Take("axes");
  if (axes.empty() || axes.get<Ints>().empty()) return;
  l->set_input(1, l->Ints(axes.get<Ints>()));
}

void SplitToInput(Lift* l) {
  const AttrValue split = l->Take("split");
  if (!split.empty() && !split.get<Ints>().empty()) l->set_input(1, l->Ints(split.get<Ints>()));
}
/// The number of outputs is what the node writes down; the IR keeps it as an attribute in any case.
void SplitOutputs(Lift* l) {
  const int64_t n = int64_t(l->node.outputs.size());
  const AttrValue given = l->Take("num_outputs");
  if (!given.empty() && given.get<int64_t>() != n) {
    WEFT_THROW(kArity, "num_outputs is {}, the node has {} outputs", given.get<int64_t>(), n);
  }
  l->node.attrs["num_outputs"] = n;
}

void SliceToInputs(Lift* l) {
  const AttrValue axes = l->Take("axes"), starts = l->Take("starts"), ends = l->Take("ends");
  if (starts.empty() || ends.empty())
    WEFT_THROW(kBadAttribute, "Slice needs the attributes starts and ends");
  l->set_input(1, l->Ints(starts.get<Ints>()));
  l->set_input(2, l->Ints(ends.get<Ints>()));
  if (!axes.empty()) l->set_input(3, l->Ints(axes.get<Ints>()));
}

void PadToInputs(Lift* l) {
  const AttrValue pads = l->Take("pads");
  if (pads.empty()) WEFT_THROW(kBadAttribute, "Pad needs the attribute pads");
  const double value = l->Take<double>("value", 0);
  l->set_input(1, l->Ints(pads.get<Ints>()));
  if (value != 0) l->set_input(2, l->ScalarLike(value, l->input(0)));
}

void TopKToInput(Lift* l) {
  const AttrValue k = l->Take("k");
  if (k.empty()) WEFT_THROW(kBadAttribute, "TopK needs the attribute k");
  l->set_input(1, l->Ints({k.get<int64_t>()}));
}

void ScatterRename(Lift* l) { l->node.op = "ScatterElements"; }

/// Before 16 the sampling grid was shifted by half a pixel of the output only.
void RoiAlignMode(Lift* l) {
  l->node.attrs["coordinate_transformation_mode"] = "output_half_pixel";
}

void DftAxisToInput(Lift* l) {
  const int64_t axis = l->Take<int64_t>("axis", 1);
  l->set_input(2, l->Constant(Tensor::Scalar(DType::kI64, double(axis))));
}

template <class T>
TensorPtr FilledTensor(DType dtype, const std::vector<T>& values, bool scalar) {
  std::vector<int64_t> dims;
  if (!scalar) dims.push_back(int64_t(values.size()));
  auto t = std::make_shared<Tensor>(dtype, dims);
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      t->set_int(int64_t(i), values[i]);
    else
      t->set(int64_t(i), values[i]);
  }
  return t;
}

TensorPtr StringTensor(const std::vector<std::string>& values, bool scalar) {
  std::vector<int64_t> dims;
  if (!scalar) dims.push_back(int64_t(values.size()));
  auto t = std::make_shared<Tensor>(DType::kString, dims);
  t->mutable_strings() = values;
  return t;
}

/// Whatever form the value has, it becomes the tensor attribute `value`.
void ConstantValue(Lift* l) {
  const AttrDict given = l->node.attrs;
  if (given.size() != 1)
    WEFT_THROW(kBadAttribute, "Constant needs one value, it has {} attributes", given.size());
  const auto& [name, v] = *given.begin();
  AttrDict attrs;
  AttrValue& value = attrs["value"];
  if (name == "value" || name == "sparse_value")
    value = v.get<TensorPtr>();
  else if (name == "value_int")
    value = FilledTensor<int64_t>(DType::kI64, {v.get<int64_t>()}, true);
  else if (name == "value_ints")
    value = FilledTensor<int64_t>(DType::kI64, v.get<Ints>(), false);
  else if (name == "value_float")
    value = FilledTensor<double>(DType::kF32, {v.get<double>()}, true);
  else if (name == "value_floats")
    value = FilledTensor<double>(DType::kF32, v.get<Floats>(), false);
  else if (name == "value_string")
    value = StringTensor({v.get<std::string>()}, true);
  else if (name == "value_strings")
    value = StringTensor(v.is<Ints>() ? Strings() : v.get<Strings>(), false);
  else
    WEFT_THROW(kBadAttribute, "Constant has no attribute '{}'", name);
  l->node.attrs = std::move(attrs);
}

}  // namespace

std::vector<LiftRule> ShapeOpLifts() {
  std::vector<LiftRule> rules = {
      {"Constant", 1, kAll, ConstantValue},
      {"Squeeze", 1, 12, AxesToInput, "axes"},
      {"Unsqueeze", 1, 12, AxesToInput, "axes"},
      {"Split", 1, 12, SplitToInput, "split"},
      {"Split", 1, kAll, SplitOutputs},
      {"Slice", 1, 9, SliceToInputs},
      {"Pad", 1, 10, PadToInputs},
      {"TopK", 1, 9, TopKToInput},
      {"Scatter", 1, kAll, ScatterRename},
      {"RoiAlign", 1, 15, RoiAlignMode},
      {"DFT", 1, 19, DftAxisToInput},
      {"ReduceSum", 1, 12, ReduceAxesToInput, "axes"},
  };
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                         "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare"}) {
    rules.push_back({op, 1, 17, ReduceAxesToInput, "axes"});
  }
  return rules;
}

}  // namespace weft::onnx_import
