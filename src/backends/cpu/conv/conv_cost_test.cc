/// conv_cost_test.cc: the model's choices against times measured on the machine that it is fitted
/// to, and on another.
#include "conv_cost.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace weft::cpu {
namespace {

/// 3 x 3, padding 1; microseconds of oneDNN 2.6.3's primitives on two cores of a Zen 5, the
/// least of two sweeps.
struct Measured {
  ConvPass pass;
  bool packed;
  int tile;
  int64_t images, channels, filters, side;
  double direct, winograd;
};
const std::vector<Measured> kMeasured{
    {ConvPass::kForward, true, 2, 1, 32, 32, 28, 28, 17},
    {ConvPass::kForward, true, 2, 1, 64, 64, 14, 27, 18},
    {ConvPass::kForward, true, 2, 1, 64, 64, 20, 54, 30},
    {ConvPass::kForward, true, 4, 1, 128, 128, 16, 132, 63},
    {ConvPass::kForward, true, 2, 1, 256, 256, 14, 470, 253},
    {ConvPass::kForward, true, 2, 1, 256, 256, 7, 96, 78},
    {ConvPass::kForward, true, 4, 8, 32, 32, 28, 219, 117},
    {ConvPass::kForward, true, 4, 8, 64, 64, 14, 208, 146},
    {ConvPass::kForward, true, 4, 8, 64, 64, 56, 3666, 1618},
    {ConvPass::kForward, true, 4, 8, 128, 128, 28, 3600, 2087},
    {ConvPass::kForward, true, 4, 8, 256, 256, 14, 3287, 1845},
    {ConvPass::kForward, true, 4, 64, 32, 32, 16, 568, 395},
    {ConvPass::kForward, true, 4, 64, 64, 64, 16, 2197, 1180},
    {ConvPass::kForward, true, 2, 1, 128, 256, 7, 48, 41},
    {ConvPass::kForward, true, 4, 8, 32, 64, 28, 436, 204},
    {ConvPass::kForward, false, 4, 1, 32, 32, 56, 140, 80},
    {ConvPass::kForward, false, 4, 1, 64, 64, 56, 521, 272},
    {ConvPass::kForward, false, 4, 1, 128, 128, 28, 436, 367},
    {ConvPass::kForward, false, 4, 1, 128, 128, 56, 1819, 875},
    {ConvPass::kForward, false, 4, 1, 256, 256, 28, 1744, 1226},
    {ConvPass::kForward, false, 4, 1, 512, 512, 16, 2389, 4603},
    {ConvPass::kForward, false, 4, 8, 32, 32, 16, 70, 63},
    {ConvPass::kForward, false, 4, 8, 64, 64, 28, 869, 443},
    {ConvPass::kForward, false, 4, 8, 128, 128, 14, 831, 670},
    {ConvPass::kForward, false, 4, 8, 256, 256, 7, 744, 1108},
    {ConvPass::kForward, false, 4, 8, 512, 512, 7, 3156, 5354},
    {ConvPass::kForward, false, 4, 64, 64, 64, 8, 506, 337},
    {ConvPass::kForward, false, 4, 64, 128, 128, 7, 1507, 1413},
    {ConvPass::kForward, false, 4, 8, 64, 128, 14, 422, 356},
    {ConvPass::kGradData, false, 4, 1, 32, 32, 28, 28, 26},
    {ConvPass::kGradData, false, 4, 1, 64, 64, 14, 29, 66},
    {ConvPass::kGradData, false, 4, 1, 64, 64, 20, 58, 67},
    {ConvPass::kGradData, false, 4, 1, 128, 128, 16, 147, 211},
    {ConvPass::kGradData, false, 4, 1, 256, 256, 14, 508, 1182},
    {ConvPass::kGradData, false, 4, 1, 256, 256, 7, 114, 485},
    {ConvPass::kGradData, false, 4, 8, 32, 32, 28, 253, 133},
    {ConvPass::kGradData, false, 4, 8, 64, 64, 14, 223, 170},
    {ConvPass::kGradData, false, 4, 8, 64, 64, 56, 3737, 1843},
    {ConvPass::kGradData, false, 4, 8, 256, 256, 7, 878, 1108},
    {ConvPass::kGradData, false, 4, 8, 512, 512, 7, 3679, 5564},
    {ConvPass::kGradData, false, 4, 64, 64, 64, 8, 599, 316},
    {ConvPass::kGradData, false, 4, 64, 128, 128, 7, 1748, 1398},
    {ConvPass::kGradData, false, 4, 8, 64, 128, 14, 455, 342},
    {ConvPass::kGradWeight, false, 4, 1, 32, 32, 28, 29, 30},
    {ConvPass::kGradWeight, false, 4, 1, 64, 64, 14, 30, 40},
    {ConvPass::kGradWeight, false, 4, 1, 64, 64, 20, 60, 46},
    {ConvPass::kGradWeight, false, 4, 1, 128, 128, 16, 150, 119},
    {ConvPass::kGradWeight, false, 4, 1, 256, 256, 14, 474, 515},
    {ConvPass::kGradWeight, false, 4, 1, 256, 256, 7, 127, 308},
    {ConvPass::kGradWeight, false, 4, 8, 32, 32, 28, 244, 130},
    {ConvPass::kGradWeight, false, 4, 8, 64, 64, 14, 231, 223},
    {ConvPass::kGradWeight, false, 4, 8, 64, 64, 56, 3914, 2023},
    {ConvPass::kGradWeight, false, 4, 8, 128, 128, 28, 3891, 2319},
    {ConvPass::kGradWeight, false, 4, 8, 256, 256, 14, 3826, 2237},
    {ConvPass::kGradWeight, false, 4, 64, 32, 32, 16, 607, 513},
    {ConvPass::kGradWeight, false, 4, 64, 64, 64, 16, 2496, 1835},
    {ConvPass::kGradWeight, false, 4, 1, 128, 256, 7, 62, 140},
    {ConvPass::kGradWeight, false, 4, 8, 32, 64, 28, 476, 231},
};

/// The same, but the least of six sweeps over whole calls on two cores of a Xeon (family 6, model
/// 207): channels last outside, so that Winograd copies source and result.
const std::vector<Measured> kOnXeon{
    {ConvPass::kForward, true, 2, 1, 32, 32, 28, 43, 40},
    {ConvPass::kForward, true, 2, 1, 32, 32, 56, 169, 155},
    {ConvPass::kForward, false, 4, 1, 32, 32, 112, 682, 682},
    {ConvPass::kForward, false, 4, 1, 64, 64, 14, 53, 146},
    {ConvPass::kGradData, false, 4, 1, 64, 64, 20, 97, 128},
    {ConvPass::kGradData, false, 4, 1, 64, 64, 28, 179, 212},
    {ConvPass::kGradWeight, false, 4, 1, 64, 64, 56, 739, 571},
    {ConvPass::kGradWeight, false, 4, 1, 64, 64, 112, 3303, 1815},
    {ConvPass::kForward, true, 4, 1, 128, 128, 16, 211, 118},
    {ConvPass::kForward, true, 2, 1, 128, 128, 28, 655, 399},
    {ConvPass::kForward, false, 4, 1, 128, 128, 56, 2861, 1873},
    {ConvPass::kForward, false, 4, 1, 256, 256, 7, 238, 1109},
    {ConvPass::kGradData, false, 4, 1, 256, 256, 14, 727, 1612},
    {ConvPass::kGradData, false, 4, 1, 256, 256, 28, 2776, 3197},
    {ConvPass::kGradWeight, false, 4, 1, 512, 512, 7, 1987, 11784},
    {ConvPass::kGradWeight, false, 4, 1, 512, 512, 14, 4602, 9556},
    {ConvPass::kForward, true, 4, 8, 32, 32, 28, 342, 357},
    {ConvPass::kForward, true, 4, 8, 32, 32, 56, 1485, 1396},
    {ConvPass::kForward, false, 4, 8, 64, 64, 14, 335, 358},
    {ConvPass::kForward, false, 4, 8, 64, 64, 28, 1308, 1056},
    {ConvPass::kGradData, false, 4, 8, 64, 64, 56, 5982, 4559},
    {ConvPass::kGradData, false, 4, 8, 128, 128, 14, 1370, 1196},
    {ConvPass::kGradWeight, false, 4, 8, 128, 128, 28, 6128, 3605},
    {ConvPass::kGradWeight, false, 4, 8, 256, 256, 7, 1775, 1868},
    {ConvPass::kForward, true, 4, 8, 512, 512, 7, 6191, 4501},
    {ConvPass::kForward, true, 4, 64, 32, 32, 16, 865, 968},
    {ConvPass::kForward, false, 4, 64, 64, 64, 8, 819, 675},
    {ConvPass::kForward, false, 4, 64, 64, 64, 16, 3703, 2778},
    {ConvPass::kGradData, false, 4, 64, 128, 128, 7, 2923, 1947},
    {ConvPass::kGradData, false, 4, 64, 32, 32, 32, 4292, 3914},
    {ConvPass::kGradWeight, false, 4, 128, 32, 32, 16, 1847, 1744},
    {ConvPass::kGradWeight, false, 4, 128, 64, 64, 8, 2030, 1330},
    {ConvPass::kForward, true, 4, 8, 32, 64, 28, 838, 549},
    {ConvPass::kForward, true, 4, 8, 64, 128, 14, 645, 435},
    {ConvPass::kForward, false, 4, 1, 64, 128, 28, 357, 398},
    {ConvPass::kForward, false, 4, 1, 256, 128, 14, 380, 827},
    {ConvPass::kGradData, false, 4, 8, 128, 64, 28, 3641, 2527},
    {ConvPass::kGradData, false, 4, 1, 48, 96, 20, 113, 158},
    {ConvPass::kGradWeight, false, 4, 8, 96, 32, 14, 275, 334},
    {ConvPass::kGradWeight, false, 4, 1, 256, 512, 14, 1848, 4574},
};

WindowShape Window(int64_t side) {
  return {{side, side}, {3, 3}, {side, side}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
}

/// Geometric mean of the time of what the model picks by that of the better one.
double LossOf(const std::vector<Measured>& all, bool copies, double most_of_direct,
              double most_of_winograd) {
  double loss = 0;
  for (const Measured& m : all) {
    const WindowShape window = Window(m.side);
    const ConvWork work{m.pass, m.images, m.channels, m.filters, window, m.packed};
    const int64_t copied =
        copies ? 4 * m.images * (m.channels + m.filters) * m.side * m.side : int64_t{0};
    const bool pays = WinogradPays(work, m.tile, copied);
    const double taken = pays ? m.winograd : m.direct;
    CAPTURE(int(m.pass));
    CAPTURE(m.images);
    CAPTURE(m.channels);
    CAPTURE(m.filters);
    CAPTURE(m.side);
    CHECK(taken <= most_of_direct * m.direct);
    CHECK(taken <= most_of_winograd * m.winograd);
    loss += std::log(taken / std::min(m.direct, m.winograd));
  }
  return std::exp(loss / double(all.size()));
}

TEST_CASE("what the model picks is the faster one, or hardly slower") {
  CHECK(LossOf(kMeasured, false, 1.15, 1.35) < 1.03);
}

TEST_CASE("it serves another machine too") { CHECK(LossOf(kOnXeon, true, 1.3, 1.4) < 1.03); }

TEST_CASE("copies count, and few channels are summed directly") {
  const WindowShape window = Window(56);
  const ConvWork work{ConvPass::kForward, 1, 64, 64, window, true};
  CHECK(WinogradPays(work, 2, 0));
  CHECK(WinogradPays(work, 2, int64_t{2} * 64 * 56 * 56 * 4));
  CHECK(!WinogradPays(work, 2, int64_t{1} << 30));
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kGradData, ConvPass::kGradWeight})
    for (const int tile : {2, 4}) {
      CHECK(!WinogradPays({pass, 64, 16, 64, window, false}, tile, 0));
      CHECK(!WinogradPays({pass, 64, 64, 3, window, false}, tile, 0));
    }
}

TEST_CASE("times grow with the work") {
  const WindowShape small = Window(14), large = Window(28);
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kGradData, ConvPass::kGradWeight}) {
    const ConvWork one{pass, 1, 64, 64, small, false}, more{pass, 2, 64, 64, small, false},
        wide{pass, 1, 128, 64, small, false}, high{pass, 1, 64, 64, large, false};
    for (const ConvWork& w : {more, wide, high}) {
      CHECK(DirectTime(w) > DirectTime(one));
      for (const int tile : {2, 4}) CHECK(WinogradTime(w, tile) > WinogradTime(one, tile));
    }
  }
  // The tiles of 4 x 4 over 13 pixels are those over 16.
  const WindowShape odd = Window(13), even = Window(16);
  CHECK(WinogradTime({ConvPass::kForward, 1, 64, 64, odd, true}, 4) ==
        WinogradTime({ConvPass::kForward, 1, 64, 64, even, true}, 4));
}

}  // namespace
}  // namespace weft::cpu
