/// lift_nn.cc: lifts of normalisation, activations and resampling, where meanings and not only
/// forms have changed.
#include <cstdint>

#include "lift.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

constexpr int64_t kAll = INT64_MAX;

/// Before 13 the input was seen as a matrix [extents before axis, extents from axis on], and `axis`
/// was 1 by default:
///   y = Softmax(x, axis)   ->   y = Reshape(Softmax(Flatten(x, axis), -1), Shape(x))
/// On the last axis both readings agree.
void CoercedSoftmax(Lift* l) {
  const int64_t axis = l->Take<int64_t>("axis", 1);
  l->node.attrs["axis"] = int64_t{-1};
  if (axis == -1) return;
  const std::string x = l->input(0);
  const std::string shape = l->Before("Shape", {x});
  l->set_input(0, l->Before("Flatten", {x}, {{"axis", axis}}));
  l->After(0, "Reshape", {shape});
}

void ClipToInputs(Lift* l) {
  const AttrValue lo = l->Take("min"), hi = l->Take("max");
  const std::string x = l->input(0);
  if (!lo.empty()) l->set_input(1, l->ScalarLike(lo.get<double>(), x));
  if (!hi.empty()) l->set_input(2, l->ScalarLike(hi.get<double>(), x));
}

/// The ratio tells nothing in inference, but it is the user's.
void DropoutToInputs(Lift* l) {
  const AttrValue ratio = l->Take("ratio");
  if (!ratio.empty())
    l->set_input(1, l->Constant(Tensor::Scalar(DType::kF32, ratio.get<double>())));
}

/// Five outputs, four of them for training. Those that training mode still has keep their place;
/// where training was not asked for (no running statistics named) the node is one of inference.
void BatchNormOld(Lift* l) {
  if (l->Take<int64_t>("spatial", 1) != 1)
    l->Unsupported("spatial = 0 (a mean for each position) is not supported");
  bool training = false;
  for (size_t i = 1; i < l->node.outputs.size(); ++i)
    training = training || !l->node.outputs[i].empty();
  if (training) {
    l->node.attrs["training_mode"] = int64_t{1};
    if (l->node.outputs.size() > 3) l->node.outputs.resize(3);
  }
}

/// Scale and bias were one a group, now one a channel:
///   scale[G]   ->   Reshape(Expand(Unsqueeze(scale, 1), [1, C / G]), [-1])
void GroupNormPerChannel(Lift* l) {
  const AttrValue* groups = l->node.attrs.find("num_groups");
  if (!groups) WEFT_THROW(kBadAttribute, "GroupNormalization needs the attribute num_groups");
  const std::string channels = l->Before("Shape", {l->input(0)}, {{"start", 1}, {"end", 2}});
  const std::string each = l->Before("Div", {channels, l->Ints({groups->get<int64_t>()})});
  const std::string shape = l->Before("Concat", {l->Ints({1}), each}, {{"axis", 0}});
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const std::string column = l->Before("Unsqueeze", {l->input(i), l->Ints({1})});
    const std::string wide = l->Before("Expand", {column, shape});
    l->set_input(i, l->Before("Reshape", {wide, l->Ints({-1})}));
  }
}

