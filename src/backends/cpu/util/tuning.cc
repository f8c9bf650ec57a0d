/// tuning.cc: stored choices, and the race that makes them.
#include "tuning.h"

#ifdef WEFT_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>

#include "weft/core/op/op.h"
#include "weft/support/checked.h"
#include "weft/support/log.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft::cpu {

namespace {
thread_local const ScopedTuner* current_tuner = nullptr;
}

ScopedTuner::ScopedTuner(KernelCache* cache, std::function<double()> seconds)
    : cache_(cache), seconds_(std::move(seconds)), before_(current_tuner) {
  current_tuner = this;
}
ScopedTuner::~ScopedTuner() { current_tuner = before_; }

/// The cache and the clock in use.
struct Tuner {
  static KernelCache* Cache() {
    return current_tuner ? current_tuner->cache_ : &KernelCache::Process();
  }
  static double Seconds() {
    using Clock = std::chrono::steady_clock;
    if (current_tuner && current_tuner->seconds_) return current_tuner->seconds_();
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }
};

namespace {

constexpr double kBudget = 0.05;  // seconds a request
constexpr int kLeastRounds = 2, kMostRounds = 200;
/// Rounds without a new least time of any way, after which times have settled.
constexpr int kSettled = 25;
constexpr double kHopeless = 1.5, kGain = 1.03;
/// Operands or scratch of more are not allocated for timing.
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr int64_t kAlign = 64;

/// "GenuineIntel, family 6, model 207, ...": what /proc/cpuinfo says of the first processor.
std::string Processor() {
  static const std::string text = [] {
    std::ifstream in("/proc/cpuinfo");
    std::string out, line;
    while (std::getline(in, line) && !line.empty()) {
      for (const char* name : {"vendor_id", "cpu family", "model", "model name", "stepping",
                               "cache size", "CPU implementer", "CPU variant", "CPU part"}) {
        const size_t colon = line.find(':');
        const std::string word = std::string(Trim(line.substr(0, colon)));
        if (colon != std::string::npos && word == name)
          out += std::string(Trim(line.substr(colon + 1))) + ", ";
      }
    }
    return out;
  }();
  return text;
}

std::string Library() {
#ifdef WEFT_HAVE_ONEDNN
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} isa {}", v->major, v->minor, v->patch,
                     int(dnnl_get_effective_cpu_isa()));
#else
  return "none";
#endif
}

const char* LayoutName(Layout layout) { return layout == Layout::kPlain ? "plain" : "last"; }

template <class T, class F>
void AppendList(std::string* out, const char* name, const std::vector<T>& list, F&& text) {
  *out += name;
  for (size_t i = 0; i < list.size(); ++i) *out += (i ? ", " : " ") + text(list[i], i);
  *out += '\n';
}

std::string AttrsText(const NodePtr& n) {
  std::string out = n->op()->name;
  for (const auto& [name, value] : n->attrs.dict)
    if (!value.is<TensorPtr>() && !value.is<GraphPtr>())
      out += fmt::format(" {}={}", name, std::string(value));
  return out;
}

std::string DimsText(const std::vector<int64_t>& dims) {
  std::vector<std::string> words;
  for (int64_t d : dims) words.push_back(std::to_string(d));
  return "[" + Join(words, " ") + "]";
}

/// Memory for one operand, filled with ordinary values: floats in [-1, 1), everything else zero.
class Block {
 public:
  Block(int64_t bytes, DType type) {
    const size_t size = size_t(CheckedRoundUp(std::max<int64_t>(bytes, kAlign), kAlign));
    data_.reset(std::aligned_alloc(size_t(kAlign), size));
    if (!data_) throw std::bad_alloc();
    std::fill_n(static_cast<char*>(data_.get()), size, char{0});
    if (type != DType::kF32) return;
    uint32_t state = 1;
    for (size_t i = 0; i < size / sizeof(float); ++i) {
      state = state * 1664525 + 1013904223;
      static_cast<float*>(data_.get())[i] = float(int32_t(state)) * (1.f / 2147483648.f);
    }
  }
  void* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
};

