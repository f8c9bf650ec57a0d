/// Tests of emulator.h: kernels with and without the mistakes that it is there to find.
#include "emulator.h"

#include <doctest/doctest.h>

#include <cstring>

#include "guarded_memory.h"
#include "weft/core/tensor/dtype.h"

namespace weft::cuda {
namespace {

constexpr const char* kSource = R"(
typedef unsigned int u32; typedef unsigned short u16; typedef long long i64; typedef float f32;
struct Pair { int a; float b; };
extern "C" __global__ void position(u32* out) {
  const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = thread + 1000u * block;
}
extern "C" __global__ void reverse_block(const u32* in, u32* out, i64 barrier) {
  __shared__ u32 s[64];
  s[threadIdx.x] = in[threadIdx.x];
  if (barrier) __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void dynamic(const u32* in, u32* out) {
  extern __shared__ u32 s[];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[(threadIdx.x + 1u) % blockDim.x];
}
extern "C" __global__ void lanes(u32* out) {
  const u32 t = threadIdx.x;
  out[t] = __shfl_xor_sync(0xffffffffu, t, 5);
  out[64 + t] = __shfl_down_sync(0xffffffffu, t, 3u);
  out[128 + t] = __shfl_up_sync(0xffffffffu, t, 2u, 16);
  out[192 + t] = (u32)__shfl_sync(0xffffffffu, (i64)t << 32, 7) + (u32)(__shfl_sync(0xffffffffu, (i64)t << 32, 7) >> 32);
  out[256 + t] = __ballot_sync(0xffffffffu, t % 3u == 0u);
  out[320 + t] = __any_sync(0xffffffffu, t == 40u) + 2u * __all_sync(0xffffffffu, t < 40u);
  const u32 group = 0xffu << (t % 32u / 8u * 8u);
  u32 sum = t;
  for (int k = 0; k <= (int)(t / 8u); ++k) {
    for (int o = 4; o > 0; o /= 2) sum += __shfl_xor_sync(group, sum, o);
    __syncwarp(group);
  }
  out[384 + t] = sum;
}
extern "C" __global__ void __launch_bounds__(64) atomics(u32* out, f32* sum) {
  atomicAdd(&out[0], 1u);
  atomicMax(&out[1], threadIdx.x);
  if (atomicCAS(&out[2], 0u, 7u) == 0u) atomicExch(&out[3], 9u);
  atomicAdd(sum, 0.5f);
}
extern "C" __global__ void by_value(const Pair p, f32* out) { out[threadIdx.x] = p.a * p.b; }
extern "C" __global__ void halves(const u16* in, f32* out, u16* back) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  f32 v; u16 h = in[i];
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  out[i] = v;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  back[i] = h;
}
// Mistakes.
extern "C" __global__ void not_all(u32* out) {
  if (threadIdx.x < 40u) __syncthreads();
  out[threadIdx.x] = 0;
}
extern "C" __global__ void different(u32* out) {
  if (threadIdx.x < 40u)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 0;
}
extern "C" __global__ void foreign_lane(u32* out) {
  if (threadIdx.x % 32u < 16u) out[threadIdx.x] = __shfl_xor_sync(0xffffu, threadIdx.x, 16);
}
extern "C" __global__ void outside(u32* out, i64 at) { out[at] = 1; }
extern "C" __global__ void read_outside(const u32* in, u32* out, i64 at) { out[0] = in[at]; }
extern "C" __global__ void shared_outside(u32* out, i64 at) {
  __shared__ u32 s[8];
  s[at] = 1;
  out[0] = s[0];
}
extern "C" __global__ void vector(uint4* p) { p->x = 1; }
extern "C" __global__ void overflow(int* p) { p[0] = p[0] * 65536; }
)";

class Kernels {
 public:
  Kernels() {
    std::string why;
    library_ = EmulatedLibrary::Build({kSource}, &why);
    if (library_ == nullptr) MESSAGE("skipped: ", why);
    if (EmulatedLibrary::CanCompile()) REQUIRE_MESSAGE(library_ != nullptr, why);
  }
  bool usable() const { return library_ != nullptr; }
  std::string Run(const char* name, EmuDim grid, EmuDim block, std::vector<uint64_t> arguments,
                  uint64_t seed = 2, unsigned shared = 0) {
    const EmulatedEntry* e = library_->Find(name);
    REQUIRE(e != nullptr);
    return e->Launch({grid, block, shared, seed}, arguments);
  }

