/// quantised_call.cc: see quantised_call.h.
#include "quantised_call.h"

#include <algorithm>
#include <cstring>

#include "backends/shared/call_operands.h"
#include "weft/core/op/node_attrs.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

int64_t Padded(int64_t columns) { return CheckedRoundUp(columns, kByteLanes); }

/// The byte at `i`, as what it stands for.
int32_t ByteAt(const void* p, int64_t i, bool is_signed) {
  return is_signed ? static_cast<const int8_t*>(p)[i] : static_cast<const uint8_t*>(p)[i];
}

}  // namespace

int64_t PaddedChannels(int64_t channels) { return CheckedRoundUp(channels, int64_t{64}); }

int32_t QuantisedFinish::x_zero(const void* const* inputs) const {
  const int32_t zero = gives_x_zero ? ByteAt(inputs[kQXZero], 0, x_signed) : 0;
  return x_signed ? zero + 128 : zero;
}

int32_t QuantisedFinish::w_zero(const void* const* inputs, int64_t j) const {
  const int32_t zero = gives_w_zero ? ByteAt(inputs[kQWZero], one_w_zero ? 0 : j, w_signed) : 0;
  return w_signed ? zero : zero - 128;
}

int64_t QuantisedFinish::bytes(int64_t groups, int64_t columns_of_group) {
  return CheckedMul(CheckedMul(groups, PaddedChannels(columns_of_group)), int64_t{4 * 4});
}

namespace {

/// The parts of memory of `all` columns.
struct Arrays {
  Arrays(void* memory, int64_t all)
      : bias(static_cast<int32_t*>(memory)),
        zeros(bias + all),
        scale(reinterpret_cast<float*>(zeros + all)),
        offset(scale + all) {
    std::memset(memory, 0, size_t(all * int64_t{4 * 4}));
  }
  int32_t *bias, *zeros;
  float *scale, *offset;
};

/// Writes what belongs to column c at `at`. `less`: what zeros take from its sum.
void PutColumn(const QuantisedFinish& f, const void* const* inputs, int64_t c, int64_t at,
               int64_t less, const Arrays& to) {
  const auto value = [&](size_t i, bool one, auto* type) {
    return static_cast<decltype(type)>(inputs[i])[one ? 0 : c];
  };
  constexpr const int32_t* kInts = nullptr;
  constexpr const float* kFloats = nullptr;
  const int64_t bias = f.has_bias ? value(kQBias, f.one_bias, kInts) : 0;
  to.bias[at] = int32_t(uint32_t(uint64_t(bias - less)));  // sums wrap, as those of the operators
  if (f.has_scale) to.scale[at] = value(kQScale, f.one_scale, kFloats);
  if (f.has_offset) to.offset[at] = value(kQOffset, f.one_offset, kFloats);
}

ByteFinish FinishOf(const QuantisedFinish& f, const Arrays& a, bool zeros) {
  return {f.as,
          a.bias,
          f.has_scale ? a.scale : nullptr,
          f.has_offset ? a.offset : nullptr,
          zeros ? a.zeros : nullptr,
          f.low,
          f.high,
          f.zero,
          f.y_signed};
}

}  // namespace

ByteFinish QuantisedFinish::Make(const void* const* inputs, int64_t groups, const int32_t* sums,
                                 int64_t terms, void* memory) const {
  const int64_t each = columns / groups, wide = Padded(each), zx = x_zero(inputs);
  const Arrays to(memory, groups * wide);
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t at = c / each * wide + c % each, zw = has_w_zero ? w_zero(inputs, c) : 0;
    PutColumn(*this, inputs, c, at, zx * (sums[at] - terms * zw), to);
    to.zeros[at] = int32_t(zw);
  }
  return FinishOf(*this, to, has_w_zero);
}

ByteFinish QuantisedFinish::MakeAlone(const void* const* inputs, const int32_t* sums,
                                      const ByteKernel* blocks, void* memory) const {
  const int64_t zx = x_zero(inputs);
  const Arrays to(memory, PaddedChannels(columns));
  for (int64_t c = 0; c < columns; ++c)
    PutColumn(*this, inputs, c, blocks ? blocks->place(c) : c, zx * sums[c], to);
  return FinishOf(*this, to, false);
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
  const auto one = [&](size_t i) { return HasInput(q, i) && CheckedProduct(q.input_dims[i]) == 1; };
  f.has_scale = HasInput(q, kQScale);
  f.has_bias = HasInput(q, kQBias);
  f.has_offset = HasInput(q, kQOffset);
  f.gives_x_zero = HasInput(q, kQXZero);
  f.gives_w_zero = HasInput(q, kQWZero);
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
  f.y_signed = to == DType::kI8;
  const int64_t least = f.y_signed ? -128 : 0;
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
