/// col2im.cc: Col2Im in f32 and f64, over any number of axes: a row of the image is the sum of the
/// rows of all blocks that cover it, which is made in registers.
///
///   image[.., i, j] = sum over k, l of columns[(k, l), .., i + begin - k dilation, ..]
///
/// Which blocks cover a row is the same for every plane. Sums are made in the order of the
/// positions of a block, as the definition makes them.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/transpose.h"
#include "backends/cpu/util/wide.h"
#include "weft/core/op/op.h"
#include "weft/core/op/window.h"
#include "weft/core/takes_dtype.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

/// Bytes of sums that stay in registers; bytes of columns between two looks at the request.
constexpr int64_t kSumBytes = 64, kPollBytes = int64_t{32} << 20;
/// Bytes below which a second thread costs more than it helps.
constexpr int64_t kAlone = int64_t{64} << 10;

template <class T>
struct SumsOf;
template <>
struct SumsOf<float> {
  using Type = float __attribute__((vector_size(kSumBytes)));
};
template <>
struct SumsOf<double> {
  using Type = double __attribute__((vector_size(kSumBytes)));
};
template <class T>
constexpr int64_t kTogether = kSumBytes / int64_t(sizeof(T));

/// The last axis, and how long all columns of a plane are.
struct LastAxis {
  int64_t extent, kernel, count, stride, dilation, begin;
  int64_t blocks;  ///< elements from one position of a block to the next
};

/// y[j] = the sum of `parts` rows, each `kernel` times, for j of [first, last): all of them are
/// there.
template <class T>
inline __attribute__((always_inline)) void SumInside(const LastAxis& a, const T* x,
                                                     const int64_t* parts, int64_t count, T* y,
                                                     int64_t first, int64_t last) {
  for (int64_t j = first; j < last; j += kTogether<T>) {
    // The last ones lie over those before them.
    const int64_t at = std::min(j, last - kTogether<T>);
    typename SumsOf<T>::Type sums{}, next;
    for (int64_t p = 0; p < count; ++p) {
      const T* from = x + parts[p] + at + a.begin;
      for (int64_t k = 0; k < a.kernel; ++k, from += a.blocks - a.dilation) {
        std::memcpy(&next, from, sizeof(next));
        sums += next;
      }
    }
    std::memcpy(y + at, &sums, sizeof(sums));
  }
}
#if defined(__x86_64__)
template <class T>
WEFT_WIDE void SumInsideWide(const LastAxis& a, const T* x, const int64_t* parts, int64_t count,
                             T* y, int64_t first, int64_t last) {
  SumInside(a, x, parts, count, y, first, last);
}
#endif
template <class T>
void SumAnyInside(const LastAxis& a, const T* x, const int64_t* parts, int64_t count, T* y,
                  int64_t first, int64_t last) {
#if defined(__x86_64__)
  if (HasWide()) return SumInsideWide(a, x, parts, count, y, first, last);
#endif
  SumInside(a, x, parts, count, y, first, last);
}

/// Blocks next to each other: of each element one position.
template <class T>
void SumSteps(const LastAxis& a, const T* x, const int64_t* parts, int64_t count, T* y,
              int64_t first, int64_t last) {
  for (int64_t j = first; j < last; ++j) {
    T sum = 0;
    for (int64_t p = 0; p < count; ++p)
      for (int64_t k = 0; k < a.kernel; ++k) {
        const int64_t o = j + a.begin - k * a.dilation;
        if (o >= 0 && o < a.count) sum += x[parts[p] + k * a.blocks + o];
      }
    y[j] = sum;
  }
}
/// Strides: what each position adds, one after the other.
template <class T>
void AddStrided(const LastAxis& a, const T* x, const int64_t* parts, int64_t count, T* y) {
  std::fill_n(y, a.extent, T(0));
  for (int64_t p = 0; p < count; ++p)
    for (int64_t k = 0; k < a.kernel; ++k) {
      const T* from = x + parts[p] + k * a.blocks;
      const int64_t shift = k * a.dilation - a.begin;
      const int64_t first = shift >= 0 ? 0 : (-shift + a.stride - 1) / a.stride;
      const int64_t last =
          shift >= a.extent ? 0 : std::min(a.count, (a.extent - shift - 1) / a.stride + 1);
      for (int64_t o = first; o < last; ++o) y[o * a.stride + shift] += from[o];
    }
}

template <class T>
void SumRow(const LastAxis& a, const T* x, const int64_t* parts, int64_t count, T* y) {
  if (a.stride == 1) {
    const int64_t first = std::max<int64_t>((a.kernel - 1) * a.dilation - a.begin, 0);
    const int64_t last = std::min(a.extent, a.count - a.begin);
    if (last - first < kTogether<T>) return SumSteps(a, x, parts, count, y, 0, a.extent);
    SumSteps(a, x, parts, count, y, 0, first);
    SumAnyInside(a, x, parts, count, y, first, last);
    return SumSteps(a, x, parts, count, y, last, a.extent);
  }
  if constexpr (std::is_same_v<T, float>) {
    // Blocks side by side: the positions of each, one block after the other.
    if (count == 1 && a.stride == a.kernel && a.dilation == 1 && a.begin == 0 &&
        a.count * a.stride <= a.extent) {
      TransposeMatrix(x + parts[0], a.blocks, y, a.stride, a.kernel, a.count);
      std::fill(y + a.count * a.stride, y + a.extent, 0.f);
      return;
    }
  }
  AddStrided(a, x, parts, count, y);
}

