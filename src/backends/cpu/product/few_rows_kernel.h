/// few_rows_kernel.h: a few rows times a panel of columns of a packed matrix: the part of
/// FewRowsProduct that is compiled for each instruction set. The panel is read once, from its
/// beginning to its end, and all sums stay in registers (AVX-512), or it is read in blocks of rows
/// that stay in the nearest cache until the last tile of sums has had them.
#pragma once

#include <cstdint>

namespace weft::cpu {

/// The rows of a product that a kernel takes. With nine, AVX-512 has no registers left for the sums
/// of three vectors of columns, and arithmetic takes longer than memory.
constexpr int64_t kMostFewRows = 8;
/// The columns of a panel. The last one has up to 64, padded with zeros to a multiple of 16.
constexpr int64_t kPanelColumns = 48, kMostColumns = 64;

/// y = x panel + row + addend.
struct FewRowsTile {
  const float* panel = nullptr;   ///< [depth, columns], padded
  const float* x = nullptr;       ///< [rows, depth], dense rows `x_step` apart
  const float* row = nullptr;     ///< [columns]; null: none
  const float* addend = nullptr;  ///< as y, and may be y; null: none
  float* y = nullptr;             ///< [rows, columns], rows `y_step` apart
  int64_t rows = 0, columns = 0, depth = 0, x_step = 0, y_step = 0;
};

struct FewRowsKernel {
  const char* name;
  void (*run)(const FewRowsTile& tile);
  /// Of two whole panels that follow each other, for up to `pair_rows` rows.
  void (*run_pair)(const FewRowsTile& tile);
  int64_t pair_rows;
};

/// By instruction set, the plainest first; null: there is none, or not for this machine.
const FewRowsKernel* FewRowsKernelNumber(int i);
const FewRowsKernel& BestFewRowsKernel();

}  // namespace weft::cpu
