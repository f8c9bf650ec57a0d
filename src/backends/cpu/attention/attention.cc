/// attention.cc: weft::Attention in f32 (attention_run.h). What it computes
/// is said in src/ops/nn/attention.cc.
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
  AttentionCall(AttentionShape shape, int threads)
      : shape_(std::move(shape)), plan_(shape_, BestAttentionKernel(), threads) {}
  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const auto in = [&](size_t i) { return static_cast<const float*>(inputs[i]); };
    RunAttention(shape_, plan_, in(0), in(1), in(2), shape_.masked ? in(3) : nullptr,
                 static_cast<float*>(outputs[0]), scratch);
  }
  int64_t scratch_bytes() const override { return plan_.scratch_bytes(); }
  std::string description() const override {
    return std::string("attention ") + plan_.kernel->name;
  }

 private:
  AttentionShape shape_;
  AttentionPlan plan_;
};

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
  if (!AllF32(r) || r.input_dims.size() < 3 || rank < 2) return nullptr;
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
  s.safe = IntAttr(r.node, "safe", 0) != 0;
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
    if (r.input_dims[3].size() > rank) return nullptr;
    s.mask = along(PlainAxes(r.input_dims[3]), s.rows, s.keys);
  }
  return std::make_unique<AttentionCall>(std::move(s), r.threads);
}

WEFT_REGISTER_OP_IN(weft, Attention)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareAttention));

}  // namespace
}  // namespace weft::cpu
