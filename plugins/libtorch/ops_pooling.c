/* ops_pooling.c: pooling over windows and its gradients. torch pools over two and three axes; one
 * axis becomes the second of two. Padding that torch does not take is done first. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "window.h"

/* One call of a pooling operator. */
typedef struct Pool {
  Window w;                                        /* of two or three axes */
  bool lifted;                                     /* one axis became two */
  bool equally;                                    /* torch pads by itself, begin on both sides */
  bool ceil;                                       /* torch is to round up */
  Type x, y;                                       /* of the operand and the result, lifted */
  int64_t plane[kMaxSpatial], origin[kMaxSpatial]; /* where windows begin in what torch sees */
} Pool;

static void Lift(Type* type) { type->dims[3] = type->dims[2], type->dims[2] = 1, type->rank = 4; }
static int Lifted(Build* b, int v) {
  if (b->status != WEFT_OK || TypeOf(b, v)->rank != 3) return v;
  Type type = *TypeOf(b, v);
  Lift(&type);
  return Reshaped(b, v, type.rank, type.dims);
}

static int64_t TorchWindows(const Window* w, int k, bool ceil) {
  const int64_t room = w->in[k] + 2 * w->begin[k] - Reach(w, k), stride = w->strides[k];
  if (room < 0) return 0;
  int64_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (count - 1) * stride >= w->in[k] + w->begin[k]) --count;
  return count;
}

static WeftStatus ReadPool(Build* b, const Type* x, Pool* p) {
  int64_t kernel[2 * kMaxRank];
  memset(p, 0, sizeof *p);
  TRY(ReadWindow(b, kPooling, x->rank - 2, &p->w));
  if (IntsAttr(b, "kernel_shape", kernel) != p->w.rank) return Refuse(b, "no kernel_shape");
  for (int k = 0; k < p->w.rank; ++k) p->w.kernel[k] = kernel[k];
  return WEFT_OK;
}

/* With the dimensions; `dilates`: torch's operator does. */
static void ResolvePool(Pool* p, const Type* x, const Type* y, bool dilates) {
  Window* w = &p->w;
  p->x = *x, p->y = *y;
  p->lifted = w->rank == 1;
  if (p->lifted) {
    Lift(&p->x), Lift(&p->y);
    w->rank = 2;
    w->kernel[1] = w->kernel[0], w->strides[1] = w->strides[0], w->dilations[1] = w->dilations[0];
    w->begin[1] = w->begin[0];
    w->kernel[0] = w->strides[0] = w->dilations[0] = 1, w->begin[0] = 0;
  }
  for (int k = 0; k < w->rank; ++k) w->in[k] = p->x.dims[2 + k], w->out[k] = p->y.dims[2 + k];
  ResolveWindow(w);
  for (int ceil = 0; ceil <= 1 && !p->equally; ++ceil) {
    p->equally = true, p->ceil = ceil;
    for (int k = 0; k < w->rank; ++k)
      p->equally = p->equally && TorchWindows(w, k, ceil) == w->out[k] &&
                   2 * w->begin[k] <= w->kernel[k] && (dilates || w->dilations[k] == 1);
  }
  if (!p->equally) p->ceil = false;
  for (int k = 0; k < w->rank; ++k) {
    p->plane[k] = p->equally ? w->in[k] : Covered(w, k);
    p->origin[k] = p->equally ? -w->begin[k] : 0;
  }
}

static const int64_t kNone[kMaxSpatial] = {0, 0, 0};
static const int64_t* Padding(const Pool* p) { return p->equally ? p->w.begin : kNone; }
static bool IsEmpty(const Type* type) { return NumElements(type) == 0; }

/* A table over the positions of a kernel or a plane, row-major: sums of position times `steps`. */
static int Table(Build* b, WeftDType dtype, int rank, const int64_t* dims, const double* steps,
                 double first) {
  int64_t count = 1;
  for (int k = 0; k < rank; ++k) count *= dims[k];
  const int table = Constant(b, dtype, 1, &count, NULL);
  void* data = ConstantData(b, table);
  for (int64_t i = 0; data && i < count; ++i) {
    int64_t rest = i;
    double sum = first;
    for (int k = rank - 1; k >= 0; --k) {
      sum += (double)(rest % dims[k]) * steps[k];
      rest /= dims[k];
    }
    if (dtype == WEFT_I64)
      ((int64_t*)data)[i] = (int64_t)sum;
    else
      ((double*)data)[i] = sum;
  }
  return table;
}

