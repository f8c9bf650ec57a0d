/// post_ops.h: the epilogues that convolutions and products take: which steps, and
/// how they are done.
///
/// In this order, each at most once: a row added (products only), a scale (products only), a
/// tensor of the result's extents added, an activation, and behind one a scale and an offset for
/// all elements (backends/shared/epilogue.h reads them). oneDNN applies them to the sums still in
/// registers: its bias, `eltwise_linear`, `sum` (the result's memory holds the addend first),
/// `eltwise` and `eltwise_linear` again. Where an implementation takes no post-ops, the same steps
/// follow it, as calls of their own.
///
/// Accuracy. Only activations within 1e-6, absolute or relative, of the exact values are taken
/// (post_ops_test.cc measures them). oneDNN 2.6 leaves out Softplus (-1.9e-6 at -20: a logarithm of
/// it would be NaN), Mish and Log (3e-6) and Exp (NaN becomes infinity).
///
/// NaN stays NaN. Relu, Clip and HardSigmoid in oneDNN drop it, here and there Sigmoid, so a
/// call that they join has a NanKeeper (keep_nan.h), and where there is none for this
/// machine they do not join; behind a call, bounds are loops of ours. All other activations
/// hand it on (post_ops_nan_test.cc).
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/shared/epilogue.h"
#include "onednn_adapter.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

/// Of convolutions, and of products: a row where the result has the columns of the right side
/// (which is no vector) and nothing else is added as one (C of a Gemm).
EpilogueTable ConvEpilogue(const EpilogueCall& call);
EpilogueTable ProductEpilogue(const EpilogueCall& call);

/// The epilogue of a request, as oneDNN is told.
class PostOps {
 public:
  struct Function {
    dnnl::algorithm algorithm;
    float alpha = 0, beta = 0;
  };
  /// Nothing where there is a step that is not in the table.
  static std::optional<PostOps> Read(const ComputeRequest& q, EpilogueTableOf table);

  /// The row to add to the sums themselves, as a bias; null: none. Nothing of
  /// what follows counts it.
  const CallStep* bias_row() const { return bias_row_ ? &*bias_row_ : nullptr; }
  bool empty() const { return !scale_ && !addend_ && activation_.empty(); }
  const CallStep* addend() const { return addend_ ? &*addend_ : nullptr; }
  /// What is left for a product that adds the addend itself; nothing where it does not come first.
  std::optional<PostOps> BehindAddend() const {
    if (scale_) return std::nullopt;
    PostOps left = *this;
    left.addend_.reset();
    return left;
  }
  /// Can one primitive do all of it? oneDNN 2.6 mixes up the constants of two
  /// functions of one kind.
  bool joinable() const;
  /// Behind the primitive that does all of it has been added to `r`. `make`: the same call with
  /// `AddSteps`; it outlives `q`.
  void KeepNan(Recipe* r, const ComputeRequest& q,
               std::function<std::unique_ptr<LibraryCall>()> make) const;
  dnnl::primitive_attr attr() const;
  /// In place on `made`, behind a primitive that was made without `attr`.
  void AddSteps(Recipe* r, const Buffer& made, const Buffer& addend) const;
  const std::string& description() const { return description_; }

 private:
  std::optional<CallStep> bias_row_, addend_;
  std::optional<float> scale_;        ///< of the sums
  std::vector<Function> activation_;  ///< one after the other
  std::optional<Function> affine_;    ///< behind them
  bool drops_nan() const;
  std::string description_;
};

/// What preparing a call again needs of a request, without the graph that it is from.
ComputeRequest Detached(const ComputeRequest& q);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
