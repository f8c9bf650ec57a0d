/// onnx_bodies.cc: Weft's own operators in ONNX's operators (FOnnxBody), for export.
///
/// Adjoints of data movement share one idea: the movement applied to the numbers of the elements
/// says where each element of dy came from; adding dy there is the adjoint, whatever the movement.
///
///   n = prod(shape)   at = Move(reshape([0 .. n-1], shape))   dx = reshape(zeros[n] (+)[at] dy)
///
/// Windows (Conv, AveragePool) become ConvTranspose and Conv; they ask for known spatial extents.
/// Without a form: weft::Assign (a variable that changes). More: gradient_bodies.cc.
#include <algorithm>

#include "weft/core/op/onnx_body.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

using Request = const OnnxBodyRequest&;

std::string Ints(const std::vector<int64_t>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); }
std::string IntsConstant(const std::string& name, const std::vector<int64_t>& v) {
  return fmt::format("{} = Constant<value = int64[{}] {{{}}}>()\n", name, v.size(),
                     fmt::join(v, ", "));
}

/// x, of shape `from`, summed to the extents in the i64 vector `shape`, which are `to`: over the
/// axes that `to` lacks in front, and over those where it has 1. Where that is not decided, over
/// every axis of extent 1 there; summing an axis of extent 1 does no harm.
std::string SumToText(const std::string& x, const Shape& from, const std::string& shape,
                      const Shape& to) {
  bool decided = from.has_rank() && to.has_rank() && from.rank() >= to.rank();
  std::vector<int64_t> axes;
  for (int k = 0; decided && k < from.rank(); ++k) {
    const int own = k - (from.rank() - to.rank());
    if (own < 0 || to[own].is(1))
      axes.push_back(k);
    else
      decided = to[own].known() && to[own] == from[k];
  }
  if (decided && axes.empty()) return fmt::format("o0 = Identity({})", x);
  if (decided) {
    return IntsConstant("sum_axes", axes) + fmt::format(
                                                "sum_y = ReduceSum<keepdims = 1>({}, sum_axes)\n"
                                                "o0 = Reshape<allowzero = 1>(sum_y, {})",
                                                x, shape);
  }
  return fmt::format(R"(sum_one = Constant<value = int64[1] {{1}}>()
sum_from = Shape({0})
sum_rank = Size(sum_from)
sum_kept = Size({1})
sum_lead = Sub(sum_rank, sum_kept)
sum_leads = Reshape(sum_lead, sum_one)
sum_ones = ConstantOfShape<value = int64[1] {{1}}>(sum_leads)
sum_full = Concat<axis = 0>(sum_ones, {1})
sum_is_one = Equal(sum_full, sum_one)
sum_where = NonZero(sum_is_one)
sum_flat = Constant<value = int64[1] {{-1}}>()
sum_axes = Reshape(sum_where, sum_flat)
sum_y = ReduceSum<keepdims = 1, noop_with_empty_axes = 1>({0}, sum_axes)
o0 = Reshape<allowzero = 1>(sum_y, {1}))",
                     x, shape);
}

std::string SumToBody(Request r) {
  return "like = Shape(i1)\n" + SumToText("i0", r.input_shapes[0], "like", r.input_shapes[1]);
}

/// Any rank: [b, c, ...] seen as [b, c, rest].
std::string ChannelSumBody(Request) {
  return IntsConstant("view", {0, 0, -1}) + IntsConstant("axes", {0, 2}) +
         "flat = Reshape(i0, view)\no0 = ReduceSum<keepdims = 0>(flat, axes)";
}

// ---- adjoints of data movement ----

