/// lift_opset6.cc: operator sets 1 to 6, those before numpy's broadcasting. A second operand
/// lined up with the last axes of the first one, or with those from `axis` on; and training was
/// told from inference by an attribute.
#include <cmath>

#include "lift.h"
#include "onnx/proto/proto.h"
#include "weft/support/check.h"

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

/// Dtypes had names: "FLOAT".
void CastByName(Lift* l) {
  const std::string name = l->Take<std::string>("to", "");
  pb::TensorProto::DataType code = pb::TensorProto::UNDEFINED;
  WEFT_CHECK(pb::TensorProto::DataType_Parse(name, &code), kBadAttribute, "{} is not a dtype",
             Printable(name));
  l->node.attrs["to"] = int64_t{code};
}

void SetDefault(Lift* l, std::string_view attr, AttrValue value) {
  if (!l->node.attrs.count(attr)) l->node.attrs[attr] = std::move(value);
}

void ConcatAxis(Lift* l) { SetDefault(l, "axis", 1); }

/// Integers were floats.
int64_t ToInteger(Lift* l, const char* what, double v) {
  if (v != std::floor(v) || std::fabs(v) > INT32_MAX)
    l->Unsupported(fmt::format("{} = {} is not supported, only integers", what, v));
  return int64_t(v);
}

void LpNormOrder(Lift* l) { l->node.attrs["p"] = ToInteger(l, "p", l->Take<double>("p", 2)); }

void PadsName(Lift* l) {
  const AttrValue pads = l->Take("paddings");
  if (!pads.empty()) l->node.attrs["pads"] = pads;
}

void ReshapeToInput(Lift* l) {
  const AttrValue shape = l->Take("shape");
  if (shape.empty()) WEFT_THROW(kBadAttribute, "Reshape needs the attribute shape");
  l->set_input(1, l->Ints(shape.get<Ints>()));
}

/// Fewer digits than the constants have.
void SeluDefaults(Lift* l) {
  SetDefault(l, "alpha", 1.6732);
  SetDefault(l, "gamma", 1.0507);
}

/// Lengths were of the dtype of what is split.
void SplitLengths(Lift* l) {
  if (l->input(1).empty()) return;
  l->set_input(1, l->Before("Cast", {l->input(1)}, {{"to", int64_t{pb::TensorProto::INT64}}}));
}

/// One axis, `tiles` times   ->   repeats [1, ..., tiles, ..., 1]
void TileRepeats(Lift* l) {
  const auto constant = [&](size_t i, const char* what) {
    const TensorPtr t = l->constant_of(l->input(i));
    if (!t || t->num_elements() != 1 || !IsComputable(t->dtype()))
      l->Unsupported(fmt::format("{} that is not a constant number", what));
    return ToInteger(l, what, t->at(0));
  };
  const int rank = l->RankOf(l->input(0), "the operand");
  const int64_t tiles = constant(1, "tiles"), axis = constant(2, "axis");
  const int64_t at = axis + (axis < 0 ? rank : 0);
  WEFT_CHECK(at >= 0 && at < rank, kBadAttribute, "axis {} of {}", axis, rank);
  std::vector<int64_t> repeats(size_t(rank), 1);
  repeats[size_t(at)] = tiles;
  l->node.inputs = {l->input(0), l->Ints(repeats)};
}

}  // namespace

std::vector<LiftRule> OpsetSixLifts() {
  std::vector<LiftRule> rules = {
      {"Gemm", 1, 6, DropBroadcast},
      {"PRelu", 1, 6, ChannelSlope},
      {"Dropout", 1, 6, DropIsTest},
      {"BatchNormalization", 1, 6, BatchNormTest},
      {"Upsample", 1, 6, UpsampleSides},
      {"RNN", 1, 6, DropOutputSequence},
      {"LSTM", 1, 6, DropOutputSequence},
      {"GRU", 1, 6, DropOutputSequence},
      {"Cast", 1, 5, CastByName},
      {"Concat", 1, 3, ConcatAxis},
      {"LpPool", 1, 1, LpNormOrder},
      {"GlobalLpPool", 1, 1, LpNormOrder},
      {"Pad", 1, 1, PadsName},
      {"Reshape", 1, 4, ReshapeToInput},
      {"Selu", 1, 5, SeluDefaults},
      {"Split", 1, 1, SplitLengths},
      {"Tile", 1, 5, TileRepeats},
  };
  for (const char* op :
       {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"})
    rules.push_back({op, 1, 6, Broadcast});
  return rules;
}

}  // namespace weft::onnx_import
