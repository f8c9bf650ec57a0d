/// body_gradient.cc: bodies are differentiated by the pass Gradient on a copy of them.
///
/// What a body computes is computed again where its gradient reads it, but for products: of each
/// iteration the states are kept that are read, and what would have to be multiplied again.
#include "body_gradient.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/op.h"

namespace weft::ops {
namespace {

/// May a gradient flow into a value of that type? Where it is not known it may.
bool Carries(const Type& t) {
  return t.is_tensor() && (t.dtype == DType::kUnknown || IsFloat(t.dtype) ||
                           t.dtype == DType::kC64 || t.dtype == DType::kC128);
}
/// The part of a shape that needs no symbols: what an input of a body may
/// declare wherever it stands.
Shape WithoutSymbols(const Shape& s) {
  if (!s.has_rank()) return s;
  std::vector<SymInt> dims = s.dims();
  for (SymInt& d : dims)
    if (!d.known() || !d.is_const()) d = SymInt();
  return Shape(std::move(dims));
}
/// The innermost node, in bodies of bodies, because of which `n` gives other results
/// when it runs again.
NodePtr Culprit(NodePtr n) {
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const auto& [name, value] : n->attrs.dict) {
      if (!value.is<GraphPtr>() || !value.get<GraphPtr>()) continue;
      const std::vector<NodePtr> order = value.get<GraphPtr>()->TopoOrder();
      const auto it = std::find_if_not(order.begin(), order.end(), IsRepeatable);
      if (it == order.end()) continue;
      n = *it;
      deeper = true;
      break;
    }
  }
  return n;
}
/// Throws where `outputs` need an operator with effects, or one that draws other numbers
/// when it runs again.
void CheckRepeatable(const NodePtr& node, const std::vector<NodeEntry>& outputs) {
  DFSVisit(outputs, [&](const NodePtr& n) {
    WEFT_CHECK(IsRepeatable(n), kUnsupported,
               "the gradient of {} would run {} of its body again, which gives another result then",
               node->Describe(), Culprit(n)->Describe());
  });
}

}  // namespace

BodyGradient DifferentiateBody(const Graph& body, const std::vector<Type>& types,
                               const std::vector<Shape>& shapes, const std::vector<bool>& seeded) {
  BodyGradient b;
  b.graph = body;
  const Graph inferred =
      (shapes.empty() ? InferTypes(body, types) : InferBody(body, types, shapes)).graph;
  const TypeMap known = inferred.GetAttr<TypeMap>("dtype");
  const ShapeMap known_shapes = inferred.AttrOr<ShapeMap>("shape");
  for (const NodePtr& n : b.graph.inputs()) {
    const NodeEntry e(n);
    if (known[e].is_tensor() && known[e].known()) b.graph.SetAttr(n, "dtype", known[e].dtype);
    if (!DeclaredShape(n)) b.graph.SetAttr(n, "shape", WithoutSymbols(known_shapes[e]));
    b.operands.push_back(e);
  }
  // Only for the rules: bodies are inferred anew wherever they stand.
  b.graph.SetAttr("dtype", known);
  if (!shapes.empty()) b.graph.SetAttr("shape", known_shapes);
  b.outputs = b.graph.outputs;
  std::vector<NodeEntry> ys, dys, xs;
  for (size_t k = 0; k < b.outputs.size(); ++k) {
    b.seeds.emplace_back();
    if (!seeded[k] || !Carries(known[b.outputs[k]])) continue;
    const NodeEntry y = b.outputs[k];
    b.seeds[k] = NodeEntry(b.graph.AddInput("", known[y], WithoutSymbols(known_shapes[y])));
    ys.push_back(b.outputs[k]);
    dys.push_back(b.seeds[k]);
  }
  for (const NodeEntry& e : b.operands)
    if (Carries(known[e])) xs.push_back(e);
  Gradients(b.graph, ys, xs, dys);
  const GradientMap map = b.graph.GetAttr<GradientMap>("gradient_of");
  for (const NodeEntry& e : b.operands)
    b.gradients.push_back(Carries(known[e]) ? map.find(b.graph, e) : NodeEntry());
  return b;
}

GraphPtr ExtractBody(const NodePtr& node, const std::vector<NodeEntry>& inputs,
                     const std::vector<NodeEntry>& outputs) {
  CheckRepeatable(node, outputs);
  std::vector<NodeEntry> all = outputs;
  all.insert(all.end(), inputs.begin(), inputs.end());
  Graph body;
  all = body.Import(all);
  std::vector<NodePtr> variables;
  for (size_t i = outputs.size(); i < all.size(); ++i) variables.push_back(all[i].node);
  all.resize(outputs.size());
  body.outputs = all;
  body.SetInputs(variables);
  return std::make_shared<const Graph>(std::move(body));
}

