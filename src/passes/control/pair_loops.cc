/// pair_loops.cc: PairLoops. Two loops that do not read each other's results run at the same time.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      pairs loops of unequal work: one thread would wait for the other; nor loops of a
///              device, which gives all of them to one stream
///   cost       linear in nodes, once for each pair
///
///   a = Scan(h, x) {..};  b = Scan(k, y) {..}
///     ->  a, b = weft::Concurrent(h, x, k, y) {first: Scan(h, x) {..}; second: Scan(k, y) {..}}
///
/// The directions of a bidirectional network. A step of a loop is small, and threads that share it
/// wait for each other in every one; a loop each they wait once.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "loop_parts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

constexpr int64_t kFar = int64_t{1} << 40;

struct LoopWork {
  NodePtr node;
  int64_t trips = 0, step = 0;  ///< operations of an iteration
};

std::optional<int64_t> Elements(const Shape& s) {
  if (!s.is_static()) return std::nullopt;
  const SymInt n = s.num_elements();
  return n.is_const() && n.value() < kFar ? std::optional(n.value()) : std::nullopt;
}

/// Nothing where it is not known.
std::optional<LoopWork> WorkOf(const NodePtr& n, const ShapeMap& shapes, const TypeMap& types) {
  if (!IsOp(n, "Scan") || HasEffect(n)) return std::nullopt;
  const Graph body = TypedBody(n, "body", shapes, types);
  const auto& inside = body.GetAttr<ShapeMap>("shape");
  LoopWork work{n, 0, 0};
  for (const NodePtr& m : body.TopoOrder()) {
    if (m->is_variable() || Graph::ConstantOf(NodeEntry(m))) continue;
    if (HasControlBodies(m)) return std::nullopt;
    for (uint32_t k = 0; k < m->num_outputs(); ++k) {
      std::optional<int64_t> ops = Elements(inside[NodeEntry(m, k)]);
      if (!ops) return std::nullopt;
      if (IsOp(m, "MatMul") || IsOp(m, "Gemm")) {
        const Shape& a = inside[m->inputs[0]];
        const bool across = IsOp(m, "Gemm") && m->attr<int64_t>("transA") != 0;
        if (!a.is_static() || a.rank() == 0) return std::nullopt;
        ops = *ops *
              std::min(a[across ? 0 : a.rank() - 1].value(), kFar / std::max<int64_t>(*ops, 1));
      }
      work.step = std::min(work.step + *ops, kFar);
    }
  }
  const LoopParts scan(n);
  const Shape& x = shapes[n->inputs[scan.first_slice()]];
  if (!x.is_static() || x.rank() == 0) return std::nullopt;
  work.trips = x[scan.slice_axis(0, x.rank())].value();
  return work;
}

bool AreAlike(const LoopWork& a, const LoopWork& b) {
  const auto near = [](int64_t x, int64_t y) { return x <= 2 * y && y <= 2 * x; };
  return a.trips > 1 && b.trips > 1 && near(a.trips, b.trips) && near(a.step, b.step);
}

/// Is there a way from `a` to `b`, which stands behind it in `order`?
bool Reaches(const std::vector<NodePtr>& order, const NodePtr& a, const NodePtr& b) {
  std::unordered_set<NodeId> behind{a->id()};
  for (const NodePtr& n : order) {
    bool reads = std::any_of(n->control_deps.begin(), n->control_deps.end(),
                             [&](const Node* d) { return behind.count(d->id()) != 0; });
    for (const NodeEntry& e : n->inputs) reads = reads || (e.node && behind.count(e.node->id()));
    if (reads) behind.insert(n->id());
    if (n == b) return reads;
  }
  return false;
}

GraphPtr BodyWith(const NodePtr& loop, const std::vector<NodeEntry>& operands) {
  Graph body;
  std::vector<NodeEntry> inputs, own;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.emplace_back(body.AddInput("x" + std::to_string(i)));
  for (const NodeEntry& e : loop->inputs) {
    const auto at = std::find(operands.begin(), operands.end(), e);
    own.push_back(e.node ? inputs[size_t(at - operands.begin())] : NodeEntry());
  }
  const NodePtr copy = body.AddCopy(loop, own);
  body.SetAttr(copy, "parts", int64_t{1});  // it has a thread
  std::vector<NodeEntry> outputs;
  for (uint32_t k = 0; k < copy->num_outputs(); ++k) outputs.emplace_back(copy, k);
  body.outputs = outputs;
  return std::make_shared<const Graph>(std::move(body));
}

void Pair(Graph& g, const LoopWork& a, const LoopWork& b) {
  std::vector<NodeEntry> operands;
  for (const NodePtr& n : {a.node, b.node})
    for (const NodeEntry& e : n->inputs)
      if (e.node && std::find(operands.begin(), operands.end(), e) == operands.end())
        operands.push_back(e);
  const NodePtr made = g.AddNode(builtin::kConcurrent, operands,
                                 {{"first", BodyWith(a.node, operands)},
                                  {"second", BodyWith(b.node, operands)},
                                  {"num_captures", int64_t(operands.size())},
                                  {"work", std::min(a.step, b.step)}});
  uint32_t at = 0;
  for (const NodePtr& n : {a.node, b.node}) {
    std::vector<NodeEntry> results;
    for (uint32_t k = 0; k < n->num_outputs(); ++k) results.emplace_back(made, at++);
    ReplaceLoop(g, n, results);
  }
}

Graph PairLoops(Graph g, PassContext& ctx) {
  if (ctx.target().traits().device_memory) return g;
  std::vector<LoopWork> loops;
  for (const NodePtr& n : g.TopoOrder())
    if (const auto work = WorkOf(n, g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype")))
      loops.push_back(*work);
  bool any = false;
  // A pair is a new node, and may stand elsewhere in the order.
  std::vector<NodePtr> order = g.TopoOrder();
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    LoopWork &a = loops[i], &b = loops[i + 1];
    if (!AreAlike(a, b) || Reaches(order, a.node, b.node) || Reaches(order, b.node, a.node) ||
        !ctx.Fuel("paired", a.node))
      continue;
    Pair(g, a, b);
    ctx.Count("paired");
    order = g.TopoOrder();
    any = true;
    ++i;
  }
  if (any) g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(PairLoops)
    .describe("runs two loops that do not read each other's results at the same time")
    .set_body(PairLoops)
    .enters_bodies()
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("paired", "pairs of loops");

}  // namespace
}  // namespace weft
