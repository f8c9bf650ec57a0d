/* ops_movement.c: operators that move elements and look at none of them. Most are views, which take
 * a call only where their result leaves the region. */
#include <string.h>

#include "ops.h"

/* Reshape, Flatten, Squeeze, Unsqueeze, Identity: the dimensions of the result say it all. */
static WeftStatus BuildReshape(Build* b, const void* how) {
  Type from, to;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &from));
  TRY(NeedOut(b, 0, kMovable, &to));
  CHECKED(b);
  const int x = In(b, 0);
  Give(b, 0, SameDims(&from, &to) ? x : Reshaped(b, x, to.rank, to.dims));
  return b->status;
}

static WeftStatus BuildTranspose(Build* b, const void* how) {
  int64_t perm[2 * kMaxRank];
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &type));
  const int count = IntsAttr(b, "perm", perm);
  if (count != 0 && count != type.rank) return Refuse(b, "perm is not a permutation");
  for (int d = 0; d < type.rank && count == 0; ++d) perm[d] = type.rank - 1 - d;
  CHECKED(b);
  Give(b, 0, Permuted(b, In(b, 0), perm));
  return b->status;
}

static WeftStatus BuildExpand(Build* b, const void* how) {
  Type from, to;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &from));
  TRY(NeedOut(b, 0, kMovable, &to));
  CHECKED(b);
  Give(b, 0, Expanded(b, In(b, 0), to.rank, to.dims));
  return b->status;
}

/* Elements in reverse along axes: torch has no negative strides. */
static int Flipped(Build* b, int x, const int64_t* axes, int count) {
  if (count == 0 || b->status != WEFT_OK) return x;
  const Type type = *TypeOf(b, x);
  const int y = Owned(b, type.dtype, type.rank, type.dims);
  Emit(b, "aten::flip", "", "tL>o", x, count, axes, y);
  return y;
}

/* As numpy: negative bounds count from the end, then all are clamped. */
static int64_t Bound(int64_t at, int64_t size, int64_t low, int64_t high) {
  if (at < 0) at = at < -size ? -1 : at + size;
  return at < low ? low : at > high ? high : at;
}

typedef struct Cut {
  int count;
  int64_t axes[kMaxRank], starts[kMaxRank], steps[kMaxRank], lengths[kMaxRank];
} Cut;

/* The operands of Slice and SliceGrad from `first` on, over dimensions `type`. */
static WeftStatus ReadCut(Build* b, int first, const Type* type, Cut* cut) {
  int64_t ends[kMaxRank];
  cut->count = ConstantInts(b, first, cut->starts, kMaxRank);
  if (cut->count < 0 || ConstantInts(b, first + 1, ends, kMaxRank) != cut->count)
    return Refuse(b, "bounds that are not constant");
  for (int i = 0; i < cut->count; ++i) cut->axes[i] = i, cut->steps[i] = 1;
  if (HasIn(b, first + 2) && ConstantInts(b, first + 2, cut->axes, kMaxRank) != cut->count)
    return Refuse(b, "axes that are not constant");
  if (HasIn(b, first + 3) && ConstantInts(b, first + 3, cut->steps, kMaxRank) != cut->count)
    return Refuse(b, "steps that are not constant");
  for (int i = 0; i < cut->count; ++i) {
    if (cut->axes[i] < 0) cut->axes[i] += type->rank;
    if (cut->axes[i] < 0 || cut->axes[i] >= type->rank || cut->steps[i] == 0)
      return Refuse(b, "an axis out of range or a step of 0");
    const int64_t size = type->dims[cut->axes[i]], step = cut->steps[i];
    if (size < 0) continue; /* only asked */
    const int64_t last = step > 0 ? size : size - 1, low = step > 0 ? 0 : -1;
    const int64_t start = Bound(cut->starts[i], size, low, last);
    const int64_t end = Bound(ends[i], size, low, last);
    cut->starts[i] = start;
    if (step > 0)
      cut->lengths[i] = end > start ? (end - start + step - 1) / step : 0;
    else
      cut->lengths[i] = size && start > end ? (start - end - step - 1) / -step : 0;
  }
  return WEFT_OK;
}

