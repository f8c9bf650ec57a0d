/// attention.cc: weft::Attention in f32 (attention_run.h). What it computes
/// is said in src/ops/nn/attention.cc.
#include <algorithm>

#include "attention_run.h"
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"

namespace weft::cpu {
namespace {

using Extents = std::vector<int64_t>;

class AttentionCall final : public LibraryCall {
 public:
  /// `counted`: an operand says how many keys are read, `most` at most.
  AttentionCall(AttentionShape shape, bool counted, int64_t most, int threads)
      : shape_(std::move(shape)),
        counted_(counted),
        most_(most),
        plan_(shape_, BestAttentionKernel(), threads) {}
  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const auto in = [&](size_t i) { return static_cast<const float*>(inputs[i]); };
    int64_t keys = shape_.keys;
    if (counted_) keys = std::clamp<int64_t>(*static_cast<const int64_t*>(inputs[4]), 0, most_);
    RunAttention(shape_, plan_, keys, in(0), in(1), in(2), shape_.masked ? in(3) : nullptr,
                 static_cast<float*>(outputs[0]), scratch);
  }
  int64_t scratch_bytes() const override { return plan_.scratch_bytes(); }
  std::string description() const override {
    return std::string("attention ") + plan_.kernel->name;
  }

 private:
  AttentionShape shape_;
  bool counted_;
  int64_t most_;
  AttentionPlan plan_;
};

/// Batch axes along which keys and values are the same become rows of queries, the last axes
/// first: the heads of a group read their keys together.
void JoinRows(AttentionShape* s) {
  while (!s->batch.empty()) {
    const int64_t n = s->batch.back();
    const auto joins = [&](const AttentionOperand& x) {
      return s->rows == 1 || x.batch.back() == x.row * s->rows;
    };
    const bool same = s->k.batch.back() == 0 && s->v.batch.back() == 0;
    if (n != 1 && (!same || !joins(s->q) || !joins(s->y) || (s->masked && !joins(s->mask)))) return;
    for (AttentionOperand* x : {&s->q, &s->y, &s->mask})
      if (n != 1 && s->rows == 1 && !x->batch.empty()) x->row = x->batch.back();
    for (AttentionOperand* x : {&s->q, &s->k, &s->v, &s->y, &s->mask})
      if (!x->batch.empty()) x->batch.pop_back();  // empty: there is no mask
    s->batch.pop_back();
    s->rows *= n;
  }
}

/// An operand in the order of the scores: extents and steps of its axes.
struct Axes {
  Extents extents, steps;
};

Axes PlainAxes(const Extents& dims) {
  Axes a{dims, Extents(dims.size(), 1)};
  for (size_t k = dims.size(); k-- > 1;) a.steps[k - 1] = CheckedMul(a.steps[k], dims[k]);
  return a;
}
/// Axis k is axis perm[k] of what is in memory; `back`: the other way round.
Axes Permuted(const Axes& from, const Extents& perm, bool back = false) {
  if (perm.empty()) return from;
  Axes a = from;
  for (size_t k = 0; k < perm.size(); ++k) {
    const size_t there = back ? size_t(perm[k]) : k, here = back ? k : size_t(perm[k]);
    a.extents[there] = from.extents[here];
    a.steps[there] = from.steps[here];
  }
  return a;
}
/// The steps along axes of extents `to`, where those of extent 1 repeat; missing
/// axes in front, too.
AttentionOperand Along(const Axes& a, const Extents& to) {
  const size_t lead = to.size() - a.extents.size();
  Extents steps(to.size(), 0);
  for (size_t k = 0; k < a.extents.size(); ++k)
    if (a.extents[k] != 1) steps[lead + k] = a.steps[k];
  AttentionOperand x;
  x.row = steps[to.size() - 2];
  x.column = steps[to.size() - 1];
  steps.resize(to.size() - 2);
  x.batch = std::move(steps);
  return x;
}

std::unique_ptr<LibraryCall> PrepareAttention(const ComputeRequest& r) {
  const size_t rank = r.output_dims[0].size();
  ComputeRequest floats = r;
  if (HasInput(r, 4)) floats.input_types[4] = DType::kUnknown;
  if (!AllF32(floats) || r.input_dims.size() < 3 || rank < 2) return nullptr;
  const auto axes = [&](size_t i, const char* perm) {
    return Permuted(PlainAxes(r.input_dims[i]), IntsAttr(r.node, perm));
  };
  for (size_t i = 0; i < 3; ++i)
    if (r.input_dims[i].size() != rank) return nullptr;
  const Axes q = axes(0, "q_perm"), k = axes(1, "k_perm"), v = axes(2, "v_perm");
  const Axes y = Permuted(PlainAxes(r.output_dims[0]), IntsAttr(r.node, "y_perm"), true);

  AttentionShape s;
  s.batch = Extents(y.extents.begin(), y.extents.end() - 2);
  s.rows = q.extents[rank - 2];
  s.keys = k.extents[rank - 2];
  s.depth = q.extents[rank - 1];
  s.width = v.extents[rank - 1];
  s.scale = float(FloatAttr(r.node, "scale", 1));
  s.softcap = float(FloatAttr(r.node, "softcap", 0));
  s.safe = IntAttr(r.node, "safe", 0) != 0;
  const bool counted = HasInput(r, 4);
  int64_t most = s.keys;
  const int64_t elements = CheckedProduct(r.output_dims[0]);
  if (elements == 0 || s.keys == 0) return std::make_unique<ZeroCall>(elements);
  const auto along = [&](const Axes& x, int64_t rows, int64_t columns) {
    Extents to = s.batch;
    to.insert(to.end(), {rows, columns});
    return Along(x, to);
  };
  s.q = along(q, s.rows, s.depth);
  s.k = along(k, s.keys, s.depth);
  s.v = along(v, s.keys, s.width);
  s.y = along(y, s.rows, s.width);
  s.masked = HasInput(r, 3);
  if (s.masked) {
    const Extents& mask = r.input_dims[3];
    if (mask.size() > rank) return nullptr;
    s.mask = along(PlainAxes(mask), s.rows, s.keys);
    if (counted && !mask.empty() && mask.back() != 1) most = std::min(most, mask.back());
  }
  JoinRows(&s);
  return std::make_unique<AttentionCall>(std::move(s), counted, most, r.threads);
}

WEFT_REGISTER_OP_IN(weft, Attention)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareAttention));

}  // namespace
}  // namespace weft::cpu
