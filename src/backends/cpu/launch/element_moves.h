/// element_moves.h: kernels that only move elements, as copies of boxes.
///
/// Whatever operators wrote it (Concat, Pad, Tile, Transpose, nearest Resize, chains of them), a
/// kernel whose index arithmetic is affine on each of a few boxes of its points does nothing there
/// but copy a strided box, or fill one with a number. A box may be cut by one slanted line, as
/// triangles of matrices are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/util/strided_copy.h"
#include "weft/codegen/kernel/kernel.h"

namespace weft::cpu {

/// A line through a box: the points i of one axis and j of another with constant + by_row i +
/// by_column j < 0 are below it.
struct Slant {
  int64_t constant = 0, by_row = 0, by_column = 0;
  bool below = true;  ///< which side is meant

  /// The j of [0, extent) on that side: [first, second).
  std::pair<int64_t, int64_t> RangeOf(int64_t i, int64_t extent) const;
};

/// One box of a kernel's points. Its axes are those of `dims`, the last one steps least in `to`.
struct ElementMove {
  int from = -1;  ///< a buffer; -1: every element becomes `bits`
  uint64_t bits = 0;
  int to = 0;                              ///< a buffer
  int64_t from_offset = 0, to_offset = 0;  ///< elements
  std::vector<CopyDim> dims;
  /// Only the points on one side of a line, i along the first axis and j along the last one.
  std::optional<Slant> slant;
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