std::set<NodeId> VariablesBehind(const std::vector<NodeEntry>& outputs) {
  std::set<NodeId> out;
  DFSVisit(outputs, [&](const NodePtr& n) {
    if (n->is_variable()) out.insert(n->id());
  });
  return out;
}

std::vector<Type> KnownTypes(const NodePtr& n, size_t first) {
  std::vector<Type> types;
  for (size_t i = first; i < n->num_inputs(); ++i) types.push_back(KnownType(n->inputs[i]));
  return types;
}
std::vector<Shape> KnownShapes(const NodePtr& n, size_t first) {
  std::vector<Shape> shapes;
  for (size_t i = first; i < n->num_inputs(); ++i) shapes.push_back(KnownShape(n->inputs[i]));
  return shapes;
}

std::vector<NodeEntry> Inlined(const Graph& g, const std::vector<NodeEntry>& entries,
                               const std::vector<NodeEntry>& operands) {
  const std::vector<NodePtr>& inputs = g.inputs();
  const NodeEntry near =
      *std::find_if(operands.begin(), operands.end(), [](const NodeEntry& e) { return bool(e); });
  std::map<NodeId, NodePtr> twin;
  const auto at = [&](const NodeEntry& e) -> NodeEntry {
    if (!e) return {};
    if (e.node->is_variable())
      return operands.at(size_t(std::find(inputs.begin(), inputs.end(), e.node) - inputs.begin()));
    return {twin.at(e.node->id()), e.index};
  };
  std::vector<NodeEntry> heads;
  for (const NodeEntry& e : entries)
    if (e) heads.push_back(e);
  DFSVisit(heads, [&](const NodePtr& n) {
    if (n->is_variable()) return;
    if (const TensorPtr value = Graph::ConstantOf(NodeEntry(n))) {
      twin[n->id()] = ConstantLike(near, value).node;
      return;
    }
    std::vector<NodeEntry> in;
    for (const NodeEntry& e : n->inputs) in.push_back(at(e));
    twin[n->id()] = ApplyOp(n->op()->name.c_str(), in, n->attrs.dict).node;
  });
  std::vector<NodeEntry> out;
  for (const NodeEntry& e : entries) out.push_back(at(e));
  return out;
}

