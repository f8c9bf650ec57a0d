/// points.h: the points at which an operator is computed in one place, and the addresses of what it
/// reads and writes there; private to rules/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axes.h"
#include "rule.h"

namespace hsimd {

/// A digit of an axis: over a level, or a loop in every place.
struct AxisDigit {
  int64_t size = 1;
  std::string level;   ///< empty: a loop
  int64_t stride = 1;  ///< of the place on the level
  int64_t value = 1;   ///< what one step of the digit adds to the index
};

/// A tensor as the lowering reads or writes it.
struct Buffer {
  int value = -1;                        ///< of the tile program
  int64_t offset = 0;                    ///< of its local addresses
  std::vector<std::vector<Digit>> dims;  ///< strides of the address or of a level
  std::vector<int64_t> sizes;            ///< of the dimensions
};
Buffer BufferOf(int value, const Layout& layout);

/// A box of points: of every axis that takes part, a range.
struct PointBox {
  std::vector<int> axes;
  std::vector<int64_t> from, to;  ///< by axis of `axes`
};

struct Loop {
  int axis = 0;
  int64_t count = 1;
  int64_t value = 1;  ///< what one step adds to the index of the axis
};

class Points {
 public:
  Points(const Machine& machine, std::vector<int64_t> extents)
      : machine_(machine), extents_(std::move(extents)), digits_(extents_.size()) {}

  /// An axis that has no digits yet takes them from dimension `dim` of a buffer.
  void TakeDigits(int axis, const Buffer& buffer, int dim);
  /// In one place, whole.
  void MakeLocal(int axis);
  /// An axis in one place as blocks of `fan` over the PEs: a tap of a window that each PE has for
  /// itself, because its copy of what is read is shifted.
  void ShiftOverPes(int axis);
  bool known(int axis) const { return !digits_[size_t(axis)].empty(); }
  const std::vector<AxisDigit>& digits(int axis) const { return digits_[size_t(axis)]; }
  int64_t extent(int axis) const { return extents_[size_t(axis)]; }
  bool is_local(int axis) const;
  /// Levels over which an axis is dealt out.
  std::vector<int> LevelsOf(int axis) const;

  /// The loops of a box; axes that are in one place from `from` to `to`, others whole with padding.
  std::vector<Loop> LoopsOf(const PointBox& box) const;
  /// The whole range of axes.
  PointBox Whole(const std::vector<int>& axes) const;

  /// Addresses of buffer[at] over `loops` of `box`; axes that are not in the box have the values
  /// `fixed` (by axis). `crossed`: an axis whose PE digit this buffer has as the lowest part of its
  /// address; its stride goes to `crossed_stride`. Throws kUnsupported where the layouts do not
  /// allow it, naming `what`.
  TileStream StreamOf(const Buffer& buffer, const std::vector<Affine>& at, const PointBox& box,
                      const std::vector<Loop>& loops, const std::vector<int64_t>& fixed,
                      const std::string& what, int crossed = -1,
                      int64_t* crossed_stride = nullptr) const;

 private:
  const Machine& machine_;
  std::vector<int64_t> extents_;
  std::vector<std::vector<AxisDigit>> digits_;
  int shifted_ = -1;
};

}  // namespace hsimd
