/// emulator.cc: the threads of a block as fibers, and who of them goes on next.
#include "emulator.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "fiber.h"
#include "guarded_memory.h"
#include "weft/support/check.h"

namespace weft::cuda {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr size_t kMaxParameters = 32764;  ///< bytes
constexpr size_t kMaxMasks = 64;          ///< different ones that a warp uses
constexpr size_t kStackBytes = 64 << 10, kPage = 4096;

/// As the prelude declares it.
struct Machine {
  EmuDim thread_idx, block_idx, block_dim, grid_dim;
  unsigned char* dynamic_shared = nullptr;
  void (*sync_threads)(int) = nullptr;
  const uint64_t* (*exchange)(unsigned, int, uint64_t) = nullptr;
  void (*fail)(const char*, int) = nullptr;
};

/// Where threads meet: those of a block, or the lanes of a mask.
struct Barrier {
  unsigned mask = 0, arrived = 0, generation = 0;
  int site = 0;
  std::vector<unsigned> waiting;
  uint64_t slots[2][32];  ///< of even and odd meetings: no lane is two ahead of another
};

/// xorshift64*
struct Random {
  uint64_t state;
  uint64_t Next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
  }
  size_t Below(size_t n) { return size_t((Next() >> 33) % n); }
};

class Scheduler {
 public:
  static Scheduler& Get() {
    static auto* s = new Scheduler;
    return *s;
  }

  Machine machine;

  std::string Run(const EmulatedEntry& entry, const EmulatedLaunch& launch,
                  const std::vector<uint64_t>& arguments) {
    const EmuDim g = launch.grid, b = launch.block;
    const uint64_t threads = uint64_t{b.x} * b.y * b.z, blocks = uint64_t{g.x} * g.y * g.z;
    if (threads == 0 || threads > entry.max_threads || threads > kMaxThreads)
      return fmt::format("{}: {} threads a block, at most {} may be", entry.name, threads,
                         entry.max_threads);
    if (blocks == 0 || g.y > 65535 || g.z > 65535 || g.x > 0x7fffffffu)
      return fmt::format("{}: a grid of {} x {} x {}", entry.name, g.x, g.y, g.z);
    const size_t parameters =
        std::accumulate(entry.parameter_bytes.begin(), entry.parameter_bytes.end(), size_t{0});
    if (parameters > kMaxParameters)
      return fmt::format("{}: {} bytes of parameters", entry.name, parameters);
    if (launch.shared_bytes > 227 * 1024)
      return fmt::format("{}: {} bytes of shared memory", entry.name, launch.shared_bytes);
    random_.state = launch.seed * 0x9e3779b97f4a7c15ull + 88172645463325252ull;
    order_ = launch.seed;
    entry_ = &entry;
    arguments_ = arguments.data();
    failure_.clear();
    warps_.clear();
    warps_.resize(size_t(threads + 31) / 32);
    machine.block_dim = b;
    machine.grid_dim = g;
    shared_.Release();
    machine.dynamic_shared = static_cast<unsigned char*>(
        shared_.Get(launch.shared_bytes, 16, GuardedMemory::Place::kBack));
    Garbage(entry.shared_begin, entry.shared_end);
    Garbage(machine.dynamic_shared, machine.dynamic_shared + launch.shared_bytes);
    const FaultScope faults;
    std::vector<uint64_t> line(order_ > 1 ? size_t(blocks) : 0);
    std::iota(line.begin(), line.end(), uint64_t{0});
    for (uint64_t k = 0; k < blocks && failure_.empty(); ++k) {
      uint64_t at = order_ == 1 ? blocks - 1 - k : k;
      if (order_ > 1) {
        std::swap(line[size_t(k)], line[size_t(k) + random_.Below(size_t(blocks - k))]);
        at = line[size_t(k)];
      }
      machine.block_idx = {unsigned(at % g.x), unsigned(at / g.x % g.y), unsigned(at / g.x / g.y)};
      TryBlock(unsigned(threads));
    }
    if (failure_.empty()) failure_ = shared_.Damage();
    return failure_.empty() ? failure_ : entry.name + ": " + failure_;
  }

