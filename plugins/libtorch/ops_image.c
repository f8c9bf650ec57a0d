/* ops_image.c: images read between their elements. torch interpolates as ONNX does for some of the
 * modes only; the others are refused. */
#include <string.h>

#include "ops.h"

/* f32 factors up to here give whole products where nearest elements are asked for. */
enum { kMostFactor = 16 };

/* Dimensions that grow or shrink by whole numbers: floor(o in / out) is then what all modes say. */
static WeftStatus CheckNearest(Build* b, const Type* x, const Type* y) {
  const bool asymmetric = TextAttrIs(b, "coordinate_transformation_mode", "asymmetric");
  const bool floored = TextAttrIs(b, "nearest_mode", "floor");
  const bool centered = TextAttrIs(b, "coordinate_transformation_mode", "half_pixel") && !floored &&
                        !TextAttrIs(b, "nearest_mode", "ceil");
  if (!centered && !(asymmetric && floored))
    return Refuse(b, "these nearest elements are not torch's");
  for (int d = 2; d < x->rank; ++d) {
    if (x->dims[d] <= 0 || y->dims[d] <= 0) continue; /* only asked */
    const bool grows = y->dims[d] % x->dims[d] == 0 && y->dims[d] / x->dims[d] <= kMostFactor;
    const bool shrinks = x->dims[d] % y->dims[d] == 0 && x->dims[d] / y->dims[d] <= kMostFactor;
    if (!grows && !(shrinks && !centered)) return Refuse(b, "a factor that is not a whole number");
  }
  return WEFT_OK;
}

static WeftStatus CheckLinear(Build* b, const Type* x, const Type* y, bool corners) {
  const bool pytorch = TextAttrIs(b, "coordinate_transformation_mode", "pytorch_half_pixel");
  if (!corners && !pytorch && !TextAttrIs(b, "coordinate_transformation_mode", "half_pixel"))
    return Refuse(b, "these coordinates are not torch's");
  for (int d = 2; d < x->rank; ++d)
    if (pytorch && y->dims[d] == 1) return Refuse(b, "one element of pytorch_half_pixel");
  return WEFT_OK;
}

/* The constant scales of the spatial axes; those that torch is to take. */
static WeftStatus ReadScales(Build* b, const Type* x, const Type* y, bool whole, double* scales) {
  const WeftView* view = InConstant(b, 2);
  if (!view || view->dtype != WEFT_F32 || view->num_elements != x->rank)
    return Refuse(b, "scales that are not constant, or not of all axes");
  for (int d = 0; d < x->rank; ++d) {
    scales[d] = ((const float*)view->data)[d];
    if (d < 2 && scales[d] != 1) return Refuse(b, "images and channels that are resized");
    if (x->dims[d] > 0 && whole && scales[d] * (double)x->dims[d] != (double)y->dims[d])
      return Refuse(b, "scales that cut the result");
  }
  return WEFT_OK;
}

static WeftStatus BuildResize(Build* b, const void* how) {
  double scales[kMaxRank] = {0};
  Type x, y, given;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  TRY(NeedOut(b, 0, kSingles, &y));
  const bool nearest = TextAttrIs(b, "mode", "nearest"), cubic = TextAttrIs(b, "mode", "cubic");
  const bool corners = TextAttrIs(b, "coordinate_transformation_mode", "align_corners");
  const int spatial = x.rank - 2;
  if (spatial < 1 || spatial > 3 || (cubic && spatial != 2))
    return Refuse(b, "rank %d", (int)x.rank);
  if (IntAttr(b, "antialias", 0) || IntAttr(b, "exclude_outside", 0))
    return Refuse(b, "weights that are not torch's");
  if (cubic && FloatAttr(b, "cubic_coeff_a", -0.75) != -0.75)
    return Refuse(b, "another cubic filter than torch's");
  if (!TextAttrIs(b, "keep_aspect_ratio_policy", "stretch"))
    return Refuse(b, "an aspect ratio that is kept");
  for (int d = 0; d < 2; ++d)
    if (x.dims[d] != y.dims[d]) return Refuse(b, "images and channels that are resized");
  if (nearest)
    TRY(CheckNearest(b, &x, &y));
  else
    TRY(CheckLinear(b, &x, &y, corners));
  TRY(InType(b, 2, &given));
  const bool by_scales = HasIn(b, 2) && !(given.rank == 1 && given.dims[0] == 0);
  if (by_scales) TRY(ReadScales(b, &x, &y, nearest || corners, scales));
  CHECKED(b);
  if (NumElements(&x) == 0 || NumElements(&y) == 0) return Refuse(b, "an empty operand");
  const int64_t* size = &y.dims[2];
  const int from = In(b, 0), to = Out(b, 0);
  if (nearest) {
    static const char* const ops[] = {"aten::upsample_nearest1d", "aten::upsample_nearest2d",
                                      "aten::upsample_nearest3d"};
    static const char* const formats[] = {"tLNt>-", "tLNNt>-", "tLNNNt>-"};
    Emit(b, ops[spatial - 1], "out", formats[spatial - 1], from, spatial, size, to);
    return b->status;
  }
  static const char* const ops[] = {"aten::upsample_linear1d", "aten::upsample_bilinear2d",
                                    "aten::upsample_trilinear3d"};
  const char* op = cubic ? "aten::upsample_bicubic2d" : ops[spatial - 1];
  const double* s = &scales[2];
  if (!by_scales || corners) {
    static const char* const formats[] = {"tLbNt>-", "tLbNNt>-", "tLbNNNt>-"};
    Emit(b, op, "out", formats[spatial - 1], from, spatial, size, (int)corners, to);
  } else if (spatial == 1) {
    Emit(b, op, "out", "tLbDt>-", from, 1, size, 0, s[0], to);
  } else if (spatial == 2) {
    Emit(b, op, "out", "tLbDDt>-", from, 2, size, 0, s[0], s[1], to);
  } else {
    Emit(b, op, "out", "tLbDDDt>-", from, 3, size, 0, s[0], s[1], s[2], to);
  }
  return b->status;
}

