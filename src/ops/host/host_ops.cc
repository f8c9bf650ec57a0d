/// host_ops.cc: Det, NonMaxSuppression, MelWeightMatrix: algorithms that run on the host.
/// Source: ONNX Det-22, NonMaxSuppression-11, MelWeightMatrix-17.
#include <algorithm>
#include <cmath>

#include "ops/util/host_util.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

struct NonMaxSuppressionParam : OpParam<NonMaxSuppressionParam> {
  int64_t center_point_box;
  WEFT_OP_PARAM(NonMaxSuppressionParam) {
    WEFT_FIELD(center_point_box)
        .set_default(0)
        .set_range(0, 1)
        .describe("0: boxes are [y1, x1, y2, x2], 1: [x, y, width, height] of the centre");
  }
};
WEFT_REGISTER_OP_PARAM(NonMaxSuppressionParam);

struct MelWeightMatrixParam : OpParam<MelWeightMatrixParam> {
  DTypeField output_datatype;
  WEFT_OP_PARAM(MelWeightMatrixParam) {
    WEFT_FIELD(output_datatype).set_default({}).describe("dtype of the result; default f32");
  }
};
WEFT_REGISTER_OP_PARAM(MelWeightMatrixParam);

// ---- Det ----

void DetShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(x.rank() >= 2, kShapeMismatch, "{}: x has shape {}, expected matrices",
             ctx.node()->Describe(), x.ToString());
  UnifyDims(ctx, x[x.rank() - 2], x[x.rank() - 1], "the sides of the matrices");
  ctx.set_out(0, Shape(std::vector<SymInt>(x.dims().begin(), x.dims().end() - 2)));
}
/// Elimination with the largest pivot of each column.
double Determinant(std::vector<double> a, int64_t n) {
  double det = 1;
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; ++r)
      if (std::fabs(a[size_t(r * n + c)]) > std::fabs(a[size_t(pivot * n + c)])) pivot = r;
    if (a[size_t(pivot * n + c)] == 0) return 0;
    if (pivot != c) {
      std::swap_ranges(a.begin() + c * n, a.begin() + (c + 1) * n, a.begin() + pivot * n);
      det = -det;
    }
    const double p = a[size_t(c * n + c)];
    det *= p;
    for (int64_t r = c + 1; r < n; ++r) {
      const double f = a[size_t(r * n + c)] / p;
      for (int64_t k = c; k < n; ++k) a[size_t(r * n + k)] -= f * a[size_t(c * n + k)];
    }
  }
  return det;
}
Tensors DetHost(const NodePtr&, const Tensors& in) {
  const Tensor& x = *in[0];
  const int64_t n = x.dims().back();
  auto y = NewTensor(x.dtype(), Dims(x.dims().begin(), x.dims().end() - 2));
  for (int64_t m = 0; m < y->num_elements(); ++m) {
    RequestScope::Poll();
    std::vector<double> a(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n * n; ++i) a[size_t(i)] = x.at(m * n * n + i);
    y->set(m, Determinant(std::move(a), n));
  }
  return {y};
}

/// dx = dy times the cofactors, themselves determinants of what is left without a row and a column:
/// defined for singular matrices too, and differentiable again. n^2 determinants of n - 1.
std::vector<NodeEntry> DetGrad(const NodePtr& node, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry()};
  const NodeEntry x = node->inputs[0], dy = dys[0];
  const auto number = [&](int64_t v) { return ScalarLike(x, DType::kI64, double(v)); };
  const auto ints = [&](const std::vector<int64_t>& v) { return IntsLike(x, v); };
  const NodeEntry side = Apply("Shape", {x}, {{"start", -1}});
  const NodeEntry n = Apply("Squeeze", {side, ints({0})});
  const NodeEntry count = Apply("Unsqueeze", {Apply("Size", {dy}), ints({0})});
  const NodeEntry shape = Apply("Concat", {count, side, side}, {{"axis", 0}});
  const NodeEntry matrices = Apply("Reshape", {x, shape}, {{"allowzero", 1}});
  // others[i] = all numbers below n but i.
  const NodeEntry row = Apply("Range", {number(0), n, number(1)});
  const NodeEntry column = Apply("Unsqueeze", {row, ints({1})});
  const NodeEntry fewer = Apply("Range", {number(0), n - number(1), number(1)});
  const NodeEntry skips =
      Apply("Cast", {Apply("GreaterOrEqual", {fewer, column})}, {{"to", DType::kI64}});
  const NodeEntry others = fewer + skips;
  const NodeEntry rows = Apply("Gather", {matrices, others}, {{"axis", 1}});
  const NodeEntry both = Apply("Gather", {rows, others}, {{"axis", 3}});
  const NodeEntry minors =
      Apply("Det", {Apply("Transpose", {both}, {{"perm", Ints{0, 1, 3, 2, 4}}})});
  const NodeEntry odd = Apply("Mod", {row + column, number(2)});
  const NodeEntry sign = Apply("CastLike", {number(1) - odd - odd, dy});
  const NodeEntry flat = Apply("Reshape", {dy, count}, {{"allowzero", 1}});
  const NodeEntry seeds = Apply("Unsqueeze", {flat, ints({1, 2})});
  return {ReshapeLike(minors * sign * seeds, x)};
}

// ---- NonMaxSuppression ----

struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};
Box BoxAt(const Tensor& boxes, int64_t i, bool center) {
  float v[4];
  for (int k = 0; k < 4; ++k) v[k] = float(boxes.at(i * 4 + k));
  if (center) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}
