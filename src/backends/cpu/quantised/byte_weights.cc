/// byte_weights.cc: see byte_weights.h.
#include "byte_weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "backends/cpu/util/made_once.h"
#include "backends/cpu/util/packed_memory.h"
#include "weft/support/checked.h"

namespace weft::cpu {

void PackBytes(const ByteMatrix& m, const void* weights, bool is_signed, int8_t* panels,
               int32_t* sums) {
  const auto* from = static_cast<const uint8_t*>(weights);
  const uint8_t flip = is_signed ? 0 : 0x80;
  const int64_t wide = m.padded_columns(), quads = m.run_quads();
  const int64_t num_panels = (wide + kByteColumns - 1) / kByteColumns;
#pragma omp parallel for schedule(static) if (m.panel_bytes() > 65536)
  for (int64_t p = 0; p < num_panels; ++p) {
    const int64_t first = p * kByteColumns, width = std::min(kByteColumns, wide - first),
                  real = std::min(width, m.columns - first);
    int8_t* to = panels + m.panel_at(first);
    std::fill_n(sums + first, width, 0);
    std::memset(to, 0, size_t(width * m.num_runs * quads * kQuad));
    for (int64_t run = 0; run < m.num_runs; ++run)
      for (int64_t k = 0; k < m.run_length; ++k) {
        const uint8_t* x = from + run * m.run_step + k / m.inner * m.outer_step +
                           k % m.inner * m.inner_step + first * m.column_step;
        int8_t* y = to + (run * quads + k / kQuad) * width * kQuad + k % kQuad;
        for (int64_t j = 0; j < real; ++j) {
          const auto w = int8_t(x[j * m.column_step] ^ flip);
          y[j * kQuad] = w;
          sums[first + j] += w;
        }
      }
  }
}

int64_t PackedSize(const ByteMatrix& m, int64_t groups) {
  const int64_t one = CheckedAdd(m.panel_bytes(), m.padded_columns() * int64_t{sizeof(int32_t)});
  return CheckedMul(one, groups);
}

namespace {

std::shared_ptr<const PackedBytes> Pack(const TensorPtr& weights, const ByteMatrix& m,
                                        int64_t groups, int64_t group_step) {
  auto packed = std::make_shared<PackedBytes>();
  packed->source = weights;
  packed->bytes = PackedSize(m, groups);
  packed->memory = PackedMemory((packed->bytes + 3) / 4);
  auto* const panels = reinterpret_cast<int8_t*>(packed->memory.get());
  auto* const sums = reinterpret_cast<int32_t*>(panels + m.panel_bytes() * groups);
  for (int64_t g = 0; g < groups; ++g)
    PackBytes(m, static_cast<const uint8_t*>(weights->data()) + g * group_step,
              weights->dtype() == DType::kI8, panels + g * m.panel_bytes(),
              sums + g * m.padded_columns());
  packed->panels = panels;
  packed->sums = sums;
  return packed;
}

}  // namespace

std::shared_ptr<const PackedBytes> PackedBytesOf(const TensorPtr& weights, const ByteMatrix& m,
                                                 int64_t groups, int64_t group_step) {
  using Key = std::tuple<std::string, int64_t, std::vector<int64_t>>;
  static auto* const made = new MadeOnce<Key, PackedBytes>;
  const Key key{NameOfConstant(*weights),
                groups,
                {m.columns, m.num_runs, m.run_length, m.run_step, m.column_step, m.inner,
                 m.inner_step, m.outer_step, group_step}};
  return made->Get(key, [&] { return Pack(weights, m, groups, group_step); });
}

}  // namespace weft::cpu
