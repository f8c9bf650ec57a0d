// Random networks on random machines, through all passes of the plugin and the simulator: cycles as
// predicted, results as the interpreter's, memory as planned.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "random_network.h"
#include "weft/core/module/plugin.h"
#include "weft/core/text/text.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

namespace hsimd {
namespace {

constexpr int kMachines = 50, kNetworks = 6;  // 6 on each machine
constexpr double kRelative = 1e-5;

/// A file of this process, gone when it ends.
class TempFile {
 public:
  explicit TempFile(const std::string& text)
      : path_(std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/hsimd_" +
              std::to_string(std::random_device()()) + ".json") {
    std::ofstream(path_) << text;
  }
  ~TempFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

/// The largest difference, by the largest value of the result.
double ErrorOf(const weft::Tensor& got, const weft::Tensor& want) {
  double most = 1e-3, error = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double g = got.at(i), w = want.at(i);
    most = std::max(most, std::fabs(w));
    if (!(g == w || (std::isnan(g) && std::isnan(w)))) error = std::max(error, std::fabs(g - w));
  }
  return error / most;
}

int64_t FieldOf(const weft::Session& session, const std::string& name, const std::string& in = {}) {
  for (const weft::ProgramField& f : session.fields()) {
    if (!in.empty() && f.name == in)
      for (const weft::ProgramField& g : std::get<std::vector<weft::ProgramField>>(f.value))
        if (g.name == name) return std::get<int64_t>(g.value);
    if (in.empty() && f.name == name) return std::get<int64_t>(f.value);
  }
  return -1;
}

/// What the simulator touched is what was planned, but for words above the values that emission
/// computes with.
void CheckWords(const weft::Session& session, const Machine& machine) {
  for (const Memory& memory : machine.memories) {
    CAPTURE(memory.name);
    const int64_t planned = FieldOf(session, memory.name, "planned_words");
    const int64_t touched = FieldOf(session, memory.name, "peak_words");
    if (memory.off_chip) CHECK(touched == planned);
    // Nothing but values lies in the first part of the first memory of the PEs.
    if (memory.name == "M0" && touched <= memory.words * 7 / 8) CHECK(touched == planned);
  }
}

TEST_CASE("random networks on random machines") {
  weft::LoadPlugin(HSIMD_PLUGIN, {false});
  const char* only = std::getenv("HSIMD_SEED");
  int refused = 0;
  for (int seed = 0; seed < kMachines * kNetworks; ++seed) {
    if (only && std::atoi(only) != seed) continue;
    std::mt19937 of_machine(uint32_t(seed / kNetworks)), of_network(uint32_t(seed) + 1000);
    const Machine machine = RandomWholeMachine(&of_machine);
    const std::string text = RandomNetwork(&of_network);
    const std::string print = PrintMachine(machine);
    const TempFile file(print);
    CAPTURE(seed);
    CAPTURE(print);
    CAPTURE(text);
    try {
      const weft::Graph graph = weft::ParseGraph(text);
      const std::vector<weft::TensorPtr> inputs = weft::SampleInputs(graph, uint64_t(seed), {});
      weft::CompileOptions ref, own;
      ref.backend = "ref";
      own.backend = "hsimd:" + file.path();
      const auto want = weft::Session(weft::Compile(graph, ref)).Run(inputs);
      weft::Session session(weft::Compile(graph, own));
      const auto got = session.Run(inputs);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(ErrorOf(*got[i], *want[i]) <= kRelative);
      CHECK(FieldOf(session, "cycles") == FieldOf(session, "predicted_cycles"));
      CheckWords(session, machine);
    } catch (const weft::Error& e) {
      // An instruction that the machine has no ports for: a limit of emission, not a wrong result.
      if (e.code() == weft::ErrorCode::kUnsupported)
        ++refused;
      else
        FAIL_CHECK(std::string(e.what()));
    }
  }
  CHECK(refused <= kMachines * kNetworks / 100);
}

}  // namespace
}  // namespace hsimd