/// The numbers of the elements of a tensor of extents `shape`, as `numbers`;
/// their count is `count`.
std::string Numbers(const std::string& shape) {
  return fmt::format(R"(zero = Constant<value_int = 0>()
one = Constant<value_int = 1>()
flat = Constant<value = int64[1] {{-1}}>()
count1 = ReduceProd<keepdims = 1>({0})
count = Squeeze(count1)
number = Range(zero, count, one)
numbers = Reshape<allowzero = 1>(number, {0})
)",
                     shape);
}
/// dy added at the flat positions `at` of a tensor of extents `shape`; position `count` is for what
/// belongs nowhere.
std::string AddAt(const std::string& at, const std::string& shape) {
  return fmt::format(R"(where = Reshape({0}, flat)
what = Reshape(i0, flat)
unit = Constant<value = int64[1] {{1}}>()
start = Constant<value = int64[1] {{0}}>()
room = Add(count1, unit)
empty = ConstantOfShape(room)
zeros = CastLike(empty, i0)
sum = ScatterElements<axis = 0, reduction = "add">(zeros, where, what)
inside = Slice(sum, start, count1)
o0 = Reshape<allowzero = 1>(inside, {1}))",
                     at, shape);
}
std::string Adjoint(const std::string& shape, const std::string& move) {
  return Numbers(shape) + "at = " + move + "\n" + AddAt("at", shape);
}

std::string GatherGradBody(Request r) {
  return Adjoint("i1",
                 fmt::format("Gather<axis = {}>(numbers, i2)", r.node->attr<int64_t>("axis")));
}
std::string GatherElementsGradBody(Request r) {
  return Adjoint(
      "i1", fmt::format("GatherElements<axis = {}>(numbers, i2)", r.node->attr<int64_t>("axis")));
}
std::string GatherNDGradBody(Request r) {
  return Adjoint("i1", fmt::format("GatherND<batch_dims = {}>(numbers, i2)",
                                   r.node->attr<int64_t>("batch_dims")));
}
std::string TileGradBody(Request) { return Adjoint("i1", "Tile(numbers, i2)"); }
std::string SliceGradBody(Request r) {
  std::string inputs = "numbers, i2, i3";
  const size_t given = r.node->inputs.size();
  for (size_t i = 4; i < given; ++i)
    inputs += r.node->inputs[i] ? fmt::format(", i{}", i) : std::string(", ");
  return Adjoint("i1", "Slice(" + inputs + ")");
}
std::string PadGradBody(Request r) {
  const std::string mode = r.node->attr<std::string>("mode");
  std::string inputs = mode == "constant" ? "numbers, i2, count" : "numbers, i2";
  if (r.node->inputs.size() > 3 && r.node->inputs[3])
    inputs += mode == "constant" ? ", i3" : ", , i3";
  return Adjoint("i1", fmt::format("Pad<mode = \"{}\">({})", mode, inputs));
}

// ---- products ----

int RankOf(Request r, size_t i) {
  WEFT_CHECK(r.input_shapes[i].has_rank(), kUnsupported, "the rank of input {} is unknown", i);
  return r.input_shapes[i].rank();
}

/// The last two axes of x, of a rank from 2 on, swapped.
std::string Swapped(const std::string& name, const std::string& x, int rank) {
  std::vector<int64_t> perm;
  for (int k = 0; k < rank; ++k) perm.push_back(k);
  std::swap(perm[size_t(rank) - 1], perm[size_t(rank) - 2]);
  return fmt::format("{} = Transpose<perm = {}>({})\n", name, Ints(perm), x);
}

/// y = a b; the operand asked for has as many axes as there are extents in `shape`. A vector takes
/// part as a row (a) or a column (b), whose axis dy lacks.
std::string MatMulGradBody(Request r) {
  const bool first = r.node->attr<int64_t>("of") == 0;
  const int other = RankOf(r, 1);
  const Shape& extents = r.input_shapes[2];
  WEFT_CHECK(
      extents.has_rank() && extents.rank() == 1 && extents[0].known() && extents[0].is_const(),
      kUnsupported, "the rank of the operand is unknown");
  const int64_t own = extents[0].value();
  std::string text = IntsConstant("last", {-1}) + IntsConstant("before", {-2});
  if (own == 1 && other == 1) {
    text += "d = Mul(i0, i1)\n";
  } else if (first && other == 1) {  // a [.., m, k], b [k]: dy [.., m]
    text += "dy = Unsqueeze(i0, last)\nd = Mul(dy, i1)\n";
  } else if (first) {
    text += Swapped("b", "i1", other);
    text += own == 1 ? "dy = Unsqueeze(i0, before)\nd = MatMul(dy, b)\n" : "d = MatMul(i0, b)\n";
  } else if (other == 1) {  // a [k], b [.., k, n]: dy [.., n]
    text += "a = Unsqueeze(i1, last)\ndy = Unsqueeze(i0, before)\nd = Mul(a, dy)\n";
  } else {
    text += Swapped("a", "i1", other);
    text += own == 1 ? "dy = Unsqueeze(i0, last)\nwide = MatMul(a, dy)\nd = Squeeze(wide, last)\n"
                     : "d = MatMul(a, i0)\n";
  }
  // d has the leading axes of dy, then what the operand has.
  const Shape &dy = r.input_shapes[0], &to = r.output_shapes[0];
  Shape from;
  const int lead = dy.has_rank() ? dy.rank() - (own > 1) - (other > 1) : -1;
  if (lead >= 0 && to.has_rank() && to.rank() == own) {
    std::vector<SymInt> dims(dy.dims().begin(), dy.dims().begin() + lead);
    if (first && own == 1 && other > 1) dims.emplace_back(1);
    for (int k = std::max(0, to.rank() - 2); k < to.rank(); ++k) dims.push_back(to[k]);
    from = Shape(std::move(dims));
  }
  return text + SumToText("d", from, "i2", to);
}

