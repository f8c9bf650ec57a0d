/// nvrtc.cc: programs, batches and threads around NVRTC.
#include "nvrtc.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <thread>

#include "codegen/cuda/print/printer.h"
#include "cubin_info.h"
#include "nvrtc_api.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"
#include "weft/support/parallel_for.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Raised when the text or the entries of an unchanged kernel change: binaries
/// of before have others.
constexpr int kPrinterVersion = 6;

/// Leaves 128 registers a thread on all architectures: 65536 by the threads of the largest block.
constexpr int kSpillFreeThreads = 512;

constexpr int kInvalidOption = 5;  // NVRTC_ERROR_INVALID_OPTION

struct ProgramHolder {
  const cuda::NvrtcApi& api;
  cuda::NvrtcProgram* program = nullptr;
  ~ProgramHolder() { Drop(); }
  void Drop() {
    if (program != nullptr) api.destroy(&program);
    program = nullptr;
  }
};

std::string FirstLines(const std::string& text, int lines) {
  size_t end = 0;
  for (int i = 0; i < lines && end != std::string::npos; ++i)
    end = text.find('\n', end + (i > 0 ? 1 : 0));
  return end == std::string::npos ? text : text.substr(0, end);
}

std::string LowerCase(std::string s) {
  for (char& c : s) c = char(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

/// Which kernels share a program: rows, then the others, evenly.
std::vector<std::vector<size_t>> Programs(const std::vector<KernelPtr>& kernels,
                                          const std::vector<size_t>& distinct) {
  const bool together = distinct.size() >= size_t(NvrtcCompiler::kBatchFrom);
  std::vector<std::vector<size_t>> programs;
  for (const bool rows : {true, false}) {
    std::vector<size_t> own;
    for (size_t i : distinct)
      if (kernels[i]->has_rows() == rows) own.push_back(i);
    const int size = !together ? 1
                     : rows    ? NvrtcCompiler::kRowBatchSize
                               : NvrtcCompiler::kBatchSize;
    const size_t count = (own.size() + size_t(size) - 1) / size_t(size);
    for (size_t p = 0; p < count; ++p)
      programs.emplace_back(own.begin() + std::ptrdiff_t(p * own.size() / count),
                            own.begin() + std::ptrdiff_t((p + 1) * own.size() / count));
  }
  return programs;
}

/// Does an error in the log name the kernel, or a line of it?
bool IsAccused(const std::string& name, const std::string& log) {
  for (const std::string& line : Split(log, '\n'))
    if (line.find(name) != std::string::npos && LowerCase(line).find("error") != std::string::npos)
      return true;
  return false;
}

}  // namespace

bool NvrtcAvailable(std::string* why) {
  if (why != nullptr) *why = cuda::Nvrtc().error;
  return cuda::Nvrtc().ok();
}

std::vector<int> NvrtcArchitectures() { return cuda::Nvrtc().supported; }

NvrtcCompiler::NvrtcCompiler(int sm, int num_threads)
    : NvrtcCompiler(sm, num_threads, cuda::Nvrtc(sm)) {}

NvrtcCompiler::NvrtcCompiler(int sm, int num_threads, const cuda::NvrtcApi& api)
    : sm_(sm), num_threads_(num_threads), api_(api) {
  if (num_threads_ <= 0) num_threads_ = std::clamp(int(std::thread::hardware_concurrency()), 1, 8);
  WEFT_CHECK(sm >= kLeastArchitecture, kUnsupported,
             "generated kernels need a GPU of sm_{} or newer, not sm_{}", kLeastArchitecture, sm);
  const std::vector<int>& known = api_.supported;
  if (known.empty() || std::find(known.begin(), known.end(), sm) != known.end()) return;
  for (int k : known)
    if (k < sm) virtual_ = std::max(virtual_, k);
  if (virtual_ >= kLeastArchitecture) return;
  std::string list;
  for (int k : known) list += fmt::format(" {}", k);
  WEFT_THROW(kUnsupported, "NVRTC {}.{} cannot compile for sm_{}; it knows{}", api_.major,
             api_.minor, sm, list);
}

std::vector<std::string> NvrtcCompiler::Options() const {
  return {fmt::format("--gpu-architecture={}_{}", virtual_ ? "compute" : "sm",
                      virtual_ ? virtual_ : sm_),
          "--std=c++17",
          // Every operation rounds once, as on all other targets.
          "--fmad=false"};
}

std::vector<std::string> NvrtcCompiler::OptionalOptions() const {
  // Without this the compiler raises the stack limit of the whole process.
  std::vector<std::string> options{"--modify-stack-limit=false"};
  if (api_.AtLeast(12, 4)) options.push_back("--minimal");
  // Before 13.0 nothing random reaches a cubin.
  if (api_.AtLeast(13, 0)) options.push_back("--frandom-seed=weft");
  return options;
}

CudaTuning NvrtcCompiler::Tuning() const {
  CudaTuning tuning;
  if (api_.ok() && !api_.AtLeast(12, 1)) tuning.parameter_bytes = kLeastParameterBytes;
  return tuning;
}

std::string NvrtcCompiler::target() const {
  if (!api_.ok()) return fmt::format("cuda:sm_{}", sm_);
  const std::string options = Join(Options(), " ") + " " + Join(OptionalOptions(), " ");
  return fmt::format("cuda:sm_{}+nvrtc{}.{}+text{}+options{:08x}", sm_, api_.major, api_.minor,
                     kPrinterVersion, uint32_t(HashBytes(options.data(), options.size()).lo));
}

std::string NvrtcCompiler::WhyUnavailable() const { return api_.error; }

std::string NvrtcCompiler::Source(const Kernel& kernel) const {
  return PrintCuda(kernel, Tuning());
}

std::string NvrtcCompiler::Program(const std::vector<KernelPtr>& kernels) const {
  return PrintCuda(kernels, Tuning());
}

std::string NvrtcCompiler::CompileSource(const std::string& source, std::string* error) const {
  Outcome made = Run(source);
  *error = std::move(made.error);
  return std::move(made.binary);
}

NvrtcCompiler::Outcome NvrtcCompiler::Run(const std::string& source) const {
  const cuda::NvrtcApi& api = api_;
  Outcome out;
  if (!api.ok()) {
    out.error = api.error;
    return out;
  }
  ProgramHolder holder{api};
  const auto failed = [&](const char* what, int result) {
    out.binary.clear();
    out.error = fmt::format("{}: {}", what, api.error_string(result));
    return out;
  };
  int result = 0;
  const auto create = [&] {
    holder.Drop();
    // The file name is part of the output: it is the same for all.
    result = api.create(&holder.program, source.c_str(), "weft.cu", 0, nullptr, nullptr);
    return result == 0;
  };
  const auto compile = [&](bool all) {
    std::vector<std::string> own = Options();
    if (all)
      for (std::string& o : OptionalOptions()) own.push_back(std::move(o));
    std::vector<const char*> options;
    for (const std::string& o : own) options.push_back(o.c_str());
    result = api.compile(holder.program, int(options.size()), options.data());
  };
  if (!create()) return failed("NVRTC cannot create a program", result);
  compile(!refuses_optional_);
  if (result == kInvalidOption && !refuses_optional_) {
    if (!create()) return failed("NVRTC cannot create a program", result);
    compile(false);
    refuses_optional_ = result != kInvalidOption;
  }
  if (result != 0) {
    size_t size = 0;
    std::string& log = out.log;
    if (api.log_size(holder.program, &size) == 0 && size > 1) {
      log.resize(size);
      if (api.log(holder.program, log.data()) != 0) log.clear();
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    out.error = fmt::format("NVRTC: {}{}{}", api.error_string(result), log.empty() ? "" : ": ",
                            FirstLines(log, 8));
    return out;
  }
  size_t size = 0;
  result = virtual_ ? api.ptx_size(holder.program, &size) : api.cubin_size(holder.program, &size);
  if (result != 0) return failed("NVRTC gives no code", result);
  out.binary.resize(size);
  result = virtual_ ? api.ptx(holder.program, out.binary.data())
                    : api.cubin(holder.program, out.binary.data());
  // The size of PTX counts the 0 at its end, which a string has anyway.
  if (virtual_ && !out.binary.empty() && out.binary.back() == '\0') out.binary.pop_back();
  return result == 0 ? out : failed("NVRTC gives no code", result);
}

void NvrtcCompiler::CompileProgram(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>* binaries,
                                   std::vector<std::string>* messages) const {
  const auto compile = [&](const std::vector<size_t>& group) -> Outcome {
    std::vector<KernelPtr> together;
    for (size_t i : group) together.push_back(kernels[i]);
    try {
      return Run(Program(together));
    } catch (const std::exception& e) {
      return {"", e.what(), ""};
    }
  };
  std::vector<size_t> rest(kernels.size()), alone;
  std::iota(rest.begin(), rest.end(), size_t{0});
  while (rest.size() > 1) {
    const Outcome made = compile(rest);
    if (!made.binary.empty()) {
      for (size_t i : rest) (*binaries)[i] = made.binary;
      rest.clear();
      break;
    }
    // Once more without those that the compiler names. One mistake may make it complain about
    // others: those are tried alone.
    const auto innocent = std::stable_partition(rest.begin(), rest.end(), [&](size_t i) {
      return !IsAccused(kernels[i]->Name(), made.log);
    });
    if (innocent == rest.end()) break;
    alone.insert(alone.end(), innocent, rest.end());
    rest.erase(innocent, rest.end());
  }
  alone.insert(alone.end(), rest.begin(), rest.end());
  for (size_t i : alone) {
    Outcome made = compile({i});
    (*binaries)[i] = std::move(made.binary);
    (*messages)[i] = std::move(made.error);
  }
}

std::vector<std::string> NvrtcCompiler::Compile(const std::vector<KernelPtr>& kernels,
                                                std::vector<std::string>* errors) {
  std::vector<std::string> binaries(kernels.size()), messages(kernels.size());
  // Equal kernels once, in order of first appearance.
  std::vector<size_t> distinct;
  std::vector<size_t> same_as(kernels.size());
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto [it, fresh] = first.emplace(kernels[i]->Name(), i);
    same_as[i] = it->second;
    if (fresh) distinct.push_back(i);
  }
  // Those that take long first, so that the threads end together.
  const std::vector<std::vector<size_t>> programs = Programs(kernels, distinct);
  ParallelFor(programs.size(), num_threads_, [&](size_t p) {
    std::vector<KernelPtr> group;
    for (size_t i : programs[p]) group.push_back(kernels[i]);
    std::vector<std::string> made(group.size()), said(group.size());
    CompileProgram(group, &made, &said);
    for (size_t k = 0; k < group.size(); ++k) {
      binaries[programs[p][k]] = std::move(made[k]);
      messages[programs[p][k]] = std::move(said[k]);
    }
  });
  // For the sake of more threads the compiler may keep a value in memory; then
  // once more, without that.
  std::vector<size_t> spilled;
  for (size_t i : distinct) {
    if (!binaries[i].empty() && Stats(*kernels[i], binaries[i]).spill_bytes > 0)
      spilled.push_back(i);
  }
  ParallelFor(spilled.size(), num_threads_, [&](size_t s) {
    const size_t i = spilled[s];
    int bytes = Stats(*kernels[i], binaries[i]).spill_bytes;
    try {
      CudaTuning tuning = Tuning();
      tuning.min_threads = kSpillFreeThreads;
      const Outcome again = Run(PrintCuda(*kernels[i], tuning));
      const int less = again.binary.empty() ? bytes : Stats(*kernels[i], again.binary).spill_bytes;
      if (less < bytes) {
        binaries[i] = again.binary;
        bytes = less;
      }
    } catch (const std::exception&) {
      // What there is does its work.
    }
    if (bytes > 0)
      messages[i] = fmt::format(
          "every thread keeps {} bytes in memory that registers had no room for", bytes);
  });
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (same_as[i] == i) continue;
    binaries[i] = binaries[same_as[i]];
    messages[i] = messages[same_as[i]];
  }
  if (errors != nullptr) *errors = std::move(messages);
  return binaries;
}

KernelStats NvrtcCompiler::Stats(const Kernel& kernel, const std::string& binary) const {
  KernelStats stats;
  stats.name = kernel.Name();
  stats.source_bytes = int64_t(Source(kernel).size());
  stats.binary_bytes = int64_t(binary.size());
  for (const std::string& entry : CudaEntries(kernel, Tuning())) {
    const cuda::CubinInfo info = cuda::ReadCubin(binary, entry);
    stats.registers = std::max(stats.registers, info.registers);
    stats.spill_bytes = std::max(stats.spill_bytes, info.local_bytes);
  }
  return stats;
}

std::unique_ptr<KernelCompiler> MakeNvrtcCompiler(int sm) {
  return std::make_unique<NvrtcCompiler>(sm);
}

}  // namespace weft
