/// post_ops.cc: one table of activations; epilogues read by it, both from graphs and from requests.
#ifdef WEFT_HAVE_ONEDNN

#include "post_ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/shared/scale_step.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

using Algorithm = dnnl::algorithm;
using Function = PostOps::Function;

/// One after the other; none: not for this operator.
using Functions = std::vector<Function>;

Functions Bounded(const NodePtr& n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto low = ScalarAt(n, 1, -kInfinity), high = ScalarAt(n, 2, kInfinity);
  if (!low || !high || !(*low <= *high)) return {};
  return {{Algorithm::eltwise_clip, *low, *high}};
}

Functions Gate(const NodePtr& n) {
  const bool tanh = n->has_attr("approximate") && n->attr<std::string>("approximate") == "tanh";
  return {{tanh ? Algorithm::eltwise_gelu_tanh : Algorithm::eltwise_gelu_erf}};
}

Functions HardSigmoid(const NodePtr& n) {
  const auto slope = float(FloatAttr(n, "alpha", 0.2f)), offset = float(FloatAttr(n, "beta", 0.5));
  return {{Algorithm::eltwise_linear, slope, offset}, {Algorithm::eltwise_clip, 0, 1}};
}

/// oneDNN multiplies every element by alpha, so that zeros times an infinity would be NaN on the
/// side that alpha is not for.
Functions WithAlpha(Algorithm a, const NodePtr& n, double otherwise) {
  const auto alpha = float(FloatAttr(n, "alpha", otherwise));
  return std::isfinite(alpha) ? Functions{{a, alpha}} : Functions{};
}

/// A slope of 0 is another function to oneDNN: Relu, which is 0 at -inf where 0 * -inf is NaN.
Functions LeakyRelu(const NodePtr& n) {
  const Functions leaky = WithAlpha(Algorithm::eltwise_relu, n, 0.01f);
  return leaky.empty() || leaky[0].alpha == 0 ? Functions{} : leaky;
}

Functions ActivationOf(const NodePtr& n) {
  struct Row {
    const char* op;
    std::function<Functions(const NodePtr&)> functions;
  };
  const auto plain = [](Algorithm a) { return [a](const NodePtr&) { return Functions{{a}}; }; };
  const auto with_alpha = [](Algorithm a, double otherwise) {
    return [=](const NodePtr& n) { return WithAlpha(a, n, otherwise); };
  };
#if DNNL_VERSION_MAJOR >= 3
  const Function hard_swish{Algorithm::eltwise_hardswish, 1.f / 6, 0.5f};
#else
  const Function hard_swish{Algorithm::eltwise_hardswish};
#endif
  static const std::vector<Row> rows{
      {"Abs", plain(Algorithm::eltwise_abs)},
      {"Clip", Bounded},
      {"Elu", with_alpha(Algorithm::eltwise_elu, 1)},
      {"Gelu", Gate},
      {"HardSigmoid", HardSigmoid},
      {"HardSwish", [=](const NodePtr&) { return Functions{hard_swish}; }},
      {"LeakyRelu", LeakyRelu},
      {"Relu", plain(Algorithm::eltwise_relu)},
      {"Sigmoid", plain(Algorithm::eltwise_logistic)},
      {"Sqrt", plain(Algorithm::eltwise_sqrt)},
      {"Swish", with_alpha(Algorithm::eltwise_swish, 1)},
      {"Tanh", plain(Algorithm::eltwise_tanh)},
  };
  for (const Row& r : rows)
    if (IsOp(n, r.op)) return r.functions(n);
  return {};
}

/// Stages in the order of application. The last two follow an activation only: a factor and an
/// offset for all elements.
enum Stage { kNone, kRow, kFactor, kResidual, kActivation, kScale, kOffset };

/// A tensor beside the result: may it be added to every row of it, or to the whole?
struct Fit {
  bool row = false, whole = false;
};
/// Extents that are not known are not equal.
template <class Dim>
Fit FitOf(const std::vector<Dim>& operand, const std::vector<Dim>& result) {
  Fit fit;
  fit.whole = operand == result;
  fit.row = !operand.empty() && operand.size() <= result.size() && operand.back() == result.back();
  for (size_t k = 0; fit.row && k + 1 < operand.size(); ++k) fit.row = operand[k] == Dim(1);
  return fit;
}