/* What the cut leaves of x, those of negative steps from their end on; and these axes. */
static int CutView(Build* b, int x, const Cut* cut, int64_t* back, int* num_back) {
  *num_back = 0;
  for (int i = 0; i < cut->count; ++i) {
    const int64_t step = cut->steps[i], length = cut->lengths[i];
    if (step > 0) {
      x = Narrowed(b, x, (int)cut->axes[i], cut->starts[i], length, step);
    } else {
      x = Narrowed(b, x, (int)cut->axes[i], length ? cut->starts[i] + (length - 1) * step : 0,
                   length, -step);
      if (length > 1) back[(*num_back)++] = cut->axes[i];
    }
  }
  return x;
}

static WeftStatus BuildSlice(Build* b, const void* how) {
  int64_t back[kMaxRank];
  int num_back;
  Type type;
  Cut cut;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &type));
  TRY(ReadCut(b, 1, &type, &cut));
  CHECKED(b);
  const int x = CutView(b, In(b, 0), &cut, back, &num_back);
  Give(b, 0, Flipped(b, x, back, num_back));
  return b->status;
}

/* dy, the dimensions of x, then the operands of Slice. */
static WeftStatus BuildSliceGrad(Build* b, const void* how) {
  int64_t back[kMaxRank];
  int num_back;
  Type type;
  Cut cut;
  (void)how;
  TRY(NeedOut(b, 0, kMovable, &type));
  TRY(ReadCut(b, 2, &type, &cut));
  CHECKED(b);
  const int dx = Out(b, 0);
  Fill(b, dx, 0);
  const int to = CutView(b, dx, &cut, back, &num_back);
  Copy(b, to, Flipped(b, In(b, 0), back, num_back));
  return b->status;
}

static WeftStatus BuildConcat(Build* b, const void* how) {
  enum { kMost = 4096 };
  const int count = weft->node_num_inputs(b->node);
  Type type;
  (void)how;
  TRY(NeedOut(b, 0, kMovable, &type));
  int64_t axis = IntAttr(b, "axis", 0);
  if (axis < 0) axis += type.rank;
  if (axis < 0 || axis >= type.rank) return Refuse(b, "axis out of range");
  if (count > kMost) return Refuse(b, "%d operands", count);
  CHECKED(b);
  int values[kMost];
  for (int i = 0; i < count; ++i) values[i] = In(b, i);
  Emit(b, "aten::cat", "out", "Tit>-", count, values, axis, Out(b, 0));
  return b->status;
}

static WeftStatus BuildSplit(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &type));
  int64_t axis = IntAttr(b, "axis", 0), start = 0;
  if (axis < 0) axis += type.rank;
  if (axis < 0 || axis >= type.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  const int x = In(b, 0);
  for (int k = 0; k < weft->node_num_outputs(b->node); ++k) {
    Type part;
    TRY(OutType(b, k, &part));
    Give(b, k, Narrowed(b, x, (int)axis, start, part.dims[axis], 1));
    start += part.dims[axis];
  }
  return b->status;
}

/* x[.., i, ..] at r[.., k, i, ..]: an axis of repeats before each axis. */
static int Interleaved(Build* b, int whole, const Type* one, bool* fits) {
  int64_t dims[2 * kMaxRank];
  if (b->status != WEFT_OK) return 0;
  const Type all = *TypeOf(b, whole);
  *fits = 2 * one->rank <= kMaxRank;
  if (!*fits) return 0;
  for (int d = 0; d < one->rank; ++d) {
    dims[2 * d] = one->dims[d] ? all.dims[d] / one->dims[d] : 0;
    dims[2 * d + 1] = one->dims[d];
  }
  return Reshaped(b, whole, 2 * one->rank, dims);
}

