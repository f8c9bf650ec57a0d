/// half_call.cc: see half_call.h.
#include "half_call.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "for_pieces.h"
#include "made_once.h"
#include "threads.h"
#include "weft/core/tensor/dtype.h"
#include "weft/runtime/backend/packing_call.h"
#include "weft/support/checked.h"
#include "wide.h"

namespace weft::cpu {
namespace {

constexpr int64_t kAlign = 64;
/// Elements that a thread converts at a time: 64 KiB of floats.
constexpr int64_t kPiece = int64_t{1} << 14;

bool IsF16(DType t) { return FormatOf(t) == FloatFormat::kF16; }

#if defined(__x86_64__)
// 16 at a time, and the rest under a mask; what is masked is neither read nor written. Masks stand
// everywhere because GCC 12 warns of the undefined pass-through in the plain forms.
WEFT_WIDE __mmask16 Left(int64_t n) {
  return n >= 16 ? __mmask16(0xffff) : __mmask16((1 << n) - 1);
}

WEFT_WIDE void WidenF16(const uint16_t* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = Left(n - i);
    _mm512_mask_storeu_ps(to + i, m,
                          _mm512_maskz_cvtph_ps(m, _mm256_maskz_loadu_epi16(m, from + i)));
  }
}
WEFT_WIDE void WidenBF16(const uint16_t* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = Left(n - i);
    const __m512i bits = _mm512_maskz_cvtepu16_epi32(m, _mm256_maskz_loadu_epi16(m, from + i));
    _mm512_mask_storeu_epi32(to + i, m, _mm512_maskz_slli_epi32(m, bits, 16));
  }
}
WEFT_WIDE void RoundToF16(const float* from, uint16_t* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = Left(n - i);
    const __m512 v = _mm512_maskz_loadu_ps(m, from + i);
    _mm256_mask_storeu_epi16(to + i, m, _mm512_maskz_cvtps_ph(m, v, _MM_FROUND_TO_NEAREST_INT));
  }
}
/// As FloatToBFloat16: to the nearest, ties to the even one; a NaN stays one.
WEFT_WIDE void RoundToBF16(const float* from, uint16_t* to, int64_t n) {
  const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff),
                quiet = _mm512_set1_epi32(0x40);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = Left(n - i);
    const __m512 v = _mm512_maskz_loadu_ps(m, from + i);
    const __m512i bits = _mm512_castps_si512(v), high = _mm512_maskz_srli_epi32(m, bits, 16);
    const __m512i up = _mm512_add_epi32(half, _mm512_and_si512(high, one));
    const __m512i rounded = _mm512_maskz_srli_epi32(m, _mm512_add_epi32(bits, up), 16);
    const __m512i made =
        _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), high, quiet);
    _mm256_mask_storeu_epi16(to + i, m, _mm512_maskz_cvtepi32_epi16(m, made));
  }
}
#endif

/// A constant in f32; all calls that read it share it. It keeps its source, so an address cannot
/// come to mean another tensor.
struct Widened {
  TensorPtr source, wide;
};

std::shared_ptr<const Widened> WidenedOf(const TensorPtr& source) {
  static auto* const made = new MadeOnce<const Tensor*, Widened>;
  return made->Get(source.get(), [&] {
    auto wide = std::make_shared<Tensor>(DType::kF32, source->dims());
    auto* const to = wide->mutable_data_as<float>();
    const DType t = source->dtype();
    const void* const from = source->data();
    ForPieces(wide->num_elements(), kPiece,
              [&](int64_t first, int64_t last) { WidenHalves(t, from, to, first, last); });
    return std::make_shared<const Widened>(Widened{source, std::move(wide)});
  });
}

/// An operand or a result of half precision, and where it stands in f32.
struct HalfTensor {
  size_t index = 0;
  DType type = DType::kUnknown;
  int64_t count = 0;
  int64_t at = 0;                          ///< in scratch, behind that of the call
  std::shared_ptr<const Widened> widened;  ///< not null: there, and nothing in scratch
};

