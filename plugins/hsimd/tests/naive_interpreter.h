/// naive_interpreter.h: programs executed word by word and place by place, for comparison.
///
/// Written from program.h and machine.h alone: every touch of every word is an entry of a list, all
/// pairs of which are looked at. Slow, and meant to be.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "../l1/program.h"

namespace hsimd {

struct NaiveHazard {
  std::string kind;   ///< "under way", "never written", "read port", "write port", "access"
  int64_t issue = 0;  ///< of the element that commits it: the later one by cycle and instruction
  int64_t cycle = 0;  ///< in which it happens
  int64_t instruction = 0, element = 0;
  int memory = 0;
  int64_t place = 0, word = 0;
};

struct NaiveRun {
  int64_t cycles = 0;
  std::vector<NaiveHazard> hazards;  ///< all there are
  /// Words that were written: (memory, place, address).
  std::map<std::tuple<int, int64_t, int64_t>, uint32_t> words;
};

/// `initial`: off-chip words by (memory, address).
NaiveRun RunNaively(const Program& program, const Machine& machine,
                    const std::map<std::pair<int, int64_t>, uint32_t>& initial);

}  // namespace hsimd
