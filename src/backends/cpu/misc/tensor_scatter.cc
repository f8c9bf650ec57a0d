/// tensor_scatter.cc: TensorScatter: rows written into a cache. In the cache's own memory nothing
/// else is touched, so a token costs its rows, however long the cache is.
#include <algorithm>
#include <cstring>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/for_pieces.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"

namespace weft::cpu {
namespace {

/// Bytes that are copied at once.
constexpr int64_t kCopyBytes = int64_t{1} << 18;

/// Of a cache [batch, before, rows, row bytes].
struct Extents {
  int64_t batch, before, rows, added, row_bytes;
};

class TensorScatterCall final : public LibraryCall {
 public:
  TensorScatterCall(const Extents& e, bool circular, bool has_begins)
      : e_(e), circular_(circular), has_begins_(has_begins) {}
  std::string description() const override { return "rows into a cache"; }

  void Run(const void* const* in, void* const* out, void*) const override {
    const auto* const cache = static_cast<const char*>(in[0]);
    const auto* const added = static_cast<const char*>(in[1]);
    const auto* const begins = has_begins_ ? static_cast<const int64_t*>(in[2]) : nullptr;
    auto* const y = static_cast<char*>(out[0]);
    const int64_t lines = e_.batch * e_.before, line = e_.rows * e_.row_bytes;
    if (y != cache)
      ForPieces(lines * line, kCopyBytes, [&](int64_t first, int64_t last) {
        std::memcpy(y + first, cache + first, size_t(last - first));
      });
    for (int64_t b = 0; b < e_.batch; ++b) {
      const int64_t begin = begins ? begins[b] : 0;
      for (int64_t k = b * e_.before; k < (b + 1) * e_.before; ++k)
        Write(added + k * e_.added * e_.row_bytes, begin, y + k * line);
    }
  }

 private:
  /// Rows that lie outside of a cache that is not circular are left out, as the definition says.
  void Write(const char* from, int64_t begin, char* line) const {
    const auto put = [&](int64_t first, int64_t at, int64_t n) {
      if (n > 0)
        std::memcpy(line + at * e_.row_bytes, from + first * e_.row_bytes,
                    size_t(n * e_.row_bytes));
    };
    if (!circular_) {
      const int64_t skipped = begin < 0 ? -std::max(begin, -e_.added) : 0;
      const int64_t at = std::max<int64_t>(begin, 0);
      return put(skipped, at, std::min(e_.added - skipped, e_.rows - at));
    }
    if (e_.rows == 0) return;
    int64_t at = begin % e_.rows;
    if (at < 0) at += e_.rows;
    // The definition reads the first of several rows that one place could have.
    const int64_t n = std::min(e_.added, e_.rows), straight = std::min(n, e_.rows - at);
    put(0, at, straight);
    put(straight, 0, n - straight);
  }

  const Extents e_;
  const bool circular_, has_begins_;
};

std::unique_ptr<LibraryCall> PrepareTensorScatter(const ComputeRequest& q) {
  const std::vector<int64_t>& x = q.input_dims[0];
  const std::vector<int64_t>& u = q.input_dims[1];
  const int64_t bits = DTypeBits(q.output_types[0]);
  if (bits < 8 || x.size() != u.size()) return nullptr;
  int64_t axis = IntAttr(q.node, "axis", -2);
  if (axis < 0) axis += int64_t(x.size());
  if (axis < 1 || axis >= int64_t(x.size())) return nullptr;
  Extents e{x[0], 1, x[size_t(axis)], u[size_t(axis)], bits / 8};
  for (size_t k = 1; k < x.size(); ++k)
    if (int64_t(k) != axis)
      (int64_t(k) < axis ? e.before : e.row_bytes) =
          CheckedMul(int64_t(k) < axis ? e.before : e.row_bytes, x[k]);
  const bool circular = q.node->has_attr("mode") && q.node->attr<std::string>("mode") == "circular";
  return std::make_unique<TensorScatterCall>(e, circular, HasInput(q, 2));
}

WEFT_REGISTER_OP(TensorScatter).set_attr<FCompute>("FCompute.cpu", PrepareTensorScatter);

}  // namespace
}  // namespace weft::cpu