static WeftStatus BuildGridSample(Build* b, const void* how) {
  Type x, grid, y;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  TRY(NeedIn(b, 1, kSingles, &grid));
  TRY(NeedOut(b, 0, kSingles, &y));
  const bool cubic = TextAttrIs(b, "mode", "cubic"), nearest = TextAttrIs(b, "mode", "nearest");
  int64_t padding = 0;
  if (x.dtype != grid.dtype) return Refuse(b, "operands of two element types");
  if (x.rank != 4 && (x.rank != 5 || cubic)) return Refuse(b, "rank %d", (int)x.rank);
  if (TextAttrIs(b, "padding_mode", "border")) padding = 1;
  if (TextAttrIs(b, "padding_mode", "reflection")) padding = 2;
  if (nearest && padding == 2) return Refuse(b, "the nearest element of a reflection");
  CHECKED(b);
  if (NumElements(&x) == 0 || NumElements(&y) == 0) return Refuse(b, "an empty operand");
  const int made = Owned(b, y.dtype, y.rank, y.dims);
  Emit(b, x.rank == 4 ? "aten::grid_sampler_2d" : "aten::grid_sampler_3d", "", "ttiib>o", In(b, 0),
       In(b, 1),
       (int64_t)(nearest ? 1
                 : cubic ? 2
                         : 0),
       padding, (int)(IntAttr(b, "align_corners", 0) != 0), made);
  Give(b, 0, made);
  return b->status;
}

static WeftStatus BuildAffineGrid(Build* b, const void* how) {
  int64_t size[kMaxRank];
  Type theta, grid;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &theta));
  TRY(NeedOut(b, 0, kSingles, &grid));
  const int count = ConstantInts(b, 1, size, kMaxRank);
  if (count != 4 && count != 5) return Refuse(b, "a size that is not constant");
  CHECKED(b);
  const int made = Owned(b, grid.dtype, grid.rank, grid.dims);
  Emit(b, "aten::affine_grid_generator", "", "tLb>o", In(b, 0), count, size,
       (int)(IntAttr(b, "align_corners", 0) != 0), made);
  Give(b, 0, made);
  return b->status;
}

/* Sums over channels c - before .. c + after, as windows of a padded axis. */
static int ChannelSums(Build* b, int x, const Type* type, int64_t before, int64_t after, int to) {
  int64_t begin[kMaxRank] = {0}, end[kMaxRank] = {0};
  begin[1] = before, end[1] = after;
  const int padded = Padded(b, x, begin, end, 0);
  if (b->status != WEFT_OK) return 0;
  const Value value = b->plan->values[padded];
  Type windows = *type;
  int64_t strides[kMaxRank];
  memcpy(strides, value.strides, sizeof strides);
  windows.dims[type->rank] = before + after + 1;
  strides[type->rank] = value.strides[1];
  const int64_t axis = type->rank;
  SumTo(b, View(b, padded, 0, type->rank + 1, windows.dims, strides), &axis, 1, false, to);
  return to;
}

static WeftStatus BuildChannelWindowSum(Build* b, const void* how) {
  Type x;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  if (x.rank < 2 || x.rank >= kMaxRank) return Refuse(b, "rank %d", (int)x.rank);
  CHECKED(b);
  ChannelSums(b, In(b, 0), &x, IntAttr(b, "before", 0), IntAttr(b, "after", 0), Out(b, 0));
  return b->status;
}

static WeftStatus BuildLRN(Build* b, const void* how) {
  Type x;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  const int64_t size = IntAttr(b, "size", 1);
  if (x.rank < 2 || x.rank >= kMaxRank || size < 1) return Refuse(b, "rank %d", (int)x.rank);
  CHECKED(b);
  const int value = In(b, 0), squares = Binary(b, "aten::mul", "out", value, value, &x);
  const int64_t before = (size - 1) / 2;
  const int sums =
      ChannelSums(b, squares, &x, before, size - 1 - before, Scratch(b, x.dtype, x.rank, x.dims));
  const int scaled = Scale(b, sums, FloatAttr(b, "alpha", 1e-4) / (double)size);
  const int base = Subtract(b, scaled, Number(b, x.dtype, FloatAttr(b, "bias", 1)), -1, &x);
  const int power = Binary(b, "aten::pow", "Tensor_Tensor_out", base,
                           Number(b, x.dtype, FloatAttr(b, "beta", 0.75)), &x);
  BinaryTo(b, "aten::div", "out", value, power, Out(b, 0));
  return b->status;
}

static const OpRow kRows[] = {
    {"Resize", BuildResize, NULL},
    {"GridSample", BuildGridSample, NULL},
    {"AffineGrid", BuildAffineGrid, NULL},
    {"LRN", BuildLRN, NULL},
    {"weft::ChannelWindowSum", BuildChannelWindowSum, NULL},
};
const OpTable kImageOps = {kRows, sizeof kRows / sizeof *kRows};
