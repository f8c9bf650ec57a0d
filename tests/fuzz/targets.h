/// targets.h: what is fuzzed: every reader of bytes from outside. Each target answers every input
/// with success or a weft::Error that is not our fault; anything else ends the process.
///
/// Two programs use the table: `fuzz_replay` (replay.cc), in every build, mutates the
/// seeds by a fixed number of fixed edits; `fuzz_<name>` (libfuzzer.cc), in the preset
/// fuzz, is guided by coverage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/limits.h"

namespace weft::fuzz {

using Run = void (*)(std::string_view input);
using Seeds = std::vector<std::string> (*)();

struct Target {
  const char* name;
  Run run;
  Seeds seeds;  ///< valid inputs to begin with
};

/// import, text, json, pipeline, cache, program.
const std::vector<Target>& Targets();
/// Null where there is none.
const Target* FindTarget(std::string_view name);
/// Runs one input and judges how it ended: abort() on what may not happen.
void RunChecked(const Target& target, std::string_view input);

// One file each.
void RunImport(std::string_view input);
std::vector<std::string> ImportSeeds();
void RunText(std::string_view input);
std::vector<std::string> TextSeeds();
void RunJson(std::string_view input);
std::vector<std::string> JsonSeeds();
void RunPipeline(std::string_view input);
std::vector<std::string> PipelineSeeds();
void RunCache(std::string_view input);
std::vector<std::string> CacheSeeds();
void RunProgram(std::string_view input);
std::vector<std::string> ProgramSeeds();

/// Bounds that keep one input to some milliseconds.
Limits SmallLimits();
/// A law that holds for every accepted input; says which does not, and aborts.
void Require(bool holds, const char* law);

}  // namespace weft::fuzz
