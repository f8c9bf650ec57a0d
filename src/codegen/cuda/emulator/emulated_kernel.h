/// emulated_kernel.h: a kernel's launches on the emulator, as the contract in print/printer.h has
/// them; for tests only.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/print/printer.h"
#include "emulator.h"
#include "guarded_memory.h"

namespace weft::cuda {

inline size_t ElementBytes(DType t) { return t == DType::kBool ? 1 : size_t(DTypeBits(t)) / 8; }

struct EmulatedRun {
  GuardedMemory::Place place = GuardedMemory::Place::kFront;
  uint64_t seed = 0;
  int multiprocessors = 1;  ///< few of them: blocks take several items each
};

/// Guarded memory by address and bytes of what it is a copy of.
using Copies = std::map<std::pair<const void*, size_t>, void*>;

/// Operands of a kernel copied into guarded memory and back. Equal addresses stay equal.
class GuardedOperands {
 public:
  /// `shared`: copies of those that share the launch.
  GuardedOperands(GuardedMemory* memory, const Kernel& kernel, const std::vector<void*>& buffers,
                  const std::vector<int64_t>& dims, GuardedMemory::Place place,
                  Copies* shared = nullptr)
      : kernel_(kernel), buffers_(buffers) {
    SymBindings bindings;
    for (size_t k = 0; k < dims.size(); ++k) bindings[KernelSymbol(int(k)).symbol_name()] = dims[k];
    Copies own;
    Copies& known = shared != nullptr ? *shared : own;
    for (size_t b = 0; b < kernel.buffers.size(); ++b) {
      const size_t element = ElementBytes(kernel.buffers[b].dtype);
      bytes_.push_back(size_t(Evaluate(kernel.buffers[b].num_elements, bindings)) * element);
      void*& copy = known[{buffers[b], bytes_[b]}];
      made_.push_back(copy == nullptr || bytes_[b] == 0);
      if (made_[b]) copy = memory->Get(bytes_[b], element, place);
      guarded.push_back(reinterpret_cast<uint64_t>(copy));
      const bool flag = kernel.has_flag() && b + 1 == kernel.buffers.size();
      if ((!kernel.buffers[b].is_output || flag) && bytes_[b] > 0)
        std::memcpy(copy, buffers[b], bytes_[b]);
    }
  }
  /// Copies outputs back; empty, or which input was written.
  std::string Finish() const {
    for (size_t b = 0; b < buffers_.size(); ++b) {
      const void* copy = reinterpret_cast<const void*>(guarded[b]);
      if (bytes_[b] == 0) continue;
      if (kernel_.buffers[b].is_output) {
        // An output that lies on an input was copied by that one.
        const auto first = std::find(buffers_.begin(), buffers_.end(), buffers_[b]);
        if (!made_[size_t(first - buffers_.begin())]) continue;
        std::memcpy(buffers_[b], copy, bytes_[b]);
        continue;
      }
      bool shared = false;
      for (size_t o = 0; o < buffers_.size(); ++o)
        shared = shared || (kernel_.buffers[o].is_output && buffers_[o] == buffers_[b]);
      if (!shared && std::memcmp(buffers_[b], copy, bytes_[b]) != 0)
        return kernel_.Name() + ": input " + std::to_string(b) + " was written";
    }
    return {};
  }

  std::vector<uint64_t> guarded;

 private:
  const Kernel& kernel_;
  std::vector<void*> buffers_;
  std::vector<size_t> bytes_;
  std::vector<bool> made_;  ///< the copy was
};

inline GuardedMemory& KernelMemory() {
  static auto* memory = new GuardedMemory;
  memory->Release();
  return *memory;
}

/// Runs all launches of the kernel's plan. Empty, or what went wrong. `entries`: counts launches by
/// what follows the kernel's name in that of the entry.
inline std::string RunEmulated(const EmulatedLibrary& library, const Kernel& kernel,
                               const CudaSchedule& schedule, const std::vector<void*>& buffers,
                               const std::vector<int64_t>& dims, const EmulatedRun& run,
                               std::map<std::string, int64_t>* entries = nullptr) {
  GuardedMemory& memory = KernelMemory();
  const GuardedOperands operands(&memory, kernel, buffers, dims, run.place);
  const CudaPlan plan = schedule.Plan(dims, run.multiprocessors);
  void* workspace = memory.Get(size_t(plan.workspace_bytes), 16, GuardedMemory::Place::kBack);
  std::vector<uint64_t> common = operands.guarded;
  if (schedule.has_table()) {
    const std::vector<uint64_t> words = schedule.Table(operands.guarded, dims);
    void* table = memory.Get(words.size() * 8, 8, GuardedMemory::Place::kBack);
    std::memcpy(table, words.data(), words.size() * 8);
    common = {reinterpret_cast<uint64_t>(table)};
  } else {
    for (int64_t d : dims) common.push_back(uint64_t(d));
  }
  for (const CudaLaunch& l : plan.launches) {
    const EmulatedEntry* entry = library.Find(l.entry);
    if (entry == nullptr) return "there is no entry " + l.entry;
    std::vector<uint64_t> arguments = common;
    arguments.push_back(uint64_t(plan.total));
    arguments.insert(arguments.end(), l.tail.begin(), l.tail.end());
    if (l.workspace) arguments.push_back(reinterpret_cast<uint64_t>(workspace));
    const std::string problem =
        entry->Launch({{l.grid_x, l.grid_y}, {l.block}, l.shared_bytes, run.seed}, arguments);
    if (!problem.empty()) return problem;
    if (entries != nullptr) ++(*entries)[l.entry.substr(kernel.Name().size())];
  }
  if (std::string damage = memory.Damage(); !damage.empty()) return kernel.Name() + ": " + damage;
  return operands.Finish();
}

/// Operands of a part on the host.
struct HostPart {
  std::vector<void*> buffers;
  std::vector<int64_t> dims;
};

/// The same for many parts in one launch, or as few as hold them.
inline std::string RunEmulatedMulti(const EmulatedLibrary& library, const Kernel& kernel,
                                    const CudaSchedule& schedule,
                                    const std::vector<HostPart>& parts, const EmulatedRun& run,
                                    std::map<std::string, int64_t>* entries = nullptr) {
  GuardedMemory& memory = KernelMemory();
  std::vector<GuardedOperands> operands;
  std::vector<CudaPart> on_device;
  Copies copies;
  for (const HostPart& p : parts) {
    operands.emplace_back(&memory, kernel, p.buffers, p.dims, run.place, &copies);
    on_device.push_back({operands.back().guarded, p.dims});
  }
  for (const CudaMultiLaunch& l : schedule.PlanMulti(on_device, run.multiprocessors)) {
    const EmulatedEntry* entry = library.Find(l.entry);
    if (entry == nullptr) return "there is no entry " + l.entry;
    std::vector<uint64_t> table(l.table.size() / 8);
    std::memcpy(table.data(), l.table.data(), l.table.size());
    const std::string problem = entry->Launch({{l.grid_x}, {l.block}, 0, run.seed},
                                              {reinterpret_cast<uint64_t>(table.data())});
    if (!problem.empty()) return problem;
    if (entries != nullptr) ++(*entries)[l.entry.substr(kernel.Name().size())];
  }
  if (std::string damage = memory.Damage(); !damage.empty()) return kernel.Name() + ": " + damage;
  for (const GuardedOperands& o : operands) {
    if (std::string problem = o.Finish(); !problem.empty()) return problem;
  }
  return {};
}

}  // namespace weft::cuda
