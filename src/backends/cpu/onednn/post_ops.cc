/// post_ops.cc: what an epilogue (backends/shared/epilogue.h) is to oneDNN, and how it is done.
#ifdef WEFT_HAVE_ONEDNN

#include "post_ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/cpu/util/for_pieces.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

using Algorithm = dnnl::algorithm;
using Function = PostOps::Function;

/// One after the other; none: this activation is not taken.
using Functions = std::vector<Function>;

/// oneDNN multiplies every element by alpha, so that zeros times an infinity would be NaN on the
/// side that alpha is not for.
Functions WithAlpha(Algorithm a, float alpha) {
  return std::isfinite(alpha) ? Functions{{a, alpha}} : Functions{};
}

Functions FunctionsOf(const ActivationStep& a) {
  switch (a.function) {
    case Activation::kNone:
      return {};
    case Activation::kAbs:
      return {{Algorithm::eltwise_abs}};
    case Activation::kClip:
      return a.alpha <= a.beta ? Functions{{Algorithm::eltwise_clip, a.alpha, a.beta}}
                               : Functions{};
    case Activation::kElu:
      return WithAlpha(Algorithm::eltwise_elu, a.alpha);
    case Activation::kGelu:
      return {{Algorithm::eltwise_gelu_erf}};
    case Activation::kGeluTanh:
      return {{Algorithm::eltwise_gelu_tanh}};
    case Activation::kHardSigmoid:
      return {{Algorithm::eltwise_linear, a.alpha, a.beta}, {Algorithm::eltwise_clip, 0, 1}};
    case Activation::kHardSwish:
#if DNNL_VERSION_MAJOR >= 3
      return {{Algorithm::eltwise_hardswish, 1.f / 6, 0.5f}};
#else
      return {{Algorithm::eltwise_hardswish}};
#endif
    case Activation::kLeakyRelu:
      // A slope of 0 is another function to oneDNN: Relu, which is 0 at -inf where 0 * -inf is NaN.
      return a.alpha == 0 ? Functions{} : WithAlpha(Algorithm::eltwise_relu, a.alpha);
    case Activation::kRelu:
      return {{Algorithm::eltwise_relu}};
    case Activation::kSigmoid:
      return {{Algorithm::eltwise_logistic}};
    case Activation::kSqrt:
      return {{Algorithm::eltwise_sqrt}};
    case Activation::kSwish:
      return WithAlpha(Algorithm::eltwise_swish, a.alpha);
    case Activation::kTanh:
      return {{Algorithm::eltwise_tanh}};
  }
  return {};
}

/// `first`, and what oneDNN applies behind them to the sums of any call.
EpilogueTable TableOf(const EpilogueCall& call, std::vector<EpilogueStage> first) {
  if (call.type != Type(DType::kF32)) return {};
  first.insert(first.end(), {{EpilogueKind::kAddend},
                             {EpilogueKind::kActivation},
                             {EpilogueKind::kScale, /*behind_activation=*/true},
                             {EpilogueKind::kOffset, /*behind_activation=*/true}});
  return {std::move(first), [](const ActivationStep& a) { return !FunctionsOf(a).empty(); }};
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
  constexpr int64_t kPiece = 16384;
  ForPieces(n, kPiece, [&](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] += r[i];
  });
}

}  // namespace

EpilogueTable ConvEpilogue(const EpilogueCall& call) { return TableOf(call, {}); }

EpilogueTable ProductEpilogue(const EpilogueCall& call) {
  const Shape& right = call.inputs[1];
  const bool has_c = call.inputs.size() > 2 && IsOp(call.anchor, "Gemm");
  std::vector<EpilogueStage> first;
  if (!has_c && right.has_rank() && right.rank() >= 2) first.push_back({EpilogueKind::kBiasRow});
  first.push_back({EpilogueKind::kScale});
  return TableOf(call, std::move(first));
}

std::optional<PostOps> PostOps::Read(const ComputeRequest& q, EpilogueTableOf table) {
  const auto read = ReadEpilogueSteps(q, table);
  if (!read) return std::nullopt;
  PostOps ops;
  for (const LibraryStep& s : read->steps) {
    switch (s.stage.kind) {
      case EpilogueKind::kBiasRow:
        ops.bias_row_ = *s.request;
        break;
      case EpilogueKind::kAddend:
        ops.addend_ = *s.request;
        break;
      case EpilogueKind::kScale:
        if (s.stage.behind_activation)
          ops.affine_ = Function{Algorithm::eltwise_linear, s.value, 0};
        else
          ops.scale_ = s.value;
        break;
      case EpilogueKind::kOffset:
        if (!ops.affine_) ops.affine_ = Function{Algorithm::eltwise_linear, 1, 0};
        ops.affine_->beta = s.value;
        break;
      case EpilogueKind::kActivation:
        ops.activation_ = FunctionsOf(s.activation);
        break;
    }
    ops.description_ += " + " + s.request->node->op()->name;
  }
  return ops;
}

bool PostOps::joinable() const {
  const auto linear = std::count_if(activation_.begin(), activation_.end(), [](const Function& f) {
    return f.algorithm == Algorithm::eltwise_linear;
  });
  return linear + scale_.has_value() + affine_.has_value() <= 1 &&
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
  if (scale_) append({Algorithm::eltwise_linear, *scale_, 0});
  if (addend_) ops.append_sum(1);
  for (const Function& f : activation_) append(f);
  if (affine_) append(*affine_);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  return attr;
}

void PostOps::AddSteps(Recipe* r, const Buffer& made, const Buffer& addend) const {
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
  if (scale_) add({Algorithm::eltwise_linear, *scale_, 0});
  if (addend_) {
    r->AddHost(
        [=](void* const* at) {
          AddFloats(static_cast<float*>(at[0]), static_cast<const float*>(at[1]), floats);
        },
        {made, r->Reordered(addend, made.desc)});
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
