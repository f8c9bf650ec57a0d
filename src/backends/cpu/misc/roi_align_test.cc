/// roi_align_test.cc: RoiAlign against its definition in double precision.
#include <doctest/doctest.h>

#include "backends/cpu/util/call_test_util.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/error.h"

namespace weft::cpu {
namespace {

TensorPtr Regions(const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kF32, {int64_t(v.size()) / 4, 4}, v);
}

TEST_CASE("RoiAlign equals its definition") {
  const auto x = RandomTensor({2, 3, 9, 7}, 1);
  const TensorPtr rois = Regions({0, 0, 6, 5, 1.3, -2, 9.5, 3, -4, -4, -2, -2, 2, 2, 2.2, 2.1});
  const TensorPtr images = Tensor::Ints({0, 1, 1, 0});
  for (const char* mode : {"avg", "max"})
    for (const char* shift : {"half_pixel", "output_half_pixel"})
      for (const int ratio : {0, 2}) {
        CAPTURE(mode);
        CAPTURE(shift);
        CAPTURE(ratio);
        Case c("RoiAlign", {x, rois, images},
               {{"mode", mode},
                {"coordinate_transformation_mode", shift},
                {"sampling_ratio", ratio},
                {"spatial_scale", 0.8},
                {"output_height", 3},
                {"output_width", 2}},
               {4, 3, 3, 2});
        const auto y = c.Run();
        REQUIRE(y != nullptr);
        c.graph.outputs = std::vector<NodeEntry>{NodeEntry(c.request.node)};
        const TensorPtr want = GetEvaluator()->Eval(c.graph, {x, rois, images})[0];
        std::vector<double> values;
        for (int64_t i = 0; i < want->num_elements(); ++i) values.push_back(want->at(i));
        CHECK(Difference(*y, values) < 1e-5);
      }
}

TEST_CASE("RoiAlign checks what regions ask for") {
  const auto x = RandomTensor({1, 1, 4, 4}, 1);
  const auto code = [&](const TensorPtr& rois, int64_t image) {
    const Case c("RoiAlign", {x, rois, Tensor::Ints({image})}, {}, {1, 1, 1, 1});
    try {
      c.Run();
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::kCheckFailed;
  };
  CHECK(code(Regions({0, 0, 3, 3}), 1) == ErrorCode::kIndexRange);
  CHECK(code(Regions({0, 0, 3, 3}), -1) == ErrorCode::kIndexRange);
  CHECK(code(Regions({0, 0, 1e30, 3}), 0) == ErrorCode::kLimit);
  CHECK(code(Regions({0, 0, 3, 3}), 0) == ErrorCode::kCheckFailed);
}

}  // namespace
}  // namespace weft::cpu
