/// stream_product.h: a product whose operands and result lie off chip, streamed through a tree of
/// memories: y[M, N] = a[M, K] b[K, N], all row-major.
///
/// No pass calls it yet: values live in the PEs from their Load on, and what has no room there is
/// refused. It is the way for such products, once a node may read its operands off chip, and shows
/// with its test how near to the bound of the links and the matrix unit the machine can work.
///
/// Blocks of 16 rows lie in the PEs of a parent, A stays in them; columns of b go to all of them in
/// tiles, pieces of the contraction at a time; sums are in the PEs until a tile is done. Buffers
/// are given so that loads, links and products of several pieces are in flight, and the last tiles
/// are narrow, so that little is left to store when the products end.
///
/// Needs a matrix unit, rows that fill the PEs, a contraction of whole blocks, and links that
/// broadcast, distribute, give a word by PE, and collect; kUnsupported otherwise, saying which.
/// What does not fit its memories is kLimit: slice it first.
#pragma once

#include "../l2/tile_program.h"

namespace hsimd {

struct StreamedProduct {
  int64_t rows = 0, inner = 0, columns = 0;
  int64_t a = 0, b = 0, y = 0;  ///< words of the off-chip memory
};

TileProgram StreamProduct(const Machine& machine, const StreamedProduct& product,
                          const std::string& note = {});

/// The largest of products / rate of the matrix unit and words / rate of off-chip memory, cycles.
int64_t StreamProductBound(const Machine& machine, const StreamedProduct& product);

}  // namespace hsimd
