/// table.h: plain text tables: columns as wide as their widest cell, numbers to the right.
#pragma once

#include <string>
#include <vector>

#include "weft/support/api.h"

namespace weft {

class WEFT_API Table {
 public:
  /// A heading that starts with '>' aligns its column to the right.
  explicit Table(std::vector<std::string> headings);
  void AddRow(std::vector<std::string> cells);
  size_t size() const { return rows_.size(); }
  std::string ToString() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace weft