class Col2ImCall final : public LibraryCall {
 public:
  Col2ImCall(const WindowShape& w, int64_t planes, DType dtype, int threads)
      : planes_(planes), dtype_(dtype), threads_(threads) {
    const size_t last = w.rank() - 1;
    last_ = {w.in[last],        w.kernel[last], w.out[last],          w.strides[last],
             w.dilations[last], w.begin[last],  CheckedProduct(w.out)};
    plane_ = CheckedMul(last_.blocks, CheckedProduct(w.kernel));
    FindParts(w);
  }
  std::string description() const override { return "blocks to image"; }

  void Run(const void* const* in, void* const* out, void*) const override {
    if (dtype_ == DType::kF64)
      All(static_cast<const double*>(in[0]), static_cast<double*>(out[0]));
    else
      All(static_cast<const float*>(in[0]), static_cast<float*>(out[0]));
  }

 private:
  /// The rows of a plane's columns that are added for each row of the image: of the first position
  /// on the last axis.
  void FindParts(const WindowShape& w) {
    const size_t axes = w.rank() - 1;
    std::vector<int64_t> row(axes, 0), k(axes, 0);
    first_.push_back(0);
    const auto next = [](std::vector<int64_t>* at, const std::vector<int64_t>& extents) {
      for (size_t a = at->size(); a-- > 0;) {
        if (++(*at)[a] < extents[a]) return true;
        (*at)[a] = 0;
      }
      return false;
    };
    do {
      do {
        int64_t position = 0, block = 0;
        bool covers = true;
        for (size_t a = 0; a < axes && covers; ++a) {
          const int64_t o = row[a] + w.begin[a] - k[a] * w.dilations[a];
          covers = o >= 0 && o % w.strides[a] == 0 && o / w.strides[a] < w.out[a];
          position = position * w.kernel[a] + k[a];
          block = block * w.out[a] + o / w.strides[a];
        }
        if (covers) parts_.push_back(position * last_.kernel * last_.blocks + block * last_.count);
      } while (next(&k, w.kernel));
      first_.push_back(parts_.size());
    } while (next(&row, w.in));
  }
  template <class T>
  void All(const T* x, T* y) const {
    const auto rows = int64_t(first_.size()) - 1;
    const int64_t pieces = CheckedMul(planes_, rows);
    const int64_t row_bytes = (plane_ / rows + last_.extent) * int64_t(sizeof(T));
    const int64_t share = std::max<int64_t>(kPollBytes / std::max<int64_t>(row_bytes, 1), threads_);
    const ScopedThreads scoped(threads_);
    for (int64_t begin = 0; begin < pieces; begin += share) {
      RequestScope::Poll();
      const int64_t end = std::min(pieces, begin + share);
#pragma omp parallel for schedule(static) if ((end - begin) * row_bytes > kAlone)
      for (int64_t p = begin; p < end; ++p) {
        const auto row = size_t(p % rows);
        SumRow(last_, x + p / rows * plane_, parts_.data() + first_[row],
               int64_t(first_[row + 1] - first_[row]), y + p * last_.extent);
      }
    }
  }

  LastAxis last_;
  int64_t planes_, plane_;  ///< how many, and elements of the columns of each
  std::vector<int64_t> parts_;
  std::vector<size_t> first_;  ///< a row of the image, and one behind them
  DType dtype_;
  int threads_;
};

bool TakesCol2Im(DType t) { return TakesSingle(t) || t == DType::kF64; }

std::unique_ptr<LibraryCall> PrepareCol2Im(const ComputeRequest& q) {
  const DType t = q.output_types[0];
  const std::vector<int64_t>&x = q.input_dims[0], &y = q.output_dims[0];
  if ((t != DType::kF32 && t != DType::kF64) || x.size() != 3 || y.size() < 3 || !q.constants[2])
    return nullptr;
  std::vector<int64_t> kernel(y.size() - 2);
  if (q.constants[2]->num_elements() != int64_t(kernel.size())) return nullptr;
  for (size_t k = 0; k < kernel.size(); ++k) kernel[k] = q.constants[2]->at_int(int64_t(k));
  WindowAttrs attrs = WindowAttrsOf(q.node);
  if (CompleteWindowAttrs(&attrs, kernel.size())) return nullptr;
  const std::vector<int64_t> image(y.begin() + 2, y.end());
  std::vector<int64_t> out;
  for (size_t k = 0; k < kernel.size(); ++k) {
    const int64_t room = image[k] + attrs.pads[k] + attrs.pads[k + kernel.size()] -
                         (kernel[k] - 1) * attrs.dilations[k] - 1;
    if (kernel[k] < 1 || room < 0) return nullptr;
    out.push_back(room / attrs.strides[k] + 1);
  }
  if (CheckedProduct(out) != x[2]) return nullptr;
  if (CheckedProduct(y) == 0) return std::make_unique<ZeroCall>(0);
  const auto w = WindowShapeOf(q.node, image, kernel, out);
  if (!w) return nullptr;
  return std::make_unique<Col2ImCall>(*w, CheckedMul(y[0], y[1]), t, q.threads);
}

WEFT_REGISTER_OP(Col2Im)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareCol2Im))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesCol2Im);

}  // namespace
}  // namespace weft::cpu
