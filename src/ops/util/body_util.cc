/// body_util.cc: bodies are inferred on a copy, whose inputs get the types and
/// shapes of the operands.
#include "body_util.h"

#include <algorithm>
#include <utility>

#include "weft/core/op/size_numbers.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"
#include "weft/sym/symbols.h"

namespace weft::ops {

const Graph& BodyOf(const NodePtr& n, const GraphAttr& body) {
  WEFT_CHECK(body.graph, kBadAttribute, "{}: a body is missing", n->Describe());
  return *body.graph;
}

InferredBody InferBody(Graph body, const std::vector<Type>& types, const std::vector<Shape>& shapes,
                       const Facts* facts, const std::vector<SymTensorPtr>& values) {
  return {weft::InferBody(std::move(body), {types, shapes, values, facts})};
}
InferredBody InferTypes(Graph body, const std::vector<Type>& types) {
  return {InferBodyTypes(std::move(body), types)};
}

bool IsOuter(SymInt d, const std::vector<SymInt>& outer) {
  return d.known() && EverySymbol(d, [&](SymInt s) {
           return std::find(outer.begin(), outer.end(), s) != outer.end();
         });
}
std::vector<SymInt> SymbolsOf(const std::vector<Shape>& shapes,
                              const std::vector<SymTensorPtr>& values) {
  std::vector<SymInt> out;
  for (const SymTensorPtr& v : values)
    for (SymInt e : v ? v->elements : std::vector<SymInt>())
      for (SymInt symbol : e.Symbols()) out.push_back(symbol);
  for (const Shape& s : shapes) {
    if (!s.has_rank()) continue;
    for (SymInt d : s.dims())
      if (d.known())
        for (SymInt symbol : d.Symbols()) out.push_back(symbol);
  }
  return out;
}

void SetOrExplain(InferShapeContext& ctx, int k, const Shape& s) {
  ctx.set_out(k, s);
  if (!s.fully_known()) Unknown(ctx, k, "it depends on what a body computes");
}

int UnbackedIndex(int output, int axis) {
  WEFT_CHECK(axis < kUnbackedStride, kUnsupported,
             "a result of a body with {} dimensions or more, of which the run tells one",
             kUnbackedStride + 1);
  return output * kUnbackedStride + axis;
}
void SetStates(InferShapeContext& ctx, std::vector<Shape> states) {
  for (size_t k = 0; k < states.size(); ++k) {
    for (int d = 0; states[k].has_rank() && d < states[k].rank(); ++d)
      if (!states[k][d].known()) states[k].set(d, ctx.unbacked(UnbackedIndex(int(k), d)));
    SetOrExplain(ctx, int(k), states[k]);
  }
}
std::vector<SymInt> OuterDims(InferShapeContext& ctx, const Shape& s,
                              const std::vector<SymInt>& outer, int k, int first) {
  std::vector<SymInt> dims;
  for (SymInt d : s.dims()) {
    const int axis = first + int(dims.size());
    dims.push_back(IsOuter(d, outer) ? d : ctx.unbacked(UnbackedIndex(k, axis)));
  }
  return dims;
}

std::vector<Type> TypesFrom(InferTypeContext& ctx, int first) {
  std::vector<Type> types;
  for (int i = first; i < ctx.num_inputs(); ++i)
    types.push_back(ctx.has_input(i) ? ctx.in(i) : Type());
  return types;
}
std::vector<Shape> ShapesFrom(InferShapeContext& ctx, int first) {
  std::vector<Shape> shapes;
  for (int i = first; i < ctx.num_inputs(); ++i) shapes.push_back(ctx.in(i));
  return shapes;
}
std::vector<Type> TypesFrom(InferShapeContext& ctx, int first) {
  std::vector<Type> types;
  for (int i = first; i < ctx.num_inputs(); ++i) types.push_back(ctx.in_type(i));
  return types;
}

std::vector<SymTensorPtr> ValuesFrom(InferShapeContext& ctx, int first) {
  std::vector<SymTensorPtr> values;
  for (int i = first; i < ctx.num_inputs(); ++i) values.push_back(ctx.in_value(i));
  return values;
}

InferredBody InferStates(const Graph& body, const std::vector<Type>& types,
                         std::vector<Shape> shapes, const Facts* facts, size_t first, size_t count,
                         size_t first_output, std::vector<Shape>* states) {
  // Nested bodies infer theirs in every round: deep inside, states are unknown from the start.
  constexpr int kRoundsBelow = 3;
  static thread_local int depth = 0;
  struct Nested {
    Nested() { ++depth; }
    ~Nested() { --depth; }
  } nested;
  if (depth > kRoundsBelow)
    for (size_t k = 0; k < count; ++k) shapes[first + k] = Shape();
  for (int round = 0;; ++round) {
    InferredBody b = InferBody(body, types, shapes, facts);
    // What an iteration demands of its operands holds where there was one.
    const Facts known = b.graph.AttrOr<Facts>("facts");
    bool stable = true;
    for (size_t k = 0; k < count; ++k) {
      Shape& s = shapes[first + k];
      const Shape after = b.shape(first_output + k);
      if (!s.has_rank()) continue;
      if (!after.has_rank() || after.rank() != s.rank()) {
        s = Shape();
        stable = false;
        continue;
      }
      for (int d = 0; d < s.rank(); ++d) {
        if (!s[d].known() || (after[d].known() && known.ProvedEqual(after[d], s[d]))) continue;
        s.set(d, SymInt());
        stable = false;
      }
    }
    // Each round only forgets, at most once an extent; two do for nearly everything.
    if (!stable && round > 8)
      for (size_t k = 0; k < count; ++k) shapes[first + k] = Shape();
    if (!stable) continue;
    states->assign(shapes.begin() + long(first), shapes.begin() + long(first + count));
    return b;
  }
}

bool AllInPlace(const LoopStates& states, const std::vector<StackedResult>& stacks) {
  return states.in_place() && std::all_of(stacks.begin(), stacks.end(),
                                          [](const StackedResult& r) { return r.in_place(); });
}

InferredBody InferFor(const Graph& body, const Tensors& operands) {
  std::vector<Type> types;
  std::vector<Shape> shapes;
  for (const TensorPtr& t : operands) {
    types.push_back(t ? t->type() : Type());
    shapes.push_back(t ? t->shape() : Shape());
  }
  return InferBody(body, types, shapes);
}
namespace {

/// The part of `whole` at `first`, of these extents.
std::shared_ptr<Tensor> ViewOf(const std::shared_ptr<Tensor>& whole, int64_t first, Dims dims) {
  // Threads may take views of one tensor: whoever gives one to be written says so himself.
  char* data = static_cast<char*>(const_cast<void*>(std::as_const(*whole).data()));
  return std::make_shared<Tensor>(whole->dtype(), std::move(dims),
                                  data + first * (DTypeBits(whole->dtype()) / 8), whole);
}
Dims WithoutAxis(Dims dims, int axis) {
  dims.erase(dims.begin() + axis);
  return dims;
}

/// `rows` times `count` elements, of both tensors each so many behind the last.
struct Rows {
  int64_t rows, count, from_step, to_step;
};
/// From element `first` on to element `to_first` on. Bytes are copied where the bodies have them;
/// strings, and elements smaller than bytes, are the host's.
void CopyRows(const BodyRunner& bodies, const Tensor& from, int64_t first, Tensor* to,
              int64_t to_first, const Rows& r) {
  const int bits = DTypeBits(from.dtype());
  const bool bytes = bits > 0 && bits % 8 == 0;
  for (int64_t k = 0; k < r.rows && r.count > 0; ++k, first += r.from_step, to_first += r.to_step)
    if (bytes)
      bodies.Copy(static_cast<char*>(to->mutable_data()) + to_first * (bits / 8),
                  static_cast<const char*>(from.data()) + first * (bits / 8), r.count * (bits / 8));
    else
      CopyElements(from, first, to, to_first, r.count);
}

/// Slices of equal dtype and extents, stacked on a new axis.
std::shared_ptr<Tensor> Stack(const NodePtr& n, const BodyRunner& bodies, const Tensors& slices,
                              int64_t axis_attr, bool backward, const Dims& one, DType dtype) {
  const int axis = AxisOf(axis_attr, int(one.size()) + 1, n);
  Dims dims = one;
  dims.insert(dims.begin() + axis, int64_t(slices.size()));
  const std::shared_ptr<Tensor> y = bodies.NewTensor(dtype, dims);
  const int64_t before = Span(one, 0, size_t(axis)), inner = Span(one, size_t(axis), one.size());
  const int64_t count = int64_t(slices.size());
  for (int64_t k = 0; k < count; ++k) {
    const Tensor& s = *slices[size_t(backward ? count - 1 - k : k)];
    WEFT_CHECK(s.dims() == one && s.dtype() == dtype, kShapeMismatch,
               "{}: an iteration gave {} and another {}", n->Describe(), s.shape().ToString(),
               Shape::OfInts(one).ToString());
    CopyRows(bodies, s, 0, y.get(), k * inner, {before, inner, inner, count * inner});
  }
  return y;
}

/// Bodies of a node, by the Evaluator.
class EvaluatedBodies final : public BodyRunner {
 public:
  explicit EvaluatedBodies(const NodePtr& n) : node_(n) {}
  void Run(const std::string& name, const Tensors& inputs, ResultTensors* results) const override {
    const Tensors out = GetEvaluator()->Eval(*node_->attr<GraphPtr>(name), inputs);
    // Nobody writes to them: no place was given.
    for (size_t i = 0; i < out.size(); ++i) (*results)[i] = std::const_pointer_cast<Tensor>(out[i]);
  }

