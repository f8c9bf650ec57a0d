/// Prints what compiling and running typical kernels costs; asserts nothing about time.
#include <time.h>

#include <chrono>
#include <cstdio>

#include "codegen/llvm/test_kernels.h"

namespace weft::llvmgen {
namespace {

Expr I(int k) { return Expr::Index(k); }
Expr L(int b, Indices at, DType t = DType::kF32) { return Expr::Load(b, t, std::move(at)); }

double Seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Time on the processor of this thread: other work on the machine does not count.
double CpuSeconds(const std::function<void()>& f) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
  };
  const double start = now();
  f();
  return now() - start;
}

struct Row {
  const char* name;
  KernelPtr kernel;
};

std::vector<Row> Kernels() {
  const auto f = [](double v) { return Expr::Const(DType::kF32, v); };
  const int64_t n = 16 << 20, small = 16 << 10, rows = 4096, columns = 1024;
  std::vector<Row> k;
  const auto cheap = [&](const Exprs& x) {
    return Max((x[0] * f(1.5) + x[1]) * x[0] - x[1], f(0));
  };
  k.push_back(
      {"copy 16M", Flat({DType::kF32}, DType::kF32, n, [](const Exprs& x) { return x[0]; })});
  k.push_back({"cheap5 16M", Flat({DType::kF32, DType::kF32}, DType::kF32, n, cheap)});
  k.push_back({"cheap5 16K", Flat({DType::kF32, DType::kF32}, DType::kF32, small, cheap)});
  k.push_back({"exp 16K", Flat({DType::kF32}, DType::kF32, small,
                               [](const Exprs& x) { return Expr::Call(CallOp::kExp, {x[0]}); })});
  k.push_back({"sigmoid*x 16K", Flat({DType::kF32}, DType::kF32, small, [](const Exprs& x) {
                 return Expr::Call(CallOp::kSigmoid, {x[0]}) * x[0];
               })});
  k.push_back({"tanh 16K", Flat({DType::kF32}, DType::kF32, small,
                                [](const Exprs& x) { return Expr::Call(CallOp::kTanh, {x[0]}); })});
  k.push_back({"erf 16K", Flat({DType::kF32}, DType::kF32, small,
                               [](const Exprs& x) { return Expr::Call(CallOp::kErf, {x[0]}); })});
  k.push_back({"pow 16K", Flat({DType::kF32}, DType::kF32, small, [&](const Exprs& x) {
                 return Expr::Call(CallOp::kPow, {x[0], f(1.7)});
               })});
  k.push_back(
      {"bf16 add 16K", Flat({DType::kBF16, DType::kBF16}, DType::kBF16, small,
                            [](const Exprs& x) { return Expr::Cast(DType::kBF16, x[0] + x[1]); })});
  k.push_back(
      {"f16 add 16K", Flat({DType::kF16, DType::kF16}, DType::kF16, small,
                           [](const Exprs& x) { return Expr::Cast(DType::kF16, x[0] + x[1]); })});
  k.push_back({"u8->f32 16K", Flat({DType::kU8}, DType::kF32, small, [&](const Exprs& x) {
                 return Expr::Cast(DType::kF32, x[0]) * f(1 / 255.);
               })});
  const std::vector<TensorSpec> matrix{{DType::kF32, {rows, columns}}};
  k.push_back({"bias relu 4096x1024", Lower({matrix[0], {DType::kF32, {columns}}}, matrix,
                                            {Max(L(0, {I(0), I(1)}) + L(1, {I(1)}), f(0))})});
  k.push_back({"transpose 512x512", Lower({{DType::kF32, {512, 512}}}, {{DType::kF32, {512, 512}}},
                                          {L(0, {I(1), I(0)})})});
  const auto sum = [](SymInt n, const std::function<Expr(const Expr&)>& body) {
    return Expr::Reduce(ReduceOp::kSum, {n}, [&](const Indices& r) { return body(r[0]); });
  };
  const auto x = [&](const Expr& r) { return L(0, {I(0), r}); };
  const Expr m =
      Expr::Reduce(ReduceOp::kMax, {SymInt(columns)}, [&](const Indices& r) { return x(r[0]); });
  const auto e = [&](const Expr& r) { return Expr::Call(CallOp::kExp, {x(r) - m}); };
  k.push_back({"soft-max 4096x1024", Lower(matrix, matrix, {e(I(1)) / sum(columns, e)})});
  const Expr mean = sum(columns, x) * f(1. / columns);
  const Expr var =
      sum(columns, [&](const Expr& r) { return (x(r) - mean) * (x(r) - mean); }) * f(1. / columns);
  k.push_back({"layer-norm 4096x1024",
               Lower({matrix[0], {DType::kF32, {columns}}, {DType::kF32, {columns}}}, matrix,
                     {(x(I(1)) - mean) * Expr::Call(CallOp::kRsqrt, {var + 1e-5}) * L(1, {I(1)}) +
                      L(2, {I(1)})})});
  k.push_back({"row sum 4096x1024", Lower(matrix, {{DType::kF32, {rows}}}, {sum(columns, x)})});
  k.push_back({"column sum 4096x1024",
               Lower(matrix, {{DType::kF32, {columns}}}, {sum(rows, [](const Expr& r) {
                       return L(0, {r, I(0)});
                     })})});
  k.push_back(
      {"argmax 4096x1024", Lower(matrix, {{DType::kI64, {rows}}},
                                 {Expr::Reduce(ReduceOp::kArgMax, {SymInt(columns)},
                                               [&](const Indices& r) { return x(r[0]); })})});
  k.push_back({"max pool 2x2 64x112x112",
               Lower({{DType::kF32, {64, 112, 112}}}, {{DType::kF32, {64, 56, 56}}},
                     {Expr::Reduce(ReduceOp::kMax, {SymInt(2), SymInt(2)}, [&](const Indices& r) {
                       return L(0, {I(0), I(1) * Expr::Int(2) + r[0], I(2) * Expr::Int(2) + r[1]});
                     })})});
  return k;
}