int64_t BytesOf(DType type, const std::vector<int64_t>& dims) {
  return type == DType::kUnknown ? 0 : DTypeBytes(type, CheckedProduct(dims));
}

int64_t AllBytes(const ComputeRequest& q) {
  int64_t sum = 0;
  for (size_t i = 0; i < q.input_dims.size(); ++i)
    sum = CheckedAdd(sum, BytesOf(q.input_types[i], q.input_dims[i]));
  for (size_t i = 0; i < q.output_dims.size(); ++i)
    sum = CheckedAdd(sum, BytesOf(q.output_types[i], q.output_dims[i]));
  for (const CallStep& s : q.epilogue)
    if (s.operand >= 0) sum = CheckedAdd(sum, BytesOf(s.operand_type, s.operand_dims));
  return sum;
}

/// Operands and results of a request.
class Operands {
 public:
  explicit Operands(const ComputeRequest& q) {
    for (size_t i = 0; i < q.input_dims.size(); ++i)
      SetInput(i, q.input_types[i], q.input_dims[i], q.constants[i]);
    for (const CallStep& s : q.epilogue)
      if (s.operand >= 0)
        SetInput(size_t(s.operand), s.operand_type, s.operand_dims, s.operand_constant);
    for (size_t i = 0; i < q.output_dims.size(); ++i)
      outputs_.push_back(Make(q.output_types[i], q.output_dims[i]));
  }
  void Run(const LibraryCall& call, void* scratch) const {
    call.Run(inputs_.data(), outputs_.data(), scratch);
  }

 private:
  void* Make(DType type, const std::vector<int64_t>& dims) {
    blocks_.emplace_back(BytesOf(type, dims), type);
    return blocks_.back().get();
  }
  void SetInput(size_t i, DType type, const std::vector<int64_t>& dims, const TensorPtr& constant) {
    if (i >= inputs_.size()) inputs_.resize(i + 1, nullptr);
    if (type != DType::kUnknown) inputs_[i] = constant ? constant->data() : Make(type, dims);
  }
  std::vector<Block> blocks_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

struct Runner {
  const Way* way;
  std::unique_ptr<LibraryCall> call;
  double least = std::numeric_limits<double>::infinity();
  bool hopeless = false;
};

/// Fills `least`; see tuning.h.
void Race(const ComputeRequest& q, std::vector<Runner>* runners) {
  int64_t scratch_bytes = 0;
  for (const Runner& r : *runners) scratch_bytes = std::max(scratch_bytes, r.call->scratch_bytes());
  const Operands operands(q);
  const Block scratch(scratch_bytes, DType::kUnknown);
  const auto time = [&](const Runner& r) {
    RequestScope::Poll();
    const double begin = Tuner::Seconds();
    operands.Run(*r.call, scratch.get());
    return Tuner::Seconds() - begin;
  };
  const double begin = Tuner::Seconds();
  // Pages are touched, tables made; and what would take very long is seen at once.
  double quickest = std::numeric_limits<double>::infinity();
  std::vector<double> first;
  for (const Runner& r : *runners) quickest = std::min(quickest, first.emplace_back(time(r)));
  for (size_t i = 1; i < first.size(); ++i)
    (*runners)[i].hopeless = first[i] > 3 * quickest && first[i] > kBudget;
  int unchanged = 0;
  for (int round = 0; round < kMostRounds && unchanged < kSettled; ++round) {
    if (round >= kLeastRounds && Tuner::Seconds() - begin > kBudget) break;
    if (round >= 1 && Tuner::Seconds() - begin > 4 * kBudget) break;  // each has run twice
    double best = std::numeric_limits<double>::infinity();
    ++unchanged;
    for (Runner& r : *runners) {
      if (!r.hopeless) {
        const double t = time(r);
        if (t < 0.995 * r.least) unchanged = 0;
        r.least = std::min(r.least, t);
      }
      best = std::min(best, r.least);
    }
    for (Runner& r : *runners) r.hopeless = r.hopeless || (round > 0 && r.least > kHopeless * best);
  }
}

void LogWays(const ComputeRequest& q, const std::vector<Runner>& runners, const std::string& name) {
  std::string extents, times;
  for (const auto& dims : q.input_dims) extents += ' ' + DimsText(dims);
  for (const Runner& r : runners)
    times += fmt::format("; {} {:.1f} us", r.way->name, r.least * 1e6);
  WEFT_LOG(kInfo, "tuned {}{}: {}{}", AttrsText(q.node), extents, name, times);
}

/// The fastest of the ways that work; its name goes to `name`. Null: none works.
std::unique_ptr<LibraryCall> Fastest(const ComputeRequest& q, const std::vector<Way>& ways,
                                     std::string* name) {
  std::vector<Runner> runners;
  for (const Way& w : ways)
    if (auto call = w.make(); call && (runners.empty() || call->scratch_bytes() <= kMostBytes))
      runners.push_back({&w, std::move(call)});
  if (runners.empty()) return nullptr;
  if (runners.size() == 1) {
    *name = runners[0].way->name;
    return std::move(runners[0].call);
  }
  Race(q, &runners);
  size_t best = 0;
  for (size_t i = 1; i < runners.size(); ++i)
    if (runners[i].least < runners[best].least) best = i;
  if (runners[best].least * kGain > runners[0].least) best = 0;
  *name = runners[best].way->name;
  if (GetLogLevel() <= LogLevel::kInfo) LogWays(q, runners, *name);
  return std::move(runners[best].call);
}

const Way* Named(const std::vector<Way>& ways, const std::optional<std::string>& name) {
  const auto it =
      std::find_if(ways.begin(), ways.end(), [&](const Way& w) { return name && w.name == *name; });
  return it == ways.end() ? nullptr : &*it;
}

}  // namespace

