/// body_util.h: what operators with graphs for attributes (If, Loop, Scan) share: inference through
/// a body, and stacks of what its runs give.
#pragma once

#include <vector>

#include "host_util.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op_param.h"
#include "weft/core/op/run_bodies.h"

namespace weft::ops {

/// A body with types and shapes inferred from those of its operands.
struct InferredBody {
  Graph graph;
  Type type(size_t i) const { return graph.GetAttr<TypeMap>("dtype")[graph.outputs[i]]; }
  Shape shape(size_t i) const { return graph.GetAttr<ShapeMap>("shape")[graph.outputs[i]]; }
  SymTensorPtr value(size_t i) const {
    const SymTensorPtr* v = graph.GetAttr<ValueMap>("value").find(graph.outputs[i]);
    return v ? *v : nullptr;
  }
};

/// The graph of an attribute; throws kBadAttribute where there is none.
const Graph& BodyOf(const NodePtr& n, const GraphAttr& body);
/// The body with types and shapes, its inputs being of these and of these values (null: none), in a
/// graph of which `facts` are known (null: none).
InferredBody InferBody(Graph body, const std::vector<Type>& types, const std::vector<Shape>& shapes,
                       const Facts* facts = nullptr, const std::vector<SymTensorPtr>& values = {});
/// The body with types only.
InferredBody InferTypes(Graph body, const std::vector<Type>& types);
/// An extent of a body that means the same outside: no symbol of the body's own.
bool IsOuter(SymInt d, const std::vector<SymInt>& outer);
/// Every symbol in `shapes` and `values`.
std::vector<SymInt> SymbolsOf(const std::vector<Shape>& shapes,
                              const std::vector<SymTensorPtr>& values = {});
/// Sets the shape of output k and, where some of it is unknown, says why.
void SetOrExplain(InferShapeContext& ctx, int k, const Shape& s);
/// Index of the unbacked symbol (InferShapeContext::unbacked) for that axis of an output. It does
/// not depend on the ranks of other outputs, of which more may be known later.
int UnbackedIndex(int output, int axis);
/// Outputs 0 .. are the states; extents that no iteration tells become unbacked symbols.
void SetStates(InferShapeContext& ctx, std::vector<Shape> states);
/// The extents of a body's result outside, where it is output `k`: those that mean nothing there
/// become unbacked. `first`: of the axis that its first one is.
std::vector<SymInt> OuterDims(InferShapeContext& ctx, const Shape& s,
                              const std::vector<SymInt>& outer, int k, int first = 0);
/// Types and shapes of the operands from number `first` on.
std::vector<Type> TypesFrom(InferTypeContext& ctx, int first);
std::vector<Shape> ShapesFrom(InferShapeContext& ctx, int first);
std::vector<Type> TypesFrom(InferShapeContext& ctx, int first);
std::vector<SymTensorPtr> ValuesFrom(InferShapeContext& ctx, int first);
/// Shapes of the states where the body keeps them; unknown otherwise. `shapes` are those of the
/// body's inputs, of which states are [first, first + count).
InferredBody InferStates(const Graph& body, const std::vector<Type>& types,
                         std::vector<Shape> shapes, const Facts* facts, size_t first, size_t count,
                         size_t first_output, std::vector<Shape>* states);
/// The body with the operands of an actual run, for what no iteration tells.
InferredBody InferFor(const Graph& body, const Tensors& operands);
/// Element `i` of an attribute that may be left out or too short.
inline int64_t EntryOr(const Ints& list, size_t i, int64_t otherwise) {
  return i < list.size() ? list[i] : otherwise;
}
/// Slices of the axis lie together, in whole bytes.
bool SlicesLieTogether(const Tensor& x, int axis);
/// Element `i` along `axis`, that axis gone, where `bodies` has its tensors: a view of `x` where
/// its elements lie together there.
TensorPtr SliceAt(const BodyRunner& bodies, const TensorPtr& x, int axis, int64_t i);
/// Part number `part` of `parts` equal ones of the first axis: a view.
std::shared_ptr<Tensor> PartOf(const std::shared_ptr<Tensor>& x, int64_t part, int64_t parts);
/// FHostEval of an operator with bodies: the Evaluator runs them.
FHostEval HostByEvaluator(FRunBodies run);

/// "f32[3], i64[]"
std::string DescribeStates(const Tensors& states);

/// The states of a loop. Each is written where it was not read: in the place that was given for the
/// final one, and in another of its size, in turn.
class LoopStates {
 public:
  /// `results`: the places, of which the first ones are those of the states.
  LoopStates(const BodyRunner& bodies, Tensors initial, const ResultTensors& results);
  /// What the next iteration reads.
  const Tensors& now() const { return now_; }
  /// Where it may write; `left`: iterations behind it, so that the last one writes the place given.
  std::shared_ptr<Tensor> Place(size_t k, int64_t left) const;
  void Take(size_t k, const std::shared_ptr<Tensor>& next);
  /// All iterations so far wrote them where they were offered, of the extents that they read: the
  /// next one can be told pointers.
  bool in_place() const { return in_place_; }
  /// Where it reads and writes; then it is as if it had been taken.
  void Point(int64_t left, const void** from, void** to);
  /// The same of all iterations that are left, from number `at` of `count`.
  void PointAll(int64_t at, int64_t count, IteratedPlace* from, IteratedPlace* to);
  /// Of the second places.
  int64_t bytes() const;
  std::string ToString() const { return DescribeStates(now_); }
  /// Gives the final states; without an iteration the initial ones, which nobody may write to.
  void Finish(ResultTensors* results) const;

