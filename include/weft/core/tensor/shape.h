/// shape.h: the shape of a tensor: rank known or not, each extent an integer, a
/// symbolic expression or unknown.
///
/// Rank-unknown, dim-unknown, symbolic, scalar (rank 0) and zero-size are five different things.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "weft/sym/sym.h"

namespace weft {

class WEFT_API Shape {
 public:
  /// Rank unknown.
  Shape() = default;
  /// Rank known; each dim an integer, an expression, or unknown (SymInt()).
  Shape(std::initializer_list<SymInt> dims) : known_(true), dims_(dims) {}
  explicit Shape(std::vector<SymInt> dims) : known_(true), dims_(std::move(dims)) {}
  static Shape OfInts(const std::vector<int64_t>& dims);
  /// Rank known, every dim unknown.
  static Shape OfRank(int rank) { return Shape(std::vector<SymInt>(rank)); }
  static Shape Scalar() { return Shape(std::vector<SymInt>()); }

  bool has_rank() const { return known_; }
  /// Throws InternalError when the rank is unknown.
  int rank() const;
  const std::vector<SymInt>& dims() const { return dims_; }
  /// Throws kShapeMismatch for an axis outside the shape: a rule that forgot to check a rank
  /// says so about the model, and reads nothing beyond.
  SymInt operator[](int i) const {
    if (size_t(i) >= dims_.size()) ThrowAxis(i);
    return dims_[size_t(i)];
  }
  void set(int i, SymInt d) {
    if (size_t(i) >= dims_.size()) ThrowAxis(i);
    dims_[size_t(i)] = d;
  }

  /// Rank and every dim known (integers or expressions).
  bool fully_known() const;
  /// Rank known and every dim an integer.
  bool is_static() const;
  /// The integers; throws InternalError unless is_static().
  std::vector<int64_t> ints() const;
  /// Product of the dims; unknown where a dim or the rank is.
  SymInt num_elements() const;

  /// Identical: same rank state, same dim handles (unknown dims are the same as each other).
  bool same(const Shape& o) const;
  /// "[batch, 2*h, 3]", "[]" for a scalar, "[?, 4]", "?" where the rank is unknown. Parse
  /// is the inverse (kSyntax).
  std::string ToString() const;
  static Shape Parse(std::string_view text);

 private:
  [[noreturn]] void ThrowAxis(int axis) const;
  bool known_ = false;
  std::vector<SymInt> dims_;
};

/// Axis in [-rank, rank) to [0, rank); throws kBadAttribute that says both.
WEFT_API int NormalizeAxis(int64_t axis, int rank);
/// Numpy broadcast of two shapes; unknown ranks or dims give unknown; equal by facts picks one.
WEFT_API Shape BroadcastShapes(const Shape& a, const Shape& b, const Facts* facts = nullptr);
/// Element counts with overflow check; throws kOverflow.
WEFT_API int64_t NumElements(const std::vector<int64_t>& dims);

}  // namespace weft
