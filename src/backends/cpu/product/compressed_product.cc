/// compressed_product.cc: see compressed_product.h.
#include "compressed_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cpu/util/for_pieces.h"
#include "backends/cpu/util/made_once.h"
#include "backends/cpu/util/packed_memory.h"
#include "few_rows_kernel.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

constexpr int64_t kPieceProducts = 65536;  // that a team is worth waking for

bool IsSmallInteger(DType t) {
  return t == DType::kI2 || t == DType::kU2 || t == DType::kI4 || t == DType::kU4 ||
         t == DType::kI8 || t == DType::kU8;
}
bool IsSmallFloat(DType t) { return IsLowBit(t) && ValueTypeOf(t) == DType::kF32; }

/// Code i of a tensor of numbers of `bits` bits.
class Codes {
 public:
  explicit Codes(const Tensor& t)
      : bytes_(static_cast<const uint8_t*>(t.data())), bits_(DTypeBits(t.dtype())) {}
  uint8_t operator[](int64_t i) const {
    if (bits_ == 8) return bytes_[i];
    const int per_byte = 8 / bits_;
    return uint8_t(bytes_[i / per_byte] >> (i % per_byte * bits_) & ((1 << bits_) - 1));
  }

 private:
  const uint8_t* bytes_;
  int bits_;
};

/// What each code of a dtype means, by the tensor that holds all of them.
std::vector<float> ValuesOf(DType t) {
  const int bits = DTypeBits(t), per_byte = 8 / bits;
  const int64_t count = int64_t{1} << bits;
  Tensor all(t, {count});
  auto* bytes = static_cast<uint8_t*>(all.mutable_data());
  std::memset(bytes, 0, size_t(all.num_bytes()));
  for (int64_t i = 0; i < count; ++i)
    bytes[i / per_byte] = uint8_t(bytes[i / per_byte] | i << (i % per_byte * bits));
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(float(all.at(i)));
  return values;
}

/// A format of 8 bits that a kernel decodes without a table, and the factor of its numbers.
struct FloatForm {
  CodeFormat format = CodeFormat::kTable8;
  float factor = 1;
};
/// By arithmetic where all codes that there are have the value that it gives them.
FloatForm FloatFormOf(DType t, const std::vector<bool>& used) {
  const auto has = [&](int first, int last) {
    for (int c = first; c <= last; ++c)
      if (used[size_t(c)] || used[size_t(c) + 0x80]) return true;
    return false;
  };
  switch (t) {
    case DType::kF8E4M3FN:  // the last code is NaN
      return has(0x7f, 0x7f) ? FloatForm() : FloatForm{CodeFormat::kE4M3, 0x1p8f};
    case DType::kF8E4M3FNUZ:  // -0 is NaN
      return used[0x80] ? FloatForm() : FloatForm{CodeFormat::kE4M3, 0x1p7f};
    case DType::kF8E5M2:
      return {CodeFormat::kE5M2, 1};
    case DType::kF8E5M2FNUZ:  // and f16 has infinities and NaN where it has numbers
      return used[0x80] || has(0x7c, 0x7f) ? FloatForm() : FloatForm{CodeFormat::kE5M2, 0.5f};
    default:
      return {};
  }
}

/// Codes are at most 57344 (e5m2) and a format's factor 2^8: their product with a scale below this
/// stays in f32.
constexpr float kGreatestScale = 0x1p100f;

}  // namespace

bool CompressedProduct::Takes(DType codes) {
  return IsSmallInteger(codes) || (IsSmallFloat(codes) && codes != DType::kF8E8M0);
}

namespace {

using PackedKey =
    std::tuple<std::string, std::string, std::string, int64_t, int64_t, int64_t, bool>;
PackedKey KeyOf(const CompressedWeight& w) {
  return {NameOfConstant(*w.codes),
          NameOfConstant(*w.scale),
          w.zero ? NameOfConstant(*w.zero) : std::string(),
          w.depth,
          w.columns,
          w.block,
          w.transposed};
}

}  // namespace

/// One for all products with a matrix.
struct CompressedProduct::Table {
  static MadeOnce<PackedKey, Packed>& Get() {
    static auto* const table = new MadeOnce<PackedKey, Packed>;
    return *table;
  }
};

