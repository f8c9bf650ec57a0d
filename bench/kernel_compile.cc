/// kernel_compile.cc: what a generated CPU kernel costs before it runs, by phase, and how fast it
/// runs then. Times are CPU time of the compiling thread, medians of RUNS; run time is wall time of
/// one thread, the minimum.
///
///   build/bin/bench_kernel_compile [RUNS [WORD]]   default 5; only kernels with WORD in their name
#include <llvm/Object/ObjectFile.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/llvm/compiler/llvm_compiler.h"
#include "codegen/llvm/compiler/module.h"
#include "codegen/llvm/object/object_writer.h"
#include "weft/codegen/lower/lower.h"

namespace {

using namespace weft;

Expr I(int k) { return Expr::Index(k); }
Expr L(int b, Indices at, DType t = DType::kF32) { return Expr::Load(b, t, std::move(at)); }
Expr F(double v) { return Expr::Const(DType::kF32, v); }
Expr C(CallOp op, Exprs args) { return Expr::Call(op, std::move(args)); }

struct Case {
  const char* name;
  KernelPtr kernel;
};

KernelPtr Lower(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs, Exprs values) {
  ComputeSpec spec;
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.values = std::move(values);
  return LowerKernel(spec, Facts()).kernel;
}

/// `value` over one element of each input.
KernelPtr Flat(const std::vector<DType>& inputs, DType output, int64_t n,
               const std::function<Expr(const Exprs&)>& value) {
  std::vector<TensorSpec> specs;
  Exprs loads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    specs.push_back({inputs[i], {n}});
    loads.push_back(L(int(i), {I(0)}, inputs[i]));
  }
  return Lower(specs, {{output, {n}}}, {value(loads)});
}