static int WithRepeatAxes(Build* b, int x) {
  int64_t dims[2 * kMaxRank];
  if (b->status != WEFT_OK) return 0;
  const Type type = *TypeOf(b, x);
  for (int d = 0; d < type.rank; ++d) dims[2 * d] = 1, dims[2 * d + 1] = type.dims[d];
  return Reshaped(b, x, 2 * type.rank, dims);
}

static WeftStatus BuildTile(Build* b, const void* how) {
  Type from, to;
  bool fits = false;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &from));
  TRY(NeedOut(b, 0, kMovable, &to));
  if (2 * from.rank > kMaxRank) return Refuse(b, "%d axes", (int)from.rank);
  CHECKED(b);
  const int whole = Interleaved(b, Out(b, 0), &from, &fits);
  Copy(b, whole, WithRepeatAxes(b, In(b, 0)));
  return b->status;
}

static WeftStatus BuildTileGrad(Build* b, const void* how) {
  int64_t axes[kMaxRank];
  Type to, from;
  bool fits = false;
  (void)how;
  TRY(NeedIn(b, 0, kFloats | kInts, &from));
  TRY(NeedOut(b, 0, kFloats | kInts, &to));
  if (2 * to.rank > kMaxRank || to.rank == 0) return Refuse(b, "%d axes", (int)to.rank);
  CHECKED(b);
  for (int d = 0; d < to.rank; ++d) axes[d] = 2 * d;
  SumTo(b, Interleaved(b, In(b, 0), &to, &fits), axes, to.rank, false, Out(b, 0));
  return b->status;
}

/* The pads of operand 1 (or `at`) over the axes of operand `axes`. */
static WeftStatus ReadPads(Build* b, int at, int axes_at, int rank, int64_t* begin, int64_t* end) {
  int64_t pads[2 * kMaxRank], axes[kMaxRank];
  const int count = ConstantInts(b, at, pads, 2 * kMaxRank);
  int num_axes = rank;
  if (count < 0) return Refuse(b, "pads that are not constant");
  for (int d = 0; d < rank; ++d) begin[d] = end[d] = 0, axes[d] = d;
  if (HasIn(b, axes_at)) {
    num_axes = ConstantInts(b, axes_at, axes, kMaxRank);
    if (num_axes < 0) return Refuse(b, "axes that are not constant");
  }
  if (count != 2 * num_axes) return Refuse(b, "%d pads for %d axes", count, num_axes);
  for (int i = 0; i < num_axes; ++i) {
    const int64_t d = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (d < 0 || d >= rank) return Refuse(b, "axis out of range");
    begin[d] = pads[i], end[d] = pads[num_axes + i];
  }
  return WEFT_OK;
}

/* Which element of an axis of `size`, cut to [first, last), stands at position i before it. */
static int64_t Continued(const char mode, int64_t i, int64_t first, int64_t count) {
  if (mode == 'e') return first + (i < 0 ? 0 : i >= count ? count - 1 : i);
  if (mode == 'w') return first + ((i % count) + count) % count;
  if (count == 1) return first;
  const int64_t period = 2 * (count - 1);
  i = ((i % period) + period) % period;
  return first + (i < count ? i : period - i);
}