bool CompressedProduct::Takes(const CompressedWeight& w) {
  if (!w.codes || !w.scale || !Takes(w.codes->dtype()) || w.block <= 0) return false;
  // Looked at once a weight, not once for every set of extents that a call is made for.
  if (Table::Get().Find(KeyOf(w))) return true;
  for (int64_t i = 0; i < w.scale->num_elements(); ++i)
    if (!(std::abs(w.scale->at(i)) < kGreatestScale)) return false;
  if (!w.zero || IsSmallInteger(w.zero->dtype())) return true;
  for (int64_t i = 0; i < w.zero->num_elements(); ++i)
    if (w.zero->at(i) != 0) return false;
  return true;
}

struct CompressedProduct::Packed {
  CompressedWeight weight;  ///< holds its addresses while this is there
  std::vector<float> table;
  CompressedMatrix matrix;
  std::shared_ptr<float> memory;
  int64_t bytes = 0;

  explicit Packed(const CompressedWeight& w);

 private:
  void PackStrip(int64_t s, uint8_t* panels) const;
  int base_ = 0;        ///< what is subtracted from all integers and zeros
  float factor_ = 1;    ///< of the scales
  bool zeros_ = false;  ///< those of the tensor are packed
};

CompressedProduct::Packed::Packed(const CompressedWeight& w) : weight(w) {
  const DType t = w.codes->dtype();
  const int bits = DTypeBits(t);
  table = ValuesOf(t);
  matrix.format = bits == 2   ? CodeFormat::kTable2
                  : bits == 4 ? CodeFormat::kTable4
                              : CodeFormat::kInteger8;
  if (IsSmallInteger(t)) {
    // One zero for all is subtracted from the table, or from bytes as far as they stay bytes.
    const double first = w.zero ? w.zero->at(0) : 0;
    for (int64_t i = 0; w.zero && i < w.zero->num_elements() && !zeros_; ++i)
      zeros_ = w.zero->at(i) != first;
    base_ = bits == 8 ? (t == DType::kU8 ? 128 : 0) : zeros_ ? 0 : int(first);
    zeros_ = zeros_ || int(first) != base_;
  } else if (bits == 8) {
    std::vector<bool> used(256);
    const Codes codes(*w.codes);
    for (int64_t i = 0; i < w.codes->num_elements(); ++i) used[codes[i]] = true;
    const FloatForm form = FloatFormOf(t, used);
    matrix.format = form.format;
    factor_ = form.factor;
  }
  for (float& v : table) v = (v - float(base_)) / factor_;
  if (matrix.format == CodeFormat::kInteger8)
    for (int c = 0; c < 256; ++c) table[size_t(c)] = float(int8_t(c));
  // A table is indexed by what lies above a code of two bits, too.
  for (size_t i = 0; table.size() < 16; ++i) table.push_back(float(table[i]));
  matrix.table = table.data();
  matrix.zeros = zeros_;
  const int64_t group = GroupRows(matrix.format);
  matrix.groups = (std::min(w.block, w.depth) + group - 1) / group;
  matrix.blocks = (w.depth + w.block - 1) / w.block;
  matrix.strips = (w.columns + kStripColumns - 1) / kStripColumns;
  bytes = CheckedMul(matrix.strips, matrix.strip_bytes());
  constexpr int64_t kFloat = sizeof(float);
  memory = PackedMemory((bytes + kFloat - 1) / kFloat);
  auto* const to = reinterpret_cast<uint8_t*>(memory.get());
  matrix.panels = to;
  ForPieces(matrix.strips, std::max<int64_t>(1, kPieceProducts / (w.depth * kStripColumns)),
            [&](int64_t begin, int64_t end) {
              for (int64_t s = begin; s < end; ++s) PackStrip(s, to);
            });
}