// ---- windows ----

struct Axes {
  std::vector<int64_t> in, kernel, out, strides, dilations, begin, end;
  size_t rank() const { return kernel.size(); }
  int64_t extent(size_t k) const { return (kernel[k] - 1) * dilations[k] + 1; }
};

std::vector<int64_t> Spatial(const Shape& s, const char* what) {
  std::vector<int64_t> out;
  WEFT_CHECK(s.has_rank() && s.rank() >= 2, kUnsupported, "the shape of {} is unknown", what);
  for (int k = 2; k < s.rank(); ++k) {
    WEFT_CHECK(s[k].known() && s[k].is_const(), kUnsupported,
               "its form in ONNX's operators needs constant spatial dimensions, {} is {}", what,
               s.ToString());
    out.push_back(s[k].value());
  }
  return out;
}

Axes ReadAxes(const NodePtr& n, std::vector<int64_t> in, std::vector<int64_t> kernel,
              std::vector<int64_t> out) {
  Axes a;
  a.in = std::move(in), a.kernel = std::move(kernel), a.out = std::move(out);
  const size_t rank = a.kernel.size();
  const auto list = [&](const char* name, size_t size, int64_t otherwise) {
    const AttrValue v = n->Attr(name);
    std::vector<int64_t> values;
    if (v.is<weft::Ints>()) values = v.get<weft::Ints>();
    if (values.empty()) values.assign(size, otherwise);
    return values;
  };
  a.strides = list("strides", rank, 1);
  a.dilations = list("dilations", rank, 1);
  const std::string auto_pad = n->attr<std::string>("auto_pad");
  std::vector<int64_t> pads(2 * rank, 0);
  if (auto_pad == "NOTSET" || auto_pad.empty()) pads = list("pads", 2 * rank, 0);
  WEFT_CHECK(a.in.size() == rank && a.out.size() == rank && a.strides.size() == rank &&
                 a.dilations.size() == rank && pads.size() == 2 * rank,
             kUnsupported, "the ranks of its window and its operands differ");
  for (size_t k = 0; k < rank; ++k) {
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const int64_t total =
          std::max<int64_t>(0, (a.out[k] - 1) * a.strides[k] + a.extent(k) - a.in[k]);
      pads[k] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[rank + k] = total - pads[k];
    }
  }
  a.begin.assign(pads.begin(), pads.begin() + int64_t(rank));
  a.end.assign(pads.begin() + int64_t(rank), pads.end());
  return a;
}

/// ConvTranspose from `out` extents back to `in` extents.
std::string TransposedConv(const Axes& a, int64_t group, const std::string& result,
                           const std::string& operands) {
  std::vector<int64_t> pads = a.begin, more;
  for (size_t k = 0; k < a.rank(); ++k) {
    const int64_t end = (a.out[k] - 1) * a.strides[k] + a.extent(k) - a.begin[k] - a.in[k];
    pads.push_back(std::max<int64_t>(end, 0));
    more.push_back(std::max<int64_t>(-end, 0));
  }
  return fmt::format(
      "{} = ConvTranspose<group = {}, strides = {}, dilations = {}, pads = {}, output_padding = "
      "{}>({})",
      result, group, Ints(a.strides), Ints(a.dilations), Ints(pads), Ints(more), operands);
}

