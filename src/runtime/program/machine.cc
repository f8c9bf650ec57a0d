/// machine.cc: what this processor can do at best: copies by plain threads, a matrix product by the
/// backend `cpu`. Minima, because whatever else runs here only adds time.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <fmt/format.h>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/program/profile.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft {
namespace {

constexpr int64_t kOwnBytes = int64_t{128} << 10;
/// Of a thread's copy that no cache holds; with all threads' together several times the last one.
constexpr int64_t kLeastMemory = int64_t{16} << 20, kMostMemory = int64_t{128} << 20;
/// Of caches that the system does not tell.
constexpr int64_t kUsualOwn = int64_t{1} << 20, kUsualLast = int64_t{16} << 20;
constexpr int64_t kMovedBytes = int64_t{256} << 20;  ///< by one try, a thread
constexpr int kTries = 5, kProduct = 1024;

void CopyThroughCaches(float* to, const float* from, size_t bytes) { std::memcpy(to, from, bytes); }
/// A line that is written whole need not be read first.
void CopyPastCaches(float* to, const float* from, size_t bytes) {
#if defined(__SSE2__)
  const size_t n = bytes / sizeof(float);
  size_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(to + i) % 64 != 0; ++i) to[i] = from[i];
  for (; i + 16 <= n; i += 16) {
    for (size_t k = 0; k < 16; k += 4) _mm_stream_ps(to + i + k, _mm_loadu_ps(from + i + k));
  }
  for (; i < n; ++i) to[i] = from[i];
  _mm_sfence();
#else
  CopyThroughCaches(to, from, bytes);
#endif
}

/// GB/s of `threads` copies of `bytes` each.
double CopyRate(int threads, int64_t bytes) {
  const size_t floats = size_t(bytes) / sizeof(float);
  const int repeat = int(std::max<int64_t>(kMovedBytes / bytes, 1));
  std::vector<std::vector<float>> from(size_t(threads), std::vector<float>(floats, 1.f)), to = from;
  double best = 0;
  for (int k = 0; k < 2 * kTries; ++k) {
    const auto copy = k % 2 ? CopyPastCaches : CopyThroughCaches;
    std::vector<double> seconds(size_t(threads), 0.);
    std::vector<std::thread> team;
    for (size_t t = 0; t < size_t(threads); ++t)
      team.emplace_back([&, t] {
        const Timer timer;
        for (int r = 0; r < repeat; ++r) {
          copy(to[t].data(), from[t].data(), size_t(bytes));
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
  g.outputs = {ApplyOp("MatMul", {a, b})};
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

/// In the order in which they are written.
struct Figure {
  const char* name;
  double* value;
};
std::vector<Figure> FiguresOf(Machine* m) {
  return {{"gflops", &m->gflops},
          {"memory_gbs", &m->memory_gbs},
          {"own_gbs", &m->own_gbs},
          {"shared_gbs", &m->shared_gbs}};
}
std::string KeyOf(const std::string& cpu, int threads) {
  return fmt::format("machine figures 2\ntarget cpu\nprocessor {}\nthreads {}\n", cpu, threads);
}

/// What the system says about this processor.
Machine Unmeasured(int threads) {
  Machine m;
  m.cpu = CpuModel();
  m.threads = threads;
  const long own = sysconf(_SC_LEVEL2_CACHE_SIZE), last = sysconf(_SC_LEVEL3_CACHE_SIZE);
  m.own_bytes = (own > 0 ? int64_t(own) : kUsualOwn) * threads;
  m.cache_bytes = std::max(last > 0 ? int64_t(last) : kUsualLast, m.own_bytes);
  return m;
}

bool Recall(Machine* m) {
  const auto text = KernelCache::Process().FindText(KeyOf(m->cpu, m->threads));
  if (!text) return false;
  const std::vector<std::string> words = Split(*text, ' ');
  const std::vector<Figure> figures = FiguresOf(m);
  if (words.size() != figures.size()) return false;
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::optional<double> value = TryParseDouble(words[i]);
    if (!value || !(*value > 0)) return *m = Unmeasured(m->threads), false;
    *figures[i].value = *value;
  }
  return true;
}

}  // namespace

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (StartsWith(line, "model name")) return std::string(Trim(line.substr(line.find(':') + 1)));
  return "unknown";
}

double Machine::Floor(int64_t bytes, int64_t flops) const {
  if (!measured()) return 0;
  const auto copy = [](int64_t part, double rate) { return part > 0 ? double(part) / rate : 0; };
  const int64_t own = std::min(bytes, own_bytes);
  const int64_t shared = std::max<int64_t>(std::min(bytes, cache_bytes) - own, 0);
  const double copies =
      copy(own, own_gbs) + copy(shared, shared_gbs) + copy(bytes - own - shared, memory_gbs);
  const double arithmetic = double(flops) / gflops;
  const double least = overlaps ? std::max(copies, arithmetic) : copies + arithmetic;
  return unit == TimeUnit::kCycles ? least : least / 1e3;
}

std::string Machine::ToString() const {
  if (unit == TimeUnit::kCycles)
    return fmt::format("{}: {:g} bytes and {:g} operations a cycle{}", cpu, memory_gbs, gflops,
                       overlaps ? ", side by side" : "");
  return fmt::format(
      "{:.1f} GB/s in the cores' own caches ({}), {:.1f} GB/s in the last-level cache ({}), {:.1f} "
      "GB/s from memory, {:.1f} GFLOP/s (f32), {} threads",
      own_gbs, FormatBytes(own_bytes), shared_gbs, FormatBytes(cache_bytes), memory_gbs, gflops,
      threads);
}

Machine MeasureMachine(int threads) {
  Machine m = Unmeasured(threads);
  m.own_gbs = CopyRate(threads, kOwnBytes);
  m.memory_gbs =
      CopyRate(threads, std::clamp(2 * m.cache_bytes / threads, kLeastMemory, kMostMemory));
  // Both ends of a copy beyond the own cache of its core, those of all threads within the last one.
  const int64_t own = m.own_bytes / threads;
  const int64_t beyond = std::min(4 * own, m.cache_bytes / (4 * threads));
  m.shared_gbs = beyond > own ? CopyRate(threads, beyond) : m.memory_gbs;
  m.gflops = ProductRate(threads);
  std::string text;
  for (const Figure& f : FiguresOf(&m))
    text += (text.empty() ? "" : " ") + fmt::format("{}", *f.value);
  KernelCache::Process().StoreText(KeyOf(m.cpu, threads), text);
  return m;
}

Machine MachineOf(const std::string& backend, int threads) {
  const std::shared_ptr<Backend> b = GetBackend(backend);
  return b->DescribeMachine(threads > 0 ? threads : b->threads());
}

Machine Backend::DescribeMachine(int) const { return {}; }
Machine HostBackend::DescribeMachine(int threads) const {
  Machine m = Unmeasured(threads);
  return Recall(&m) ? m : MeasureMachine(m.threads);
}

}  // namespace weft
