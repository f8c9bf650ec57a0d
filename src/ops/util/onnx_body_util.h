/// onnx_body_util.h: what bodies in ONNX's operators (FOnnxBody) share: lists, constants,
/// sums back to a shape, adjoints of data movement. Each is text, one assignment a line.
#pragma once

#include <string>
#include <vector>

#include "weft/core/op/onnx_body.h"

namespace weft::ops {

/// "[1, 2]".
std::string ListText(const std::vector<int64_t>& v);
/// Lines that define `name`.
std::string IntConstant(const std::string& name, int64_t value);
std::string IntsConstant(const std::string& name, const std::vector<int64_t>& v);
std::string TransposeLine(const std::string& name, const std::string& from,
                          const std::vector<int64_t>& perm);

/// o0 = x, of shape `from`, summed to the extents in the i64 vector `shape`, which are `to`: over
/// the axes that `to` lacks in front, and over those where it has 1. Where that is not decided,
/// over every axis of extent 1 there; summing an axis of extent 1 does no harm.
std::string SumToText(const std::string& x, const Shape& from, const std::string& shape,
                      const Shape& to);

/// o0 = the adjoint of a data movement, for i0 = dy and the extents `shape` of its operand. `move`
/// is the movement of `numbers`, the numbers of the elements: it says where each element of dy came
/// from, and adding dy there is the adjoint, whatever the movement.
///
///   n = prod(shape)   at = Move(reshape([0 .. n-1], shape))   dx = reshape(zeros[n] (+)[at] dy)
std::string MovementAdjoint(const std::string& shape, const std::string& move);

/// o0 = zeros of the extents in the i64 vector `shape`, which are `to`, with x, of shape `from`, at
/// the positions `first` in it: one an axis, clamped as the starts of a Slice are, negative ones
/// counted from the end. A Pad: runtimes know where its elements come from, as they do not of a
/// scatter's.
std::string PlacedText(const std::string& x, const Shape& from, const std::vector<int64_t>& first,
                       const std::string& shape, const Shape& to);

/// The parts of MovementAdjoint: `numbers`, whose count is `count`, and i0 added at the flat
/// positions `at`; position `count` is for what belongs nowhere.
std::string ElementNumbers(const std::string& shape);
std::string AddAt(const std::string& at, const std::string& shape);

}  // namespace weft::ops
