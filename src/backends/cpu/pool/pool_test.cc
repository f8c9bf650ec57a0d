/// pool_test.cc: pooling against loops in double precision.
#include <doctest/doctest.h>

#include "backends/cpu/util/call_test_util.h"

namespace weft::cpu {
namespace {

struct Setup {
  Ns x, kernel, strides, dilations, begin, end;
  bool ceil = false;
};

Ns Out(const Setup& s) {
  Ns y{s.x[0], s.x[1]};
  for (size_t k = 0; k < s.kernel.size(); ++k) {
    const int64_t span =
        s.x[2 + k] + s.begin[k] + s.end[k] - ((s.kernel[k] - 1) * s.dilations[k] + 1);
    int64_t o = (span + (s.ceil ? s.strides[k] - 1 : 0)) / s.strides[k] + 1;
    if (s.ceil && (o - 1) * s.strides[k] >= s.x[2 + k] + s.begin[k]) --o;
    y.push_back(o);
  }
  return y;
}

enum Kind { kMax, kAverage, kAverageWithPadding };

std::vector<double> Oracle(const Setup& s, const Tensor& x, Kind kind) {
  const Ns y = Out(s);
  std::vector<double> out;
  Ns o(y.size(), 0);
  do {
    double best = -INFINITY, sum = 0, inside = 0, counted = 0;
    Ns r(s.kernel.size(), 0);
    do {
      Ns from{o[0], o[1]};
      bool in = true, padded = true;
      for (size_t k = 0; k < r.size(); ++k) {
        const int64_t p = o[2 + k] * s.strides[k] - s.begin[k] + r[k] * s.dilations[k];
        in = in && p >= 0 && p < s.x[2 + k];
        padded = padded && p < s.x[2 + k] + s.end[k];
        from.push_back(p);
      }
      counted += padded;
      if (!in) continue;
      const double v = x.at(Flat(from, s.x));
      best = std::max(best, v);
      sum += v;
      ++inside;
    } while (Next(&r, s.kernel));
    // The mean of nothing is 0.
    const double count = std::max(kind == kAverage ? inside : counted, 1.0);
    out.push_back(kind == kMax ? best : sum / count);
  } while (Next(&o, y));
  return out;
}

AttrDict Attrs(const Setup& s, Kind kind) {
  Ns pads = s.begin;
  pads.insert(pads.end(), s.end.begin(), s.end.end());
  AttrDict a{{"kernel_shape", Ints(s.kernel)},
             {"strides", Ints(s.strides)},
             {"dilations", Ints(s.dilations)},
             {"pads", Ints(pads)},
             {"ceil_mode", int(s.ceil)}};
  if (kind != kMax) a["count_include_pad"] = int(kind == kAverageWithPadding);
  return a;
}

TEST_CASE("pooling equals direct loops") {
  const std::vector<Setup> setups{
      {{2, 3, 8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
      {{1, 16, 9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {{2, 5, 10, 7}, {3, 2}, {1, 3}, {2, 1}, {1, 0}, {2, 1}},
      {{1, 2, 7, 7}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, true},
      {{1, 2, 8, 8}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, true},
      {{1, 2, 8, 6}, {3, 3}, {3, 2}, {1, 1}, {1, 0}, {1, 1}, true},
      {{3, 4, 16}, {4}, {2}, {1}, {1}, {2}},
      {{1, 3, 5, 6, 7}, {2, 2, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {1, 0, 1}},
      {{4, 32, 1, 12}, {1, 12}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
      {{1, 2, 8, 6}, {3, 3}, {3, 2}, {2, 2}, {1, 0}, {1, 1}, true},
      // Kernels that hang over extents smaller than they are.
      {{2, 3, 1, 1}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, true},
      {{1, 16, 2, 1}, {3, 2}, {2, 3}, {1, 1}, {0, 0}, {0, 1}, true},
      {{3, 2, 2}, {4}, {3}, {1}, {0}, {0}, true},
      {{1, 2, 1, 3, 2}, {2, 3, 3}, {2, 2, 2}, {1, 2, 1}, {0, 1, 0}, {0, 0, 0}, true},
      // Windows with the input between their elements, and in the padding alone.
      {{1, 2, 2, 3}, {2, 2}, {1, 1}, {3, 1}, {1, 0}, {1, 0}},
      {{1, 2, 3}, {2}, {1}, {1}, {2}, {2}},
  };
  for (const Setup& s : setups)
    for (const Kind kind : {kMax, kAverage, kAverageWithPadding}) {
      const auto x = RandomTensor(s.x, 1);
      const auto y =
          Case(kind == kMax ? "MaxPool" : "AveragePool", {x}, Attrs(s, kind), Out(s)).Run();
      REQUIRE(y != nullptr);
      CHECK(Difference(*y, Oracle(s, *x, kind)) < 1e-5);
    }
}

TEST_CASE("the largest of infinities and of NaN") {
  auto x = std::make_shared<Tensor>(DType::kF32, Ns{1, 20, 4, 4});
  for (int64_t i = 0; i < x->num_elements(); ++i) x->mutable_data_as<float>()[i] = -INFINITY;
  const Setup s{{1, 20, 4, 4}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
  const auto y = Case("MaxPool", {x}, Attrs(s, kMax), Out(s)).Run();
  REQUIRE(y != nullptr);
  for (int64_t i = 0; i < y->num_elements(); ++i) CHECK(y->data_as<float>()[i] == -INFINITY);
  x->mutable_data_as<float>()[5] = NAN;
  const auto z = Case("MaxPool", {x}, Attrs(s, kMax), Out(s)).Run();
  CHECK(std::isnan(z->data_as<float>()[0]));
}

TEST_CASE("maxima with their positions") {
  for (const Setup& s :
       std::vector<Setup>{{{2, 3, 9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
                          {{1, 2, 8}, {3}, {2}, {2}, {1}, {2}},
                          {{1, 2, 4, 5, 6}, {2, 2, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {1, 0, 1}}})
    for (const bool column_major : {false, true}) {
      const auto x = RandomTensor(s.x, 7);
      x->mutable_data_as<float>()[3] = x->data_as<float>()[4];  // of equal ones the first
      AttrDict attrs = Attrs(s, kMax);
      attrs["storage_order"] = int(column_major);
      Case c("MaxPool", {x}, attrs, Out(s));
      c.request.output_dims.push_back(Out(s));
      c.request.output_types.push_back(DType::kI64);
      const auto call = c.Make();
      REQUIRE(call != nullptr);
      Tensor y(DType::kF32, Out(s)), index(DType::kI64, Out(s));
      const void* in = x->data();
      void* const out[] = {y.mutable_data(), index.mutable_data()};
      call->Run(&in, out, nullptr);
      CHECK(Difference(y, Oracle(s, *x, kMax)) == 0);
      const Ns spatial(s.x.begin() + 2, s.x.end());
      const int64_t plane = CheckedProduct(spatial), windows = y.num_elements() / s.x[0] / s.x[1];
      for (int64_t i = 0; i < y.num_elements(); ++i) {
        int64_t flat = index.data_as<int64_t>()[i] - i / windows * plane;
        REQUIRE(flat >= 0);
        REQUIRE(flat < plane);
        if (column_major) {
          Ns at(spatial.size());
          for (size_t k = 0; k < at.size(); ++k) {
            at[k] = flat % spatial[k];
            flat /= spatial[k];
          }
          flat = Flat(at, spatial);
        }
        CHECK(x->data_as<float>()[i / windows * plane + flat] == y.data_as<float>()[i]);
      }
    }
}

}  // namespace
}  // namespace weft::cpu