std::string ConvGradDataBody(Request r) {
  const Axes a = ReadAxes(r.node, Spatial(r.output_shapes[0], "dx"),
                          Spatial(r.input_shapes[1], "W"), Spatial(r.input_shapes[0], "dy"));
  return TransposedConv(a, r.node->attr<int64_t>("group"), "o0", "i0, i1");
}

/// dW[m, c, k] is a convolution of x with dy where batch and channels change places, as do strides
/// and dilations; groups keep apart as groups of the batch.
std::string ConvGradWeightBody(Request r) {
  const std::vector<int64_t> kernel = Spatial(r.output_shapes[0], "dW");
  const Axes a =
      ReadAxes(r.node, Spatial(r.input_shapes[1], "x"), kernel, Spatial(r.input_shapes[0], "dy"));
  const int64_t group = r.node->attr<int64_t>("group");
  const auto channels = [&](size_t i) {
    const SymInt c = r.input_shapes[i][1];
    WEFT_CHECK(c.known() && c.is_const() && c.value() % group == 0, kUnsupported,
               "its form in ONNX's operators needs a constant number of channels");
    return c.value() / group;
  };
  const int64_t in = channels(1), out = channels(0);
  const auto shape = [](std::vector<int64_t> head, const std::vector<int64_t>& tail) {
    head.insert(head.end(), tail.begin(), tail.end());
    return head;
  };
  const auto perm = [&](std::vector<int64_t> head) {
    for (size_t k = 0; k < a.rank(); ++k) head.push_back(int64_t(head.size()));
    return Ints(head);
  };
  std::vector<int64_t> pads = a.begin, starts(a.rank(), 0), axes;
  pads.insert(pads.end(), a.end.begin(), a.end.end());
  for (size_t k = 0; k < a.rank(); ++k) axes.push_back(int64_t(k) + 2);
  std::string text = IntsConstant("x_groups", shape({0, group, in}, a.in)) +
                     IntsConstant("x_rows", shape({in, -1}, a.in)) +
                     IntsConstant("dy_groups", shape({0, group, out}, a.out)) +
                     IntsConstant("dy_rows", shape({group * out, -1}, a.out)) +
                     IntsConstant("starts", starts) + IntsConstant("ends", kernel) +
                     IntsConstant("axes", axes);
  text += fmt::format(R"(x1 = Reshape(i1, x_groups)
x2 = Transpose<perm = {}>(x1)
x3 = Reshape(x2, x_rows)
dy1 = Reshape(i0, dy_groups)
dy2 = Transpose<perm = {}>(dy1)
dy3 = Reshape(dy2, dy_rows)
wide = Conv<group = {}, strides = {}, dilations = {}, pads = {}>(x3, dy3)
dw = Slice(wide, starts, ends, axes)
o0 = Transpose<perm = {}>(dw))",
                      perm({2, 1, 0}), perm({1, 2, 0}), group, Ints(a.dilations), Ints(a.strides),
                      Ints(pads), perm({1, 0}));
  return text;
}

/// Where the windows begin: o stride - begin for each spatial axis k, as `first<k>`,
/// in axes that broadcast.
std::string WindowStarts(const Axes& a) {
  std::string text;
  for (size_t k = 0; k < a.rank(); ++k) {
    std::vector<int64_t> first(size_t(a.out[k])), dims(a.rank(), 1);
    for (size_t o = 0; o < first.size(); ++o) first[o] = int64_t(o) * a.strides[k] - a.begin[k];
    dims[k] = a.out[k];
    text += fmt::format("first{} = Constant<value = int64[{}] {{{}}}>()\n", k,
                        fmt::join(dims, ", "), fmt::join(first, ", "));
  }
  return text;
}
std::string Scalar(const std::string& name, int64_t value) {
  return fmt::format("{} = Constant<value_int = {}>()\n", name, value);
}

