/// start.cc: what lies between a model file and its first results, by phase: reading the file
/// alone, import, compilation (kernels from the cache after the first round), the first run
/// (primitives, packed weights) and the second. Minima and medians of ROUNDS; wall time. A process
/// adds its own start to the sum.
///
///   build/bin/bench_start MODEL.onnx [ROUNDS]      default 7; symbolic extents are 1
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"
#include "weft/support/file_reader.h"
#include "weft/support/timer.h"

namespace {

using namespace weft;

void ReadAll(const std::string& path) {
  FileReader file(path);
  std::vector<char> chunk(256 << 10);
  while (file.Read(chunk.data(), chunk.size()) == chunk.size()) {
  }
}

int Measure(const std::string& path, int rounds) {
  const char* const kPhases[] = {"read", "import", "compile", "first run", "second run"};
  std::vector<double> times[std::size(kPhases)];
  const auto timed = [&](size_t phase, const std::function<void()>& work) {
    const Timer timer;
    work();
    times[phase].push_back(timer.milliseconds());
  };
  for (int i = 0; i < rounds; ++i) {
    Graph graph;
    std::shared_ptr<const Program> program;
    timed(0, [&] { ReadAll(path); });
    timed(1, [&] { graph = ImportOnnx(path); });
    timed(2, [&] { program = Compile(std::move(graph)); });
    const std::vector<TensorPtr> inputs = RandomProgramInputs(*program, /*seed=*/1, {});
    Session session(program);
    timed(3, [&] { session.Run(inputs); });
    timed(4, [&] { session.Run(inputs); });
  }
  std::printf("%-12s %12s %12s\n", "phase", "min ms", "median ms");
  for (size_t k = 0; k < std::size(kPhases); ++k) {
    std::sort(times[k].begin(), times[k].end());
    std::printf("%-12s %12.2f %12.2f\n", kPhases[k], times[k].front(),
                times[k][times[k].size() / 2]);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  if (argc < 2 || rounds < 1) {
    std::fprintf(stderr, "usage: bench_start MODEL.onnx [ROUNDS]\n");
    return 2;
  }
  try {
    return Measure(argv[1], rounds);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
