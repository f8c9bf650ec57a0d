/// table.cc: see table.h. Widths count code points, so that names in other scripts keep the columns
/// straight.
#include "weft/support/table.h"

#include <algorithm>

namespace weft {
namespace {

size_t Width(const std::string& s) {
  return size_t(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

Table::Table(std::vector<std::string> headings) {
  for (std::string& h : headings) {
    right_.push_back(!h.empty() && h[0] == '>');
    if (right_.back()) h.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(right_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<size_t> width(right_.size());
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], Width(row[c]));
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      const std::string pad(width[c] - Width(row[c]), ' ');
      line += right_[c] ? pad + row[c] : row[c] + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace weft
