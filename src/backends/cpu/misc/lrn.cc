/// lrn.cc: LRN in f32, plain layout: the squares of a channel enter and leave a running window, one
/// row of positions at a time, so each is read twice and none is recomputed.
///
/// The window's sum is taken afresh for every channel from the squares in it (at most `size` adds),
/// not by subtracting what leaves: no error builds up. The power is 1 / sqrt(b sqrt(b)) for the
/// usual exponent of 3 / 4.
#include <algorithm>
#include <cmath>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "backends/cpu/util/threads.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/takes_dtype.h"

namespace weft::cpu {
namespace {

/// Positions that one step works on; a block of all channels of it stays in the second-level cache.
constexpr int64_t kBlock = 64;

struct LrnShape {
  int64_t images = 0, channels = 0, positions = 0;
  int64_t before = 0, after = 0;
  float scale = 0, bias = 0, beta = 0;
};

void Normalize(const float* x, float* y, const LrnShape& s, int64_t count) {
  float sum[kBlock];
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t first = std::max<int64_t>(0, c - s.before),
                  last = std::min(s.channels - 1, c + s.after);
    std::fill_n(sum, count, 0.f);
    for (int64_t j = first; j <= last; ++j) {
      const float* from = x + j * s.positions;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) sum[i] += from[i] * from[i];
    }
    const float* from = x + c * s.positions;
    float* to = y + c * s.positions;
    if (s.beta == 0.75f) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        const float b = s.bias + s.scale * sum[i];
        to[i] = from[i] / std::sqrt(b * std::sqrt(b));
      }
    } else {
      for (int64_t i = 0; i < count; ++i)
        to[i] = from[i] * std::pow(s.bias + s.scale * sum[i], -s.beta);
    }
  }
}

class LrnCall final : public LibraryCall {
 public:
  LrnCall(const LrnShape& shape, int threads) : s_(shape), threads_(threads) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    const auto* x = static_cast<const float*>(inputs[0]);
    auto* y = static_cast<float*>(outputs[0]);
    const int64_t blocks = (s_.positions + kBlock - 1) / kBlock;
    const int64_t image = s_.channels * s_.positions;
    const ScopedThreads threads(threads_);
#pragma omp parallel for schedule(static) if (s_.images * image > 16384)
    for (int64_t i = 0; i < s_.images * blocks; ++i) {
      const int64_t at = i / blocks * image + i % blocks * kBlock;
      Normalize(x + at, y + at, s_, std::min(kBlock, s_.positions - i % blocks * kBlock));
    }
  }
  std::string description() const override { return "lrn"; }

 private:
  LrnShape s_;
  int threads_;
};

std::unique_ptr<LibraryCall> PrepareLrn(const ComputeRequest& q) {
  const std::vector<int64_t>& x = q.input_dims[0];
  if (!AllF32(q) || x.size() < 2) return nullptr;
  if (CheckedProduct(x) == 0) return std::make_unique<ZeroCall>(0);
  const int64_t size = IntAttr(q.node, "size", 1);
  LrnShape s;
  s.images = x[0];
  s.channels = x[1];
  s.positions = CheckedProduct(std::vector<int64_t>(x.begin() + 2, x.end()));
  s.before = (size - 1) / 2;
  s.after = size / 2;
  s.scale = float(FloatAttr(q.node, "alpha", 1e-4) / double(size));
  s.bias = float(FloatAttr(q.node, "bias", 1));
  s.beta = float(FloatAttr(q.node, "beta", 0.75));
  return std::make_unique<LrnCall>(s, q.threads);
}

WEFT_REGISTER_OP(LRN)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareLrn))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle);

}  // namespace
}  // namespace weft::cpu
