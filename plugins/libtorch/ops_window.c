/* ops_window.c: convolutions, their transposes, and the gradients of both. */
#include <string.h>

#include "window.h"

/* ---- windows ---- */

static WeftStatus ReadInts(Build* b, const char* name, int count, int64_t otherwise,
                           int64_t* values) {
  int64_t given[2 * kMaxRank];
  const int length = IntsAttr(b, name, given);
  if (length != 0 && length != count) return Refuse(b, "%d %s", length, name);
  for (int k = 0; k < count; ++k) values[k] = length ? given[k] : otherwise;
  return WEFT_OK;
}

WeftStatus ReadWindow(Build* b, WindowKind kind, int rank, Window* w) {
  int64_t pads[2 * kMaxSpatial], shape[2 * kMaxRank];
  memset(w, 0, sizeof *w);
  if (rank < 1 || rank > kMaxSpatial) return Refuse(b, "%d spatial axes", rank);
  w->rank = rank;
  TRY(ReadInts(b, "strides", rank, 1, w->strides));
  TRY(ReadInts(b, "dilations", rank, 1, w->dilations));
  TRY(ReadInts(b, "pads", 2 * rank, 0, pads));
  if (kind == kTransposed) TRY(ReadInts(b, "output_padding", rank, 0, w->output_padding));
  w->upper = TextAttrIs(b, "auto_pad", "SAME_UPPER");
  w->same = w->upper || TextAttrIs(b, "auto_pad", "SAME_LOWER");
  w->ceil = kind == kPooling && IntAttr(b, "ceil_mode", 0) != 0;
  const bool valid = TextAttrIs(b, "auto_pad", "VALID");
  for (int k = 0; k < rank; ++k) {
    w->begin[k] = valid ? 0 : pads[k];
    w->end[k] = valid ? 0 : pads[rank + k];
    if (w->begin[k] < 0 || w->end[k] < 0) return Refuse(b, "negative padding");
  }
  const int given = kind == kTransposed ? IntsAttr(b, "output_shape", shape) : 0;
  w->has_output_shape = given >= rank;
  for (int k = 0; k < rank && w->has_output_shape; ++k)
    w->output_shape[k] = shape[given - rank + k];
  return WEFT_OK;
}

static void SplitPadding(Window* w, int k, int64_t total) {
  if (total < 0) total = 0;
  const int64_t small = total / 2;
  w->begin[k] = w->upper ? small : total - small;
}

void ResolveWindow(Window* w) {
  for (int k = 0; k < w->rank; ++k) {
    if (w->same) SplitPadding(w, k, Covered(w, k) - w->in[k]);
    w->end[k] = Covered(w, k) - w->in[k] - w->begin[k];
  }
}

void ResolveTransposed(Window* w) {
  for (int k = 0; k < w->rank; ++k) {
    const int64_t full = Covered(w, k) + w->output_padding[k];
    if (w->has_output_shape || w->same)
      SplitPadding(w, k,
                   full - (w->has_output_shape ? w->output_shape[k] : w->out[k] * w->strides[k]));
    w->end[k] = Covered(w, k) - w->in[k] - w->begin[k];
  }
}

static void Around(const Window* w, int sign, int64_t* begin, int64_t* end) {
  begin[0] = begin[1] = end[0] = end[1] = 0;
  for (int k = 0; k < w->rank; ++k)
    begin[2 + k] = sign * w->begin[k], end[2 + k] = sign * w->end[k];
}
int PaddedFor(Build* b, const Window* w, int x, double number) {
  int64_t begin[kMaxRank], end[kMaxRank];
  Around(w, 1, begin, end);
  return Padded(b, x, begin, end, number);
}
int UnpaddedFor(Build* b, const Window* w, int padded) {
  int64_t begin[kMaxRank], end[kMaxRank];
  Around(w, -1, begin, end);
  return Padded(b, padded, begin, end, 0);
}

/* ---- convolutions ---- */

static const int64_t kNone[kMaxSpatial] = {0, 0, 0};

/* Does torch take the begins as the padding of both sides and get as many windows? */
static bool PadsEqually(const Window* w) {
  for (int k = 0; k < w->rank; ++k) {
    const int64_t room = w->in[k] + 2 * w->begin[k] - Reach(w, k);
    if (room < 0 || room / w->strides[k] + 1 != w->out[k]) return false;
  }
  return true;
}

static int Convolved(Build* b, const Window* w, int x, int filters, int bias, const Type* y) {
  const bool equally = PadsEqually(w);
  if (!equally) x = PaddedFor(b, w, x, 0);
  const int made = Owned(b, y->dtype, y->rank, y->dims);
  Emit(b, "aten::convolution", "", "tt?LLLbLi>o", x, filters, bias, w->rank, w->strides, w->rank,
       equally ? w->begin : kNone, w->rank, w->dilations, 0, w->rank, kNone, IntAttr(b, "group", 1),
       made);
  return made;
}