std::string TuningKey(const ComputeRequest& q) {
  std::string key = fmt::format("choice {}\ntarget choice\nlibrary {}\nprocessor {}\nthreads {}\n",
                                kTuningVersion, Library(), Processor(), q.threads);
  key += "call " + AttrsText(q.node) + '\n';
  AppendList(&key, "inputs", q.input_dims, [&](const auto& dims, size_t i) {
    const Layout layout = i < q.input_layouts.size() ? q.input_layouts[i] : Layout::kPlain;
    return fmt::format("{}{} {}{}", DTypeName(q.input_types[i]), DimsText(dims), LayoutName(layout),
                       q.constants[i] ? " constant" : "");
  });
  AppendList(&key, "outputs", q.output_dims, [&](const auto& dims, size_t i) {
    const Layout layout = i < q.output_layouts.size() ? q.output_layouts[i] : Layout::kPlain;
    return fmt::format("{}{} {}", DTypeName(q.output_types[i]), DimsText(dims), LayoutName(layout));
  });
  AppendList(&key, "epilogue", q.epilogue, [](const CallStep& s, size_t) {
    return fmt::format("{} {} {}{} {}", AttrsText(s.node), s.slot, DTypeName(s.operand_type),
                       DimsText(s.operand_dims), LayoutName(s.operand_layout));
  });
  return key;
}

std::unique_ptr<LibraryCall> ChooseWay(const ComputeRequest& q, const std::vector<Way>& ways) {
  KernelCache* const cache = Tuner::Cache();
  const auto first = [&]() -> std::unique_ptr<LibraryCall> {
    for (const Way& w : ways)
      if (auto call = w.make()) return call;
    return nullptr;
  };
  if (ways.size() < 2 || !cache) return first();
  const std::string key = TuningKey(q);
  const auto stored = [&]() -> std::unique_ptr<LibraryCall> {
    const Way* known = Named(ways, cache->FindText(key));
    return known ? known->make() : nullptr;
  };
  if (auto call = stored()) return call;
  if (!q.options.tune || AllBytes(q) > kMostBytes) return first();
  static std::mutex one_at_a_time;
  std::lock_guard lock(one_at_a_time);
  if (auto call = stored()) return call;  // another thread has just been here
  try {
    std::string name;
    auto call = Fastest(q, ways, &name);
    if (call) cache->StoreText(key, name);
    return call;
  } catch (const std::bad_alloc&) {
    return first();  // there is no room for a second set of operands
  }
}

}  // namespace weft::cpu