void CompressedProduct::Packed::PackStrip(int64_t s, uint8_t* panels) const {
  const CompressedWeight& w = weight;
  const Codes codes(*w.codes);
  const int64_t first = s * kStripColumns, n = std::min(kStripColumns, w.columns - first),
                rows = GroupRows(matrix.format), bits = DTypeBits(w.codes->dtype());
  const bool integer8 = matrix.format == CodeFormat::kInteger8;
  for (int64_t b = 0; b < matrix.blocks; ++b) {
    const int64_t begin = b * w.block, end = std::min(w.depth, begin + w.block);
    const auto of_block = [&](int64_t c) {
      return w.transposed ? (first + c) * matrix.blocks + b : b * w.columns + first + c;
    };
    uint8_t* to = panels + matrix.head(s, b);
    for (int64_t c = 0; c < kStripColumns; ++c) {
      const float scale = c < n ? float(w.scale->at(of_block(c))) * factor_ : 0;
      std::memcpy(to + c * int64_t{sizeof(float)}, &scale, sizeof(float));
    }
    to += kStripColumns * int64_t{sizeof(float)};
    for (int64_t c = 0; zeros_ && c < kStripColumns; ++c)
      to[c] = c < n ? uint8_t(int(w.zero ? w.zero->at(of_block(c)) : 0) - base_) : 0;
    for (int64_t g = 0; g < matrix.groups; ++g) {
      to = panels + matrix.codes(s, b, g);
      std::memset(to, 0, size_t(kGroupBytes));
      for (int64_t c = 0; c < n; ++c) {
        uint32_t word = 0;
        for (int64_t u = 0; u < rows; ++u) {
          const int64_t k = begin + g * rows + u;
          if (k >= end) break;
          const uint32_t code =
              codes[w.transposed ? (first + c) * w.depth + k : k * w.columns + first + c];
          if (bits < 8)
            word |= code << (u * bits);
          else
            to[u * kStripColumns + c] = uint8_t(integer8 ? code - uint32_t(base_) : code);
        }
        if (bits < 8) std::memcpy(to + c * 4, &word, sizeof(word));
      }
    }
  }
}

CompressedProduct::CompressedProduct(const CompressedWeight& weight)
    : depth_(weight.depth),
      columns_(weight.columns),
      block_(std::min(weight.block, weight.depth)),
      packed_(Table::Get().Get(KeyOf(weight),
                               [&] { return std::make_shared<const Packed>(weight); })) {}

std::pair<const void*, int64_t> CompressedProduct::packed() const {
  return {packed_->memory.get(), packed_->bytes};
}

int64_t CompressedProduct::scratch_floats(int64_t rows) const {
  const CompressedMatrix& m = packed_->matrix;
  const int64_t group = GroupRows(m.format), all = m.blocks * m.groups * group;
  return all == depth_ ? 0 : CheckedMul(rows, all);
}

void CompressedProduct::Run(int64_t rows, const float* x, int64_t x_step, const float* row,
                            const float* addend, float* y, float* scratch,
                            const CompressedKernel& kernel) const {
  CompressedTile t;
  t.matrix = packed_->matrix;
  t.x = x;
  t.x_step = x_step;
  if (scratch_floats(rows) > 0) {
    // Where blocks are no whole groups, each is filled up with zeros.
    const int64_t wide = t.matrix.groups * GroupRows(t.matrix.format), all = t.matrix.blocks * wide;
    ForPieces(rows, std::max<int64_t>(1, kPieceProducts / all), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t b = 0; b < t.matrix.blocks; ++b) {
          float* const to = scratch + i * all + b * wide;
          const int64_t n = std::min(block_, depth_ - b * block_);
          std::copy_n(x + i * x_step + b * block_, n, to);
          std::fill(to + n, to + wide, 0.f);
        }
    });
    t.x = scratch;
    t.x_step = all;
  }
  t.row = row;
  t.addend = addend;
  t.y = y;
  t.rows = rows;
  t.columns = columns_;
  t.y_step = columns_;
  if (rows <= kernel.most_rows)
    RunFew(t, kernel);
  else
    RunMany(t, kernel);
}

namespace {

/// Strips [first, last) of a tile, from a panel on.
CompressedTile Part(CompressedTile t, int64_t first, int64_t last) {
  const int64_t column = first * kStripColumns;
  t.matrix.panels += first * t.matrix.strip_bytes();
  t.matrix.strips = last - first;
  if (t.row) t.row += column;
  if (t.addend) t.addend += column;
  t.y += column;
  t.columns = std::min(t.columns, last * kStripColumns) - column;
  return t;
}

}  // namespace

