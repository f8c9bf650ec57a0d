/// roi_align.cc: RoiAlign in f32: positions and weights of a bin's samples are made once and used
/// for all channels. What it computes is said in src/ops/image/roi_align.cc.
#include <algorithm>
#include <cmath>
#include <exception>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "backends/cpu/util/threads.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/takes_dtype.h"
#include "weft/support/check.h"

namespace weft::cpu {
namespace {

struct RoiShape {
  int64_t images = 0, channels = 0, height = 0, width = 0, regions = 0, rows = 0, columns = 0;
  int64_t ratio = 0;
  float scale = 1, shift = 0;
  bool average = true;
};

/// The four neighbours of a sample; all weights 0 where it lies outside.
struct Sample {
  int32_t at[4] = {0, 0, 0, 0};
  float weight[4] = {0, 0, 0, 0};
};

Sample PlaceSample(float y, float x, const RoiShape& s) {
  Sample sample;
  if (!(y >= -1 && y <= float(s.height) && x >= -1 && x <= float(s.width))) return sample;
  y = std::clamp(y, 0.f, float(s.height - 1));
  x = std::clamp(x, 0.f, float(s.width - 1));
  const auto top = int64_t(y), left = int64_t(x);
  const int64_t down = std::min(top + 1, s.height - 1), right = std::min(left + 1, s.width - 1);
  const float fy = y - float(top), fx = x - float(left);
  const int64_t at[4] = {top * s.width + left, top * s.width + right, down * s.width + left,
                         down * s.width + right};
  const float weight[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  for (int k = 0; k < 4; ++k) sample.at[k] = int32_t(at[k]);
  std::copy_n(weight, 4, sample.weight);
  return sample;
}

/// Start and extent of a bin along one axis, and its number of samples.
struct Bins {
  float start, size;
  int64_t samples;
};
Bins BinsOf(float from, float to, int64_t count, const RoiShape& s) {
  const float start = from * s.scale - s.shift;
  float length = to * s.scale - s.shift - start;
  if (s.shift == 0) length = std::max(length, 1.f);
  const float size = length / float(count);
  // More than this many samples no image has room for; the float of a region may be anything.
  constexpr float kMost = 1 << 20;
  const float samples = s.ratio > 0 ? float(s.ratio) : std::ceil(size);
  WEFT_CHECK(!(samples > kMost), kLimit, "RoiAlign: {} samples an axis and bin", samples);
  return {start, size, samples > 0 ? int64_t(samples) : 0};
}

/// `count` samples weighted.
float Average(const float* plane, const Sample* samples, int64_t count) {
  float sum = 0;
  for (const Sample* v = samples; v != samples + count; ++v)
    for (int k = 0; k < 4; ++k) sum += v->weight[k] * plane[v->at[k]];
  return sum / float(std::max<int64_t>(count, 1));
}
float Largest(const float* plane, const Sample* samples, int64_t count) {
  float most = count > 0 ? -INFINITY : 0;
  for (const Sample* v = samples; v != samples + count; ++v)
    for (int k = 0; k < 4; ++k) most = std::max(most, v->weight[k] * plane[v->at[k]]);
  return most;
}

void Region(const float* x, const float* roi, float* y, const RoiShape& s,
            std::vector<Sample>* samples) {
  const Bins rows = BinsOf(roi[1], roi[3], s.rows, s),
             columns = BinsOf(roi[0], roi[2], s.columns, s);
  const int64_t count = rows.samples * columns.samples;
  WEFT_CHECK(count <= int64_t{1} << 24, kLimit, "RoiAlign: {} samples a bin", count);
  const int64_t plane = s.height * s.width, bins = s.rows * s.columns;
  // The samples of so many bins are kept, and a channel is read for all of these at once.
  const int64_t together = std::max<int64_t>((int64_t{1} << 15) / std::max<int64_t>(count, 1), 1);
  for (int64_t first = 0; first < bins; first += together) {
    const int64_t end = std::min(first + together, bins);
    samples->clear();
    for (int64_t bin = first; bin < end; ++bin)
      for (int64_t k = 0; k < count; ++k) {
        const auto at = [](const Bins& b, int64_t index, int64_t sample) {
          return b.start + float(index) * b.size +
                 (float(sample) + 0.5f) * (b.size / float(b.samples));
        };
        samples->push_back(PlaceSample(at(rows, bin / s.columns, k / columns.samples),
                                       at(columns, bin % s.columns, k % columns.samples), s));
      }
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t bin = first; bin < end; ++bin) {
        const Sample* own = samples->data() + (bin - first) * count;
        y[c * bins + bin] =
            s.average ? Average(x + c * plane, own, count) : Largest(x + c * plane, own, count);
      }
  }
}

class RoiAlignCall final : public LibraryCall {
 public:
  RoiAlignCall(const RoiShape& shape, int threads) : s_(shape), threads_(threads) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    const auto* x = static_cast<const float*>(inputs[0]);
    const auto* rois = static_cast<const float*>(inputs[1]);
    const auto* images = static_cast<const int64_t*>(inputs[2]);
    auto* y = static_cast<float*>(outputs[0]);
    for (int64_t r = 0; r < s_.regions; ++r)
      WEFT_CHECK(images[r] >= 0 && images[r] < s_.images, kIndexRange,
                 "RoiAlign: batch index {} of region {} is outside [0, {})", images[r], r,
                 s_.images);
    const int64_t result = s_.channels * s_.rows * s_.columns;
    std::exception_ptr failed;
    const ScopedThreads threads(threads_);
#pragma omp parallel if (s_.regions > 1 && s_.regions * result > 16384)
    {
      std::vector<Sample> samples;
#pragma omp for schedule(dynamic, 4)
      for (int64_t r = 0; r < s_.regions; ++r) try {
          Region(x + images[r] * s_.channels * s_.height * s_.width, rois + r * 4, y + r * result,
                 s_, &samples);
        } catch (...) {  // none may leave the loop
#pragma omp critical(weft_roi_align)
          failed = std::current_exception();
        }
    }
    if (failed) std::rethrow_exception(failed);
  }
  std::string description() const override { return "roi align"; }

 private:
  RoiShape s_;
  int threads_;
};

std::unique_ptr<LibraryCall> PrepareRoiAlign(const ComputeRequest& q) {
  const std::vector<int64_t>&x = q.input_dims[0], &y = q.output_dims[0];
  if (q.input_types[0] != DType::kF32 || q.input_types[1] != DType::kF32 ||
      q.input_types[2] != DType::kI64 || x.size() != 4 || y.size() != 4)
    return nullptr;
  if (CheckedProduct(y) == 0) return std::make_unique<ZeroCall>(0);
  if (CheckedProduct(x) == 0 || CheckedMul(x[2], x[3]) > INT32_MAX) return nullptr;
  const auto text = [&](const char* name, const char* otherwise) {
    return q.node->has_attr(name) ? q.node->attr<std::string>(name) : std::string(otherwise);
  };
  RoiShape s;
  s.images = x[0], s.channels = x[1], s.height = x[2], s.width = x[3];
  s.regions = y[0], s.rows = y[2], s.columns = y[3];
  s.ratio = IntAttr(q.node, "sampling_ratio", 0);
  s.scale = float(FloatAttr(q.node, "spatial_scale", 1));
  s.shift = text("coordinate_transformation_mode", "half_pixel") == "half_pixel" ? 0.5f : 0.f;
  s.average = text("mode", "avg") == "avg";
  return std::make_unique<RoiAlignCall>(s, q.threads);
}

WEFT_REGISTER_OP(RoiAlign)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareRoiAlign))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle);

}  // namespace
}  // namespace weft::cpu
