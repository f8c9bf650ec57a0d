/// lift_opset6.cc: operator set 6, the last one before numpy's broadcasting. Its second operand
/// lined up with the last axes of the first one, or with those from `axis` on; and training was
/// told from inference by an attribute.
#include "lift.h"

namespace weft::onnx_import {
namespace {

/// b[B...] along axis k of a   ->   b[B..., 1, ... 1], which lines up at the end. Needs both ranks.
void AlignAt(Lift* l, int64_t axis) {
  const int a = l->rank_of(l->input(0)), b = l->rank_of(l->input(1));
  if (a < 0 || b < 0)
    l->Unsupported(
        "broadcasting along an axis, of operands whose ranks the model does not declare");
  if (axis < 0) axis += a;
  if (axis < 0 || axis + b > a)
    l->Unsupported("broadcasting along an axis that the first operand does not have");
  std::vector<int64_t> axes;
  for (int64_t i = b; i < a - axis; ++i) axes.push_back(i);
  if (!axes.empty()) l->set_input(1, l->Before("Unsqueeze", {l->input(1), l->Ints(axes)}));
}

void Broadcast(Lift* l) {
  const bool broadcast = l->Take<int64_t>("broadcast", 0) != 0;
  const AttrValue axis = l->Take("axis");
  if (broadcast && !axis.empty()) AlignAt(l, axis.get<int64_t>());
}

void DropBroadcast(Lift* l) { l->Take("broadcast"); }

/// One slope, or one a channel.
void ChannelSlope(Lift* l) {
  const int rank = l->rank_of(l->input(1));
  if (rank < 0) l->Unsupported("a slope of a rank that the model does not declare");
  if (rank == 1) AlignAt(l, 1);
}

void DropIsTest(Lift* l) { l->Take("is_test"); }
void BatchNormTest(Lift* l) {
  if (l->Take<int64_t>("is_test", 0) != 0 && l->node.outputs.size() > 1) l->node.outputs.resize(1);
}

void DropOutputSequence(Lift* l) { l->Take("output_sequence"); }

void UpsampleSides(Lift* l) {
  const double height = l->Take<double>("height_scale", 1),
               width = l->Take<double>("width_scale", 1);
  l->node.attrs["scales"] = Floats{1, 1, height, width};
  if (l->Take<std::string>("mode", "nearest") == "bilinear") l->node.attrs["mode"] = "linear";
}

}  // namespace

std::vector<LiftRule> OpsetSixLifts() {
  std::vector<LiftRule> rules = {
      {"Gemm", 1, 6, DropBroadcast},      {"PRelu", 1, 6, ChannelSlope},
      {"Dropout", 1, 6, DropIsTest},      {"BatchNormalization", 1, 6, BatchNormTest},
      {"Upsample", 1, 6, UpsampleSides},  {"RNN", 1, 6, DropOutputSequence},
      {"LSTM", 1, 6, DropOutputSequence}, {"GRU", 1, 6, DropOutputSequence},
  };
  for (const char* op :
       {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"})
    rules.push_back({op, 1, 6, Broadcast});
  return rules;
}

}  // namespace weft::onnx_import
