/// quantised_call.cc: see quantised_call.h.
#include "quantised_call.h"

#include <algorithm>

#include "backends/shared/call_operands.h"
#include "backends/shared/node_attrs.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

int64_t Padded(int64_t columns) { return (columns + kByteLanes - 1) / kByteLanes * kByteLanes; }

/// The byte at `i`, as what it stands for, 128 more where it is signed and less where not, as asked.
int32_t ByteAt(const void* p, int64_t i, bool is_signed) {
  return is_signed ? static_cast<const int8_t*>(p)[i] : static_cast<const uint8_t*>(p)[i];
}

}  // namespace

int32_t QuantisedFinish::x_zero(const void* const* inputs) const {
  const int32_t zero = inputs[kQXZero] ? ByteAt(inputs[kQXZero], 0, x_signed) : 0;
  return x_signed ? zero + 128 : zero;
}

int32_t QuantisedFinish::w_zero(const void* const* inputs, int64_t j) const {
  const int32_t zero =
      inputs[kQWZero] ? ByteAt(inputs[kQWZero], one_w_zero ? 0 : j, w_signed) : 0;
  return w_signed ? zero : zero - 128;
}

int64_t QuantisedFinish::bytes(int64_t groups, int64_t columns_of_group) {
  return CheckedMul(CheckedMul(groups, Padded(columns_of_group)), int64_t{4 * 4});
}

ByteFinish QuantisedFinish::Make(const void* const* inputs, int64_t groups, const int32_t* sums,
                                 int64_t terms, bool centred, void* memory) const {
  const int64_t each = columns / groups, wide = Padded(each), all = groups * wide;
  auto* const bias_at = static_cast<int32_t*>(memory);
  auto* const zeros = bias_at + all;
  auto* const scale = reinterpret_cast<float*>(zeros + all);
  float* const offset = scale + all;
  // Sums wrap, as those of the operators do.
  const auto wrapped = [](int64_t v) { return int32_t(uint32_t(uint64_t(v))); };
  const int64_t zx = x_zero(inputs);
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t j = 0; j < wide; ++j) {
      const int64_t at = g * wide + j, c = g * each + j;
      const bool there = j < each;
      const int64_t zw = there && !centred ? w_zero(inputs, c) : 0;
      const auto value = [&](auto* data, bool one) { return there ? data[one ? 0 : c] : 0; };
      int64_t b = has_bias ? value(static_cast<const int32_t*>(inputs[kQBias]), one_bias) : 0;
      b += zx * (terms * zw - (there ? sums[at] : 0));
      bias_at[at] = wrapped(b);
      zeros[at] = int32_t(zw);
      if (has_scale) scale[at] = value(static_cast<const float*>(inputs[kQScale]), one_scale);
      if (has_offset) offset[at] = value(static_cast<const float*>(inputs[kQOffset]), one_offset);
    }
  return {as,   bias_at, has_scale ? scale : nullptr,
          has_offset ? offset : nullptr, has_w_zero && !centred ? zeros : nullptr,
          low,  high,    zero};
}

ByteFinish QuantisedFinish::At(const ByteFinish& f, int64_t place) {
  ByteFinish g = f;
  g.bias += place;
  if (g.scale) g.scale += place;
  if (g.offset) g.offset += place;
  if (g.zeros) g.zeros += place;
  return g;
}

std::optional<QuantisedFinish> ReadFinish(const ComputeRequest& q, int64_t columns) {
  const auto is_byte = [](DType t) { return t == DType::kI8 || t == DType::kU8; };
  if (q.input_types.size() < 2 || !is_byte(q.input_types[kQX]) || !is_byte(q.input_types[kQW]))
    return std::nullopt;
  QuantisedFinish f;
  f.columns = columns;
  f.x_signed = q.input_types[kQX] == DType::kI8;
  f.w_signed = q.input_types[kQW] == DType::kI8;
  const auto one = [&](size_t i) {
    return HasInput(q, i) && CheckedProduct(q.input_dims[i]) == 1;
  };
  f.has_scale = HasInput(q, kQScale);
  f.has_bias = HasInput(q, kQBias);
  f.has_offset = HasInput(q, kQOffset);
  f.one_scale = one(kQScale);
  f.one_bias = one(kQBias);
  f.one_offset = one(kQOffset);
  f.one_w_zero = one(kQWZero);
  // Zeros that are known to be those of the packed bytes need no sums of rows.
  const TensorPtr zeros = kQWZero < q.constants.size() ? q.constants[kQWZero] : nullptr;
  f.has_w_zero = !f.w_signed || HasInput(q, kQWZero);
  if (zeros) {
    f.has_w_zero = false;
    for (int64_t i = 0; i < zeros->num_elements(); ++i)
      f.has_w_zero = f.has_w_zero || int64_t(zeros->at(i)) != (f.w_signed ? 0 : 128);
  }
  const DType to = q.output_types[0];
  if (to == DType::kI32) return f;
  if (!f.has_scale) return std::nullopt;
  f.as = to == DType::kF32 ? ByteResult::kF32 : ByteResult::kByte;
  if (to == DType::kF32) return f;
  if (!is_byte(to)) return std::nullopt;
  const int64_t least = to == DType::kI8 ? -128 : 0;
  f.zero = int32_t(IntAttr(q.node, "zero", 0));
  // max, then min, then what the dtype holds: as the operator says it.
  const auto bounded = [&](int64_t v) { return std::clamp(v, least, least + 255); };
  const int64_t high = IntAttr(q.node, "high", 255), low = IntAttr(q.node, "low", -128);
  f.low = float(bounded(std::min(low, high)) - f.zero);
  f.high = float(bounded(high) - f.zero);
  return f;
}

void FlipBytes(const uint8_t* from, uint8_t* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] ^ 0x80;
}

int64_t ScratchParts::Add(int64_t bytes) {
  const int64_t at = bytes_;
  bytes_ = CheckedAdd(bytes_, CheckedRoundUp(bytes, 64));
  return at;
}

}  // namespace weft::cpu
