/// image_test.cc: sampling and block operators against plain loops.
#include <algorithm>

#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

using Ns = std::vector<int64_t>;

TensorPtr Ramp(Ns dims, double phase = 0.3, double scale = 1) {
  auto t = std::make_shared<Tensor>(DType::kF64, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->set(i, scale * (std::sin(1.7 * double(i) + phase) + 0.05 * double(i % 5)));
  return t;
}
void CheckNear(const Tensor& got, const std::vector<double>& want) {
  REQUIRE(got.num_elements() == int64_t(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(got.at(int64_t(i)) == doctest::Approx(want[i]).epsilon(1e-9));
  }
}
/// Constants for the inputs from 1 on: extents must be known when code is made.
Tensors RunFixed(const std::string& op, const Tensors& in, const AttrDict& attrs) {
  Graph g;
  std::vector<NodeEntry> entries{NodeEntry(g.AddInput("x", in[0]->dtype(), in[0]->shape()))};
  for (size_t i = 1; i < in.size(); ++i)
    entries.push_back(NodeEntry(g.AddNode("Constant", {}, {{"value", in[i]}})));
  g.outputs = std::vector<NodeEntry>{NodeEntry(g.AddNode(op, entries, attrs, "y"))};
  EvalOptions options;
  options.typed = true;
  return Reference().Eval(g, {in[0]}, options);
}

// ---- GridSample ----

double Mirrored(double x, double low, double high) {
  if (high == low) return low;
  while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  return x;
}
/// An element of a row of pixels under a padding mode.
double Pixel(const std::vector<double>& row, double i, const std::string& padding, double low,
             double high) {
  const double last = double(row.size()) - 1;
  if (padding == "zeros") return i < 0 || i > last ? 0 : row[size_t(i)];
  if (padding == "reflection") i = std::trunc(Mirrored(i, low, high));
  return row[size_t(std::clamp(i, 0.0, last))];
}
double Sampled(const std::vector<double>& row, double g, const std::string& mode,
               const std::string& padding, bool align) {
  const double d = double(row.size()), low = align ? 0 : -0.5, high = align ? d - 1 : d - 0.5;
  double x = align ? (g + 1) / 2 * (d - 1) : ((g + 1) * d - 1) / 2;
  if (mode == "nearest") x = std::nearbyint(x);
  if (mode != "cubic" && (x < low || x > high)) {
    if (padding == "border") x = std::clamp(x, 0.0, d - 1);
    if (padding == "reflection") x = Mirrored(x, low, high);
  }
  const auto at = [&](double i) { return Pixel(row, i, padding, low, high); };
  if (mode == "nearest") return at(std::trunc(x));
  const double base = std::floor(x), f = x - base;
  if (mode == "linear") return at(base) * (1 - f) + at(base + 1) * f;
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    const double e = std::fabs(f - k), a = -0.75;
    const double w = e <= 1 ? (a + 2) * e * e * e - (a + 3) * e * e + 1
                            : a * (e * e * e - 5 * e * e + 8 * e - 4);
    sum += w * at(base + k);
  }
  return sum;
}

}  // namespace