/* The first two operands, of one rank from 3 to 5. */
static WeftStatus ReadConv(Build* b, WindowKind kind, Type* x, Type* y, Window* w) {
  TRY(NeedIn(b, 0, kFloats, x));
  TRY(NeedIn(b, 1, kFloats, y));
  if (x->rank != y->rank)
    return Refuse(b, "operands of rank %d and %d", (int)x->rank, (int)y->rank);
  return ReadWindow(b, kind, x->rank - 2, w);
}

static void SetDims(Window* w, const Type* in, const Type* filters, const Type* out) {
  for (int k = 0; k < w->rank; ++k) {
    w->in[k] = in->dims[2 + k];
    w->kernel[k] = filters->dims[2 + k];
    w->out[k] = out->dims[2 + k];
  }
}

static bool IsEmpty(const Type* type) {
  for (int d = 0; d < type->rank; ++d)
    if (type->dims[d] == 0) return true;
  return false;
}

static WeftStatus BuildConv(Build* b, const void* how) {
  Type x, filters, y;
  Window w;
  (void)how;
  TRY(ReadConv(b, kConvolution, &x, &filters, &w));
  TRY(NeedOut(b, 0, kFloats, &y));
  if (IsEmpty(&x) || IsEmpty(&filters) || IsEmpty(&y)) return Refuse(b, "an empty operand");
  CHECKED(b);
  SetDims(&w, &x, &filters, &y);
  ResolveWindow(&w);
  Give(b, 0, Convolved(b, &w, In(b, 0), In(b, 1), In(b, 2), &y));
  return b->status;
}

/* aten::convolution_backward for one of the two gradients. torch reads of the operand that the
 * gradient is of its dimensions alone, so it may be any memory. */
static void Backward(Build* b, const Window* w, int dy, int x, int filters, bool of_filters,
                     bool transposed, const int64_t* padding, const int64_t* output_padding,
                     int made) {
  const int64_t mask[3] = {!of_filters, of_filters, 0};
  Emit(b, "aten::convolution_backward", "", of_filters ? "tttNLLLbLiM>-o-" : "tttNLLLbLiM>o--", dy,
       x, filters, w->rank, w->strides, w->rank, padding, w->rank, w->dilations, (int)transposed,
       w->rank, output_padding, IntAttr(b, "group", 1), 3, mask, made);
}

/* dy, W, the dimensions of x. */
static WeftStatus BuildConvGradData(Build* b, const void* how) {
  Type dy, filters, dx;
  Window w;
  (void)how;
  TRY(ReadConv(b, kConvolution, &dy, &filters, &w));
  TRY(NeedOut(b, 0, kFloats, &dx));
  if (IsEmpty(&dx) || IsEmpty(&filters) || IsEmpty(&dy)) return Refuse(b, "an empty operand");
  CHECKED(b);
  SetDims(&w, &dx, &filters, &dy);
  ResolveWindow(&w);
  const bool equally = PadsEqually(&w);
  for (int k = 0; k < w.rank && !equally; ++k) dx.dims[2 + k] = Covered(&w, k);
  const int made = Owned(b, dx.dtype, dx.rank, dx.dims);
  const int shape = equally ? Out(b, 0) : Scratch(b, dx.dtype, dx.rank, dx.dims);
  Backward(b, &w, In(b, 0), shape, In(b, 1), false, false, equally ? w.begin : kNone, kNone, made);
  Give(b, 0, equally ? made : UnpaddedFor(b, &w, made));
  return b->status;
}

/* dy, x, the dimensions of W. */
static WeftStatus BuildConvGradWeight(Build* b, const void* how) {
  Type dy, x, filters;
  Window w;
  (void)how;
  TRY(ReadConv(b, kConvolution, &dy, &x, &w));
  TRY(NeedOut(b, 0, kFloats, &filters));
  if (IsEmpty(&x) || IsEmpty(&filters) || IsEmpty(&dy)) return Refuse(b, "an empty operand");
  CHECKED(b);
  SetDims(&w, &x, &filters, &dy);
  ResolveWindow(&w);
  const bool equally = PadsEqually(&w);
  const int padded = equally ? In(b, 1) : PaddedFor(b, &w, In(b, 1), 0);
  const int made = Owned(b, filters.dtype, filters.rank, filters.dims);
  Backward(b, &w, In(b, 0), padded, Out(b, 0), true, false, equally ? w.begin : kNone, kNone, made);
  Give(b, 0, made);
  return b->status;
}

/* What torch calls the padding of the output, and whether it takes it. */
static bool OutputPadding(const Window* w, int64_t* extra) {
  bool taken = true;
  for (int k = 0; k < w->rank; ++k) {
    extra[k] = w->in[k] - Covered(w, k) + 2 * w->begin[k];
    const int64_t most = w->strides[k] > w->dilations[k] ? w->strides[k] : w->dilations[k];
    taken = taken && extra[k] >= 0 && extra[k] < most;
  }
  return taken;
}