static WeftStatus BuildPad(Build* b, const void* how) {
  enum { kLongest = 1 << 20 };
  int64_t begin[kMaxRank], end[kMaxRank];
  Type type, to;
  char mode = 'c';
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &type));
  TRY(NeedOut(b, 0, kMovable, &to));
  if (TextAttrIs(b, "mode", "edge")) mode = 'e';
  if (TextAttrIs(b, "mode", "reflect")) mode = 'r';
  if (TextAttrIs(b, "mode", "wrap")) mode = 'w';
  TRY(ReadPads(b, 1, 3, type.rank, begin, end));
  for (int d = 0; d < type.rank && mode != 'c'; ++d)
    if (to.dims[d] > kLongest) return Refuse(b, "an axis of %lld", (long long)to.dims[d]);
  CHECKED(b);
  if (mode == 'c') {
    int number = In(b, 2), inside = Out(b, 0), x = In(b, 0);
    if (number < 0) number = Number(b, type.dtype, 0);
    Copy(b, inside, Reshaped(b, number, 0, NULL));
    for (int d = 0; d < type.rank; ++d) {
      const int64_t cut_begin = begin[d] < 0 ? -begin[d] : 0, cut_end = end[d] < 0 ? -end[d] : 0;
      const int64_t count = type.dims[d] - cut_begin - cut_end;
      x = Narrowed(b, x, d, cut_begin, count > 0 ? count : 0, 1);
      inside = Narrowed(b, inside, d, begin[d] > 0 ? begin[d] : 0, count > 0 ? count : 0, 1);
    }
    Copy(b, inside, x);
    return b->status;
  }
  int x = In(b, 0), left = 0;
  for (int d = 0; d < type.rank; ++d) left += begin[d] != 0 || end[d] != 0;
  if (left == 0) Give(b, 0, x);
  for (int d = 0; d < type.rank && b->status == WEFT_OK; ++d) {
    if (begin[d] == 0 && end[d] == 0) continue;
    const int64_t first = begin[d] < 0 ? -begin[d] : 0;
    const int64_t count = type.dims[d] - first - (end[d] < 0 ? -end[d] : 0);
    const int64_t shift = begin[d] > 0 ? begin[d] : 0;
    if (count <= 0) return Refuse(b, "nothing is left to continue");
    Type next = *TypeOf(b, x);
    next.dims[d] = to.dims[d];
    const int table = Constant(b, WEFT_I64, 1, &to.dims[d], NULL);
    int64_t* places = (int64_t*)ConstantData(b, table);
    for (int64_t i = 0; places && i < to.dims[d]; ++i)
      places[i] = Continued(mode, i - shift, first, count);
    const int y = --left ? Scratch(b, next.dtype, next.rank, next.dims) : Out(b, 0);
    Emit(b, "aten::index_select", "out", "titt>-", x, (int64_t)d, table, y);
    x = y;
  }
  return b->status;
}

/* dy, the dimensions of x, pads, axes; constant mode. */
static WeftStatus BuildPadGrad(Build* b, const void* how) {
  int64_t begin[kMaxRank], end[kMaxRank];
  Type dy, dx;
  (void)how;
  TRY(NeedIn(b, 0, kFloats, &dy));
  TRY(NeedOut(b, 0, kFloats, &dx));
  if (!TextAttrIs(b, "mode", "constant")) return Refuse(b, "a mode other than constant");
  TRY(ReadPads(b, 2, 3, dy.rank, begin, end));
  CHECKED(b);
  for (int d = 0; d < dy.rank; ++d) begin[d] = -begin[d], end[d] = -end[d];
  Give(b, 0, Padded(b, In(b, 0), begin, end, 0));
  return b->status;
}

/* [n, c, h, w] with squares of blocks between channels and positions. */
static WeftStatus BuildDepthSpace(Build* b, const void* how) {
  const bool to_space = how != NULL;
  Type from, to;
  TRY(NeedIn(b, 0, kMovable, &from));
  TRY(NeedOut(b, 0, kMovable, &to));
  if (from.rank != 4) return Refuse(b, "rank %d", (int)from.rank);
  const int64_t s = IntAttr(b, "blocksize", 1);
  const bool crd = TextAttrIs(b, "mode", "CRD");
  CHECKED(b);
  const int64_t* small = to_space ? from.dims : to.dims;
  const int64_t c = (to_space ? to : from).dims[1], n = from.dims[0], h = small[2], w = small[3];
  if (to_space) {
    const int64_t blocks[6] = {n, crd ? c : s, s, crd ? s : c, h, w};
    const int64_t dcr_perm[6] = {0, 3, 4, 1, 5, 2}, crd_perm[6] = {0, 1, 4, 2, 5, 3};
    const int y = Permuted(b, Reshaped(b, In(b, 0), 6, blocks), crd ? crd_perm : dcr_perm);
    Give(b, 0, Reshaped(b, y, 4, to.dims));
  } else {
    const int64_t blocks[6] = {n, c, h, s, w, s}, perm[6] = {0, 3, 5, 1, 2, 4};
    Give(b, 0, Reshaped(b, Permuted(b, Reshaped(b, In(b, 0), 6, blocks), perm), 4, to.dims));
  }
  return b->status;
}

