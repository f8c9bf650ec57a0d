/// recurrent_gradient.cc: gradients of RNN, GRU and LSTM: those of the Scans that compute the same
/// (recurrent_scan.cc).
///
/// The Scans are built in a graph of their own, which is differentiated as any other, and only the
/// gradients come over; the steps run again (scan.cc), because the operators keep none. Gradients
/// of gradients follow from those of Scan.
#include "ops/util/body_gradient.h"
#include "recurrent.h"
#include "weft/core/pass/provide.h"

namespace weft::ops {

FGradient RecurrentGradient(Cell cell) {
  return [cell](const NodePtr& n, const std::vector<NodeEntry>& dy) {
    const std::vector<NodeEntry> in = n->inputs;
    std::vector<NodeEntry> dx(in.size());
    if (AllNull(dy)) return dx;
    // The operands and the gradients of the results become inputs of a graph of its own.
    Graph g;
    std::vector<NodeEntry> outer, operands, xs, ys, seeds;
    const auto input = [&](const NodeEntry& e, const Type& type) {
      outer.push_back(e);
      return NodeEntry(g.AddInput("", type, KnownShape(e)));
    };
    std::vector<size_t> slots;
    constexpr size_t kLengths = 4;
    for (size_t i = 0; i < in.size(); ++i) {
      operands.push_back(in[i] ? input(in[i], KnownType(in[i])) : NodeEntry());
      if (!in[i] || i == kLengths) continue;
      xs.push_back(operands[i]);
      slots.push_back(i);
    }
    const std::vector<NodeEntry> results = AsScans(cell, n, operands);
    for (size_t k = 0; k < dy.size(); ++k) {
      if (!dy[k]) continue;
      ys.push_back(results[k]);
      seeds.push_back(input(dy[k], KnownType(in[0])));
    }
    g.outputs = results;
    g = ProvideTypes(std::move(g));
    const std::vector<NodeEntry> grads = Gradients(g, ys, xs, seeds);
    const std::vector<NodeEntry> inlined = Inlined(g, grads, outer);
    for (size_t i = 0; i < slots.size(); ++i) dx[slots[i]] = inlined[i];
    return dx;
  };
}

}  // namespace weft::ops