/// Offsets in windows from the flat positions that MaxPool gives: position -> coordinate -> offset.
std::string MaxPoolBody(Request r) {
  const NodePtr& n = r.node;
  const std::vector<int64_t> kernel = n->attr<weft::Ints>("kernel_shape");
  const Axes a =
      ReadAxes(n, Spatial(r.input_shapes[0], "x"), kernel, Spatial(r.output_shapes[0], "y"));
  std::vector<int64_t> pads = a.begin;
  pads.insert(pads.end(), a.end.begin(), a.end.end());
  std::string text = WindowStarts(a);
  text += fmt::format(
      "o0, at = MaxPool<kernel_shape = {}, strides = {}, dilations = {}, pads = {}, ceil_mode = "
      "{}>(i0)\n",
      Ints(kernel), Ints(a.strides), Ints(a.dilations), Ints(pads), n->attr<int64_t>("ceil_mode"));
  std::string sum;
  int64_t below = 1, inner = 1;
  for (size_t k = a.rank(); k-- > 0; below *= a.in[k], inner *= kernel[k]) {
    text += Scalar(fmt::format("below{}", k), below) + Scalar(fmt::format("in{}", k), a.in[k]) +
            Scalar(fmt::format("dilation{}", k), a.dilations[k]) +
            Scalar(fmt::format("inner{}", k), inner);
    text += fmt::format(
        "rest{0} = Div(at, below{0})\nposition{0} = Mod(rest{0}, in{0})\n"
        "away{0} = Sub(position{0}, first{0})\noffset{0} = Div(away{0}, dilation{0})\n"
        "part{0} = Mul(offset{0}, inner{0})\n",
        k);
    if (!sum.empty()) text += fmt::format("sum{0} = Add({1}, part{0})\n", k, sum);
    sum = fmt::format("{}{}", sum.empty() ? "part" : "sum", k);
  }
  return text + fmt::format("o1 = Cast<to = {}>({})", inner <= 256 ? 2 : 6, sum);
}
/// Flat positions in x, of extents `shape` [n, c, spatial...], that `winner` names, as `at`.
std::string WinnerPositions(const Axes& a, const std::string& winner, const std::string& shape) {
  std::string text =
      WindowStarts(a) + fmt::format(R"(w64 = Cast<to = 7>({0})
pools = Shape<start = 0, end = 2>({0})
count_c1 = ReduceProd<keepdims = 1>(pools)
count_c = Squeeze(count_c1)
none = Constant<value_int = 0>()
next = Constant<value_int = 1>()
planes = Range(none, count_c, next)
spatial_ones = Constant<value = int64[{2}] {{{3}}}>()
plane_dims = Concat<axis = 0>(pools, spatial_ones)
plane = Reshape<allowzero = 1>(planes, plane_dims)
plane_size1 = Slice({1}, two, far)
plane_size = ReduceProd<keepdims = 0>(plane_size1)
sum_base = Mul(plane, plane_size)
)",
                                    winner, shape, a.rank(),
                                    fmt::join(std::vector<int64_t>(a.rank(), 1), ", "));
  text = IntsConstant("two", {2}) + IntsConstant("far", {INT32_MAX}) + text;
  std::string sum = "sum_base";
  int64_t below = 1, inner = 1;
  for (size_t k = a.rank(); k-- > 0; below *= a.in[k], inner *= a.kernel[k]) {
    text += Scalar(fmt::format("below{}", k), below) +
            Scalar(fmt::format("kernel{}", k), a.kernel[k]) +
            Scalar(fmt::format("dilation{}", k), a.dilations[k]) +
            Scalar(fmt::format("inner{}", k), inner);
    text += fmt::format(
        "outer{0} = Div(w64, inner{0})\noffset{0} = Mod(outer{0}, kernel{0})\n"
        "away{0} = Mul(offset{0}, dilation{0})\nposition{0} = Add(first{0}, away{0})\n"
        "part{0} = Mul(position{0}, below{0})\nsum{0} = Add({1}, part{0})\n",
        k, sum);
    sum = fmt::format("sum{}", k);
  }
  return text + fmt::format("at = Identity({})\n", sum);
}
Axes PoolAxes(const NodePtr& n, const Shape& x, const Shape& y) {
  return ReadAxes(n, Spatial(x, "x"), n->attr<weft::Ints>("kernel_shape"), Spatial(y, "y"));
}
std::string PoolPickBody(Request r) {
  const Axes a = PoolAxes(r.node, r.input_shapes[0], r.output_shapes[0]);
  return "shape = Shape(i0)\n" + WinnerPositions(a, "i1", "shape") +
         "flat = Constant<value = int64[1] {-1}>()\nelements = Reshape(i0, flat)\n"
         "o0 = Gather<axis = 0>(elements, at)";
}
std::string MaxPoolGradBody(Request r) {
  const Axes a = PoolAxes(r.node, r.output_shapes[0], r.input_shapes[0]);
  return WinnerPositions(a, "i1", "i2") + Numbers("i2") + AddAt("at", "i2");
}