 private:
  std::unique_ptr<EmulatedLibrary> library_;
};

uint64_t Word(const void* p) { return reinterpret_cast<uint64_t>(p); }

TEST_CASE("emulator: positions, shared memory, lanes, atomics, structures, halves") {
  Kernels k;
  if (!k.usable()) return;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    std::vector<uint32_t> out(3 * 2 * 2 * 24, 0xffffffffu);
    CHECK(k.Run("position", {3, 2, 2}, {4, 3, 2}, {Word(out.data())}, seed) == "");
    for (size_t i = 0; i < out.size(); ++i) CHECK(out[i] == i % 24 + 1000 * (i / 24));

    std::vector<uint32_t> in(64);
    for (uint32_t i = 0; i < 64; ++i) in[i] = i * i;
    out.assign(64, 0);
    CHECK(k.Run("reverse_block", {}, {64}, {Word(in.data()), Word(out.data()), 1}, seed) == "");
    for (size_t i = 0; i < 64; ++i) CHECK(out[i] == in[63 - i]);
    CHECK(k.Run("dynamic", {}, {64}, {Word(in.data()), Word(out.data())}, seed, 256) == "");
    for (size_t i = 0; i < 64; ++i) CHECK(out[i] == in[(i + 1) % 64]);

    out.assign(448, 0);
    CHECK(k.Run("lanes", {}, {64}, {Word(out.data())}, seed) == "");
    for (uint32_t t = 0; t < 64; ++t) {
      const uint32_t warp = t / 32 * 32, lane = t % 32;
      CHECK(out[t] == (t ^ 5));
      CHECK(out[64 + t] == (lane + 3 < 32 ? t + 3 : t));
      CHECK(out[128 + t] == (lane % 16 >= 2 ? t - 2 : t));
      CHECK(out[192 + t] == warp + 7);
      CHECK(out[256 + t] == (t < 32 ? 0x49249249u : 0x92492492u));
      CHECK(out[320 + t] == (t < 32 ? 2 : 1));
      // Eight equal numbers after the first round, eight times as much after each further one.
      uint32_t sum = 0, group = t / 8;
      for (uint32_t i = 0; i < 8; ++i) sum += group * 8 + i;
      for (uint32_t i = 0; i < group; ++i) sum *= 8;
      CHECK(out[384 + t] == sum);
    }

    std::vector<uint32_t> counts(4, 0);
    float sum = 0;
    CHECK(k.Run("atomics", {3}, {64}, {Word(counts.data()), Word(&sum)}, seed) == "");
    CHECK(counts == std::vector<uint32_t>{192, 63, 7, 9});
    CHECK(sum == 96);
    struct {
      int a;
      float b;
    } pair{6, 0.25f};
    std::vector<float> product(32);
    CHECK(k.Run("by_value", {}, {32}, {Word(&pair), Word(product.data())}, seed) == "");
    CHECK(product == std::vector<float>(32, 1.5f));
  }
  std::vector<uint16_t> bits(65536), back(65536);
  std::vector<float> values(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = uint16_t(i);
  CHECK(k.Run("halves", {256}, {256},
              {Word(bits.data()), Word(values.data()), Word(back.data())}) == "");
  int wrong = 0;
  for (size_t i = 0; i < bits.size(); ++i) {
    const float want = HalfToFloat(uint16_t(i));
    wrong += std::memcmp(&values[i], &want, 4) != 0 && want == want;
    wrong += want == want && back[i] != bits[i];
  }
  CHECK(wrong == 0);
}

TEST_CASE("emulator: a barrier that is missing shows under some order of threads") {
  Kernels k;
  if (!k.usable()) return;
  std::vector<uint32_t> in(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = i * i;
  int seen = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<uint32_t> out(64);
    CHECK(k.Run("reverse_block", {}, {64}, {Word(in.data()), Word(out.data()), 0}, seed) == "");
    for (size_t i = 0; i < 64; ++i) seen += out[i] != in[63 - i];
  }
  CHECK(seen > 0);
}

TEST_CASE("emulator: mistakes are told") {
  Kernels k;
  if (!k.usable()) return;
  const auto says = [](const std::string& what, const char* part) {
    CHECK_MESSAGE(what.find(part) != std::string::npos, what);
  };
  GuardedMemory memory;
  using Place = GuardedMemory::Place;
  const uint64_t out = Word(memory.Get(64 * 4, 4, Place::kFront));
  for (uint64_t seed = 0; seed < 4; ++seed) {
    says(k.Run("not_all", {}, {64}, {out}, seed), "wait for ever; 40 at the barrier");
    says(k.Run("different", {}, {64}, {out}, seed), "at different calls");
    says(k.Run("foreign_lane", {}, {32}, {out}, seed), "not in its mask");
  }
  says(k.Run("atomics", {}, {96}, {out, out}), "96 threads a block, at most 64");
  says(k.Run("position", {1, 70000}, {1}, {out}), "a grid of 1 x 70000 x 1");
  says(k.Run("outside", {}, {}, {out, uint64_t(-1)}), "byte -4 of buffer 0, which has 256");
  says(k.Run("shared_outside", {}, {}, {out, 8}), "an index outside of an array");
  CHECK(k.Run("shared_outside", {}, {}, {out, 7}) == "");
  CHECK(memory.Damage() == "");
  CHECK(k.Run("outside", {}, {}, {out, 64}) == "");  // not in a guard page
  CHECK(memory.Damage() == "buffer 0 of 256 bytes: byte 256 was written");
  memory.Release();

  const uint64_t back = Word(memory.Get(100, 4, Place::kMisaligned));
  CHECK(back % 16 != 0);
  says(k.Run("read_outside", {}, {}, {back, back, 25}), "byte 100 of buffer 0, which has 100");
  says(k.Run("vector", {}, {}, {back}), "a misaligned access");
  const uint64_t even = Word(memory.Get(64, 4, Place::kMisaligned));
  CHECK(even % 16 == 12);
  const uint64_t large = Word(memory.Get(100000, 4, Place::kBack));
  CHECK(large % 16 == 0);
  CHECK(k.Run("vector", {}, {}, {large}) == "");
  int number = 40000;
  says(k.Run("overflow", {}, {}, {Word(&number)}), "an overflow");
  number = 4;
  CHECK(k.Run("overflow", {}, {}, {Word(&number)}) == "");
  CHECK(number == 4 << 16);
  CHECK(memory.Damage() == "");
}

TEST_CASE("emulator: what was compiled once is not compiled again") {
  if (!EmulatedLibrary::CanCompile()) return;
  std::string why;
  const std::string source = "extern \"C\" __global__ void one(int* p) { *p = 1; }\n";
  REQUIRE(EmulatedLibrary::Build({source}, &why) != nullptr);
  const auto again = EmulatedLibrary::Build({source}, &why);
  REQUIRE(again != nullptr);
  CHECK(again->units_compiled() == 0);
  CHECK(EmulatedLibrary::Build({"this is no program"}, &why) == nullptr);
  CHECK(why.find("unit 0") != std::string::npos);
}

}  // namespace
}  // namespace weft::cuda