/* Of each window of one plane: the sum over axes of (o stride + origin) times step. */
static int WindowTable(Build* b, const Pool* p, const double* steps, double first) {
  double per_window[kMaxSpatial];
  for (int k = 0; k < p->w.rank; ++k) {
    per_window[k] = steps[k] * (double)p->w.strides[k];
    first += steps[k] * (double)p->origin[k];
  }
  return Reshaped(b, Table(b, WEFT_F64, p->w.rank, p->w.out, per_window, first), p->w.rank,
                  p->w.out);
}

/* ---- the largest ---- */

/* The maxima into y, and where torch found them in the plane it saw. */
static int Maxima(Build* b, const Pool* p, int x, int y) {
  const Window* w = &p->w;
  const bool integer = !IsFloat(p->x.dtype);
  const int index = Scratch(b, WEFT_I64, p->y.rank, p->y.dims);
  x = Lifted(b, x);
  if (!p->equally) x = PaddedFor(b, w, x, integer ? (p->x.dtype == WEFT_U8 ? 0 : -128) : -INFINITY);
  Emit(b, w->rank == 2 ? "aten::max_pool2d_with_indices" : "aten::max_pool3d_with_indices", "out",
       "tLLLLbtt>--", x, w->rank, w->kernel, w->rank, w->strides, w->rank, Padding(p), w->rank,
       w->dilations, (int)p->ceil, Lifted(b, y), index);
  return index;
}

static WeftStatus BuildMaxPool(Build* b, const void* how) {
  const bool winners = how != NULL; /* weft::MaxPool */
  Type x, y;
  Pool p;
  TRY(NeedIn(b, 0, kFloats, &x));
  TRY(NeedOut(b, 0, kFloats, &y));
  TRY(ReadPool(b, &x, &p));
  CHECKED(b);
  if (IsEmpty(&x) || IsEmpty(&y)) return Refuse(b, "an empty operand");
  ResolvePool(&p, &x, &y, true);
  const Window* w = &p.w;
  const int index = Maxima(b, &p, In(b, 0), Out(b, 0));
  if (!IsUsed(b, 1)) return b->status;
  double steps[kMaxSpatial] = {0}, first = 0, step = 1;
  if (winners) {
    /* From a place in the plane to that in the window: each step of it is a part of one in the
     * window, where those that the window skips never are asked for. */
    for (int k = w->rank - 1; k >= 0; --k) {
      steps[k] = step / (double)w->dilations[k];
      step *= (double)w->kernel[k];
    }
    const Type places = Sized(&p.y, WEFT_F64);
    const int at = Binary(b, "aten::take", "out", Table(b, WEFT_F64, w->rank, p.plane, steps, 0),
                          index, &places);
    const int origin = WindowTable(b, &p, steps, -0.25); /* truncation takes what rounding adds */
    const int offset = Subtract(b, at, origin, 1, &places);
    Copy(b, Lifted(b, Out(b, 1)), offset);
    return b->status;
  }
  /* Positions count in the whole tensor; what torch saw may be padded. */
  const bool columns = IntAttr(b, "storage_order", 0) != 0;
  for (int i = 0; i < w->rank; ++i) {
    const int k = columns ? i : w->rank - 1 - i;
    if (columns && p.lifted && k == 0) continue;
    steps[k] = step;
    step *= (double)w->in[k];
  }
  for (int k = 0; k < w->rank; ++k) first -= steps[k] * (double)(w->begin[k] + p.origin[k]);
  const Type places = Sized(&p.y, WEFT_I64);
  const int table = Table(b, WEFT_I64, w->rank, p.plane, steps, first);
  const int at = Binary(b, "aten::take", "out", table, index, &places);
  const int64_t planes[kMaxRank] = {x.dims[0], x.dims[1], 1, 1, 1};
  const double plane_steps[2] = {(double)x.dims[1] * step, step};
  const int base = Table(b, WEFT_I64, 2, planes, plane_steps, 0);
  GiveSum(b, 1, Reshaped(b, at, y.rank, y.dims), Reshaped(b, base, x.rank, planes), 1);
  return b->status;
}