std::vector<Case> Cases() {
  const DType f32 = DType::kF32, bf16 = DType::kBF16, f16 = DType::kF16;
  const int64_t large = 16 << 20, n = 16 << 10, rows = 4096, columns = 1024;
  const auto call = [](CallOp op) { return [op](const Exprs& x) { return C(op, {x[0]}); }; };
  const auto cheap5 = [](const Exprs& x) {
    return Max((x[0] * F(1.5) + x[1]) * x[0] - x[1], F(0));
  };
  std::vector<Case> k;
  k.push_back({"copy 16M", Flat({f32}, f32, large, [](const Exprs& x) { return x[0]; })});
  k.push_back({"cheap5 16M", Flat({f32, f32}, f32, large, cheap5)});
  k.push_back({"cheap5 16K", Flat({f32, f32}, f32, n, cheap5)});
  k.push_back({"exp 16K", Flat({f32}, f32, n, call(CallOp::kExp))});
  k.push_back({"sigmoid*x 16K", Flat({f32}, f32, n, [](const Exprs& x) {
                 return C(CallOp::kSigmoid, {x[0]}) * x[0];
               })});
  k.push_back({"tanh 16K", Flat({f32}, f32, n, call(CallOp::kTanh))});
  k.push_back({"erf 16K", Flat({f32}, f32, n, call(CallOp::kErf))});
  k.push_back({"gelu 16K", Flat({f32}, f32, n, [](const Exprs& x) {
                 return x[0] * F(0.5) * (C(CallOp::kErf, {x[0] * F(0.70710678)}) + F(1));
               })});
  k.push_back({"pow 16K", Flat({f32}, f32, n, [](const Exprs& x) {
                 return C(CallOp::kPow, {x[0], F(1.7)});
               })});
  k.push_back({"pow x y 16K", Flat({f32, f32}, f32, n, [](const Exprs& x) {
                 return C(CallOp::kPow, {x[0], x[1]});
               })});
  k.push_back({"sin 16K", Flat({f32}, f32, n, call(CallOp::kSin))});
  k.push_back({"log f64 16K", Flat({DType::kF64}, DType::kF64, n, call(CallOp::kLog))});
  k.push_back({"chain8 16K", Flat({f32, f32, f32}, f32, n, [](const Exprs& x) {
                 const Expr t = C(CallOp::kSigmoid, {x[0] * x[1] + x[2]}) * x[0] - x[2];
                 return Max(C(CallOp::kTanh, {t}) + x[0], F(0));
               })});
  k.push_back({"bf16 add 16K", Flat({bf16, bf16}, bf16, n, [](const Exprs& x) {
                 return Expr::Cast(DType::kBF16, x[0] + x[1]);
               })});
  k.push_back({"f16 add 16K", Flat({f16, f16}, f16, n, [](const Exprs& x) {
                 return Expr::Cast(DType::kF16, x[0] + x[1]);
               })});
  k.push_back({"u8->f32 16K", Flat({DType::kU8}, f32, n, [](const Exprs& x) {
                 return Expr::Cast(DType::kF32, x[0]) * F(1 / 255.);
               })});

  const TensorSpec matrix{f32, {rows, columns}}, vector{f32, {columns}};
  k.push_back({"bias relu 4096x1024",
               Lower({matrix, vector}, {matrix}, {Max(L(0, {I(0), I(1)}) + L(1, {I(1)}), F(0))})});
  k.push_back(
      {"transpose 512x512", Lower({{f32, {512, 512}}}, {{f32, {512, 512}}}, {L(0, {I(1), I(0)})})});
  const auto reduce = [](ReduceOp op, SymInt extent, const std::function<Expr(const Expr&)>& body) {
    return Expr::Reduce(op, {extent}, [&](const Indices& r) { return body(r[0]); });
  };
  const auto x = [](const Expr& r) { return L(0, {I(0), r}); };
  const Expr m = reduce(ReduceOp::kMax, columns, x);
  const auto e = [&](const Expr& r) { return C(CallOp::kExp, {x(r) - m}); };
  k.push_back({"soft-max 4096x1024",
               Lower({matrix}, {matrix}, {e(I(1)) / reduce(ReduceOp::kSum, columns, e)})});
  const Expr mean = reduce(ReduceOp::kSum, columns, x) * F(1. / columns);
  const auto square = [&](const Expr& r) { return (x(r) - mean) * (x(r) - mean); };
  const Expr scale = C(CallOp::kRsqrt, {reduce(ReduceOp::kSum, columns, square) * F(1. / columns) +
                                        Expr::Const(f32, 1e-5)});
  k.push_back(
      {"layer-norm 4096x1024", Lower({matrix, vector, vector}, {matrix},
                                     {(x(I(1)) - mean) * scale * L(1, {I(1)}) + L(2, {I(1)})})});
  k.push_back({"row sum 4096x1024",
               Lower({matrix}, {{f32, {rows}}}, {reduce(ReduceOp::kSum, columns, x)})});
  k.push_back({"column sum 4096x1024",
               Lower({matrix}, {vector}, {reduce(ReduceOp::kSum, rows, [](const Expr& r) {
                       return L(0, {r, I(0)});
                     })})});
  k.push_back({"argmax 4096x1024",
               Lower({matrix}, {{DType::kI64, {rows}}}, {reduce(ReduceOp::kArgMax, columns, x)})});
  k.push_back({"max pool 2x2 64x112x112",
               Lower({{f32, {64, 112, 112}}}, {{f32, {64, 56, 56}}},
                     {Expr::Reduce(ReduceOp::kMax, {SymInt(2), SymInt(2)}, [](const Indices& r) {
                       return L(0, {I(0), I(1) * Expr::Int(2) + r[0], I(2) * Expr::Int(2) + r[1]});
                     })})});
  return k;
}

double Now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}
double CpuMilliseconds(const std::function<void()>& f) {
  const double start = Now(CLOCK_THREAD_CPUTIME_ID);
  f();
  return Now(CLOCK_THREAD_CPUTIME_ID) - start;
}
double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Bytes of instructions in an object.
size_t CodeBytes(const std::string& object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return 0;
  }
  size_t bytes = 0;
  for (const auto& section : (*file)->sections()) {
    if (section.isText()) bytes += section.getSize();
  }
  return bytes;
}