 private:
  Scheduler() : fibers_(kMaxThreads) {
    stacks_ =
        static_cast<unsigned char*>(mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    WEFT_CHECK(stacks_ != MAP_FAILED, kOutOfMemory, "stacks of emulated threads");
    for (unsigned t = 0; t < kMaxThreads; ++t)
      mprotect(stacks_ + t * kStackBytes, kPage, PROT_NONE);
    machine.sync_threads = [](int site) { Get().SyncThreads(site); };
    machine.exchange = [](unsigned mask, int site, uint64_t mine) {
      return Get().Exchange(mask, site, mine);
    };
    machine.fail = [](const char* what, int site) { Get().Fail(what, site); };
  }

  /// Signals of faults end the launch while one of these lives.
  class FaultScope {
   public:
    FaultScope() {
      static auto* stack = new unsigned char[64 << 10];
      stack_t own{};
      own.ss_sp = stack;
      own.ss_size = 64 << 10;
      sigaltstack(&own, &before_stack_);
      struct sigaction action {};
      action.sa_sigaction = [](int number, siginfo_t* info, void*) { Get().Fault(number, info); };
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before_[i]);
    }
    ~FaultScope() {
      for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
      sigaltstack(&before_stack_, nullptr);
    }

   private:
    static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction before_[4];
    stack_t before_stack_;
  };

  void Fault(int number, siginfo_t* info) {
    const std::string where = fmt::format(
        "thread ({}, {}, {}) of block ({}, {}, {})", machine.thread_idx.x, machine.thread_idx.y,
        machine.thread_idx.z, machine.block_idx.x, machine.block_idx.y, machine.block_idx.z);
    if (number == SIGILL)
      failure_ = where +
                 ": a misaligned access, an index outside of an array, an overflow or a division "
                 "by zero";
    else
      failure_ = fmt::format("{}: signal {}, access to {}: {}", where, number,
                             fmt::ptr(info->si_addr), GuardedMemory::Describe(info->si_addr));
    siglongjmp(fault_, 1);
  }

  void Garbage(unsigned char* from, const unsigned char* to) {
    // A pattern that is no small integer and no ordinary float.
    if (from != nullptr) std::memset(from, order_ % 2 ? 0xff : 0xcd, size_t(to - from));
  }

  static void FiberMain() {
    Scheduler& s = Get();
    s.entry_->run(s.arguments_);
    s.ended_ = true;
    SwitchFiber(&s.fibers_[s.current_], &s.main_);
    std::abort();  // does not return
  }

  /// A fault comes back here. By itself, for locals do not survive that.
  __attribute__((noinline)) void TryBlock(unsigned threads) {
    if (sigsetjmp(fault_, 0) == 0) RunBlock(threads);
  }

  __attribute__((noinline)) void RunBlock(unsigned threads) {
    threads_ = threads;
    block_.arrived = 0;
    block_.waiting.clear();
    for (auto& warp : warps_) {
      for (Barrier& b : warp) {
        b.arrived = 0;
        b.waiting.clear();
      }
    }
    ready_.clear();
    round_.clear();
    released_ = true;
    for (unsigned t = 0; t < threads; ++t) {
      // Not all tops in one set of the cache.
      unsigned char* top = stacks_ + (t + 1) * kStackBytes - t % 61 * 64;
      MakeFiber(&fibers_[t], top, kStackBytes - kPage - t % 61 * 64, FiberMain);
      ready_.push_back(t);
    }
    unsigned ended = 0;
    while (!ready_.empty()) {
      if (order_ % 2 == 1) {
        // One warp as far as it can go, while the others have not begun: whoever became ready last.
        if (order_ > 1 && released_) Shuffle();
        released_ = false;
        current_ = ready_.back();
        ready_.pop_back();
        ended += Resume();
        if (!failure_.empty()) return;
        continue;
      }
      // A round, in which every thread goes one step.
      if (order_ > 1) Shuffle();
      round_.swap(ready_);
      for (unsigned t : round_) {
        current_ = t;
        ended += Resume();
        if (!failure_.empty()) return;
      }
      round_.clear();
    }
    if (ended == threads) return;
    failure_ = fmt::format("{} of {} threads of block ({}, {}, {}) wait for ever", threads - ended,
                           threads, machine.block_idx.x, machine.block_idx.y, machine.block_idx.z);
    if (block_.arrived > 0)
      failure_ += fmt::format("; {} at the barrier in line {}", block_.arrived, block_.site);
    for (const auto& warp : warps_) {
      for (const Barrier& b : warp) {
        if (b.arrived > 0)
          failure_ += fmt::format("; {} of the lanes {:#x} in line {}", b.arrived, b.mask, b.site);
      }
    }
  }

