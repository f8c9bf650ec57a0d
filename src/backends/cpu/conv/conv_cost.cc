/// conv_cost.cc: linear models of both algorithms. Fitted to 160 convolutions: 1 to 64 images of 7
/// to 80 pixels a side, 16 to 512 channels, on two cores of a Zen 5 (32 MB of third-level cache)
/// with oneDNN 2.6.3. Of 535 choices, for the three passes, 39 are wrong with a margin of 1.05;
/// what is taken needs 1.011 times the better one's time in the geometric mean, and never more than
/// 1.10 times that of direct sums.
///
/// Copies and margin serve another machine as well: two cores of a Xeon (family 6, model 207), with
/// the same oneDNN. There, of 176 choices for whole calls with channels last, 21 are wrong; what is
/// taken needs 1.014 times the better one's time, and at most 1.28 times that of direct sums (1.026
/// and 1.45 with the copies and the margin of the Zen 5 alone).
#include "conv_cost.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace weft::cpu {
namespace {

/// Microseconds of a call, of a million products, and what a million costs more for each channel
/// that the sums run over too few of.
struct DirectFit {
  double call, products, short_sums;
};
constexpr DirectFit kDirect[] = {{0.2, 3.5, 10}, {0.2, 3.98, 1.7}, {0.7, 4.18, 0}};

/// Microseconds of a call, of a million products in the tiles, and of a kilobyte: of transformed
/// source and result, of transformed weights (written by the call, but for packed ones), of those
/// that the cache cannot hold.
struct WinogradFit {
  double call, products, source, result, weights, far;
};
constexpr WinogradFit kSmallTiles{2.2, 4.8, 0, 0.0023, 0.0003, 0};
constexpr WinogradFit kPacked{6.1, 5.59, 0.0273, 0.0018, 0, 0.0925};
constexpr WinogradFit kTransforming[] = {{5.1, 7.64, 0.0108, 0, 0.0474, 0.0336},
                                         {6.3, 7.86, 0.0043, 0.0041, 0.0484, 0.0364},
                                         {11, 5.83, 0.0464, 0, 0.0228, 0.0872}};
constexpr double kCacheKilobytes = 16e3;

/// Copies between layouts: 45 GB/s on the Zen 5, but 20 GB/s on the Xeon, and what they cost is
/// what the model cannot know of a machine.
constexpr double kCopyMicrosecondsPerByte = 1 / 20e3;
/// The sum over 16 channels is too short for the products to be worth saving: gains are small, and
/// at 32 x 32 pixels rows fall on the same cache sets (0.7 times the speed of direct sums).
constexpr int64_t kLeastChannels = 32;
/// What the model must promise, so that its errors seldom cost anything.
constexpr double kMargin = 1.08;

}  // namespace

double DirectTime(const ConvWork& w) {
  const DirectFit& f = kDirect[size_t(w.pass)];
  const double least = double(std::min(w.channels, w.filters));
  const double products = 9e-6 * double(w.images) * double(w.channels) * double(w.filters) *
                          double(w.window.out[0]) * double(w.window.out[1]);
  return f.call + products * (f.products + f.short_sums / least);
}

double WinogradTime(const ConvWork& w, int tile) {
  const WinogradFit& f = tile == 2          ? kSmallTiles
                         : w.weights_packed ? kPacked
                                            : kTransforming[size_t(w.pass)];
  // A gradient of data makes tiles of dx, the others of y.
  const std::vector<int64_t>& made = w.pass == ConvPass::kGradData ? w.window.in : w.window.out;
  double tiles = double(w.images);
  for (int64_t extent : made) tiles *= double((extent + tile - 1) / tile);
  const double points = double((tile + 2) * (tile + 2)), c = double(w.channels),
               k = double(w.filters), weights = points * c * k * 4e-3;
  return f.call + f.products * points * tiles * c * k * 1e-6 +
         (f.source * c + f.result * k) * points * tiles * 4e-3 + f.weights * weights +
         f.far * std::max(0.0, weights - kCacheKilobytes);
}

bool WinogradPays(const ConvWork& w, int tile, int64_t copied_bytes) {
  if (std::min(w.channels, w.filters) < kLeastChannels) return false;
  const double copies = double(copied_bytes) * kCopyMicrosecondsPerByte;
  return (WinogradTime(w, tile) + copies) * kMargin < DirectTime(w);
}

ConvChoice ForcedChoice() {
  const char* text = std::getenv("WEFT_CONV");
  if (!text) return ConvChoice::kModel;
  const std::string_view choice(text);
  return choice == "direct"     ? ConvChoice::kDirect
         : choice == "winograd" ? ConvChoice::kWinograd
                                : ConvChoice::kModel;
}

}  // namespace weft::cpu
