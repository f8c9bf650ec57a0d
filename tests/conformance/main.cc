/// main.cc: conformance [--command] [--plugin F]... [--delegate NAME] [PATTERN...]: the cases of
/// ONNX's own backend tests on every backend, or by `weft run` with files in and out, or with parts
/// of them on an engine of a plugin.
///
/// Without patterns: all cases. Fails on a wrong result, on an error that is not "unsupported", on
/// a crash, and when the unsupported cases are not exactly those of
/// tests/conformance/unsupported.txt (WEFT_BLESS=1 rewrites that list). Writes the page
/// conformance.md beside the other reference pages. With patterns: runs the cases whose name
/// contains one and prints each result. With --command: also ONNX's `light` models; nothing is
/// compared with the list, and no page is written. With --delegate: cpu with that delegate; what it
/// does not take is printed by reason.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "report.h"
#include "taken.h"
#include "weft/support/error.h"
#include "weft/support/file.h"
#include "weft/support/timer.h"

namespace weft::conformance {
namespace {

constexpr const char* kCommitted = "tests/conformance/unsupported.txt";
constexpr int kWorkers = 2, kTimeoutSeconds = 60;

std::string Env(const char* name) {
  const char* v = std::getenv(name);
  return v ? v : "";
}

std::vector<Case> Matching(const std::vector<Case>& all, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return all;
  std::vector<Case> cases;
  for (const Case& c : all)
    for (const std::string& p : patterns)
      if (c.name.find(p) != std::string::npos) {
        cases.push_back(c);
        break;
      }
  return cases;
}

/// The value of an option, which is taken out of `words`; empty where it is not given.
std::string TakeOption(std::vector<std::string>* words, const char* name) {
  const auto at = std::find(words->begin(), words->end(), name);
  if (at == words->end() || at + 1 == words->end()) return {};
  const std::string value = at[1];
  words->erase(at, at + 2);
  return value;
}

/// What an engine with delegates took of the cases that it passed.
void PrintTaken(const std::vector<Case>& cases, const std::string& engine,
                const std::vector<CaseResult>& results) {
  std::vector<std::pair<std::string, std::string>> taken;
  for (size_t i = 0; i < cases.size(); ++i)
    if (results[i][0].status == Status::kPass)
      taken.emplace_back(cases[i].name, results[i][0].reason);
  fmt::print("{}", TakenTable(engine, taken));
}

int Main(std::vector<std::string> patterns) {
  std::vector<std::string> plugins;
  for (std::string p; !(p = TakeOption(&patterns, "--plugin")).empty();) plugins.push_back(p);
  const std::string delegate = TakeOption(&patterns, "--delegate");
  const bool command = !patterns.empty() && patterns[0] == "--command";
  if (command) patterns.erase(patterns.begin());
  const bool listed = patterns.empty() && !command && delegate.empty();
  const Engines engines = command             ? Engines{kCommand}
                          : !delegate.empty() ? Engines{"cpu+" + delegate}
                                              : Engines{"ref", "cpu"};
  const std::string data = Env("WEFT_DATA_DIR") + "/onnx";
  const std::vector<Case> cases = Matching(ListCases(data, command), patterns);
  if (cases.empty()) {
    fmt::print("no case in '{}': tools/setup unpacks them\n", data);
    return 1;
  }
  Timer timer;
  const std::vector<CaseResult> results =
      RunAll(cases, engines, kWorkers, kTimeoutSeconds, plugins);
  int failed = 0, passed = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    bool bad = false, right = true;
    for (size_t b = 0; b < engines.size(); ++b) {
      const Outcome& o = results[i][b];
      const bool wrong = o.status == Status::kWrong || o.status == Status::kError;
      bad = bad || wrong;
      right = right && o.status == Status::kPass;
      if (wrong || !patterns.empty() || (command && o.status != Status::kPass))
        fmt::print("{} on {}: {}{}{}\n", cases[i].name, engines[b], StatusName(o.status),
                   o.reason.empty() ? "" : ": ", o.reason);
    }
    failed += bad;
    passed += right;
  }
  fmt::print("{}", Summary(cases, engines, results));
  int changes = 0;
  if (!delegate.empty()) PrintTaken(cases, engines[0], results);
  if (listed) {
    const std::string list = UnsupportedList(cases, engines, results);
    if (!Env("WEFT_BLESS").empty()) {
      WriteFileAtomic(kCommitted, list);
      fmt::print("{} is rewritten\n", kCommitted);
    } else {
      const std::string committed = FileExists(kCommitted) ? ReadFile(kCommitted) : "";
      for (const std::string& c : Changes(committed, list)) {
        fmt::print("{}\n", c);
        ++changes;
      }
      if (changes)
        fmt::print("{} changes against {}: where they are meant, rewrite it with WEFT_BLESS=1\n",
                   changes, kCommitted);
    }
    if (const std::string build = Env("WEFT_BUILD_DIR"); !build.empty()) {
      std::filesystem::create_directories(build + "/docs");
      WriteFileAtomic(build + "/docs/conformance.md", Page(cases, engines, results));
    }
  }
  fmt::print("{:.1f} s\ntest cases: {} | {} passed | {} failed | {} unsupported\n", timer.seconds(),
             cases.size(), passed, failed + (changes > 0), int(cases.size()) - passed - failed);
  return failed || changes ? 1 : 0;
}

}  // namespace
}  // namespace weft::conformance

int main(int argc, char** argv) {
  setenv("WEFT_FAULTS", "throw", 1);
  try {
    return weft::conformance::Main({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "conformance: {}\n", e.what());
    return 1;
  }
}