  void Shuffle() {
    for (size_t i = ready_.size(); i-- > 1;) std::swap(ready_[i], ready_[random_.Below(i + 1)]);
  }

  /// 1 when the thread has ended.
  unsigned Resume() {
    const EmuDim b = machine.block_dim;
    machine.thread_idx = {current_ % b.x, current_ / b.x % b.y, current_ / b.x / b.y};
    ended_ = false;
    SwitchFiber(&main_, &fibers_[current_]);
    return ended_ ? 1 : 0;
  }

  void Fail(const char* what, int site) {
    failure_ = fmt::format("{} (line {})", what, site);
    SwitchFiber(&fibers_[current_], &main_);
  }

  /// Returns when `count` threads have come.
  void Meet(Barrier* b, unsigned count, int site) {
    if (b->arrived > 0 && b->site != site)
      return Fail(fmt::format("threads that wait for each other are at different calls, one in "
                              "line {}",
                              b->site)
                      .c_str(),
                  site);
    b->site = site;
    if (++b->arrived == count) {
      b->arrived = 0;
      ++b->generation;
      ready_.insert(ready_.end(), b->waiting.begin(), b->waiting.end());
      b->waiting.clear();
      // The last one is no faster than the others.
      ready_.push_back(current_);
      released_ = count == threads_;
    } else {
      b->waiting.push_back(current_);
    }
    SwitchFiber(&fibers_[current_], &main_);
  }

  void SyncThreads(int site) { Meet(&block_, threads_, site); }

  const uint64_t* Exchange(unsigned mask, int site, uint64_t mine) {
    const unsigned lane = current_ % 32, warp = current_ / 32;
    if (!(mask >> lane & 1)) Fail("a lane is not in its own mask", site);
    const unsigned present = std::min(threads_ - warp * 32, 32u);
    if (present < 32 && mask >> present)
      Fail("a mask has lanes that the block does not have", site);
    auto& barriers = warps_[warp];
    size_t at = 0;
    while (at < barriers.size() && barriers[at].mask != mask) ++at;
    if (at == barriers.size()) {
      barriers.reserve(kMaxMasks);  // others wait inside of them
      WEFT_ICHECK(at < kMaxMasks, "too many masks in a warp");
      barriers.emplace_back();
      barriers[at].mask = mask;
    }
    Barrier* b = &barriers[at];
    uint64_t* slots = b->slots[b->generation % 2];
    slots[lane] = mine;
    Meet(b, unsigned(__builtin_popcount(mask)), site);
    return slots;
  }

  Random random_{1};
  uint64_t order_ = 0;
  const EmulatedEntry* entry_ = nullptr;
  const uint64_t* arguments_ = nullptr;
  unsigned char* stacks_ = nullptr;
  std::vector<Fiber> fibers_;
  Fiber main_;
  std::vector<unsigned> ready_, round_;
  unsigned current_ = 0, threads_ = 0;
  bool ended_ = false, released_ = true;
  Barrier block_;
  std::vector<std::vector<Barrier>> warps_;
  GuardedMemory shared_;
  sigjmp_buf fault_;
  std::string failure_;
};

}  // namespace

std::string EmulatedEntry::Launch(const EmulatedLaunch& launch,
                                  const std::vector<uint64_t>& arguments) const {
  return Scheduler::Get().Run(*this, launch, arguments);
}

void* EmulatedMachine() { return &Scheduler::Get().machine; }

}  // namespace weft::cuda
