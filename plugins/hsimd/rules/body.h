/// body.h: an Expr over a box of points as the steps of a vector; private to rules/.
#pragma once

#include <unordered_map>
#include <vector>

#include "points.h"

namespace hsimd {

class BodyBuilder {
 public:
  /// `buffers`: by number of Load. `at`: the position at which what reads nothing but indices is
  /// evaluated; the box is such that it is the same everywhere in it.
  BodyBuilder(const Points& points, const std::vector<Buffer>& buffers, const PointBox& box,
              const std::vector<Loop>& loops, std::vector<int64_t> at)
      : points_(points), buffers_(buffers), box_(box), loops_(loops), at_(std::move(at)) {}

  /// Throws kUnsupported for what the ALU has no operation for.
  BodyOperand Convert(const Expr& e);
  VectorOp Take();  ///< loops, inputs and steps; results are the caller's

 private:
  BodyOperand Step(AluOp op, std::vector<BodyOperand> operands);
  BodyOperand Load(const Expr& e);
  BodyOperand Unary(const Expr& e, const BodyOperand& a);
  BodyOperand Binary(const Expr& e, const BodyOperand& a, const BodyOperand& b);
  BodyOperand Cast(weft::DType from, weft::DType to, const BodyOperand& a);
  std::vector<Expr> Needs(const Expr& e) const;
  std::optional<BodyOperand> Constant(const Expr& e) const;

  const Points& points_;
  const std::vector<Buffer>& buffers_;
  const PointBox& box_;
  const std::vector<Loop>& loops_;
  std::vector<int64_t> at_;
  VectorOp op_;
  std::unordered_map<const weft::ExprNode*, BodyOperand> known_;
};

/// The word of a constant; i64 that do not fit 32 bits are kUnsupported.
uint32_t WordOf(const Expr& constant);

}  // namespace hsimd
