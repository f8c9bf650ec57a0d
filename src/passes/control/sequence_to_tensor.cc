/// sequence_to_tensor.cc: SequenceToTensor. A sequence that a Loop only grows at its end, and of
/// which only whole, length or elements are read behind it, becomes a stacked result of the loop.
///   needs      shape
///   provides   -
///   preserves  -
///   never      touches a sequence that begins with an element, is read in the body, or whose
///              elements may differ in shape
///   cost       linear in nodes
///   source     what Chainer's and older PyTorch exporters write for a list that a loop appends to
///
///   s = Loop(n, c, SequenceEmpty()) {i, c, l -> c, SequenceInsert(l, v)}
///   y = ConcatFromSequence(s) {axis = 0}; a = SequenceAt(s, p); k = SequenceLength(s)
///     ->  t = Loop(n, c) {i, c -> c, v};  y = t with its first two axes as one;
///         a = Gather(t, p); k = the size of the first axis of t
///
/// Of no elements ConcatFromSequence is an error, and the tensor has none.
#include <algorithm>
#include <memory>
#include <optional>

#include "loop_parts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

constexpr size_t kFirstState = 2;  // of a Loop's operands and its body's inputs: behind M and cond

/// A state that is such a sequence.
struct Collected {
  NodePtr loop;
  size_t state = 0;  ///< its number among the states
  NodePtr insert;    ///< in the body
  int element_rank = 0;
};

/// Every use of the entry, none of them a control edge or an output of the graph.
std::optional<std::vector<NodePtr>> UsersOf(const Graph& g, const NodeEntry& e) {
  std::vector<NodePtr> users;
  for (const Use& u : e.node->uses())
    if (!u.control && u.user->inputs[u.slot] == e) users.emplace_back(u.user);
  const bool is_output = std::any_of(g.outputs.begin(), g.outputs.end(),
                                     [&](const NodeEntry& out) { return out == e; });
  if (is_output) return std::nullopt;
  return users;
}
bool IsReader(const NodePtr& n) {
  return IsOp(n, "ConcatFromSequence") || IsOp(n, "SequenceAt") || IsOp(n, "SequenceLength");
}
/// The body adds one element behind the others, and does nothing else with the sequence.
NodePtr FindInsert(const Graph& body, size_t state) {
  const NodeEntry before(body.inputs()[kFirstState + state]);
  const NodeEntry after = body.outputs[1 + state];
  const NodePtr insert = after.node;
  if (!IsOp(insert, "SequenceInsert") || !(insert->inputs[0] == before)) return {};
  if (insert->num_inputs() > 2 && insert->inputs[2].node) return {};  // somewhere else, perhaps
  const auto users = UsersOf(body, before);
  const bool once = users && users->size() == 1 && insert->uses().empty();
  const auto count = std::count(body.outputs.begin(), body.outputs.end(), after);
  return once && count == 1 && !(insert->inputs[1] == before) ? insert : NodePtr();
}

std::optional<Collected> FindCollected(const Graph& g, const NodePtr& loop) {
  const Graph& body = *loop->attr<GraphPtr>("body");
  for (size_t k = 0; k < LoopParts(loop).states; ++k) {
    const NodeEntry begin = loop->inputs[kFirstState + k];
    if (!begin.node || !IsOp(begin.node, "SequenceEmpty")) continue;
    const NodePtr insert = FindInsert(body, k);
    if (!insert) continue;
    const auto readers = UsersOf(g, NodeEntry(loop, uint32_t(k)));
    if (!readers || readers->empty() || !std::all_of(readers->begin(), readers->end(), IsReader))
      continue;
    // A position of one element is a scalar to SequenceAt, and not to Gather.
    const auto has_odd_position = [&](const NodePtr& r) {
      return IsOp(r, "SequenceAt") && (!g.GetAttr<ShapeMap>("shape")[r->inputs[1]].has_rank() ||
                                       g.GetAttr<ShapeMap>("shape")[r->inputs[1]].rank() != 0);
    };
    if (std::any_of(readers->begin(), readers->end(), has_odd_position)) continue;
    // Equal in all iterations: sizes of what comes from outside.
    const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
    const Graph typed = TypedBody(loop, "body", shapes, g.GetAttr<TypeMap>("dtype"));
    const Shape element = typed.GetAttr<ShapeMap>("shape")[insert->inputs[1]];
    if (!element.fully_known()) continue;
    std::vector<SymInt> told;
    for (const NodeEntry& e : loop->inputs)
      for (SymInt d : e.node ? shapes[e].dims() : std::vector<SymInt>())
        for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>()) told.push_back(s);
    // A state that changes its shape has the names of its first one inside, too.
    std::vector<SymInt> varying;
    const ShapeMap& inside = typed.GetAttr<ShapeMap>("shape");
    for (size_t s = 0; s < LoopParts(loop).states; ++s) {
      const NodeEntry e = loop->inputs[kFirstState + s];
      if (e.node && shapes[e].same(shapes[NodeEntry(loop, uint32_t(s))])) continue;
      const Shape& state = inside[NodeEntry(typed.inputs()[kFirstState + s])];
      for (SymInt d : state.has_rank() ? state.dims() : std::vector<SymInt>())
        for (SymInt x : d.known() ? d.Symbols() : std::vector<SymInt>()) varying.push_back(x);
    }
    const bool same = std::all_of(element.dims().begin(), element.dims().end(), [&](SymInt d) {
      return EverySymbol(d, [&](SymInt s) {
        return std::find(told.begin(), told.end(), s) != told.end() &&
               std::find(varying.begin(), varying.end(), s) == varying.end();
      });
    });
    if (same) return Collected{loop, k, insert, element.rank()};
  }
  return std::nullopt;
}

