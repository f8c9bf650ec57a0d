/// emulator.h: runs CUDA kernels on the CPU, thread by thread, so that their meaning is tested on
/// machines without a GPU; for tests only.
///
/// A source is compiled by the host's C++ compiler behind a prelude (emulation_prelude.h). The
/// threads of a block are fibers that change places at barriers and shuffles; blocks run one
/// after the other. What a GPU leaves open is drawn from a seed: which thread goes on next, the
/// order of the blocks, what shared memory holds at the start. So a barrier that is missing shows
/// as a wrong result under some seed. Found at once, with a message, are: barriers that not all
/// threads of a block reach, threads that meet at different barriers, shuffles from lanes that
/// take no part, more threads than `__launch_bounds__`, accesses beyond guarded memory
/// (guarded_memory.h), misaligned vector accesses, indices outside of shared and local arrays,
/// signed overflow, division by zero.
///
/// Not emulated: blocks that wait for each other, and the order in which other blocks see writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::cuda {

struct EmuDim {
  unsigned x = 1, y = 1, z = 1;
};

struct EmulatedLaunch {
  EmuDim grid, block;
  unsigned shared_bytes = 0;  ///< dynamic shared memory
  /// Order of threads and blocks. 0: ascending, every thread one step at a time. 1: descending, one
  /// warp as far as it can go before the next. Others: random; even ones step by step, odd
  /// ones warp after warp.
  uint64_t seed = 2;
};

/// One `__global__` function of a compiled source.
struct EmulatedEntry {
  std::string name;
  void (*run)(const uint64_t* arguments) = nullptr;
  unsigned max_threads = 1024;               ///< its __launch_bounds__
  std::vector<size_t> parameter_bytes = {};  ///< 8, or those of a structure
  unsigned char *shared_begin = nullptr, *shared_end = nullptr;

  /// Runs a grid; empty, or what went wrong. `arguments`: one word a parameter: a pointer, an
  /// integer, or the address of a structure that is passed by value.
  std::string Launch(const EmulatedLaunch& launch, const std::vector<uint64_t>& arguments) const;
};

/// Sources compiled for the emulator, one translation unit each, in a few processes at a time.
/// Results are kept in $WEFT_BUILD_DIR/cuda_emulation (else in the folder for temporary files)
/// under a hash of text and command, so that a second run compiles nothing.
class EmulatedLibrary {
 public:
  /// Null, with the reason in `*why`, where this machine has no compiler. A source that does not
  /// compile is a failure of the test: its log is in `*why`, and WEFT_KEEP_SOURCES keeps the text.
  static std::unique_ptr<EmulatedLibrary> Build(const std::vector<std::string>& sources,
                                                std::string* why);
  /// Null where no source has it.
  const EmulatedEntry* Find(const std::string& name) const;
  /// Takes in the entries of another one.
  void Add(const EmulatedLibrary& other) {
    entries_.insert(other.entries_.begin(), other.entries_.end());
  }
  int units_compiled() const { return compiled_; }
  /// The machine has the compiler.
  static bool CanCompile();

 private:
  std::map<std::string, EmulatedEntry> entries_;
  int compiled_ = 0;
};

}  // namespace weft::cuda