namespace {

/// The body of the run backwards in the making, and the operands of it.
struct BackwardBody {
  std::vector<NodeEntry> inputs, outputs, operands;
  void Take(const NodeEntry& input, const NodeEntry& operand) {
    inputs.push_back(input);
    operands.push_back(operand);
  }
};

/// Which outputs of the body have gradients: those that are asked for, and those of the states that
/// they come from, over iterations as well.
std::vector<bool> SeededOutputs(const Recurrence& r, const InferredBody& body,
                                const std::vector<NodeEntry>& dy) {
  const TypeMap& types = body.graph.GetAttr<TypeMap>("dtype");
  std::vector<bool> seeded(r.first_output, false), seen(body.graph.id_bound(), false);
  std::map<NodeId, size_t> state_of;
  for (size_t k = 0; k < r.states; ++k)
    state_of[body.graph.inputs()[r.first_input + k]->id()] = r.first_output + k;
  std::vector<NodeEntry> todo;
  for (size_t k = 0; k < dy.size(); ++k) {
    seeded.push_back(bool(dy[k]));
    if (dy[k]) todo.push_back(body.graph.outputs[r.first_output + k]);
  }
  while (!todo.empty()) {
    const NodeEntry e = todo.back();
    todo.pop_back();
    if (!e || seen[e.node->id()] || !Carries(types[e])) continue;
    seen[e.node->id()] = true;
    todo.insert(todo.end(), e.node->inputs.begin(), e.node->inputs.end());
    const auto state = state_of.find(e.node->id());
    if (state == state_of.end() || seeded[state->second]) continue;
    seeded[state->second] = true;
    todo.push_back(body.graph.outputs[state->second]);
  }
  return seeded;
}

/// Does `n` take longer to compute again than to read? Matmuls of slices alone do not: they are one
/// over all steps (BatchScan).
bool IsDear(const NodePtr& n, bool of_states) {
  static const auto& kinds = Op::GetAttr<FFuseKind>("FFuseKind");
  const FuseKind* kind = n->is_variable() ? nullptr : kinds.find(n->op());
  return kind && *kind == FuseKind::kAnchor && n->num_outputs() == 1 &&
         (of_states || (!IsOp(n, "MatMul") && !IsOp(n, "Gemm")));
}

/// Chooses of the body what is kept of each iteration beside its inputs, and puts inputs of the
/// body run backwards in its place.
///
///   h = Tanh(MatMul(s, w) + x), and the gradient reads h  ->  h is kept
class Keeper {
 public:
  /// `outputs`: of the body run backwards.
  Keeper(const Recurrence& r, BodyGradient* b, std::vector<NodeEntry>* outputs)
      : b_(b), outputs_(outputs), bound_(r.body->id_bound()), outer_(SymbolsOf(r.shapes)) {
    for (size_t i = 0; i < r.first_capture(); ++i)
      (i < r.first_slice() ? of_states_ : of_slices_).insert(b->operands[i].node->id());
  }
  /// What is kept, and the inputs that stand for it.
  std::vector<std::pair<NodeEntry, NodeEntry>> Run() {
    std::vector<NodePtr> dear;
    DFSVisit(*outputs_, [&](const NodePtr& n) {
      if (n->id() >= bound_) return;
      for (auto* set : {&of_states_, &of_slices_})
        if (std::any_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
              return e.node && set->count(e.node->id()) != 0;
            }))
          set->insert(n->id());
      const bool of_states = of_states_.count(n->id()) != 0;
      if ((of_states || of_slices_.count(n->id()) != 0) && IsDear(n, of_states)) dear.push_back(n);
    });
    for (auto n = dear.rbegin(); n != dear.rend(); ++n) Keep(*n);
    return std::move(kept_);
  }

 private:
  void Keep(const NodePtr& n) {
    read_.clear();
    DFSVisit(*outputs_, [&](const NodePtr& m) { read_.insert(m->id()); });
    if (!read_.count(n->id())) return;
    NodeEntry e(n);
    while (const NodePtr next = OnlyCheapReader(e)) e = NodeEntry(next);
    // What changes its dimensions from one iteration to the next cannot be stacked.
    const Shape shape = KnownShapeOf(e);
    if (!shape.fully_known() || !std::all_of(shape.dims().begin(), shape.dims().end(),
                                             [&](SymInt d) { return IsOuter(d, outer_); }))
      return;
    const NodeEntry input(b_->graph.AddInput("", types_[e], WithoutSymbols(shape)));
    b_->graph.ReplaceUses(e, input);
    for (NodeEntry& out : *outputs_)
      if (out == e) out = input;
    kept_.emplace_back(e, input);
  }
  /// The element-wise node of the body that alone reads `e`, and is no larger.
  NodePtr OnlyCheapReader(const NodeEntry& e) const {
    static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
    NodePtr reader;
    for (const Use& u : e.node->uses()) {
      if (!read_.count(u.user->id()) || reader == NodePtr(u.user)) continue;
      if (reader) return nullptr;
      reader = u.user;
    }
    if (!reader || reader->id() >= bound_ || reader->num_outputs() != 1) return nullptr;
    const FCodeGen* f = code.find(reader->op());
    const bool is_output = std::count(outputs_->begin(), outputs_->end(), e) != 0;
    return f && f->elementwise && !is_output && KnownShapeOf(e).fully_known() &&
                   KnownShapeOf(e).same(KnownShapeOf(NodeEntry(reader)))
               ? reader
               : nullptr;
  }
  Shape KnownShapeOf(const NodeEntry& e) const { return shapes_.find(e) ? shapes_[e] : Shape(); }

  BodyGradient* b_;
  std::vector<NodeEntry>* outputs_;
  const NodeId bound_;
  const std::vector<SymInt> outer_;  // symbols that mean the same in all iterations
  const ShapeMap shapes_ = b_->graph.AttrOr<ShapeMap>("shape");
  const TypeMap types_ = b_->graph.AttrOr<TypeMap>("dtype");
  std::set<NodeId> of_states_, of_slices_, read_;
  std::vector<std::pair<NodeEntry, NodeEntry>> kept_;
};

/// Values of the body, stacked over the iterations.
struct Stack {
  NodeEntry all;
  int64_t direction = 0;  ///< 1: the last one comes first
};

/// What gives the value.
NodeEntry SourceOf(NodeEntry e) {
  while (IsOp(e.node, builtin::kIdentity)) e = e.node->inputs[0];
  return e;
}

