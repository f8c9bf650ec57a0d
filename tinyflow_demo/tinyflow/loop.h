/// loop.h: loops whose bodies are C++ functions on tensors. A function is called once, with tensors
/// that stand for the state of any iteration; the nodes that it adds are the body of one node, a
/// Loop or a Scan, which is compiled as the graph around it is and has a gradient.
///
///   // x <- (x + a / x) / 2 until it is near:
///   auto far = [&](const Tensors& s) { return reduce_max(abs(s[0] * s[0] - a)) > 1e-4; };
///   auto step = [&](const Tensors& s) { return Tensors{(s[0] + a / s[0]) / 2}; };
///   Tensor root = while_loop(far, step, {ones_like(a)})[0];
///
/// Functions read what they like of the graph around (a, above), and layers that they call make
/// their variables there: all iterations share them, as they share the mask of a dropout. What they
/// give back takes the state's place, of the same dtype and shape. A tensor of a body means nothing
/// outside of it.
#pragma once

#include <functional>
#include <vector>

#include "tinyflow/ops.h"

namespace tf {

using Tensors = std::vector<Tensor>;

/// Repeats `body` while `condition`, one boolean, holds of the state; `state` itself where it does
/// not from the beginning. Gives the last state.
Tensors while_loop(const std::function<Tensor(const Tensors& state)>& condition,
                   const std::function<Tensors(const Tensors& state)>& body, const Tensors& state);
/// Repeats `body` `count` times (one i64, which data may decide), with the number of the iteration
/// from 0. Gives the last state.
Tensors for_loop(const Tensor& count,
                 const std::function<Tensors(const Tensor& i, const Tensors& state)>& body,
                 const Tensors& state);

/// The state after a step, and what is collected of it.
struct Scanned {
  Tensors state, outputs;
};
/// Calls `step` for every slice of `sequences` along their first axis, from the end with
/// `backwards`. Gives the last state, and the outputs of all steps stacked on a new first axis, at
/// the places of their slices.
Scanned scan(const std::function<Scanned(const Tensors& state, const Tensors& slices)>& step,
             const Tensors& state, const Tensors& sequences, bool backwards = false);

}  // namespace tf
