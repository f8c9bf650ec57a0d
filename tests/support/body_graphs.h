/// body_graphs.h: loops and recurrent operators that tests of bodies run on every kind of program.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/e2e_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/graph_attr_types.h"

namespace weft::e2e {

/// A cell with a product: kernels and a call, of t steps over n rows.
inline const char* const kCellScan =
    R"(graph (%s: f32[n, 3], %x: f32[t, n, 3], %w: f32[3, 3]) -> (%y, %z) {
  %y, %z = Scan(%s, %x, %w) {
    num_scan_inputs = 1,
    num_captures = 1,
    body = graph (%h: f32[n, 3], %v: f32[n, 3], %m: f32[3, 3]) -> (%q, %r) {
      %p = MatMul(%h, %m) : ?
      %u = Add(%p, %v) : ?
      %q = Tanh(%u) : ?
      %r = Exp(%q) : ?
    }
  } : ?, ?
})";
inline std::vector<SymBindings> CellScanSizes() {
  return {{{"t", 1}, {"n", 1}},
          {{"t", 2}, {"n", 4}},
          {{"t", 7}, {"n", 4}},
          {{"t", 0}, {"n", 2}},
          {{"t", 8}, {"n", 1}}};
}

/// From the end, over another axis, stacked on another one.
inline const char* const kCrossedScan =
    R"(graph (%s: f32[2], %x: f32[2, t], %k: f32[t, 2]) -> (%y, %z, %q) {
    %y, %z, %q = Scan(%s, %x, %k) {
      num_scan_inputs = 2,
      scan_input_axes = [1, 0],
      scan_input_directions = [1, 0],
      scan_output_axes = [1, 0],
      scan_output_directions = [0, 1],
      body = graph (%h: f32[2], %v: f32[2], %w: f32[2]) -> (%a, %b, %a) {
        %c = Mul(%h, %w) : ?
        %a = Add(%c, %v) : ?
        %b = Neg(%a) : ?
      }
    } : ?, ?, ?
  })";
inline std::vector<SymBindings> CrossedScanSizes() { return {{{"t", 1}}, {{"t", 5}}, {{"t", 6}}}; }

/// An If one of whose branches fits none of the shapes that come, as exporters write them.
inline const char* const kMisfitIf = R"(graph (%c: bool[], %x: f32[2, 3]) -> (%y) {
    %y = If(%c, %x) {
      num_captures = 1,
      then_branch = graph (%a: f32[2, 3]) -> (%b) { %b = Exp(%a) : ? },
      else_branch = graph (%a: ?) -> (%b) {
        %axes = Constant() {value = tensor i64[1] [0]} : ?
        %b = Squeeze(%a, %axes) : ?
      }
    } : ?
  })";

/// RNN, GRU or LSTM of t steps over b rows, 3 to 4 wide.
inline Graph RecurrentGraph(const std::string& op, const std::string& direction,
                            const std::string& rows = "b") {
  const int gates = op[0] == 'R' ? 1 : op[0] == 'G' ? 3 : 4;
  const int d = direction[0] == 'b' ? 2 : 1;
  return FromText(fmt::format(
      "graph (%x: f32[t, {7}, 3], %w: f32[{0}, {1}, 3], %r: f32[{0}, {1}, 4], "
      "%c: f32[{0}, {2}]) -> (%y, %h) {{\n  %y, %h{3} = {4}(%x, %w, %r, %c) {{direction = "
      "\"{5}\", hidden_size = 4}} : ?, ?{6}\n}}",
      d, 4 * gates, 8 * gates, gates == 4 ? ", %k" : "", op, direction, gates == 4 ? ", ?" : "",
      rows));
}

/// The outputs, and their gradients by all inputs of floats.
inline Graph WithGradients(Graph g) {
  g = ApplyPasses(std::move(g), "InferType,InferShape");
  std::vector<NodeEntry> xs;
  for (const NodePtr& p : g.inputs())
    if (IsFloat(g.GetAttr<TypeMap>("dtype")[NodeEntry(p)].dtype)) xs.emplace_back(p);
  std::vector<NodeEntry> outputs = g.outputs;
  const auto grads = Gradients(g, g.outputs, xs);
  outputs.insert(outputs.end(), grads.begin(), grads.end());
  g.outputs = outputs;
  return g;
}

}  // namespace weft::e2e
