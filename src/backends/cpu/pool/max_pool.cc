/// max_pool.cc: a window is a box, so its rows are folded first, along contiguous memory, and the
/// folded row is then searched window by window.
#include "max_pool.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <limits>

namespace weft::cpu {
namespace {

inline float Larger(float a, float b) { return b > a || b != b ? b : a; }

/// The window with leading axes of extent 1, so that there are three.
struct Box {
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3];
  explicit Box(const WindowShape& w) {
    const size_t lead = 3 - w.rank();
    for (size_t k = 0; k < 3; ++k) {
      const bool own = k >= lead;
      in[k] = own ? w.in[k - lead] : 1;
      out[k] = own ? w.out[k - lead] : 1;
      kernel[k] = own ? w.kernel[k - lead] : 1;
      stride[k] = own ? w.strides[k - lead] : 1;
      dilation[k] = own ? w.dilations[k - lead] : 1;
      begin[k] = own ? w.begin[k - lead] : 0;
    }
  }
};

/// Largest of every column over the rows of the windows at (od, oh).
void FoldRows(const float* x, const Box& b, int64_t od, int64_t oh, float* row) {
  const int64_t width = b.in[2];
  std::fill_n(row, width, -std::numeric_limits<float>::infinity());
  for (int64_t kd = 0; kd < b.kernel[0]; ++kd) {
    const int64_t d = od * b.stride[0] - b.begin[0] + kd * b.dilation[0];
    if (d < 0 || d >= b.in[0]) continue;
    for (int64_t kh = 0; kh < b.kernel[1]; ++kh) {
      const int64_t h = oh * b.stride[1] - b.begin[1] + kh * b.dilation[1];
      if (h < 0 || h >= b.in[1]) continue;
      const float* from = x + (d * b.in[1] + h) * width;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) row[i] = Larger(row[i], from[i]);
    }
  }
}

void FoldColumns(const float* row, const Box& b, float* y) {
  for (int64_t o = 0; o < b.out[2]; ++o) {
    const int64_t first = o * b.stride[2] - b.begin[2];
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t k = 0; k < b.kernel[2]; ++k) {
      const int64_t p = first + k * b.dilation[2];
      if (p >= 0 && p < b.in[2]) best = Larger(best, row[p]);
    }
    y[o] = best;
  }
}

int64_t RowBytes(const WindowShape& w) {
  return (w.in.back() * int64_t{sizeof(float)} + 63) / 64 * 64;
}

}  // namespace

int64_t MaxPoolScratch(const WindowShape& w, int threads) { return RowBytes(w) * threads; }

void MaxPool(const float* x, float* y, int64_t planes, const WindowShape& w, void* scratch,
             [[maybe_unused]] int threads) {
  const Box b(w);
  const int64_t rows = b.out[0] * b.out[1], in = b.in[0] * b.in[1] * b.in[2];
  [[maybe_unused]] const int64_t work = planes * in * b.kernel[0] * b.kernel[1];
#pragma omp parallel num_threads(threads) if (work > 16384)
  {
#ifdef _OPENMP
    float* row =
        reinterpret_cast<float*>(static_cast<char*>(scratch) + omp_get_thread_num() * RowBytes(w));
#else
    float* row = static_cast<float*>(scratch);
#endif
#pragma omp for schedule(static)
    for (int64_t i = 0; i < planes * rows; ++i) {
      const int64_t plane = i / rows, r = i % rows;
      FoldRows(x + plane * in, b, r / b.out[1], r % b.out[1], row);
      FoldColumns(row, b, y + i * b.out[2]);
    }
  }
}

}  // namespace weft::cpu
