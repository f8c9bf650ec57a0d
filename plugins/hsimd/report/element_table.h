/// element_table.h: a layout as a table: which element lies in which place at which address.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../layout/layout.h"

namespace hsimd {

/// Elements by place (coordinates of the named levels, in the order in which they are named), and
/// in it by address and position in a wide word.
struct ElementTable {
  std::vector<std::string> levels;
  std::map<std::vector<int64_t>, std::map<std::pair<int64_t, int64_t>, Index>> rows;
};

/// Every element of every copy; for layouts of few elements.
ElementTable MakeElementTable(const Layout& layout);

/// "7" of a vector, "(1,2)" of what has more axes.
std::string NameOfElement(const Index& index);

}  // namespace hsimd
