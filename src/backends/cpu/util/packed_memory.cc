/// packed_memory.cc: see packed_memory.h.
#include "packed_memory.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "weft/support/aligned_memory.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/mapped_file.h"
#include "weft/support/request.h"

namespace weft::cpu {

std::shared_ptr<float> PackedMemory(int64_t floats) {
  const int64_t bytes = CheckedMul(floats, int64_t{sizeof(float)});
  RequestScope::CheckMemory(bytes);
  std::shared_ptr<void> memory = AllocateAligned(bytes);
  WEFT_CHECK(memory, kOutOfMemory, "cannot allocate {} bytes for packed weights", bytes);
  return std::static_pointer_cast<float>(std::move(memory));
}

std::string NameOfConstant(const Tensor& t) {
  std::string name = MappedName(t.data(), t.num_bytes());
  return name.empty() ? fmt::format("{}", static_cast<const void*>(&t)) : name;
}

void DropSubnormals(float* v, int64_t n) {
  float most = 0;
#pragma omp parallel for simd schedule(static) reduction(max : most) if (n > 65536)
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(v[i]));
  if (most < 0x1p-100f) return;
#pragma omp parallel for simd schedule(static) if (n > 65536)
  for (int64_t i = 0; i < n; ++i) v[i] = std::fabs(v[i]) < FLT_MIN ? 0.f : v[i];
}

}  // namespace weft::cpu
