/// host_emulation.h: runs printed CUDA kernels on the CPU, so that their meaning is tested on
/// machines without a GPU.
///
/// Text for the front of a CUDA source that lets a host C++ compiler take it. A block's threads are
/// fibers that are switched at barriers and shuffles; blocks run one after the other, so
/// `__shared__` is `static`. A barrier that not all threads reach ends in a message, not in a hang.
#pragma once

namespace weft::cuda {

inline constexpr const char* kHostEmulation = R"EMU(
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <vector>
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(n)
struct Dim { unsigned x; };
static Dim threadIdx, blockIdx, gridDim, blockDim;
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

static ucontext_t scheduler;
static std::vector<ucontext_t> fibers;
static std::vector<char> done;
static bool progress, stuck;
struct Barrier { unsigned arrived = 0, generation = 0; };
static Barrier block_barrier;
static Barrier lane_barriers[1024];
static uint64_t slots[1024];

static void Yield() {
  const unsigned me = threadIdx.x;
  swapcontext(&fibers[me], &scheduler);
  threadIdx.x = me;
}
static void Wait(Barrier& b, unsigned count) {
  const unsigned mine = b.generation;
  progress = true;
  if (++b.arrived == count) {
    b.arrived = 0;
    ++b.generation;
  }
  while (b.generation == mine) Yield();
  progress = true;
}
static void __syncthreads() { Wait(block_barrier, blockDim.x); }
static Barrier& LanesOf(unsigned mask) {
  if (!(mask >> threadIdx.x % 32 & 1)) fprintf(stderr, "lane %u is not in its own mask %x\n", threadIdx.x % 32, mask);
  return lane_barriers[threadIdx.x / 32 * 32 + __builtin_ctz(mask)];
}
static void __syncwarp(unsigned mask) { Wait(LanesOf(mask), __builtin_popcount(mask)); }
template <class T> static T __shfl_xor_sync(unsigned mask, T v, int o) {
  Barrier& b = LanesOf(mask);
  memcpy(&slots[threadIdx.x], &v, sizeof v);
  Wait(b, __builtin_popcount(mask));
  T r;
  memcpy(&r, &slots[threadIdx.x ^ o], sizeof r);
  Wait(b, __builtin_popcount(mask));
  return r;
}

static void (*body)(void**, const long long*, long long);
static void** body_buffers;
static const long long* body_dims;
static long long body_total;
static void Fiber() {
  const unsigned me = threadIdx.x;
  body(body_buffers, body_dims, body_total);
  done[me] = 1;
  progress = true;
  threadIdx.x = me;
  swapcontext(&fibers[me], &scheduler);
}
/// False when threads wait for each other for ever.
extern "C" bool EmulateLaunch(void (*kernel)(void**, const long long*, long long), unsigned grid, unsigned block,
                              void** buffers, const long long* dims, long long total) {
  static std::vector<char> stacks;
  const size_t kStack = 65536;
  stacks.resize(kStack * block);
  body = kernel, body_buffers = buffers, body_dims = dims, body_total = total;
  gridDim.x = grid, blockDim.x = block;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    fibers.assign(block, ucontext_t());
    done.assign(block, 0);
    block_barrier = Barrier();
    for (Barrier& b : lane_barriers) b = Barrier();
    for (unsigned t = 0; t < block; ++t) {
      getcontext(&fibers[t]);
      fibers[t].uc_stack.ss_sp = &stacks[kStack * t];
      fibers[t].uc_stack.ss_size = kStack;
      makecontext(&fibers[t], Fiber, 0);
    }
    for (unsigned left = block; left > 0;) {
      progress = false;
      left = 0;
      for (unsigned t = 0; t < block; ++t) {
        if (done[t]) continue;
        threadIdx.x = t;
        swapcontext(&scheduler, &fibers[t]);
        left += !done[t];
      }
      if (left > 0 && !progress) return false;
    }
  }
  return true;
}
static unsigned short EmulatedToHalf(float v) {
  _Float16 h = (_Float16)v;
  unsigned short bits;
  memcpy(&bits, &h, 2);
  return bits;
}
static float EmulatedFromHalf(unsigned short bits) {
  _Float16 h;
  memcpy(&h, &bits, 2);
  return (float)h;
}
)EMU";

}  // namespace weft::cuda
