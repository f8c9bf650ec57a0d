/// host_util.cc: elements of any dtype from one tensor to another.
#include "host_util.h"

namespace weft::ops {

void CopyElements(const Tensor& from, int64_t from_at, Tensor* to, int64_t to_at, int64_t count) {
  WEFT_ICHECK(from.dtype() == to->dtype() && from_at >= 0 && to_at >= 0 &&
                  from_at + count <= from.num_elements() && to_at + count <= to->num_elements(),
              "{} elements from {} to {}", count, from_at, to_at);
  const int bits = DTypeBits(from.dtype());
  if (from.dtype() == DType::kString) {
    for (int64_t i = 0; i < count; ++i)
      to->mutable_strings()[size_t(to_at + i)] = from.strings()[size_t(from_at + i)];
  } else if (bits >= 8) {
    const int64_t bytes = bits / 8;
    if (count > 0)
      std::memcpy(static_cast<char*>(to->mutable_data()) + to_at * bytes,
                  static_cast<const char*>(from.data()) + from_at * bytes, size_t(count * bytes));
  } else {
    for (int64_t i = 0; i < count; ++i) to->set(to_at + i, from.at(from_at + i));
  }
}

int64_t BroadcastOffset(int64_t i, const Dims& out, const Dims& dims) {
  int64_t offset = 0, stride = 1;
  for (size_t k = 0; k < out.size(); ++k) {
    const size_t d = out.size() - 1 - k;
    const int64_t at = i % out[d];
    i /= out[d];
    if (k >= dims.size()) continue;
    const int64_t extent = dims[dims.size() - 1 - k];
    if (extent != 1) offset += at * stride;
    stride *= extent;
  }
  return offset;
}
Dims BroadcastDims(const Tensor& a, const Tensor& b) {
  return BroadcastShapes(a.shape(), b.shape(), nullptr).ints();
}

}  // namespace weft::ops