/* What the dimensions of the graph are: constants here. */
static WeftStatus BuildShape(Build* b, const void* how) {
  const bool size = how != NULL;
  int64_t dims[kMaxRank] = {0};
  Type type;
  TRY(InType(b, 0, &type));
  if (type.rank < 0) return Refuse(b, "the rank of operand 0 is not known");
  CHECKED(b);
  if (size) {
    const int64_t count = NumElements(&type);
    Give(b, 0, Constant(b, WEFT_I64, 0, NULL, &count));
    return b->status;
  }
  int64_t start = IntAttr(b, "start", 0), end = IntAttr(b, "end", INT64_MAX);
  start = Bound(start, type.rank, 0, type.rank);
  end = Bound(end, type.rank, 0, type.rank);
  const int64_t count = end > start ? end - start : 0;
  memcpy(dims, type.dims + start, (size_t)count * sizeof *dims);
  Give(b, 0, Constant(b, WEFT_I64, 1, &count, dims));
  return b->status;
}

static WeftStatus BuildConstantOfShape(Build* b, const void* how) {
  const WeftView* value = NULL;
  Type type;
  (void)how;
  TRY(NeedOut(b, 0, kMovable, &type));
  if (weft->node_attr_tensor(b->node, "value", &value) != WEFT_OK) value = NULL;
  if (value && (value->num_elements != 1 || value->dtype != type.dtype))
    return Refuse(b, "value is not one element");
  CHECKED(b);
  if (value)
    Copy(b, Out(b, 0), Constant(b, type.dtype, 0, NULL, value->data));
  else
    Fill(b, Out(b, 0), 0);
  return b->status;
}

static WeftStatus BuildTrilu(Build* b, const void* how) {
  int64_t k = 0;
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers | kBools | kUnsigned, &type));
  if (HasIn(b, 1) && ConstantInts(b, 1, &k, 1) != 1) return Refuse(b, "k is not constant");
  const bool upper = IntAttr(b, "upper", 1) != 0;
  CHECKED(b);
  Emit(b, upper ? "aten::triu" : "aten::tril", "out", "tit>-", In(b, 0), k, Out(b, 0));
  return b->status;
}

static const OpRow kRows[] = {
    {"Reshape", BuildReshape, NULL},
    {"Flatten", BuildReshape, NULL},
    {"Squeeze", BuildReshape, NULL},
    {"Unsqueeze", BuildReshape, NULL},
    {"Identity", BuildReshape, NULL},
    {"Transpose", BuildTranspose, NULL},
    {"Expand", BuildExpand, NULL},
    {"Slice", BuildSlice, NULL},
    {"weft::SliceGrad", BuildSliceGrad, NULL},
    {"Concat", BuildConcat, NULL},
    {"Split", BuildSplit, NULL},
    {"Tile", BuildTile, NULL},
    {"weft::TileGrad", BuildTileGrad, NULL},
    {"Pad", BuildPad, NULL},
    {"weft::PadGrad", BuildPadGrad, NULL},
    {"DepthToSpace", BuildDepthSpace, "space"},
    {"SpaceToDepth", BuildDepthSpace, NULL},
    {"Shape", BuildShape, NULL},
    {"Size", BuildShape, "size"},
    {"ConstantOfShape", BuildConstantOfShape, NULL},
    {"weft::Zeros", BuildConstantOfShape, NULL},
    {"Trilu", BuildTrilu, NULL},
};
const OpTable kMovementOps = {kRows, sizeof kRows / sizeof *kRows};
