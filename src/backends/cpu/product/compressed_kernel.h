/// compressed_kernel.h: rows times a matrix of numbers of 2, 4 or 8 bits, scaled by blocks of its
/// rows: the part of CompressedProduct that is compiled for each instruction set. The numbers are
/// widened in registers, each once for all rows of a tile.
///
/// The matrix is panels of four strips of 16 columns (the last one has what is left), one behind
/// the other, each in the order in which it is read. A panel is its blocks, a block
///   of each strip 16 scales (f32) and 16 zeros (i8; where there are any), then
///   `groups` times 64 bytes of codes of each strip
/// and these some rows of the strip:
///   kTable2   16 rows: a word of 32 bits a column, row u in its bits 2u and 2u + 1
///   kTable4   8 rows: a word a column, row u in its bits 4u to 4u + 3
///   others    4 rows: 16 bytes each
#pragma once

#include <cstdint>

namespace weft::cpu {

constexpr int64_t kStripColumns = 16, kPanelStrips = 4, kGroupBytes = 64;

/// What a code means. Each but the tables needs no memory to tell.
enum class CodeFormat : uint8_t {
  kTable2,    ///< the entry of a table of 16, whose index is the code and whatever is above it
  kTable4,    ///< the entry of a table of 16
  kTable8,    ///< of a table of 256
  kInteger8,  ///< i8
  kE4M3,  ///< sign, 4 bits of exponent, 3 of mantissa: a number in f16, 2^-8 of that in f8e4m3fn
  kE5M2,  ///< the upper byte of an f16
};

/// Rows of the matrix in a group.
constexpr int64_t GroupRows(CodeFormat f) {
  return f == CodeFormat::kTable2 ? 16 : f == CodeFormat::kTable4 ? 8 : 4;
}

/// A matrix, or panels of it.
struct CompressedMatrix {
  CodeFormat format = CodeFormat::kTable4;
  bool zeros = false;            ///< are there zeros? They are subtracted before a scale multiplies
  const float* table = nullptr;  ///< 16 or 256 values; of every format
  const uint8_t* panels = nullptr;
  int64_t strips = 0, blocks = 0, groups = 0;  ///< all, of a strip, of a block

  int64_t head_bytes() const { return kStripColumns * (int64_t{sizeof(float)} + (zeros ? 1 : 0)); }
  int64_t block_bytes() const { return head_bytes() + groups * kGroupBytes; }
  int64_t strip_bytes() const { return blocks * block_bytes(); }
  /// Of the panel of strip s.
  int64_t first_strip(int64_t s) const { return s / kPanelStrips * kPanelStrips; }
  int64_t panel_strips(int64_t s) const {
    const int64_t left = strips - first_strip(s);
    return left < kPanelStrips ? left : kPanelStrips;
  }
  /// From the beginning: the scales of a block of strip s, and its group g.
  int64_t head(int64_t s, int64_t block) const {
    return first_strip(s) * strip_bytes() + panel_strips(s) * block * block_bytes() +
           (s - first_strip(s)) * head_bytes();
  }
  int64_t codes(int64_t s, int64_t block, int64_t g) const {
    return first_strip(s) * strip_bytes() +
           panel_strips(s) * (block * block_bytes() + head_bytes() + g * kGroupBytes) +
           (s - first_strip(s)) * kGroupBytes;
  }
};

/// y = x matrix + row + addend.
struct CompressedTile {
  CompressedMatrix matrix;
  const float* x = nullptr;       ///< [rows, all rows of all groups], dense rows `x_step` apart
  const float* row = nullptr;     ///< [columns]; null: none
  const float* addend = nullptr;  ///< as y, and may be y; null: none
  float* y = nullptr;             ///< [rows, columns], rows `y_step` apart
  int64_t rows = 0, columns = 0, x_step = 0, y_step = 0;
};

struct CompressedKernel {
  const char* name;
  void (*run)(const CompressedTile& tile);
  /// Groups [first, last) of a strip as f32 [rows of them, 16], rows `step` apart.
  void (*widen)(const CompressedMatrix& matrix, int64_t strip, int64_t first, int64_t last,
                float* to, int64_t step);
  /// More rows are faster by a matrix that is widened first.
  int64_t most_rows;
};

/// By instruction set, the plainest first; null: there is none, or not for this machine.
const CompressedKernel* CompressedKernelNumber(int i);
const CompressedKernel& BestCompressedKernel();

}  // namespace weft::cpu
