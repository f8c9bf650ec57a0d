/// matrix_unit.cc: groups of four, as most machines have them, four sums at a time.
#include "matrix_unit.h"

#include <array>
#include <cstring>
#include <vector>

namespace hsimd {
namespace {

constexpr uint32_t kNan = 0x7fc00000U;

void MultiplyFours(const uint32_t* a, int64_t a_stride, const uint32_t* x, const uint32_t* acc,
                   uint32_t* y, int64_t first, int64_t end) {
  using Four = float __attribute__((vector_size(16)));
  using Bits = int32_t __attribute__((vector_size(16)));
  const auto load = [](const uint32_t* p) {
    Four v;
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  for (int64_t g = first; g < end; g += 4) {
    const Four xs = load(x + g);
    const auto product = [&](int j) {
      const float one = xs[j];
      return load(a + j * a_stride + g) * Four{one, one, one, one};
    };
    Four sum = acc ? load(acc + g) + product(0) : product(0);
    for (int j = 1; j < 4; ++j) sum = sum + product(j);
    Bits bits;
    std::memcpy(&bits, &sum, sizeof bits);
    const Bits ordered = sum == sum;
    bits = (bits & ordered) |
           (Bits{int32_t(kNan), int32_t(kNan), int32_t(kNan), int32_t(kNan)} & ~ordered);
    std::memcpy(y + g, &bits, sizeof bits);
  }
}

float AsFloat(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

}  // namespace

void MultiplyGroups(int64_t n, const uint32_t* a, int64_t a_stride, const uint32_t* x,
                    const uint32_t* acc, uint32_t* y, int64_t first, int64_t end) {
  if (n == 4) return MultiplyFours(a, a_stride, x, acc, y, first, end);
  std::vector<uint32_t> sums(static_cast<size_t>(n));
  for (int64_t g = first; g < end; g += n) {
    for (int64_t i = 0; i < n; ++i) {
      float sum = acc ? AsFloat(acc[g + i]) : 0;
      for (int64_t j = 0; j < n; ++j) {
        const float product = AsFloat(a[j * a_stride + g + i]) * AsFloat(x[g + j]);
        sum = j == 0 && !acc ? product : sum + product;
      }
      std::memcpy(&sums[size_t(i)], &sum, sizeof sum);
      if (sum != sum) sums[size_t(i)] = kNan;
    }
    std::memcpy(y + g, sums.data(), size_t(n) * sizeof(uint32_t));
  }
}

}  // namespace hsimd
