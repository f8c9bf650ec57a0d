/// conv_transpose_test.cc: ConvTranspose by oneDNN against the scatter that defines it, in double
/// precision.
#include <doctest/doctest.h>

#include "backends/cpu/util/call_test_util.h"

namespace weft::cpu {
namespace {

struct Setup {
  Ns x, w, y, strides, dilations, begin;
  int64_t group;
  AttrDict attrs;
};

std::vector<double> Oracle(const Setup& s, const Tensor& x, const Tensor& w, const Tensor* bias) {
  std::vector<double> out(size_t(CheckedProduct(s.y)), 0);
  const int64_t maps = s.w[1], channels = s.w[0] / s.group;
  const Ns kernel(s.w.begin() + 2, s.w.end());
  Ns o(s.x.size(), 0);
  do {
    Ns k(kernel.size(), 0);
    do {
      Ns to{o[0], 0};
      bool inside = true;
      for (size_t d = 0; d < k.size(); ++d) {
        to.push_back(o[d + 2] * s.strides[d] + k[d] * s.dilations[d] - s.begin[d]);
        inside = inside && to.back() >= 0 && to.back() < s.y[d + 2];
      }
      for (int64_t m = 0; inside && m < maps; ++m) {
        to[1] = o[1] / channels * maps + m;
        Ns filter{o[1], m};
        filter.insert(filter.end(), k.begin(), k.end());
        out[size_t(Flat(to, s.y))] += x.at(Flat(o, s.x)) * w.at(Flat(filter, s.w));
      }
    } while (Next(&k, kernel));
  } while (Next(&o, s.x));
  if (bias) {
    Ns at(s.y.size(), 0);
    do {
      out[size_t(Flat(at, s.y))] += bias->at(at[1]);
    } while (Next(&at, s.y));
  }
  return out;
}

TEST_CASE("ConvTranspose equals the scatter") {
  const std::vector<Setup> setups{
      {{2, 16, 5, 7}, {16, 8, 3, 3}, {2, 8, 7, 9}, {1, 1}, {1, 1}, {0, 0}, 1, {}},
      {{1, 24, 6, 5},
       {24, 24, 2, 2},
       {1, 24, 12, 10},
       {2, 2},
       {1, 1},
       {0, 0},
       1,
       {{"strides", Ints{2, 2}}}},
      {{2, 8, 6},
       {8, 2, 3},
       {2, 4, 13},
       {2},
       {2},
       {1},
       2,
       {{"group", 2}, {"strides", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{1, 1}}}},
      {{1, 3, 4, 4},
       {3, 5, 3, 3},
       {1, 5, 8, 7},
       {2, 2},
       {1, 1},
       {1, 1},
       1,
       {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 0}}}},
      {{1, 4, 5},
       {4, 4, 3},
       {1, 4, 10},
       {2},
       {1},
       {1},
       1,
       {{"auto_pad", "SAME_LOWER"}, {"strides", Ints{2}}}},
      {{1, 4, 5},
       {4, 4, 3},
       {1, 4, 10},
       {2},
       {1},
       {0},
       1,
       {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2}}}},
      {{1, 2, 3, 3},
       {2, 2, 3, 3},
       {1, 2, 10, 8},
       {3, 2},
       {1, 1},
       {0, 0},
       1,
       {{"output_shape", Ints{10, 8}}, {"strides", Ints{3, 2}}}},
      {{1, 4, 3, 4, 2},
       {4, 2, 2, 3, 2},
       {1, 2, 6, 9, 4},
       {2, 2, 2},
       {1, 1, 1},
       {0, 0, 0},
       1,
       {{"strides", Ints{2, 2, 2}}}},
      // Windows side by side: a matrix product. Several slices of positions; groups; other strides.
      {{2, 40, 37, 29},
       {40, 200, 2, 2},
       {2, 200, 74, 58},
       {2, 2},
       {1, 1},
       {0, 0},
       1,
       {{"strides", Ints{2, 2}}}},
      {{1, 6, 5, 4},
       {6, 3, 3, 1},
       {1, 6, 15, 4},
       {3, 1},
       {1, 1},
       {0, 0},
       2,
       {{"group", 2}, {"strides", Ints{3, 1}}}},
      {{1, 3, 7}, {3, 2, 4}, {1, 2, 28}, {4}, {1}, {0}, 1, {{"strides", Ints{4}}}},
      // Planes: rows and columns that end with different remainders, a stride beyond the window.
      {{1, 3, 6, 21},
       {3, 2, 4, 3},
       {1, 2, 12, 60},
       {2, 3},
       {1, 1},
       {1, 1},
       1,
       {{"strides", Ints{2, 3}}, {"pads", Ints{1, 1, 1, 2}}}},
      {{2, 4, 20},
       {4, 1, 2},
       {2, 2, 77},
       {4},
       {1},
       {0},
       2,
       {{"group", 2}, {"strides", Ints{4}}, {"pads", Ints{0, 1}}}},
      // Depth-wise.
      {{1, 16, 6, 6},
       {16, 1, 4, 4},
       {1, 16, 12, 12},
       {2, 2},
       {1, 1},
       {1, 1},
       16,
       {{"group", 16}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}},
  };
  int refused = 0;
  for (const Setup& s : setups)
    for (const bool constant : {false, true}) {
      CAPTURE(s.y);
      const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2),
                 bias = RandomTensor({s.y[1]}, 3);
      const auto y =
          Case("ConvTranspose", {x, w, bias}, s.attrs, s.y, {false, constant, constant}).Run();
      const auto bare = Case("ConvTranspose", {x, w}, s.attrs, s.y, {false, constant}).Run();
      refused += !y;
      if (y) CHECK(Difference(*y, Oracle(s, *x, *w, bias.get())) < 1e-5);
      if (bare) CHECK(Difference(*bare, Oracle(s, *x, *w, nullptr)) < 1e-5);
    }
  // Only an output that is padded beyond the stride may be too much for oneDNN.
  CHECK(refused <= 2);
}

TEST_CASE("what ConvTranspose refuses") {
  const auto x = RandomTensor({1, 2, 3}, 1), w = RandomTensor({2, 1, 3}, 2);
  CHECK(Case("ConvTranspose", {x, w}, {{"strides", Ints{2, 2}}}, {1, 1, 5}).Make() == nullptr);
  const auto none = Case("ConvTranspose", {RandomTensor({0, 2, 3}, 1), w}, {}, {0, 1, 5}).Make();
  CHECK(none != nullptr);
}

}  // namespace
}  // namespace weft::cpu
