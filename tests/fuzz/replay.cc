/// replay.cc: every target on its seeds and on mutations of them, the same on every machine; no
/// coverage, no compiler of its own. Part of every CI run.
///
///   fuzz_replay [TARGET ...]             all targets where none is named
///   fuzz_replay --corpus D               writes the seeds to D/<target>/, for libFuzzer
///   fuzz_replay TARGET --file F          one input
///
/// WEFT_FUZZ_SEED (1) and WEFT_FUZZ_COUNT (20,000 a target) choose the mutations.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../safety/mutate.h"
#include "../safety/watchdog.h"
#include "targets.h"
#include "weft/support/file.h"

namespace weft::fuzz {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoll(text) : otherwise;
}

void WriteCorpus(const std::string& folder) {
  for (const Target& t : Targets()) {
    const std::string own = folder + "/" + t.name;
    std::filesystem::create_directories(own);
    int number = 0;
    for (const std::string& seed : t.seeds())
      std::ofstream(fmt::format("{}/seed_{}", own, number++), std::ios::binary) << seed;
  }
}

/// One to eight edits of bytes, and now and then a piece of another seed.
std::string Mutate(const std::vector<std::string>& seeds, safety::Choices* choices) {
  std::string input = choices->Of(seeds);
  if (choices->OneIn(8)) {
    const std::string& other = choices->Of(seeds);
    const size_t from = choices->Below(other.size() + 1);
    input.insert(choices->Below(input.size() + 1), other.substr(from, choices->Below(200)));
  }
  safety::MutateBytes(&input, choices);
  return input;
}

void Replay(const Target& t, uint64_t seed, uint64_t count) {
  constexpr unsigned kCpuSeconds = 30;
  const std::vector<std::string> seeds = t.seeds();
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < seeds.size(); ++i) {
    safety::Watch(fmt::format("seed {} of target {}", i, t.name), kCpuSeconds);
    RunChecked(t, seeds[i]);
  }
  for (uint64_t number = 0; number < count; ++number) {
    safety::Choices choices(seed * 0x9E3779B97F4A7C15u + number);
    const std::string input = Mutate(seeds, &choices);
    safety::Watch(fmt::format("mutation {} of seed {} of target {}", number, seed, t.name),
                  kCpuSeconds);
    RunChecked(t, input);
  }
  safety::Watch("the end", 0);
  fmt::print("{}: {} seeds, {} mutations, {:.1f} s\n", t.name, seeds.size(), count,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

int Main(int argc, char** argv) {
  std::vector<const Target*> chosen;
  std::string file;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool has_value = i + 1 < argc;
    if (arg == "--corpus" && has_value) {
      WriteCorpus(argv[i + 1]);
      return 0;
    }
    if (arg == "--file" && has_value) {
      file = argv[++i];
    } else if (const Target* t = FindTarget(arg)) {
      chosen.push_back(t);
    } else {
      fmt::print(stderr, "no target '{}'\n", arg);
      return 2;
    }
  }
  safety::StartWatchdog();
  if (!file.empty()) {
    for (const Target* t : chosen) RunChecked(*t, ReadFile(file, 1 << 28));
    return 0;
  }
  const auto seed = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const auto count = uint64_t(FromEnvironment("WEFT_FUZZ_COUNT", 20000));
  if (chosen.empty())
    for (const Target& t : Targets()) chosen.push_back(&t);
  for (const Target* t : chosen) Replay(*t, seed, count);
  return 0;
}

}  // namespace
}  // namespace weft::fuzz

int main(int argc, char** argv) {
  setenv("WEFT_FAULTS", "throw", 1);
  return weft::fuzz::Main(argc, argv);
}