/* Places in the plane from the winners' places in their windows. */
static int PlacesOf(Build* b, const Pool* p, int winner) {
  const Window* w = &p->w;
  double steps[kMaxSpatial], taps[kMaxSpatial], step = 1;
  for (int k = w->rank - 1; k >= 0; --k) {
    steps[k] = step;
    taps[k] = step * (double)w->dilations[k];
    step *= (double)p->plane[k];
  }
  const Type places = Sized(&p->y, WEFT_F64);
  const int offset = Casted(b, Lifted(b, winner), WEFT_I64);
  const int tap = Binary(b, "aten::take", "out", Table(b, WEFT_F64, w->rank, w->kernel, taps, 0),
                         offset, &places);
  const int at = Subtract(b, tap, WindowTable(b, p, steps, 0), -1, &places);
  const int index = Scratch(b, WEFT_I64, p->y.rank, p->y.dims);
  Copy(b, index, at);
  return index;
}

/* dy, the winners, the dimensions of x. */
static WeftStatus BuildMaxPoolGrad(Build* b, const void* how) {
  Type dy, dx;
  Pool p;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &dy));
  TRY(NeedOut(b, 0, kSingles, &dx));
  TRY(ReadPool(b, &dx, &p));
  CHECKED(b);
  if (IsEmpty(&dx) || IsEmpty(&dy)) return Refuse(b, "an empty operand");
  ResolvePool(&p, &dx, &dy, true);
  const Window* w = &p.w;
  const int index = PlacesOf(b, &p, In(b, 1));
  Type seen = p.x;
  for (int k = 0; k < w->rank; ++k) seen.dims[2 + k] = p.plane[k];
  const int whole = p.equally ? Lifted(b, Out(b, 0)) : Scratch(b, seen.dtype, seen.rank, seen.dims);
  /* torch looks at the dimensions of the operand only. */
  Emit(b,
       w->rank == 2 ? "aten::max_pool2d_with_indices_backward"
                    : "aten::max_pool3d_with_indices_backward",
       "grad_input", "ttLLLLbtt>-", Lifted(b, In(b, 0)), whole, w->rank, w->kernel, w->rank,
       w->strides, w->rank, Padding(&p), w->rank, w->dilations, (int)p.ceil, index, whole);
  if (!p.equally) Give(b, 0, Reshaped(b, UnpaddedFor(b, w, whole), dx.rank, dx.dims));
  return b->status;
}

/* x, the winners: the elements that won. */
static WeftStatus BuildPoolPick(Build* b, const void* how) {
  int64_t flat[3], taken[3];
  Type x, y;
  Pool p;
  (void)how;
  TRY(NeedIn(b, 0, kFloats, &x));
  TRY(NeedOut(b, 0, kFloats, &y));
  TRY(ReadPool(b, &x, &p));
  CHECKED(b);
  if (IsEmpty(&x) || IsEmpty(&y)) return Refuse(b, "an empty operand");
  ResolvePool(&p, &x, &y, true);
  p.equally = true; /* winners lie inside */
  for (int k = 0; k < p.w.rank; ++k) p.plane[k] = p.w.in[k], p.origin[k] = -p.w.begin[k];
  flat[0] = taken[0] = x.dims[0], flat[1] = taken[1] = x.dims[1], flat[2] = taken[2] = 1;
  for (int d = 2; d < x.rank; ++d) flat[2] *= x.dims[d], taken[2] *= y.dims[d];
  const int index = Reshaped(b, PlacesOf(b, &p, In(b, 1)), 3, taken);
  Emit(b, "aten::gather", "out", "titbt>-", Reshaped(b, In(b, 0), 3, flat), (int64_t)2, index, 0,
       View(b, Out(b, 0), 0, 3, taken, NULL));
  return b->status;
}

/* ---- sums and means ---- */