 private:
  const NodePtr& node_;
};

}  // namespace

bool SlicesLieTogether(const Tensor& x, int axis) {
  const int bits = DTypeBits(x.dtype());
  return x.is_tensor() && bits > 0 && bits % 8 == 0 && Span(x.dims(), 0, size_t(axis)) == 1;
}
std::shared_ptr<Tensor> PartOf(const std::shared_ptr<Tensor>& x, int64_t part, int64_t parts) {
  Dims dims = x->dims();
  dims[0] /= parts;
  return ViewOf(x, part * Span(dims, 0, dims.size()), dims);
}
TensorPtr SliceAt(const BodyRunner& bodies, const TensorPtr& x, int axis, int64_t i) {
  const Dims dims = WithoutAxis(x->dims(), axis);
  const int64_t extent = x->dims()[size_t(axis)];
  const int64_t inner = Span(x->dims(), size_t(axis) + 1, x->dims().size());
  if (SlicesLieTogether(*x, axis))
    return ViewOf(std::const_pointer_cast<Tensor>(x), i * inner, dims);  // read only
  const std::shared_ptr<Tensor> y = bodies.NewTensor(x->dtype(), dims);
  const int64_t before = Span(x->dims(), 0, size_t(axis));
  CopyRows(bodies, *x, i * inner, y.get(), 0, {before, inner, extent * inner, inner});
  return y;
}

FHostEval HostByEvaluator(FRunBodies run) {
  return [run = std::move(run)](const NodePtr& n, const Tensors& in) {
    ResultTensors results(n->num_outputs());
    run(n, in, EvaluatedBodies(n), &results);
    return Tensors(results.begin(), results.end());
  };
}

LoopStates::LoopStates(const BodyRunner& bodies, Tensors initial, const ResultTensors& results)
    : now_(std::move(initial)) {
  for (size_t k = 0; k < now_.size(); ++k) {
    const std::shared_ptr<Tensor>& place = results[k];
    places_.push_back(place);
    others_.push_back(place ? bodies.NewTensor(place->dtype(), place->dims()) : nullptr);
  }
}
std::shared_ptr<Tensor> LoopStates::Place(size_t k, int64_t left) const {
  const std::shared_ptr<Tensor>& first = left % 2 == 0 ? places_[k] : others_[k];
  return first && first == now_[k] ? others_[k] : first;
}
void LoopStates::Take(size_t k, const std::shared_ptr<Tensor>& next) {
  in_place_ = in_place_ && next && now_[k] && (next == places_[k] || next == others_[k]) &&
              next->dims() == now_[k]->dims();
  now_[k] = next;
}
void LoopStates::Point(int64_t left, const void** from, void** to) {
  for (size_t k = 0; k < now_.size(); ++k) {
    std::shared_ptr<Tensor> next = Place(k, left);
    from[k] = now_[k]->data();
    to[k] = next->mutable_data();
    now_[k] = std::move(next);
  }
}
void LoopStates::PointAll(int64_t at, int64_t count, IteratedPlace* from, IteratedPlace* to) {
  std::vector<const void*> read(now_.size());
  std::vector<void*> written(now_.size());
  // They swap two places from here on: two iterations say all.
  Tensors behind_first;
  for (int64_t i = at; i < std::min(at + 2, count); ++i) {
    if (i > at) behind_first = now_;
    Point(count - 1 - i, read.data(), written.data());
    for (size_t k = 0; k < now_.size(); ++k) {
      (i % 2 != 0 ? from[k].odd : from[k].even) = static_cast<char*>(const_cast<void*>(read[k]));
      (i % 2 != 0 ? to[k].odd : to[k].even) = static_cast<char*>(written[k]);
    }
  }
  if (count - at > 2 && (count - at) % 2 != 0) now_ = behind_first;
}
int64_t LoopStates::bytes() const {
  int64_t bytes = 0;
  for (const auto& t : others_) bytes += t ? t->num_bytes() : 0;
  return bytes;
}
std::string DescribeStates(const Tensors& states) {
  std::vector<std::string> each;
  for (const TensorPtr& t : states)
    each.push_back(!t ? "absent"
                   : t->is_tensor()
                       ? fmt::format("{}{}", DTypeName(t->dtype()), t->shape().ToString())
                       : fmt::format("{} of {}", t->type().ToString(), t->elements().size()));
  return each.empty() ? "none" : Join(each, ", ");
}
void LoopStates::Finish(ResultTensors* results) const {
  for (size_t k = 0; k < now_.size(); ++k) (*results)[k] = std::const_pointer_cast<Tensor>(now_[k]);
}

StackedResult::StackedResult(const NodePtr& n, const BodyRunner& bodies,
                             std::shared_ptr<Tensor> place, int64_t axis, bool backward)
    : node_(n), bodies_(bodies), place_(std::move(place)), axis_(axis), backward_(backward) {
  if (place_) place_->mutable_data();  // views of it are written
}
std::shared_ptr<Tensor> StackedResult::Place(int64_t i, int64_t count) {
  offered_ = nullptr;
  if (!place_ || count < 0) return nullptr;
  const int axis = AxisOf(axis_, place_->rank(), node_);
  if (place_->dims()[size_t(axis)] != count || !SlicesLieTogether(*place_, axis)) return nullptr;
  const Dims dims = WithoutAxis(place_->dims(), axis);
  const int64_t at = backward_ ? count - 1 - i : i;
  return offered_ = ViewOf(place_, at * Span(dims, 0, dims.size()), dims);
}
void StackedResult::Take(const std::shared_ptr<Tensor>& slice) {
  const bool in_place = offered_ && slice == offered_;
  all_in_place_ = all_in_place_ && in_place;
  slices_.push_back(slice);
  if (!in_place) bytes_ = CheckedAdd(bytes_, slice->num_bytes());
}
void* StackedResult::Point(int64_t i, int64_t count) {
  const int64_t bytes = place_->num_bytes() / count;
  slices_.push_back(nullptr);
  return static_cast<char*>(place_->mutable_data()) + (backward_ ? count - 1 - i : i) * bytes;
}
IteratedPlace StackedResult::PointAll(int64_t count) {
  slices_.resize(size_t(count));
  return IteratedPlace::Slices(place_->mutable_data(), place_->num_bytes() / count, count,
                               backward_);
}
std::shared_ptr<Tensor> StackedResult::Finish(const std::function<InferredBody()>& like,
                                              const std::function<ResultTensors()>& once,
                                              size_t output) {
  if (slices_.empty() && place_ && place_->num_elements() == 0) return place_;
  if (slices_.empty()) {
    const InferredBody body = like();
    const Shape s = body.shape(output);
    const Type type = body.type(output);
    if (type.is_tensor() && s.is_static())
      return Stack(node_, bodies_, slices_, axis_, backward_, s.ints(), type.dtype);
    std::shared_ptr<Tensor> one;
    try {
      one = once()[output];
    } catch (const UserError&) {  // of an iteration that nobody asked for
    }
    if (one) return Stack(node_, bodies_, slices_, axis_, backward_, one->dims(), one->dtype());
    WEFT_CHECK(s.has_rank() && type.is_tensor(), kUnsupported,
               "{}: no iteration, and the body does not determine the shape of output {}",
               node_->Describe(), output);
    Dims dims;
    for (SymInt d : s.dims()) dims.push_back(d.known() ? d.try_value().value_or(0) : 0);
    return Stack(node_, bodies_, slices_, axis_, backward_, dims, type.dtype);
  }
  const bool all =
      place_ && all_in_place_ &&
      slices_.size() == size_t(place_->dims()[size_t(AxisOf(axis_, place_->rank(), node_))]);
  if (all) return place_;
  // Fewer came than there is place for.
  const auto count = int64_t(slices_.size());
  for (int64_t i = 0; i < count; ++i)
    if (!slices_[size_t(i)])
      slices_[size_t(i)] = Place(i, place_->dims()[size_t(AxisOf(axis_, place_->rank(), node_))]);
  return Stack(node_, bodies_, slices_, axis_, backward_, slices_[0]->dims(), slices_[0]->dtype());
}

void CountedBody::Explain(Error* e) const {
  int64_t collected = 0;
  for (const StackedResult& r : stacks_) collected += r.bytes();
  ExplainIteration(e, iteration_, states_.ToString(), collected);
}
template <class Function>
void CountedBody::Explained(const Function& run) const {
  try {
    run();
  } catch (Error& e) {
    Explain(&e);
    throw;
  }
}

void CountedBody::Begin(int64_t iteration) const {
  iteration_ = iteration;
  Explained([&] {
    int64_t all = 0;
    const auto add = [&all](int64_t bytes) {
      RequestScope::CheckTensor(bytes);
      all = CheckedAdd(all, bytes);
    };
    for (const StackedResult& r : stacks_)
      if (r.bytes() > 0) add(r.bytes());
    // A sequence that grows is as good as a result that does.
    for (const TensorPtr& t : states_.now()) {
      if (!t || t->is_tensor()) continue;
      int64_t bytes = 0;
      for (const TensorPtr& e : t->elements()) bytes = CheckedAdd(bytes, e->num_bytes());
      add(bytes);
    }
    // They become tensors beside them in the end.
    if (all > 0) RequestScope::CheckMemory(CheckedMul(2, all));
    RequestScope::Poll();
    RequestScope::CheckIterations(iteration);
  });
}

class CountedBody::Repeated final : public RepeatedBody {
 public:
  Repeated(std::unique_ptr<RepeatedBody> body, const CountedBody& counted)
      : body_(std::move(body)), counted_(counted) {}
  void Run(const void* const* inputs, void* const* results) override {
    counted_.Explained([&] { body_->Run(inputs, results); });
  }
  void RunAll(int64_t* at, int64_t last, const std::vector<IteratedPlace>& inputs,
              const std::vector<IteratedPlace>& results) override {
    try {
      body_->RunAll(at, last, inputs, results);
    } catch (Error& e) {
      counted_.iteration_ = *at;
      counted_.Explain(&e);
      throw;
    }
  }

 private:
  const std::unique_ptr<RepeatedBody> body_;
  const CountedBody& counted_;
};
void CountedBody::Run(const std::string& name, const Tensors& inputs,
                      ResultTensors* results) const {
  Explained([&] { bodies_.Run(name, inputs, results); });
}
std::unique_ptr<RepeatedBody> CountedBody::Repeat(const std::string& name) const {
  std::unique_ptr<RepeatedBody> again = bodies_.Repeat(name);
  if (!again) return nullptr;
  return std::make_unique<Repeated>(std::move(again), *this);
}
void CountedBody::End() const {
  int64_t bytes = states_.bytes();
  for (const StackedResult& r : stacks_) bytes += r.bytes();
  Holds(bytes);
}

uint32_t BodyOutputs(const NodeAttrs& attrs, const char* body, uint32_t fewer) {
  const AttrValue* v = attrs.dict.find(body);
  if (!v || !v->is<GraphPtr>() || !v->get<GraphPtr>()) return 0;
  const uint32_t count = uint32_t(v->get<GraphPtr>()->outputs.size());
  return count > fewer ? count - fewer : 0;
}

}  // namespace weft::ops
