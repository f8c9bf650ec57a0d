/// machine.cc: copies by plain threads, a matrix product by the backend `cpu`; minima, because whatever else runs here only
/// adds time.
#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "common.h"
#include "weft/codegen/kernel_compilers.h"
#include "weft/core/builtin_ops.h"
#include "weft/runtime/program.h"
#include "weft/support/atomic_file.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

constexpr int64_t kMemoryBytes = int64_t{128} << 20, kCacheBytes = int64_t{128} << 10;
constexpr int kTries = 5, kProduct = 1024;

/// GB/s of `threads` copies of `bytes` each, `repeat` times.
double CopyRate(int threads, int64_t bytes, int repeat) {
  const size_t floats = size_t(bytes) / sizeof(float);
  std::vector<std::vector<float>> from(size_t(threads), std::vector<float>(floats, 1.f)), to = from;
  double best = 0;
  for (int k = 0; k < kTries; ++k) {
    std::vector<double> seconds(size_t(threads), 0.);
    std::vector<std::thread> team;
    for (size_t t = 0; t < size_t(threads); ++t)
      team.emplace_back([&, t] {
        const Timer timer;
        for (int r = 0; r < repeat; ++r) {
          std::memcpy(to[t].data(), from[t].data(), size_t(bytes));
          asm volatile("" : : "r"(to[t].data()) : "memory");  // every copy counts
        }
        seconds[t] = timer.seconds();
      });
    for (std::thread& t : team) t.join();
    const double slowest = *std::max_element(seconds.begin(), seconds.end());
    best = std::max(best, 2e-9 * double(bytes) * repeat * threads / slowest);
  }
  return best;
}

double ProductRate(int threads) {
  Graph g;
  const Shape square{SymInt(kProduct), SymInt(kProduct)};
  const NodeEntry a(g.AddInput("a", DType::kF32, square)), b(g.AddInput("b", DType::kF32, square));
  g.outputs = {Apply("MatMul", {a, b})};
  CompileOptions options;
  options.threads = threads;
  const auto program = Compile(std::move(g), options);
  Session session(program);
  const auto inputs = RandomProgramInputs(*program, 1, {});
  std::vector<std::shared_ptr<Tensor>> outputs;
  double best = 0;
  for (int k = 0; k < 8 * kTries; ++k) {
    const Timer timer;
    session.RunInto(inputs, &outputs);
    best = std::max(best, 2e-9 * kProduct * kProduct * kProduct / timer.seconds());
  }
  return best;
}

std::string FileFor(int threads) {
  const std::string dir = KernelCache::Process().directory();
  return dir.empty() ? std::string() : fmt::format("{}/machine-{}.json", dir, threads);
}

}  // namespace

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (StartsWith(line, "model name")) return std::string(Trim(line.substr(line.find(':') + 1)));
  return "unknown";
}

Machine MeasureMachine(int threads, bool keep) {
  Machine m;
  m.cpu = CpuModel();
  m.threads = threads;
  m.memory_gbs = CopyRate(threads, kMemoryBytes, 1);
  m.cache_gbs = CopyRate(threads, kCacheBytes, 2000);
  m.gflops = ProductRate(threads);
  const long last = sysconf(_SC_LEVEL3_CACHE_SIZE);
  m.cache_bytes = last > 0 ? last : int64_t{16} << 20;
  const std::string file = FileFor(threads);
  if (keep && !file.empty()) {
    try {
      WriteFileAtomic(file, Json{{"cpu", m.cpu},
                                 {"threads", m.threads},
                                 {"memory_gbs", m.memory_gbs},
                                 {"cache_gbs", m.cache_gbs},
                                 {"gflops", m.gflops},
                                 {"cache_bytes", m.cache_bytes}}
                                    .dump(1) +
                                "\n");
    } catch (const Error&) {  // a cache that cannot be written costs a measurement the next time
    }
  }
  return m;
}

Machine MeasuredMachine(int threads) {
  const std::string file = FileFor(threads);
  if (!file.empty()) {
    std::ifstream in(file);
    const Json kept = Json::parse(in, nullptr, /*allow_exceptions=*/false);
    const auto positive = [&](const char* name) {
      return kept.contains(name) && kept[name].is_number() && kept[name].get<double>() > 0;
    };
    if (kept.is_object() && kept.value("cpu", "") == CpuModel() && positive("memory_gbs") &&
        positive("cache_gbs") && positive("gflops") && positive("cache_bytes"))
      return {kept["cpu"],       threads,        kept["memory_gbs"],
              kept["cache_gbs"], kept["gflops"], kept["cache_bytes"]};
  }
  return MeasureMachine(threads, /*keep=*/true);
}

}  // namespace weft::tool
