/// attr_text.h: hidden attributes of a graph as text for people: what golden files show of CodeGen, RTCGen, Schedule,
/// PlanMemory and Layout. Lines of comments behind the graph: nothing in them depends on the machine, nothing is parsed.
///
/// `order`: the names of the steps.
/// `storage`: a line a block; B2 .. in order of the plan, steps half open, and what lies in it.
///   // B2 arena, 4*n bytes, steps [1, 3): %a %b
///   // copied at the end: output 0
/// `kernel`: a line a launch, then the kernels; kernels are numbered by first use, equal ones have one number.
///   // %y = K0 {$0 = n}                            the launch of node %y, its extents $0 .. in those of the graph
///   // %y = K0(0, 2 -> 3) {$0 = n} | K1(1 -> 4)    side by side: operands of the node, inputs first, then its outputs
///   // %y = K0 with channels last in 0             operands that do not lie row-major
///   // K0: elementwise i0 < $0, i1 < 4; lanes i1   loops, and the one whose positions are vector lanes
///   // K1: row i0 < $0 of i1 < 4; lanes i1         parallel loops `of` the loops of one row
///   //   x0 f32[4*$0], x1 f32[4] -> x2 f32[4*$0]   buffers: inputs -> outputs, with their elements
///   //   x2[((i0 * 4) + i1)] = (x0[((i0 * 4) + i1)] + x1[i1])
///   //   each row: s0 = sum(r0_0 < 4, ..)          reductions, and what is used several times, have names
///   //   each row: x3[i0] = (-s0)                  `each row`: done once a row, not at each of its points
///   //   flag: ..                                  an index is outside where this holds: the launch fails
/// `rtc`: a line a kernel of a launch.
///   // %y: K0 is code for cpu
/// Every other registered attribute: a line a row that has a text, `%x layout = last`.
#pragma once

#include <string>

#include "weft/core/graph/graph.h"

namespace weft::e2e {

/// Throws std::string with what is wrong where there is no such attribute or it has no text.
std::string AttrText(const Graph& g, const std::string& name);

}  // namespace weft::e2e