/// Nanoseconds an element of the loop nest, one thread, the best of many.
double RunTime(const Kernel& k, const CpuKernel& code) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<void, Free>> memory;
  std::vector<void*> pointers;
  double bytes = 0, elements = 1;
  const auto allocate = [&](int64_t size) {
    memory.emplace_back(std::aligned_alloc(64, size_t(size + 127) / 64 * 64));
    return memory.back().get();
  };
  for (const KernelBuffer& b : k.buffers) {
    const int64_t size = b.num_elements.value() * DTypeBytes(b.dtype, 1);
    void* p = allocate(size);
    // Numbers between 0 and 2 in every float format.
    std::memset(p, 0x3e, size_t(size));
    pointers.push_back(p);
    bytes += double(size);
  }
  void* scratch = allocate((code.fn ? code.scratch_bytes : code.shared_bytes).value());
  int64_t items = 1;
  for (size_t i = 0; i < k.dims.size(); ++i) {
    elements *= double(k.dims[i].value());
    if (int(i) < k.num_outer) items *= k.dims[i].value();
  }
  double best = 1e9;
  const int repeats = bytes < 1e6 ? 2000 : 20;
  for (int r = 0; r < repeats; ++r) {
    const double start = Now(CLOCK_MONOTONIC);
    if (code.fn) {
      code.fn(pointers.data(), nullptr, 0, items, scratch);
    } else {
      for (const CpuPhase& phase : code.phases)
        phase.fn(pointers.data(), nullptr, 0, phase.items.value(), scratch);
    }
    best = std::min(best, Now(CLOCK_MONOTONIC) - start);
  }
  return best * 1e6 / elements;
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const std::string word = argc > 2 ? argv[2] : "";
  const llvmgen::CpuTarget target = llvmgen::MakeCpuTarget({});
  std::unique_ptr<llvmgen::ObjectWriter> writer;
  const double setup =
      CpuMilliseconds([&] { writer = std::make_unique<llvmgen::ObjectWriter>(target); });
  std::printf("target %s; code generator and passes, once a thread: %.2f ms\n", target.name.c_str(),
              setup);
  std::printf("%-26s %7s %7s %7s %7s   %6s %6s   %s\n", "CPU ms", "IR", "codegen", "load", "all",
              "source", "code", "ns/element");
  double worst = 0;
  for (const Case& c : Cases()) {
    if (std::string(c.name).find(word) == std::string::npos) continue;
    std::vector<double> build, generate, load, all;
    std::string object;
    CpuKernel code;
    // The first round meets cold caches and is not counted.
    for (int r = 0; r <= runs; ++r) {
      double phases[3];
      const double total = CpuMilliseconds([&] {
        llvm::LLVMContext context;
        context.setDiscardValueNames(true);
        std::unique_ptr<llvm::Module> module;
        phases[0] = CpuMilliseconds(
            [&] { module = llvmgen::BuildModule(*c.kernel, target, writer->machine(), context); });
        phases[1] = CpuMilliseconds([&] { object = writer->Write(*module); });
      });
      phases[2] = CpuMilliseconds([&] { code = LoadCpuKernel(*c.kernel, object); });
      if (r == 0) continue;
      build.push_back(phases[0]);
      generate.push_back(phases[1]);
      load.push_back(phases[2]);
      all.push_back(total + phases[2]);
    }
    worst = std::max(worst, Median(all));
    std::printf("%-26s %7.2f %7.2f %7.2f %7.2f   %6zu %6zu   %.4f\n", c.name, Median(build),
                Median(generate), Median(load), Median(all), c.kernel->CanonicalText().size(),
                CodeBytes(object), RunTime(*c.kernel, code));
    std::fflush(stdout);
  }
  std::printf("slowest %.2f ms\n", worst);
  return 0;
}
