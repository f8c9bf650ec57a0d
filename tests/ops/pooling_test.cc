/// pooling_test.cc: pooling in ceil mode compiled once for extents with names and run where the
/// kernel is larger than they are, alone and fused with what stands around it, against loops.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/e2e_util.h"
#include "weft/runtime/backend/backend.h"

namespace {

using namespace weft;

/// Windows of 3, 2 apart, that may hang over the end: one axis.
struct Hanging {
  int64_t count(int64_t extent) const { return (extent - 3 + 1 + 2) / 2; }
  template <class F>
  double over(const Tensor& x, int64_t plane, int64_t oh, int64_t ow, double start, F f) const {
    const int64_t h = x.dims()[2], w = x.dims()[3];
    for (int64_t i = oh * 2; i < std::min(oh * 2 + 3, h); ++i)
      for (int64_t j = ow * 2; j < std::min(ow * 2 + 3, w); ++j)
        start = f(start, x.at((plane * h + i) * w + j));
    return start;
  }
};

TEST_CASE("pooling that hangs over symbolic extents, alone and among other operators") {
  const std::string attrs = " {kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1} : ?";
  const Graph g = e2e::FromText(
      "graph (%x: f32[1, 2, h, w]) -> (%max, %mean, %norm, %both, %place) {\n"
      "  %max, %place = MaxPool(%x)" +
      attrs + ", ?\n  %mean = AveragePool(%x)" + attrs + "\n  %norm = LpPool(%x)" + attrs +
      "\n  %e = Exp(%x) : ?\n  %m, %m:1 = weft::MaxPool(%e)" + attrs +
      ", ?\n  %both = Log(%m) : ?\n}\n");
  std::vector<std::shared_ptr<const Program>> programs{e2e::CompileFor(g, "ref")};
  if (e2e::HasCpu()) {
    programs.push_back(e2e::CompileFor(g, "cpu"));
    programs.push_back(e2e::CompileFor(
        g, "cpu",
        e2e::WithPass(StandardPipeline(), "Fusion", {{"Fusion", {{"max_ops", 1}}}}).ToString()));
  }
  const Hanging windows;
  for (const auto& program : programs) {
    Session session(program);
    for (const auto& [h, w] :
         std::vector<std::pair<int64_t, int64_t>>{{2, 2}, {5, 2}, {2, 7}, {3, 3}, {4, 6}, {2, 2}}) {
      std::vector<double> v;
      for (int64_t i = 0; i < 2 * h * w; ++i) v.push_back(double((i * 7) % 11) / 4 - 1);
      const TensorPtr x = Tensor::FromDoubles(DType::kF32, {1, 2, h, w}, v);
      const auto got = session.Run({x});
      REQUIRE(got[0]->dims() == std::vector<int64_t>{1, 2, windows.count(h), windows.count(w)});
      for (int64_t i = 0; i < got[0]->num_elements(); ++i) {
        const int64_t ow = i % windows.count(w), oh = i / windows.count(w) % windows.count(h),
                      plane = i / windows.count(w) / windows.count(h);
        const auto over = [&](double start, auto f) {
          return windows.over(*x, plane, oh, ow, start, f);
        };
        const double max = over(-INFINITY, [](double a, double e) { return std::max(a, e); });
        const double sum = over(0, [](double a, double e) { return a + e; });
        const double count = over(0, [](double a, double) { return a + 1; });
        const double squares = over(0, [](double a, double e) { return a + e * e; });
        CHECK(got[0]->at(i) == max);
        CHECK(got[1]->at(i) == doctest::Approx(sum / count).epsilon(1e-5));
        CHECK(got[2]->at(i) == doctest::Approx(std::sqrt(squares)).epsilon(1e-5));
        CHECK(got[3]->at(i) == doctest::Approx(max).epsilon(1e-5).scale(1));
        CHECK(x->at(got[4]->at_int(i)) == max);
      }
    }
    const auto caught = e2e::Catch([&] {
      session.Run({Tensor::FromDoubles(DType::kF32, {1, 2, 1, 2}, {1, 2, 3, 4})});
    });
    REQUIRE(caught);
    CHECK(caught->code != ErrorCode::kInternal);
  }
}

}  // namespace