 private:
  Tensors now_;
  ResultTensors places_, others_;
  bool in_place_ = true;
};

/// What the iterations of a loop give, stacked on a new axis: slice by slice in the tensor that was
/// given for it where a slice lies together there, else all at the end.
class StackedResult {
 public:
  /// `place`: null, or of the extents of the whole.
  StackedResult(const NodePtr& n, const BodyRunner& bodies, std::shared_ptr<Tensor> place,
                int64_t axis, bool backward);
  /// Where iteration `i` of `count` may write; null: anywhere. A negative count is not known.
  std::shared_ptr<Tensor> Place(int64_t i, int64_t count);
  void Take(const std::shared_ptr<Tensor>& slice);
  /// All slices so far are in the place given: the next one can be told a pointer.
  bool in_place() const { return place_ && all_in_place_; }
  /// Where iteration `i` of `count` writes; then it is as if it had been taken.
  void* Point(int64_t i, int64_t count);
  /// The same of all iterations.
  IteratedPlace PointAll(int64_t count);
  /// Of slices that are not in the place given.
  int64_t bytes() const { return bytes_; }
  /// Where there was no iteration, `like` tells the extents and the dtype; what it cannot tell, the
  /// results of an iteration do, which `once` runs for that.
  std::shared_ptr<Tensor> Finish(const std::function<InferredBody()>& like,
                                 const std::function<ResultTensors()>& once, size_t output);

 private:
  const NodePtr& node_;
  const BodyRunner& bodies_;
  const std::shared_ptr<Tensor> place_;
  const int64_t axis_;
  const bool backward_;
  std::shared_ptr<Tensor> offered_;
  Tensors slices_;  ///< null: in the place given
  bool all_in_place_ = true;
  int64_t bytes_ = 0;
};
/// The body of a loop, with an account of its iterations: what one throws says which it was, what
/// the states are, and how much is collected.
class CountedBody final : public BodyRunner {
 public:
  CountedBody(const BodyRunner& bodies, const LoopStates& states,
              const std::vector<StackedResult>& stacks)
      : bodies_(bodies), states_(states), stacks_(stacks) {}
  /// In front of each: that the request goes on, and that the limits allow one more.
  void Begin(int64_t iteration) const;
  void Run(const std::string& name, const std::vector<TensorPtr>& inputs,
           ResultTensors* results) const override;
  std::unique_ptr<RepeatedBody> Repeat(const std::string& name) const override;
  void Holds(int64_t bytes) const override { bodies_.Holds(bytes); }
  std::shared_ptr<Tensor> NewTensor(DType dtype, Dims dims) const override {
    return bodies_.NewTensor(dtype, std::move(dims));
  }
  TensorPtr Place(const TensorPtr& host) const override { return bodies_.Place(host); }
  int64_t Read(const TensorPtr& t) const override { return bodies_.Read(t); }
  void Copy(void* to, const void* from, int64_t bytes) const override {
    bodies_.Copy(to, from, bytes);
  }
  /// Tells what states and stacks have held.
  void End() const;

 private:
  class Repeated;
  void Explain(Error* e) const;
  template <class Function>
  void Explained(const Function& run) const;
  const BodyRunner& bodies_;
  const LoopStates& states_;
  const std::vector<StackedResult>& stacks_;
  mutable int64_t iteration_ = 0;
};

/// Nothing but places has changed from one iteration to the next.
bool AllInPlace(const LoopStates& states, const std::vector<StackedResult>& stacks);
/// Outputs of a node whose attribute `body` is a graph: those of the graph but for `fewer`.
uint32_t BodyOutputs(const NodeAttrs& attrs, const char* body, uint32_t fewer);

}  // namespace weft::ops
