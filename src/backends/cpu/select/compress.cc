/// compress.cc: Compress by a bit for each condition: single elements by vectors, slices of the
/// same fate as one copy.
#include <algorithm>
#include <cstring>

#include "along_axis.h"
#include "backends/cpu/util/threads.h"
#include "bit_masks.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/sized_compute.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

/// Bytes of results that a thread is woken for.
constexpr int64_t kPieceBytes = 65536;

/// Slices of `bytes` whose bits in words [first, last) are set, one behind the other.
void KeepSlices(const uint64_t* masks, int64_t first, int64_t last, int64_t bytes, const char* x,
                char* y) {
  int64_t from = 0, end = 0;  // slices that are taken and follow each other
  const auto flush = [&] {
    if (end == from) return;
    std::memcpy(y, x + from * bytes, size_t((end - from) * bytes));
    y += (end - from) * bytes;
  };
  for (int64_t w = first; w < last; ++w) {
    for (uint64_t bits = masks[w]; bits;) {
      const int zeros = __builtin_ctzll(bits);
      const uint64_t rest = ~(bits >> zeros);
      const int ones = rest ? __builtin_ctzll(rest) : 64;
      const int64_t at = w * kMaskBits + zeros;
      if (at != end) {
        flush();
        from = at;
      }
      end = at + ones;
      bits = zeros + ones >= 64 ? 0 : bits >> (zeros + ones) << (zeros + ones);
    }
  }
  flush();
}

bool RunCompress(const NodePtr& n, const std::vector<TensorPtr>& in, int threads,
                 SizedResults* results) {
  const Tensor &x = *in[0], &condition = *in[1];
  if (DTypeBits(x.dtype()) < 8 || x.dtype() == DType::kString) return false;
  WEFT_CHECK(condition.rank() == 1, kShapeMismatch, "{}: condition must have rank 1, got {}",
             n->Describe(), condition.shape().ToString());
  const AlongAxis of(n, x);
  const int64_t before = of.before, extent = of.extent;
  std::vector<int64_t> dims = of.dims;
  const int64_t given = condition.num_elements();
  WEFT_CHECK(given <= extent, kShapeMismatch, "{}: {} conditions for an axis of size {}",
             n->Describe(), given, extent);
  auto* masks = static_cast<uint64_t*>(
      results->Scratch(CheckedMul(MaskWords(given), int64_t{sizeof(uint64_t)})));
  const std::vector<MaskPiece> pieces =
      MaskInPieces(DType::kBool, condition.data(), given, threads, masks);
  const int64_t count = pieces.back().before + pieces.back().count;
  dims[of.axis] = count;
  const int64_t width = DTypeBytes(x.dtype(), 1), slice = CheckedMul(of.inner, width);
  auto* y = static_cast<char*>(results->Place(0, x.dtype(), dims));
  const auto* from = static_cast<const char*>(x.data());
  if (count == 0 || before == 0 || slice == 0) return true;
  const bool single = slice == 1 || slice == 2 || slice == 4 || slice == 8;
  const auto keep = [&](int64_t b, const MaskPiece& p) {
    const char* line = from + b * extent * slice;
    char* to = y + (b * count + p.before) * slice;
    if (single)
      KeepSet(masks + p.first, p.last - p.first, given - p.first * kMaskBits, int(slice),
              line + p.first * kMaskBits * slice, to);
    else
      KeepSlices(masks, p.first, p.last, slice, line, to);
  };
  if (before > 1) {
    const MaskPiece all{0, MaskWords(given), 0, count};
    const ScopedThreads scoped(threads);
    const int64_t together = std::max<int64_t>((int64_t{1} << 24) / (extent * slice), threads);
    for (int64_t b = 0; b < before; b += together) {
      RequestScope::Poll();
      const int64_t last = std::min(before, b + together);
#pragma omp parallel for schedule(static) if ((last - b) * extent * slice > kPieceBytes)
      for (int64_t i = b; i < last; ++i) keep(i, all);
    }
    return true;
  }
  // The bits of one line in as many pieces as pay.
  const int64_t most =
      std::min<int64_t>(threads * int64_t{4}, CheckedMul(count, slice) / kPieceBytes);
  if (pieces.size() > 1 || most < 2) {
    const ScopedThreads scoped(threads);
#pragma omp parallel for schedule(dynamic) if (pieces.size() > 1)
    for (size_t p = 0; p < pieces.size(); ++p) keep(0, pieces[p]);
    return true;
  }
  std::vector<MaskPiece> parts;
  for (int64_t p = 0, done = 0; p < most; ++p) {
    MaskPiece part{MaskWords(given) * p / most, MaskWords(given) * (p + 1) / most, done, 0};
    for (int64_t w = part.first; w < part.last; ++w) part.count += __builtin_popcountll(masks[w]);
    done += part.count;
    parts.push_back(part);
  }
  const ScopedThreads scoped(threads);
#pragma omp parallel for schedule(dynamic)
  for (size_t p = 0; p < parts.size(); ++p) keep(0, parts[p]);
  return true;
}

WEFT_REGISTER_OP(Compress).set_attr<FSizedCompute>("FSizedCompute.cpu", RunCompress);

}  // namespace
}  // namespace weft::cpu
