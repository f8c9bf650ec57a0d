/// interpreter.cc: the reference meaning of a ComputeSpec.
///
/// Every reduction becomes a table over the loops its body depends on, filled once before anything
/// reads it: soft-max over n x r costs n * r for the maximum, n * r for the sum and n * r for the
/// quotient.
#include "weft/codegen/interp/interpreter.h"

#include <algorithm>
#include <memory>

#include "stage.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// Elements of one table: 1 GiB.
constexpr int64_t kMaxTable = int64_t{1} << 27;

std::vector<int64_t> EvaluateDims(const std::vector<SymInt>& dims, const SymBindings& bindings) {
  std::vector<int64_t> out;
  for (SymInt d : dims) {
    out.push_back(Evaluate(d, bindings));
    WEFT_CHECK(out.back() >= 0, kBadBinding, "dimension {} is {}", d.ToString(), out.back());
  }
  return out;
}

std::vector<SymInt> AsSyms(const std::vector<int64_t>& dims) { return {dims.begin(), dims.end()}; }

Expr BindDims(const Expr& e, const SymBindings& bindings) {
  bool symbolic = false;
  for (const ExprNode* n : PostOrder({e})) symbolic |= n->kind() == ExprKind::kDim;
  if (!symbolic) return e;
  return RewriteExpr(e, [&](const Expr& x) {
    return x->kind() == ExprKind::kDim ? Expr::Int(Evaluate(x->dim(), bindings)) : Expr();
  });
}

void CheckInput(const TensorSpec& spec, const TensorPtr& t, size_t k, const SymBindings& bindings) {
  WEFT_CHECK(bool(t), kBadInput, "input {} is missing", k);
  WEFT_CHECK(t->dtype() == spec.dtype, kBadInput, "input {} is {}, expected {}", k,
             DTypeName(t->dtype()), DTypeName(spec.dtype));
  const std::vector<int64_t> want = EvaluateDims(spec.dims, bindings);
  WEFT_CHECK(t->dims() == want, kBadInput, "input {} has shape {}, expected {}", k,
             t->shape().ToString(), Shape::OfInts(want).ToString());
}

/// Reductions of a nest, inner ones first.
std::vector<int> InnerFirst(const Nest& nest) {
  const size_t n = nest.reductions.size();
  std::vector<std::vector<int>> uses(n);
  for (size_t k = 0; k < n; ++k) {
    for (const ExprNode* v : PostOrder({nest.reductions[k].body})) {
      if (v->slot() >= 0) uses[k].push_back(v->slot());
    }
  }
  std::vector<int> order;
  std::vector<char> state(n, 0);  // 1: entered, 2: done
  std::vector<int> stack;
  for (size_t root = n; root-- > 0;) {
    stack.push_back(int(root));
    while (!stack.empty()) {
      const int k = stack.back();
      if (state[size_t(k)] == 0) {
        state[size_t(k)] = 1;
        for (int u : uses[size_t(k)]) {
          if (!state[size_t(u)]) stack.push_back(u);
        }
        continue;
      }
      stack.pop_back();
      if (state[size_t(k)] == 1) order.push_back(k);
      state[size_t(k)] = 2;
    }
  }
  return order;
}

