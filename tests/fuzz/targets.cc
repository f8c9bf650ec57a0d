/// targets.cc: the table, and what counts as an answer.
#include "targets.h"

#include <cstdio>
#include <cstdlib>

#include "weft/support/error.h"
#include "weft/support/log.h"
#include "weft/support/request.h"

namespace weft::fuzz {

const std::vector<Target>& Targets() {
  static const std::vector<Target> targets = {
      {"cache", RunCache, CacheSeeds},       {"import", RunImport, ImportSeeds},
      {"json", RunJson, JsonSeeds},          {"pipeline", RunPipeline, PipelineSeeds},
      {"program", RunProgram, ProgramSeeds}, {"text", RunText, TextSeeds},
  };
  return targets;
}

const Target* FindTarget(std::string_view name) {
  for (const Target& t : Targets())
    if (name == t.name) return &t;
  return nullptr;
}

Limits SmallLimits() {
  Limits limits;
  limits.nodes = limits.expanded_nodes = 2000;
  limits.tensor_bytes = int64_t{16} << 20;
  limits.folded_bytes_each = int64_t{1} << 20;
  limits.folded_bytes_total = int64_t{8} << 20;
  limits.file_bytes = int64_t{4} << 20;
  limits.deadline_s = 5;
  return limits;
}

void Require(bool holds, const char* law) {
  if (holds) return;
  std::fprintf(stderr, "broken law: %s\n", law);
  std::abort();
}

void RunChecked(const Target& target, std::string_view input) {
  SetLogLevel(LogLevel::kOff);
  const Limits limits = SmallLimits();
  try {
    RequestScope scope(limits);
    target.run(input);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kInternal) return;
    std::fprintf(stderr, "%s: %s\n", target.name, e.what());
    std::abort();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: an exception that is no weft::Error: %s\n", target.name, e.what());
    std::abort();
  }
}

}  // namespace weft::fuzz
