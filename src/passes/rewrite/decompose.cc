/// decompose.cc: Decompose. Operators that others together compute (FDecompose), as these.
///   needs      -
///   provides   -
///   preserves  -
///   never      runs where the target cannot compile the bodies of a Scan: one operator is less for
///              the interpreter than many
///   cost       linear in nodes
///
///   LSTM(x, w, r)  ->  Scan(h, c, MatMul(x, w), r) {...}
#include "weft/core/op/decompose.h"

#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

Graph Decompose(Graph g, PassContext& ctx) {
  static const auto& decompose = Op::GetAttr<FDecompose>("FDecompose");
  if (!ctx.target().traits().kernels) return g;
  bool any = false;
  for (NodePtr n : g.TopoOrder()) {
    const FDecompose* f = n->is_variable() ? nullptr : decompose.find(n->op());
    if (!f) continue;
    if (!ctx.Fuel("decomposed", n)) break;
    g.ReplaceNode(n, (*f)(n));
    ctx.Count("decomposed");
    any = true;
  }
  if (any) g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(Decompose)
    .describe("replaces operators that others together compute (LSTM, GRU, RNN) by these")
    .set_body(Decompose)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .statistic("decomposed", "operators replaced");

}  // namespace
}  // namespace weft
