/// weftx.cc: see weftx.h.
#include "weftx.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "weft/support/parallel_for.h"

namespace weft::weftx {

constexpr size_t kPiece = size_t{1} << 22;

Hash128 HashOfPieces(std::string_view bytes) {
  std::vector<Hash128> pieces((bytes.size() + kPiece - 1) / kPiece);
  const unsigned cores = std::thread::hardware_concurrency();
  ParallelFor(pieces.size(), int(std::clamp(cores, 1u, 8u)), [&](size_t k) {
    const std::string_view piece = bytes.substr(k * kPiece, kPiece);
    pieces[k] = HashBytes(piece.data(), piece.size());
  });
  Hasher all;
  all.Add(uint64_t(bytes.size()));
  for (const Hash128& h : pieces) all.Add(h.hi), all.Add(h.lo);
  return all.Finish();
}

}  // namespace weft::weftx