/// The values that a state has had in front of each iteration, of the results of the node: where
/// what it becomes is one of these, they are that and its first value.
///
///   (s, x) -> (s', y = s')    S = (s0, y) without the last one
Stack StackedState(const Recurrence& r, size_t k, const Graph& body) {
  const NodeEntry next = SourceOf(body.outputs[r.first_output + k]);
  const size_t kept = r.first_output + r.states;
  for (size_t j = 0; j < r.results; ++j) {
    if (SourceOf(body.outputs[kept + j]) != next || EntryOr(r.result_axes, j, 0) != 0) continue;
    const bool backwards = EntryOr(r.result_directions, j, 0) == 1;
    const NodeEntry y(r.node, uint32_t(r.states + j)),
        first = ApplyOp("Unsqueeze", {r.operand(r.first_input + k), IntsLike(y, {0})});
    const NodeEntry all =
        ApplyOp("Concat", backwards ? std::vector{y, first} : std::vector{first, y}, {{"axis", 0}});
    const NodeEntry from = IntsLike(y, {backwards ? 1 : 0}),
                    to = IntsLike(y, {backwards ? INT64_MAX : -1});
    return {ApplyOp("Slice", {all, from, to, IntsLike(y, {0})}), backwards ? 1 : 0};
  }
  return {};
}

/// These values of the body in all iterations: as the node itself gives them, else by a node that
/// runs the body again (which MergeLoops makes one with it).
std::vector<Stack> Stacked(const Recurrence& r, const std::vector<NodeEntry>& values) {
  const Graph& body = *r.node->attr<GraphPtr>("body");
  const std::vector<NodeEntry>& outputs = body.outputs;
  const size_t kept = r.first_output + r.states;
  std::vector<Stack> stacks(values.size());
  std::vector<NodeEntry> rerun(outputs.begin(), outputs.begin() + long(kept));
  for (size_t i = 0; i < values.size(); ++i) {
    const NodeEntry value = SourceOf({body.node(values[i].node->id()), values[i].index});
    for (size_t k = 0; k < r.results && !stacks[i].all; ++k)
      if (SourceOf(outputs[kept + k]) == value && EntryOr(r.result_axes, k, 0) == 0)
        stacks[i] = {NodeEntry(r.node, uint32_t(r.states + k)), EntryOr(r.result_directions, k, 0)};
    for (size_t k = 0; k < r.states && !stacks[i].all; ++k)
      if (NodeEntry(body.inputs()[r.first_input + k]) == value)
        stacks[i] = StackedState(r, k, body);
    if (!stacks[i].all) rerun.push_back(value);
  }
  if (rerun.size() == kept) return stacks;
  AttrDict attrs = r.node->attrs.dict;
  attrs["body"] = ExtractBody(
      r.node, std::vector<NodeEntry>(body.inputs().begin(), body.inputs().end()), rerun);
  // As the slices lie, which the run backwards reads beside them.
  const int64_t direction = EntryOr(r.slice_directions, 0, 0);
  attrs.erase("scan_output_axes");
  attrs.erase("scan_output_directions");
  if (direction != 0) attrs["scan_output_directions"] = Ints(rerun.size() - kept, direction);
  const NodePtr run = ApplyOp(r.node->op()->name.c_str(), r.node->inputs, attrs).node;
  uint32_t next = uint32_t(r.states);
  for (Stack& s : stacks)
    if (!s.all) s = {NodeEntry(run, next++), direction};
  return stacks;
}

}  // namespace

