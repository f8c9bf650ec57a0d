/// test_kernels.h: compiles, runs and checks kernels against the oracle, on several targets and
/// random work splits.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernel_oracle.h"
#include "llvm_compiler.h"
#include "weft/codegen/lower/lower.h"

namespace weft::llvmgen {

inline KernelCompiler& Compiler(int which) {
  static const auto make = [](const char* cpu, int bits, int64_t streaming, int64_t split) {
    LlvmOptions o;
    o.cpu = cpu;
    o.vector_bits = bits;
    o.streaming_bytes = streaming;
    o.split_bytes = split;
    o.verify = true;
    return MakeLlvmCompiler(o);
  };
  static const std::unique_ptr<KernelCompiler> compilers[] = {
      make("", 0, int64_t{16} << 20, int64_t{256} << 10), make("x86-64-v3", 256, -1, 0),
      make("", 0, 0, 0), make("", 256, -1, int64_t{256} << 10)};
  return *compilers[which];
}
inline constexpr int kNumCompilers = 4;

inline std::string CompileOne(KernelCompiler& c, const KernelPtr& k) {
  std::vector<std::string> errors;
  std::string object = c.Compile({k}, &errors)[0];
  CHECK_MESSAGE(errors[0].empty(), errors[0]);
  return object;
}

struct Aligned {
  explicit Aligned(size_t bytes) : p(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {}
  ~Aligned() { std::free(p); }
  Aligned(const Aligned&) = delete;
  void* p;
};

/// Random bytes of values that exercise a dtype: special floats, extreme integers.
inline Bytes RandomInput(DType t, int64_t count, std::mt19937& rng, double lo = -4, double hi = 4) {
  Bytes b(size_t(count) * size_t(ElementBytes(t)));
  std::uniform_real_distribution<double> uniform(lo, hi);
  for (int64_t i = 0; i < count; ++i) {
    Scalar s;
    if (IsFloat(t))
      s.f = uniform(rng);
    else if (t == DType::kBool)
      s.i = int64_t(rng() & 1);
    else
      s.i = scalar::Normalize(t, int64_t(std::floor(uniform(rng))));
    WriteElement(t, s, &b[size_t(i) * size_t(ElementBytes(t))]);
  }
  return b;
}

/// Values of all extents: those of the kernel, then those that its code names.
inline SymBindings Extents(const std::vector<int64_t>& symbols, const CpuKernel& code = {}) {
  SymBindings bindings;
  const auto next = [&]() -> int64_t& {
    return bindings[KernelSymbol(int(bindings.size())).symbol_name()];
  };
  for (int64_t v : symbols) next() = v;
  for (SymInt definition : code.named) {
    const int64_t v = Evaluate(definition, bindings);
    next() = v;
  }
  return bindings;
}

inline std::vector<Bytes> RandomInputs(const Kernel& k, const std::vector<int64_t>& symbols,
                                       unsigned seed, double lo = -4, double hi = 4) {
  const SymBindings bindings = Extents(symbols);
  std::mt19937 rng(seed);
  std::vector<Bytes> inputs;
  for (int b = 0; b < k.num_inputs; ++b)
    inputs.push_back(RandomInput(k.buffers[size_t(b)].dtype,
                                 Evaluate(k.buffers[size_t(b)].num_elements, bindings), rng, lo,
                                 hi));
  return inputs;
}

inline int64_t WorkItems(const Kernel& k, const SymBindings& bindings) {
  int64_t n = 1;
  for (int i = 0; i < k.num_outer; ++i) n *= Evaluate(k.dims[size_t(i)], bindings);
  return n;
}

/// [0, n) in so many pieces, some of them empty.
inline std::vector<int64_t> RandomCuts(int64_t n, int pieces, std::mt19937& rng) {
  std::vector<int64_t> cuts{0, n};
  for (int i = 1; i < pieces; ++i) cuts.push_back(n > 0 ? int64_t(rng() % uint64_t(n + 1)) : 0);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// Runs everything: by `fn`, or phase after phase. Pieces go last to first: none may need another.
inline void RunKernel(const CpuKernel& code, bool phased, int64_t total, int pieces,
                      void* const* buffers, const std::vector<int64_t>& symbols,
                      std::mt19937& rng) {
  const SymBindings bindings = Extents(symbols, code);
  const auto run = [&](CpuKernelFn fn, int64_t items, void* scratch) {
    const std::vector<int64_t> cuts = RandomCuts(items, pieces, rng);
    for (size_t i = cuts.size() - 1; i-- > 0;)
      fn(buffers, symbols.data(), cuts[i], cuts[i + 1], scratch);
  };
  const SymInt bytes = phased ? code.shared_bytes : code.scratch_bytes;
  Aligned scratch(size_t(Evaluate(bytes, bindings)));
  if (!phased) run(code.fn, total, scratch.p);
  for (size_t k = 0; phased && k < code.phases.size(); ++k)
    run(code.phases[k].fn, Evaluate(code.phases[k].items, bindings), scratch.p);
}

/// Runs the kernel on every target, in random pieces, and compares with the oracle: exactly, or
/// within `ulps` of the output type relative to max(1, |x|).
inline void CheckKernel(const KernelPtr& k, const std::vector<Bytes>& inputs,
                        const std::vector<int64_t>& symbols = {}, double ulps = 0) {
  const SymBindings bindings = Extents(symbols);
  const std::vector<Bytes> expected = KernelOracle(*k, inputs, symbols).Run();
  const int64_t total = WorkItems(*k, bindings);
  std::mt19937 rng(7);
  for (int c = 0; c < kNumCompilers; ++c) {
    const std::string object = CompileOne(Compiler(c), k);
    if (object.empty()) continue;
    const CpuKernel code = LoadCpuKernel(*k, object);
    std::vector<int> ways;  // pieces, those of phases negative
    if (code.fn) ways = {1, 3};
    if (!code.phases.empty()) ways.insert(ways.end(), {-1, -3});
    REQUIRE(!ways.empty());
    for (int pieces : ways) {
      const bool phased = pieces < 0;
      std::vector<std::unique_ptr<Aligned>> memory;
      std::vector<void*> pointers;
      for (size_t b = 0; b < expected.size(); ++b) {
        memory.push_back(std::make_unique<Aligned>(expected[b].size() + 64));
        // Odd element offsets in the second round: nothing may rely on alignment beyond the
        // element's.
        auto* p = static_cast<unsigned char*>(memory.back()->p) +
                  (std::abs(pieces) == 1 ? 0 : ElementBytes(k->buffers[b].dtype));
        if (b < inputs.size())
          std::copy(inputs[b].begin(), inputs[b].end(), p);
        else
          std::fill(p, p + expected[b].size() + 32, uint8_t(0xab));
        if (k->has_flag() && b + 1 == expected.size()) *p = 0;
        pointers.push_back(p);
      }
      RunKernel(code, phased, total, std::abs(pieces), pointers.data(), symbols, rng);
      for (size_t b = inputs.size(); b < expected.size(); ++b) {
        const DType t = k->buffers[b].dtype;
        const size_t size = size_t(ElementBytes(t));
        const double eps = 2 * LimitsOf(t).roundoff;
        int wrong = 0;
        for (size_t i = 0; i < expected[b].size() / size && wrong < 3; ++i) {
          const Scalar want = ReadElement(t, &expected[b][i * size]);
          const Scalar got = ReadElement(t, static_cast<unsigned char*>(pointers[b]) + i * size);
          const bool same =
              IsFloat(t)
                  ? got.f == want.f || (std::isnan(got.f) && std::isnan(want.f)) ||
                        std::fabs(got.f - want.f) <= ulps * eps * std::max(1.0, std::fabs(want.f))
                  : got.i == want.i;
          if (same) continue;
          ++wrong;
          CHECK_MESSAGE(same, "target ", c, " pieces ", pieces, " output ", b, " element ", i,
                        ": got ", IsFloat(t) ? got.f : double(got.i), ", expected ",
                        IsFloat(t) ? want.f : double(want.i), "\n", k->CanonicalText());
        }
        const auto* after = static_cast<unsigned char*>(pointers[b]) + expected[b].size();
        CHECK(std::all_of(after, after + 32, [](unsigned char x) { return x == 0xab; }));
      }
    }
  }
}

/// The range flag after a run on the first target.
inline bool RunFlag(const KernelPtr& k, const std::vector<Bytes>& inputs,
                    const std::vector<int64_t>& symbols = {}) {
  REQUIRE(k->has_flag());
  const std::string object = CompileOne(Compiler(0), k);
  const CpuKernel code = LoadCpuKernel(*k, object);
  const SymBindings bindings = Extents(symbols, code);
  Aligned scratch(size_t(Evaluate(code.scratch_bytes, bindings)));
  std::vector<Bytes> memory = KernelOracle(*k, inputs, symbols).Run();
  std::vector<void*> pointers;
  for (Bytes& b : memory) pointers.push_back(b.data());
  memory.back()[0] = 0;
  code.fn(pointers.data(), symbols.data(), 0, WorkItems(*k, bindings), scratch.p);
  return memory.back()[0] != 0;
}

/// Lowers expressions over Index(0..) and Load(input, {indices}) to a kernel.
inline KernelPtr Lower(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                       Exprs values) {
  ComputeSpec spec;
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.values = std::move(values);
  return LowerKernel(spec, Facts()).kernel;
}

/// A one-loop kernel made by hand: `value` over loads of all inputs at Index(0).
inline KernelPtr Flat(const std::vector<DType>& inputs, DType output, SymInt n,
                      const std::function<Expr(const Exprs&)>& value) {
  auto k = std::make_shared<Kernel>();
  Exprs loads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    k->buffers.push_back({inputs[i], false, n});
    loads.push_back(Expr::Load(int(i), inputs[i], {Expr::Index(0)}));
  }
  k->buffers.push_back({output, true, n});
  k->num_inputs = int(inputs.size());
  k->dims = {n};
  k->num_outer = 1;
  k->vector_loop = 0;
  k->num_symbols = int(n.Symbols().size());
  k->stores = {{int(inputs.size()), Expr::Index(0), value(loads), false}};
  k->Finish();
  return k;
}

}  // namespace weft::llvmgen
