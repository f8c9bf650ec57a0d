/// element_table.cc: tables of layouts.
#include "element_table.h"

#include <algorithm>

#include "weft/support/check.h"

namespace hsimd {

ElementTable MakeElementTable(const Layout& layout) {
  ElementTable table;
  const auto add = [&](const std::string& level) {
    if (level != kAddress && level != kWide &&
        std::find(table.levels.begin(), table.levels.end(), level) == table.levels.end())
      table.levels.push_back(level);
  };
  for (const auto& axis : layout.axes) {
    for (const Digit& d : axis) add(d.level);
  }
  for (const Digit& d : layout.copies) add(d.level);
  for (const auto& [level, offset] : layout.offset) add(level);
  ForEachIndex(layout.shape, [&](const Index& index) {
    for (const Place& place : PlacesOf(layout, index)) {
      const auto at = [&](const std::string& level) {
        const auto it = place.find(level);
        return it == place.end() ? int64_t{0} : it->second;
      };
      std::vector<int64_t> row;
      for (const std::string& level : table.levels) row.push_back(at(level));
      table.rows[row][{at(kAddress), at(kWide)}] = index;
    }
  });
  return table;
}

std::string NameOfElement(const Index& index) {
  if (index.size() == 1) return std::to_string(index[0]);
  return fmt::format("({})", fmt::join(index, ","));
}

}  // namespace hsimd
