/// extent_names.h: sizes that a kernel computes from its extents, as extents with
/// numbers of their own.
///
/// Sizes are made of sizes: bytes of tensors, chunks, items of a phase. Written out each would
/// hold the ones below it wherever it mentions them. A size that is not small is extent number
/// `num_symbols + i` instead, and defined once: code computes it once a call, the launcher
/// once a launch (CpuKernel::named).
#pragma once

#include <vector>

#include "weft/codegen/kernel/kernel.h"

namespace weft::llvmgen {

class ExtentNames {
 public:
  explicit ExtentNames(int num_symbols) : first_(num_symbols) {}

  /// `e`, or the extent that stands for it where it is large and never negative, as extents are.
  SymInt Name(SymInt e) {
    constexpr uint32_t kSmall = 12;
    if (e.size() <= kSmall || Facts().RangeOf(e).lo < 0) return e;
    size_t i = 0;
    while (i < definitions_.size() && definitions_[i] != e) ++i;
    if (i == definitions_.size()) definitions_.push_back(e);
    return KernelSymbol(first_ + int(i));
  }
  /// Number of an extent of the kernel or of a definition; throws InternalError
  /// for any other symbol.
  int Number(SymInt symbol) const {
    return ExtentNumber(symbol, first_ + int(definitions_.size()));
  }
  SymInt Definition(int number) const { return definitions_.at(size_t(number - first_)); }
  const std::vector<SymInt>& definitions() const { return definitions_; }

 private:
  int first_;
  std::vector<SymInt> definitions_;
};

}  // namespace weft::llvmgen
