/// winograd_weights.cc: G w G' of every filter w, 16 filters at a time.
///
/// Row k of G are the powers 1, p, p^2 of an interpolation point p over the product of its
/// differences to the others (Lavin and Gray, 2015); oneDNN's kernels have the points 0, 1, -1 for
/// tiles of 2 x 2, and 0, 5/8, -5/8, 3/2, -3/2 for those of 4 x 4, and infinity.
#ifdef WEFT_HAVE_ONEDNN

#include "winograd_weights.h"

#include <cstdint>
#include <vector>

namespace weft::cpu {

#if DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR == 6
namespace {

constexpr int kLanes = 16;
constexpr int kMostPoints = 6;

struct Transform {
  int points;  ///< infinity included
  float g[kMostPoints][3];
};

Transform MakeTransform(const std::vector<double>& finite) {
  Transform t{int(finite.size()) + 1, {}};
  for (size_t k = 0; k < finite.size(); ++k) {
    double differences = 1;
    for (size_t j = 0; j < finite.size(); ++j)
      if (j != k) differences *= finite[k] - finite[j];
    // The sign of the row for 0 is free; oneDNN takes it positive.
    if (finite[k] == 0 && differences < 0) differences = -differences;
    for (int power = 0, i = 0; i < 3; ++i, ++power)
      t.g[k][i] = float((power == 0   ? 1
                         : power == 1 ? finite[k]
                                      : finite[k] * finite[k]) /
                        differences);
  }
  t.g[finite.size()][2] = 1;
  return t;
}

/// Where the values of channel c for the filters of block o go, for point pair 0, and how far
/// the next pair is.
struct Place {
  int64_t offset, step;
};
Place PlaceOf(const dnnl_wino_desc_t& d, int64_t o, int64_t c) {
  const int64_t blocks = d.oc / d.oc_block, chunks = blocks / d.oc2_block,
                pairs = int64_t{d.alpha} * d.alpha;
  const int64_t chunk = o / d.oc2_block, within = o % d.oc2_block, all = int64_t{d.oc} * d.ic;
  switch (d.wino_format) {
    case dnnl_wino_wei_aaOio:
      return {(o * d.ic + c) * d.oc_block, all};
    case dnnl_wino_wei_aaOBiOo:
      return {((chunk * d.ic + c) * d.oc2_block + within) * d.oc_block, all};
    default: {
      const int64_t depth = int64_t{d.ic2_block} * d.ic_block, pair = all / chunks;
      return {chunk * pairs * pair +
                  ((c / depth * d.oc2_block + within) * depth + c % depth) * d.oc_block,
              pair};
    }
  }
}

}  // namespace

bool PackWinograd(const float* from, const dnnl::memory::desc& layout, float* to) {
  const dnnl_memory_desc_t& desc = layout.data;
  if (desc.format_kind != dnnl_format_kind_wino || desc.data_type != dnnl_f32 || desc.ndims != 4)
    return false;
  const dnnl_wino_desc_t& d = desc.format_desc.wino_desc;
  const bool known = d.wino_format == dnnl_wino_wei_aaOio ||
                     d.wino_format == dnnl_wino_wei_aaOBiOo ||
                     d.wino_format == dnnl_wino_wei_OBaaIBOIio;
  const bool small = d.alpha == 4, large = d.alpha == 6;
  if (!known || d.r != 3 || d.oc_block != kLanes || small == large ||
      large != (d.wino_format == dnnl_wino_wei_OBaaIBOIio))
    return false;
  const Transform t =
      small ? MakeTransform({0, 1, -1}) : MakeTransform({0, .625, -.625, 1.5, -1.5});
  const int64_t filters = desc.dims[0], channels = desc.dims[1], blocks = d.oc / kLanes;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t o = 0; o < blocks; ++o)
    for (int64_t c = 0; c < d.ic; ++c) {
      float w[3][3][kLanes] = {}, rows[kMostPoints][3][kLanes];
      for (int64_t l = 0; c < channels && l < kLanes && o * kLanes + l < filters; ++l) {
        const float* filter = from + ((o * kLanes + l) * channels + c) * 9;
        for (int k = 0; k < 9; ++k) w[k / 3][k % 3][l] = filter[k];
      }
      for (int i = 0; i < t.points; ++i)
        for (int k = 0; k < 3; ++k)
#pragma omp simd
          for (int l = 0; l < kLanes; ++l)
            rows[i][k][l] =
                t.g[i][0] * w[0][k][l] + t.g[i][1] * w[1][k][l] + t.g[i][2] * w[2][k][l];
      const Place place = PlaceOf(d, o, c);
      for (int i = 0; i < t.points; ++i)
        for (int j = 0; j < t.points; ++j) {
          float* made = to + place.offset + (i * t.points + j) * place.step;
#pragma omp simd
          for (int l = 0; l < kLanes; ++l)
            made[l] =
                t.g[j][0] * rows[i][0][l] + t.g[j][1] * rows[i][1][l] + t.g[j][2] * rows[i][2][l];
        }
    }
  return true;
}
#else
bool PackWinograd(const float*, const dnnl::memory::desc&, float*) { return false; }
#endif

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