static WeftStatus BuildConvTranspose(Build* b, const void* how) {
  int64_t extra[kMaxSpatial];
  Type x, filters, y;
  Window w;
  (void)how;
  TRY(ReadConv(b, kTransposed, &x, &filters, &w));
  TRY(NeedOut(b, 0, kFloats, &y));
  if (IsEmpty(&x) || IsEmpty(&filters) || IsEmpty(&y)) return Refuse(b, "an empty operand");
  CHECKED(b);
  SetDims(&w, &y, &filters, &x);
  ResolveTransposed(&w);
  const bool whole = OutputPadding(&w, extra);
  bool beyond = false; /* a result where no window reaches has its bias all the same */
  Type full = y;
  for (int k = 0; k < w.rank && !whole; ++k) {
    beyond = beyond || (w.end[k] < 0 && HasIn(b, 2));
    full.dims[2 + k] = Covered(&w, k);
  }
  const int made = Owned(b, full.dtype, full.rank, full.dims);
  Emit(b, "aten::convolution", "", "tt?LLLbLi>o", In(b, 0), In(b, 1), beyond ? -1 : In(b, 2),
       w.rank, w.strides, w.rank, whole ? w.begin : kNone, w.rank, w.dilations, 1, w.rank,
       whole ? extra : kNone, IntAttr(b, "group", 1), made);
  const int cut = whole ? made : UnpaddedFor(b, &w, made);
  const int64_t channels[2 + kMaxSpatial] = {1, y.dims[1], 1, 1, 1};
  Give(b, 0, beyond ? Subtract(b, cut, Reshaped(b, In(b, 2), y.rank, channels), -1, &y) : cut);
  return b->status;
}

/* dy, W, the dimensions of x: the convolution of dy. */
static WeftStatus BuildConvTransposeGradData(Build* b, const void* how) {
  Type dy, filters, dx;
  Window w;
  (void)how;
  TRY(ReadConv(b, kTransposed, &dy, &filters, &w));
  TRY(NeedOut(b, 0, kFloats, &dx));
  if (IsEmpty(&dx) || IsEmpty(&filters) || IsEmpty(&dy)) return Refuse(b, "an empty operand");
  CHECKED(b);
  SetDims(&w, &dy, &filters, &dx);
  ResolveTransposed(&w);
  Give(b, 0, Convolved(b, &w, In(b, 0), In(b, 1), -1, &dx));
  return b->status;
}

/* dy, x, the dimensions of W: a convolution's gradient with dy for x and x for dy. */
static WeftStatus BuildConvTransposeGradWeight(Build* b, const void* how) {
  Type dy, x, filters;
  Window w;
  (void)how;
  TRY(ReadConv(b, kTransposed, &dy, &x, &w));
  TRY(NeedOut(b, 0, kFloats, &filters));
  if (IsEmpty(&x) || IsEmpty(&filters) || IsEmpty(&dy)) return Refuse(b, "an empty operand");
  CHECKED(b);
  SetDims(&w, &dy, &filters, &x);
  ResolveTransposed(&w);
  const bool equally = PadsEqually(&w);
  const int padded = equally ? In(b, 0) : PaddedFor(b, &w, In(b, 0), 0);
  const int made = Owned(b, filters.dtype, filters.rank, filters.dims);
  Backward(b, &w, In(b, 1), padded, Out(b, 0), true, false, equally ? w.begin : kNone, kNone, made);
  Give(b, 0, made);
  return b->status;
}

/* Im2Col and Col2Im over two spatial axes; the block's dimensions are an operand. */
static WeftStatus BuildColumns(Build* b, const void* how) {
  const bool to_image = how != NULL;
  int64_t block[kMaxSpatial];
  Type x, y;
  Window w;
  TRY(NeedIn(b, 0, kFloats, &x));
  TRY(NeedOut(b, 0, kFloats, &y));
  if (ConstantInts(b, to_image ? 2 : 1, block, kMaxSpatial) != 2)
    return Refuse(b, "other than two spatial axes, or a block that is not constant");
  TRY(ReadWindow(b, kConvolution, 2, &w));
  if (w.begin[0] != w.end[0] || w.begin[1] != w.end[1]) return Refuse(b, "unequal padding");
  CHECKED(b);
  const int64_t* image = &y.dims[2];
  if (to_image)
    Emit(b, "aten::col2im", "out", "tLLLLLt>-", In(b, 0), 2, image, 2, block, 2, w.dilations, 2,
         w.begin, 2, w.strides, Out(b, 0));
  else
    Emit(b, "aten::im2col", "out", "tLLLLt>-", In(b, 0), 2, block, 2, w.dilations, 2, w.begin, 2,
         w.strides, Out(b, 0));
  return b->status;
}

static const OpRow kRows[] = {
    {"Conv", BuildConv, NULL},
    {"weft::ConvGradData", BuildConvGradData, NULL},
    {"weft::ConvGradWeight", BuildConvGradWeight, NULL},
    {"ConvTranspose", BuildConvTranspose, NULL},
    {"weft::ConvTransposeGradData", BuildConvTransposeGradData, NULL},
    {"weft::ConvTransposeGradWeight", BuildConvTransposeGradWeight, NULL},
    {"weft::Im2Col", BuildColumns, NULL},
    {"Col2Im", BuildColumns, "image"},
};
const OpTable kWindowOps = {kRows, sizeof kRows / sizeof *kRows};
