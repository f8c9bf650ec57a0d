/// element_moves.h: kernels that only move elements, as copies of boxes.
///
/// Whatever operators wrote it (Concat, Pad, Tile, Transpose, nearest Resize, chains of them), a
/// kernel whose index arithmetic is affine on each of a few boxes of its points does nothing there
/// but copy a strided box, or fill one with a number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/util/strided_copy.h"
#include "weft/codegen/kernel/kernel.h"

namespace weft::cpu {

/// One box of a kernel's points. Its axes are those of `dims`, the last one steps least in `to`.
struct ElementMove {
  int from = -1;  ///< a buffer; -1: every element becomes `bits`
  uint64_t bits = 0;
  int to = 0;                              ///< a buffer
  int64_t from_offset = 0, to_offset = 0;  ///< elements
  std::vector<CopyDim> dims;
};

/// Reads boxes off a kernel once its extents are numbers.
class MoveFinder {
 public:
  /// Null where the kernel computes something, or reads where data say.
  static std::unique_ptr<MoveFinder> Make(const Kernel& kernel);
  ~MoveFinder();
  /// `dims`: the symbols of the kernel. False where that is not a few boxes.
  bool Find(const int64_t* dims, std::vector<ElementMove>* moves) const;

 private:
  struct Steps;
  explicit MoveFinder(std::unique_ptr<Steps> steps);
  std::unique_ptr<Steps> steps_;
};

}  // namespace weft::cpu
