/// Tests of c_printer.h: the text compiles as it is, computes what it should, and is always the
/// same.
#include "weft/codegen/ctext/c_printer.h"

#include "emit.h"
#include "tests/support/kernels/kernel_cases.h"

namespace weft {
namespace {

using kernel_cases::AllCases;
using kernel_cases::Case;

TEST_CASE("printed C compiles with the system's compiler and computes every case") {
  const std::vector<Case> cases = AllCases();
  std::vector<std::string> sources;
  for (const KernelPtr& k : kernel_cases::DistinctKernels(cases)) sources.push_back(PrintC(*k));
  void* library =
      kernel_cases::BuildAndOpen(sources, ".c", "gcc -std=c99 -O1 -Wall -Werror -Wno-unused");
  if (library == nullptr) {
    MESSAGE("skipped: no gcc on this machine");
    return;
  }
  for (const Case& c : cases) {
    const auto run = reinterpret_cast<CpuKernelFn>(dlsym(library, c.kernel->Name().c_str()));
    REQUIRE_MESSAGE(bool(run), c.name);
    for (bool in_place : {false, true}) {
      if (in_place && !kernel_cases::MayRunInPlace(c)) continue;
      kernel_cases::Check(
          c,
          [&](const std::vector<void*>& buffers) {
            // In two pieces: work items are independent.
            run(buffers.data(), c.dims.data(), 0, c.total / 2, nullptr);
            run(buffers.data(), c.dims.data(), c.total / 2, c.total, nullptr);
          },
          0, in_place);
    }
  }
  dlclose(library);
}

TEST_CASE("printed C is deterministic") {
  const std::vector<Case> a = AllCases(), b = AllCases();
  for (size_t i = 0; i < a.size(); ++i) CHECK(PrintC(*a[i].kernel) == PrintC(*b[i].kernel));
}

/// A kernel of one loop that stores `value`.
Kernel Store(DType t, const Expr& value, SymInt extent, bool with_input) {
  Kernel k;
  if (with_input) k.buffers.push_back({DType::kF32, false, 4096});
  k.num_inputs = int(k.buffers.size());
  k.buffers.push_back({t, true, extent});
  k.dims = {extent};
  k.num_outer = 1;
  k.vector_loop = 0;
  k.small_index = true;
  k.stores = {{k.num_inputs, Expr::Index(0), value, false}};
  k.Finish();
  return k;
}

size_t Count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_CASE("a shared expression is printed once, however often it is used") {
  Expr e = Expr::Load(0, DType::kF32, {Expr::Index(0)});
  for (int i = 0; i < 60; ++i) e = e * e + e;  // 2^60 occurrences as a tree
  const std::string text = PrintC(Store(DType::kF32, e, 64, true));
  CHECK(text.size() < 16000);
  CHECK(Count(text, "b0[") == 1);
}

TEST_CASE("depth of an expression is no limit") {
  Expr e = Expr::Load(0, DType::kF32, {Expr::Index(0)});
  for (int i = 0; i < 50000; ++i) e = e + Expr::Const(DType::kF32, i % 7 + 1);
  CHECK(Count(PrintC(Store(DType::kF32, e, 64, true)), "const f32 t") == 50001);
}

TEST_CASE("invariants leave loops, loads only loops that certainly run") {
  const auto sum = [&](SymInt extent) {
    return Expr::Reduce(ReduceOp::kSum, {extent}, [](const Indices& k) {
      return Expr::Load(0, DType::kF32, {k[0]}) * Expr::Load(0, DType::kF32, {Expr::Index(0)});
    });
  };
  const std::string known = PrintC(Store(DType::kF32, sum(8), 64, true));
  CHECK(known.find("b0[x") < known.find("for (i32 k"));
  Kernel k = Store(DType::kF32, Expr::Const(DType::kF32, 0), 64, true);
  k.num_symbols = 1;
  k.stores[0].value = sum(KernelSymbol(0));
  k.Finish();
  const std::string run_time = PrintC(k);
  CHECK(run_time.find("b0[x") > run_time.find("for (i32 k"));
}

TEST_CASE("index arithmetic is done in 32 bits where its range allows it") {
  const auto value = [](SymInt extent) {
    return Expr::Cast(DType::kF32, Expr::Binary(BinOp::kFloorDiv, Expr::Index(0) * Expr::Int(3),
                                                Expr::Dim(extent)));
  };
  CHECK(PrintC(Store(DType::kF32, value(100), 64, false)).find("(u32)") != std::string::npos);
  CHECK(PrintC(Store(DType::kF32, value(100), int64_t{1} << 31, false)).find("(u64)t") !=
        std::string::npos);
}

}  // namespace
}  // namespace weft
