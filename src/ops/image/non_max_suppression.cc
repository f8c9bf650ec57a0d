/// non_max_suppression.cc: NonMaxSuppression: of boxes that overlap, the one of the best score. It
/// runs on the host.
#include <algorithm>

#include "ops/util/bounded_size.h"
#include "ops/util/host_util.h"
#include "ops/util/shape_util.h"
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
  const Shape& scores = ctx.in(1);
  SymInt most;
  if (scores.has_rank()) {
    // Of each class in each image, all boxes, or as many as are asked for.
    const SymTensorPtr asked = HasInput(ctx, 2) ? InputValue(ctx, 2) : nullptr;
    const bool says = asked && asked->elements.size() == 1 && asked->elements[0].known();
    const SymInt boxes =
        says ? MaxOf(MinOf(asked->elements[0], scores[2], ctx.facts()), 0, ctx.facts()) : scores[2];
    most = scores[0] * scores[1] * boxes;
  }
  ctx.set_out(0, Shape({UnbackedAtMost(ctx, 0, most), SymInt(3)}));
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

}  // namespace

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
    .param<NonMaxSuppressionParam>()
    .example({"f32[1, 3, 4]", "f32[1, 2, 3]", "i64[] = [2]", "f32[] = [0.5]"})
    .example({"f32[b, n, 4]", "f32[b, 1, n]", "i64[1] = [3]"}, "center_point_box = 1")
    .set_attr<FInferType>("FInferType", NmsType)
    .set_attr<FInferShape>("FInferShape", NmsShape)
    .set_attr<FHostEval>("FHostEval", NmsHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
