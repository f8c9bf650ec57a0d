/// Tests of generated kernels on pointers at all offsets: vectors between a head and a tail where
/// pointers lie alike, single elements where they do not, and sums of rows that do not depend on
/// where rows lie. On emulated threads; memory around the operands is guarded.
#include <map>

#include "codegen/cuda/emulator/cases_test_util.h"
#include "tests/support/kernels/kernel_case_builder.h"

namespace weft {
namespace {

using cuda::BuildEmulated;
using cuda::GuardedMemory;
using kernel_cases::Builder;
using kernel_cases::Decode;
using kernel_cases::Encode;
using kernel_cases::I;
using kernel_cases::Map;
using kernel_cases::N;
using kernel_cases::Values;

/// Operands somewhere in guarded memory.
struct Operand {
  DType type;
  Values values;         ///< of an input
  int64_t elements = 0;  ///< of an output
  size_t misfit = 0;     ///< elements behind 16 bytes
  unsigned char* memory = nullptr;
  size_t Bytes() const { return cuda::ElementBytes(type); }
  size_t Count() const { return values.empty() ? size_t(elements) : values.size(); }
  unsigned char* data() const { return memory + misfit * Bytes(); }

  void Place(GuardedMemory* guarded, GuardedMemory::Place place) {
    memory =
        static_cast<unsigned char*>(guarded->Get((misfit + Count()) * Bytes(), Bytes(), place));
    for (size_t i = 0; i < values.size(); ++i) Encode(type, values[i], data() + i * Bytes());
  }
  /// Bytes before the first element that were written.
  size_t Damage() const {
    size_t damaged = 0;
    for (size_t i = 0; i < misfit * Bytes(); ++i) damaged += memory[i] != GuardedMemory::kPattern;
    return damaged;
  }
  double At(size_t i) const { return Decode(type, data() + i * Bytes()); }
  bool Written(size_t i) const {
    for (size_t b = 0; b < Bytes(); ++b)
      if (data()[i * Bytes() + b] != GuardedMemory::kPattern) return true;
    return false;
  }
};

/// Launches what the plan has. Empty, or what went wrong.
std::string Launch(const cuda::EmulatedLibrary& library, const Kernel& kernel,
                   const std::vector<Operand>& operands, const std::vector<int64_t>& dims,
                   int multiprocessors, const CudaTuning& tuning = {}) {
  const CudaSchedule schedule = ScheduleCuda(kernel, tuning);
  const CudaPlan plan = schedule.Plan(dims, multiprocessors);
  std::vector<uint64_t> workspace(size_t(plan.workspace_bytes) / 8 + 2);
  for (const CudaLaunch& l : plan.launches) {
    std::vector<uint64_t> arguments;
    for (const Operand& o : operands) arguments.push_back(reinterpret_cast<uint64_t>(o.data()));
    for (int64_t d : dims) arguments.push_back(uint64_t(d));
    arguments.push_back(uint64_t(plan.total));
    arguments.insert(arguments.end(), l.tail.begin(), l.tail.end());
    if (l.workspace) arguments.push_back(reinterpret_cast<uint64_t>(workspace.data()));
    const cuda::EmulatedEntry* entry = library.Find(l.entry);
    if (entry == nullptr) return "there is no entry " + l.entry;
    const std::string problem = entry->Launch({{l.grid_x, l.grid_y}, {l.block}, 0, 1}, arguments);
    if (!problem.empty()) return problem;
  }
  return {};
}

/// A sum of operands into outputs of some types, all along one loop.
struct Flat {
  KernelPtr kernel;
  std::vector<DType> inputs, outputs;
  int64_t distance = 0;  ///< at which the first input is read
  int width = 0;         ///< of its vectors
  int64_t tile = 0;
};
/// Of values that all types hold exactly, with their sums.
double Value(size_t input, int64_t i) { return double((i * 7 + int64_t(input) * 3) % 50); }

Flat MakeFlat(std::vector<DType> inputs, std::vector<DType> outputs, int width, int unroll,
              int64_t distance = 0, bool small = false) {
  Flat f{nullptr, std::move(inputs), std::move(outputs), distance, width, 256 * width * unroll};
  const SymInt n = KernelSymbol(0);
  Builder b("flat", {n});
  b.c.kernel->small_index = small;
  Expr sum;
  for (size_t k = 0; k < f.inputs.size(); ++k) {
    const int64_t at = k == 0 ? distance : 0;
    const auto read = b.Input(f.inputs[k], {}, n + SymInt(at));
    const Expr x = Expr::Cast(DType::kF32, read(at == 0 ? I(0) : I(0) + N(at)));
    sum = k == 0 ? x : sum + x;
  }
  for (const DType t : f.outputs) b.Output(t, I(0), Expr::Cast(t, sum), {}, false, n);
  f.kernel = b.Finish({1}).kernel;
  return f;
}

std::vector<Flat> FlatKernels() {
  const DType f32 = DType::kF32, bf16 = DType::kBF16, u8 = DType::kU8, f64 = DType::kF64;
  return {MakeFlat({f32, f32}, {f32}, 4, 1), MakeFlat({f32, f32}, {f32}, 4, 1, 0, true),
          MakeFlat({f32}, {f32}, 4, 2),      MakeFlat({bf16, f32}, {bf16, f32}, 4, 1),
          MakeFlat({bf16}, {bf16}, 8, 2),    MakeFlat({u8, u8}, {u8}, 16, 1),
          MakeFlat({f64, u8}, {f32}, 2, 1),  MakeFlat({f32, f32}, {f32}, 4, 1, 3)};
}

std::vector<Operand> OperandsOf(const Flat& f, int64_t n) {
  std::vector<Operand> operands;
  for (size_t k = 0; k < f.inputs.size(); ++k) {
    Operand o{f.inputs[k], {}};
    for (int64_t i = 0; i < n + (k == 0 ? f.distance : 0); ++i) o.values.push_back(Value(k, i));
    operands.push_back(o);
  }
  for (const DType t : f.outputs) operands.push_back({t, {}, n});
  return operands;
}
double Want(const Flat& f, int64_t i) {
  double sum = 0;
  for (size_t k = 0; k < f.inputs.size(); ++k) sum += Value(k, i + (k == 0 ? f.distance : 0));
  return sum;
}

using Check = std::function<void(const Flat&, const std::vector<Operand>&, int64_t n)>;
/// All offsets of 0 to 15 elements and sizes of 0 to 70 and around tiles: alike for all operands,
/// and one of them another.
void RunFlat(const std::vector<Flat>& kernels, const cuda::EmulatedLibrary& library,
             const Check& check) {
  GuardedMemory memory;
  for (const Flat& f : kernels) {
    std::vector<int64_t> sizes;
    for (int64_t n = 0; n <= 70; ++n) sizes.push_back(n);
    for (int64_t n : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{17}, f.tile + 5})
      sizes.push_back(f.tile + n);
    for (const int64_t n : sizes)
      for (size_t misfit = 0; misfit < 16; ++misfit)
        for (int other = -1; other < int(f.inputs.size() + f.outputs.size()); ++other) {
          // Small sizes take no vectors; one operand of them suffices.
          if (n <= 70 && other >= 0 && other != int(misfit % 3)) continue;
          std::vector<Operand> operands = OperandsOf(f, n);
          memory.Release();
          for (size_t o = 0; o < operands.size(); ++o) {
            operands[o].misfit = int(o) == other ? misfit * 5 % 16 + 1 : misfit;
            operands[o].Place(&memory, (misfit + o) % 2 == 0 ? GuardedMemory::Place::kBack
                                                             : GuardedMemory::Place::kFront);
          }
          CAPTURE(f.kernel->Name());
          CAPTURE(n);
          CAPTURE(misfit);
          CAPTURE(other);
          REQUIRE(Launch(library, *f.kernel, operands, {n}, misfit % 2 ? 1 : 132) == "");
          REQUIRE(memory.Damage() == "");
          size_t damage = 0;
          for (const Operand& o : operands) damage += o.Damage();
          REQUIRE(damage == 0);
          check(f, operands, n);
        }
  }
}

TEST_CASE(
    "pointers at all offsets: element-wise kernels compute every point and write nothing else") {
  const std::vector<Flat> kernels = FlatKernels();
  std::vector<KernelPtr> all;
  for (const Flat& f : kernels) {
    all.push_back(f.kernel);
    CHECK(PrintCuda(*f.kernel).find(fmt::format("ToAligned<{}>", f.width)) != std::string::npos);
  }
  const auto library = BuildEmulated(all);
  if (library == nullptr) return;
  RunFlat(kernels, *library, [](const Flat& f, const std::vector<Operand>& operands, int64_t n) {
    int64_t wrong = 0;
    for (size_t o = f.inputs.size(); o < operands.size(); ++o)
      for (int64_t i = 0; i < n; ++i) wrong += operands[o].At(size_t(i)) != Want(f, i);
    REQUIRE(wrong == 0);
  });
}

/// With the loop over single elements taken out, what vectors write is left.
TEST_CASE("pointers that lie alike take vectors behind a head, others none") {
  std::vector<Flat> kernels = FlatKernels();
  std::vector<std::string> sources;
  for (const Flat& f : kernels) {
    std::string text = PrintCuda(*f.kernel);
    const std::string loop = "q < n - skip";
    for (size_t at; (at = text.find(loop)) != std::string::npos;)
      text.replace(at, loop.size(), "q < 0u");
    sources.push_back(text);
  }
  std::string why;
  const auto library = cuda::EmulatedLibrary::Build(sources, &why);
  if (!cuda::EmulatedLibrary::CanCompile()) return;
  REQUIRE_MESSAGE(library != nullptr, why);
  RunFlat(kernels, *library, [](const Flat& f, const std::vector<Operand>& operands, int64_t n) {
    // A read at a distance has no say.
    const auto width = size_t(f.width);
    std::vector<size_t> heads;
    for (size_t o = f.distance > 0 ? 1 : 0; o < operands.size(); ++o)
      heads.push_back((width - operands[o].misfit % width) % width);
    const bool alike =
        std::all_of(heads.begin(), heads.end(), [&](size_t head) { return head == heads[0]; });
    const auto head = int64_t(heads[0]);
    const int64_t points = alike && n > head ? (n - head) / f.tile * f.tile : 0;
    int64_t wrong = 0;
    for (size_t o = f.inputs.size(); o < operands.size(); ++o)
      for (int64_t i = 0; i < n; ++i)
        wrong += operands[o].Written(size_t(i)) != (i >= head && i < head + points);
    REQUIRE(wrong == 0);
  });
}

/// The sum of x[p][c][r] over p and r, or over r alone, and x less a part of it.
KernelPtr Rows(bool pictures, bool columns) {
  const SymInt p = KernelSymbol(0), r = pictures ? SymInt(49) : KernelSymbol(1);
  Builder b("rows", pictures ? std::vector<SymInt>{3, p, 49} : std::vector<SymInt>{p, r}, true, 1);
  if (columns) b.c.kernel->vector_loop = 0;
  b.c.kernel->small_index = false;
  const SymInt size = pictures ? p * 3 * r : p * r;
  const auto x = b.Input(DType::kF32, {}, size);
  const auto at = [&](const Expr& row, const Expr& k, const Expr& v) {
    if (pictures) return (k * N(3) + row) * N(49) + v;
    return columns ? v * Expr::Dim(p) + row : row * Expr::Dim(r) + v;
  };
  std::vector<SymInt> extents(b.c.kernel->dims.begin() + 1, b.c.kernel->dims.end());
  const Expr sum = Expr::Reduce(ReduceOp::kSum, extents, [&](const Indices& v) {
    return x(pictures ? at(I(0), v[0], v[1]) : at(I(0), v[0], v[0]));
  });
  const Expr here = pictures ? at(I(0), I(1), I(2)) : at(I(0), I(1), I(1));
  b.Output(DType::kF32, I(0), sum, {}, true, b.c.kernel->dims[0]);
  b.Output(DType::kF32, here, x(here) - sum * Expr::Const(DType::kF32, 0.5), {}, false, size);
  return b.Finish(pictures ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 1}).kernel;
}

