/// loop.cc: bodies of loops as graphs of their own, with what they read of the graph around as
/// further inputs.
#include "tinyflow/loop.h"

#include "weft/core/graph/attr.h"
#include "weft/core/graph/variable.h"
#include "weft/support/check.h"

namespace tf {
namespace {

/// The body of a node of the default graph, under construction. While it lives, it is the default
/// graph itself.
class Body {
 public:
  explicit Body(const char* loop) : loop_(loop), scope_(Opened()), g_(default_graph()) {}
  ~Body() { g_->closed = true; }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  Tensor Input(const std::string& name, DType dtype, const weft::Shape& shape) {
    return Tensor(g_, g_->graph.AddInput(name, dtype, shape), dtype);
  }
  /// Inputs like the operands.
  Tensors Inputs(const std::string& name, const Tensors& operands) {
    Tensors inputs;
    for (const Tensor& t : operands)
      inputs.push_back(Input(name + std::to_string(inputs.size()), t.dtype(), t.shape()));
    return inputs;
  }
  void Return(const Tensor& output) {
    WEFT_CHECK(output, kApiMisuse, "{}: the body gives a null tensor", loop_);
    outputs_.push_back(inside(output, g_));
  }
  /// A boolean that decides whether there is another iteration.
  void ReturnCondition(const Tensor& condition) {
    WEFT_CHECK(condition && condition.dtype() == boolean, kTypeMismatch,
               "{}: the condition is not a boolean", loop_);
    Return(condition);
  }
  /// `next` takes the place of `state`.
  void ReturnState(const Tensors& state, const Tensors& next) {
    WEFT_CHECK(next.size() == state.size(), kArity, "{}: a state of {} tensors, the body gives {}",
               loop_, state.size(), next.size());
    for (size_t i = 0; i < next.size(); ++i) {
      Return(next[i]);
      WEFT_CHECK(next[i].dtype() == state[i].dtype(), kTypeMismatch,
                 "{}: state {} is {} before an iteration and {} after it", loop_, i,
                 weft::DTypeName(state[i].dtype()), weft::DTypeName(next[i].dtype()));
      const weft::Shape before = state[i].shape(), after = outputs_.back().shape();
      WEFT_CHECK(!before.is_static() || !after.is_static() || before.same(after), kShapeMismatch,
                 "{}: state {} has shape {} before an iteration and {} after it", loop_, i,
                 before.ToString(), after.ToString());
    }
  }

  /// What the body reads of the graph around: operands behind all others.
  Tensors Captures() const {
    Tensors outside;
    for (const auto& c : g_->captured) outside.push_back(c.first);
    return outside;
  }
  /// The whole of it; nothing is added any more.
  weft::GraphPtr Graph() const {
    weft::Graph body = g_->graph;
    std::vector<weft::NodeEntry> outputs;
    for (const Tensor& t : outputs_) outputs.push_back(body.at(t.entry()));
    body.outputs = outputs;
    // Sizes are those of the operands of a run, in whose symbols they are written again.
    for (const weft::NodePtr& n : body.inputs())
      if (const auto shape = weft::DeclaredShape(n); shape && !shape->is_static())
        body.SetAttr(n, "shape", weft::Shape());
    body.EraseDead();
    return std::make_shared<const weft::Graph>(std::move(body));
  }

