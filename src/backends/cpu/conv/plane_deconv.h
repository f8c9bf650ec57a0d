/// plane_deconv.h: transposed convolutions on planes as they lie in plain layout.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/op/window.h"
#include "weft/core/tensor/tensor.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

/// With a stride s, results whose places leave the same remainder by s are a convolution with
/// every s-th tap of the window. Each of these is summed like PlaneConv's; the last axis is put
/// together in registers' reach.
class PlaneDeconv final : public LibraryCall {
 public:
  /// `window`: of the convolution that this is the transpose of, its `in` the extents of the
  /// result. `fixed`: the weights [C, M / g, ..] where they are constant, else null.
  PlaneDeconv(const std::vector<int64_t>& x, const std::vector<int64_t>& w, int64_t groups,
              const WindowShape& window, bool bias, const TensorPtr& fixed, int threads);

  /// Is there code for this machine, and is it faster than oneDNN's?
  static bool Pays(const std::vector<int64_t>& x, const std::vector<int64_t>& w, int64_t groups,
                   const WindowShape& window);

  int64_t scratch_bytes() const override;
  std::string description() const override { return "deconv of planes"; }
  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override;

 private:
  /// Results of one remainder on every axis.
  struct Phase {
    std::vector<int64_t> taps;     ///< distances in the copy
    std::vector<int64_t> offsets;  ///< of the same taps in a filter
    int64_t weights;               ///< where its own weights begin: [g, m, taps]
  };

  struct Range {
    int64_t first, last;
  };

  void Pack(const float* w, float* to) const;
  void CopyPlane(const float* plane, float* to) const;
  void Rows(const float* padded, const float* w, int64_t group, const float* bias, float* y,
            int64_t depth, Range lines, Range filters, float* block) const;

  int threads_;
  int64_t images_, groups_, channels_, maps_;  // channels and maps of one group
  int64_t in_[3], out_[3], strides_[3], begin_[3];
  int64_t margin_[3];          // zeros before the source in its copy
  int64_t padded_[3], plane_;  // extents of the copy; floats of one
  int64_t count_;              // results of one remainder on the last axis
  int64_t kernel_floats_;
  bool bias_, own_planes_;
  std::vector<Phase> phases_;  // by remainder, row-major
  std::vector<float> packed_;  // empty: the weights are not constant
};

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
