/// pass_samples.h: the graphs that the tests of passes and of their manager work on.
#pragma once

#include "e2e_util.h"

namespace weft::e2e {

/// Two results of element-wise operators, nothing inferred yet.
inline Graph Sample() {
  return FromText(R"(graph (%x: f32[3, 4], %z: f32[3, 4]) -> (%s, %t) {
    %s = Sub(%x, %z) : ?
    %t = Tanh(%s) : ?
  })");
}

/// A Reshape to a parameter, a Cast and a Tanh of one input, with shapes and types.
inline Graph Typed() {
  Graph g = FromText(R"(graph (%x: f32[3, 4], %to: i64[2] param = [4, 3]) -> (%r, %c, %t) {
    %r = Reshape(%x, %to) : ?
    %c = Cast(%x) {to = i32} : ?
    %t = Tanh(%x) : ?
  })");
  return ApplyPass(std::move(g), "InferShape");
}

}  // namespace weft::e2e