TEST_CASE("pointers at all offsets: rows of run-time length have the same bits") {
  for (const bool steps : {false, true}) {
    CudaTuning tuning;
    if (steps) tuning.slice_elements = 40, tuning.slice_depth = 8, tuning.split_rows = 20;
    const std::vector<KernelPtr> kernels = {Rows(false, false), Rows(false, true),
                                            Rows(true, false)};
    const auto library = BuildEmulated(kernels, tuning);
    if (library == nullptr) return;
    GuardedMemory memory;
    for (size_t k = 0; k < kernels.size(); ++k)
      for (const auto& [p, r] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {3, 7}, {2, 33}, {5, 257}, {3, 1000}, {2, 2600}, {40, 3}}) {
        const bool pictures = k == 2;
        if (pictures && r > 40) continue;
        const int64_t rows = pictures ? 3 : p, length = pictures ? p * r * 49 : r;
        const std::vector<int64_t> dims =
            pictures ? std::vector<int64_t>{p * r} : std::vector<int64_t>{p, r};
        std::vector<std::string> first;
        for (size_t misfit = 0; misfit < 16; ++misfit) {
          memory.Release();
          // Sums of them are rounded.
          Operand x{DType::kF32,
                    Map(rows * length, [](int64_t i) { return double(i * 37 % 101 - 50) / 3; })};
          std::vector<Operand> operands = {
              x, {DType::kF32, {}, rows}, {DType::kF32, {}, rows * length}};
          for (size_t o = 0; o < operands.size(); ++o) {
            operands[o].misfit = (misfit * (o + 1)) % 16;
            operands[o].Place(&memory, GuardedMemory::Place::kBack);
          }
          CAPTURE(steps);
          CAPTURE(k);
          CAPTURE(p);
          CAPTURE(r);
          CAPTURE(misfit);
          REQUIRE(Launch(*library, *kernels[k], operands, dims, misfit % 2 ? 1 : 132, tuning) ==
                  "");
          REQUIRE(memory.Damage() == "");
          std::vector<std::string> bits;
          for (const Operand& o : operands) {
            REQUIRE(o.Damage() == 0);
            bits.emplace_back(reinterpret_cast<const char*>(o.data()), o.Count() * 4);
          }
          if (misfit == 0) first = bits;
          REQUIRE(bits == first);
          if (misfit > 0) continue;
          for (int64_t row = 0; row < rows; ++row) {
            double sum = 0;
            const auto at = [&](int64_t i) {
              return pictures ? (i / 49 * 3 + row) * 49 + i % 49
                     : k == 1 ? i * p + row
                              : row * r + i;
            };
            for (int64_t i = 0; i < length; ++i) sum += operands[0].At(size_t(at(i)));
            CHECK(operands[1].At(size_t(row)) == doctest::Approx(sum).epsilon(1e-4).scale(100));
            for (int64_t i = 0; i < length; ++i)
              REQUIRE(operands[2].At(size_t(at(i))) ==
                      doctest::Approx(operands[0].At(size_t(at(i))) - sum / 2)
                          .epsilon(1e-4)
                          .scale(100));
          }
        }
      }
  }
}

}  // namespace
}  // namespace weft