void CompressedProduct::RunFew(const CompressedTile& t, const CompressedKernel& kernel) const {
  const int64_t strips = t.matrix.strips, panels = (strips + kPanelStrips - 1) / kPanelStrips;
  const bool large = t.rows * depth_ * columns_ >= kPieceProducts;
  const int64_t team = large ? std::min<int64_t>(TeamAtHand(), panels) : 1;
  if (team <= 1) return kernel.run(t);
  ForPieces(team, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * panels / team * kPanelStrips,
                  last = std::min(strips, end * panels / team * kPanelStrips);
    if (first < last) kernel.run(Part(t, first, last));
  });
}

void CompressedProduct::RunMany(const CompressedTile& t, const CompressedKernel& kernel) const {
  // A part of the depth of some panels, 256 KiB in f32, stays in the second cache while all rows
  // pass over it, eight of them in the first one.
  constexpr int64_t kDepth = 256, kPanels = 5;
  constexpr int64_t kWideStrips = kPanelColumns / kStripColumns;
  const CompressedMatrix& m = t.matrix;
  const int64_t group = GroupRows(m.format), groups = m.blocks * m.groups,
                step = std::max<int64_t>(1, kDepth / group), strips = m.strips,
                panels = (strips + kWideStrips - 1) / kWideStrips;
  const int64_t team = t.rows * depth_ * columns_ >= kPieceProducts ? TeamAtHand() : 1;
  // Few columns are shared by rows.
  const int64_t by_columns = std::min(team, panels),
                by_rows = std::max<int64_t>(1, team / by_columns);
  const FewRowsKernel& product = BestFewRowsKernel();
  const auto part = [&](int64_t first_panel, int64_t last_panel, int64_t first_row,
                        int64_t last_row) {
    std::vector<float> wide(size_t(kPanels * kPanelColumns * step * group));
    for (int64_t p = first_panel; p < last_panel; p += kPanels)
      for (int64_t g = 0; g < groups; g += step) {
        const int64_t end = std::min(groups, g + step), depth = (end - g) * group,
                      some = std::min(kPanels, last_panel - p);
        for (int64_t s = p * kWideStrips; s < std::min(strips, (p + some) * kWideStrips); ++s) {
          const int64_t q = s / kWideStrips - p,
                        width = std::min(kWideStrips, strips - (p + q) * kWideStrips);
          kernel.widen(m, s, g, end,
                       wide.data() + q * kPanelColumns * depth + s % kWideStrips * kStripColumns,
                       width * kStripColumns);
        }
        FewRowsTile tile;
        tile.depth = depth;
        tile.x_step = t.x_step;
        tile.y_step = t.y_step;
        for (int64_t i = first_row; i < last_row; i += kMostFewRows)
          for (int64_t q = 0; q < some; ++q) {
            const int64_t column = (p + q) * kPanelColumns, at = i * t.y_step + column;
            tile.panel = wide.data() + q * kPanelColumns * depth;
            tile.x = t.x + i * t.x_step + g * group;
            tile.rows = std::min(kMostFewRows, last_row - i);
            tile.columns = std::min(kPanelColumns, columns_ - column);
            tile.y = t.y + at;
            tile.row = g == 0 && t.row ? t.row + column : nullptr;
            tile.addend = g > 0 ? tile.y : t.addend ? t.addend + at : nullptr;
            product.run(tile);
          }
      }
  };
  if (by_columns * by_rows <= 1) return part(0, panels, 0, t.rows);
  // Which rows are multiplied together must not change with the threads: sums may.
  const int64_t tiles = (t.rows + kMostFewRows - 1) / kMostFewRows;
  ForPieces(by_columns * by_rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i / by_rows, r = i % by_rows;
      part(c * panels / by_columns, (c + 1) * panels / by_columns,
           r * tiles / by_rows * kMostFewRows,
           std::min(t.rows, (r + 1) * tiles / by_rows * kMostFewRows));
    }
  });
}

}  // namespace weft::cpu
