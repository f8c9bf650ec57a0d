/// recogniser_test.cc: a trained network for text lines (PP-OCRv4), of free batch and width: one
/// program runs all extents, and images do not depend on their neighbours in the batch.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/support/e2e_util.h"
#include "weft/onnx/import.h"

namespace weft::e2e {
namespace {

/// `batch` pictures of height 48: smooth waves, another one for each seed.
TensorPtr Pictures(int64_t batch, int64_t width, int64_t first_seed) {
  auto x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{batch, 3, 48, width});
  float* to = x->mutable_data_as<float>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t i = 0; i < 48; ++i)
        for (int64_t j = 0; j < width; ++j)
          *to++ = float(std::sin(0.31 * double(i) + double(first_seed + b)) *
                        std::cos(0.17 * double(j) * double(c + 1) + 0.7 * double(first_seed + b)));
  return x;
}

double LargestDifference(const float* a, const float* b, int64_t count) {
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = std::fabs(double(a[i]) - double(b[i]));
    worst = d <= worst ? worst : d;
  }
  return worst;
}

}  // namespace

TEST_CASE("one program recognises lines of every batch and width") {
  const char* data = std::getenv("WEFT_DATA_DIR");
  const std::string path =
      std::string(data ? data : "") + "/rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx";
  if (!HasCpu() || !std::filesystem::exists(path)) {
    MESSAGE("not run: backend cpu or " << path << " is missing");
    return;
  }
  const Graph graph = ImportOnnx(path);
  const auto program = CompileFor(graph, "cpu");
  Session session(program);

  // The definition, at the least extents.
  const TensorPtr small = Pictures(1, 48, 3);
  EvalOptions exact;
  exact.typed = false;
  const TensorPtr want = GetEvaluator()->Eval(graph, {small}, exact)[0];
  const TensorPtr got = session.Run({small})[0];
  REQUIRE(got->dims() == want->dims());
  for (int64_t i = 0; i < want->num_elements(); ++i)
    REQUIRE(got->at(i) == doctest::Approx(want->at(i)).epsilon(1e-4).scale(0.1));

  // Rows are soft-maxima, and each is what the picture gives alone.
  for (const auto& [batch, width] :
       {std::pair<int64_t, int64_t>{1, 320}, {6, 512}, {2, 96}, {3, 200}, {4, 641}}) {
    CAPTURE(batch);
    CAPTURE(width);
    const TensorPtr y = session.Run({Pictures(batch, width, 10)})[0];
    const int64_t steps = (width + 3) / 8, classes = 6625;
    REQUIRE(y->dims() == std::vector<int64_t>{batch, steps, classes});
    const float* rows = y->data_as<float>();
    for (int64_t r = 0; r < batch * steps; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) sum += double(rows[r * classes + k]);
      REQUIRE(sum == doctest::Approx(1).epsilon(1e-4));
    }
    const int64_t last = batch - 1, count = steps * classes;
    const TensorPtr alone = session.Run({Pictures(1, width, 10 + last)})[0];
    CHECK(LargestDifference(alone->data_as<float>(), rows + last * count, count) < 1e-4);
  }
}

}  // namespace weft::e2e
