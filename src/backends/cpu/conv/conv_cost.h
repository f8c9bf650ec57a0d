/// conv_cost.h: which algorithm a convolution takes: direct sums, or Winograd's with 2.25 to
/// 4 times fewer products.
///
/// A static model: the choice follows from extents alone, so a program computes the same on every
/// run. oneDNN has Winograd (Lavin and Gray, 2015) in versions 2 with AVX-512, F(2x2, 3x3) and
/// F(4x4, 3x3), for windows of 3 x 3 that move by one. Measured errors are those of direct sums,
/// 1e-6 of the largest result.
#pragma once

#include <cstdint>

#include "weft/core/op/window.h"

namespace weft::cpu {

enum class ConvPass : uint8_t { kForward, kGradData, kGradWeight };

/// What times depend on. `window` has two axes.
struct ConvWork {
  ConvPass pass;
  int64_t images, channels, filters;
  const WindowShape& window;
  bool weights_packed;  ///< once, outside of the call
};

/// Microseconds on two cores of the machine that the constants are fitted on; other machines
/// differ in both alike.
double DirectTime(const ConvWork& w);
/// `tile`: 2 or 4, the extent of a tile of the result.
double WinogradTime(const ConvWork& w, int tile);
/// Is Winograd worth it, when it moves `copied_bytes` more between layouts than direct sums do?
bool WinogradPays(const ConvWork& w, int tile, int64_t copied_bytes);

/// The environment variable WEFT_CONV: "direct", or "winograd" (wherever it exists). Anything else
/// leaves the choice to the model.
enum class ConvChoice : uint8_t { kModel, kDirect, kWinograd };
ConvChoice ForcedChoice();

}  // namespace weft::cpu