/// dy divided by the number of elements of its window, then spread by a window of ones.
std::string AveragePoolGradBody(Request r) {
  const NodePtr& n = r.node;
  const std::vector<int64_t> kernel = n->attr<weft::Ints>("kernel_shape");
  const Axes a =
      ReadAxes(n, Spatial(r.output_shapes[0], "dx"), kernel, Spatial(r.input_shapes[0], "dy"));
  const bool with_padding = n->attr<int64_t>("count_include_pad") != 0;
  WEFT_CHECK(!with_padding || n->attr<int64_t>("ceil_mode") == 0, kUnsupported,
             "{} with ceil_mode and count_include_pad has no form in ONNX's operators",
             n->op()->name);
  std::string text, last = "i0";
  for (size_t k = 0; k < a.rank(); ++k) {
    std::vector<int64_t> counts, dims(a.rank(), 1);
    for (int64_t o = 0; o < a.out[k]; ++o) {
      int64_t count = with_padding ? a.kernel[k] : 0;
      for (int64_t w = 0; !with_padding && w < a.kernel[k]; ++w) {
        const int64_t at = o * a.strides[k] + w * a.dilations[k] - a.begin[k];
        count += at >= 0 && at < a.in[k];
      }
      counts.push_back(std::max<int64_t>(count, 1));
    }
    dims[k] = a.out[k];
    text += fmt::format(
        "c{0} = Constant<value = float[{1}] {{{2}}}>()\nn{0} = CastLike(c{0}, i0)\n"
        "g{0} = Div({3}, n{0})\n",
        k, fmt::join(dims, ", "), fmt::join(counts, ", "), last);
    last = fmt::format("g{}", k);
  }
  std::vector<int64_t> one_channel{-1, 1}, window{1, 1};
  one_channel.insert(one_channel.end(), a.out.begin(), a.out.end());
  window.insert(window.end(), a.kernel.begin(), a.kernel.end());
  text += IntsConstant("view", one_channel) + IntsConstant("window", window);
  text += fmt::format(
      "rows = Reshape({}, view)\nones = ConstantOfShape<value = float[1] {{1}}>(window)\n"
      "w = CastLike(ones, i0)\n",
      last);
  return text + TransposedConv(a, 1, "dx", "rows, w") + "\no0 = Reshape(dx, i1)";
}

}  // namespace

#define WEFT_ONNX_BODY(Name) \
  WEFT_REGISTER_OP_IN(weft, Name).set_attr<FOnnxBody>("FOnnxBody", Name##Body)
WEFT_ONNX_BODY(SumTo);
WEFT_ONNX_BODY(ChannelSum);
WEFT_ONNX_BODY(GatherGrad);
WEFT_ONNX_BODY(GatherElementsGrad);
WEFT_ONNX_BODY(GatherNDGrad);
WEFT_ONNX_BODY(TileGrad);
WEFT_ONNX_BODY(SliceGrad);
WEFT_ONNX_BODY(PadGrad);
WEFT_ONNX_BODY(MaxPool);
WEFT_ONNX_BODY(PoolPick);
WEFT_ONNX_BODY(MaxPoolGrad);
WEFT_ONNX_BODY(MatMulGrad);
WEFT_ONNX_BODY(ConvGradData);
WEFT_ONNX_BODY(ConvGradWeight);
WEFT_ONNX_BODY(AveragePoolGrad);
#undef WEFT_ONNX_BODY

}  // namespace weft::ops