/// Evaluates outputs that share one space.
void EvaluateNest(const Nest& nest, const std::vector<TensorPtr>& inputs,
                  const SymBindings& bindings, InterpretMode mode,
                  const std::vector<std::shared_ptr<Tensor>>& outputs) {
  interp::Context context;
  context.mode = mode;
  context.extents = EvaluateDims(nest.loops, bindings);
  WEFT_CHECK(context.extents.size() <= size_t(interp::kMaxLoops), kLimit, "{} loops, more than {}",
             context.extents.size(), interp::kMaxLoops);
  for (const TensorPtr& t : inputs)
    context.sources.push_back({t->dtype(), t->data(), t->dims(), false});
  context.first_table = int(inputs.size());
  context.table_loops.resize(nest.reductions.size());
  context.sources.resize(inputs.size() + nest.reductions.size());
  std::vector<std::vector<double>> tables(nest.reductions.size());
  for (int k : InnerFirst(nest)) {
    const Nest::Reduction& r = nest.reductions[size_t(k)];
    interp::LoopSet loops = interp::LoopsOf(r.body, context.table_loops);
    interp::Stage stage;
    for (int i = 0; i < r.count; ++i) {
      stage.inner.push_back(r.first + i);
      loops.reset(size_t(r.first + i));
    }
    std::vector<int64_t> dims;
    for (int loop = 0; loop < int(context.extents.size()); ++loop) {
      if (!loops.test(size_t(loop))) continue;
      stage.outer.push_back(loop);
      dims.push_back(context.extents[size_t(loop)]);
    }
    const int64_t count = CheckedProduct(dims);
    WEFT_CHECK(count <= kMaxTable, kLimit, "the table of a reduction has {} elements, more than {}",
               count, kMaxTable);
    tables[size_t(k)].resize(size_t(count));
    stage.value = r.body;
    stage.op = r.op;
    stage.dtype =
        r.op == ReduceOp::kArgMin || r.op == ReduceOp::kArgMax ? DType::kI64 : r.body->dtype();
    stage.table = tables[size_t(k)].data();
    RunStage(stage, context);
    context.table_loops[size_t(k)] = stage.outer;
    context.sources[inputs.size() + size_t(k)] = {stage.dtype, stage.table, std::move(dims), true};
  }
  for (const Nest::Store& s : nest.stores) {
    interp::Stage stage;
    stage.value = s.value;
    for (int loop = 0; loop < nest.num_dims; ++loop) stage.outer.push_back(loop);
    stage.dtype = outputs[size_t(s.output)]->dtype();
    stage.typed = outputs[size_t(s.output)]->mutable_data();
    RunStage(stage, context);
  }
}

}  // namespace

namespace {

/// `t` as the bytes that it lies in, or bytes as the tensor of `dtype` that lies in them.
TensorPtr Reinterpreted(const TensorPtr& t, DType dtype, std::vector<int64_t> dims) {
  return std::make_shared<Tensor>(dtype, std::move(dims), const_cast<void*>(t->data()),
                                  std::const_pointer_cast<Tensor>(t));
}

}  // namespace

std::vector<TensorPtr> Interpret(const ComputeSpec& spec, const std::vector<TensorPtr>& given,
                                 const SymBindings& bindings, InterpretMode mode) {
  std::vector<TensorPtr> inputs = given;
  for (size_t k = 0; k < inputs.size() && k < spec.inputs.size(); ++k)
    if (const TensorSpec& t = spec.inputs[k]; IsLowBit(t.low_bit))
      inputs[k] = Reinterpreted(inputs[k], t.dtype, EvaluateDims(t.dims, bindings));
  WEFT_CHECK(inputs.size() == spec.inputs.size(), kBadInput, "{} inputs, expected {}",
             inputs.size(), spec.inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) CheckInput(spec.inputs[k], inputs[k], k, bindings);
  std::vector<std::shared_ptr<Tensor>> outputs;
  std::vector<std::vector<int64_t>> dims;
  for (const TensorSpec& t : spec.outputs) {
    dims.push_back(EvaluateDims(t.dims, bindings));
    outputs.push_back(std::make_shared<Tensor>(t.dtype, dims.back()));
  }
  std::vector<char> done(outputs.size(), 0);
  for (size_t first = 0; first < outputs.size(); ++first) {
    if (done[first]) continue;
    // Outputs of one shape share their reductions.
    ComputeSpec part;
    std::vector<std::shared_ptr<Tensor>> part_outputs;
    for (size_t k = first; k < outputs.size(); ++k) {
      if (done[k] || dims[k] != dims[first]) continue;
      done[k] = 1;
      part.outputs.push_back({spec.outputs[k].dtype, AsSyms(dims[k])});
      part.values.push_back(BindDims(spec.values[k], bindings));
      part_outputs.push_back(outputs[k]);
    }
    EvaluateNest(ElementwiseNest(part, Facts()), inputs, bindings, mode, part_outputs);
  }
  std::vector<TensorPtr> results(outputs.begin(), outputs.end());
  for (size_t k = 0; k < results.size(); ++k)
    if (const TensorSpec& t = spec.outputs[k]; IsLowBit(t.low_bit))
      results[k] = Reinterpreted(results[k], t.low_bit, EvaluateDims(t.low_bit_dims, bindings));
  return results;
}

}  // namespace weft
