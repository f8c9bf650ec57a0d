/// lift_contrib.cc: com.microsoft, the domain of what ONNX Runtime's optimizer, quantizer and
/// tools for transformers write, in standard operators. The table is at the end. Attention is in
/// lift_attention.cc, quantized operators are in lift_quantized.cc.
///
/// Meanings are those of ONNX Runtime's CPU provider (tests/onnxruntime holds each against it).
#include "lift_contrib.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "lift_attention.h"
#include "weft/support/check.h"

namespace weft::onnx_import {

std::string ChannelsFirst(Lift* l, const std::string& x, int rank) {
  Ints perm{0, rank - 1};
  for (int i = 1; i + 1 < rank; ++i) perm.push_back(i);
  return l->Before("Transpose", {x}, {{"perm", perm}});
}
std::string ChannelsLast(Lift* l, const std::string& x, int rank) {
  Ints perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return l->Before("Transpose", {x}, {{"perm", perm}});
}
AttrDict TakeAll(Lift* l) {
  AttrDict attrs = l->node.attrs;
  l->node.attrs.clear();
  return attrs;
}
std::string CoercedSoftmax(Lift* l, const std::string& x, int64_t axis, int rank) {
  if (axis == -1 || axis == rank - 1) return l->Before("Softmax", {x}, {{"axis", int64_t{-1}}});
  const std::string shape = l->Before("Shape", {x});
  const std::string flat = l->Before("Flatten", {x}, {{"axis", axis}});
  return l->Before("Reshape", {l->Before("Softmax", {flat}, {{"axis", int64_t{-1}}}), shape});
}
void EmbedLayerNorm(Lift* l, const EmbedOperands& in) {
  const double epsilon = l->Take<double>("epsilon", 1e-12);
  l->Take("mask_index_type");  // what inference of ONNX Runtime wants to know
  std::string sum = l->Before("Gather", {in.words, in.ids}, {{"axis", 0}});
  std::string position;
  if (!in.position_ids.empty()) {
    position = l->Before("Gather", {in.positions, in.position_ids}, {{"axis", 0}});
  } else {
    const std::string rows = l->Before("Shape", {in.ids}, {{"start", 1}, {"end", 2}});
    position = l->Before("Slice", {in.positions, l->Ints({0}), rows, l->Ints({0})});
  }
  sum = l->Before("Add", {sum, position});
  if (!in.segments.empty() && !in.segment_ids.empty())
    sum =
        l->Before("Add", {sum, l->Before("Gather", {in.segments, in.segment_ids}, {{"axis", 0}})});
  const std::string y = l->Before("LayerNormalization", {sum, in.gamma, in.beta},
                                  {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
  std::string lengths;
  if (l->HasOutput(1)) {
    // How many tokens a sequence has: its mask is ones, then zeros.
    lengths = in.mask.empty()
                  ? l->Before("ConstantOfShape",
                              {l->Before("Shape", {in.ids}, {{"start", 0}, {"end", 1}})},
                              {{"value", Tensor::FromDoubles(DType::kI32, {1}, {0})}})
                  : l->Before("ReduceSum", {in.mask, l->Ints({1})}, {{"keepdims", 0}});
  }
  l->Replace({y, lengths, sum});
}

namespace {

std::string Added(Lift* l, const std::string& a, const std::string& b) {
  return b.empty() ? a : l->Before("Add", {a, b});
}

// ---- activations ----

std::string Gelu(Lift* l, const std::string& x, const char* approximate) {
  return l->Before("Gelu", {x}, {{"approximate", approximate}});
}
void PlainGelu(Lift* l) { l->Replace({Gelu(l, l->input(0), "none")}); }
void FastGelu(Lift* l) { l->Replace({Gelu(l, Added(l, l->input(0), l->input(1)), "tanh")}); }
void BiasGelu(Lift* l) { l->Replace({Gelu(l, Added(l, l->input(0), l->input(1)), "none")}); }
void GemmFastGelu(Lift* l) {
  const std::string y = l->Before("MatMul", {l->input(0), l->input(1)});
  l->Replace({Gelu(l, Added(l, y, l->input(2)), "tanh")});
}
void QuickGelu(Lift* l) {
  const double alpha = l->Take<double>("alpha", 1.702);
  l->Replace({l->Before("Swish", {l->input(0)}, {{"alpha", alpha}})});
}
void BiasSplitGelu(Lift* l) {
  const auto halves = l->BeforeMany("Split", {Added(l, l->input(0), l->input(1))},
                                    {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}, 2);
  l->Replace({l->Before("Mul", {halves[0], Gelu(l, halves[1], "none")})});
}

/// The activation of a fused operator; `params`: its numbers in the order of the standard's
/// attributes. `like` has the dtype of x.
std::string Activated(Lift* l, const std::string& x, const std::string& name,
                      const std::vector<double>& params, const std::string& like) {
  const auto param = [&](size_t i, double otherwise) {
    return i < params.size() ? params[i] : otherwise;
  };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Tanh" || name == "Sigmoid" || name == "HardSwish")
    return l->Before(name, {x});
  if (name == "Gelu") return Gelu(l, x, "none");
  if (name == "QuickGelu") return l->Before("Swish", {x}, {{"alpha", param(0, 1.702)}});
  if (name == "LeakyRelu") return l->Before(name, {x}, {{"alpha", param(0, 0.01)}});
  if (name == "HardSigmoid")
    return l->Before(name, {x}, {{"alpha", param(0, 0.2)}, {"beta", param(1, 0.5)}});
  if (name == "Clip" && params.size() >= 2)
    return l->Before(name, {x, l->ScalarLike(params[0], like), l->ScalarLike(params[1], like)});
  l->Unsupported(fmt::format(
      "activation = {} is not supported, only Relu, Tanh, Sigmoid, LeakyRelu, Clip, HardSigmoid, "
      "HardSwish, Gelu and QuickGelu",
      name));
}
/// activation_alpha and so on, as far as they are given.
std::vector<double> TakeActivationParams(Lift* l) {
  std::vector<double> params;
  bool more = true;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    const AttrValue v = l->Take(name);
    more = more && !v.empty();
    if (more) params.push_back(v.get<double>());
  }
  return params;
}

// ---- products ----

/// An operand of FusedMatMul with its axes in the order of MatMul. `rows_first`: the rows come
/// before the batch, [rows, batch.., columns].
std::string Arranged(Lift* l, const std::string& x, bool transposed, bool rows_first,
                     const char* what) {
  if (!transposed && !rows_first) return x;
  const int rank = l->RankOf(x, what);
  if (rank < 2) return x;
  Ints perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  if (rows_first) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (transposed) std::swap(perm[size_t(rank - 2)], perm[size_t(rank - 1)]);
  return l->Before("Transpose", {x}, {{"perm", perm}});
}
void FusedMatMul(Lift* l) {
  const auto flag = [&](const char* name) { return l->Take<int64_t>(name, 0) != 0; };
  const bool trans_a = flag("transA"), trans_b = flag("transB");
  const bool batch_a = flag("transBatchA"), batch_b = flag("transBatchB");
  const double alpha = l->Take<double>("alpha", 1);
  const std::string activation = l->Take<std::string>("activation", "");
  const std::vector<double> params = TakeActivationParams(l);
  l->Take("activation_axis");  // of Softmax, which is not an activation that is taken
  const std::string a = Arranged(l, l->input(0), trans_a, batch_a, "A");
  const std::string b = Arranged(l, l->input(1), trans_b, batch_b, "B");
  std::string y = l->Before("MatMul", {a, b});
  if (alpha != 1) y = l->Before("Mul", {y, l->ScalarLike(alpha, l->input(0))});
  l->Replace({Activated(l, y, activation, params, l->input(0))});
}
void FusedGemm(Lift* l) {
  const std::string activation = l->Take<std::string>("activation", "");
  const std::vector<double> params = TakeActivationParams(l);
  const std::string y = l->Before("Gemm", l->node.inputs, TakeAll(l));
  l->Replace({Activated(l, y, activation, params, l->input(0))});
}
void FusedConvolution(Lift* l, bool channels_last) {
  const std::string activation = l->Take<std::string>("activation", "");
  const AttrValue params = l->Take("activation_params");
  const int rank = channels_last ? l->RankOf(l->input(1), "W") : 0;
  std::vector<std::string> in{channels_last ? ChannelsFirst(l, l->input(0), rank) : l->input(0),
                              l->input(1)};
  if (!l->input(2).empty()) in.push_back(l->input(2));
  std::string y = l->Before("Conv", in, TakeAll(l));
  if (channels_last) y = ChannelsLast(l, y, rank);
  y = Added(l, y, l->input(3));
  l->Replace(
      {Activated(l, y, activation,
                 params.empty() || params.is<Ints>() ? std::vector<double>() : params.get<Floats>(),
                 l->input(0))});
}
void FusedConv(Lift* l) { FusedConvolution(l, false); }
void NhwcFusedConv(Lift* l) { FusedConvolution(l, true); }

// ---- normalisation ----

/// The sum that is normalized is a result as well.
void SkipNorm(Lift* l, bool simplified) {
  const double epsilon = l->Take<double>("epsilon", 1e-12);
  const std::string bias = l->input(simplified ? 3 : 4);
  for (size_t i : {size_t{1}, size_t{2}})
    if (l->HasOutput(i))
      l->Unsupported("the statistics of training are not supported, only outputs 0 and 3");
  const std::string sum = Added(l, l->Before("Add", {l->input(0), l->input(1)}), bias);
  std::vector<std::string> in{sum, l->input(2)};
  if (!simplified && !l->input(3).empty()) in.push_back(l->input(3));
  const std::string y = l->Before(simplified ? "RMSNormalization" : "LayerNormalization", in,
                                  {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
  l->Replace({y, "", "", sum});
}
void SkipLayerNorm(Lift* l) { SkipNorm(l, false); }
void SkipSimplifiedLayerNorm(Lift* l) { SkipNorm(l, true); }

void EmbedLayerNormalization(Lift* l) {
  EmbedOperands in;
  in.ids = l->input(0);
  in.segment_ids = l->input(1);
  in.words = l->input(2);
  in.positions = l->input(3);
  in.segments = l->input(4);
  in.gamma = l->input(5);
  in.beta = l->input(6);
  in.mask = l->input(7);
  in.position_ids = l->input(8);
  EmbedLayerNorm(l, in);
}

/// SkipGroupNorm has what is added first as operands 3 and 4, and gives the sum as well.
void GroupNorm(Lift* l) {
  const int64_t groups = l->Take<int64_t>("groups", 0);
  const double epsilon = l->Take<double>("epsilon", 1e-5);
  const bool last = l->Take<int64_t>("channels_last", 1) != 0;
  const int64_t activation = l->Take<int64_t>("activation", 0);
  if (activation != 0 && activation != 1)
    l->Unsupported(
        fmt::format("activation = {} is not supported, only 0 and 1 (SiLU)", activation));
  if (groups <= 0) WEFT_THROW(kBadAttribute, "com.microsoft::{} needs groups", l->node.op);
  std::string sum = l->input(0);
  if (!l->input(3).empty()) {
    const std::string skip = l->input(3);
    const bool flat = l->RankOf(skip, "skip") == 2;
    const Ints axes = last ? Ints{1, 2} : Ints{2, 3};
    sum = l->Before("Add", {sum, flat ? l->Before("Unsqueeze", {skip, l->Ints(axes)}) : skip});
  }
  if (!l->input(4).empty())
    sum = l->Before(
        "Add", {sum, last ? l->input(4) : l->Before("Unsqueeze", {l->input(4), l->Ints({1, 2})})});
  const auto fitting = [&](const std::string& x) {
    return l->dtype_of(x) == l->dtype_of(l->input(0)) ? x : l->Before("CastLike", {x, l->input(0)});
  };
  std::string y =
      l->Before("GroupNormalization",
                {last ? ChannelsFirst(l, sum, 4) : sum, fitting(l->input(1)), fitting(l->input(2))},
                {{"num_groups", groups}, {"epsilon", epsilon}});
  if (activation == 1) y = l->Before("Swish", {y});
  l->Replace({last ? ChannelsLast(l, y, 4) : y, sum});
}

void BiasSoftmax(Lift* l) {
  const int64_t axis = l->Take<int64_t>("axis", 1);
  l->Take("is_inner_broadcast");  // how the bias broadcasts, which its shape says too
  const std::string x = l->Before("Add", {l->input(0), l->input(1)});
  l->Replace({CoercedSoftmax(l, x, axis, l->rank_of(l->input(0)))});
}
void BiasAdd(Lift* l) {
  l->Replace({l->Before("Add", {l->Before("Add", {l->input(0), l->input(1)}), l->input(2)})});
}
void BiasDropout(Lift* l) {
  AttrDict attrs;
  const AttrValue seed = l->Take("seed");
  if (!seed.empty()) attrs["seed"] = seed;
  const auto dropped = l->BeforeMany(
      "Dropout", {l->Before("Add", {l->input(0), l->input(1)}), l->input(3), l->input(4)}, attrs,
      2);
  l->Replace({Added(l, dropped[0], l->input(2)), dropped[1]});
}

// ---- T5's distances ----

/// [1, heads, queries, keys] of a table [buckets, heads]: distances up to half of the buckets have
/// one each, farther ones share buckets that grow with the logarithm.
void RelativePositionBias(Lift* l) {
  const int64_t most = l->Take<int64_t>("max_distance", 128);
  const bool both_ways = l->Take<int64_t>("is_bidirectional", 0) != 0;
  const std::string table = l->input(0);
  const auto rows = l->ExtentOf(table, 0);
  if (!rows) l->Unsupported("a bias_table whose number of buckets is not known");
  const int64_t buckets = both_ways ? *rows / 2 : *rows, exact = buckets / 2;
  if (exact < 1 || most <= exact)
    l->Unsupported(fmt::format("max_distance = {} for {} buckets", most, *rows));
  const auto number = [&](int64_t v) {
    return l->Constant(Tensor::Scalar(DType::kI64, double(v)));
  };
  const auto real = [&](double v) { return l->Constant(Tensor::Scalar(DType::kF32, v)); };
  const auto positions = [&](const std::string& length, int64_t axis) {
    const std::string n =
        l->Before("Reshape", {l->Before("Cast", {length}, {{"to", DType::kI64}}), l->Ints({})});
    return l->Before("Unsqueeze", {l->Before("Range", {number(0), n, number(1)}), l->Ints({axis})});
  };
  const std::string ahead =
      l->Before("Sub", {positions(l->input(2), 0), positions(l->input(1), 1)});
  const std::string far = both_ways ? l->Before("Abs", {ahead})
                                    : l->Before("Max", {l->Before("Neg", {ahead}), number(0)});
  const std::string ratio = l->Before(
      "Div", {l->Before("Cast", {l->Before("Max", {far, number(1)})}, {{"to", DType::kF32}}),
              real(double(exact))});
  const double step = double(buckets - exact) / std::log(double(most) / double(exact));
  const std::string grown = l->Before(
      "Cast", {l->Before("Mul", {l->Before("Log", {ratio}), real(step)})}, {{"to", DType::kI64}});
  const std::string shared =
      l->Before("Min", {l->Before("Add", {grown, number(exact)}), number(buckets - 1)});
  std::string bucket = l->Before("Where", {l->Before("Less", {far, number(exact)}), far, shared});
  if (both_ways)
    bucket = l->Before("Add", {bucket, l->Before("Where", {l->Before("Greater", {ahead, number(0)}),
                                                           number(buckets), number(0)})});
  const std::string y = l->Before("Gather", {table, bucket}, {{"axis", 0}});
  l->Replace({l->Before("Unsqueeze",
                        {l->Before("Transpose", {y}, {{"perm", Ints{2, 0, 1}}}), l->Ints({0})})});
}

// ---- the rest: operators that came to the standard later, or have another name there ----

void Same(Lift* l) {
  const std::string op = l->node.op;
  const auto y = l->BeforeMany(op, l->node.inputs, TakeAll(l), int(l->node.outputs.size()));
  l->Replace(y);
}
void Inverse(Lift* l) { l->Replace({l->Before("weft::Inverse", {l->input(0)})}); }
void TransposedConv(Lift* l) {
  const int rank = 4;
  std::vector<std::string> in{ChannelsFirst(l, l->input(0), rank),
                              ChannelsFirst(l, l->input(1), rank)};
  if (!l->input(2).empty()) in.push_back(l->input(2));
  l->Replace({ChannelsLast(l, l->Before("Conv", in, TakeAll(l)), rank)});
}
void NhwcMaxPool(Lift* l) {
  const AttrValue* window = l->node.attrs.find("kernel_shape");
  if (!window) WEFT_THROW(kBadAttribute, "com.microsoft::NhwcMaxPool needs kernel_shape");
  const int rank = int(window->get<Ints>().size()) + 2;
  const std::string y = l->Before("MaxPool", {ChannelsFirst(l, l->input(0), rank)}, TakeAll(l));
  l->Replace({ChannelsLast(l, y, rank)});
}
void ExpandDims(Lift* l) {
  const std::string axis = l->Before("Cast", {l->input(1)}, {{"to", DType::kI64}});
  l->Replace({l->Before("Unsqueeze", {l->input(0), l->Before("Reshape", {axis, l->Ints({1})})})});
}
/// Pads may be a row, [1, 2 rank].
void Pad(Lift* l) {
  std::vector<std::string> in = l->node.inputs;
  in[1] = l->Before("Reshape", {in[1], l->Ints({-1})});
  if (in.size() > 2 && !in[2].empty()) in[2] = l->Before("Reshape", {in[2], l->Ints({})});
  l->Replace({l->Before("Pad", in, TakeAll(l))});
}
void GridSample(Lift* l) {
  const std::string mode = l->Take<std::string>("mode", "bilinear");
  AttrDict attrs = TakeAll(l);
  attrs["mode"] = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode.c_str();
  l->Replace({l->Before("GridSample", l->node.inputs, attrs)});
}
/// Differences first: the squares of a product would cancel.
void CDist(Lift* l) {
  const std::string metric = l->Take<std::string>("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    l->Unsupported(fmt::format("metric \"{}\" is not supported", metric));
  const std::string difference =
      l->Before("Sub", {l->Before("Unsqueeze", {l->input(0), l->Ints({1})}),
                        l->Before("Unsqueeze", {l->input(1), l->Ints({0})})});
  l->Replace({l->Before(metric == "euclidean" ? "ReduceL2" : "ReduceSumSquare",
                        {difference, l->Ints({-1})}, {{"keepdims", 0}})});
}
void MurmurHash3(Lift* l) {
  l->Replace({l->Before("weft::MurmurHash3", {l->input(0)}, TakeAll(l))});
}
void Tokenizer(Lift* l) {
  AttrDict attrs = TakeAll(l);
  if (const AttrValue* v = attrs.find("stopwords"); v && !v->get<Strings>().empty())
    l->Unsupported("attribute 'stopwords' is not supported");
  l->Replace({l->Before("weft::Tokenizer", {l->input(0)}, std::move(attrs))});
}
void Unique(Lift* l) {
  const auto y = l->BeforeMany("Unique", {l->input(0)}, {{"sorted", 0}}, 4);
  l->Replace({y[0], y[2], y[3]});
}

}  // namespace

const std::vector<ContribRule>& ContribLifts() {
  // clang-format off
  static const std::vector<ContribRule> rules = {
      // operator, inputs at least and at most, outputs at most
      {"Attention",                        2,  7, 2, ContribAttention},
      {"BiasAdd",                          3,  3, 1, BiasAdd},
      {"BiasDropout",                      2,  5, 2, BiasDropout},
      {"BiasGelu",                         2,  2, 1, BiasGelu},
      {"BiasSoftmax",                      2,  2, 1, BiasSoftmax},
      {"BiasSplitGelu",                    2,  2, 1, BiasSplitGelu},
      {"CDist",                            2,  2, 1, CDist},
      {"DequantizeLinear",                 2,  3, 1, DequantizeContrib},
      {"DynamicQuantizeLSTM",             12, 12, 3, DynamicQuantizeLstm},
      {"DynamicQuantizeMatMul",            3,  5, 1, DynamicQuantizeMatMul},
      {"EmbedLayerNormalization",          7,  9, 3, EmbedLayerNormalization},
      {"ExpandDims",                       2,  2, 1, ExpandDims},
      {"FastGelu",                         1,  2, 1, FastGelu},
      {"FusedConv",                        2,  4, 1, FusedConv},
      {"FusedGemm",                        2,  3, 1, FusedGemm},
      {"FusedMatMul",                      2,  2, 1, FusedMatMul},
      {"FusedMatMulActivation",            2,  2, 1, FusedMatMul},
      {"GatherBlockQuantized",             3,  4, 1, GatherBlockQuantized},
      {"GatherND",                         2,  2, 1, Same},
      {"Gelu",                             1,  1, 1, PlainGelu},
      {"GemmFastGelu",                     2,  3, 1, GemmFastGelu},
      {"GridSample",                       2,  2, 1, GridSample},
      {"GroupNorm",                        3,  3, 1, GroupNorm},
      {"GroupQueryAttention",              7, 16, 3, ContribGroupQueryAttention},
      {"Inverse",                          1,  1, 1, Inverse},
      {"MatMulIntegerToFloat",             4,  7, 1, MatMulIntegerToFloat},
      {"MatMulNBits",                      3,  6, 1, MatMulNBits},
      {"MultiHeadAttention",               1, 10, 3, ContribMultiHeadAttention},
      {"MurmurHash3",                      1,  1, 1, MurmurHash3},
      {"NhwcConv",                         2,  3, 1, TransposedConv},
      {"NhwcFusedConv",                    2,  4, 1, NhwcFusedConv},
      {"NhwcMaxPool",                      1,  1, 1, NhwcMaxPool},
      {"Pad",                              2,  3, 1, Pad},
      {"QAttention",                       5,  9, 2, QAttention},
      {"QEmbedLayerNormalization",        13, 18, 2, QEmbedLayerNormalization},
      {"QGemm",                            6,  9, 1, QGemm},
      {"QLinearAdd",                       7,  8, 1, QLinearAdd},
      {"QLinearAveragePool",               4,  5, 1, QLinearAveragePool},
      {"QLinearConcat",                    5, SIZE_MAX, 1, QLinearConcat},
      {"QLinearConv",                      8,  9, 1, QLinearConv},
      {"QLinearGlobalAveragePool",         4,  5, 1, QLinearGlobalAveragePool},
      {"QLinearLeakyRelu",                 4,  5, 1, QLinearLeakyRelu},
      {"QLinearMul",                       7,  8, 1, QLinearMul},
      {"QLinearReduceMean",                4,  5, 1, QLinearReduceMean},
      {"QLinearSigmoid",                   4,  5, 1, QLinearSigmoid},
      {"QLinearSoftmax",                   4,  5, 1, QLinearSoftmax},
      {"QLinearWhere",                     9,  9, 1, QLinearWhere},
      {"QuantizeLinear",                   2,  3, 1, QuantizeContrib},
      {"QuickGelu",                        1,  1, 1, QuickGelu},
      {"Range",                            2,  3, 1, Same},
      {"RelativePositionBias",             3,  3, 1, RelativePositionBias},
      {"RotaryEmbedding",                  4,  4, 1, ContribRotaryEmbedding},
      {"SkipGroupNorm",                    4,  5, 2, GroupNorm},
      {"SkipLayerNormalization",           3,  5, 4, SkipLayerNorm},
      {"SkipSimplifiedLayerNormalization", 3,  4, 4, SkipSimplifiedLayerNorm},
      {"Tokenizer",                        1,  1, 1, Tokenizer},
      {"TransposeMatMul",                  2,  2, 1, FusedMatMul},
      {"Trilu",                            1,  2, 1, Same},
      {"Unique",                           1,  1, 3, Unique},
  };
  // clang-format on
  return rules;
}

}  // namespace weft::onnx_import
