/// for_pieces.h: long loops over elements by the team of threads. For sources that are compiled
/// with OpenMP.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cstdint>

namespace weft::cpu {

/// Threads that a region begun here would have.
inline int TeamAtHand() {
#ifdef _OPENMP
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

/// body(first, last) over [0, n) in pieces of `piece`, by the team where there are several. (A
/// parallel region of one thread costs as much as a small product.)
template <class Body>
void ForPieces(int64_t n, int64_t piece, const Body& body) {
  if (n <= piece) {
    if (n > 0) body(0, n);
    return;
  }
  const int64_t pieces = (n + piece - 1) / piece;
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < pieces; ++p) body(p * piece, std::min(n, (p + 1) * piece));
}

}  // namespace weft::cpu