TEST_CASE("cost of typical kernels") {
  const std::vector<Row> kernels = Kernels();
  KernelCompiler& compiler = *[] {
    static const std::unique_ptr<KernelCompiler> c = MakeLlvmCompiler();
    return c.get();
  }();
  std::vector<KernelPtr> all;
  for (const Row& r : kernels) all.push_back(r.kernel);
  compiler.Compile({all[0]}, nullptr);
  std::vector<std::string> objects;
  const double batch = Seconds([&] { objects = compiler.Compile(all, nullptr); });
  std::printf("target %s, %zu kernels in %.1f ms on two threads\n", compiler.target().c_str(),
              all.size(), batch * 1e3);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& k = *kernels[i].kernel;
    double compile = 1e9;
    for (int r = 0; r < 3; ++r)
      compile = std::min(compile, CpuSeconds([&] { compiler.Compile({all[i]}, nullptr); }));
    CpuKernel code;
    const double load = Seconds([&] { code = LoadCpuKernel(k, objects[i]); });
    std::vector<Bytes> inputs = RandomInputs(k, {}, 1, 0.1, 4);
    double bytes = 0;
    std::vector<std::unique_ptr<Aligned>> memory;
    std::vector<void*> pointers;
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      const size_t size =
          size_t(k.buffers[b].num_elements.value()) * size_t(ElementBytes(k.buffers[b].dtype));
      bytes += double(size);
      memory.push_back(std::make_unique<Aligned>(size));
      std::memset(memory.back()->p, 0, size);
      if (b < inputs.size()) std::memcpy(memory.back()->p, inputs[b].data(), size);
      pointers.push_back(memory.back()->p);
    }
    Aligned scratch(size_t(code.scratch_bytes.value()));
    const int64_t items = WorkItems(k, {});
    double best = 1e9;
    const int repeats = bytes < 1e6 ? 300 : 8;
    for (int r = 0; r < repeats; ++r)
      best =
          std::min(best, Seconds([&] { code.fn(pointers.data(), nullptr, 0, items, scratch.p); }));
    double elements = 1;
    for (SymInt d : k.dims) elements *= double(d.value());
    std::printf("%-26s compile %5.2f ms, load %4.2f ms, %6zu bytes, %7.3f ns/element, %6.1f GB/s\n",
                kernels[i].name, compile * 1e3, load * 1e3, objects[i].size(),
                best * 1e9 / elements, bytes / best * 1e-9);
  }
}

}  // namespace
}  // namespace weft::llvmgen