class HalfCall final : public PackingCall {
 public:
  HalfCall(std::unique_ptr<LibraryCall> call, std::vector<HalfTensor> in,
           std::vector<HalfTensor> out, size_t inputs, size_t outputs, int threads)
      : call_(std::move(call)),
        in_(std::move(in)),
        out_(std::move(out)),
        inputs_(inputs),
        outputs_(outputs),
        threads_(threads),
        scratch_bytes_(CheckedRoundUp(call_->scratch_bytes(), kAlign)) {
    for (std::vector<HalfTensor>* list : {&in_, &out_})
      for (HalfTensor& t : *list) {
        if (t.widened) continue;
        t.at = scratch_bytes_;
        const int64_t bytes = DTypeBytes(DType::kF32, t.count);
        scratch_bytes_ = CheckedAdd(scratch_bytes_, CheckedRoundUp(bytes, kAlign));
      }
  }
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  std::string description() const override { return call_->description() + ", halves widened"; }
  bool reads(size_t i) const override {
    for (const HalfTensor& t : in_)
      if (t.index == i && t.widened) return false;
    const auto* packing = dynamic_cast<const PackingCall*>(call_.get());
    return !packing || packing->reads(i);
  }
  void AddPacked(std::map<const void*, int64_t>* bytes) const override {
    for (const HalfTensor& t : in_)
      if (t.widened) (*bytes)[t.widened->wide->data()] = t.widened->wide->num_bytes();
    if (const auto* packing = dynamic_cast<const PackingCall*>(call_.get()))
      packing->AddPacked(bytes);
  }

  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const ScopedThreads team(threads_);
    std::vector<const void*> in(inputs, inputs + inputs_);
    std::vector<void*> out(outputs, outputs + outputs_);
    const auto place = [&](const HalfTensor& t) {
      return reinterpret_cast<float*>(static_cast<char*>(scratch) + t.at);
    };
    for (const HalfTensor& t : in_) {
      const void* const from = inputs[t.index];
      in[t.index] = t.widened ? t.widened->wide->data() : place(t);
      if (!t.widened)
        ForPieces(t.count, kPiece, [&](int64_t first, int64_t last) {
          WidenHalves(t.type, from, place(t), first, last);
        });
    }
    for (const HalfTensor& t : out_) out[t.index] = place(t);
    call_->Run(in.data(), out.data(), scratch);
    for (const HalfTensor& t : out_)
      ForPieces(t.count, kPiece, [&](int64_t first, int64_t last) {
        RoundToHalves(t.type, place(t), outputs[t.index], first, last);
      });
  }

 private:
  const std::unique_ptr<LibraryCall> call_;
  std::vector<HalfTensor> in_, out_;
  const size_t inputs_, outputs_;
  const int threads_;
  int64_t scratch_bytes_;
};

std::unique_ptr<PreparedCall> PrepareHalves(const FCompute& prepare, const ComputeRequest& given) {
  ComputeRequest q = given;
  std::vector<HalfTensor> in, out;
  for (size_t i = 0; i < q.input_types.size(); ++i) {
    if (!IsHalf(q.input_types[i])) continue;
    HalfTensor t{i, q.input_types[i], CheckedProduct(q.input_dims[i]), 0, nullptr};
    q.input_types[i] = DType::kF32;
    if (i < q.constants.size() && q.constants[i]) {
      t.widened = WidenedOf(q.constants[i]);
      q.constants[i] = t.widened->wide;
    }
    in.push_back(std::move(t));
  }
  for (size_t i = 0; i < q.output_types.size(); ++i) {
    if (!IsHalf(q.output_types[i])) continue;
    out.push_back({i, q.output_types[i], CheckedProduct(q.output_dims[i]), 0, nullptr});
    q.output_types[i] = DType::kF32;
  }
  if (in.empty() && out.empty()) return prepare(given);
  if (!q.epilogue.empty()) return nullptr;
  std::unique_ptr<LibraryCall> call = AsLibraryCall(prepare(q));
  if (!call) return nullptr;
  return std::make_unique<HalfCall>(std::move(call), std::move(in), std::move(out),
                                    q.input_types.size(), q.output_types.size(), q.threads);
}

}  // namespace

void WidenHalves(DType t, const void* from, float* to, int64_t first, int64_t last) {
  const auto* const halves = static_cast<const uint16_t*>(from);
#if defined(__x86_64__)
  if (HasWide()) {
    (IsF16(t) ? WidenF16 : WidenBF16)(halves + first, to + first, last - first);
    return;
  }
#endif
  for (int64_t i = first; i < last; ++i) to[i] = WidenFloat(t, halves[i]);
}

void RoundToHalves(DType t, const float* from, void* to, int64_t first, int64_t last) {
  auto* const halves = static_cast<uint16_t*>(to);
#if defined(__x86_64__)
  if (HasWide()) {
    (IsF16(t) ? RoundToF16 : RoundToBF16)(from + first, halves + first, last - first);
    return;
  }
#endif
  for (int64_t i = first; i < last; ++i) halves[i] = uint16_t(NarrowFloat(t, from[i]));
}

FCompute WithHalves(FCompute prepare) {
  return
      [prepare = std::move(prepare)](const ComputeRequest& q) { return PrepareHalves(prepare, q); };
}

}  // namespace weft::cpu