 private:
  static GraphPtr Opened() {
    auto g = std::make_shared<GraphState>();
    g->outer = default_graph();
    g->scope = g->outer->scope;
    return g;
  }
  const char* loop_;
  GraphScope scope_;
  GraphPtr g_;
  Tensors outputs_;
};

void CheckOperands(const char* loop, const Tensors& operands) {
  for (const Tensor& t : operands) WEFT_CHECK(t, kApiMisuse, "{}: an operand is null", loop);
}

/// Outputs `first` and further of a node, in the dtypes of `like`.
Tensors Outputs(const Tensor& node, size_t first, const Tensors& like) {
  Tensors outputs;
  for (const Tensor& t : like)
    outputs.emplace_back(node.graph(),
                         weft::NodeEntry(node.entry().node, uint32_t(first + outputs.size())),
                         t.dtype());
  return outputs;
}

/// A Loop: `count` may be null, `condition` too. `step` gives the body's outputs to it.
Tensors Loop(
    const char* name, const Tensor& count, const Tensor& condition, const Tensors& state,
    const std::function<void(Body*, const Tensor& i, const Tensor& go, const Tensors&)>& step) {
  Tensors operands{count, condition};
  operands.insert(operands.end(), state.begin(), state.end());
  weft::AttrDict attrs;
  {
    Body body(name);
    const Tensor i = body.Input("i", int64, weft::Shape::Scalar()),
                 go = body.Input("go", boolean, weft::Shape::Scalar());
    step(&body, i, go, body.Inputs("state", state));
    const Tensors captures = body.Captures();
    operands.insert(operands.end(), captures.begin(), captures.end());
    attrs = {{"body", body.Graph()}, {"num_captures", int64_t(captures.size())}};
  }
  return Outputs(make_node("Loop", operands, std::move(attrs), float32, name), 0, state);
}

}  // namespace

Tensors while_loop(const std::function<Tensor(const Tensors&)>& condition,
                   const std::function<Tensors(const Tensors&)>& body, const Tensors& state) {
  CheckOperands("while_loop", state);
  const Tensor first = condition(state);
  WEFT_CHECK(first && first.dtype() == boolean, kTypeMismatch,
             "while_loop: the condition is not a boolean");
  return Loop("while_loop", {}, first, state,
              [&](Body* b, const Tensor&, const Tensor&, const Tensors& now) {
                const Tensors next = body(now);
                b->ReturnCondition(condition(next));
                b->ReturnState(now, next);
              });
}

Tensors for_loop(const Tensor& count,
                 const std::function<Tensors(const Tensor&, const Tensors&)>& body,
                 const Tensors& state) {
  CheckOperands("for_loop", state);
  WEFT_CHECK(count && count.dtype() == int64, kTypeMismatch, "for_loop: the count is not i64");
  const Tensor always = constant(1, boolean);
  return Loop("for_loop", count, always, state,
              [&](Body* b, const Tensor& i, const Tensor& go, const Tensors& now) {
                const Tensors next = body(i, now);
                b->ReturnCondition(go);
                b->ReturnState(now, next);
              });
}

Scanned scan(const std::function<Scanned(const Tensors&, const Tensors&)>& step,
             const Tensors& state, const Tensors& sequences, bool backwards) {
  CheckOperands("scan", state);
  CheckOperands("scan", sequences);
  WEFT_CHECK(!sequences.empty(), kArity, "scan: nothing to go along");
  Tensors operands = state;
  operands.insert(operands.end(), sequences.begin(), sequences.end());
  weft::AttrDict attrs;
  Scanned one;
  {
    Body body("scan");
    const Tensors now = body.Inputs("state", state);
    Tensors slices;
    for (const Tensor& t : sequences) {
      const weft::Shape s = t.shape();
      WEFT_CHECK(!s.has_rank() || s.rank() > 0, kShapeMismatch, "scan: a scalar has no slices");
      slices.push_back(body.Input(
          "slice" + std::to_string(slices.size()), t.dtype(),
          s.has_rank() ? weft::Shape({s.dims().begin() + 1, s.dims().end()}) : weft::Shape()));
    }
    one = step(now, slices);
    body.ReturnState(now, one.state);
    for (const Tensor& t : one.outputs) body.Return(t);
    const Tensors captures = body.Captures();
    operands.insert(operands.end(), captures.begin(), captures.end());
    const int64_t from_end = backwards ? 1 : 0;
    attrs = {{"body", body.Graph()},
             {"num_captures", int64_t(captures.size())},
             {"num_scan_inputs", int64_t(sequences.size())},
             {"scan_input_directions", weft::Ints(sequences.size(), from_end)},
             {"scan_output_directions", weft::Ints(one.outputs.size(), from_end)}};
  }
  const Tensor node = make_node("Scan", operands, std::move(attrs), float32, "scan");
  return {Outputs(node, 0, state), Outputs(node, state.size(), one.outputs)};
}

}  // namespace tf