/// Resize with output = floor(input * scale) and no shift of the grid. Nearest reads the element
/// below where an axis grows and the one above where it shrinks: 11 names the rule, the test of 10
/// for shrinking shows it ([1, 2, 3, 4] by 0.6 is [1, 3]), and ONNX Runtime follows it.
///   Resize(x, s)   ->   Resize(Resize(x, max(s, 1)) {floor}, min(s, 1)) {ceil}
void AsymmetricResize(Lift* l, std::string scales, TensorPtr known) {
  Record& n = l->node;
  n.op = "Resize";
  n.attrs["coordinate_transformation_mode"] = "asymmetric";
  n.attrs["nearest_mode"] = "floor";
  n.inputs = {l->input(0), "", scales};
  const AttrValue* mode = n.attrs.find("mode");
  if (mode && (!mode->is<std::string>() || mode->get<std::string>() != "nearest")) return;
  n.attrs["mode"] = "nearest";
  if (known && !IsFloat(known->dtype())) known = nullptr;
  bool grows = !known, shrinks = !known;
  for (int64_t i = 0; known && i < known->num_elements(); ++i) {
    grows = grows || known->at(i) > 1;
    shrinks = shrinks || known->at(i) < 1;
  }
  if (!shrinks) return;
  if (grows) {
    const auto part = [&](const char* op) -> std::string {
      if (!known) return l->Before(op, {scales, l->Constant(Tensor::Scalar(DType::kF32, 1))});
      std::vector<double> values;
      for (int64_t i = 0; i < known->num_elements(); ++i)
        values.push_back((known->at(i) < 1) == (op == std::string("Min")) ? known->at(i) : 1);
      return l->Constant(Tensor::FromDoubles(DType::kF32, known->dims(), values));
    };
    n.inputs[0] = l->Before("Resize", {n.inputs[0], "", part("Max")}, n.attrs);
    n.inputs[2] = part("Min");
  }
  n.attrs["nearest_mode"] = "ceil";
}
/// Scales below 1 are no valid Upsample; they shrink as in Resize.
void UpsampleAttribute(Lift* l) {
  const AttrValue scales = l->Take("scales");
  if (scales.empty()) WEFT_THROW(kBadAttribute, "Upsample needs the attribute scales");
  const Floats& values = scales.get<Floats>();
  l->node.version = 13;
  const TensorPtr s = Tensor::FromDoubles(DType::kF32, {int64_t(values.size())}, values);
  AsymmetricResize(l, l->Constant(s), s);
}
void UpsampleInput(Lift* l) {
  l->node.version = 13;
  AsymmetricResize(l, l->input(1), l->constant_of(l->input(1)));
}
void Resize10(Lift* l) { AsymmetricResize(l, l->input(1), l->constant_of(l->input(1))); }
/// 11 wanted `roi` and `scales` even where sizes decide, then as empty tensors.
void Resize11(Lift* l) {
  const AttrValue* mode = l->node.attrs.find("coordinate_transformation_mode");
  const bool crop =
      mode && mode->is<std::string>() && mode->get<std::string>() == "tf_crop_and_resize";
  if (!crop && l->node.inputs.size() > 1) l->node.inputs[1].clear();
  if (!l->input(3).empty()) l->node.inputs[2].clear();
}

/// 20 renamed the modes and gave the rest of the meaning unchanged.
void GridSampleMode(Lift* l) {
  AttrValue mode = l->Take("mode");
  if (mode.empty()) return;
  const std::string& text = mode.get<std::string>();
  l->node.attrs["mode"] = text == "bilinear"  ? "linear"
                          : text == "bicubic" ? "cubic"
                                              : text.c_str();
}

/// As ONNX Runtime's optimizer writes it, in the standard's domain before the standard had it.
void SimplifiedLayerNorm(Lift* l) {
  if (l->HasOutput(1)) l->Unsupported("the statistics of training are not supported");
  l->node.op = "RMSNormalization";
  l->node.outputs.resize(1);
  const std::string scale = l->input(1);
  if (l->dtype_of(l->input(0)) != l->dtype_of(scale))
    l->set_input(0, l->Before("CastLike", {l->input(0), scale}));
}

/// Before 9 a scan had a batch axis, which import makes a scan around it, and lengths for each
/// sequence of the batch.
void Scan8(Lift* l) {
  if (!l->input(0).empty()) l->Unsupported("sequence_lens is not supported");
  if (!l->node.inputs.empty()) l->node.inputs.erase(l->node.inputs.begin());
  const AttrValue directions = l->Take("directions");
  if (!directions.empty()) l->node.attrs["scan_input_directions"] = directions;
}

}  // namespace

std::vector<LiftRule> NnOpLifts() {
  return {
      {"Softmax", 1, 12, CoercedSoftmax},
      {"LogSoftmax", 1, 12, CoercedSoftmax},
      {"Hardmax", 1, 12, CoercedSoftmax},
      {"Clip", 1, 10, ClipToInputs},
      {"Dropout", 1, 11, DropoutToInputs},
      {"BatchNormalization", 1, 13, BatchNormOld, nullptr, 2},  // how it trains
      {"GroupNormalization", 18, 20, GroupNormPerChannel},
      {"Upsample", 1, 8, UpsampleAttribute},
      {"Upsample", 9, kAll, UpsampleInput},
      {"Resize", 10, 10, Resize10},
      {"Resize", 11, 12, Resize11},
      {"GridSample", 16, 19, GridSampleMode},
      {"Scan", 8, 8, Scan8},
      {"SimplifiedLayerNormalization", 1, kAll, SimplifiedLayerNorm},
  };
}

}  // namespace weft::onnx_import
