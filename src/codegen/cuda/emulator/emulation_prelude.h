/// emulation_prelude.h: text that stands before a CUDA source so that a host C++
/// compiler takes it (emulator.h).
///
/// What CUDA gives a kernel without a header (threadIdx, barriers, shuffles, votes, atomics, vector
/// types) is here a variable of the machine or a call into it. `__shared__` variables are static,
/// in a section of their own that the machine fills with garbage before every launch.
#pragma once

namespace weft::cuda {

inline constexpr const char* kEmulationPrelude = R"EMU(typedef unsigned long EmuWord;
struct EmuDim { unsigned x, y, z; };
struct EmuMachine {
  EmuDim thread_idx, block_idx, block_dim, grid_dim;
  unsigned char* dynamic_shared;
  void (*sync_threads)(int site);
  const EmuWord* (*exchange)(unsigned mask, int site, EmuWord mine);
  void (*fail)(const char* what, int site);
};
static EmuMachine* emu;
extern "C" {
extern unsigned char __start_weft_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_weft_shared[] __attribute__((weak, visibility("hidden")));
void EmuBind(EmuMachine* m, unsigned char** begin, unsigned char** end) {
  emu = m, *begin = __start_weft_shared, *end = __stop_weft_shared;
}
float fabsf(float), floorf(float), ceilf(float), rintf(float), truncf(float), sqrtf(float);
float fmodf(float, float), fmaf(float, float, float);
double fabs(double), floor(double), ceil(double), rint(double), trunc(double), sqrt(double);
double fmod(double, double), fma(double, double, double);
}
#define threadIdx (emu->thread_idx)
#define blockIdx (emu->block_idx)
#define blockDim (emu->block_dim)
#define gridDim (emu->grid_dim)
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("weft_shared")))
#define __syncthreads() emu->sync_threads(__LINE__)
#define __threadfence() ((void)0)
#define __syncwarp(...) EmuSyncWarp(__LINE__ __VA_OPT__(,) __VA_ARGS__)
#define __shfl_sync(...) EmuShuffle(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) EmuShuffleXor(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) EmuShuffleDown(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) EmuShuffleUp(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, p) EmuBallot(__LINE__, mask, p)
#define __any_sync(mask, p) (EmuBallot(__LINE__, mask, p) != 0)
#define __all_sync(mask, p) (EmuBallot(__LINE__, mask, p) == (mask))
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };

static inline unsigned EmuLane() {
  const EmuDim& t = emu->thread_idx;
  const EmuDim& b = emu->block_dim;
  return (t.x + b.x * (t.y + b.y * t.z)) % 32;
}
static inline void EmuSyncWarp(int site, unsigned mask = 0xffffffffu) { emu->exchange(mask, site, 0); }
template <class T> static inline T EmuLaneValue(int site, unsigned mask, T v, unsigned lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  EmuWord mine = 0;
  __builtin_memcpy(&mine, &v, sizeof v);
  const EmuWord* all = emu->exchange(mask, site, mine);
  if (!(mask >> lane & 1)) emu->fail("a shuffle reads from a lane that is not in its mask", site);
  T r;
  __builtin_memcpy(&r, &all[lane], sizeof r);
  return r;
}
template <class T> static inline T EmuShuffle(int site, unsigned mask, T v, int from, int width = 32) {
  return EmuLaneValue(site, mask, v, EmuLane() / width * width + (unsigned)from % width);
}
template <class T> static inline T EmuShuffleXor(int site, unsigned mask, T v, int o, int width = 32) {
  const unsigned lane = EmuLane(), from = lane ^ o;
  return EmuLaneValue(site, mask, v, from / width <= lane / width ? from : lane);
}
template <class T> static inline T EmuShuffleDown(int site, unsigned mask, T v, unsigned o, int width = 32) {
  const unsigned lane = EmuLane();
  return EmuLaneValue(site, mask, v, lane % width + o < (unsigned)width ? lane + o : lane);
}
template <class T> static inline T EmuShuffleUp(int site, unsigned mask, T v, unsigned o, int width = 32) {
  const unsigned lane = EmuLane();
  return EmuLaneValue(site, mask, v, lane % width >= o ? lane - o : lane);
}
static inline unsigned EmuBallot(int site, unsigned mask, int p) {
  const EmuWord* all = emu->exchange(mask, site, p != 0);
  unsigned r = 0;
  for (unsigned l = 0; l < 32; ++l) r |= (mask >> l & 1 && all[l] ? 1u : 0u) << l;
  return r;
}
template <class T, class F> static inline T EmuAtomic(T* p, F f) {
  const T old = *p;
  *p = f(old);
  return old;
}
template <class T> static inline T atomicAdd(T* p, T v) { return EmuAtomic(p, [=](T o) { return (T)(o + v); }); }
template <class T> static inline T atomicMin(T* p, T v) { return EmuAtomic(p, [=](T o) { return v < o ? v : o; }); }
template <class T> static inline T atomicMax(T* p, T v) { return EmuAtomic(p, [=](T o) { return v > o ? v : o; }); }
template <class T> static inline T atomicOr(T* p, T v) { return EmuAtomic(p, [=](T o) { return (T)(o | v); }); }
template <class T> static inline T atomicAnd(T* p, T v) { return EmuAtomic(p, [=](T o) { return (T)(o & v); }); }
template <class T> static inline T atomicExch(T* p, T v) { return EmuAtomic(p, [=](T) { return v; }); }
template <class T> static inline T atomicCAS(T* p, T is, T v) { return EmuAtomic(p, [=](T o) { return o == is ? v : o; }); }
template <class T> static inline T __ldg(const T* p) { return *p; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((EmuWord)a * b >> 32); }

static inline unsigned short EmuToHalf(float v) {
  const _Float16 h = (_Float16)v;
  unsigned short bits;
  __builtin_memcpy(&bits, &h, 2);
  return bits;
}
static inline float EmuFromHalf(unsigned short bits) {
  _Float16 h;
  __builtin_memcpy(&h, &bits, 2);
  return (float)h;
}
)EMU";

}  // namespace weft::cuda
