/* ops_loss.c: losses over classes, and masks by label. A label that no class has is reported; one
 * that is to be ignored is the attribute ignore_index, where it is set. */
#include <string.h>

#include "ops.h"

/* What torch is told to ignore where the node ignores nothing: no label is that. */
static const int64_t kNoLabel = INT64_MIN / 2;

static int64_t Ignored(const Build* b) {
  return weft->node_has_attr(b->node, "ignore_index") ? IntAttr(b, "ignore_index", 0) : kNoLabel;
}

/* NegativeLogLikelihoodLoss; SoftmaxCrossEntropyLoss, which has logarithms of its own. */
static WeftStatus BuildLoss(Build* b, const void* how) {
  const bool from_scores = how != NULL;
  int64_t reduction = 1;
  Type x, labels, weights;
  TRY(NeedIn(b, 0, kSingles, &x));
  TRY(NeedIn(b, 1, TYPE_BIT(WEFT_I32) | TYPE_BIT(WEFT_I64), &labels));
  if (HasIn(b, 2)) TRY(NeedIn(b, 2, kSingles, &weights));
  if (x.rank < 2) return Refuse(b, "rank %d", (int)x.rank);
  if (TextAttrIs(b, "reduction", "none")) reduction = 0;
  if (TextAttrIs(b, "reduction", "sum")) reduction = 2;
  CHECKED(b);
  if (NumElements(&x) == 0) return Refuse(b, "an empty operand");
  int logs = In(b, 0);
  if (from_scores) {
    const int to = IsUsed(b, 1) ? Out(b, 1) : Scratch(b, x.dtype, x.rank, x.dims);
    Emit(b, "aten::_log_softmax", "out", "tibt>-", logs, (int64_t)1, 0, to);
    logs = to;
  }
  /* [n, c], or [n, c, 1, d]. */
  const int64_t n = x.dims[0], c = x.dims[1], d = NumElements(&x) / (n * c);
  const int64_t image[4] = {n, c, 1, d}, plane[3] = {n, 1, d};
  const bool flat = x.rank == 2;
  const int target = Casted(b, In(b, 1), WEFT_I64);
  int loss = Out(b, 0);
  if (!flat && reduction == 0) loss = Reshaped(b, loss, 3, plane);
  Emit(b, flat ? "aten::nll_loss_forward" : "aten::nll_loss2d_forward", "output", "tt?iitt>--",
       flat ? logs : Reshaped(b, logs, 4, image), flat ? target : Reshaped(b, target, 3, plane),
       In(b, 2), reduction, Ignored(b), loss, Scratch(b, x.dtype, 0, NULL));
  return b->status;
}

/* Labels with an axis of classes: where along it the label is. */
static WeftStatus BuildClassMask(Build* b, const void* how) {
  int64_t dims[kMaxRank], line[kMaxRank];
  Type labels, mask;
  (void)how;
  TRY(NeedIn(b, 0, TYPE_BIT(WEFT_I32) | TYPE_BIT(WEFT_I64), &labels));
  TRY(NeedOut(b, 0, kBools, &mask));
  int64_t axis = IntAttr(b, "axis", 1);
  if (axis < 0) axis += mask.rank;
  if (axis < 0 || axis >= mask.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  for (int d = 0; d < mask.rank; ++d)
    dims[d] = d == axis ? 1 : mask.dims[d], line[d] = d == axis ? mask.dims[d] : 1;
  const int label = Reshaped(b, Casted(b, In(b, 0), WEFT_I64), mask.rank, dims);
  const int table = Constant(b, WEFT_I64, mask.rank, line, NULL);
  int64_t* classes = (int64_t*)ConstantData(b, table);
  for (int64_t i = 0; classes && i < mask.dims[axis]; ++i) classes[i] = i;
  if (!weft->node_has_attr(b->node, "ignore_index")) {
    BinaryTo(b, "aten::eq", "Tensor_out", label, table, Out(b, 0));
    return b->status;
  }
  const Type flags = {.dtype = WEFT_BOOL, .rank = mask.rank};
  Type kept = flags;
  memcpy(kept.dims, dims, sizeof dims);
  const int hit = Binary(b, "aten::eq", "Tensor_out", label, table, &mask);
  const int counts =
      Binary(b, "aten::ne", "Tensor_out", label, Number(b, WEFT_I64, (double)Ignored(b)), &kept);
  BinaryTo(b, "aten::logical_and", "out", hit, counts, Out(b, 0));
  return b->status;
}

/* weights[label], 0 for the ignored one. */
static WeftStatus BuildClassWeight(Build* b, const void* how) {
  Type labels, weights;
  (void)how;
  TRY(NeedIn(b, 0, TYPE_BIT(WEFT_I32) | TYPE_BIT(WEFT_I64), &labels));
  TRY(NeedIn(b, 1, kSingles, &weights));
  CHECKED(b);
  const int64_t count = NumElements(&labels);
  const Type places = {.dtype = WEFT_I64, .rank = 1, .dims = {count}};
  const Type flags = Sized(&places, WEFT_BOOL), values = Sized(&places, weights.dtype);
  const int label = Reshaped(b, Casted(b, In(b, 0), WEFT_I64), 1, &count);
  const int ignored =
      Binary(b, "aten::eq", "Tensor_out", label, Number(b, WEFT_I64, (double)Ignored(b)), &flags);
  const int index = Select(b, ignored, Number(b, WEFT_I64, 0), label, &places);
  const int weight = Scratch(b, values.dtype, 1, values.dims);
  Emit(b, "aten::gather", "out", "titbt>-", In(b, 1), (int64_t)0, index, 0, weight);
  SelectTo(b, ignored, Number(b, weights.dtype, 0), weight, View(b, Out(b, 0), 0, 1, &count, NULL));
  return b->status;
}

static const OpRow kRows[] = {
    {"NegativeLogLikelihoodLoss", BuildLoss, NULL},
    {"SoftmaxCrossEntropyLoss", BuildLoss, "scores"},
    {"weft::ClassMask", BuildClassMask, NULL},
    {"weft::ClassWeight", BuildClassWeight, NULL},
};
const OpTable kLossOps = {kRows, sizeof kRows / sizeof *kRows};
