/// check_report.h: what `weft check` found, round by round, as a table or as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check_inputs.h"

namespace weft::tool {

struct CheckRound {
  int number = 0;
  CheckValues values = CheckValues::kUnit;
  SymBindings bind;
  std::string result;  ///< "equal", or why nothing was compared
  bool compared = false;
};

/// A result that differs, in the last round.
struct CheckDifference {
  std::string engine, output, detail;
  std::string node;      ///< empty: not known
  std::string why_none;  ///< then
  bool only_reused = false;
};

struct CheckReport {
  std::string model;
  std::vector<std::string> engines;
  std::string reference;  ///< "ref", or the engine that stands for it
  std::vector<std::string> random, outputs_not_compared, not_compared;
  std::vector<std::string> unbound;  ///< symbols whose extents were chosen, without --bind
  std::vector<CheckRound> rounds;
  std::optional<CheckDifference> difference;
  uint64_t seed = 0;
  std::string again;   ///< the command that repeats the last round
  bool saved = false;  ///< the inputs of that round are kept

  /// Prints it. Throws kCheckFailed for a difference, kUnsupported where no round was compared.
  void Print(bool json) const;
};

}  // namespace weft::tool
