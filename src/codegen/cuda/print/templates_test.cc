/// Tests of the CUDA templates that the shared cases do not reach: transposed reads, many parts in
/// one launch, columns and rows in slices, barriers. On emulated threads; results are computed
/// here in double precision.
#include <functional>

#include "codegen/cuda/emulator/cases_test_util.h"
#include "tests/support/kernels/kernel_case_builder.h"
#include "text.h"

namespace weft {
namespace {

using cuda::BuildEmulated;
using cuda::CheckEmulated;
using kernel_cases::AllCases;
using kernel_cases::Builder;
using kernel_cases::Case;
using kernel_cases::I;
using kernel_cases::Map;
using kernel_cases::N;
using kernel_cases::Ramp;
using kernel_cases::Values;

/// Runs all cases; counts launches by entry.
std::map<std::string, int64_t> RunAll(const std::vector<Case>& cases, const CudaTuning& tuning) {
  std::map<std::string, int64_t> entries;
  const auto library = BuildEmulated(kernel_cases::DistinctKernels(cases), tuning);
  if (library == nullptr) return entries;
  for (const Case& c : cases) CheckEmulated(*library, c, tuning, &entries);
  return entries;
}

/// out[b][l][m] = x[b][m][l] * scale[m] + bias[b][l][m], extents known or not.
Case Permute(DType t, int64_t b, int64_t l, int64_t m, bool dynamic, bool small) {
  const SymInt sb = dynamic ? KernelSymbol(0) : SymInt(b),
               sl = dynamic ? KernelSymbol(1) : SymInt(l),
               sm = dynamic ? KernelSymbol(2) : SymInt(m);
  Builder k(fmt::format("permute_{}_{}x{}x{}{}{}", DTypeName(t), b, l, m, dynamic ? "_dynamic" : "",
                        small ? "" : "_64"),
            {sb, sl, sm});
  k.c.kernel->small_index = small;
  const Values x = Ramp(b * l * m), scale = Ramp(m, 2), bias = Ramp(b * l * m, 3);
  const auto rx = k.Input(t, x, sb * sl * sm), rs = k.Input(DType::kF32, scale, sm),
             ry = k.Input(DType::kF32, bias, sb * sl * sm);
  const Expr dl = Expr::Dim(sl), dm = Expr::Dim(sm), at = (I(0) * dl + I(1)) * dm + I(2);
  const Expr v = Expr::Cast(DType::kF32, rx((I(0) * dm + I(2)) * dl + I(1))) * rs(I(2)) + ry(at);
  const auto want = [&](int64_t i) {
    const int64_t pm = i % m, pl = i / m % l, pb = i / m / l;
    return x[size_t((pb * m + pm) * l + pl)] * scale[size_t(pm)] + bias[size_t(i)];
  };
  k.Output(DType::kF32, at, v, Map(b * l * m, want), false, sb * sl * sm);
  k.Output(DType::kBool, at, Lt(v, Expr::Const(DType::kF32, 0)),
           Map(b * l * m, [&](int64_t i) { return double(want(i) < 0); }), false, sb * sl * sm);
  return k.Finish(dynamic ? std::vector<int64_t>{b, l, m} : std::vector<int64_t>{}, 1e-6);
}

/// Two inputs across, one of them behind a guard, and a range flag.
Case GuardedPermute(bool outside) {
  const int64_t l = 45, m = 70;
  Builder k(outside ? "permute_guarded_flag" : "permute_guarded", {l, m});
  const Values x = Ramp(l * m), y = Ramp((l - 2) * m, 5);
  const auto rx = k.Input(DType::kF64, x);
  k.Input(DType::kI16, Map((l - 2) * m, [](int64_t i) { return double(i % 999 - 400); }));
  const Expr at = I(0) * N(m) + I(1);
  const Expr edge = And(Le(N(1), I(0)), Lt(I(0), N(l - 1)));
  const Expr part = Expr::Load(1, DType::kI16, {I(1) * N(l - 2) + I(0) - N(1)}, edge);
  k.Output(DType::kF64, at, rx(I(1) * N(l) + I(0)) + Expr::Cast(DType::kF64, part),
           Map(l * m, [&](int64_t i) {
             const int64_t pl = i / m, pm = i % m;
             const double p =
                 pl >= 1 && pl < l - 1 ? double((pm * (l - 2) + pl - 1) % 999 - 400) : 0;
             return x[size_t(pm * l + pl)] + p;
           }));
  k.Flag(Lt(rx(I(1) * N(l) + I(0)), Expr::Const(DType::kF64, outside ? 0 : -100)), outside);
  return k.Finish();
}

TEST_CASE("transposed reads go through tiles") {
  std::vector<Case> cases;
  for (const DType t : {DType::kF32, DType::kF16, DType::kF64})
    cases.push_back(Permute(t, 2, 37, 70, false, true));
  cases.push_back(Permute(DType::kF32, 3, 64, 32, false, true));
  cases.push_back(Permute(DType::kF32, 1, 12, 200, false, true));
  cases.push_back(Permute(DType::kF32, 2, 3, 50, false, true));  // too narrow for tiles
  for (const bool small : {true, false}) {
    cases.push_back(Permute(DType::kBF16, 3, 33, 31, true, small));
    cases.push_back(Permute(DType::kBF16, 5, 1, 64, true, small));
    cases.push_back(Permute(DType::kBF16, 2, 100, 2, true, small));
    cases.push_back(Permute(DType::kBF16, 2, 0, 9, true, small));
  }
  cases.push_back(GuardedPermute(false));
  cases.push_back(GuardedPermute(true));
  for (const Case& c : cases) {
    const bool tiles = c.name.find("2x3x50") == std::string::npos;
    CHECK((PrintCuda(*c.kernel).find("__shared__") != std::string::npos) == tiles);
  }
  RunAll(cases, {});
  CudaTuning wide;
  wide.narrow_limit = 100;
  RunAll(cases, wide);
}

/// `source` without its i-th barrier; empty where there are fewer.
std::string WithoutBarrier(const std::string& source, int i) {
  const std::string barrier = "__syncthreads();";
  size_t at = source.find(barrier);
  for (; i > 0 && at != std::string::npos; --i) at = source.find(barrier, at + 1);
  return at == std::string::npos ? "" : std::string(source).erase(at, barrier.size());
}

/// Soft-max whose outputs are of rows' elements only.
Case PlainSoftmax(int64_t p, int64_t r) {
  Builder b("plain_softmax", {p, r}, true, 1);
  const Values x = Ramp(p * r);
  const auto rx = b.Input(DType::kF32, x);
  const auto at = [&](const Expr& k) { return rx(I(0) * N(r) + k); };
  const auto over = [&](ReduceOp op, const std::function<Expr(Expr)>& f) {
    return Expr::Reduce(op, {r}, [&](const Indices& k) { return f(k[0]); });
  };
  const Expr most = over(ReduceOp::kMax, at);
  const Expr sum = over(ReduceOp::kSum, [&](const Expr& k) { return at(k) - most; });
  b.Output(DType::kF32, I(0) * N(r) + I(1), at(I(1)) * sum, Map(p * r, [&](int64_t i) {
             const auto begin = x.begin() + std::ptrdiff_t(i / r * r);
             const double m = *std::max_element(begin, begin + std::ptrdiff_t(r));
             double s = 0;
             for (int64_t k = 0; k < r; ++k) s += begin[std::ptrdiff_t(k)] - m;
             return x[size_t(i)] * s;
           }));
  return b.Finish({}, 1e-4);
}

TEST_CASE("every barrier is needed, and the emulator shows which is missing") {
  if (!cuda::EmulatedLibrary::CanCompile()) return;
  std::vector<Case> cases = {PlainSoftmax(7, 1100), Permute(DType::kF32, 3, 40, 70, false, true)};
  Case columns = PlainSoftmax(70, 90);
  columns.kernel->vector_loop = 0;
  columns.kernel->Finish();
  cases.push_back(columns);
  for (const Case& c : cases) {
    const std::string source = PrintCuda(*c.kernel);
    const CudaSchedule schedule = ScheduleCuda(*c.kernel);
    std::vector<std::string> sources = {source};
    for (int i = 0; !WithoutBarrier(source, i).empty(); ++i)
      sources.push_back(WithoutBarrier(source, i));
    REQUIRE(sources.size() > 2);
    for (size_t i = 0; i < sources.size(); ++i) {
      std::string why;
      const auto library = cuda::EmulatedLibrary::Build({sources[i]}, &why);
      REQUIRE_MESSAGE(library != nullptr, why);
      bool wrong = false;
      for (uint64_t seed = 0; seed < (i > 0 ? 400 : 24) && !(wrong && i > 0); ++seed) {
        // One block for everything. Pointers on 16 bytes, and others, which take another way.
        const size_t shift = seed / 2 % 2 * 4;
        std::vector<std::vector<double>> memory;
        std::vector<uint64_t> arguments;
        for (const Values& v : c.inputs) {
          memory.emplace_back(v.size() + 1);
          for (size_t k = 0; k < v.size(); ++k)
            kernel_cases::Encode(DType::kF32, v[k],
                                 reinterpret_cast<char*>(memory.back().data()) + shift + k * 4);
          arguments.push_back(reinterpret_cast<uint64_t>(memory.back().data()) + shift);
        }
        for (const Values& v : c.expected) {
          memory.emplace_back(v.size() + 1);
          arguments.push_back(reinterpret_cast<uint64_t>(memory.back().data()) + shift);
        }
        arguments.push_back(uint64_t(c.total));
        const std::string problem =
            library->Find(c.kernel->Name())
                ->Launch({{1}, {unsigned(schedule.block)}, 0, seed}, arguments);
        wrong = wrong || !problem.empty();
        const char* got = reinterpret_cast<const char*>(memory[c.inputs.size()].data()) + shift;
        for (size_t k = 0; k < c.expected[0].size(); ++k)
          wrong = wrong ||
                  std::fabs(kernel_cases::Decode(DType::kF32, got + 4 * k) - c.expected[0][k]) >
                      1e-4 * std::max(1.0, std::fabs(c.expected[0][k]));
      }
      INFO(c.name, " without barrier ", int(i) - 1);
      CHECK(wrong == (i > 0));
    }
  }
}

TEST_CASE("multipliers divide as division does") {
  uint64_t state = 88172645463325252u;
  const auto random = [&] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  std::vector<int64_t> divisors = {INT32_MAX, INT32_MAX - 1, (1 << 30) + 1};
  for (int64_t d = 1; d < 1100; ++d) divisors.push_back(d);
  for (int s = 10; s < 31; ++s)
    for (int64_t e : {-1, 0, 1}) divisors.push_back((int64_t{1} << s) + e);
  for (int i = 0; i < 2000; ++i) divisors.push_back(int64_t(random() >> (33 + random() % 30)) + 1);
  int64_t wrong = 0;
  for (const int64_t d : divisors) {
    const uint64_t m = cuda::Multiplier(d);
    const auto check = [&](int64_t n) {
      if (n < 0 || n > INT32_MAX) return;
      wrong += int64_t(uint64_t(n) * uint32_t(m) >> (m >> 32)) != n / d;
    };
    const int64_t most = INT32_MAX / d;
    for (const int64_t q :
         {int64_t{0}, int64_t{1}, most - 1, most, int64_t(random() % uint64_t(most + 1))})
      for (int64_t e = -2; e <= 2; ++e) check(q * d + e);
    check(INT32_MAX);
  }
  CHECK(wrong == 0);
}

/// Sums and places of the largest of every channel of x[batch, channels, picture], and x less a
/// part of the sum: rows of two loops, the last of known extent.
Case Channels(int64_t batch, int64_t channels, int64_t picture, bool dynamic) {
  const SymInt n = dynamic ? KernelSymbol(0) : SymInt(batch);
  Builder b(fmt::format("channels_{}x{}x{}{}", batch, channels, picture, dynamic ? "_dynamic" : ""),
            {channels, n, picture}, true, 1);
  b.c.kernel->small_index = !dynamic;
  const int64_t size = batch * channels * picture;
  const Values x = Map(size, [](int64_t i) { return double(i * 37 % 101 - 50); });
  const auto rx = b.Input(DType::kF32, x, n * channels * picture);
  const auto at = [&](const Expr& k, const Expr& p) {
    return (k * N(channels) + I(0)) * N(picture) + p;
  };
  const auto over = [&](ReduceOp op) {
    return Expr::Reduce(op, {n, SymInt(picture)},
                        [&](const Indices& v) { return rx(at(v[0], v[1])); });
  };
  const Expr sum = over(ReduceOp::kSum);
  Values sums(size_t(channels), 0), places(size_t(channels), 0);
  for (int64_t c = 0; c < channels; ++c) {
    double most = -1000;
    for (int64_t r = 0; r < batch * picture; ++r) {
      const double v = x[size_t((r / picture * channels + c) * picture + r % picture)];
      sums[size_t(c)] += v;
      if (v > most) most = v, places[size_t(c)] = double(r);
    }
  }
  b.Output(DType::kF32, I(0), sum, sums, true, SymInt(channels));
  b.Output(DType::kI64, I(0), over(ReduceOp::kArgMax), places, true, SymInt(channels));
  b.Output(
      DType::kF32, at(I(1), I(2)), rx(at(I(1), I(2))) - sum * Expr::Const(DType::kF32, 0.5),
      Map(size, [&](int64_t i) { return x[size_t(i)] - sums[size_t(i / picture % channels)] / 2; }),
      false, n * channels * picture);
  return b.Finish(dynamic ? std::vector<int64_t>{batch} : std::vector<int64_t>{});
}

TEST_CASE("rows of batches and pictures, by vectors where they are aligned") {
  std::vector<Case> cases;
  for (const bool dynamic : {false, true})
    for (const int64_t picture : {4, 7, 36, 600})
      for (const int64_t batch : {2, 5, 40}) cases.push_back(Channels(batch, 3, picture, dynamic));
  cases.push_back(Channels(0, 3, 8, true));
  // A run-time batch is read by vectors, too, where a picture has a multiple of them.
  const auto vectors = [](const Case& c) {
    return PrintCuda(*c.kernel).find("LoadAligned<4>") != std::string::npos;
  };
  CHECK(vectors(Channels(5, 3, 36, true)));
  CHECK_FALSE(vectors(Channels(5, 3, 7, true)));
  CudaTuning steps;
  steps.slice_elements = 6;
  steps.blocks = 40;
  steps.split_rows = 20;
  CudaTuning wide;
  wide.narrow_limit = 20;
  std::map<std::string, int64_t> plain = RunAll(cases, {}), cut = RunAll(cases, steps);
  RunAll(cases, wide);
  if (plain.empty()) return;
  CHECK(plain["_n"] > 0);
  CHECK(cut["_s0"] > 0);
}

TEST_CASE("plans: steps for few and long rows, wide indices for large sizes, nothing for nothing") {
  const auto row_sums = [](SymInt p, SymInt r, int vector_loop) {
    Kernel k;
    k.tmpl = KernelTemplate::kRow;
    k.buffers = {{DType::kF32, false, p * r}, {DType::kF32, true, p}};
    k.num_inputs = 1;
    k.dims = {p, r};
    k.num_outer = 1;
    k.vector_loop = vector_loop;
    k.num_symbols = p.is_const() ? 0 : 2;
    k.small_index = p.is_const();
    const Expr row = vector_loop == 1 ? I(0) * Expr::Dim(r) : I(0),
               step = vector_loop == 1 ? N(1) : Expr::Dim(p);
    k.stores = {{1, I(0),
                 Expr::Reduce(ReduceOp::kSum, {r},
                              [&](const Indices& v) {
                                return Expr::Load(0, DType::kF32, {row + v[0] * step});
                              }),
                 true}};
    k.Finish();
    return k;
  };
  // The statistics of a batch norm: 64 channels of 65536 values, 512 blocks and a small launch.
  const Kernel few = row_sums(64, 65536, 1);
  CudaPlan plan = ScheduleCuda(few).Plan({}, 132);
  REQUIRE(plan.launches.size() == 2);
  CHECK(plan.launches[0].entry == few.Name() + "_s0");
  CHECK(plan.launches[0].grid_x == 64);
  CHECK(plan.launches[0].grid_y == 8);
  CHECK(plan.launches[1].grid_y == 1);
  CHECK(plan.workspace_bytes == 8 * 8 * 64);
  CHECK(CudaEntries(few) == std::vector<std::string>{few.Name() + "_s0", few.Name() + "_s1"});
  // Enough rows, and short ones.
  CHECK(CudaEntries(row_sums(4000, 65536, 1)).size() == 1);
  CHECK(CudaEntries(row_sums(64, 1000, 1)).size() == 1);
  // Columns: 32 a block.
  plan = ScheduleCuda(row_sums(128, 50000, 0)).Plan({}, 132);
  REQUIRE(plan.launches.size() == 2);
  CHECK(plan.launches[0].grid_x == 4);
  CHECK(plan.launches[0].grid_y == 128);

  const Kernel any = row_sums(KernelSymbol(0), KernelSymbol(1), 1);
  const CudaSchedule schedule = ScheduleCuda(any);
  const auto entry = [&](int64_t p, int64_t r) {
    const CudaPlan found = schedule.Plan({p, r}, 132);
    return found.launches.empty() ? "none" : found.launches[0].entry.substr(any.Name().size());
  };
  CHECK(entry(10, 100) == "_n");
  CHECK(entry(10, 100000) == "_s0");
  CHECK(entry(1000, 100000) == "_n");
  CHECK(entry(2, int64_t{1} << 32) == "");
  CHECK(entry(0, 100) == "none");
  CHECK(entry(5, 0) == "_n");
  CHECK(schedule.Plan({1, 1 << 20}, 132).launches[0].tail.size() == 1);  // slices
}

TEST_CASE("many parts in one launch, on emulated threads") {
  std::vector<Case> cases = AllCases();
  const auto is_multi = [](const Case& c) { return ScheduleCuda(*c.kernel).has_multi(); };
  cases.erase(std::remove_if(cases.begin(), cases.end(), std::not_fn(is_multi)), cases.end());
  REQUIRE(cases.size() > 1);
  const auto library = BuildEmulated(kernel_cases::DistinctKernels(cases), {});
  if (library == nullptr) return;
  std::map<std::string, int64_t> entries;
  for (const Case& c : cases) {
    const CudaSchedule schedule = ScheduleCuda(*c.kernel);
    for (const size_t count : {1, 3, 200, 2000}) {
      // One part runs the case; the others are pieces of it, from nothing to some hundred points.
      std::vector<std::vector<std::vector<unsigned char>>> outputs(count);
      kernel_cases::Check(c, [&](const std::vector<void*>& buffers) {
        std::vector<cuda::HostPart> parts(count);
        for (size_t i = 0; i < count; ++i) {
          parts[i].buffers = buffers;
          parts[i].dims = c.dims;
          if (i == count / 2) continue;
          parts[i].dims[0] = int64_t(i * i % 307);
          outputs[i].resize(c.expected.size());
          for (size_t k = 0; k < c.expected.size(); ++k) {
            const size_t b = c.inputs.size() + k;
            outputs[i][k].resize(
                size_t(parts[i].dims[0]) * kernel_cases::Bytes(c.kernel->buffers[b].dtype) + 1);
            parts[i].buffers[b] = outputs[i][k].data();
          }
        }
        CHECK(cuda::RunEmulatedMulti(*library, *c.kernel, schedule, parts,
                                     {cuda::GuardedMemory::Place::kMisaligned, count, 132},
                                     &entries) == "");
        for (size_t i = 0; i < count; ++i) {
          for (size_t k = 0; k < outputs[i].size(); ++k) {
            CHECK(std::memcmp(outputs[i][k].data(), buffers[c.inputs.size() + k],
                              outputs[i][k].size() - 1) == 0);
          }
        }
      });
    }
  }
  CHECK(entries["_m4k"] > 0);
  CHECK(entries["_m32k"] > 0);
}

}  // namespace
}  // namespace weft
