/// repeated_test.cc: loads where neighbouring lanes read one element.
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/llvm/compiler/test_kernels.h"

namespace weft::llvmgen {
namespace {

Expr I(int k) { return Expr::Index(k); }
Expr N(int64_t v) { return Expr::Int(v); }
Expr Quotient(const Expr& a, int64_t b) { return Expr::Binary(BinOp::kFloorDiv, a, N(b)); }

/// out[i, j] = in[i, (j + shift) / repeat]
KernelPtr Repeated(DType t, int64_t rows, int64_t n, int64_t repeat, int64_t shift = 0) {
  const int64_t read = (n - 1 + shift) / repeat + 1;
  return Lower({{t, {rows, read}}}, {{t, {rows, n}}},
               {Expr::Load(0, t, {I(0), Quotient(I(1) + N(shift), repeat)})});
}

TEST_CASE("repeated loads: all types, repeats, lengths and first elements") {
  for (DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kI8, DType::kI64})
    for (int64_t repeat : {2, 3, 4, 5})  // 5: more than is read as one vector
      for (int64_t n : {1, 7, 33, 130}) {
        CAPTURE(repeat);
        CAPTURE(n);
        const KernelPtr k = Repeated(t, 3, n, repeat, n % 4);
        CheckKernel(k, RandomInputs(*k, {}, 31));
      }
}

TEST_CASE("repeated loads: symbolic lengths, where pieces begin anywhere in an element") {
  const SymInt n = SymInt::Symbol("n");
  const KernelPtr k = Lower({{DType::kF32, {n}}}, {{DType::kF32, {n * 3}}},
                            {Expr::Load(0, DType::kF32, {Quotient(I(0), 3)})});
  for (int64_t length : {0, 1, 5, 100, 1003})
    CheckKernel(k, RandomInputs(*k, {length}, 32), {length});
}

TEST_CASE("near misses of repeated loads: two quotients, a step of two, a quotient times two") {
  const auto check = [](const Expr& at, int64_t elements) {
    const KernelPtr k = Lower({{DType::kF32, {elements}}}, {{DType::kF32, {75}}},
                              {Expr::Load(0, DType::kF32, {at})});
    CheckKernel(k, RandomInputs(*k, {}, 33));
  };
  check(Quotient(I(0), 2) + Quotient(I(0), 3), 62);
  check(Quotient(I(0) * N(2), 4), 38);
  check(Quotient(I(0) * N(2), 3), 50);
  check(Quotient(I(0), 2) * N(2), 75);
  check(Quotient(I(0), 2) + I(0), 112);
  check(N(37) - Quotient(I(0), 2), 38);
}

TEST_CASE("a sum of more terms than are looked through is read all the same") {
  Expr many = Quotient(I(0), 2);
  for (int64_t k = 1; k <= 100; ++k) many = many + Expr::Load(1, DType::kI64, {N(k)});
  const KernelPtr k = Lower({{DType::kF32, {150}}, {DType::kI64, {101}}}, {{DType::kF32, {75}}},
                            {Expr::Load(0, DType::kF32, {many})});
  std::vector<Bytes> in = RandomInputs(*k, {}, 34);
  in[1].assign(in[1].size(), 0);
  in[1][8] = 1;  // the first of them
  CheckKernel(k, in);
}

TEST_CASE("repeated loads read nothing behind the last element") {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  void* memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* end = static_cast<unsigned char*>(memory) + page;
  REQUIRE(mprotect(end, page, PROT_NONE) == 0);
  for (int64_t repeat : {2, 3, 4})
    for (int64_t n : {2, 31, 64, 99, 128}) {
      const KernelPtr k = Repeated(DType::kF32, 1, n, repeat);
      const int64_t count = (n - 1) / repeat + 1;
      auto* x = reinterpret_cast<float*>(end) - count;
      for (int64_t i = 0; i < count; ++i) x[i] = float(i);
      std::vector<float> y(size_t(n), -1.0f);
      void* buffers[] = {x, y.data()};
      for (int c = 0; c < kNumCompilers; ++c) {
        const CpuKernel code = LoadCpuKernel(*k, CompileOne(Compiler(c), k));
        REQUIRE(bool(code.fn));
        code.fn(buffers, nullptr, 0, WorkItems(*k, {}), nullptr);
        for (int64_t i = 0; i < n; ++i) CHECK(y[size_t(i)] == float(i / repeat));
      }
    }
  munmap(memory, 2 * page);
}

}  // namespace
}  // namespace weft::llvmgen
