/// attr_text.h: hidden attributes of a graph as text for people: what golden files show of CodeGen,
/// RTCGen, Schedule, PlanMemory and Layout. Lines of comments behind the graph: nothing in them
/// depends on the machine, nothing is parsed.
///
/// `order`: the names of the steps.
/// `storage`: a line per block, in order of the plan; steps are half open.
///   // B2 arena, 4*n bytes, steps [1, 3): %a %b
///   // copied at the end: output 0
/// `kernel`: the launches, then the kernels. Equal kernels have one number.
///   // %y = K0 {$0 = n}                          the kernel of node %y; $0 .. are its extents
///   // %y = K0(0, 2 -> 3) {$0 = n} | K1(1 -> 4)  several in one launch: operands by number, the
///                                                inputs of the node first, then its outputs
///   // %y = K0 with channels last in 0           operands that do not lie row-major
///   // K0: elementwise i0 < $0, i1 < 4; lanes i1 loops, and the one that is vectorised
///   // K1: row i0 < $0 of i1 < 4; lanes i1       parallel loops `of` the loops of one row
///   //   x0 f32[4*$0], x1 f32[4] -> x2 f32[4*$0] buffers: inputs -> outputs, with their sizes
///   //   x2[((i0 * 4) + i1)] = (x0[((i0 * 4) + i1)] + x1[i1])
///   //   each row: s0 = sum(r0_0 < 4, ..)        reductions, and what is used twice, have names
///   //   each row: x3[i0] = (-s0)                `each row`: once per row, not at each point
///   //   flag: ..                                an index is out of range where this holds
/// `rtc`: a line per kernel of a launch.
///   // %y: K0 is code for cpu
/// Every other registered attribute with a text form: a line per row.
///   // %x layout = last
#pragma once

#include <string>

#include "weft/core/graph/graph.h"

namespace weft::e2e {

/// Throws std::string with what is wrong where there is no such attribute or it has no text.
std::string AttrText(const Graph& g, const std::string& name);

}  // namespace weft::e2e
