/// nvrtc.cc: programs, batches and threads around NVRTC.
#include "codegen/cuda/nvrtc.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "codegen/cuda/cubin_info.h"
#include "codegen/cuda/cuda_printer.h"
#include "codegen/cuda/nvrtc_api.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Runs body(0) .. body(count - 1) on up to `threads` threads. `body` must not throw.
template <class F>
void ForEach(size_t count, int threads, const F& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> team;
  for (size_t t = 1; t < std::min(count, size_t(threads)); ++t) {
    try {
      team.emplace_back(work);
    } catch (const std::exception&) {
      break;  // no more threads to be had: fewer do the same work
    }
  }
  work();
  for (std::thread& t : team) t.join();
}

/// Raised when the text or the entries of an unchanged kernel change: binaries of before have others.
constexpr int kPrinterVersion = 2;

/// Leaves 128 registers a thread on all architectures: 65536 by the threads of the largest block.
constexpr int kSpillFreeThreads = 512;

struct ProgramHolder {
  cuda::NvrtcProgram* program = nullptr;
  ~ProgramHolder() {
    if (program != nullptr) cuda::Nvrtc().destroy(&program);
  }
};

std::string FirstLines(const std::string& text, int lines) {
  size_t end = 0;
  for (int i = 0; i < lines && end != std::string::npos; ++i)
    end = text.find('\n', end + (i > 0 ? 1 : 0));
  return end == std::string::npos ? text : text.substr(0, end);
}

}  // namespace

bool NvrtcAvailable(std::string* why) {
  if (why != nullptr) *why = cuda::Nvrtc().error;
  return cuda::Nvrtc().ok();
}

std::vector<int> NvrtcArchitectures() { return cuda::Nvrtc().supported; }

NvrtcCompiler::NvrtcCompiler(int sm, int num_threads) : sm_(sm), num_threads_(num_threads) {
  if (num_threads_ <= 0) num_threads_ = std::clamp(int(std::thread::hardware_concurrency()), 1, 8);
  const std::vector<int>& known = cuda::Nvrtc().supported;
  if (known.empty() || std::find(known.begin(), known.end(), sm) != known.end()) return;
  std::string list;
  for (int k : known) list += fmt::format(" {}", k);
  WEFT_THROW(kUnsupported, "NVRTC {}.{} cannot compile for sm_{}; it knows{}", cuda::Nvrtc().major,
             cuda::Nvrtc().minor, sm, list);
}

std::string NvrtcCompiler::target() const {
  const cuda::NvrtcApi& api = cuda::Nvrtc();
  return api.ok() ? fmt::format("cuda:sm_{}+nvrtc{}.{}+text{}", sm_, api.major, api.minor,
                                kPrinterVersion)
                  : fmt::format("cuda:sm_{}", sm_);
}

std::string NvrtcCompiler::Source(const Kernel& kernel) const { return PrintCuda(kernel); }

std::string NvrtcCompiler::CompileSource(const std::string& source, std::string* error) const {
  const cuda::NvrtcApi& api = cuda::Nvrtc();
  error->clear();
  if (!api.ok()) {
    *error = api.error;
    return {};
  }
  ProgramHolder holder;
  const auto failed = [&](const char* what, int result) {
    *error = fmt::format("{}: {}", what, api.error_string(result));
    return std::string();
  };
  // The file name is part of the output: it is the same for all.
  int result = api.create(&holder.program, source.c_str(), "weft.cu", 0, nullptr, nullptr);
  if (result != 0) return failed("NVRTC cannot create a program", result);
  const std::string architecture = fmt::format("--gpu-architecture=sm_{}", sm_);
  std::vector<const char*> options{
      architecture.c_str(), "--std=c++17",
      // Every operation rounds once, as on all other targets.
      "--fmad=false",
      // Without this the compiler raises the stack limit of the whole process.
      "--modify-stack-limit=false", "--minimal"};
  // From 13.0 on; before that nothing random reaches a cubin.
  if (api.major >= 13) options.push_back("--frandom-seed=weft");
  result = api.compile(holder.program, int(options.size()), options.data());
  if (result != 0) {
    size_t size = 0;
    std::string log;
    if (api.log_size(holder.program, &size) == 0 && size > 1) {
      log.resize(size);
      if (api.log(holder.program, log.data()) != 0) log.clear();
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    *error = fmt::format("NVRTC: {}{}{}", api.error_string(result), log.empty() ? "" : ": ",
                         FirstLines(log, 8));
    return {};
  }
  size_t size = 0;
  result = api.cubin_size(holder.program, &size);
  if (result != 0) return failed("NVRTC gives no cubin", result);
  std::string binary(size, '\0');
  result = api.cubin(holder.program, binary.data());
  return result == 0 ? binary : failed("NVRTC gives no cubin", result);
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
  const size_t batch = distinct.size() >= size_t(kBatchFrom) ? size_t(kBatchSize) : 1;
  const size_t count = (distinct.size() + batch - 1) / batch;
  ForEach(count, num_threads_, [&](size_t b) {
    // Evenly: the last program is not a small one.
    const size_t begin = b * distinct.size() / count, end = (b + 1) * distinct.size() / count;
    const auto compile = [&](size_t from, size_t to, std::string* message) -> std::string {
      try {
        std::vector<KernelPtr> group;
        for (size_t i = from; i < to; ++i) group.push_back(kernels[distinct[i]]);
        return CompileSource(group.size() == 1 ? Source(*group[0]) : PrintCuda(group), message);
      } catch (const std::exception& e) {
        *message = e.what();
        return {};
      }
    };
    if (end - begin > 1) {
      std::string message;
      const std::string binary = compile(begin, end, &message);
      if (!binary.empty()) {
        for (size_t i = begin; i < end; ++i) binaries[distinct[i]] = binary;
        return;
      }
      if (!cuda::Nvrtc().ok()) {
        for (size_t i = begin; i < end; ++i) messages[distinct[i]] = message;
        return;
      }
    }
    for (size_t i = begin; i < end; ++i)
      binaries[distinct[i]] = compile(i, i + 1, &messages[distinct[i]]);
  });
  // For the sake of more threads the compiler may keep a value in memory; then once more, without that.
  std::vector<size_t> spilled;
  for (size_t i : distinct) {
    if (!binaries[i].empty() && Stats(*kernels[i], binaries[i]).spill_bytes > 0)
      spilled.push_back(i);
  }
  ForEach(spilled.size(), num_threads_, [&](size_t s) {
    const size_t i = spilled[s];
    try {
      CudaTuning tuning;
      tuning.min_threads = kSpillFreeThreads;
      std::string message;
      const std::string again = CompileSource(PrintCuda(*kernels[i], tuning), &message);
      if (!again.empty() &&
          Stats(*kernels[i], again).spill_bytes < Stats(*kernels[i], binaries[i]).spill_bytes)
        binaries[i] = again;
    } catch (const std::exception&) {
      return;  // what there is does its work
    }
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
  for (const std::string& entry : CudaEntries(kernel)) {
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
