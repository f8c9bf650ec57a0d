/// byte_rows.cc: see byte_rows.h.
#include "byte_rows.h"

#include <algorithm>

namespace weft::cpu {
namespace {

/// Products that a team is worth waking for: some 5 us on one core.
constexpr int64_t kTeamProducts = 1 << 21;
/// Rows that a thread takes at a time lie in the nearer caches, beside a panel.
constexpr int64_t kRowsBytes = 96 << 10;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

void ByteSource::Rows(int64_t i, int64_t n, const uint8_t** rows) const {
  int64_t c = i % columns;
  const uint8_t* at = row(i);
  for (int64_t k = 0; k < n; ++k) {
    rows[k] = at;
    at += column_step;
    if (++c == columns && k + 1 < n) {
      c = 0;
      at = row(i + k + 1);
    }
  }
}

void MultiplyBytes(const ByteProduct& p, int threads, const ByteKernel& kernel) {
  const int64_t depth = p.w.num_runs * p.w.run_quads() * kQuad;
  const int64_t panels = CeilDiv(p.w.columns, kByteColumns), tiles = CeilDiv(p.x.rows, kByteRows);
  const bool team = threads > 1 && p.x.rows * depth * p.w.columns > kTeamProducts;
  // Few enough rows to stay near, enough pieces for all threads.
  int64_t chunk = std::max<int64_t>(1, kRowsBytes / std::max<int64_t>(1, depth * kByteRows));
  if (team) {
    const int64_t wanted = CeilDiv(int64_t{4} * threads, panels);
    chunk = std::clamp<int64_t>(CeilDiv(tiles, wanted), 1, chunk);
  }
  const int64_t chunks = CeilDiv(tiles, chunk), pieces = chunks * panels;
  const auto first_row = [&](int64_t c) { return tiles * c / chunks * kByteRows; };
  const auto piece = [&](int64_t i) {
    const int64_t first = i % panels * kByteColumns;
    const ByteFinish finish = QuantisedFinish::At(p.finish, first);
    ByteTile t;
    t.runs = p.runs;
    t.flips = p.flips;
    t.num_runs = p.w.num_runs;
    t.run_quads = p.w.run_quads();
    t.panel = p.panels + p.w.panel_at(first);
    t.columns = std::min(kByteColumns, p.w.columns - first);
    t.y_step = p.y_step;
    // Tiles of about equal numbers of rows.
    const int64_t begin = first_row(i / panels),
                  end = std::min(p.x.rows, first_row(i / panels + 1)),
                  each = CeilDiv(end - begin, kByteRows);
    const int64_t width = p.finish.as == ByteResult::kByte ? 1 : 4;
    const uint8_t* rows[kByteRows];
    t.rows = rows;
    for (int64_t k = 0; k < each; ++k) {
      const int64_t row = begin + (end - begin) * k / each,
                    next = begin + (end - begin) * (k + 1) / each;
      t.count = next - row;
      p.x.Rows(row, t.count, rows);
      t.row_sums = p.row_sums ? p.row_sums + row : nullptr;
      t.y = p.y + row * p.y_step + first * width;
      kernel.run(t, finish);
    }
  };
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (team)
  for (int64_t i = 0; i < pieces; ++i) piece(i);
}

void SumByteRows(const ByteProduct& p, int threads, int32_t* sums) {
  const bool team = threads > 1 && p.x.rows * p.w.num_runs * p.w.run_length > kTeamProducts;
  const uint8_t flip = p.flips ? 0x80 : 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (team)
  for (int64_t i = 0; i < p.x.rows; ++i) {
    const uint8_t* row = p.x.row(i);
    uint32_t sum = 0;
    for (int64_t r = 0; r < p.w.num_runs; ++r)
      for (int64_t k = 0; k < p.w.run_length; ++k) sum += uint8_t(row[p.runs[r] + k] ^ flip);
    sums[i] = int32_t(sum);
  }
}

}  // namespace weft::cpu
