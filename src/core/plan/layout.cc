/// layout.cc: tensors copied between layouts, and what needs no copy.
#include "weft/core/plan/layout.h"

#include <cstring>

#include "weft/core/graph/builtin_ops.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// [batch, rows, columns] to [batch, columns, rows], of elements of kWidth bytes.
template <size_t kWidth>
void Transpose(const char* from, char* to, int64_t batch, int64_t rows, int64_t columns) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        std::memcpy(to + size_t((b * columns + c) * rows + r) * kWidth,
                    from + size_t((b * rows + r) * columns + c) * kWidth, kWidth);
}

}  // namespace

bool LiesAlikeInAll(const Shape& shape) {
  if (!shape.has_rank()) return false;
  if (shape.rank() < 3 || shape[1].is(1)) return true;
  for (int d = 2; d < shape.rank(); ++d)
    if (!shape[d].is(1)) return false;
  return true;
}

TensorPtr ReorderedConstant(const NodePtr& node) {
  return IsOp(node, builtin::kReorder) && node->num_inputs() == 1
             ? Graph::ConstantOf(node->inputs[0])
             : nullptr;
}

void CopyLayout(DType dtype, const std::vector<int64_t>& dims, const void* from, void* to,
                Layout from_layout, Layout to_layout) {
  const int64_t elements = CheckedProduct(dims), bytes = DTypeBytes(dtype, elements);
  if (elements == 0) return;
  if (from_layout == to_layout || dims.size() < 3) {
    std::memcpy(to, from, size_t(bytes));
    return;
  }
  const bool to_last = to_layout == Layout::kChannelsLast;
  const int64_t channels = dims[1], spatial = elements / (dims[0] * channels),
                rows = to_last ? channels : spatial, columns = to_last ? spatial : channels;
  const auto transpose = [&](auto width) {
    Transpose<decltype(width)::value>(static_cast<const char*>(from), static_cast<char*>(to),
                                      dims[0], rows, columns);
  };
  switch (bytes / elements) {
    case 1:
      return transpose(std::integral_constant<size_t, 1>());
    case 2:
      return transpose(std::integral_constant<size_t, 2>());
    case 4:
      return transpose(std::integral_constant<size_t, 4>());
    case 8:
      return transpose(std::integral_constant<size_t, 8>());
  }
  WEFT_THROW(kUnsupported, "no channels-last layout for elements of type {}", DTypeName(dtype));
}

}  // namespace weft
