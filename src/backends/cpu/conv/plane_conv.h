/// plane_conv.h: convolutions of few channels or filters a group, on planes as they
/// lie in plain layout.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/onednn/post_ops.h"
#include "conv_staging.h"

namespace weft::cpu {

/// Copies the planes of a group between zeros (a row of a strided window as one run for each of its
/// remainders), so that every tap of the window is a run of the copy at a fixed distance; sums taps
/// for several filters and rows at once, in registers.
class PlaneConv {
 public:
  PlaneConv(const ConvShape& c, int threads);

  /// Is there code for this machine?
  static bool Possible();
  /// It is, and faster than oneDNN's, transpositions counted on either side.
  static bool Pays(const ConvShape& c, Layout x, Layout y);

  int64_t scratch_floats() const;
  /// x, W and y as ONNX has them; `bias` may be null.
  void Run(const float* x, const float* w, const float* bias, float* y, float* scratch) const;

 private:
  void CopyRows(const float* plane, int64_t first, int64_t last, float* to) const;
  void Rows(const float* padded, const float* w, const float* bias, float* y, int64_t depth,
            int64_t first, int64_t last) const;

  int threads_;
  int64_t images_, groups_, channels_, maps_;  // channels and maps of one group
  int64_t in_[3], out_[3], kernel_[3], strides_[3], begin_[3];
  int64_t phase_, row_, height_,
      plane_;                  // of the copy: floats of a run, of a row; rows; floats of a plane
  bool own_planes_;            // each thread copies for itself
  std::vector<int64_t> taps_;  // distances in the copy, in the order of the weights
};

/// The call; null where it is not possible.
std::unique_ptr<LibraryCall> MakePlaneConv(const ComputeRequest& q, const ConvShape& c,
                                           const PostOps& post);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
