/// conv_columns.cc: products by oneDNN, one for every few rows of an image, and sums by AVX-512.
#ifdef WEFT_HAVE_ONEDNN

#include "conv_columns.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/onednn/onednn_adapter.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

/// Columns that are made at once: they stay in the second-level cache beside what they are made of.
constexpr int64_t kColumnBytes = int64_t{256} << 10;
/// Channels that oneDNN's direct sums compute together.
constexpr int64_t kBlock = 16;
constexpr int64_t kLine = 64;

int64_t Lines(int64_t bytes) { return CheckedMul((bytes + kLine - 1) / kLine, kLine); }

/// One axis; of convolutions along one axis the other has the extent 1.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
};

struct Columns {
  Axis down, across;
  int64_t images = 0, channels = 0, filters = 0;
  int64_t piece = 0, column = 0;    ///< elements of a column, and of its part from one row
  int64_t rows = 1, positions = 1;  ///< of the result, that one product makes columns of

  int64_t taps() const { return down.kernel * across.kernel; }
  int64_t source() const { return down.in * across.in * channels; }
  int64_t result() const { return down.out * across.out * filters; }
};

Columns ColumnsOf(const ConvShape& c) {
  const WindowShape& w = c.window;
  const auto axis = [&](size_t k) {
    return Axis{w.in[k], w.out[k], w.kernel[k], w.strides[k], w.dilations[k], w.begin[k]};
  };
  Columns m;
  m.images = c.images;
  m.channels = c.channels;
  m.filters = c.filters;
  m.across = axis(w.rank() - 1);
  if (w.rank() == 2) m.down = axis(0);
  m.piece = CheckedMul(m.across.kernel, c.channels);
  m.column = CheckedMul(m.down.kernel, m.piece);
  const int64_t row_bytes = CheckedMul(CheckedMul(m.across.out, m.column), 4);
  for (int64_t rows = 1; rows <= m.down.out && rows <= kColumnBytes / row_bytes; ++rows)
    if (m.down.out % rows == 0) m.rows = rows;
  m.positions = m.rows * m.across.out;
  return m;
}

#if defined(__x86_64__)
bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}
/// Adds the pieces of the columns of rows [row, row + rows) to the image; what lies in
/// the padding is dropped.
__attribute__((target("avx512f"))) void AddPieces(const Columns& m, int64_t row,
                                                  const float* columns, float* image) {
  for (int64_t y = row; y < row + m.rows; ++y)
    for (int64_t x = 0; x < m.across.out; ++x, columns += m.column) {
      const int64_t left = x * m.across.stride - m.across.begin;
      const int64_t first = std::max<int64_t>(0, -left),
                    last = std::min(m.across.kernel, m.across.in - left);
      if (first >= last) continue;
      const int64_t count = (last - first) * m.channels;
      for (int64_t k = 0; k < m.down.kernel; ++k) {
        const int64_t at = y * m.down.stride - m.down.begin + k * m.down.dilation;
        if (at < 0 || at >= m.down.in) continue;
        const float* from = columns + k * m.piece + first * m.channels;
        float* to = image + (at * m.across.in + left + first) * m.channels;
        int64_t i = 0;
        for (; i + 16 <= count; i += 16)
          _mm512_storeu_ps(to + i,
                           _mm512_add_ps(_mm512_loadu_ps(to + i), _mm512_loadu_ps(from + i)));
        if (i == count) continue;
        const auto rest = static_cast<__mmask16>((1u << (count - i)) - 1);
        _mm512_mask_storeu_ps(to + i, rest,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(rest, to + i),
                                            _mm512_maskz_loadu_ps(rest, from + i)));
      }
    }
}
#else
bool HasAvx512() { return false; }
void AddPieces(const Columns&, int64_t, const float*, float*) {}
#endif

