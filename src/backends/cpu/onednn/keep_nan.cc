/// keep_nan.cc: the flag Invalid of a team's threads, and calls done again where it is set.
#include "keep_nan.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "backends/cpu/util/for_pieces.h"
#include "backends/cpu/util/team_rest.h"
#include "backends/cpu/util/threads.h"
#include "weft/runtime/backend/run_again.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kAloneFloats = 16384;  // that a second thread is not worth waking for
constexpr int64_t kPieceFloats = 4096;

#if defined(__x86_64__)
constexpr unsigned kInvalid = 1;
bool TakeOwn() {
  const unsigned state = _mm_getcsr();
  if (!(state & kInvalid)) return false;
  _mm_setcsr(state & ~kInvalid);
  return true;
}
void Raise() { _mm_setcsr(_mm_getcsr() | kInvalid); }
#else
bool TakeOwn() { return true; }
void Raise() {}
#endif

thread_local NanWatch* watching = nullptr;
/// Does the loader take our GOMP_parallel for oneDNN's? NanKeeper::Learn finds out.
bool regions_come_by = false;

/// Has any thread of the team the flag? Clears it. True as well where not all of the
/// team can be asked.
bool TakeInvalid(int threads) {
#ifdef _OPENMP
  if (threads == 1 || omp_in_parallel()) return TakeOwn();
  std::atomic<bool> any{false};
#pragma omp parallel num_threads(threads)
  {
    if (TakeOwn() || omp_get_num_threads() < threads) any.store(true, std::memory_order_relaxed);
  }
  return any.load(std::memory_order_relaxed);
#else
  (void)threads;
  return TakeOwn();
#endif
}

bool AllFinite(const float* v, int64_t n) {
  const int64_t pieces = (n + kPieceFloats - 1) / kPieceFloats;
  uint32_t other = 0;
#pragma omp parallel for schedule(static) reduction(| : other) if (n > kAloneFloats)
  for (int64_t p = 0; p < pieces; ++p) {
    const float* from = v + p * kPieceFloats;
    const int64_t count = std::min(kPieceFloats, n - p * kPieceFloats);
    uint32_t mine = 0;
#pragma omp simd reduction(| : mine)
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, from + i, sizeof(bits));
      mine |= (bits & 0x7f800000u) + 0x00800000u;  // the sign: an exponent of ones
    }
    other |= mine;
  }
  return (other >> 31) == 0;
}

// The second operand of a maximum or a minimum is what a NaN gives.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) void BoundWide(float* v, int64_t n, float low, float high) {
  const __m512 l = _mm512_set1_ps(low), h = _mm512_set1_ps(high);
  for (int64_t i = 0; i < n; i += 16) {
    const auto mask = __mmask16(n - i >= 16 ? 0xffff : (1u << (n - i)) - 1);
    const __m512 x = _mm512_maskz_loadu_ps(mask, v + i);
    _mm512_mask_storeu_ps(v + i, mask,
                          _mm512_maskz_min_ps(mask, h, _mm512_maskz_max_ps(mask, l, x)));
  }
}
bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}
#else
void BoundWide(float*, int64_t, float, float) {}
bool HasAvx512() { return false; }
#endif
void BoundPlain(float* v, int64_t n, float low, float high) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float raised = low > v[i] ? low : v[i];
    v[i] = high < raised ? high : raised;
  }
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;
Memory Allocate(int64_t bytes) {
  Memory m(std::aligned_alloc(kAlign, size_t(CheckedRoundUp(std::max(bytes, kAlign), kAlign))));
  if (!m) throw std::bad_alloc();
  return m;
}

}  // namespace

}  // namespace weft::cpu

