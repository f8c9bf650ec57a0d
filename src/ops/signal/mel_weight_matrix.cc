/// mel_weight_matrix.cc: MelWeightMatrix, from the bins of a spectrum to those of the mel scale. It
/// runs on the host.
#include <algorithm>
#include <cmath>

#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

struct MelWeightMatrixParam : OpParam<MelWeightMatrixParam> {
  DTypeField output_datatype;
  WEFT_OP_PARAM(MelWeightMatrixParam) {
    WEFT_FIELD(output_datatype).set_default({}).describe("dtype of the result; default f32");
  }
};
WEFT_REGISTER_OP_PARAM(MelWeightMatrixParam);

DType MelType(const NodePtr& n) {
  const DType t = ParamOf<MelWeightMatrixParam>(n).output_datatype.dtype;
  return t == DType::kUnknown ? DType::kF32 : t;
}
void MelInferType(InferTypeContext& ctx) {
  for (int i : {0, 1, 2}) CheckInputType(ctx, i, kIndexTypes);
  for (int i : {3, 4}) CheckInputType(ctx, i, kFloats);
  WEFT_CHECK(kNumeric.has(MelType(ctx.node())), kBadAttribute, "{}: output_datatype {}",
             ctx.node()->Describe(), DTypeName(MelType(ctx.node())));
  ctx.set_out(0, MelType(ctx.node()));
}
void MelShape(InferShapeContext& ctx) {
  const auto one = [&](int i) {
    const SymTensorPtr v = InputValue(ctx, i);
    return v && v->elements.size() == 1 ? v->elements[0] : SymInt();
  };
  const SymInt bins = one(0), length = one(1);
  ctx.set_out(0, Shape({length.known() ? FloorDiv(length, 2) + 1 : ctx.unbacked(0),
                        bins.known() ? bins : ctx.unbacked(1)}));
}
double MelOf(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double HertzOf(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }
Tensors MelHost(const NodePtr& n, const Tensors& in) {
  for (size_t i = 0; i < 5; ++i)
    WEFT_CHECK(in[i]->num_elements() == 1, kShapeMismatch, "{}: input {} has {} elements",
               n->Describe(), i, in[i]->num_elements());
  const int64_t bins = in[0]->at_int(0), length = in[1]->at_int(0), rate = in[2]->at_int(0);
  WEFT_CHECK(bins >= 0 && length > 0 && rate > 0, kBadInput,
             "{}: {} bins of a transform of length {} at {} Hz", n->Describe(), bins, length, rate);
  const double low = MelOf(in[3]->at(0)), high = MelOf(in[4]->at(0));
  const int64_t spectrum = length / 2 + 1;
  // bins + 2 edges, evenly spaced in mel, as numbers of spectrum bins.
  Dims edges;
  auto y = NewTensor(MelType(n), {spectrum, bins});
  const double step = (high - low) / (double(bins) + 2);
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double edge =
        std::floor((double(length) + 1) * HertzOf(low + step * double(i)) / double(rate));
    WEFT_CHECK(std::fabs(edge) < 1e15, kBadInput, "{}: the filters reach to bin {}", n->Describe(),
               edge);
    edges.push_back(int64_t(edge));
  }
  for (int64_t b = 0; b < bins; ++b) {
    const int64_t lower = edges[size_t(b)], center = edges[size_t(b) + 1],
                  upper = edges[size_t(b) + 2];
    const auto put = [&](int64_t row, double v) {
      if (row >= 0 && row < spectrum) y->set(row * bins + b, v);
    };
    if (center == lower) put(center, 1);
    // Only rows that exist: an edge may lie far outside.
    for (int64_t i = std::max<int64_t>(lower, 0);
         i <= std::min(center, spectrum - 1) && center > lower; ++i)
      put(i, double(i - lower) / double(center - lower));
    for (int64_t i = std::max<int64_t>(center, 0); i < std::min(upper, spectrum); ++i)
      put(i, double(upper - i) / double(upper - center));
  }
  return {y};
}

}  // namespace

WEFT_REGISTER_OP(MelWeightMatrix)
    .describe(
        "Triangular filters, evenly spaced on the mel scale, as a matrix from a spectrum of "
        "dft_length / 2 + 1 bins to num_mel_bins.\nGradient: none. Source: ONNX "
        "MelWeightMatrix-17.")
    .input("num_mel_bins", TypeDoc(kIndexTypes, "T1"))
    .input("dft_length", "T1")
    .input("sample_rate", "T1")
    .input("lower_edge_hertz", TypeDoc(kFloats, "T2"))
    .input("upper_edge_hertz", "T2")
    .output("output", TypeDoc(kNumeric, "T3"), "[dft_length / 2 + 1, num_mel_bins]")
    .param<MelWeightMatrixParam>()
    .example({"i64[] = [4]", "i64[] = [16]", "i64[] = [8192]", "f32[] = [0]", "f32[] = [4096]"})
    .set_attr<FInferType>("FInferType", MelInferType)
    .set_attr<FInferShape>("FInferShape", MelShape)
    .set_attr<TSizeOperands>("TSizeOperands", {0, 1})
    .set_attr<FHostEval>("FHostEval", MelHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