/* Sums of windows of x, lifted, into y; padding is 0. */
static void WindowSums(Build* b, const Pool* p, int x, int y) {
  const Window* w = &p->w;
  bool dilated = false;
  for (int k = 0; k < w->rank; ++k) dilated = dilated || w->dilations[k] != 1;
  x = PaddedFor(b, w, Lifted(b, x), 0);
  if (!dilated) {
    Emit(b, w->rank == 2 ? "aten::avg_pool2d" : "aten::avg_pool3d", "out", "tLLLbbIt>-", x, w->rank,
         w->kernel, w->rank, w->strides, w->rank, kNone, 0, 1, (int64_t)1, y);
    return;
  }
  /* Every window as axes of its own. */
  int64_t dims[kMaxRank], strides[kMaxRank], axes[kMaxSpatial];
  if (b->status != WEFT_OK) return;
  const Value value = b->plan->values[x];
  memcpy(dims, p->y.dims, sizeof p->y.dims);
  memcpy(strides, value.strides, sizeof value.strides);
  for (int k = 0; k < w->rank; ++k) {
    strides[2 + k] = value.strides[2 + k] * w->strides[k];
    dims[2 + w->rank + k] = w->kernel[k];
    strides[2 + w->rank + k] = value.strides[2 + k] * w->dilations[k];
    axes[k] = 2 + w->rank + k;
  }
  SumTo(b, View(b, x, 0, 2 + 2 * w->rank, dims, strides), axes, w->rank, false, y);
}

/* How many elements each window averages over, for broadcasting. */
static int WindowCounts(Build* b, const Pool* p, bool with_padding, const int64_t* end_given) {
  const Window* w = &p->w;
  int64_t dims[kMaxRank] = {1, 1}, count = 1;
  for (int k = 0; k < w->rank; ++k) dims[2 + k] = w->out[k], count *= w->out[k];
  const WeftDType dtype = p->x.dtype;
  const int counts = Constant(b, dtype, 2 + w->rank, dims, NULL);
  void* data = ConstantData(b, counts);
  for (int64_t i = 0; data && i < count; ++i) {
    int64_t rest = i, product = 1;
    for (int k = w->rank - 1; k >= 0; --k) {
      const int64_t start = rest % w->out[k] * w->strides[k] - w->begin[k];
      const int64_t low = with_padding ? -w->begin[k] : 0;
      const int64_t high = w->in[k] + (with_padding ? end_given[k] : 0);
      int64_t inside = 0;
      rest /= w->out[k];
      for (int64_t tap = 0; tap < w->kernel[k]; ++tap) {
        const int64_t at = start + tap * w->dilations[k];
        inside += at >= low && at < high;
      }
      product *= inside;
    }
    if (product == 0) product = 1;
    if (dtype == WEFT_F64)
      ((double*)data)[i] = (double)product;
    else
      ((float*)data)[i] = (float)product;
  }
  return counts;
}

/* The ends as the attributes give them, which count as padding; of SAME_* all that there is. */
static void GivenEnds(Build* b, const Pool* p, int64_t* ends) {
  Window given;
  const int rank = p->lifted ? 1 : p->w.rank;
  if (ReadWindow(b, kPooling, rank, &given) != WEFT_OK) return;
  for (int k = 0; k < p->w.rank; ++k) {
    const int from = p->lifted ? 0 : k;
    ends[k] = p->lifted && k == 0 ? 0 : given.same ? p->w.end[k] : given.end[from];
  }
}

enum { kAverage, kSumOf, kPower };

static WeftStatus BuildMeanPool(Build* b, const void* how) {
  const int kind = *(const int*)how;
  Type x, y;
  Pool p;
  TRY(NeedIn(b, 0, kSingles, &x));
  TRY(NeedOut(b, 0, kSingles, &y));
  TRY(ReadPool(b, &x, &p));
  CHECKED(b);
  if (IsEmpty(&x) || IsEmpty(&y)) return Refuse(b, "an empty operand");
  ResolvePool(&p, &x, &y, false);
  const Window* w = &p.w;
  if (kind == kAverage) {
    const bool with_padding = IntAttr(b, "count_include_pad", 0) != 0;
    int64_t ends[kMaxSpatial] = {0};
    GivenEnds(b, &p, ends);
    for (int k = 0; k < w->rank; ++k) /* torch counts as much padding behind as before */
      p.equally = p.equally && (!with_padding || ends[k] == w->begin[k]);
    if (p.equally) {
      Emit(b, w->rank == 2 ? "aten::avg_pool2d" : "aten::avg_pool3d", "out", "tLLLbbNt>-",
           Lifted(b, In(b, 0)), w->rank, w->kernel, w->rank, w->strides, w->rank, w->begin,
           (int)p.ceil, (int)with_padding, Lifted(b, Out(b, 0)));
      return b->status;
    }
    const int sums = Scratch(b, p.y.dtype, p.y.rank, p.y.dims);
    WindowSums(b, &p, In(b, 0), sums);
    BinaryTo(b, "aten::div", "out", sums, WindowCounts(b, &p, with_padding, ends),
             Lifted(b, Out(b, 0)));
    return b->status;
  }
  if (kind == kSumOf) {
    WindowSums(b, &p, In(b, 0), Lifted(b, Out(b, 0)));
    return b->status;
  }
  const double power = (double)IntAttr(b, "p", 2);
  int powers = In(b, 0);
  if (power == 2)
    powers = Binary(b, "aten::mul", "out", powers, powers, &x);
  else
    powers = Unary(b, "aten::abs", powers);
  if (power != 1 && power != 2)
    powers = Binary(b, "aten::pow", "Tensor_Tensor_out", powers, Number(b, x.dtype, power), &x);
  const int sums = power == 1 ? Out(b, 0) : Scratch(b, y.dtype, y.rank, y.dims);
  WindowSums(b, &p, powers, Lifted(b, sums));
  if (power == 2)
    UnaryTo(b, "aten::sqrt", sums, Out(b, 0));
  else if (power != 1)
    BinaryTo(b, "aten::pow", "Tensor_Tensor_out", sums, Number(b, y.dtype, 1 / power), Out(b, 0));
  return b->status;
}

