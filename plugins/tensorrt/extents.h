/// extents.h: ranges of symbolic extents: what an optimization profile of TensorRT wants to know,
/// least, usual and greatest value of every extent of an input.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace weft_tensorrt {

struct Extent {
  int64_t min = 0, opt = 0, max = 0;
  bool is_fixed() const { return min == max; }
  bool Holds(int64_t value) const { return min <= value && value <= max; }
  std::string ToString() const;
};

/// What the option `extents` says: "n=1..8..32/1..128..512".
class ExtentRanges {
 public:
  /// Throws kUsage.
  explicit ExtentRanges(const std::string& text);
  /// Of an expression over symbols as Weft prints it, "2*n + 1", "min(h//2, w)". Throws
  /// kUnsupported where a symbol has no range, or the expression has no bounds.
  Extent Of(const std::string& expression) const;

 private:
  std::map<std::string, Extent> named_;
  bool has_other_ = false;
  Extent other_;  // of symbols that are not named
};

}  // namespace weft_tensorrt
