#include <new>
#include <thread>

#include "test_kernels.h"
#include "weft/support/error.h"
#include "weft/support/request.h"

// Of LLVM's headers, which tests do not see.
namespace llvm {
[[noreturn]] void report_bad_alloc_error(const char* reason, bool crash = true);
[[noreturn]] void report_fatal_error(const char* reason, bool crash = true);
}  // namespace llvm

namespace weft::llvmgen {
namespace {

KernelPtr Scaled(double factor) {
  return Flat({DType::kF32}, DType::kF32, KernelSymbol(0),
              [&](const Exprs& x) { return x[0] * Expr::Const(DType::kF32, factor); });
}

TEST_CASE("objects are the same in every compilation, and one a kernel, in order") {
  const auto a = MakeLlvmCompiler(), b = MakeLlvmCompiler();
  CHECK(a->target() == b->target());
  CHECK(a->target().rfind("cpu:", 0) == 0);
  std::vector<KernelPtr> kernels;
  for (int i = 1; i <= 9; ++i) kernels.push_back(Scaled(i));
  std::vector<std::string> errors;
  const std::vector<std::string> objects = a->Compile(kernels, &errors);
  CHECK(objects == b->Compile(kernels, nullptr));
  REQUIRE(objects.size() == 9);
  for (size_t i = 0; i < 9; ++i) {
    CHECK(errors[i].empty());
    const CpuKernel code = LoadCpuKernel(*kernels[i], objects[i]);
    float in[3] = {1, 2, 3}, out[3] = {};
    void* buffers[] = {in, out};
    const int64_t n = 3;
    code.fn(buffers, &n, 0, 3, nullptr);
    CHECK(out[2] == 3 * float(i + 1));
    CHECK(code.binary_bytes == int64_t(objects[i].size()));
    CHECK(a->Stats(*kernels[i], objects[i]).binary_bytes == code.binary_bytes);
  }
  CHECK(a->Source(*kernels[0]).find(kernels[0]->Name()) != std::string::npos);
  CHECK(a->source_extension() == ".ll");
}

TEST_CASE("a code generator that has been used leaves no trace in the next object") {
  const KernelPtr polynomial = Flat({DType::kF32}, DType::kF32, 1000, [](const Exprs& x) {
    return Expr::Call(CallOp::kErf, {x[0]});
  });
  const KernelPtr convert = Flat({DType::kF64}, DType::kI8, KernelSymbol(0),
                                 [](const Exprs& x) { return Expr::Cast(DType::kI8, x[0]); });
  LlvmOptions options;
  options.threads = 1;
  const auto used = MakeLlvmCompiler(options);
  for (int round = 0; round < 3; ++round) {
    for (const KernelPtr& k : {Scaled(2), polynomial, convert}) {
      const std::string fresh = MakeLlvmCompiler(options)->Compile({k}, nullptr)[0];
      CHECK(!fresh.empty());
      CHECK(used->Compile({k}, nullptr)[0] == fresh);
    }
  }
}

TEST_CASE("outputs that never meet a cache line together, and ranges shorter than a vector") {
  for (const int64_t n : {1, 15, 16, 63, 64, 255, 256, 257, 1000, 4099}) {
    const Expr x = Expr::Load(0, DType::kF32, {Expr::Index(0)});
    const KernelPtr k =
        Lower({{DType::kF32, {n}}}, {{DType::kF32, {n}}, {DType::kBool, {n}}, {DType::kF64, {n}}},
              {x + x, Lt(Expr::Const(DType::kF32, 0), x), Expr::Cast(DType::kF64, x)});
    CheckKernel(k, RandomInputs(*k, {}, unsigned(n)));
  }
}

TEST_CASE("options that change the code change the target") {
  LlvmOptions narrow, never;
  narrow.vector_bits = 256;
  never.streaming_bytes = -1;
  const std::string host = MakeLlvmCompiler()->target();
  CHECK(MakeLlvmCompiler(narrow)->target() != host);
  CHECK(MakeLlvmCompiler(never)->target() != host);
  LlvmOptions unknown;
  unknown.cpu = "no-such-cpu";
  CHECK_THROWS_AS(MakeLlvmCompiler(unknown), Error);
  unknown.cpu = "x86-64";
  CHECK_THROWS_AS(MakeLlvmCompiler(unknown), Error);
  LlvmOptions odd;
  odd.vector_bits = 100;
  CHECK_THROWS_AS(MakeLlvmCompiler(odd), Error);
}

TEST_CASE("a damaged object is refused, and so is one of another kernel") {
  const KernelPtr a = Scaled(2), b = Scaled(3);
  const std::string object = CompileOne(Compiler(0), a);
  CHECK_THROWS_AS(LoadCpuKernel(*a, object.substr(0, object.size() / 2)), Error);
  CHECK_THROWS_AS(LoadCpuKernel(*a, "not an object"), Error);
  CHECK_THROWS_AS(LoadCpuKernel(*a, ""), Error);
  CHECK_THROWS_AS(LoadCpuKernel(*b, object), Error);
  CHECK(bool(LoadCpuKernel(*a, object).fn));
}

TEST_CASE("a kernel that cannot be generated leaves the others alone") {
  auto deep = std::make_shared<Kernel>();
  deep->buffers = {{DType::kF32, false, 1}, {DType::kF32, true, 1}};
  deep->num_inputs = 1;
  deep->dims.assign(40, 1);
  deep->num_outer = 40;
  deep->vector_loop = 39;
  deep->stores = {{1, Expr::Int(0), Expr::Load(0, DType::kF32, {Expr::Int(0)})}};
  deep->Finish();
  std::vector<std::string> errors;
  const std::vector<std::string> objects =
      Compiler(0).Compile({Scaled(1), deep, Scaled(2)}, &errors);
  CHECK(!objects[0].empty());
  CHECK(objects[1].empty());
  CHECK(errors[1].find("40 loops") != std::string::npos);
  CHECK(!objects[2].empty());
}

TEST_CASE("where LLVM would end the process it throws, and goes on with the next kernel") {
  MakeLlvmCompiler();
  CHECK_THROWS_AS(llvm::report_bad_alloc_error("asked for"), std::bad_alloc);
  CHECK_THROWS_WITH_AS(llvm::report_fatal_error("asked for"), doctest::Contains("asked for"),
                       Error);
  CHECK(!CompileOne(Compiler(0), Scaled(3)).empty());
}

TEST_CASE("a request that ends, ends a compilation, and is no error of a kernel") {
  LlvmOptions options;
  options.threads = 1;
  const auto compiler = MakeLlvmCompiler(options);
  CancelToken token;
  std::vector<std::string> errors;
  {
    const RequestScope scope(Limits(), &token);
    CHECK(compiler->Compile({Scaled(2), Scaled(3)}, &errors).size() == 2);
    token.Cancel();
    try {
      compiler->Compile({Scaled(2), Scaled(3)}, &errors);
      FAIL("went on");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kCancelled);
    }
  }
  CHECK_FALSE(compiler->Compile({Scaled(2)}, &errors)[0].empty());
}

TEST_CASE("long chains neither recurse nor take long") {
  const KernelPtr k = Flat({DType::kF32}, DType::kF32, KernelSymbol(0), [](const Exprs& x) {
    Expr e = x[0];
    for (int i = 0; i < 3000; ++i) e = (i % 2 ? e * x[0] : e + x[0]) * 0.5;
    return e;
  });
  CHECK(!CompileOne(Compiler(0), k).empty());
}

TEST_CASE("threads compile, load and run at once") {
  const auto compiler = MakeLlvmCompiler();
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const KernelPtr k = Scaled(100 * t + i + 1);
        const CpuKernel code = LoadCpuKernel(*k, compiler->Compile({k}, nullptr)[0]);
        float in = 1, out = 0;
        void* buffers[] = {&in, &out};
        const int64_t n = 1;
        code.fn(buffers, &n, 0, 1, nullptr);
        good[size_t(t)] += out == float(100 * t + i + 1);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (int g : good) CHECK(g == 10);
}

}  // namespace
}  // namespace weft::llvmgen