NodeEntry SizeOf(const NodeEntry& x, int64_t axis) {
  return ApplyOp("Shape", {x}, {{"start", axis}, {"end", axis + 1}});
}
/// ConcatFromSequence of the slices of `stack` along its first axis.
NodeEntry Joined(const NodeEntry& stack, const NodePtr& join, int element_rank) {
  const bool stacked = join->attr<int64_t>("new_axis") != 0;
  int64_t axis = join->attr<int64_t>("axis");
  if (axis < 0) axis += element_rank + (stacked ? 1 : 0);
  NodeEntry x = stack;
  if (axis > 0) {
    Ints perm;
    for (int64_t d = 1; d <= axis; ++d) perm.push_back(d);
    perm.push_back(0);
    for (int64_t d = axis + 1; d <= element_rank; ++d) perm.push_back(d);
    x = ApplyOp("Transpose", {x}, {{"perm", perm}});
  }
  if (stacked) return x;
  std::vector<NodeEntry> sizes;
  if (axis > 0) sizes.push_back(ApplyOp("Shape", {x}, {{"end", axis}}));
  sizes.push_back(SizeOf(x, axis) * SizeOf(x, axis + 1));
  if (axis + 1 < element_rank) sizes.push_back(ApplyOp("Shape", {x}, {{"start", axis + 2}}));
  const NodeEntry target =
      sizes.size() == 1 ? sizes[0] : ApplyOp("Concat", sizes, {{"axis", int64_t{0}}});
  return ApplyOp("Reshape", {x, target}, {{"allowzero", int64_t{1}}});
}
bool CanJoin(const NodePtr& join, int element_rank) {
  const bool stacked = join->attr<int64_t>("new_axis") != 0;
  const int64_t rank = element_rank + (stacked ? 1 : 0), axis = join->attr<int64_t>("axis");
  return rank > 0 && axis >= -rank && axis < rank;  // else it is an error, which it stays
}

NodeEntry ReadStack(const NodeEntry& stack, const NodePtr& reader, int element_rank) {
  if (IsOp(reader, "SequenceAt"))
    return ApplyOp("Gather", {stack, reader->inputs[1]}, {{"axis", int64_t{0}}});
  if (IsOp(reader, "SequenceLength"))
    return ApplyOp("Squeeze", {SizeOf(stack, 0), IntsLike(stack, {0})});
  return Joined(stack, reader, element_rank);
}

void StackElements(Graph& g, const Collected& c) {
  Graph body = *c.loop->attr<GraphPtr>("body");
  const NodeEntry element = body.at(c.insert->inputs[1]);
  std::vector<NodePtr> inputs = body.inputs();
  std::vector<NodeEntry> outputs = body.outputs, operands = c.loop->inputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i) names.push_back(body.OutputName(i));
  const auto drop = [](auto* list, size_t at) { list->erase(list->begin() + long(at)); };
  drop(&inputs, kFirstState + c.state);
  drop(&operands, kFirstState + c.state);
  const std::string name = names[1 + c.state];
  drop(&outputs, 1 + c.state);
  drop(&names, 1 + c.state);
  outputs.push_back(element);
  names.push_back(name);
  body.outputs = outputs;
  for (size_t i = 0; i < names.size(); ++i) body.SetOutputName(i, names[i]);
  body.EraseDead();
  body.SetInputs(inputs);
  body.EraseDead();
  AttrDict attrs = c.loop->attrs.dict;
  attrs["body"] = std::make_shared<const Graph>(std::move(body));
  const NodePtr made = g.AddNode(c.loop->op(), operands, std::move(attrs), c.loop->attrs.name);
  const NodeEntry stack(made, uint32_t(outputs.size() - 2));
  const std::vector<NodePtr> readers = *UsersOf(g, NodeEntry(c.loop, uint32_t(c.state)));
  for (const NodePtr& reader : readers) {
    g.ReplaceNode(reader, {ReadStack(stack, reader, c.element_rank)});
    g.Erase(reader);
  }
  std::vector<NodeEntry> to;
  for (uint32_t k = 0; k < c.loop->num_outputs(); ++k)
    to.push_back(k == c.state ? NodeEntry() : NodeEntry(made, k < c.state ? k : k - 1));
  ReplaceLoop(g, c.loop, to);
}

Graph SequenceToTensor(Graph g, PassContext& ctx) {
  std::vector<NodeId> loops;
  for (const NodePtr& n : g.TopoOrder())
    if (IsOp(n, "Loop")) loops.push_back(n->id());
  for (const NodeId id : loops) {
    NodePtr loop = g.node(id);
    // One that has lost a state is another node, and may have more of them.
    while (const std::optional<Collected> c = FindCollected(g, loop)) {
      const auto readers = *UsersOf(g, NodeEntry(loop, uint32_t(c->state)));
      const bool can = std::all_of(readers.begin(), readers.end(), [&](const NodePtr& r) {
        return !IsOp(r, "ConcatFromSequence") || CanJoin(r, c->element_rank);
      });
      if (!can || !ctx.Fuel("stack", loop)) break;
      const NodeId next = g.id_bound();
      StackElements(g, *c);
      g = ProvideTypes(std::move(g));
      loop = g.node(next);
    }
  }
  g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(SequenceToTensor)
    .describe("sequences that a Loop only appends to become stacked results of it")
    .set_body(SequenceToTensor)
    .enters_bodies()
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .keeps_onnx()
    .rewrite("stack", "a state of a Loop that collects one element in each iteration");

}  // namespace
}  // namespace weft
