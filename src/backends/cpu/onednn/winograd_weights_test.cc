/// winograd_weights_test.cc: transformed weights against the library's own reorder.
#ifdef WEFT_HAVE_ONEDNN

#include "winograd_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "backends/cpu/util/call_test_util.h"
#include "onednn_adapter.h"

namespace weft::cpu {
namespace {

TEST_CASE("weights for Winograd are packed as the library packs them") {
  for (const int threads : {1, 2, 4})
    for (const int64_t images : {1, 8})
      for (const int64_t side : {7, 14, 28, 56})
        for (const auto& [channels, filters] : std::vector<std::pair<int64_t, int64_t>>{
                 {16, 16}, {16, 48}, {32, 32}, {64, 64}, {64, 128}, {128, 64}, {128, 128}}) {
          const ScopedThreads team(threads);
          const Dims x{images, channels, side, side}, w{filters, channels, 3, 3},
              y{images, filters, side, side}, one{1, 1}, none{0, 0};
          Desc layout;
          try {
            const auto pd = Describe<dnnl::convolution_forward>(
                {}, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_winograd,
                AnyLayout(x), AnyLayout(w), Desc(), AnyLayout(y), one, none, one, one);
            if (!pd) continue;
            layout = pd.weights_desc();
          } catch (const dnnl::error&) {
            continue;
          }
          const auto weights = RandomTensor(w, 1);
          const auto values = const_cast<float*>(weights->data_as<float>());
          dnnl::memory plain(Plain(w), Engine(), values), want(layout, Engine());
          dnnl::reorder(plain, want).execute(Stream(), plain, want);
          Stream().wait();
          const size_t floats = layout.get_size() / sizeof(float);
          std::vector<float> got(floats, NAN);
          REQUIRE(PackWinograd(values, layout, got.data()));
          const float* expected = static_cast<const float*>(want.get_data_handle());
          double worst = 0;
          for (size_t i = 0; i < floats; ++i) {
            const double d = std::abs(double(got[i]) - expected[i]);
            worst = d <= worst ? worst : std::isnan(d) ? INFINITY : d;
          }
          CHECK(worst < 1e-6);
        }
}

TEST_CASE("other layouts are left to the library") {
  const Dims w{16, 16, 3, 3};
  std::vector<float> values(16 * 16 * 9), to(values.size());
  CHECK(!PackWinograd(values.data(), Plain(w), to.data()));
}

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
