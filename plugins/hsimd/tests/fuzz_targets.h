/// fuzz_targets.h: what is fuzzed: every reader of text of the plugin.
///
/// A target answers every input with success or a weft::UserError, and holds its laws for what it
/// accepts: what was read prints to what reads to the same; a small program without hazards takes
/// the cycles that were predicted. It aborts where a law does not hold; any other exception is for
/// the caller. fuzz_test.cc runs them on fixed mutations; libfuzzer.cc (configure with
/// -DHSIMD_FUZZ=ON and clang) is guided by coverage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hsimd {

struct FuzzTarget {
  const char* name;  ///< "machine", "program", "layout"
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();
};
const std::vector<FuzzTarget>& FuzzTargets();

}  // namespace hsimd