/* dy, the dimensions of x. */
static WeftStatus BuildMeanPoolGrad(Build* b, const void* how) {
  const int kind = *(const int*)how;
  Type dy, dx;
  Pool p;
  TRY(NeedIn(b, 0, kSingles, &dy));
  TRY(NeedOut(b, 0, kSingles, &dx));
  TRY(ReadPool(b, &dx, &p));
  for (int k = 0; k < p.w.rank; ++k)
    if (p.w.dilations[k] != 1) return Refuse(b, "dilations");
  CHECKED(b);
  if (IsEmpty(&dx) || IsEmpty(&dy)) return Refuse(b, "an empty operand");
  ResolvePool(&p, &dx, &dy, false);
  const Window* w = &p.w;
  const bool with_padding = kind == kAverage && IntAttr(b, "count_include_pad", 0) != 0;
  int64_t ends[kMaxSpatial] = {0};
  GivenEnds(b, &p, ends);
  for (int k = 0; k < w->rank; ++k)
    p.equally = p.equally && kind == kAverage && (!with_padding || ends[k] == w->begin[k]);
  int g = Lifted(b, In(b, 0));
  const char* op = w->rank == 2 ? "aten::avg_pool2d_backward" : "aten::avg_pool3d_backward";
  if (p.equally) {
    const int whole = Lifted(b, Out(b, 0));
    Emit(b, op, "grad_input", "ttLLLbbNt>-", g, whole, w->rank, w->kernel, w->rank, w->strides,
         w->rank, w->begin, (int)p.ceil, (int)with_padding, whole);
    return b->status;
  }
  if (kind == kAverage)
    g = Binary(b, "aten::div", "out", g, WindowCounts(b, &p, with_padding, ends), &p.y);
  Type seen = p.x;
  for (int k = 0; k < w->rank; ++k) seen.dims[2 + k] = Covered(w, k);
  const int whole = Scratch(b, seen.dtype, seen.rank, seen.dims);
  Emit(b, op, "grad_input", "ttLLLbbIt>-", g, whole, w->rank, w->kernel, w->rank, w->strides,
       w->rank, kNone, 0, 1, (int64_t)1, whole);
  Give(b, 0, Reshaped(b, UnpaddedFor(b, w, whole), dx.rank, dx.dims));
  return b->status;
}

#define POOL(name, build, kind)        \
  {                                    \
    name, build, &(const int) { kind } \
  }
static const OpRow kRows[] = {
    {"MaxPool", BuildMaxPool, NULL},
    {"weft::MaxPool", BuildMaxPool, "winners"},
    {"weft::MaxPoolGrad", BuildMaxPoolGrad, NULL},
    {"weft::PoolPick", BuildPoolPick, NULL},
    POOL("AveragePool", BuildMeanPool, kAverage),
    POOL("weft::SumPool", BuildMeanPool, kSumOf),
    POOL("LpPool", BuildMeanPool, kPower),
    POOL("weft::AveragePoolGrad", BuildMeanPoolGrad, kAverage),
    POOL("weft::SumPoolGrad", BuildMeanPoolGrad, kSumOf),
};
const OpTable kPoolingOps = {kRows, sizeof kRows / sizeof *kRows};