std::vector<NodeEntry> RunBackwards(const Recurrence& r, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> dx(r.states + r.slices + r.captures);
  if (AllNull(dy)) return dx;
  std::vector<Shape> shapes = r.shapes, states;
  const InferredBody inferred = InferStates(*r.body, r.types, shapes, nullptr, r.first_input,
                                            r.states, r.first_output, &states);
  std::copy(states.begin(), states.end(), shapes.begin() + long(r.first_input));
  BodyGradient b = DifferentiateBody(*r.body, r.types, shapes, SeededOutputs(r, inferred, dy));
  const auto seed = [&](size_t output) { return b.seeds[r.first_output + output]; };
  BackwardBody back;
  constexpr size_t kUnused = ~size_t{0};
  std::vector<size_t> from;  // of dx, what each result is
  const auto result = [&](size_t number, const NodeEntry& e) {
    from.push_back(number);
    back.outputs.push_back(e);
  };
  // States: the adjoints, and the sums over the iterations.
  for (size_t k = 0; k < r.states; ++k) {
    if (!seed(k)) continue;
    const NodeEntry g = b.gradients[r.first_input + k];
    back.Take(seed(k), dy[k] ? dy[k] : ZerosLike(r.operand(r.first_input + k)));
    // An adjoint that is neither asked for nor handed back stays the zeros that it begins with.
    result(g || dy[k] ? k : kUnused, g ? g : ZerosLike(seed(k)));
  }
  for (size_t k = 0; k < r.captures; ++k) {
    const NodeEntry g = b.gradients[r.first_capture() + k];
    if (!g) continue;
    const NodeEntry capture = r.operand(r.first_capture() + k);
    const NodeEntry sum(
        b.graph.AddInput("", KnownType(capture), WithoutSymbols(KnownShape(capture))));
    back.Take(sum, ZerosLike(capture));
    result(r.states + r.slices + k, sum + g);
  }
  // Slices: what the gradients read of each iteration, from the last one on.
  Ints axes, directions, result_axes, result_directions;
  const auto slice = [&](const NodeEntry& input, const NodeEntry& operand, int64_t axis,
                         int64_t direction) {
    back.Take(input, operand);
    axes.push_back(axis);
    directions.push_back(1 - direction);
  };
  for (size_t k = 0; k < r.slices; ++k) {
    const NodeEntry g = b.gradients[r.first_slice() + k];
    if (!g) continue;
    result(r.states + k, g);
    result_axes.push_back(EntryOr(r.slice_axes, k, 0));
    result_directions.push_back(1 - EntryOr(r.slice_directions, k, 0));
  }
  if (std::all_of(from.begin(), from.end(), [](size_t i) { return i == kUnused; })) return dx;
  const auto kept = Keeper(r, &b, &back.outputs).Run();
  const std::set<NodeId> read = VariablesBehind(back.outputs);
  const auto is_read = [&](const NodeEntry& input) { return read.count(input.node->id()) > 0; };
  std::vector<NodeEntry> stacked, inputs;  // what of the body, and for what it stands
  for (size_t i = 0; i < r.first_slice(); ++i)
    if (is_read(b.operands[i])) {
      stacked.push_back(b.operands[i]);
      inputs.push_back(b.operands[i]);
    }
  for (const auto& [value, input] : kept)
    if (is_read(input)) {
      stacked.push_back(value);
      inputs.push_back(input);
    }
  for (size_t k = 0; k < r.slices; ++k)
    if (is_read(b.operands[r.first_slice() + k]))
      slice(b.operands[r.first_slice() + k], r.operand(r.first_slice() + k),
            EntryOr(r.slice_axes, k, 0), EntryOr(r.slice_directions, k, 0));
  for (size_t k = 0; k < r.results; ++k)
    if (const NodeEntry e = seed(r.states + k))
      slice(e, dy[r.states + k], EntryOr(r.result_axes, k, 0), EntryOr(r.result_directions, k, 0));
  // The number of iterations is that of the slices, so there has to be one.
  if (axes.empty() && stacked.empty()) {
    if (r.slices > 0) {
      slice(b.operands[r.first_slice()], r.operand(r.first_slice()), EntryOr(r.slice_axes, 0, 0),
            EntryOr(r.slice_directions, 0, 0));
    } else {
      stacked.push_back(b.operands[0]);
      inputs.push_back(b.operands[0]);
    }
  }
  const std::vector<Stack> stacks = Stacked(r, stacked);
  for (size_t i = 0; i < stacked.size(); ++i)
    slice(inputs[i], stacks[i].all, 0, stacks[i].direction);
  int64_t captures = 0;
  for (size_t k = 0; k < r.captures; ++k) {
    if (!is_read(b.operands[r.first_capture() + k])) continue;
    back.Take(b.operands[r.first_capture() + k], r.operand(r.first_capture() + k));
    ++captures;
  }
  const NodeEntry run = ApplyOp("Scan", back.operands,
                                {{"body", ExtractBody(r.node, back.inputs, back.outputs)},
                                 {"num_scan_inputs", int64_t(axes.size())},
                                 {"num_captures", captures},
                                 {"scan_input_axes", axes},
                                 {"scan_input_directions", directions},
                                 {"scan_output_axes", result_axes},
                                 {"scan_output_directions", result_directions}});
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != kUnused) dx[from[i]] = NodeEntry(run.node, uint32_t(i));
  return dx;
}

}  // namespace weft::ops