TEST_CASE("GridSample reads rows and columns as one axis each") {
  const int64_t h = 4, w = 5;
  const TensorPtr x = Ramp({2, 2, h, w}), grid = Ramp({2, 3, 4, 2}, 0.1, 1.6);
  for (const std::string mode : {"linear", "nearest", "cubic"})
    for (const std::string padding : {"zeros", "border", "reflection"})
      for (const bool align : {false, true}) {
        CAPTURE(mode);
        CAPTURE(padding);
        CAPTURE(align);
        std::vector<double> want;
        for (int64_t n = 0; n < 2; ++n)
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t o = 0; o < 12; ++o) {
              const double gx = grid->at((n * 12 + o) * 2), gy = grid->at((n * 12 + o) * 2 + 1);
              std::vector<double> column;
              for (int64_t i = 0; i < h; ++i) {
                std::vector<double> row;
                for (int64_t j = 0; j < w; ++j) row.push_back(x->at(((n * 2 + c) * h + i) * w + j));
                column.push_back(Sampled(row, gx, mode, padding, align));
              }
              want.push_back(Sampled(column, gy, mode, padding, align));
            }
        CheckNear(
            *RunOp("GridSample", {x, grid},
                   {{"mode", mode}, {"padding_mode", padding}, {"align_corners", int(align)}})[0],
            want);
      }
  // One axis, integers, a row of one element.
  const TensorPtr ints = T(DType::kI32, {1, 1, 3}, {5, 6, 7});
  const TensorPtr at = T(DType::kF32, {1, 4, 1}, {-1, 0, 0.9, 3});
  CHECK(Values(*RunOp("GridSample", {ints, at}, {{"mode", "nearest"}})[0]) ==
        std::vector<double>{5, 6, 7, 0});
  const TensorPtr one = T(DType::kF64, {1, 1, 1}, {4});
  CheckNear(*RunOp("GridSample", {one, Ramp({1, 3, 1})},
                   {{"padding_mode", "reflection"}, {"align_corners", 1}})[0],
            {4, 4, 4});
  CHECK(CodeOf([&] { RunOp("GridSample", {x, Ramp({2, 3, 4, 3})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("GridSample", {x, grid}, {{"mode", "bilinear"}});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { RunOp("GridSample", {ints, at}); }) == ErrorCode::kTypeMismatch);
}

TEST_CASE("cubic GridSample pads each element that it reads, in two and three axes") {
  // The border is met between the outermost elements and beyond, by products of rows.
  for (const std::string padding : {"border", "reflection", "zeros"}) {
    const TensorPtr x = Ramp({1, 1, 2, 3, 4}), grid = Ramp({1, 2, 2, 2, 3}, 0.1, 1.4);
    std::vector<double> want;
    for (int64_t o = 0; o < 8; ++o) {
      std::vector<double> layers;
      for (int64_t i = 0; i < 2; ++i) {
        std::vector<double> column;
        for (int64_t j = 0; j < 3; ++j) {
          std::vector<double> row;
          for (int64_t k = 0; k < 4; ++k) row.push_back(x->at((i * 3 + j) * 4 + k));
          column.push_back(Sampled(row, grid->at(o * 3), "cubic", padding, false));
        }
        layers.push_back(Sampled(column, grid->at(o * 3 + 1), "cubic", padding, false));
      }
      want.push_back(Sampled(layers, grid->at(o * 3 + 2), "cubic", padding, false));
    }
    CAPTURE(padding);
    CheckNear(*RunOp("GridSample", {x, grid}, {{"mode", "cubic"}, {"padding_mode", padding}})[0],
              want);
    CheckGradient("GridSample", {x, grid}, {{"mode", "cubic"}, {"padding_mode", padding}});
  }
  // PyTorch and ONNX Runtime; with the coordinate moved first, it were 1 and 4.
  CheckNear(*RunOp("GridSample",
                   {T(DType::kF64, {1, 1, 1, 4}, {1, 2, 3, 4}),
                    T(DType::kF64, {1, 1, 2, 2}, {-1, 0, 1, 0})},
                   {{"mode", "cubic"}, {"padding_mode", "border"}})[0],
            {0.90625, 4.09375});
}

TEST_CASE("AffineGrid maps the corners") {
  const TensorPtr theta = Ramp({2, 2, 3});
  for (const bool align : {false, true}) {
    const TensorPtr size = Tensor::Ints({2, 1, 3, 4});
    const TensorPtr y = RunFixed("AffineGrid", {theta, size}, {{"align_corners", int(align)}})[0];
    REQUIRE(y->dims() == Ns{2, 3, 4, 2});
    std::vector<double> want;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 4; ++j)
          for (int64_t r = 0; r < 2; ++r) {
            const double x = align ? -1 + 2.0 * double(j) / 3 : -1 + (2.0 * double(j) + 1) / 4;
            const double v = align ? -1 + 2.0 * double(i) / 2 : -1 + (2.0 * double(i) + 1) / 3;
            const int64_t row = (n * 2 + r) * 3;
            want.push_back(theta->at(row) * x + theta->at(row + 1) * v + theta->at(row + 2));
          }
    CheckNear(*y, want);
    CheckGradient("AffineGrid", {theta, size}, {{"align_corners", int(align)}});
  }
  // The last axis of the image is x; one element lies in the middle.
  const TensorPtr unit = T(DType::kF64, {1, 3, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
  CheckNear(
      *RunFixed("AffineGrid", {unit, Tensor::Ints({1, 1, 1, 1, 2})}, {{"align_corners", 1}})[0],
      {-1, 0, 0, 1, 0, 0});
  CheckGradient("AffineGrid", {Ramp({1, 3, 4}), Tensor::Ints({1, 2, 2, 1, 3})});
  CHECK(CodeOf([&] {
          RunFixed("AffineGrid", {theta, Tensor::Ints({2, 1, 3})}, {});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunFixed("AffineGrid", {unit, Tensor::Ints({1, 1, 3, 3})}, {});
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("Col2Im adds blocks up, Im2Col cuts them out") {
  const AttrDict attrs{
      {"strides", Ints{2, 1}}, {"dilations", Ints{1, 2}}, {"pads", Ints{1, 0, 0, 1}}};
  const Ns image{5, 4}, block{2, 2};
  const int64_t oh = (5 + 1 - 2) / 2 + 1, ow = 4 + 1 - 3 + 1;
  const TensorPtr x = Ramp({2, 3 * 4, oh * ow});
  const TensorPtr y = RunFixed("Col2Im", {x, Tensor::Ints(image), Tensor::Ints(block)}, attrs)[0];
  REQUIRE(y->dims() == Ns{2, 3, 5, 4});
  std::vector<double> want(120, 0);
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t p = 0; p < 2; ++p)
        for (int64_t q = 0; q < 2; ++q)
          for (int64_t i = 0; i < oh; ++i)
            for (int64_t j = 0; j < ow; ++j) {
              const int64_t r = i * 2 + p - 1, s = j + q * 2;
              if (r < 0 || r >= 5 || s >= 4) continue;
              want[size_t(((n * 3 + c) * 5 + r) * 4 + s)] +=
                  x->at((n * 12 + c * 4 + p * 2 + q) * oh * ow + i * ow + j);
            }
  CheckNear(*y, want);
  // <Col2Im(x), z> = <x, Im2Col(z)>.
  const TensorPtr z = Ramp({2, 3, 5, 4}, 1);
  const TensorPtr cut = RunFixed("weft::Im2Col", {z, Tensor::Ints(block)}, attrs)[0];
  REQUIRE(cut->dims() == x->dims());
  double a = 0, b = 0;
  for (int64_t i = 0; i < 120; ++i) a += y->at(i) * z->at(i);
  for (int64_t i = 0; i < x->num_elements(); ++i) b += x->at(i) * cut->at(i);
  CHECK(a == doctest::Approx(b));
  CHECK(CodeOf([&] {
          RunFixed("Col2Im", {x, Tensor::Ints(image), Tensor::Ints({2, 2, 2})}, attrs);
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunFixed("Col2Im", {Ramp({1, 3, oh * ow}), Tensor::Ints(image), Tensor::Ints(block)},
                   attrs);
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("Col2Im where strides skip offsets, touch, overlap and leave gaps") {
  for (int64_t kernel : {1, 2, 3, 5})
    for (int64_t stride : {2, 3, 4})
      for (int64_t pad : {0, 1}) {
        CAPTURE(kernel);
        CAPTURE(stride);
        CAPTURE(pad);
        const int64_t in = 11, out = (in + 2 * pad - kernel) / stride + 1;
        const TensorPtr x = Ramp({1, 2 * kernel, out});
        const TensorPtr y = RunFixed("Col2Im", {x, Tensor::Ints({in}), Tensor::Ints({kernel})},
                                     {{"strides", Ints{stride}}, {"pads", Ints{pad, pad}}})[0];
        std::vector<double> want(size_t(2 * in), 0);
        for (int64_t c = 0; c < 2; ++c)
          for (int64_t k = 0; k < kernel; ++k)
            for (int64_t o = 0; o < out; ++o) {
              const int64_t i = o * stride + k - pad;
              if (i >= 0 && i < in) want[size_t(c * in + i)] += x->at((c * kernel + k) * out + o);
            }
        CheckNear(*y, want);
      }
}

TEST_CASE("gradients of Col2Im and Im2Col") {
  const AttrDict attrs{{"strides", Ints{2}}, {"pads", Ints{1, 0}}};
  CheckGradient("Col2Im", {Ramp({1, 4, 3}), Tensor::Ints({5}), Tensor::Ints({2})}, attrs);
  CheckGradient("weft::Im2Col", {Ramp({1, 2, 5}), Tensor::Ints({2})}, attrs);
}

TEST_CASE("DeformConv without offsets is Conv, and whole offsets shift it") {
  const TensorPtr x = Ramp({2, 4, 5, 6}), w = Ramp({6, 2, 2, 3}, 1), bias = Ramp({6}, 2);
  const AttrDict attrs{
      {"group", 2}, {"strides", Ints{2, 1}}, {"dilations", Ints{1, 2}}, {"pads", Ints{1, 0, 1, 2}}};
  AttrDict deform = attrs;
  deform["offset_group"] = 2;
  const int64_t oh = (5 + 2 - 2) / 2 + 1, ow = 6 + 2 - 5 + 1;
  auto offset = std::make_shared<Tensor>(DType::kF64, Ns{2, 2 * 6 * 2, oh, ow});
  for (int64_t i = 0; i < offset->num_elements(); ++i) offset->set(i, 0);
  const TensorPtr plain = RunOp("Conv", {x, w, bias}, attrs)[0];
  CHECK(plain->dims() == Ns{2, 6, oh, ow});
  CheckNear(*RunOp("DeformConv", {x, w, offset, bias}, deform)[0], Values(*plain));

  // Fractions between elements, by loops; the mask weighs.
  const TensorPtr moved = Ramp({2, 24, oh, ow}, 0.7, 1.3), mask = Ramp({2, 12, oh, ow}, 0.2);
  const auto read = [&](int64_t n, int64_t c, double r, double s) {
    double sum = 0;
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 6; ++j)
        sum += x->at(((n * 4 + c) * 5 + i) * 6 + j) * std::max(0.0, 1 - std::fabs(r - double(i))) *
               std::max(0.0, 1 - std::fabs(s - double(j)));
    return sum;
  };
  std::vector<double> want;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t m = 0; m < 6; ++m)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          double y = bias->at(m);
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t k = 0; k < 6; ++k) {
              const int64_t channel = m / 3 * 2 + c, row = channel / 2 * 6 + k;
              const auto at = [&](const Tensor& t, int64_t rows, int64_t r) {
                return t.at(((n * rows + r) * oh + i) * ow + j);
              };
              y += w->at((m * 2 + c) * 6 + k) * at(*mask, 12, row) *
                   read(n, channel, double(i * 2 - 1 + k / 3) + at(*moved, 24, row * 2),
                        double(j + k % 3 * 2) + at(*moved, 24, row * 2 + 1));
            }
          want.push_back(y);
        }
  CheckNear(*RunOp("DeformConv", {x, w, moved, bias, mask}, deform)[0], want);
  CHECK(CodeOf([&] {
          RunOp("DeformConv", {x, w, Ramp({2, 12, oh, ow})}, deform);
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("RoiAlign averages samples of bins") {
  const int64_t h = 6, w = 7;
  const TensorPtr x = Ramp({2, 2, h, w});
  const std::vector<double> regions{0,  0,  6, 5, 1.3, -2,  9.5, 3, -4, -4,
                                    -2, -2, 2, 2, 2.2, 2.1, -30, 1, 40, 4};
  const Ns images{0, 1, 1, 0, 1};
  const auto at = [&](int64_t n, int64_t c, double i, double j) {
    return x->at(((n * 2 + c) * h + int64_t(i)) * w + int64_t(j));
  };
  for (const std::string mode : {"avg", "max"})
    for (const bool shifted : {true, false})
      for (const int64_t ratio : {0, 3}) {
        CAPTURE(mode);
        CAPTURE(shifted);
        CAPTURE(ratio);
        const double scale = 0.75, shift = shifted ? 0.5 : 0;
        std::vector<double> want;
        for (size_t r = 0; r < 5; ++r)
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t p = 0; p < 3; ++p)
              for (int64_t q = 0; q < 2; ++q) {
                const double* roi = &regions[r * 4];
                const double x1 = roi[0] * scale - shift, y1 = roi[1] * scale - shift;
                double lw = roi[2] * scale - shift - x1, lh = roi[3] * scale - shift - y1;
                if (!shifted) lw = std::max(lw, 1.0), lh = std::max(lh, 1.0);
                const double bw = lw / 2, bh = lh / 3;
                const int64_t gh = ratio ? ratio : int64_t(std::ceil(bh)),
                              gw = ratio ? ratio : int64_t(std::ceil(bw));
                double sum = 0, most = -INFINITY;
                for (int64_t i = 0; i < gh; ++i)
                  for (int64_t j = 0; j < gw; ++j) {
                    double y = y1 + double(p) * bh + (double(i) + 0.5) * bh / double(gh),
                           z = x1 + double(q) * bw + (double(j) + 0.5) * bw / double(gw);
                    if (y < -1 || y > double(h) || z < -1 || z > double(w)) {
                      most = std::max(most, 0.0);
                      continue;
                    }
                    y = std::clamp(y, 0.0, double(h) - 1), z = std::clamp(z, 0.0, double(w) - 1);
                    const double top = std::floor(y), left = std::floor(z);
                    for (const int k : {0, 1, 2, 3}) {
                      const double wy = k / 2 ? y - top : 1 - (y - top);
                      const double wz = k % 2 ? z - left : 1 - (z - left);
                      const double v = wy * wz *
                                       at(images[r], c, std::min(top + k / 2, double(h) - 1),
                                          std::min(left + k % 2, double(w) - 1));
                      sum += v;
                      most = std::max(most, v);
                    }
                  }
                const bool none = gh <= 0 || gw <= 0;
                want.push_back(none ? 0 : mode == "avg" ? sum / double(gh * gw) : most);
              }
        const TensorPtr y =
            RunOp("RoiAlign", {x, T(DType::kF64, {5, 4}, regions), Tensor::Ints(images)},
                  {{"mode", mode},
                   {"coordinate_transformation_mode", shifted ? "half_pixel" : "output_half_pixel"},
                   {"sampling_ratio", ratio},
                   {"spatial_scale", scale},
                   {"output_height", 3},
                   {"output_width", 2}})[0];
        REQUIRE(y->dims() == Ns{5, 2, 3, 2});
        CheckNear(*y, want);
      }
  const TensorPtr roi = T(DType::kF64, {1, 4}, {0, 0, 1, 1}), first = Tensor::Ints({0});
  CHECK(CodeOf([&] {
          RunOp("RoiAlign", {x, roi, first}, {{"mode", "sum"}});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] {
          RunOp("RoiAlign", {x, roi, Tensor::Ints({0, 1})});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { RunOp("RoiAlign", {x, roi, Tensor::Ints({2})}); }) == ErrorCode::kIndexRange);
}

}  // namespace weft::ops