/// The stage that a chain which came to `reached` comes to by one step more; kNone: by this step it
/// cannot. `fit`: of the step's operand, null where it has none.
Stage Next(Stage reached, const NodePtr& n, int slot, const Fit* fit) {
  Stage next = kNone;
  if (fit)
    next = !IsOp(n, "Add")              ? kNone
           : fit->row && reached < kRow ? kRow
           : fit->whole                 ? kResidual
                                        : kNone;
  else if (!ActivationOf(n).empty())
    next = slot == 0 ? kActivation : kNone;
  else if (FactorOf(n, slot))
    next = reached < kActivation ? kFactor : kScale;
  else if (OffsetOf(n, slot))
    next = reached < kActivation ? kNone : kOffset;
  return next > reached ? next : kNone;
}

bool Takes(const EpilogueRequest& q, Accepted accepted) {
  const NodeEntry result(q.anchor);
  if (q.types[result] != Type(DType::kF32) || !q.shapes[result].has_rank()) return false;
  const auto next = [&](Stage reached, const EpilogueStep& s) {
    if (s.operand < 0) {
      const Stage stage = Next(reached, s.node, s.slot, nullptr);
      return stage == kFactor && !accepted.factor ? kNone : stage;
    }
    const NodeEntry operand = s.node->inputs[size_t(s.operand)];
    if (q.types[operand] != q.types[result] || !q.shapes[operand].has_rank()) return kNone;
    Fit fit = FitOf(q.shapes[operand].dims(), q.shapes[result].dims());
    fit.row = fit.row && accepted.row;
    return Next(reached, s.node, s.slot, &fit);
  };
  Stage reached = kNone;
  for (const EpilogueStep& s : q.steps) reached = next(reached, s);
  return next(reached, q.next) != kNone;
}

bool IsBound(const Function& f) {
  return f.algorithm == Algorithm::eltwise_clip ||
         (f.algorithm == Algorithm::eltwise_relu && f.alpha == 0);
}

/// oneDNN's own C++, where it has no other code, makes 0 of the Sigmoid of NaN.
bool DropsNan(const Function& f) {
  return IsBound(f) || f.algorithm == Algorithm::eltwise_logistic;
}

dnnl::primitive OneEltwise(const Function& f, const Desc& d, Desc* scratchpad) {
#if DNNL_VERSION_MAJOR >= 3
  const auto pd = Describe<dnnl::eltwise_forward>({}, dnnl::prop_kind::forward_inference,
                                                  f.algorithm, d, d, f.alpha, f.beta);
#else
  const auto pd = Describe<dnnl::eltwise_forward>({}, dnnl::prop_kind::forward_inference,
                                                  f.algorithm, d, f.alpha, f.beta);
#endif
  *scratchpad = pd.scratchpad_desc();
  return dnnl::eltwise_forward(pd);
}

/// One of oneDNN's parallel regions, of two threads, which so many floats are worth.
void StartRegion() {
  const ScopedThreads two(2);
  std::vector<float> data(1 << 16);
  const Desc flat = Plain({int64_t(data.size())});
  Desc scratchpad;
  const dnnl::primitive relu = OneEltwise({Algorithm::eltwise_relu}, flat, &scratchpad);
  const dnnl::memory memory(flat, Engine(), data.data());
  relu.execute(Stream(), {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}});
  Stream().wait();
}

void AddFloats(float* y, const float* r, int64_t n) {
#pragma omp parallel for simd schedule(static) if (n > 16384)
  for (int64_t i = 0; i < n; ++i) y[i] += r[i];
}

}  // namespace

bool ConvTakes(const EpilogueRequest& q) { return Takes(q, {}); }

bool ProductTakes(const EpilogueRequest& q) {
  const Shape& right = q.shapes[q.anchor->inputs[1]];
  const bool has_c = q.anchor->num_inputs() > 2;
  return Takes(q, {!has_c && right.has_rank() && right.rank() >= 2, true});
}