#if defined(_OPENMP) && defined(__x86_64__)
namespace {

using Body = void (*)(void*);
using Parallel = void (*)(Body, void*, unsigned, unsigned);

struct Watched {
  Body body;
  void* data;
  weft::cpu::NanWatch* watch;
};
void RunWatched(void* p) {
  auto* w = static_cast<Watched*>(p);
  weft::cpu::TakeOwn();  // of what ran before
  w->body(w->data);
  if (weft::cpu::TakeOwn()) w->watch->invalid.store(true, std::memory_order_relaxed);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void GOMP_parallel(Body body, void* data,
                                                                     unsigned threads,
                                                                     unsigned flags) {
  static const auto next = reinterpret_cast<Parallel>(dlsym(RTLD_NEXT, "GOMP_parallel"));
  weft::cpu::team_state.is_told = true;
  if (threads != 1 && !omp_in_parallel())  // else it wakes no other thread
    weft::cpu::team_state = {true, true, threads == 0 ? omp_get_max_threads() : int(threads)};
  weft::cpu::NanWatch* watch = weft::cpu::watching;
  if (!watch) {
    next(body, data, threads, flags);
    return;
  }
  watch->entered = true;
  Watched watched{body, data, watch};
  next(RunWatched, &watched, threads, flags);
}
#endif

namespace weft::cpu {

void BoundFloats(float* v, int64_t n, float low, float high) {
  const auto bound = HasAvx512() ? BoundWide : BoundPlain;
  if (n <= kAloneFloats) return bound(v, n, low, high);
  ForPieces(n, kPieceFloats,
            [&](int64_t first, int64_t last) { bound(v + first, last - first, low, high); });
}

bool NanKeeper::Possible() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

void NanKeeper::Learn(const std::function<void()>& start_region) {
  static std::once_flag once;
  std::call_once(once, [&] {
    NanWatch watch;
    watching = &watch;
    start_region();
    watching = nullptr;
    regions_come_by = watch.entered;
  });
}

NanKeeper::Run::Run(const NanKeeper* keeper, const void* const* inputs, void* const* outputs)
    : keeper_(keeper), inputs_(inputs) {
  if (!keeper_) return;
  const Call& call = keeper_->call_;
  result_ = static_cast<float*>(outputs[0]);
  for (int i : call.added)
    if (inputs[i] == result_) overlaid_ = i;
  asks_ = overlaid_ >= 0 && RunAgain::Possible();
  if (overlaid_ >= 0 && !asks_ && !AllFinite(result_, call.floats))
    kept_.assign(result_, result_ + call.floats);
  raised_before_ = TakeOwn();
  if (!regions_come_by && keeper_->clears_.load(std::memory_order_relaxed))
    TakeInvalid(call.threads);
}

NanKeeper::Run::~Run() {
  if (!keeper_) return;
  watching = nullptr;
  // The caller may read the flags that were set before.
  if (raised_before_) Raise();
}

void NanKeeper::Run::Start() {
  if (!keeper_) return;
  TakeOwn();
  watching = &watch_;
}

void NanKeeper::Run::Look() {
  if (!keeper_) return;
  watching = nullptr;
  // Without a region this thread has done it all.
  if (TakeInvalid(regions_come_by ? 1 : keeper_->call_.threads) || watch_.invalid) invalid_ = true;
}

void NanKeeper::Run::Finish() {
  if (!invalid_) return;
  if (asks_) RunAgain::Ask();
  const Call& call = keeper_->call_;
  std::vector<const void*> operands(inputs_, inputs_ + call.operands);
  if (overlaid_ >= 0) {
    // What finite numbers are added does not matter: sums of others are NaN, or not,
    // with any of them.
    if (kept_.empty()) kept_.assign(size_t(call.floats), 0.f);
    operands[size_t(overlaid_)] = kept_.data();
  }
  if (!keeper_->PutNans(operands, result_)) keeper_->clears_ = true;
  // What the second time raised says nothing about who comes next.
  TakeInvalid(regions_come_by ? 1 : call.threads);
}

const LibraryCall& NanKeeper::Exact() const {
  std::lock_guard lock(mutex_);
  if (!exact_) exact_ = call_.make();
  WEFT_ICHECK(exact_, "a library call without joined steps is refused");
  return *exact_;
}

bool NanKeeper::PutNans(const std::vector<const void*>& operands, float* result) const {
  const LibraryCall& exact = Exact();
  const Memory made = Allocate(CheckedMul(call_.floats, int64_t{sizeof(float)})),
               scratch = Allocate(exact.scratch_bytes());
  void* out = made.get();
  exact.Run(operands.data(), &out, scratch.get());
  const auto* from = static_cast<const float*>(out);
  bool any = false;
  for (int64_t i = 0; i < call_.floats; ++i)
    if (std::isnan(from[i])) {
      result[i] = from[i];
      any = true;
    }
  return any;
}

}  // namespace weft::cpu