class GradDataByColumns final : public LibraryCall {
 public:
  GradDataByColumns(const ConvShape& c, int threads)
      : m_(ColumnsOf(c)), threads_(int(std::min<int64_t>(threads, c.images))) {
    const ScopedThreads one(1);
    product_ =
        Describe<dnnl::matmul>({}, Plain({m_.positions, m_.filters}),
                               Plain({m_.filters, m_.column}), Plain({m_.positions, m_.column}));
    if (!product_) return;
    primitive_ = dnnl::matmul(product_);
    weight_bytes_ = Lines(CheckedMul(CheckedMul(m_.filters, m_.column), 4));
    column_bytes_ = Lines(CheckedMul(CheckedMul(m_.positions, m_.column), 4));
    part_bytes_ = column_bytes_ + Lines(int64_t(product_.scratchpad_desc().get_size()));
  }
  bool possible() const { return bool(product_); }

  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const ScopedThreads one(1);  // a product has one thread, the call several products
    std::unique_ptr<Bound> bound = Take();
    std::vector<std::exception_ptr> failed(static_cast<size_t>(threads_));
    const auto* dy = static_cast<const float*>(inputs[0]);
    auto* weights = static_cast<float*>(scratch);
    auto* dx = static_cast<float*>(outputs[0]);
    auto* parts = static_cast<char*>(scratch) + weight_bytes_;
    OrderWeights(static_cast<const float*>(inputs[1]), weights);
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int t = 0; t < threads_; ++t) {
      try {
        const int64_t end = m_.images * (t + 1) / threads_;
        for (int64_t n = m_.images * t / threads_; n < end; ++n)
          MakeImage(&(*bound)[size_t(t)], parts + t * part_bytes_, dy + n * m_.result(), weights,
                    dx + n * m_.source());
      } catch (...) {
        failed[size_t(t)] = std::current_exception();
      }
    }
    for (const std::exception_ptr& e : failed) Rethrow(e);
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(bound));
  }
  int64_t scratch_bytes() const override {
    return CheckedAdd(weight_bytes_, CheckedMul(threads_, part_bytes_));
  }
  std::string description() const override {
    return std::string("conv dx by columns ") + product_.impl_info_str();
  }

 private:
  /// Memory objects of every thread: oneDNN binds addresses through them. One set a
  /// concurrent run, used again.
  struct Operands {
    dnnl::memory dy, weights, columns, scratchpad;
  };
  using Bound = std::vector<Operands>;

  std::unique_ptr<Bound> Take() const {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto bound = std::move(idle_.back());
        idle_.pop_back();
        return bound;
      }
    }
    auto bound = std::make_unique<Bound>();
    const auto memory = [](const Desc& d) { return dnnl::memory(d, Engine(), DNNL_MEMORY_NONE); };
    for (int t = 0; t < threads_; ++t)
      bound->push_back({memory(product_.src_desc()), memory(product_.weights_desc()),
                        memory(product_.dst_desc()), memory(product_.scratchpad_desc())});
    return bound;
  }
  void Rethrow(const std::exception_ptr& e) const {
    if (!e) return;
    try {
      std::rethrow_exception(e);
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_out_of_memory)
        WEFT_THROW(kOutOfMemory, "{}: oneDNN has no memory", description());
      WEFT_THROW(kInternal, "{}: oneDNN: {}", description(), error.what());
    }
  }

  /// [filters, channels, kernel] to [filters, column].
  void OrderWeights(const float* from, float* to) const {
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t f = 0; f < m_.filters; ++f)
      for (int64_t k = 0; k < m_.taps(); ++k)
        for (int64_t c = 0; c < m_.channels; ++c)
          to[f * m_.column + k * m_.channels + c] = from[f * m_.column + c * m_.taps() + k];
  }

  void MakeImage(Operands* o, char* memory, const float* dy, float* weights, float* dx) const {
    auto* columns = reinterpret_cast<float*>(memory);
    std::memset(dx, 0, size_t(m_.source()) * sizeof(float));
    o->weights.set_data_handle(weights);
    o->columns.set_data_handle(columns);
    o->scratchpad.set_data_handle(memory + column_bytes_);
    for (int64_t row = 0; row < m_.down.out; row += m_.rows) {
      o->dy.set_data_handle(const_cast<float*>(dy + row * m_.across.out * m_.filters));
      primitive_.execute(Stream(), {{DNNL_ARG_SRC, o->dy},
                                    {DNNL_ARG_WEIGHTS, o->weights},
                                    {DNNL_ARG_DST, o->columns},
                                    {DNNL_ARG_SCRATCHPAD, o->scratchpad}});
      Stream().wait();
      AddPieces(m_, row, columns, dx);
    }
  }

  const Columns m_;
  const int threads_;
  dnnl::matmul::primitive_desc product_;
  dnnl::matmul primitive_;
  int64_t weight_bytes_ = 0, column_bytes_ = 0, part_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Bound>> idle_;
};

double Filled(int64_t channels) {
  return double(channels) / double((channels + kBlock - 1) / kBlock * kBlock);
}

}  // namespace

bool FitsColumns(const ConvShape& c, int threads) {
  return HasAvx512() && c.groups == 1 && c.window.rank() <= 2 && c.window.dilations.back() == 1 &&
         c.images >= threads;
}

/// Direct sums take as long as for all channels of their blocks; a product takes longer the fewer
/// filters it sums over for each element of a column that it writes. Of 21 convolutions of 16
/// images, 12 to 32 pixels a side and kernels of 1 to 7 on a core of an Intel Xeon, those that are
/// taken need 0.72 to 0.86 of the time of direct sums, the others 0.92 to 1.6.
bool ColumnsPay(const ConvShape& c) {
  return Filled(c.channels) * (1.1 + 14 / double(c.filters)) < 0.9;
}

std::unique_ptr<LibraryCall> MakeGradDataByColumns(const ConvShape& c, int threads) {
  auto call = std::make_unique<GradDataByColumns>(c, threads);
  if (!call->possible()) return nullptr;
  return call;
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