std::optional<PostOps> PostOps::Read(const ComputeRequest& q, Accepted accepted) {
  PostOps ops;
  Stage reached = kNone;
  for (const CallStep& s : q.epilogue) {
    Fit fit;
    if (s.operand >= 0) {
      if (s.operand_type != DType::kF32) return std::nullopt;
      fit = FitOf(s.operand_dims, q.output_dims[0]);
      fit.row = fit.row && accepted.row;
    }
    reached = Next(reached, s.node, s.slot, s.operand >= 0 ? &fit : nullptr);
    switch (reached) {
      case kNone:
        return std::nullopt;
      case kRow:
        ops.row_ = s;
        break;
      case kResidual:
        ops.residual_ = s;
        break;
      case kFactor:
        if (!accepted.factor) return std::nullopt;
        ops.factor_ = *FactorOf(s.node, s.slot);
        break;
      case kActivation:
        ops.activation_ = ActivationOf(s.node);
        break;
      case kScale:
        ops.affine_ = Function{Algorithm::eltwise_linear, *FactorOf(s.node, s.slot), 0};
        break;
      case kOffset:
        if (!ops.affine_) ops.affine_ = Function{Algorithm::eltwise_linear, 1, 0};
        ops.affine_->beta = *OffsetOf(s.node, s.slot);
        break;
    }
    ops.description_ += " + " + s.node->op()->name;
  }
  return ops;
}

bool PostOps::joinable() const {
  const auto linear = std::count_if(activation_.begin(), activation_.end(), [](const Function& f) {
    return f.algorithm == Algorithm::eltwise_linear;
  });
  return linear + factor_.has_value() + affine_.has_value() <= 1 &&
         (!drops_nan() || NanKeeper::Possible());
}

bool PostOps::drops_nan() const {
  return std::any_of(activation_.begin(), activation_.end(), DropsNan);
}

void PostOps::KeepNan(Recipe* r, const ComputeRequest& q,
                      std::function<std::unique_ptr<LibraryCall>()> make) const {
  if (!drops_nan()) return;
  if (r->threads() > 1) NanKeeper::Learn(StartRegion);
  NanKeeper::Call call;
  call.make = std::move(make);
  call.operands = int(q.input_dims.size());
  for (const CallStep& s : q.epilogue) {
    call.operands = std::max(call.operands, s.operand + 1);
    if (s.operand >= 0 && CheckedProduct(s.operand_dims) == CheckedProduct(q.output_dims[0]))
      call.added.push_back(s.operand);
  }
  call.floats = CheckedProduct(q.output_dims[0]);
  call.threads = r->threads();
  r->KeepNan(std::move(call));
}

dnnl::primitive_attr PostOps::attr() const {
  dnnl::post_ops ops;
  const auto append = [&](const Function& f) {
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(f.algorithm, f.alpha, f.beta);
#else
    ops.append_eltwise(1, f.algorithm, f.alpha, f.beta);
#endif
  };
  if (factor_) append({Algorithm::eltwise_linear, *factor_, 0});
  if (residual_) ops.append_sum(1);
  for (const Function& f : activation_) append(f);
  if (affine_) append(*affine_);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  return attr;
}

void PostOps::AddSteps(Recipe* r, const Buffer& made, const Buffer& residual) const {
  // As a row of all floats, padding of blocks included: for others oneDNN may have no fast code.
  const int64_t floats = int64_t(made.desc.get_size() / sizeof(float));
  Buffer flat = made;
  flat.desc = Plain({floats});
  const auto add = [&](const Function& f) {
    if (IsBound(f)) {
      const bool clips = f.algorithm == Algorithm::eltwise_clip;
      const float low = clips ? f.alpha : 0,
                  high = clips ? f.beta : std::numeric_limits<float>::infinity();
      r->AddHost(
          [=](void* const* at) { BoundFloats(static_cast<float*>(at[0]), floats, low, high); },
          {made});
      return;
    }
    Desc scratchpad;
    const dnnl::primitive p = OneEltwise(f, flat.desc, &scratchpad);
    r->Add(p, {{DNNL_ARG_SRC, flat}, {DNNL_ARG_DST, flat}}, scratchpad);
  };
  if (factor_) add({Algorithm::eltwise_linear, *factor_, 0});
  if (residual_) {
    r->AddHost(
        [=](void* const* at) {
          AddFloats(static_cast<float*>(at[0]), static_cast<const float*>(at[1]), floats);
        },
        {made, r->Reordered(residual, made.desc)});
  }
  for (const Function& f : activation_) add(f);
  if (affine_) add(*affine_);
}

ComputeRequest Detached(const ComputeRequest& q) {
  ComputeRequest d = q;
  d.node = {};
  d.backend = nullptr;
  for (CallStep& s : d.epilogue) s.node = {};
  return d;
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