bool Overlaps(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  const float both = height * width;
  return both / (a.area() + b.area() - both) > threshold;
}
void NmsType(InferTypeContext& ctx) {
  const DTypeSet f32{DType::kF32};
  for (int i : {0, 1, 3, 4}) CheckInputType(ctx, i, f32);
  CheckInputType(ctx, 2, kI64Only);
  ctx.set_out(0, DType::kI64);
}
void NmsShape(InferShapeContext& ctx) {
  CheckRank(ctx, 0, 3, "boxes");
  CheckRank(ctx, 1, 3, "scores");
  ctx.set_out(0, Shape({ctx.unbacked(0), SymInt(3)}));
  Unknown(ctx, 0, "it depends on how many boxes stay");
}
Tensors NmsHost(const NodePtr& n, const Tensors& in) {
  const Tensor &boxes = *in[0], &scores = *in[1];
  const bool center = ParamOf<NonMaxSuppressionParam>(n).center_point_box != 0;
  const int64_t batch = scores.dims()[0], classes = scores.dims()[1], count = scores.dims()[2];
  WEFT_CHECK(boxes.dims()[0] == batch && boxes.dims()[1] == count && boxes.dims()[2] == 4,
             kShapeMismatch, "{}: boxes {} and scores {}", n->Describe(), boxes.shape().ToString(),
             scores.shape().ToString());
  const auto scalar = [&](size_t i, double otherwise) {
    const TensorPtr t = InputAt(in, i);
    return t && t->num_elements() > 0 ? t->at(0) : otherwise;
  };
  const TensorPtr bound = InputAt(in, 2);
  const int64_t most = bound && bound->num_elements() > 0 ? bound->at_int(0) : 0;
  const float overlap = float(scalar(3, 0));
  const bool has_floor = InputAt(in, 4) && InputAt(in, 4)->num_elements() > 0;
  const float floor = float(scalar(4, 0));
  Dims out;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < classes; ++c) {
      const auto score = [&](int64_t i) { return scores.at((b * classes + c) * count + i); };
      Dims order;
      for (int64_t i = 0; i < count; ++i)
        if (!has_floor || score(i) > floor) order.push_back(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t x, int64_t y) { return score(x) > score(y); });
      std::vector<Box> kept;
      for (const int64_t i : order) {
        RequestScope::Poll();
        if (int64_t(kept.size()) >= most) break;
        const Box box = BoxAt(boxes, b * count + i, center);
        const bool hidden = std::any_of(kept.begin(), kept.end(),
                                        [&](const Box& k) { return Overlaps(k, box, overlap); });
        if (hidden) continue;
        kept.push_back(box);
        out.insert(out.end(), {b, c, i});
      }
    }
  }
  auto y = NewTensor(DType::kI64, {int64_t(out.size()) / 3, 3});
  for (size_t i = 0; i < out.size(); ++i) y->set_int(int64_t(i), out[i]);
  return {y};
}

// ---- MelWeightMatrix ----

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

WEFT_REGISTER_OP(Det)
    .describe(
        "The determinant of each matrix in the last two axes. Gradient: the cofactors, of singular "
        "matrices too.\nSource: ONNX Det-22.")
    .input("X", TypeDoc(kFloats), "[..., n, n]")
    .output("Y", "T", "[...]")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .param<NoParam>()
    .example({"f32[3, 3]"})
    .example({"f64[n, 2, 2]"})
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", DetShape)
    .set_attr<FHostEval>("FHostEval", DetHost)
    .set_attr<FGradient>("FGradient", DetGrad);

WEFT_REGISTER_OP(NonMaxSuppression)
    .describe(
        "For each batch and class the boxes in the order of their scores, without those that "
        "overlap "
        "one already taken by more than iou_threshold: rows (batch, class, box).\nGradient: none. "
        "Source: ONNX NonMaxSuppression-11.")
    .input("boxes", "f32", "[batch, boxes, 4]")
    .input("scores", "f32", "[batch, classes, boxes]")
    .optional_input("max_output_boxes_per_class", "i64", "absent: 0, no boxes at all")
    .optional_input("iou_threshold", "f32", "absent: 0")
    .optional_input("score_threshold", "f32", "boxes of lower or equal score are left out")
    .output("selected_indices", "i64", "[count, 3]")
    .set_num_inputs(2, 5)
    .set_num_outputs(1)
    .param<NonMaxSuppressionParam>()
    .example({"f32[1, 3, 4]", "f32[1, 2, 3]", "i64[] = [2]", "f32[] = [0.5]"})
    .example({"f32[b, n, 4]", "f32[b, 1, n]", "i64[1] = [3]"}, "center_point_box = 1")
    .set_attr<FInferType>("FInferType", NmsType)
    .set_attr<FInferShape>("FInferShape", NmsShape)
    .set_attr<FHostEval>("FHostEval", NmsHost)
    .set_attr<FGradient>("FGradient", NoGradient);

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
    .set_num_inputs(5)
    .set_num_outputs(1)
    .param<MelWeightMatrixParam>()
    .example({"i64[] = [4]", "i64[] = [16]", "i64[] = [8192]", "f32[] = [0]", "f32[] = [4096]"})
    .set_attr<FInferType>("FInferType", MelInferType)
    .set_attr<FInferShape>("FInferShape", MelShape)
    .set_attr<FHostEval>("FHostEval", MelHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
